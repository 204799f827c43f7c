"""What the door costs: canonical hashing of rows against the two ways people have today.

One run, ratios only. `pandas.util.hash_pandas_object` is fast but not keyed, not collision-safe and
depends on dtypes; `joblib.hash` row by row is what one writes without a library.
"""

from __future__ import annotations

import joblib
import numpy as np
import pandas as pd
from ledger import compare, timed
from sklearn.linear_model import LogisticRegression

from counterplay.tables import FittedModel, Schema
from counterplay.tables.encoding import encode_rows, row_digests


def people(n: int) -> pd.DataFrame:
    """A table with numbers, a category and a text."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 8)), columns=[f"c{j}" for j in range(8)])
    frame["city"] = pd.Categorical(rng.choice(["Bonn", "Ulm", "Jena"], n))
    frame["job"] = rng.choice(["clerk", "nurse", "smith"], n)
    return frame


def main() -> None:
    """Record the comparisons."""
    frame = people(100_000)
    schema = Schema.infer(frame.iloc[:1000])
    ours = timed(lambda: row_digests(encode_rows(schema.cast(frame))), 3)
    vector = timed(lambda: pd.util.hash_pandas_object(frame, index=False), 3)
    part = frame.iloc[:2000]
    rows = timed(lambda: [joblib.hash(row) for row in part.itertuples(index=False, name=None)])
    what = "canonical and keyed hashes of 100,000 rows of 10 columns"
    compare("tables", what, ours, rows.each(1 / 50), against="joblib.hash row by row",
            package="joblib", note="extrapolated from 2,000 rows")  # fmt: skip
    compare("tables", what, ours, vector, against="hash_pandas_object", package="pandas",
            note="theirs has no key and depends on the dtypes")  # fmt: skip
    numbers = frame[[f"c{j}" for j in range(8)]]
    model = LogisticRegression().fit(numbers.iloc[:1000], np.arange(1000) % 2)
    fitted = FittedModel.of(model)
    turned = numbers[numbers.columns[::-1]]
    plain = timed(lambda: model.predict(numbers), 3)
    door = timed(lambda: fitted.predict(fitted.table(turned)), 3)
    compare("tables", "100,000 predictions through the door, columns in another order", door,
            plain, against="predict alone", package="scikit-learn")  # fmt: skip


if __name__ == "__main__":
    main()
