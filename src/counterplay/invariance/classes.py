"""Hypothesis classes seen through orbits: which labelings of a multiset of points exist, and how
invariant the hypotheses behind them can be.

One method gives all restricted classes of the theory. ``labelings(points, mult, G)`` returns the
labelings V of the orbits of a multiset X by hypotheses that label points of one orbit alike, and
for each the least number c of points whose orbit the hypothesis is not constant on. Then
H(X) = {c = 0}, H'(X) = everything, H^eta(X) = {c <= eta |X|}. Source: docs/theory/11-invariance.md,
"Setting".
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import BoolArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.invariance.model import FiniteProblem
from counterplay.invariance.tie_rules import TieRule, WeightedSample
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
        return ExplicitClass(H), H.group if G is None else G
    hypotheses = H if isinstance(H, HypothesisClass) else ExplicitClass(H)
    if G is None:
        G = getattr(hypotheses, "group", None)
    if G is None:
        raise InvalidInputError("give the group (or a FiniteProblem, which knows its orbits)")
    return hypotheses, G if isinstance(G, TransformationSet) else AbstractOrbits(G)


def budget(eta: float, size: int) -> int:
    """Largest allowed cost floor(eta |X| + 1e-9); negative for negative eta.

    Examples
    --------
    >>> budget(0.1 + 0.2, 10)
    3
    """
    return math.floor(eta * size + 1e-9)
