"""Two learners for intervals with the same error and opposite fates.

The smallest closed interval around the positives can only be improved by clean data. The longest
open interval can be steered into any gap: cut every longer gap with correct negatives. Source:
docs/theory/10-poisoning.md, "Example 10.1: same error, different exposure".
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_int
from counterplay.errors import InvalidInputError, NotRealizableError
from counterplay.poisoning.errors import OutOfDomainError
from counterplay.poisoning.model import (
    Attacker,
    BatchLearner,
    IntervalTarget,
    LabelledSet,
    Labels,
    Points,
    Target,
    column,
    training_set,
)

_MOST = 10_000_000  # cuts an attacker makes


class MinClosedInterval(BatchLearner):
    """The smallest closed interval that contains the positives (A_1).

    Clean data only enlarge it, and never beyond the target, so a point can be flipped exactly
    if it is wrong already: the attackable rate is the error rate.

    Examples
    --------
    >>> learner = MinClosedInterval().fit([0.3, 0.5, 0.9], [1, 1, 0])
    >>> learner.predict([0.2, 0.4]), (learner.low_, learner.high_)
    (array([0, 1], dtype=uint8), (0.3, 0.5))

    References
    ----------
    Blum, Hanneke, Qian and Shao (2021), "Robust learning under clean-label attack".
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Take the extremes of the positives."""
        x, labels = _line(X, y)
        positive = x[labels == 1]
        self.low_, self.high_ = np.inf, -np.inf
        if positive.size:
            self.low_, self.high_ = float(positive.min()), float(positive.max())
        inside = (x >= self.low_) & (x <= self.high_) & (labels == 0)
        if inside.any():
            raise NotRealizableError(
                f"the negative at {x[inside][0]:g} lies between positives: not an interval"
            )
        return self

    def predict(self, X: ArrayLike) -> Labels:
        """Label 1 inside the interval."""
        x = column(X)
        return ((x >= self.low_) & (x <= self.high_)).astype(np.uint8)

    def partial_refit(self, extra: LabelledSet) -> MinClosedInterval:
        """Return the learner fitted with clean extra rows; only positives matter."""
        other = MinClosedInterval()
        positive = column(extra.X)[extra.y == 1]
        other.low_ = float(min(self.low_, positive.min(initial=np.inf)))
        other.high_ = float(max(self.high_, positive.max(initial=-np.inf)))
        return other

    def certified(
        self, h_star: Target, S: LabelledSet, X: ArrayLike, budget: int | None = None
    ) -> BoolArray:
        """Points that no clean poison can flip: all that are right already (exact)."""
        safe: BoolArray = self.predict(X) == np.asarray(h_star(X))
        return safe


class MaxOpenInterval(BatchLearner):
    """The longest open interval of [0, 1] that is consistent (A_2).

    With positives it reaches to the next negatives (or ends); without, it is the longest gap,
    leftmost on ties. Its error falls like log(m)/m, but every unseen point can be flipped.

    Examples
    --------
    >>> learner = MaxOpenInterval().fit([0.1, 0.3, 0.9], [0, 0, 0])
    >>> learner.low_, learner.high_
    (0.3, 0.9)
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Find the longest consistent open interval."""
        x, labels = _line(X, y)
        if ((x < 0) | (x > 1)).any():
            raise OutOfDomainError("points must lie in [0, 1]")
        positive, negative = x[labels == 1], np.sort(x[labels == 0])
        if positive.size == 0:
            ends = np.concatenate([[0.0], negative, [1.0]])  # copies make gaps of length 0
            longest = int((ends[1:] - ends[:-1]).argmax())
            self.low_, self.high_ = float(ends[longest]), float(ends[longest + 1])
            return self
        first, last = float(positive.min()), float(positive.max())
        if first <= 0.0 or last >= 1.0:
            raise NotRealizableError("a positive at 0 or 1 lies in no open interval of [0, 1]")
        if ((negative >= first) & (negative <= last)).any():
            raise NotRealizableError("a negative lies between positives: not an interval")
        self.low_ = float(negative[negative < first].max(initial=0.0))
        self.high_ = float(negative[negative > last].min(initial=1.0))
        return self

    def predict(self, X: ArrayLike) -> Labels:
        """Label 1 strictly inside the interval."""
        x = column(X)
        return ((x > self.low_) & (x < self.high_)).astype(np.uint8)

    def certified(
        self, h_star: Target, S: LabelledSet, X: ArrayLike, budget: int | None = None
    ) -> BoolArray:
        """Points that no poison within the budget can flip.

        Exact if S has a positive: clean rows then only shrink the interval towards the target, and
        what is right stays right. Exact, too, if nothing is positive, except where one gap is a
        multiple of another: rounding may save the attacker a row, and the certificate allows it.
        """
        x = column(X)
        if (S.y == 1).any():
            right: BoolArray = self.predict(x) == np.asarray(h_star(x[:, None]))
            return right
        if not isinstance(h_star, IntervalTarget) or h_star.ends.size:
            return np.zeros(x.size, dtype=np.bool_)
        ends = _ends(S.X)
        gap = np.clip(np.searchsorted(ends, x, side="right") - 1, 0, ends.size - 2)
        cost = _cost_sums(np.diff(ends), 1 - 1e-12)
        on_end = np.isin(x, ends)
        limit = np.inf if budget is None else budget
        safe: BoolArray = on_end | (cost[gap] > limit)
        return safe


@checked
def gap_costs(gaps: ArrayLike) -> IntArray:
    """Poison needed to make each gap the longest, leftmost on ties.

    Gaps to the left must be cut into shorter pieces, floor(g_j / g_i) cuts; gaps to the right into
    pieces that are not longer, ceil(g_j / g_i) - 1 cuts. Without ties both are the same.

    Examples
    --------
    >>> gap_costs([0.5, 0.25, 0.125, 0.125])
    array([0, 2, 6, 7])
    """
    g = np.asarray(gaps, dtype=np.float64)
    if g.ndim != 1 or (g <= 0).any():
        raise InvalidInputError("gaps must be positive lengths")
    return _cost_sums(g, 1.0)


def _cost_sums(g: FloatArray, factor: float) -> IntArray:
    """Cuts that make each gap the longest, if the other gaps are shortened by the factor."""
    cost = np.zeros(g.size, dtype=np.int64)
    block = max(1, 4_000_000 // max(1, g.size))
    for start in range(0, g.size, block):
        part = g[start : start + block]
        own = (start + np.arange(part.size))[:, None]
        cuts = _cuts(factor * g[None, :], part[:, None], np.arange(g.size)[None, :] < own)
        cost[start : start + block] = cuts.sum(axis=1)  # own gap: ceil(1) - 1 = 0
    return cost


def _cuts(length: FloatArray, own: FloatArray, left: BoolArray) -> IntArray:
    """Fewest cuts into pieces shorter than ``own``, or not longer if they are on its right."""
    ratio = length / own
    return np.where(left, np.floor(ratio), np.ceil(ratio) - 1).astype(np.int64)


@checked
def open_interval_rate(X: ArrayLike, budget: int | None = None) -> float:
    """Exact attackable rate of MaxOpenInterval if nothing is positive and data are uniform.

    Examples
    --------
    >>> open_interval_rate([0.5, 0.75, 0.875], budget=2), open_interval_rate([0.5, 0.75, 0.875])
    (0.75, 1.0)
    """
    limit = None if budget is None else check_int(budget, "budget", low=0)
    gaps = np.diff(_ends(X))
    if limit is None:
        return 1.0
    return float(gaps[gap_costs(gaps) <= limit].sum())


class GapCuttingAttacker(Attacker):
    """Steers MaxOpenInterval into the gap of x0 by cutting every gap that is at least as long.

    Applies when the target has no positives. The poison is negative and never in x0's gap. With an
    unlimited budget it wins at every unseen point whose gap takes at most ten million cuts.

    Examples
    --------
    >>> S = LabelledSet([0.5, 0.75], [0, 0])
    >>> GapCuttingAttacker().attack(IntervalTarget(), S, [0.9]).X.ravel().round(3)
    array([0.167, 0.333, 0.625])
    """

    def is_applicable(self, h_star: Target, S: LabelledSet, x0: Points) -> bool:
        """Whether the target has no positives and x0 was not seen."""
        return not np.asarray(h_star(S.X)).any() and float(column(x0)[0]) not in _ends(S.X)

    def _attack(
        self, h_star: Target, S: LabelledSet, x0: Points, budget: int | None
    ) -> LabelledSet:
        ends = _ends(S.X)
        here = float(column(x0)[0])
        if here in ends or not 0 < here < 1:
            return LabelledSet.empty(S.X)
        own = int(np.searchsorted(ends, here)) - 1
        gaps = np.diff(ends)
        left = np.arange(gaps.size) < own
        pieces = _cuts(gaps, gaps[own : own + 1], left)
        if int(gaps.argmax()) == own or pieces.sum() > min(_MOST, budget or _MOST):
            return LabelledSet.empty(S.X)
        cuts = [
            _cut(ends[j], ends[j + 1], int(n), gaps[own], strict=bool(left[j]))
            for j, n in enumerate(pieces)
            if n or gaps[j] > gaps[own]
        ]
        points = np.concatenate(cuts)[:, None]
        if budget is not None and len(points) > budget:
            return LabelledSet.empty(S.X)
        return LabelledSet(points, np.zeros(len(points), np.uint8))


def _cut(low: float, high: float, n: int, own: float, *, strict: bool) -> FloatArray:
    """At least n cuts into pieces that are, after rounding, shorter than own (or not longer)."""
    for count in (n, n + 1, n + 2):
        cuts = low + (high - low) * np.arange(1, count + 1) / (count + 1)
        longest = float(np.diff(np.concatenate([[low], cuts, [high]])).max())
        if longest < own or (longest == own and not strict):
            break
    return np.asarray(cuts, dtype=np.float64)


def _line(X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, Labels]:
    points = np.asarray(X, dtype=np.float64)
    S = training_set(points.reshape(-1, 1) if points.ndim == 1 else points, y)
    return column(S.X), S.y


def _ends(X: ArrayLike) -> FloatArray:
    return np.unique(np.concatenate([[0.0], column(X), [1.0]]))
