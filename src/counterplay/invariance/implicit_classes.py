"""Classes that are never listed, with an exact list of their labelings of given points.

On finite pools: all labelings, subsets of half size, constants on blocks. On numbers: thresholds,
intervals, halfspaces, committees of fitted classifiers.
Source: docs/theory/11-invariance.md, "Setting", Theorems 11.2, 11.3 and 11.8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.class_builders import from_estimators, intervals, thresholds
from counterplay.core.halfspaces import halfspaces_2d
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_int
from counterplay.errors import InvalidInputError
from counterplay.invariance.classes import (
    HypothesisClass,
    Labels01,
    Member,
    TieRule,
    WeightedSample,
    collapse,
)
from counterplay.invariance.errors import ShapeError
from counterplay.invariance.transformations import AbstractOrbits, TransformationSet


@checked
class AllLabelings(HypothesisClass):
    """Every labeling of a pool of ``n_points`` points.

    Examples
    --------
    >>> len(AllLabelings(40).labelings([3, 7], [1, 1], AbstractOrbits(range(40)))[0])
    4
    """

    def __init__(self, n_points: int) -> None:
        self.n_points = check_int(n_points, "n_points", low=1)

    def __repr__(self) -> str:
        return f"AllLabelings({self.n_points})"

    def rows(self, points: NDArray[Any]) -> BoolArray:
        """All labelings of the distinct points."""
        distinct, position = np.unique(points, return_inverse=True)
        if distinct.size > 20:
            raise InvalidInputError(f"2^{distinct.size} labelings are too many to list")
        shifts = np.arange(distinct.size - 1, -1, -1)
        grid = ((np.arange(2**distinct.size)[:, None] >> shifts) & 1).astype(np.bool_)
        return grid[:, position.reshape(-1)]

    def fit_member(self, sample: WeightedSample, tie: TieRule) -> Member:
        """Weighted majority at every seen point; free points by the tie rule."""
        row = tie.majority(sample, self.n_points)
        return lambda X: row[X]


@checked
class BalancedSubsets(HypothesisClass):
    """h_u is 0 on [2d] without u and 1 elsewhere, for the subsets u of size d.

    The pool is 0, 1..2d, -1..-2d (in this order), the sign flips. The class has C(2d, d) members
    and is never listed: a labeling of some of the points 1..2d exists iff it has at most d ones and
    at most d zeros.

    Examples
    --------
    >>> pool = BalancedSubsets(3)
    >>> len(pool.labelings([1, 2, 3, 4], [1, 1, 1, 1], pool.group)[0])   # 16 less 0000 and 1111
    14
    """

    def __init__(self, d: int) -> None:
        self.d = check_int(d, "d", low=1, high=10**6)
        two_d = 2 * self.d
        self.group = AbstractOrbits(np.r_[0, np.arange(1, two_d + 1), np.arange(1, two_d + 1)])

    def __repr__(self) -> str:
        return f"BalancedSubsets({self.d})"

    def rows(self, points: NDArray[Any]) -> BoolArray:
        """Feasible labelings of the points."""
        positive = np.unique(points[(points >= 1) & (points <= 2 * self.d)])
        grid = self._feasible(positive.size)
        out = np.ones((len(grid), len(points)), dtype=np.bool_)
        for j, point in enumerate(points):
            if 1 <= point <= 2 * self.d:
                out[:, j] = grid[:, np.searchsorted(positive, point)]
        return out

    def labelings(
        self, points: ArrayLike, mult: ArrayLike, G: TransformationSet
    ) -> tuple[Labels01, IntArray]:
        """As in the base class, without listing the class."""
        X = G.check_points(points)
        times = np.asarray(mult, dtype=np.int64)
        two_d = 2 * self.d
        inner = (X >= 1) & (two_d >= X)
        rows = self.rows(X)
        cost: IntArray = (~rows[:, inner]).astype(np.int64) @ times[inner]
        # A point -i is labelled 1 by all; h_u is constant on its orbit iff i is in u.
        mirrored = np.setdiff1d(X[two_d < X] - two_d, X[inner])
        if mirrored.size:
            weight = np.sort([times[i + two_d == X].sum() for i in mirrored])
            room = np.maximum(self.d - rows[:, inner].sum(axis=1), 0)
            left = np.concatenate([[0], np.cumsum(weight)])
            cost = cost + left[np.maximum(mirrored.size - room, 0)]
        # Where i and -i are both present, agreement forces the label 1.
        return collapse(rows, cost, G.components(X)[0])

    def _feasible(self, k: int) -> BoolArray:
        if k > 22:
            raise InvalidInputError(f"2^{k} labelings are too many to list; use fewer points")
        grid = ((np.arange(2**k)[:, None] >> np.arange(k - 1, -1, -1)) & 1).astype(np.bool_)
        ones = grid.sum(axis=1)
        return np.asarray(grid[(ones <= self.d) & (k - ones <= self.d)])

    def fit_member(self, sample: WeightedSample, tie: TieRule) -> Member:
        """The d points of [2d] with the best balance of ones; ties by the rule."""
        two_d = 2 * self.d
        n_points = 4 * self.d + 1
        score = np.round(sample.signed_mass(n_points)[1 : two_d + 1], 12)
        if tie.name == "random":
            breaker = tie.rng.permutation(two_d).astype(np.float64)
        elif tie.name == "adversarial":
            breaker = tie.known_truth().signed_mass(n_points)[1 : two_d + 1]
        else:
            breaker = np.arange(two_d, dtype=np.float64)
        chosen = np.lexsort([breaker, -score])[: self.d]
        row = np.ones(n_points, dtype=np.int8)
        row[1 : two_d + 1] = 0
        row[chosen + 1] = 1
        return lambda X: row[X]


@checked
class BlockConstants(HypothesisClass):
    """Hypotheses that are constant on each of ``d`` blocks of ``M`` pool points.

    Examples
    --------
    >>> BlockConstants(2, 5).rows(np.array([0, 1, 5])).astype(int)
    array([[0, 0, 0],
           [0, 0, 1],
           [1, 1, 0],
           [1, 1, 1]])
    """

    def __init__(self, d: int, M: int) -> None:
        self.d, self.M = check_int(d, "d", low=1), check_int(M, "M", low=1)

    def __repr__(self) -> str:
        return f"BlockConstants({self.d}, {self.M})"

    def rows(self, points: NDArray[Any]) -> BoolArray:
        """All labelings of the blocks that occur."""
        return AllLabelings(self.d).rows(np.asarray(points) // self.M)

    def fit_member(self, sample: WeightedSample, tie: TieRule) -> Member:
        """Weighted majority of every block; free blocks by the tie rule."""
        row = tie.majority(sample, self.d, self.M)
        return lambda X: row[np.asarray(X) // self.M]


@checked
class Thresholds1D(HypothesisClass):
    """Thresholds on the line: 1[x >= a] ("up"), 1[x < a] ("down") or both; points (n, 1).

    Examples
    --------
    >>> Thresholds1D().rows(np.array([[1.0], [2.0]])).shape
    (3, 2)
    """

    def __init__(self, direction: Literal["up", "down", "both"] = "up") -> None:
        self.direction = direction

    def __repr__(self) -> str:
        return f"Thresholds1D({self.direction!r})"

    def rows(self, points: NDArray[Any]) -> BoolArray:
        """All threshold labelings."""
        return thresholds(_line(points), direction=self.direction)[0]


class Intervals1D(HypothesisClass):
    """Closed intervals on the line (and the empty set); points (n, 1).

    Examples
    --------
    >>> len(Intervals1D().rows(np.array([[1.0], [2.0], [3.0]])))
    7
    """

    def __repr__(self) -> str:
        return "Intervals1D()"

    def rows(self, points: NDArray[Any]) -> BoolArray:
        """All interval labelings."""
        return intervals(_line(points))[0]


class Halfspaces2D(HypothesisClass):
    """Affine halfspaces in the plane, exactly; points (n, 2).

    Examples
    --------
    >>> len(Halfspaces2D().rows(np.random.default_rng(0).normal(size=(20, 2))))
    382
    """

    def __repr__(self) -> str:
        return "Halfspaces2D()"

    def rows(self, points: NDArray[Any]) -> BoolArray:
        """All halfspace labelings."""
        if points.ndim != 2 or points.shape[1] != 2:
            raise ShapeError(f"points must have two columns, got shape {points.shape}")
        return halfspaces_2d(points)


@checked
class FittedCommittee(HypothesisClass):
    """The class that consists of some fitted classifiers.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> both = [DummyClassifier(strategy="constant", constant=c).fit([[0]] * 2, [0, 1])
    ...         for c in (0, 1)]
    >>> FittedCommittee(both).rows(np.zeros((3, 1))).astype(int)
    array([[0, 0, 0],
           [1, 1, 1]])
    """

    def __init__(self, estimators: Sequence[Any], positive: Any = None) -> None:
        if len(estimators) == 0:
            raise InvalidInputError("estimators must contain at least one fitted classifier")
        self.estimators = tuple(estimators)
        self.positive = positive

    def __repr__(self) -> str:
        return f"FittedCommittee({len(self.estimators)} estimators)"

    def rows(self, points: NDArray[Any]) -> BoolArray:
        """Predictions of every estimator."""
        if len(points) == 0:
            return np.zeros((1, 0), dtype=np.bool_)
        return from_estimators(self.estimators, points, self.positive)

    def fit_member(self, sample: WeightedSample, tie: TieRule) -> Member:
        """The estimator with the smallest weighted error."""
        index = tie.pick(sample.errors(self.rows(sample.points)), self.rows)
        return lambda X: self.rows(X)[index].astype(np.int8)


def _line(points: NDArray[Any]) -> FloatArray:
    array = np.asarray(points, dtype=np.float64)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ShapeError(f"points must be on a line, shape (n, 1), got {array.shape}")
    return array
