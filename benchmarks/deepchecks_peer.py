"""deepchecks' full suite on a table, run by an interpreter of its own: it needs older packages.

    PYTHON deepchecks_peer.py TABLE.csv LABEL

Fits the logistic regression of the benchmark on half of the table, runs the suite on both halves,
and prints one line of JSON: processor seconds of every run of the suite alone, conditions that
fail, version. Imports nothing of ours.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

TURNS = 3


def main(path: str, label: str) -> None:
    import deepchecks
    import pandas as pd
    from deepchecks.tabular import Dataset
    from deepchecks.tabular.suites import full_suite
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    warnings.simplefilter("ignore")
    table = pd.read_csv(path)
    words = [c for c in table if table[c].dtype.kind not in "iuf" and c != label]
    halves = table.iloc[::2], table.iloc[1::2]
    model = make_pipeline(
        make_column_transformer(
            (StandardScaler(), make_column_selector(dtype_include="number")),
            (OneHotEncoder(handle_unknown="ignore"), words),
        ),
        LogisticRegression(max_iter=2000),
    ).fit(halves[0].drop(columns=label), halves[0][label])
    train, test = (Dataset(half, label=label, cat_features=words) for half in halves)
    spent = []
    for _ in range(TURNS):
        start = time.process_time()
        found = full_suite().run(train, test, model)
        spent.append(time.process_time() - start)
    issues = len(found.get_not_passed_checks())
    print(json.dumps({"seconds": spent, "issues": issues, "version": deepchecks.__version__}))


if __name__ == "__main__":
    main(*sys.argv[1:])
