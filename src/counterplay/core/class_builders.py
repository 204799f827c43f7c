"""Label matrices of well-known hypothesis classes on a list of points.

Every function returns the distinct labelings (rows) that the class realises on the given points,
in a fixed order, and where it makes sense the parameters of one hypothesis per row. They are the
pure part of the constructors of :class:`counterplay.core.finite_class.FiniteClass`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.bits import pack_rows, unique_rows, unpack_rows
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    check_choice,
    check_float_array,
    check_int,
)
from counterplay.errors import InvalidInputError

Direction = Literal["up", "down", "both"]
_MAX_CELLS = 4_000_000_000


def thresholds(
    points: ArrayLike, cuts: ArrayLike | None = None, direction: Direction = "up"
) -> tuple[BoolArray, FloatArray]:
    """Labelings 1[x >= cut] ("up"), 1[x < cut] ("down") or both; parameters (cut, is_up).

    Without ``cuts`` every threshold on the line is used, which gives one labeling more than there
    are distinct points (the last cut is infinite: nothing is above it).
    """
    x = check_float_array(points, "points", ndim=1)
    check_choice(direction, "direction", ("up", "down", "both"))
    if cuts is None:
        cut = np.append(np.unique(x), np.inf)
    else:
        cut = np.atleast_1d(np.asarray(cuts, dtype=np.float64))
        if cut.ndim != 1 or np.isnan(cut).any():
            raise InvalidInputError("cuts must be a list of numbers without NaN")
    up = x[None, :] >= cut[:, None]
    parts = {"up": [(up, 1.0)], "down": [(~up, 0.0)], "both": [(up, 1.0), (~up, 0.0)]}[direction]
    rows = np.concatenate([part for part, _ in parts])
    params = np.concatenate([np.column_stack([cut, np.full(cut.size, s)]) for _, s in parts])
    return _distinct(rows, params)


def intervals(points: ArrayLike) -> tuple[BoolArray, FloatArray]:
    """Labelings of closed intervals, the empty one first; parameters (low, high)."""
    x = check_float_array(points, "points", ndim=1)
    values = np.unique(x)
    low, high = np.triu_indices(values.size)
    ends = np.column_stack([values[low], values[high]])
    ends = np.vstack([[np.inf, -np.inf], ends])
    rows = (x[None, :] >= ends[:, :1]) & (x[None, :] <= ends[:, 1:])
    return rows, ends


def unions_of_intervals(points: ArrayLike, k: int) -> BoolArray:
    """Labelings of unions of at most ``k`` intervals, ordered by the number of intervals."""
    x = check_float_array(points, "points", ndim=1)
    k = check_int(k, "k", low=0)
    values, position = np.unique(x, return_inverse=True)
    m = values.size
    total = sum(comb(m + 1, 2 * j) for j in range(k + 1) if 2 * j <= m + 1)
    _check_size(total, x.size, "unions of intervals")
    blocks = [np.zeros((1, m), dtype=np.bool_)]
    for j in range(1, k + 1):
        if 2 * j > m + 1:
            break
        flat = [cut for cuts in combinations(range(m + 1), 2 * j) for cut in cuts]
        ends = np.asarray(flat, dtype=np.int64).reshape(-1, 2 * j)
        passed = (ends[:, :, None] <= np.arange(m)[None, None, :]).sum(axis=1)
        blocks.append(passed % 2 == 1)
    return np.concatenate(blocks)[:, position.reshape(-1)]


def boxes(points: ArrayLike) -> tuple[BoolArray, FloatArray]:
    """Labelings of axis-aligned boxes, the empty one first; parameters (lows, highs).

    The parameters are those of the smallest box with that labeling.
    """
    x = check_float_array(points, "points", ndim=2)
    if x.shape[0] == 0:
        return np.zeros((1, 0), dtype=np.bool_), np.repeat([[np.inf, -np.inf]], x.shape[1], 1)
    words = pack_rows(np.ones((1, x.shape[0]), dtype=np.bool_))
    for axis in range(x.shape[1]):
        sides = pack_rows(intervals(x[:, axis])[0])
        _check_size(words.shape[0] * sides.shape[0], x.shape[0], "boxes")
        words = (words[:, None, :] & sides[None, :, :]).reshape(-1, words.shape[1])
        words = words[unique_rows(words)[0]]
    rows = unpack_rows(words, x.shape[0])
    rows = rows[np.argsort(rows.any(axis=1), kind="stable")]
    if x.shape[1] == 0 or rows[0].any():
        rows = np.vstack([np.zeros((1, x.shape[0]), dtype=np.bool_), rows])
    low = [np.where(rows, column, np.inf).min(axis=1, initial=np.inf) for column in x.T]
    high = [np.where(rows, column, -np.inf).max(axis=1, initial=-np.inf) for column in x.T]
    return rows, np.array(low + high).T.reshape(rows.shape[0], -1)


def singletons(n_points: int, include_empty: bool = False) -> BoolArray:
    """Labelings that are 1 at exactly one point (row i: point i), then the empty one if asked."""
    n = check_int(n_points, "n_points", low=1)
    rows = np.eye(n, dtype=np.bool_)
    return np.vstack([rows, np.zeros((1, n), dtype=np.bool_)]) if include_empty else rows


def all_labelings(n_points: int) -> BoolArray:
    """All 2^n labelings; row r is the binary expansion of r, point 0 the most significant bit."""
    n = check_int(n_points, "n_points", low=0, high=26)
    shifts = np.arange(n - 1, -1, -1)
    return ((np.arange(2**n)[:, None] >> shifts[None, :]) & 1).astype(np.bool_)


def from_estimators(
    estimators: Sequence[Any], X: ArrayLike, positive: Any | None = None
) -> BoolArray:
    """Labels that fitted classifiers give to the rows of ``X``, one row per classifier.

    ``positive`` is the class that counts as 1; by default the larger one of the two classes seen.
    """
    if len(estimators) == 0:
        raise InvalidInputError("estimators must contain at least one fitted classifier")
    predictions = [np.asarray(estimator.predict(X)).reshape(-1) for estimator in estimators]
    sizes = {prediction.size for prediction in predictions}
    if len(sizes) > 1:
        raise InvalidInputError(f"estimators predict different numbers of labels: {sorted(sizes)}")
    labels = np.stack(predictions)
    declared = [np.asarray(getattr(e, "classes_", [])).reshape(-1) for e in estimators]
    known = np.unique(np.concatenate([labels.reshape(-1), *declared]))
    if positive is None:
        if known.size > 2:
            raise InvalidInputError(
                f"estimators use {known.size} classes; pass positive= to say which one counts as 1"
            )
        positive = 1 if set(known.tolist()) <= {0, 1} else known[-1]
    elif positive not in known.tolist():
        raise InvalidInputError(f"positive={positive!r} is not among the classes {known.tolist()}")
    rows: BoolArray = labels == positive
    return rows


def _distinct(rows: BoolArray, params: FloatArray) -> tuple[BoolArray, FloatArray]:
    keep = np.sort(unique_rows(pack_rows(rows))[0])
    return rows[keep], params[keep]


def _check_size(n_rows: int, n_points: int, what: str) -> None:
    if n_rows * max(n_points, 1) > _MAX_CELLS:
        raise InvalidInputError(
            f"{what} on {n_points} points give {n_rows:,} labelings, too many to store; "
            "use fewer points"
        )
