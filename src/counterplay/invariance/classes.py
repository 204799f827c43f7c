"""Hypothesis classes seen through orbits: which labelings of a multiset of points exist, and how
invariant the hypotheses behind them can be.

One method gives all restricted classes of the theory. ``labelings(points, mult, G)`` returns the
labelings V of the orbits of a multiset X by hypotheses that label points of one orbit alike, and
for each the least number c of points whose orbit the hypothesis is not constant on. Then
H(X) = {c = 0}, H'(X) = everything, H^eta(X) = {c <= eta |X|}. ``fit_member`` picks a hypothesis
that is best on a weighted sample; a ``TieRule`` says which one if there are several.
Source: docs/theory/11-invariance.md, "Setting" and "Baselines".
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.invariance.model import FiniteProblem
from counterplay.invariance.transformations import AbstractOrbits, TransformationSet

Labels01 = NDArray[np.uint8]
Member = Callable[[NDArray[Any]], NDArray[np.int8]]


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

    def fit_member(self, sample: WeightedSample, tie: TieRule) -> Member:
        """Hypothesis with the smallest weighted error, as a function of points."""
        raise InvalidInputError(
            f"{type(self).__name__} has no exact empirical risk minimiser; use a scikit-learn "
            "classifier, or an ExplicitClass"
        )


def collapse(own: BoolArray, cost: IntArray, component: IntArray) -> tuple[Labels01, IntArray]:
    """Rows that are constant on components, without repetitions, with their least cost.

    Examples
    --------
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
    packed = np.packbits(low, axis=1)  # bytes compare like the rows as binary numbers
    order = np.lexsort([cost, *packed.T[::-1]])
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (packed[order[1:]] != packed[order[:-1]]).any(axis=1)
    keep = order[fresh]  # of equal rows the one with the least cost
    return np.ascontiguousarray(low[keep]), cost[keep].astype(np.int64)


@checked
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
            finite = matrix.finite_class  # made once per problem, rows already distinct
        else:
            labels = matrix.labels if isinstance(matrix, FiniteClass) else np.asarray(matrix)
            finite = FiniteClass.from_matrix(labels)
        self.matrix: BoolArray = np.array(finite.labels)
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

    def fit_member(self, sample: WeightedSample, tie: TieRule) -> Member:
        """Row with the smallest weighted error."""
        errors = sample.errors(self.matrix[:, sample.points])
        index = tie.pick(errors, lambda points: self.matrix[:, points])
        row = self.matrix[index].astype(np.int8)
        return lambda X: row[X]


def as_hypotheses(H: Any, G: Any = None) -> tuple[HypothesisClass, TransformationSet]:
    """Return (class, transformations) from a problem, a matrix or a class."""
    if isinstance(H, FiniteProblem):
        return ExplicitClass(H), H.group if G is None else _as_orbits(G)
    hypotheses = H if isinstance(H, HypothesisClass) else ExplicitClass(H)
    if G is None:
        G = getattr(hypotheses, "group", None)
    if G is None:
        raise InvalidInputError("give the group (or a FiniteProblem, which knows its orbits)")
    return hypotheses, _as_orbits(G)


def _as_orbits(G: Any) -> TransformationSet:
    return G if isinstance(G, TransformationSet) else AbstractOrbits(G)


def budget(eta: float, size: int) -> int:
    """Largest allowed cost floor(eta |X| + 1e-9); negative for negative eta.

    Examples
    --------
    >>> budget(0.1 + 0.2, 10)
    3
    """
    return math.floor(min(max(eta, -1.0), 1.0) * size + 1e-9)


Tie = Literal["first", "random", "adversarial"]


@checked(arrays=True)
@dataclass(frozen=True)
class WeightedSample:
    """Labelled points with weights.

    Examples
    --------
    >>> sample = WeightedSample(np.array([3, 3]), np.array([0, 1]), np.array([0.5, 2.0]))
    >>> sample.errors(np.array([[False, False], [True, True]]))
    array([2. , 0.5])
    """

    points: NDArray[Any]
    labels: NDArray[Any]
    weights: FloatArray

    def errors(self, rows: BoolArray) -> FloatArray:
        """Weight of the points that each row (labels of the points) gets wrong."""
        return np.asarray((rows != self.labels.astype(np.bool_)) @ self.weights)

    def signed_mass(self, n_cells: int, cell_size: int = 1) -> FloatArray:
        """Weight of the ones less weight of the zeros, per cell of ``cell_size`` pool points."""
        mass = np.zeros(n_cells)
        np.add.at(mass, self.points // cell_size, self.weights * (2.0 * self.labels - 1.0))
        return mass


@checked
@dataclass(frozen=True)
class TieRule:
    """Which of several best hypotheses to take.

    "first", "random", or "adversarial": the one with the largest error under ``truth``.

    Examples
    --------
    >>> rule = TieRule("first", np.random.default_rng(0))
    >>> rule.pick(np.array([2.0, 1.0, 1.0]), lambda points: np.zeros((3, 0), dtype=bool))
    1
    """

    name: Tie
    rng: np.random.Generator
    truth: WeightedSample | None = None

    def pick(self, errors: FloatArray, rows: Callable[[NDArray[Any]], BoolArray]) -> int:
        """Number of the hypothesis; ``rows`` labels points by every hypothesis."""
        best = np.flatnonzero(errors <= errors.min() + 1e-12)
        if self.name == "random":
            return int(self.rng.choice(best))
        if self.name == "adversarial":
            truth = self.known_truth()
            return int(best[np.argmax(truth.errors(rows(truth.points)[best]))])
        return int(best[0])

    def majority(
        self, sample: WeightedSample, n_cells: int, cell_size: int = 1
    ) -> NDArray[np.int8]:
        """Weighted majority label of every cell of ``cell_size`` pool points.

        A cell without majority gets 0, a coin toss, or the label with the larger true error.
        """
        balance = sample.signed_mass(n_cells, cell_size)
        free = np.abs(balance) <= 1e-12
        row = ((balance > 0) & ~free).astype(np.int8)
        if self.name == "random":
            row[free] = self.rng.integers(2, size=int(free.sum()))
        elif self.name == "adversarial":
            row[free] = self.known_truth().signed_mass(n_cells, cell_size)[free] < 0
        return row

    def known_truth(self) -> WeightedSample:
        """The data distribution, or InvalidInputError."""
        if self.truth is None:
            raise InvalidInputError('tie="adversarial" needs truth, the data distribution')
        return self.truth
