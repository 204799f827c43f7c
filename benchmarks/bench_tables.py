"""What the door costs: canonical hashing of rows against the two ways people have today.

One run, ratios only. `pandas.util.hash_pandas_object` is fast but not keyed, not collision-safe and
depends on dtypes; `joblib.hash` row by row is what one writes without a library.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import joblib
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from counterplay.tables import FittedModel, Schema
from counterplay.tables.encoding import encode_rows, row_digests


def seconds(call: Callable[[], object], repeat: int = 3) -> float:
    """Best of a few runs."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def people(n: int) -> pd.DataFrame:
    """A table with numbers, a category and a text."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 8)), columns=[f"c{j}" for j in range(8)])
    frame["city"] = pd.Categorical(rng.choice(["Bonn", "Ulm", "Jena"], n))
    frame["job"] = rng.choice(["clerk", "nurse", "smith"], n)
    return frame


def main() -> None:
    """Print the table."""
    frame = people(100_000)
    schema = Schema.infer(frame.iloc[:1000])
    ours = seconds(lambda: row_digests(encode_rows(schema.cast(frame))))
    vector = seconds(lambda: pd.util.hash_pandas_object(frame, index=False))
    part = frame.iloc[:2000]
    rows = (
        seconds(lambda: [joblib.hash(row) for row in part.itertuples(index=False, name=None)], 1)
        * 50
    )
    print("hashing 100,000 rows of 10 columns, canonical and keyed")
    print(f"  joblib.hash row by row / ours        {rows / ours:6.1f}x")
    print(f"  ours / pandas.util.hash_pandas_object {ours / vector:5.1f}x (not keyed, by dtype)")
    numbers = frame[[f"c{j}" for j in range(8)]]
    model = LogisticRegression().fit(numbers.iloc[:1000], np.arange(1000) % 2)
    fitted = FittedModel.of(model)
    turned = numbers[numbers.columns[::-1]]
    plain = seconds(lambda: model.predict(numbers))
    door = seconds(lambda: fitted.predict(fitted.table(turned)))
    print("predicting 100,000 rows, columns in another order")
    print(f"  through the door / predict alone      {door / plain:5.1f}x")


if __name__ == "__main__":
    main()
