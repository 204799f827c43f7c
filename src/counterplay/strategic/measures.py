"""Numbers a lender reads: value, areas under curves, gaps between groups, sampling intervals.

Everybody counts with a weight; people for whom only a bracket is known count both ways.

Source: "The report", see docs/theory/20-moves.md.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np

from counterplay.core.validation import BoolArray, FloatArray
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.tables.cells import shown


def check_value(value: Any) -> FloatArray | None:
    """Return the value matrix [[tn, fp], [fn, tp]]."""
    if value is None:
        return None
    try:
        matrix = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.zeros(0)
    if matrix.shape != (2, 2) or not np.isfinite(matrix).all():
        raise InvalidInputError(
            f"value must be [[tn, fp], [fn, tp]], four finite numbers; got {shown(value)}"
        )
    return matrix


def weighted_mean(values: FloatArray, weights: FloatArray) -> float:
    """Return the mean over people who count; 0 if nobody does.

    Examples
    --------
    >>> weighted_mean(np.array([1.0, np.inf]), np.array([2.0, 0.0]))
    1.0
    """
    total = float(weights.sum())
    if not total > 0:
        return 0.0
    counted = weights > 0
    return float((values[counted] * weights[counted]).sum() / total)


def auc(positive: FloatArray, negative: FloatArray, w_pos: FloatArray, w_neg: FloatArray) -> float:
    """Return the weighted chance that a positive scores above a negative; ties count half.

    Examples
    --------
    >>> one = np.ones(2)
    >>> auc(np.array([1.0, 3.0]), np.array([0.0, 1.0]), one, one)
    0.875
    """
    if not w_pos.sum() * w_neg.sum() > 0:
        return float("nan")
    order = np.argsort(negative, kind="stable")
    upto = np.concatenate(([0.0], np.cumsum(w_neg[order])))
    below = upto[np.searchsorted(negative[order], positive, "left")]
    ties = upto[np.searchsorted(negative[order], positive, "right")] - below
    return float(w_pos @ (below + ties / 2) / (w_pos.sum() * w_neg.sum()))


def ks(positive: FloatArray, negative: FloatArray, w_pos: FloatArray, w_neg: FloatArray) -> float:
    """Return the largest gap between the weighted distributions of both classes (KS).

    Examples
    --------
    >>> one = np.ones(2)
    >>> ks(np.array([1.0, 3.0]), np.array([0.0, 1.0]), one, one)
    0.5
    """
    if not w_pos.sum() * w_neg.sum() > 0:
        return float("nan")
    values = np.concatenate((positive, negative))
    step = np.concatenate((-w_pos / w_pos.sum(), w_neg / w_neg.sum()))
    order = np.argsort(values, kind="stable")
    gap = np.cumsum(step[order])
    last = np.append(np.diff(values[order]) != 0, True)
    return float(np.abs(gap[last]).max())


def largest_gap(groups: Any, values: FloatArray, weights: FloatArray) -> float:
    """Return the largest difference between groups of a weighted mean.

    Infinite if one group has people who cannot be accepted and another has none.
    """
    means = [
        weighted_mean(values[mine], weights[mine])
        for group in dict.fromkeys(groups.tolist())
        if weights[mine := groups == group].sum() > 0
    ]
    low, high = (min(means), max(means)) if means else (0.0, 0.0)
    return 0.0 if low == high else high - low


def drawn_interval(
    top: FloatArray, bottom: FloatArray, confidence: float, draws: int = 200
) -> tuple[float, float]:
    """Return the bootstrap interval of sum(top) / sum(bottom) over draws of people."""
    n = top.size
    times = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=draws)
    mass = times @ bottom
    ratio = (times @ top)[mass > 0] / mass[mass > 0]
    if not ratio.size:
        return float("nan"), float("nan")
    tail = (1 - confidence) / 2
    low, high = np.quantile(ratio, [tail, 1 - tail])
    return float(low), float(high)


def split_scores(scores: FloatArray, y: BoolArray, w: FloatArray) -> tuple[FloatArray, ...]:
    """Return scores of the qualified and of the others, and their weights."""
    return scores[y], scores[~y], w[y], w[~y]


_UNWANTED = re.compile("default|bad|risk|delinq", re.IGNORECASE)


def warn_orientation(y: Any, qualified: BoolArray, positive: Any, wanted: Any) -> None:
    """Ask to check the wanted class where nobody named it and it looks like the unwanted one."""
    names = [str(getattr(y, "name", None) or ""), *map(str, getattr(y, "columns", ()))]
    if positive is not None or qualified.mean() >= 0.5 or not any(map(_UNWANTED.search, names)):
        return
    warnings.warn(
        f"people are taken to want {shown(wanted, 40)}, which {qualified.mean():.0%} of the labels "
        f"are, and y is called {shown(names[0] or names[1], 40)}; check, and give positive=",
        AssumptionWarning,
        stacklevel=4,
    )
