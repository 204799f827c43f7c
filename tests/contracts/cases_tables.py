"""Contract cases of counterplay.tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from counterplay.tables import (
    FittedModel,
    Labels,
    Schema,
    Table,
    fingerprint,
    hash_blocks,
    read_table,
)


def frame() -> pd.DataFrame:
    return pd.DataFrame({"debt": [1.0, 2.0], "city": ["Bonn", None]}, index=["ann", "bob"])


def model() -> LogisticRegression:
    return LogisticRegression().fit(frame()[["debt"]], [0, 1])


SCHEMA = {"container": "table", "columns": [{"name": "debt", "kind": "number"}]}

CASES = {
    "Table": {
        "make": lambda: Table.of(frame(), [0, 1]),
        "run": lambda table: (table.kinds, table.missing, table.labels.codes),
        "bad": {"nothing": lambda: Table.of(None)},
        "no_frame": "it is the table itself",
    },
    "Labels": {
        "make": lambda: Labels.of(["no", "yes", "no"]),
        "run": lambda labels: (labels.wanted("yes"), labels.counts),
        "bad": {"no answer": lambda: Labels.of(["a", "b"]).wanted()},
    },
    "FittedModel": {
        "make": lambda: FittedModel.of(model()),
        "run": lambda fitted: fitted.predict(fitted.table(frame()[["debt"]])),
        "bad": {"no model": lambda: FittedModel.of(3)},
    },
    "Schema": {
        "make": lambda: Schema.infer(frame()),
        "run": lambda schema: schema.to_dict(),
        "bad": {"no schema": lambda: Schema.from_dict({"container": "heap"})},
        "no_frame": "a schema has no rows",
    },
    "Fingerprint": {"make": lambda: fingerprint(frame())},
    "TableFile": {
        "no_case": "made by read_table from a file; tests/tables/test_files.py",
        "no_example": "see read_table",
    },
    "fingerprint": {"args": {"X": frame()}, "bad": {"nothing": lambda: fingerprint(None)}},
    "hash_blocks": {
        "args": {"X": np.eye(3), "n_blocks": 2},
        "bad": {"no blocks": lambda: hash_blocks(np.eye(3), 0)},
    },
    "read_table": {
        "no_case": "reads a file; tests/tables/test_files.py",
        "bad": {"no file": lambda: read_table("nowhere.csv")},
    },
}
