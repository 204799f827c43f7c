"""The exact value of tiny games: how many mistakes are unavoidable.

The state is the version space under :func:`safe_filter`. With x first the adversary picks x, the
learner a distance, the adversary the outcome; with x afterwards the learner picks a set of accepted
points before x is known. An oracle for tests, and for understanding small examples.
Source: spec 02 section 3.10 (ours).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.bits import mask_to_int
from counterplay.core.validation import BoolArray
from counterplay.errors import InvalidInputError
from counterplay.strategic.filters import safe_filter
from counterplay.strategic.finite_classes import FiniteMetricClass
from counterplay.strategic.settings import Setting

_MAX_POINTS, _MAX_RULES = 14, 16


def exact_mistake_bound(dist: ArrayLike, positive: ArrayLike, setting: Setting | str) -> int:
    """Return the minimax number of mistakes of a tiny realizable game, exactly.

    Parameters
    ----------
    dist:
        Table of distances of at most 14 points.
    positive:
        ``(n, N)`` accepted points of at most 16 rules.
    setting:
        ``"x_delta"`` (x first) or ``"bot_xdelta"`` (x afterwards).

    Notes
    -----
    Best deterministic learner against the worst adaptive adversary. Seeing x first never hurts:
    value(x first) <= floor(log2 n) and <= value(x afterwards) <= n - 1.

    Examples
    --------
    Five singletons on a star: one mistake if x is seen first, four if it is seen afterwards.

    >>> from counterplay.strategic import instances
    >>> star = instances.star_instance(5).hypotheses
    >>> exact_mistake_bound(star.metric.table, star.positive, "x_delta")
    1
    >>> exact_mistake_bound(star.metric.table, star.positive, "bot_xdelta")
    4

    References
    ----------
    Spec 02 section 3.10.
    """
    catalogue = FiniteMetricClass(dist, positive)
    if catalogue.size > _MAX_POINTS or catalogue.n > _MAX_RULES:
        raise InvalidInputError(
            f"the solver handles at most {_MAX_POINTS} points and {_MAX_RULES} rules, got "
            f"{catalogue.size} and {catalogue.n}"
        )
    chosen = Setting.of(setting)
    if chosen not in (Setting.X_DELTA, Setting.BOT_XDELTA):
        raise InvalidInputError(
            f"the solver knows the settings 'x_delta' and 'bot_xdelta', got {chosen.value!r}"
        )
    solver = _Game(catalogue)
    everything = (1 << catalogue.n) - 1
    value = solver.value_x_first if chosen is Setting.X_DELTA else solver.value_x_after
    return int(value(everything))


class _Game:
    """Memoised recursion over version spaces, written as bit sets."""

    def __init__(self, catalogue: FiniteMetricClass) -> None:
        self.table = catalogue.table
        self.metric = catalogue.metric.table
        self.size, self.n = self.table.shape
        self.value_x_first = lru_cache(maxsize=None)(self._value_x_first)
        self.value_x_after = lru_cache(maxsize=None)(self._value_x_after)
        self.survivors = lru_cache(maxsize=None)(self._survivors)
        self.published = self._published_distances()

    def _published_distances(self) -> list[tuple[float, ...]]:
        """Return the distances of all points to every set of accepted points."""
        rows = set()
        for subset in range(1 << self.size):
            points = [i for i in range(self.size) if subset >> i & 1]
            d = self.metric[:, points].min(axis=1) if points else np.full(self.size, np.inf)
            rows.add(tuple(d.tolist()))
        return sorted(rows)

    def _survivors(self, x: int, rho: float) -> tuple[tuple[int, int], ...]:
        """Return (mistake, rules kept) for every outcome possible at distance ``rho``."""
        outcomes = []
        for y in (0, 1):
            for yhat in (0, 1):
                if (rho == 0 and yhat == 0) or (math.isinf(rho) and yhat == 1):
                    continue
                keep: BoolArray = safe_filter(self.table[x], rho, y, yhat)
                outcomes.append((int(y != yhat), mask_to_int(keep)))
        return tuple(outcomes)

    def _worst(self, space: int, x: int, rho: float, after: bool) -> float:
        """Return the adversary's best outcome; a mistake that teaches nothing counts infinite."""
        worst = 0.0
        value = self.value_x_after if after else self.value_x_first
        for mistake, keep in self.survivors(x, rho):
            rest = space & keep
            if rest == 0 or (rest == space and not mistake):
                continue
            worst = max(worst, math.inf if rest == space else mistake + value(rest))
        return worst

    def _value_x_first(self, space: int) -> float:
        distances = [sorted({*self.metric[x].tolist(), math.inf}) for x in range(self.size)]
        return max(
            min(self._worst(space, x, rho, after=False) for rho in distances[x])
            for x in range(self.size)
        )

    def _value_x_after(self, space: int) -> float:
        best = math.inf
        for row in self.published:
            worst = 0.0
            for x in range(self.size):
                worst = max(worst, self._worst(space, x, row[x], after=True))
                if worst >= best:
                    break
            best = min(best, worst)
        return best
