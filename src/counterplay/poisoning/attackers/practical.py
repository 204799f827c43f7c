"""Attacks on any estimator: step across the teacher's boundary, or choose from a pool of true rows.

Both are real attacks that a user of a crowd-sourced or scraped data set has to fear; neither is a
proof of safety when it fails. Source: docs/theory/10-poisoning.md, "Setting".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, IntArray, check_int, check_real
from counterplay.errors import InvalidInputError
from counterplay.poisoning.model import Attacker, LabelledSet, Points, Target, check_learner, fresh

_STEPS = (1.001, 1.2, 1.5, 2.0)


@checked
class AcrossBoundaryAttacker(Attacker):
    """Adds points just across the target's boundary, next to x0.

    For linear targets the step is along the normal; for others, towards the nearest training point
    that the target labels differently, found by bisection.

    Parameters
    ----------
    step:
        1 is the boundary, 2 the mirror image of x0.
    learner:
        The pipeline under attack. If given, the steps 1.001, 1.2, 1.5 and 2 are tried (after
        ``step``), each confirmed by a refit, until one flips x0.

    Examples
    --------
    >>> from counterplay.poisoning.lab import LinearTarget
    >>> S = LabelledSet([[-1.0, 0.0], [1.0, 0.0]], [0, 1])
    >>> poison = AcrossBoundaryAttacker(step=2.0).attack(LinearTarget([1, 0]), S, [0.3, 0.5], 1)
    >>> poison.X.tolist(), poison.y.tolist()
    ([[-0.3, 0.5]], [0])
    """

    def __init__(self, step: float = 1.001, learner: Any = None) -> None:
        self.step = check_real(step, "step", low=1, open_low=True)
        self.learner = learner

    def _attack(
        self, h_star: Target, S: LabelledSet, x0: Points, budget: int | None
    ) -> LabelledSet:
        point = np.asarray(x0, dtype=np.float64).reshape(-1)
        truth = int(np.asarray(h_star(point[None]))[0])
        crossing = _linear_crossing(h_star, point)
        if crossing is None:
            other = S.X[np.asarray(h_star(S.X)).astype(int) != truth]
            if len(other) == 0:
                return LabelledSet.empty(S.X)
            crossing = crossing_towards(
                h_star, point, truth, other[nearest(other, point)[0]], depth=8
            )
        count = 1 if budget is None else budget
        steps = (self.step,) if self.learner is None else (self.step, *_STEPS)
        poison = LabelledSet.empty(S.X)
        for step in steps:
            rows = beyond(point, crossing, step, count)
            rows = rows[np.asarray(h_star(rows)).astype(int) != truth]
            if len(rows):
                poison = LabelledSet(rows, np.full(len(rows), 1 - truth))
                if self._flips(S + poison, point, truth):
                    break
        return poison

    def _flips(self, both: LabelledSet, point: FloatArray, truth: int) -> bool:
        if self.learner is None:
            return True
        model = fresh(self.learner).fit(both.X, both.y)
        return int(np.asarray(model.predict(point[None]))[0]) != truth


def _linear_crossing(h_star: Any, point: FloatArray) -> FloatArray | None:
    w = getattr(h_star, "w", None)
    if w is None or np.shape(w) != point.shape or not hasattr(h_star, "decision_function"):
        return None
    value = float(np.asarray(h_star.decision_function(point[None]))[0])
    crossing: FloatArray = point - value * np.asarray(w) / float(np.dot(w, w))
    return crossing


def crossing_towards(
    teacher: Any, point: NDArray[Any], truth: Any, end: NDArray[Any], depth: int
) -> NDArray[Any]:
    """First point towards ``end`` with another label, among 32 points, ``depth`` times refined."""
    low, high = 0.0, 1.0
    for _ in range(depth):
        shares = np.linspace(low, high, 33)
        other = np.asarray(teacher(point + shares[:, None] * (end - point))) != truth
        first = int(np.argmax(other)) if other.any() else 32
        low, high = shares[max(first - 1, 0)], shares[first]
    crossing: NDArray[Any] = point + high * (end - point)
    return crossing


def beyond(point: NDArray[Any], crossing: NDArray[Any], step: float, count: int) -> NDArray[Any]:
    """Rows behind the crossing, the first one ``step`` times as far away as it."""
    stretch = step * (1 + 0.02 * np.arange(count))
    rows: NDArray[Any] = point + stretch[:, None] * (crossing - point)
    return rows


def nearest(rows: NDArray[Any], point: NDArray[Any]) -> IntArray:
    """Positions of the rows, the nearest first."""
    return np.argsort(np.linalg.norm(rows - point, axis=1), kind="stable")


@checked
class PoolGreedyAttacker(Attacker):
    """Adds true examples from a pool: the nearest of the other class first, then greedily.

    Parameters
    ----------
    learner:
        The pipeline under attack; it is refitted for every candidate.
    X_pool:
        Held-out rows.
    y_pool:
        Their true labels.
    n_candidates:
        How many of the nearest rows of the other class are tried in each step.
    max_rows:
        Rows when the budget is unlimited.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> S = LabelledSet([[0.0], [1.0]], [0, 1])
    >>> attacker = PoolGreedyAttacker(KNeighborsClassifier(1), [[0.4], [0.7]], [0, 1])
    >>> attacker.attack(lambda X: X[:, 0] >= 0.5, S, [0.53], 1).X.tolist()
    [[0.4]]
    """

    def __init__(
        self,
        learner: Any,
        X_pool: ArrayLike,
        y_pool: ArrayLike,
        *,
        n_candidates: int = 5,
        max_rows: int = 10,
    ) -> None:
        self.learner = check_learner(learner)
        self.pool = LabelledSet(np.asarray(X_pool, dtype=np.float64), np.asarray(y_pool))
        self.n_candidates = check_int(n_candidates, "n_candidates", low=1)
        self.max_rows = check_int(max_rows, "max_rows", low=1)
        if len(self.pool) == 0:
            raise InvalidInputError("X_pool must have at least one row")

    @property
    def X_pool(self) -> Points:
        """Points of the pool."""
        return np.asarray(self.pool.X)

    @property
    def y_pool(self) -> Points:
        """Labels of the pool."""
        return np.asarray(self.pool.y)

    def _attack(
        self, h_star: Target, S: LabelledSet, x0: Points, budget: int | None
    ) -> LabelledSet:
        point = np.asarray(x0, dtype=np.float64).reshape(1, -1)
        truth = int(np.asarray(h_star(point))[0])
        agree = np.asarray(h_star(self.pool.X)).astype(int) == self.pool.y
        other = np.flatnonzero(agree & (self.pool.y != truth))
        if other.size == 0:
            return LabelledSet.empty(S.X)
        near = other[nearest(self.pool.X[other], point)]
        chosen: list[int] = []
        for _ in range(self.max_rows if budget is None else min(budget, self.max_rows)):
            left = [int(i) for i in near if int(i) not in chosen][: self.n_candidates]
            if not left:
                break
            scores = [self._score(S, [*chosen, i], point, truth) for i in left]
            chosen.append(left[int(np.argmin(scores))])
            if min(scores) < 0:
                break
        return LabelledSet(self.pool.X[chosen], self.pool.y[chosen])

    def _score(self, S: LabelledSet, rows: list[int], point: Points, truth: int) -> float:
        """Confidence of the refitted learner in the truth; negative if it is flipped."""
        both = S + LabelledSet(self.pool.X[rows], self.pool.y[rows])
        model = fresh(self.learner).fit(both.X, both.y)
        flipped = int(np.asarray(model.predict(point))[0]) != truth
        value = 0.0
        if hasattr(model, "decision_function"):
            value = float(np.ravel(model.decision_function(point))[0])
        elif hasattr(model, "predict_proba"):
            value = float(np.asarray(model.predict_proba(point))[0, -1] - 0.5)
        confidence = value if truth == 1 else -value
        return -1.0 - abs(confidence) if flipped else abs(confidence)
