"""Classes that are never listed: all labelings, subsets of half size, constants on blocks.

Source: docs/theory/11-invariance.md, Theorems 11.2, 11.3 and 11.8.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.validation import BoolArray, IntArray, check_int
from counterplay.errors import InvalidInputError
from counterplay.invariance.classes import HypothesisClass, Labels01, Member, collapse
from counterplay.invariance.tie_rules import TieRule, WeightedSample
from counterplay.invariance.transformations import AbstractOrbits, TransformationSet


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
        self.d = check_int(d, "d", low=1)
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
