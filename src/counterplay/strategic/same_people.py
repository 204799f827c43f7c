"""Are the people after deployment those before it? What nobody can move must not have changed.

The columns that are immutable have the same law in both samples if the population is the same.
Where a test says otherwise, "before" is weighted towards "after" by a density ratio on these
columns.

Source: "Control by what cannot move", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterplay.core.validation import FloatArray
from counterplay.tables.table import column_kind

LARGEST_WEIGHT = 10.0
MOST_CATEGORIES = 50


def compare_immutable(
    before: pd.DataFrame, after: pd.DataFrame, names: list[Any], level: float
) -> pd.DataFrame:
    """Return one row per immutable column: test, p-value, and whether it differs (Holm)."""
    rows = []
    for name in names:
        test, p = _test(before[name], after[name])
        rows.append({"column": name, "test": test, "p_value": p})
    frame = pd.DataFrame(rows, columns=["column", "test", "p_value"])
    frame["differs"] = _holm(frame["p_value"].to_numpy(dtype=float), level)
    return frame.set_index("column")


def _test(a: pd.Series, b: pd.Series) -> tuple[str, float]:
    """Compare one column: Kolmogorov-Smirnov for numbers, chi-square for categories."""
    if column_kind(a) in ("number", "integer") and column_kind(b) in ("number", "integer"):
        x, z = (pd.to_numeric(s).to_numpy(dtype=float, na_value=np.inf) for s in (a, b))
        x, z = (np.where(np.isnan(v), np.inf, v) for v in (x, z))
        top = max(np.abs(v[np.isfinite(v)]).max(initial=0.0) for v in (x, z)) + 1
        x, z = (np.where(np.isfinite(v), v, 2 * top) for v in (x, z))  # missing: beyond all
        return "KS", float(stats.ks_2samp(x, z, method="asymp").pvalue)
    table = _crossed(a, b)
    if table.shape[1] < 2:
        return "chi-square", 1.0
    return "chi-square", float(stats.chi2_contingency(table).pvalue)


def _crossed(a: pd.Series, b: pd.Series) -> FloatArray:
    """Return counts of the common categories in both samples; rare ones are one."""
    words = [pd.Series(np.where(s.isna(), "missing", s.astype(str))) for s in (a, b)]
    counts = pd.DataFrame({k: w.value_counts() for k, w in enumerate(words)}).fillna(0.0)
    counts = counts.loc[counts.sum(axis=1).sort_values(ascending=False).index]
    rare = counts.sum(axis=1) < 10
    rare.iloc[MOST_CATEGORIES:] = True
    table = counts[~rare].to_numpy().T
    rest = counts[rare].to_numpy().sum(axis=0)[:, None]
    return np.hstack([table, rest]) if rest.sum() > 0 else np.asarray(table)


def _holm(p: FloatArray, level: float) -> Any:
    """Return which hypotheses Holm's procedure rejects."""
    order = np.argsort(p)
    bars = level / np.arange(p.size, 0, -1)
    passed = np.cumprod(p[order] <= bars).astype(bool)
    rejected = np.zeros(p.size, dtype=bool)
    rejected[order] = passed
    return rejected


def density_weights(before: pd.DataFrame, after: pd.DataFrame, names: list[Any]) -> FloatArray:
    """Return weights of "before" that give its immutable columns the law of "after".

    Odds of a logistic regression, at most 10, of mean 1.
    """
    both = pd.concat([before[names], after[names]], ignore_index=True)
    rows = np.column_stack([column for name in names for column in _numbers(both[name])])
    label = np.repeat([0, 1], [len(before), len(after)])
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(rows, label)
    odds = np.exp(model.decision_function(rows[: len(before)])) * len(before) / len(after)
    weights = np.minimum(odds, LARGEST_WEIGHT)
    return np.asarray(weights / weights.mean(), dtype=np.float64)


def _numbers(column: pd.Series) -> list[FloatArray]:
    """Return a column as numbers: itself with its holes marked, or one column per category."""
    if column_kind(column) in ("number", "integer"):
        values = pd.to_numeric(column).to_numpy(dtype=float, na_value=np.nan)
        gone = ~np.isfinite(values)
        middle = np.median(values[~gone]) if (~gone).any() else 0.0
        parts = [np.where(gone, middle, values)]
        return [*parts, gone.astype(float)] if gone.any() else parts
    words = pd.Series(np.where(column.isna(), "missing", column.astype(str)))
    common = words.value_counts().index[:MOST_CATEGORIES]
    return [(words == word).to_numpy(dtype=float) for word in common]
