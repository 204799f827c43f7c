"""UnionOfIntervals: hulls of maximal runs of positives on the line, with the exact region.

Here the attackable rate exceeds the error: two positives around an unseen inner gap bridge it. The
exact region has a closed form. Source: docs/theory/10-poisoning.md, "Theorem 10.12 and Proposition
10.D: unions of intervals" (appendix I.1.2 of the thesis).
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.validation import BoolArray, FloatArray
from counterplay.errors import InvalidInputError
from counterplay.poisoning.model import (
    BatchLearner,
    IntervalTarget,
    LabelledSet,
    Labels,
    Target,
    column,
    training_set,
)


class UnionOfIntervals(BatchLearner):
    """Union of the hulls of maximal runs of consecutive positives; no need to know k.

    Notes
    -----
    Guaranteed: attackable rate at most eps with
    :func:`counterplay.poisoning.bounds.union_of_intervals_sample_size` rows.

    Examples
    --------
    >>> learner = UnionOfIntervals().fit([0.1, 0.2, 0.5, 0.8, 0.9], [1, 1, 0, 1, 1])
    >>> learner.ends_
    array([0.1, 0.2, 0.8, 0.9])

    References
    ----------
    Theorem 10.12, Proposition 10.D, see docs/theory/10-poisoning.md.
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Find the maximal runs of positives."""
        points = np.asarray(X, dtype=np.float64)
        S = training_set(points.reshape(-1, 1) if points.ndim == 1 else points, y)
        x = column(S.X)
        order = np.argsort(x, kind="stable")
        labels = np.concatenate([[0], S.y[order].astype(np.int8), [0]])
        change = np.diff(labels)
        starts, stops = np.flatnonzero(change == 1), np.flatnonzero(change == -1) - 1
        self.ends_: FloatArray = np.column_stack([x[order][starts], x[order][stops]]).reshape(-1)
        return self

    def predict(self, X: ArrayLike) -> Labels:
        """Label 1 inside the closed intervals."""
        x = column(X)
        left = np.searchsorted(self.ends_, x, side="left")
        right = np.searchsorted(self.ends_, x, side="right")
        return np.asarray((left % 2 == 1) | (right > left), dtype=np.uint8)

    @staticmethod
    def attackable_region(h_star: IntervalTarget, S: LabelledSet, X: ArrayLike) -> BoolArray:
        """Exact region for a target that is a union of open intervals, at the rows of X.

        A positive is attackable iff it is outside the hull of the training points of its own
        interval; a negative iff it is in an inner gap that has no training point.
        """
        if not isinstance(h_star, IntervalTarget) or h_star.closed:
            raise InvalidInputError("the closed form needs an IntervalTarget with closed=False")
        x, seen = column(X), column(S.X)
        ends = h_star.ends
        segment = _segments(ends, x)
        n_segments = ends.size + 1
        own = _segments(ends, seen)
        low, high = np.full(n_segments, np.inf), np.full(n_segments, -np.inf)
        np.minimum.at(low, own, seen)
        np.maximum.at(high, own, seen)
        positive = segment % 2 == 1
        outside = (x < low[segment]) | (x > high[segment])
        inner = (segment > 0) & (segment < n_segments - 1)
        empty_gap = low[segment] == np.inf
        region: BoolArray = np.where(positive, outside, inner & empty_gap)
        return region

    def certified(
        self, h_star: Target, S: LabelledSet, X: ArrayLike, budget: int | None = None
    ) -> BoolArray:
        """Points outside the exact attackable region (open interval targets)."""
        if not isinstance(h_star, IntervalTarget) or h_star.closed:
            return np.zeros(column(X).size, dtype=np.bool_)
        safe: BoolArray = ~self.attackable_region(h_star, S, X)
        return safe


def _segments(ends: FloatArray, x: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Segment of each x: 0 before the first interval, odd inside one, even in a gap.

    End points belong to the closed gaps, because the intervals are open.
    """
    left = np.searchsorted(ends, x, side="left")
    on_end = np.searchsorted(ends, x, side="right") > left
    return np.where(on_end, left + (left % 2), left).astype(np.int64)
