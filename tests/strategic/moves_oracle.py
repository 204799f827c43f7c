"""The cheapest move by trying everything: an oracle that shares nothing with the library."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd


def everything(
    person: pd.Series,
    options: Mapping[str, Sequence[tuple[Any, float]]],
    combine: str,
    frame: pd.DataFrame,
) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """Return all rows that a person can become, and their prices."""
    names = list(options)
    combos = list(itertools.product(*(options[name] for name in names)))
    rows = pd.DataFrame([person.to_dict()] * len(combos), columns=frame.columns)
    for j, name in enumerate(names):
        rows[name] = [combo[j][0] for combo in combos]
    rows = rows.astype(frame.dtypes.to_dict())
    prices = np.array([[pair[1] for pair in combo] for combo in combos])
    total = {
        "sum": prices.sum(axis=1),
        "euclid": np.sqrt((prices**2).sum(axis=1)),
        "max": prices.max(axis=1),
    }[combine]
    return rows, total


def brute_force(
    model: Any,
    person: pd.Series,
    options: Mapping[str, Sequence[tuple[Any, float]]],
    combine: str,
    frame: pd.DataFrame,
    positive: Any = 1,
) -> float:
    """Return the least price over all combinations of (value, price) that the model accepts."""
    rows, total = everything(person, options, combine, frame)
    accepted = np.asarray(model.predict(rows)) == positive
    return float(total[accepted].min()) if accepted.any() else np.inf


def steps(x: float, up: float, down: float, low: float, high: float) -> list[tuple[float, float]]:
    """Return all values x + m within the bounds with their prices (unit steps)."""
    found = [(x, 0.0)]
    for m in range(1, 60):
        if np.isfinite(up) and low <= x + m <= high:
            found.append((x + m, up * m))
        if np.isfinite(down) and low <= x - m <= high:
            found.append((x - m, down * m))
    return found
