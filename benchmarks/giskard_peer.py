"""giskard's scan of a table, run by an interpreter of its own: it needs an older NumPy than ours.

    PYTHON giskard_peer.py TABLE.csv LABEL

Fits the logistic regression of the benchmark on the table, scans it, and prints one line of JSON:
processor seconds of every scan alone, issues found, version. Imports nothing of ours.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

TURNS = 3


def main(path: str, label: str) -> None:
    import giskard
    import pandas as pd
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    warnings.simplefilter("ignore")
    table = pd.read_csv(path)
    table = table.astype({c: object for c in table if table[c].dtype.kind not in "iuf"})
    X = table.drop(columns=label)
    words = [c for c in X if X[c].dtype == object]
    fitted = make_pipeline(
        make_column_transformer(
            (StandardScaler(), make_column_selector(dtype_include="number")),
            (OneHotEncoder(handle_unknown="ignore"), words),
        ),
        LogisticRegression(max_iter=2000),
    ).fit(X, table[label])
    data = giskard.Dataset(table, target=label, cat_columns=words)
    model = giskard.Model(
        fitted.predict_proba, model_type="classification", feature_names=list(X.columns),
        classification_labels=fitted.classes_.tolist(),
    )  # fmt: skip
    spent = []
    for _ in range(TURNS):
        start = time.process_time()
        found = giskard.scan(model, data, verbose=False)
        spent.append(time.process_time() - start)
    told = {"seconds": spent, "issues": len(found.issues), "version": giskard.__version__}
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
