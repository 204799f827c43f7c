"""Every preference that explains the answers: an exact polytope.

A preference is a pair (w, eps) with ``w >= 0``, ``sum(w) = 1`` and a precision ``eps >= 0``. Each
of the three answers is one or two linear inequalities in (w, eps), so the consistent pairs form a
polytope whose vertices are kept exactly. Ratios of values are extreme at vertices, hence so is
the largest regret.
Source: docs/theory/08-elicitation.md, "Proposition 8.L: the adaptive certificate is exact".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    check_float_array,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.elicitation.comparisons import Answer
from counterplay.elicitation.cones import Cone
from counterplay.elicitation.population import population
from counterplay.elicitation.users import three_valued
from counterplay.errors import InvalidInputError

MOST_OBJECTIVES = 300
_THINNING = 2  # hit-and-run steps per sample


@checked
class ConsistentSet:
    """The polytope of preferences that explain a list of answers.

    Parameters
    ----------
    k:
        Number of objectives.
    scale:
        Largest value difference of two options in any objective; a precision above it would
        make everything indistinguishable, so it is bounded by it.
    max_rays:
        When there are more vertices than this, inequalities with few vertices are dropped. The
        set is then larger than necessary (``exact`` is False); statements about all its members
        remain true.

    Examples
    --------
    >>> consistent = ConsistentSet(2)
    >>> consistent.tell([0.5, -0.5], "first")
    True
    >>> consistent.vertices.tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """

    def __init__(self, k: int, scale: float = 1.0, max_rays: int = 4000) -> None:
        self.k = check_positive_int(k, "k")
        check_size(self.k, MOST_OBJECTIVES, "objectives")
        self.scale = check_real(scale, "scale", low=0.0, open_low=True)
        self.max_rays = check_positive_int(max_rays, "max_rays")
        self.answers: list[tuple[FloatArray, Answer]] = []
        self.exact = True
        self._with_precision = False
        self._strict: list[int] = []  # positions of the inequalities that must be strict
        self._cone = self._start()
        self._people, self._heard = population(self.k), 0  # who explains the first answers

    def __repr__(self) -> str:
        return (
            f"ConsistentSet(k={self.k}, answers={len(self.answers)}, "
            f"vertices={len(self._cone.rays)}, exact={self.exact})"
        )

    @property
    def vertices(self) -> FloatArray:
        """Weights (m, k) of the vertices; every consistent weight vector is a mixture of them."""
        return self._cone.rays[:, : self.k]

    @property
    def precisions(self) -> FloatArray:
        """Precision eps (m,) of each vertex."""
        if not self._with_precision:
            return np.zeros(len(self._cone.rays))
        return self._cone.rays[:, self.k]

    def tell(self, difference: ArrayLike, answer: Answer | str) -> bool:
        """Add an answer; return False, and change nothing, if nothing would remain.

        ``difference`` is the value of the first option minus that of the second. A preference is
        a strict inequality: it must hold strictly somewhere in what remains.
        """
        vector = check_float_array(difference, "difference", ndim=1)
        if vector.size != self.k:
            raise InvalidInputError(
                f"difference must have {self.k} numbers, one per objective, got {vector.size}"
            )
        said = Answer.parse(answer)
        if said is Answer.INDISTINGUISHABLE and not self._with_precision:
            return self._rebuild([*self.answers, (vector, said)], with_precision=True)
        trial = self._cone.copy()
        strict = list(self._strict)
        for row in self._rows(vector, said):
            if said is not Answer.INDISTINGUISHABLE:
                strict.append(len(trial.constraints))
            trial.cut(row)
        if trial.empty or trial.flat(strict):
            return False
        self._cone, self._strict = trial, strict
        self.answers.append((vector, said))
        if len(trial.rays) > self.max_rays:
            self._drop_inequalities()
        return True

    def copy(self) -> ConsistentSet:
        """Return an independent copy."""
        twin = object.__new__(ConsistentSet)
        vars(twin).update(vars(self))
        twin.answers, twin._strict = list(self.answers), list(self._strict)
        return twin

    def reset(self, answers: Sequence[tuple[FloatArray, Answer]]) -> bool:
        """Replace all answers; return False, and change nothing, if they contradict each other."""
        same = any(said is Answer.INDISTINGUISHABLE for _, said in answers)
        return self._rebuild(list(answers), with_precision=same)

    def implied(self, difference: ArrayLike) -> Answer | None:
        """Return the answer that all consistent preferences give, or None if they differ."""
        vector = np.asarray(difference, dtype=np.float64)
        values, eps = self.vertices @ vector, self.precisions
        if not self._with_precision:
            # The precision is only known to be below every difference that was preferred.
            if not np.abs(vector).any():
                return Answer.INDISTINGUISHABLE
            return None
        if (values > eps).all():
            return Answer.FIRST
        if (values < -eps).all():
            return Answer.SECOND
        return Answer.INDISTINGUISHABLE if (np.abs(values) <= eps).all() else None

    def contains(self, w: ArrayLike, eps: float = 0.0) -> bool:
        """Whether a preference explains every answer exactly."""
        weights = check_float_array(w, "w", ndim=1)
        return all(three_valued(float(d @ weights), eps) is said for d, said in self.answers)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return weights (n, k) spread over the set, and the least precision of each (n,)."""
        rays = self._cone.rays
        centre = rays.mean(axis=0)
        steps = (rays - centre).T / np.sqrt(len(rays))  # normal vectors as wide as the set
        if len(rays) > 4 * centre.size:  # the same distribution from fewer numbers
            scale, axes = np.linalg.eigh(steps @ steps.T)
            steps = axes * np.sqrt(np.maximum(scale, 0.0))
        steps = np.ascontiguousarray(steps)
        inequalities = np.array(self._cone.constraints)
        normals = rng.standard_normal((n * _THINNING, steps.shape[1]))
        uniforms = rng.random(n * _THINNING)
        points = _hit_and_run(centre, steps, inequalities, normals, uniforms)
        weights = np.maximum(points[:, : self.k], 0.0)
        weights /= weights.sum(axis=1, keepdims=True)
        return weights, self._least_precision(weights)

    def people(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Return weights (at most n, k) of members of a population who explain the answers.

        They are drawn from a prior over all preferences, so they need no weighting. There are few
        after many answers, and none once somebody could not tell two options apart.
        """
        if self._with_precision:
            return np.zeros((0, self.k))
        for vector, said in self.answers[self._heard :]:
            margin = self._people @ vector
            agree = np.flatnonzero(margin > 0 if said is Answer.FIRST else margin < 0)
            self._people = self._people.take(agree, axis=0)
        self._heard = len(self.answers)
        start = int(rng.integers(max(len(self._people), 1)))
        around = self._people[: max(0, n - len(self._people) + start)][:start]
        return np.vstack([self._people[start : start + n], around])

    def _least_precision(self, weights: FloatArray) -> FloatArray:
        same = [d for d, said in self.answers if said is Answer.INDISTINGUISHABLE]
        if not same:
            return np.zeros(len(weights))
        return np.asarray(np.abs(weights @ np.array(same).T).max(axis=1))

    def _start(self) -> Cone:
        """The simplex of weights, or its product with the interval of precisions."""
        k = self.k
        if not self._with_precision:
            return Cone(np.eye(k), np.eye(k), k)
        flat = np.hstack([np.eye(k), np.zeros((k, 1))])
        top = np.hstack([np.eye(k), np.full((k, 1), self.scale)])
        inequalities = np.vstack([np.eye(k + 1), np.append(np.full(k, self.scale), -1.0)])
        return Cone(np.vstack([flat, top]), inequalities, k)

    def _rows(self, difference: FloatArray, answer: Answer) -> list[FloatArray]:
        """Inequalities ``row @ (w, eps) >= 0`` of one answer."""
        if not self._with_precision:
            return [difference if answer is Answer.FIRST else -difference]
        return answer_rows(difference, answer)

    def _rebuild(self, answers: list[tuple[FloatArray, Answer]], *, with_precision: bool) -> bool:
        before = dict(vars(self))
        self.answers, self.exact, self._with_precision = [], True, with_precision
        self._strict, self._cone = [], self._start()
        self._people, self._heard = population(self.k), 0
        for vector, said in answers:
            if not self.tell(vector, said):
                vars(self).update(before)
                return False
        return True

    def _drop_inequalities(self) -> None:
        """Rebuild from the inequalities with most vertices until the limit is kept."""
        cone, strict = self._cone, set(self._strict)
        first = len(self._start().constraints)
        useful = [i for i in range(first, len(cone.constraints)) if cone.incidence(i) > 0]
        smaller, positions = self._start(), list[int]()
        useful.sort(key=lambda i: (-cone.incidence(i), -i))
        for keep in range(len(useful) - 1, -1, -1):
            smaller, positions = self._start(), []
            for i in sorted(useful[:keep]):
                if i in strict:
                    positions.append(len(smaller.constraints))
                smaller.cut(cone.constraints[i])
                if len(smaller.rays) > self.max_rays:
                    break
            if len(smaller.rays) <= max(self.max_rays // 2, 2 * self.k):
                break
        self._cone, self._strict = smaller, positions
        self.exact = False


def answer_rows(difference: FloatArray, answer: Answer) -> list[FloatArray]:
    """Return the inequalities ``row @ (w, eps) >= 0`` that an answer stands for."""
    if answer is Answer.FIRST:
        return [np.append(difference, -1.0)]
    if answer is Answer.SECOND:
        return [np.append(-difference, -1.0)]
    return [np.append(difference, 1.0), np.append(-difference, 1.0)]


@njit(cache=True)
def _hit_and_run(start, steps, inequalities, normals, uniforms):  # type: ignore[no-untyped-def]  # compiled by numba
    """Random walk inside the cone: uniform on the chord through the point, each step.

    Directions are normal vectors stretched by the matrix ``steps``.
    """
    rows, size = inequalities.shape
    points = np.empty((uniforms.size // _THINNING, size))
    point, direction = start.copy(), np.empty(size)
    slack, change = np.empty(rows), np.empty(rows)
    for row in range(rows):
        slack[row] = 0.0
        for j in range(size):
            slack[row] += inequalities[row, j] * point[j]
    for i in range(uniforms.size):
        for j in range(size):
            direction[j] = 0.0
            for axis in range(steps.shape[1]):
                direction[j] += steps[j, axis] * normals[i, axis]
        low, high = -np.inf, np.inf
        for row in range(rows):
            rate = 0.0
            for j in range(size):
                rate += inequalities[row, j] * direction[j]
            change[row] = rate
            if rate > 1e-14:
                low = max(low, -slack[row] / rate)
            elif rate < -1e-14:
                high = min(high, -slack[row] / rate)
        if low < high and np.isfinite(low) and np.isfinite(high):
            step = low + (high - low) * uniforms[i]
            for j in range(size):
                point[j] += step * direction[j]
            for row in range(rows):
                slack[row] += step * change[row]
        if i % _THINNING == _THINNING - 1:
            points[i // _THINNING] = point
    return points
