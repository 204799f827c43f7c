"""Hypothesis classes seen through orbits: which labelings of a multiset of points exist, and how
invariant the hypotheses behind them can be.

One method gives all restricted classes of the theory. ``labelings(points, mult, G)`` returns the
labelings V of the orbits of a multiset X by hypotheses that label points of one orbit alike, and
for each the least number c of points whose orbit the hypothesis is not constant on. Then
H(X) = {c = 0}, H'(X) = everything, H^eta(X) = {c <= eta |X|}. Source: spec 11 section 2.4.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.class_builders import from_estimators, intervals, thresholds
from counterplay.core.finite_class import FiniteClass
from counterplay.core.halfspaces import halfspaces_2d
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_int
from counterplay.errors import InvalidInputError
from counterplay.invariance.errors import ShapeError
from counterplay.invariance.model import FiniteProblem
from counterplay.invariance.transformations import AbstractOrbits, TransformationSet

Labels01 = NDArray[np.uint8]
Member = Callable[[NDArray[Any]], NDArray[np.int8]]
Tie = Literal["first", "random", "adversarial"]


class HypothesisClass(ABC):
    """A class of hypotheses that can list its labelings of finitely many points."""

    @abstractmethod
    def rows(self, points: NDArray[Any]) -> BoolArray:
        """Labelings of the points, one row each (repetitions allowed)."""

    def labelings(
        self, points: ArrayLike, mult: ArrayLike, G: TransformationSet
    ) -> tuple[Labels01, IntArray]:
        """Labelings V of the components of a multiset, and their invariance cost c.

        Parameters
        ----------
        points:
            The distinct points of the multiset.
        mult:
            How often each occurs.
        G:
            The transformations. Columns of V are the components of ``points`` in the order of
            their canonical keys (``G.components``).
        """
        X = G.check_points(points)
        times = np.asarray(mult, dtype=np.int64)
        image_points, owner = G.images(X)
        everything = np.concatenate([X, image_points]) if len(X) else image_points
        rows = self.rows(everything)
        own, images = rows[:, : len(X)], rows[:, len(X) :]
        if len(X):
            starts = np.searchsorted(owner, np.arange(len(X)))
            moved = np.logical_or.reduceat(images != own[:, owner], starts, axis=1)
        else:
            moved = own
        return collapse(own, moved.astype(np.int64) @ times, G.components(X)[0])

    def fit_member(
        self,
        points: NDArray[Any],
        labels: NDArray[Any],
        weights: FloatArray,
        tie: Tie,
        rng: np.random.Generator,
        truth: Any = None,
    ) -> Member:
        """Hypothesis with the smallest weighted error, as a function of points."""
        raise InvalidInputError(
            f"{type(self).__name__} has no exact empirical risk minimiser; use a scikit-learn "
            "classifier, or an ExplicitClass"
        )


def collapse(own: BoolArray, cost: IntArray, component: IntArray) -> tuple[Labels01, IntArray]:
    """Rows that are constant on components, without repetitions, with their least cost.

    >>> collapse(np.array([[1, 1], [1, 0]], dtype=bool), np.array([2, 0]), np.array([0, 0]))
    (array([[1]], dtype=uint8), array([2]))
    """
    n_components = int(component.max(initial=-1)) + 1
    if n_components == 0:
        low = np.zeros((len(own), 0), dtype=np.uint8)
    elif n_components == component.size:
        low = own[:, np.argsort(component)].astype(np.uint8)
    else:
        order = np.argsort(component, kind="stable")
        starts = np.searchsorted(component[order], np.arange(n_components))
        sorted_rows = own[:, order].astype(np.uint8)
        low = np.minimum.reduceat(sorted_rows, starts, axis=1)
        alike = (low == np.maximum.reduceat(sorted_rows, starts, axis=1)).all(axis=1)
        low, cost = low[alike], cost[alike]
    if len(low) == 0 or n_components == 0:
        return low[:1], cost.min(initial=2**62, keepdims=True)[: len(low)].astype(np.int64)
    codes = _row_codes(low)
    order = np.lexsort([cost, codes]) if codes.ndim == 1 else np.lexsort([cost, *codes[::-1]])
    keys = codes[order] if codes.ndim == 1 else codes[:, order]
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (keys[1:] != keys[:-1]) if codes.ndim == 1 else (keys[:, 1:] != keys[:, :-1]).any(0)
    keep = order[fresh]
    return np.ascontiguousarray(low[keep]), cost[keep].astype(np.int64)


def _row_codes(rows: Labels01) -> NDArray[np.uint64]:
    """Rows as binary numbers (one word, or several words along the first axis)."""
    k = rows.shape[1]
    words = []
    for start in range(0, k, 63):
        part = rows[:, start : start + 63].astype(np.uint64)
        powers = np.uint64(1) << np.arange(part.shape[1] - 1, -1, -1, dtype=np.uint64)
        words.append((part * powers).sum(axis=1, dtype=np.uint64))
    return words[0] if len(words) == 1 else np.array(words)


class ExplicitClass(HypothesisClass):
    """A class given by its label matrix; points are pool indices.

    Examples
    --------
    Two hypotheses on two points of one orbit; only the constant one is an invariant labeling:

    >>> V, c = ExplicitClass([[1, 1], [1, 0]]).labelings([0], [1], AbstractOrbits([0, 0]))
    >>> V, c
    (array([[1]], dtype=uint8), array([0]))
    """

    def __init__(self, matrix: ArrayLike | FiniteClass | FiniteProblem) -> None:
        if isinstance(matrix, FiniteProblem):
            matrix = matrix.H
        labels = matrix.labels if isinstance(matrix, FiniteClass) else np.asarray(matrix)
        self.matrix: BoolArray = np.array(FiniteClass.from_matrix(labels).labels)
        self.matrix.setflags(write=False)
        self._iota: tuple[Any, BoolArray] | None = None

    def __repr__(self) -> str:
        return f"ExplicitClass({self.matrix.shape[0]} hypotheses, {self.matrix.shape[1]} points)"

    def __getstate__(self) -> dict[str, Any]:
        return {"matrix": self.matrix, "_iota": None}

    def rows(self, points: NDArray[Any]) -> BoolArray:
        """Columns of the matrix."""
        return np.asarray(self.matrix[:, points])

    def labelings(
        self, points: ArrayLike, mult: ArrayLike, G: TransformationSet
    ) -> tuple[Labels01, IntArray]:
        """As in the base class, with the orbits of the whole pool computed once."""
        X = G.check_points(points)
        if self._iota is None or self._iota[0] is not G:
            self._iota = (G, self._not_constant(G))
        cost: IntArray = self._iota[1][:, X].astype(np.int64) @ np.asarray(mult, dtype=np.int64)
        return collapse(self.matrix[:, X], cost, G.components(X)[0])

    def _not_constant(self, G: TransformationSet) -> BoolArray:
        pool = np.arange(self.matrix.shape[1])
        images, owner = G.images(pool)
        differs = self.matrix[:, images] != self.matrix[:, owner]
        starts = np.searchsorted(owner, pool)
        return np.asarray(np.logical_or.reduceat(differs, starts, axis=1))

    def fit_member(
        self,
        points: NDArray[Any],
        labels: NDArray[Any],
        weights: FloatArray,
        tie: Tie,
        rng: np.random.Generator,
        truth: Any = None,
    ) -> Member:
        """Row with the smallest weighted error."""
        errors = (self.matrix[:, points] != labels.astype(np.bool_)) @ weights
        best = np.flatnonzero(errors <= errors.min() + 1e-12)
        if tie == "random":
            index = int(rng.choice(best))
        elif tie == "adversarial":
            if truth is None:
                raise InvalidInputError('tie="adversarial" needs truth, the data distribution')
            true = (self.matrix[best][:, truth.points] != truth.labels) @ truth.probabilities
            index = int(best[np.argmax(true)])
        else:
            index = int(best[0])
        row = self.matrix[index].astype(np.int8)
        return lambda X: row[X]


class AllLabelings(HypothesisClass):
    """Every labeling of a pool of ``n_points`` points.

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

    def fit_member(
        self,
        points: NDArray[Any],
        labels: NDArray[Any],
        weights: FloatArray,
        tie: Tie,
        rng: np.random.Generator,
        truth: Any = None,
    ) -> Member:
        """Weighted majority at every seen point; free points by the tie rule."""
        balance = np.zeros(self.n_points)
        np.add.at(balance, points, weights * (2.0 * labels - 1.0))
        free = np.abs(balance) <= 1e-12
        row = (balance > 0).astype(np.int8)
        if tie == "random":
            row[free] = rng.integers(2, size=int(free.sum()))
        elif tie == "adversarial":
            wrong = np.zeros(self.n_points, dtype=np.int8)
            wrong[truth.points] = 1 - truth.labels
            row[free] = wrong[free]
        return lambda X: row[X]


class BalancedSubsets(HypothesisClass):
    """h_u is 0 on [2d] without u and 1 elsewhere, for the subsets u of size d.

    The pool is 0, 1..2d, -1..-2d (in this order), the sign flips. The class has C(2d, d) members
    and is never listed: a labeling of some of the points 1..2d exists iff it has at most d ones and
    at most d zeros.

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

    def fit_member(
        self,
        points: NDArray[Any],
        labels: NDArray[Any],
        weights: FloatArray,
        tie: Tie,
        rng: np.random.Generator,
        truth: Any = None,
    ) -> Member:
        """The d points of [2d] with the best balance of ones; ties by the rule."""
        two_d = 2 * self.d
        balance = np.zeros(4 * self.d + 1)
        np.add.at(balance, points, weights * (2.0 * labels - 1.0))
        score = np.round(balance[1 : two_d + 1], 12)
        if tie == "random":
            breaker = rng.permutation(two_d).astype(np.float64)
        elif tie == "adversarial":
            gain = np.zeros(4 * self.d + 1)
            gain[truth.points] = truth.probabilities * (2.0 * truth.labels - 1.0)
            breaker = gain[1 : two_d + 1]
        else:
            breaker = np.arange(two_d, dtype=np.float64)
        chosen = np.lexsort([breaker, -score])[: self.d]
        row = np.ones(4 * self.d + 1, dtype=np.int8)
        row[1 : two_d + 1] = 0
        row[chosen + 1] = 1
        return lambda X: row[X]


class Thresholds1D(HypothesisClass):
    """Thresholds on the line: 1[x >= a] ("up"), 1[x < a] ("down") or both; points (n, 1).

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


class FittedCommittee(HypothesisClass):
    """The class that consists of some fitted classifiers.

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

    def fit_member(
        self,
        points: NDArray[Any],
        labels: NDArray[Any],
        weights: FloatArray,
        tie: Tie,
        rng: np.random.Generator,
        truth: Any = None,
    ) -> Member:
        """The estimator with the smallest weighted error."""
        errors = (self.rows(points) != labels.astype(np.bool_)) @ weights
        best = np.flatnonzero(errors <= errors.min() + 1e-12)
        if tie == "adversarial":
            true = (self.rows(truth.points) != truth.labels) @ truth.probabilities
            index = int(best[np.argmax(true[best])])
        else:
            index = int(rng.choice(best)) if tie == "random" else int(best[0])
        return lambda X: self.rows(X)[index].astype(np.int8)


class BlockConstants(HypothesisClass):
    """Hypotheses that are constant on each of ``d`` blocks of ``M`` pool points.

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

    def fit_member(
        self,
        points: NDArray[Any],
        labels: NDArray[Any],
        weights: FloatArray,
        tie: Tie,
        rng: np.random.Generator,
        truth: Any = None,
    ) -> Member:
        """Weighted majority of every block."""
        balance = np.zeros(self.d)
        np.add.at(balance, np.asarray(points) // self.M, weights * (2.0 * labels - 1.0))
        free = np.abs(balance) <= 1e-12
        row = (balance > 0).astype(np.int8)
        if tie == "random":
            row[free] = rng.integers(2, size=int(free.sum()))
        elif tie == "adversarial":
            share = np.zeros(self.d)
            np.add.at(share, truth.points // self.M, truth.probabilities * (2.0 * truth.labels - 1))
            row[free] = (share[free] < 0).astype(np.int8)
        return lambda X: row[np.asarray(X) // self.M]


def as_hypotheses(H: Any, G: Any = None) -> tuple[HypothesisClass, TransformationSet]:
    """Return (class, transformations) from a problem, a matrix or a class."""
    if isinstance(H, FiniteProblem):
        return ExplicitClass(H), H.group if G is None else G
    hypotheses = H if isinstance(H, HypothesisClass) else ExplicitClass(H)
    if G is None:
        G = getattr(hypotheses, "group", None)
    if G is None:
        raise InvalidInputError("give the group (or a FiniteProblem, which knows its orbits)")
    return hypotheses, G if isinstance(G, TransformationSet) else AbstractOrbits(G)


def budget(eta: float, size: int) -> int:
    """Largest allowed cost floor(eta |X| + 1e-9); negative for negative eta.

    >>> budget(0.1 + 0.2, 10)
    3
    """
    return math.floor(eta * size + 1e-9)


def _line(points: NDArray[Any]) -> FloatArray:
    array = np.asarray(points, dtype=np.float64)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ShapeError(f"points must be on a line, shape (n, 1), got {array.shape}")
    return array
