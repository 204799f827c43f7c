"""Finite problems with orbits, data distributions on them, and which setting they are in.

A problem is a class on a pool of points that is closed under the transformations. What a
hypothesis says about orbits is a partial concept: 0 or 1 where it is constant, 2 where it is not.
``Learner`` is what all learners of the theory share: checked samples and fresh copies.
Source: docs/theory/11-invariance.md, "Setting".
"""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.finite_class import FiniteClass
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_int,
    check_labels01,
    check_probabilities,
    shorten,
)
from counterplay.errors import InvalidInputError, ProtocolError
from counterplay.invariance.errors import ConflictingOrbitLabelsError, ShapeError
from counterplay.invariance.transformations import AbstractOrbits, MapSet, TransformationSet
from counterplay.tables import Labels
from counterplay.tables.labels import as_labels

SettingName = Literal["invariant", "relaxed", "agnostic"]


@dataclass(frozen=True, eq=False)  # checks itself: orbits may have any labels
class FiniteProblem:
    """A finite class on a pool of points with orbits: the work-horse of the theory.

    Parameters
    ----------
    H:
        0/1 matrix (N, P), one row per hypothesis; equal rows are merged, the order is kept.
    orbit:
        Orbit of each pool point (any labels), or a :class:`MapSet` for maps without group laws.

    Examples
    --------
    >>> problem = FiniteProblem([[0, 0, 1], [0, 1, 1]], [5, 5, 7])
    >>> problem.O                   # the second hypothesis is not constant on the first orbit
    array([[0, 1],
           [2, 1]], dtype=uint8)
    """

    H: NDArray[np.uint8]
    orbit: IntArray | MapSet

    def __post_init__(self) -> None:
        labels = check_labels01(self.H, "H").astype(np.uint8)
        if labels.ndim != 2 or labels.shape[0] == 0:
            raise InvalidInputError(f"H must be a matrix with rows, got shape {labels.shape}")
        keep = np.sort(np.unique(labels, axis=0, return_index=True)[1])
        labels = np.ascontiguousarray(labels[keep])
        labels.setflags(write=False)
        object.__setattr__(self, "H", labels)
        group = self.orbit if isinstance(self.orbit, MapSet) else AbstractOrbits(self.orbit)
        size = group.table.shape[0] if isinstance(group, MapSet) else group.orbit_id.size
        if size != labels.shape[1]:
            raise ShapeError(f"orbit must name the orbits of {labels.shape[1]} points, got {size}")
        if isinstance(group, AbstractOrbits):
            object.__setattr__(self, "orbit", group.orbit_id)
        object.__setattr__(self, "_group", group)

    def __repr__(self) -> str:
        n, p = self.H.shape
        return f"FiniteProblem({n} hypotheses, {p} points, {self.n_orbits} orbits)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FiniteProblem):
            return NotImplemented
        return np.array_equal(self.H, other.H) and np.array_equal(self.iota, other.iota)

    def __hash__(self) -> int:
        return hash(self.H.tobytes())

    @property
    def group(self) -> AbstractOrbits | MapSet:
        """The transformations, acting on pool indices."""
        group: AbstractOrbits | MapSet = self._group  # type: ignore[attr-defined]  # set above
        return group

    @property
    def is_group(self) -> bool:
        """Whether orbits partition the pool."""
        return self.group.is_group

    @property
    def n_points(self) -> int:
        """Size P of the pool."""
        return int(self.H.shape[1])

    @property
    def n_orbits(self) -> int:
        """Number of orbits (for maps: of components of intersecting orbits)."""
        return int(self.group.components(np.arange(self.n_points))[0].max(initial=-1)) + 1

    @cached_property
    def finite_class(self) -> FiniteClass:
        """The class in bit-packed form."""
        return FiniteClass.from_matrix(self.H)

    @cached_property
    def O(self) -> NDArray[np.uint8]:  # noqa: E743  the name of the matrix in the theory
        """Label of each hypothesis on each orbit, 2 where it is not constant (groups only)."""
        if isinstance(self.orbit, MapSet):
            raise InvalidInputError("orbit labels need a group; use iota for maps")
        return orbit_labels(self.finite_class, self.orbit)

    @cached_property
    def iota(self) -> BoolArray:
        """Whether each hypothesis is not constant on the orbit of each point, shape (N, P)."""
        if isinstance(self.orbit, MapSet):
            images = self.H[:, self.orbit.table]
            result: BoolArray = (images != self.H[:, :, None]).any(axis=2)
            return result
        return np.asarray((self.O == 2)[:, self.orbit])


@checked
@dataclass(frozen=True, eq=False)
class FiniteDistribution:
    """A distribution with finite support: points with their label and probability.

    Labels are deterministic, because every distribution of this theory is.

    Examples
    --------
    >>> data = FiniteDistribution([3, 4], [0, 1], [0.25, 0.75])
    >>> data.error([0, 0])
    0.75
    """

    points: NDArray[Any]
    labels: NDArray[np.int8]
    probabilities: FloatArray

    def __post_init__(self) -> None:
        points = np.array(self.points)
        if points.ndim == 0 or points.dtype.kind == "c":
            raise InvalidInputError(f"points must be a list of points, got {shorten(self.points)}")
        labels = check_labels01(self.labels, "labels")
        probabilities = check_probabilities(self.probabilities, "probabilities").copy()
        if not len(points) == len(labels) == len(probabilities):
            raise InvalidInputError("points, labels and probabilities must have equal length")
        values = {"points": points, "labels": labels, "probabilities": probabilities}
        for name, value in values.items():
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.points)

    def sample(
        self, n: int, random_state: RandomState = None
    ) -> tuple[NDArray[Any], NDArray[np.int8]]:
        """Draw n labelled points."""
        rng = generator(random_state)
        picks = rng.choice(len(self), size=check_int(n, "n", low=0), p=self.probabilities)
        return self.points[picks], self.labels[picks]

    def error(self, predictions: ArrayLike) -> float:
        """Probability that predictions (one per support point) are wrong."""
        wrong = np.abs(np.asarray(predictions, dtype=np.float64) - self.labels)
        return float(self.probabilities @ wrong)

    def error_of(self, learner: Any) -> float:
        """Error of a fitted learner on this distribution, computed exactly."""
        return self.error(learner.predict(self.points))


@checked
@dataclass(frozen=True)
class Regime(Report):
    """Which of the three settings a class and a distribution are in.

    Attributes
    ----------
    name:
        "invariant" (a perfect hypothesis is constant on all data orbits), "relaxed" (a hypothesis
        is right on the data) or "agnostic".
    best_error:
        Smallest error in the class.
    eta:
        Least probability of a point on whose orbit a best hypothesis is not constant.
    """

    name: SettingName
    best_error: float
    eta: float

    def summary(self) -> str:
        """One sentence."""
        return (
            f"{self.name} setting: best error {self.best_error:.4g}, the most invariant best "
            f"hypothesis is not constant on the orbits of {self.eta:.4g} of the data"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row with the three values."""
        return pd.DataFrame(
            [{"setting": self.name, "best_error": self.best_error, "eta": self.eta}]
        )


@checked
def classify_regime(
    H: ArrayLike | FiniteProblem, G: TransformationSet | ArrayLike | None, D: FiniteDistribution
) -> Regime:
    """Tell whether a problem is invariantly realizable, relaxed realizable or agnostic.

    Parameters
    ----------
    H:
        0/1 matrix, or a :class:`FiniteProblem` (``G`` is then None).
    G:
        Orbits of the pool points, or a MapSet.
    D:
        Distribution over pool points.

    Examples
    --------
    Points -2, -1, 1, 2 with the sign flip, data uniform on {1, 2}, all labels 0:

    >>> D = FiniteDistribution([2, 3], [0, 0], [0.5, 0.5])
    >>> classify_regime([[1, 1, 0, 0]], [2, 1, 1, 2], D)
    Regime(name='relaxed', best_error=0.0, eta=1.0)
    """
    problem = as_problem(H, G)
    points = problem.group.check_points(D.points)
    errors = (problem.H[:, points] != D.labels) @ D.probabilities
    best = float(errors.min())
    etas = problem.iota[:, points] @ D.probabilities
    eta = float(etas[errors <= best + 1e-12].min())
    name: SettingName = "agnostic"
    if best <= 1e-12:
        name, best = ("invariant" if eta <= 1e-12 else "relaxed"), 0.0
    return Regime(name, best, eta)


@checked
def orbit_ids(orbits: ArrayLike, n_points: int) -> IntArray:
    """Return the orbit of each point as numbers 0..K-1, in the order of the sorted labels."""
    array = np.asarray(orbits)
    if array.shape != (n_points,):
        raise InvalidInputError(f"orbits must have length {n_points}, got shape {array.shape}")
    return np.unique(array, return_inverse=True)[1].reshape(-1).astype(np.int64)


@checked
def orbit_labels(cls: FiniteClass, orbits: ArrayLike) -> NDArray[np.uint8]:
    """Label of each member on each orbit: 0, 1, or 2 where the member is not constant.

    Examples
    --------
    >>> cls = FiniteClass.from_matrix([[0, 0, 1], [0, 1, 1]])
    >>> orbit_labels(cls, [0, 0, 1])
    array([[0, 1],
           [2, 1]], dtype=uint8)
    """
    ids = orbit_ids(orbits, cls.n_points)
    if ids.size == 0:
        return np.zeros((len(cls), 0), dtype=np.uint8)
    order = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
    sorted_labels = cls.labels.view(np.uint8)[:, order]
    low = np.minimum.reduceat(sorted_labels, starts, axis=1)
    high = np.maximum.reduceat(sorted_labels, starts, axis=1)
    labels: NDArray[np.uint8] = np.where(low == high, low, np.uint8(2))
    return labels


def as_problem(H: Any, G: Any = None) -> FiniteProblem:
    """Return a FiniteProblem from a problem, or from a matrix and its orbits."""
    if isinstance(H, FiniteProblem):
        return H
    matrix = getattr(H, "matrix", H)
    if isinstance(matrix, FiniteClass):
        matrix = matrix.labels
    if G is None:
        raise InvalidInputError("give the orbits of the pool points (or a FiniteProblem)")
    return FiniteProblem(np.asarray(matrix), G.orbit_id if isinstance(G, AbstractOrbits) else G)


@checked
def check_sample_invariant(
    group: TransformationSet,
    X: Any,
    y: Any,
    on_conflict: Literal["raise", "majority"] = "raise",
) -> NDArray[Any]:
    """Check that points of one orbit carry one label; return the labels to use.

    Parameters
    ----------
    group:
        The transformations.
    X:
        The points.
    y:
        Their labels.
    on_conflict:
        "raise" (labels inside orbits differ: the transformations do not preserve labels here), or
        "majority" for dirty data: every orbit gets its most frequent label, the first on ties.

    Examples
    --------
    >>> orbits = AbstractOrbits([0, 0, 1])
    >>> check_sample_invariant(orbits, [0, 1, 0, 2], [1, 0, 1, 0], on_conflict="majority")
    array([1, 1, 1, 0])
    """
    check_choice(on_conflict, "on_conflict", ("raise", "majority"))
    ids, _ = group.components(X)
    labels = Labels.of(y, rows=ids.size)
    settled = resolve_conflicts(ids, labels.codes, on_conflict)
    answer: NDArray[Any] = as_labels(labels.classes)[settled]
    return answer


def resolve_conflicts(
    ids: IntArray, labels: NDArray[Any], on_conflict: str, weights: FloatArray | None = None
) -> NDArray[Any]:
    """Labels per point that are constant on every component, or ConflictingOrbitLabelsError."""
    if ids.size == 0:
        return labels
    classes, codes = np.unique(labels, return_inverse=True)
    counts = np.zeros((int(ids.max()) + 1, classes.size))
    np.add.at(counts, (ids, codes.reshape(-1)), 1.0 if weights is None else weights)
    mixed = (counts > 0).sum(axis=1) > 1
    if mixed.any() and on_conflict == "raise":
        indices = np.flatnonzero(mixed[ids])
        raise ConflictingOrbitLabelsError(
            f"{int(mixed.sum())} orbits carry different labels, such as rows "
            f"{_first_pair(ids, codes.reshape(-1), indices)}; check the data and the group, or "
            'use on_conflict="majority"',
            indices=indices.tolist(),
        )
    winner: NDArray[Any] = classes[counts.argmax(axis=1)][ids]
    return winner


def _first_pair(ids: IntArray, codes: IntArray, indices: NDArray[Any]) -> tuple[int, int]:
    first = int(indices[0])
    others = [i for i in indices if ids[i] == ids[first] and codes[i] != codes[first]]
    return first, int(others[0])


def check_learner(value: Any, name: str) -> Any:
    """Return a learner that knows its transformations, or raise."""
    wanted = ("fit", "predict", "fresh")
    knows = isinstance(getattr(value, "group", None), TransformationSet)
    if isinstance(value, type) or not knows or not all(hasattr(value, m) for m in wanted):
        raise InvalidInputError(
            f"{name} must be a learner with fit, predict, fresh and a group, "
            f"got {shorten(value, 80)}"
        )
    return value


class Learner(ABC):
    """A learner of 0/1 labels under transformations: ``fit(X, y)``, then ``predict(X)``."""

    group: TransformationSet
    on_conflict: Literal["raise", "majority"] = "raise"

    @abstractmethod
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from a labelled sample of natural points."""

    @abstractmethod
    def predict(self, X: ArrayLike) -> NDArray[np.int8]:
        """Labels of natural test points."""

    def fresh(self) -> Self:
        """A copy that has not seen data, for independent runs."""
        twin = copy.copy(self)
        for name in [name for name in vars(twin) if name.endswith("_")]:
            delattr(twin, name)
        return twin

    def __repr__(self) -> str:
        names = inspect.signature(type(self).__init__).parameters
        shown = ", ".join(f"{n}={getattr(self, n)!r}" for n in names if hasattr(self, n))
        return f"{type(self).__name__}({shown})"

    def _check_sample(
        self, X: ArrayLike, y: ArrayLike, *, settle: bool = True
    ) -> tuple[NDArray[Any], NDArray[np.int8]]:
        """Points and labels, checked; labels inside orbits agree (``settle``)."""
        points = self.group.check_points(X)
        labels = check_labels01(y).reshape(-1)
        if labels.size != len(points):
            raise InvalidInputError(f"X has {len(points)} points, but y has {labels.size} labels")
        if settle:
            ids, _ = self.group.components(points)
            labels = resolve_conflicts(ids, labels, self.on_conflict)
        return points, labels

    def _check_fitted(self, X: ArrayLike, attribute: str) -> NDArray[Any]:
        if not hasattr(self, attribute):
            raise ProtocolError(f"{type(self).__name__} is not fitted yet; call fit first")
        return self.group.check_points(X)
