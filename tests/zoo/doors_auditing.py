"""Doors of counterplay.auditing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from counterplay.auditing import audit
from counterplay.auditing.config_text import config_text
from counterplay.auditing.guess import guess_table
from counterplay.tables import Labels, Table

from .animals import frame, labels

MODEL = LogisticRegression().fit(frame(), labels())
_TIMES = 6  # the zoo is small, an audit needs a hundred rows


def _rows(X: Any, y: Any) -> pd.DataFrame:
    """The table with its outcome, several times."""
    table = Table.of(X, y)
    held = table.frame()
    names = list(held.columns) if table.names or table.width != 3 else ["income", "debt", "age"]
    held = held.set_axis([str(name) for name in names], axis=1)
    part = held.assign(outcome=Labels.of(y).values)
    return pd.concat([part] * _TIMES, ignore_index=True)


def _audited(X: Any, y: Any) -> Any:
    rows = _rows(X, y)
    wanted = np.unique(Labels.of(y).values.astype(str))[-1]
    found = audit(MODEL, rows, label="outcome", positive=wanted, sections=["honest"])
    return {name: (q.value, q.low, q.high) for name, q in found.quantities.items()}


DOORS = {
    "audit": _audited,
    "audit:init": lambda X, y: config_text(_rows(X, y), guess_table(_rows(X, y))),
}
NOT_TABLES = {"Context": "made by audit from what it has read"}
