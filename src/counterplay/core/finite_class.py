"""Finite hypothesis classes: which label each of N hypotheses gives to each of P points.

One object serves all areas: version spaces, query trees, combinatorial dimensions and one-inclusion
graphs are computed from the same bit-packed label matrix. An infinite class enters through its
trace on a finite list of points.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core import class_builders as build
from counterplay.core.arguments import checked
from counterplay.core.bits import (
    Words,
    as_indices,
    pack_rows,
    popcount,
    transpose_words,
    unique_rows,
    unpack_rows,
    words_to_int,
)
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_float_array,
    check_int,
    check_labels01,
)
from counterplay.core.weights import Weights, check_weights
from counterplay.errors import InvalidInputError


@checked(arrays=True)
@dataclass(frozen=True, eq=False, repr=False)
class FiniteClass:
    """A finite set of 0/1 hypotheses on a finite list of points; immutable.

    Use it whenever the hypotheses can be listed: a catalogue of rules, the labelings of a pool by
    thresholds, boxes or halfspaces, a committee of fitted classifiers. Build it with one of the
    class methods below; the plain constructor takes packed words and makes the arrays read-only.

    Parameters
    ----------
    packed:
        Label rows in 64-bit words, shape (N, ceil(P / 64)); see :mod:`counterplay.core.bits`.
    n_points:
        The number P of points.
    weights:
        Non-negative weights of the members, unnormalised; see :attr:`prior`. An object array of
        Python ints or Fractions keeps all later masses exact.
    point_weights:
        Non-negative weights of the points, such as the data distribution.
    points:
        Coordinates of the points, shape (P, d).
    params:
        Parameters of the members, shape (N, q), such as cut points.
    names:
        Names of the members.

    Notes
    -----
    Members and points are numbered from 0. Rows need not be distinct: see :meth:`deduplicated`.

    Examples
    --------
    Halfspaces in the plane realise m(m-1)+2 labelings of m points in general position:

    >>> pool = np.random.default_rng(0).normal(size=(50, 2))
    >>> FiniteClass.halfspaces_2d(pool)
    FiniteClass(2452 members, 50 points)

    Thresholds that agree with two labels:

    >>> line = FiniteClass.thresholds([1, 2, 3, 4])
    >>> line.labels[line.consistent([0, 2], [0, 1])].astype(int)
    array([[0, 1, 1, 1],
           [0, 0, 1, 1]])
    """

    packed: Words
    n_points: int
    weights: Weights | None = None
    point_weights: FloatArray | None = None
    points: FloatArray | None = None
    params: FloatArray | None = None
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        p = check_int(self.n_points, "n_points", low=0)
        if self.packed.ndim != 2 or self.packed.shape[1] != (p + 63) // 64:
            raise InvalidInputError(
                f"packed must have {(p + 63) // 64} words per row for {p} points, "
                f"got shape {self.packed.shape}"
            )
        if self.packed.dtype != np.uint64:
            raise InvalidInputError(f"packed must hold 64-bit words, got {self.packed.dtype}")
        n = self.packed.shape[0]
        if n == 0:
            raise InvalidInputError("a class needs at least one hypothesis")
        checks: list[tuple[str, Any, int]] = [
            ("weights", self.weights, n),
            ("params", self.params, n),
            ("names", self.names, n),
            ("point_weights", self.point_weights, p),
            ("points", self.points, p),
        ]
        for name, value, expected in checks:
            if value is not None and len(value) != expected:
                raise InvalidInputError(f"{name} must have length {expected}, got {len(value)}")
        for array in (self.packed, self.weights, self.point_weights, self.points, self.params):
            if array is not None:
                array.setflags(write=False)

    # Constructors.

    @classmethod
    def from_matrix(
        cls,
        labels: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        exact: bool = False,
        point_weights: ArrayLike | None = None,
        points: ArrayLike | None = None,
        params: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> FiniteClass:
        """Build a class from a 0/1 matrix, one row per hypothesis.

        ``exact=True`` keeps integer and Fraction weights as they are.
        """
        matrix = np.asarray(labels)
        if matrix.ndim != 2:
            raise InvalidInputError(f"labels must be a matrix, got shape {matrix.shape}")
        checked = check_labels01(matrix, "labels")
        return cls(
            packed=pack_rows(checked),
            n_points=matrix.shape[1],
            weights=None if weights is None else check_weights(weights, exact=exact),
            point_weights=_point_weights(point_weights),
            points=_coordinates(points),
            params=None if params is None else _columns(np.array(params, dtype=np.float64)),
            names=None if names is None else tuple(str(name) for name in names),
        )

    @classmethod
    def thresholds(
        cls,
        points: ArrayLike,
        *,
        cuts: ArrayLike | None = None,
        direction: build.Direction = "up",
    ) -> FiniteClass:
        """Labelings 1[x >= cut] of numbers (or 1[x < cut], or both); params (cut, is_up).

        Examples
        --------
        >>> len(FiniteClass.thresholds(range(127)))
        128
        """
        rows, params = build.thresholds(points, cuts, direction)
        return cls.from_matrix(rows, points=points, params=params)

    @classmethod
    def intervals(cls, points: ArrayLike) -> FiniteClass:
        """Labelings by closed intervals, m(m+1)/2 + 1 on m distinct numbers; params (low, high)."""
        rows, params = build.intervals(points)
        return cls.from_matrix(rows, points=points, params=params)

    @classmethod
    def unions_of_intervals(cls, points: ArrayLike, k: int) -> FiniteClass:
        """Labelings by unions of at most ``k`` intervals.

        Examples
        --------
        >>> len(FiniteClass.unions_of_intervals(range(6), 2))
        57
        """
        return cls.from_matrix(build.unions_of_intervals(points, k), points=points)

    @classmethod
    def boxes(cls, points: ArrayLike) -> FiniteClass:
        """Labelings by axis-aligned boxes, with the smallest box of each as params."""
        rows, params = build.boxes(points)
        return cls.from_matrix(rows, points=points, params=params)

    @classmethod
    def halfspaces_2d(cls, points: ArrayLike) -> FiniteClass:
        """All labelings of points in the plane by affine halfspaces, enumerated exactly."""
        from counterplay.core.halfspaces import halfspaces_2d  # numba: only when needed

        return cls.from_matrix(halfspaces_2d(points), points=points)

    @classmethod
    def halfspaces_lp(cls, points: ArrayLike) -> FiniteClass:
        """All labelings of a few points in any dimension by halfspaces, by linear programs."""
        from counterplay.core.halfspaces import halfspaces_lp

        return cls.from_matrix(halfspaces_lp(points), points=points)

    @classmethod
    def singletons(cls, n_points: int, *, include_empty: bool = False) -> FiniteClass:
        """One hypothesis per point, 1 there and 0 elsewhere; optionally the all-zero one, last."""
        return cls.from_matrix(build.singletons(n_points, include_empty))

    @classmethod
    def all_labelings(cls, n_points: int) -> FiniteClass:
        """All 2^n labelings of ``n_points`` points."""
        return cls.from_matrix(build.all_labelings(n_points))

    @classmethod
    def from_estimators(
        cls,
        estimators: Sequence[Any],
        X: ArrayLike,
        *,
        positive: Any | None = None,
        weights: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> FiniteClass:
        """Label rows of fitted classifiers on a pool ``X``; ``positive`` is the class for 1."""
        rows = build.from_estimators(estimators, X, positive)
        return cls.from_matrix(rows, weights=weights, names=names)

    @classmethod
    def product(cls, *factors: FiniteClass) -> FiniteClass:
        """Independent copies side by side: one member per choice of a member of every factor.

        Examples
        --------
        >>> copies = FiniteClass.product(FiniteClass.singletons(2), FiniteClass.singletons(3))
        >>> copies.shape
        (6, 5)
        """
        rows = np.zeros((1, 0), dtype=np.bool_)
        for factor in factors:
            left = np.repeat(rows, len(factor), axis=0)
            right = np.tile(factor.labels, (rows.shape[0], 1))
            rows = np.hstack([left, right])
        return cls.from_matrix(rows)

    # Views.

    def __len__(self) -> int:
        return int(self.packed.shape[0])

    @property
    def n_members(self) -> int:
        """The number N of hypotheses, also ``len(cls)``."""
        return len(self)

    @property
    def shape(self) -> tuple[int, int]:
        """(hypotheses, points)."""
        return len(self), self.n_points

    @cached_property
    def labels(self) -> BoolArray:
        """The label matrix, boolean, read-only."""
        return _frozen(unpack_rows(self.packed, self.n_points))

    @cached_property
    def columns(self) -> Words:
        """For each point the members that label it 1, packed: shape (P, ceil(N / 64))."""
        return _frozen(transpose_words(self.packed, self.n_points))

    @cached_property
    def column_ints(self) -> tuple[int, ...]:
        """For each point the members that label it 1, as a Python int."""
        return tuple(words_to_int(words) for words in self.columns)

    @cached_property
    def member_counts(self) -> IntArray:
        """How many points each member labels 1."""
        return _frozen(popcount(self.packed))

    @cached_property
    def point_counts(self) -> IntArray:
        """How many members label each point 1."""
        return _frozen(popcount(self.columns))

    @property
    def is_exact(self) -> bool:
        """Whether the weights are Python ints or Fractions."""
        return self.weights is not None and self.weights.dtype == object

    @cached_property
    def prior(self) -> Weights:
        """The weights divided by their sum (Fractions in exact mode); uniform without weights."""
        if self.weights is None:
            return _frozen(np.full(len(self), 1.0 / len(self)))
        total = self.weights.sum()
        return _frozen(
            self.weights * Fraction(1, 1) / total if self.is_exact else self.weights / total
        )

    def __repr__(self) -> str:
        extra = (
            ", exact weights" if self.is_exact else ", weighted" if self.weights is not None else ""
        )
        return f"FiniteClass({len(self)} members, {self.n_points} points{extra})"

    def __eq__(self, other: object) -> bool:
        """Equal label matrices and equal weights; names, params and coordinates do not matter."""
        if not isinstance(other, FiniteClass):
            return NotImplemented
        same = self.n_points == other.n_points and np.array_equal(self.packed, other.packed)
        if self.weights is None or other.weights is None:
            return same and self.weights is other.weights
        return (
            same and self.is_exact == other.is_exact and bool((self.weights == other.weights).all())
        )

    def __hash__(self) -> int:
        return hash((self.n_points, self.packed.tobytes()))

    def __iter__(self) -> Iterator[BoolArray]:
        return iter(self.labels)

    # Parts of a class.

    def select(self, members: Any) -> FiniteClass:
        """Keep the given members (indices or mask), with their weights, params and names."""
        index = as_indices(members, len(self), "members")
        return replace(
            self,
            packed=self.packed[index],
            weights=None if self.weights is None else self.weights[index],
            params=None if self.params is None else self.params[index],
            names=None if self.names is None else tuple(self.names[i] for i in index),
        )

    def restrict(self, points: Any) -> FiniteClass:
        """Keep the given points (indices or mask, in the given order); rows may become equal."""
        index = as_indices(points, self.n_points, "points")
        return replace(
            self,
            packed=pack_rows(self.labels[:, index]),
            n_points=index.size,
            point_weights=None if self.point_weights is None else self.point_weights[index],
            points=None if self.points is None else self.points[index],
        )

    def deduplicated(self) -> Deduplication:
        """Merge equal rows, adding their weights; members keep the order of first occurrence.

        Examples
        --------
        >>> merged = FiniteClass.from_matrix([[0, 1], [1, 1], [0, 1]], weights=[1, 2, 4],
        ...                                  exact=True).deduplicated()
        >>> merged.unique.weights, merged.inverse
        (array([5, 2], dtype=object), array([0, 1, 0]))
        """
        first, inverse, counts = unique_rows(self.packed)
        unique = self.select(first)
        if self.weights is not None:
            merged = np.zeros(first.size, dtype=self.weights.dtype)
            np.add.at(merged, inverse, self.weights)
            unique = replace(unique, weights=merged)
        return Deduplication(unique, first, inverse, counts)

    def trace(self, points: Any) -> Deduplication:
        """Restrict to points and merge equal rows: the class as seen on these points."""
        return self.restrict(points).deduplicated()

    def with_weights(self, weights: ArrayLike | None, *, exact: bool = False) -> FiniteClass:
        """Return the same class with other member weights."""
        checked = None if weights is None else check_weights(weights, exact=exact)
        return replace(self, weights=checked)

    def with_point_weights(self, point_weights: ArrayLike | None) -> FiniteClass:
        """Return the same class with other point weights."""
        return replace(self, point_weights=_point_weights(point_weights))

    def flipped(self, points: Any) -> FiniteClass:
        """Exchange the labels 0 and 1 on the given points."""
        row = np.zeros(self.n_points, dtype=np.bool_)
        row[as_indices(points, self.n_points, "points")] = True
        return replace(self, packed=self.packed ^ pack_rows(row), params=None)

    # Questions.

    def consistent(self, points: Any, labels: ArrayLike) -> BoolArray:
        """Mask of the members that give all the listed labels."""
        index = as_indices(points, self.n_points, "points")
        y = np.atleast_1d(check_labels01(labels, "labels"))
        if y.shape != index.shape:
            raise InvalidInputError(f"got {index.size} points but {y.size} labels")
        wanted = np.zeros((2, self.n_points), dtype=np.bool_)
        wanted[y, index] = True
        zeros, ones = pack_rows(wanted)
        wrong: BoolArray = ((self.packed & zeros) | (~self.packed & ones)).any(axis=1)
        return ~wrong

    def disagreement(self, members: Any = slice(None)) -> BoolArray:
        """Mask of the points on which the given members (default: all) do not all agree."""
        rows = self.packed[as_indices(members, len(self), "members")]
        if rows.shape[0] == 0:
            return np.zeros(self.n_points, dtype=np.bool_)
        some, every = np.bitwise_or.reduce(rows, axis=0), np.bitwise_and.reduce(rows, axis=0)
        return unpack_rows(some & ~every, self.n_points)

    def union(self, members: Any) -> BoolArray:
        """Label row of the OR of the given members (all zero for none)."""
        rows = self.packed[as_indices(members, len(self), "members")]
        return unpack_rows(np.bitwise_or.reduce(rows, axis=0), self.n_points)

    def intersection(self, members: Any) -> BoolArray:
        """Label row of the AND of the given members (all one for none)."""
        rows = self.packed[as_indices(members, len(self), "members")]
        return unpack_rows(np.bitwise_and.reduce(rows, axis=0), self.n_points)

    def index_of(self, row: ArrayLike) -> int | None:
        """Index of the first member with this label row, or None."""
        wanted = np.asarray(row)
        if wanted.shape != (self.n_points,):
            raise InvalidInputError(f"row must have length {self.n_points}, got {wanted.shape}")
        hits = np.flatnonzero((self.packed == pack_rows(check_labels01(wanted, "row"))).all(axis=1))
        return int(hits[0]) if hits.size else None

    def errors(self, target: int | ArrayLike) -> FiniteClass:
        """The class of error sets: members XOR a target (member index or label row)."""
        row = self._row(target)
        return replace(self, packed=self.packed ^ row, params=None)

    def error_rates(self, target: int | ArrayLike) -> FloatArray:
        """Mass of the points on which each member differs from the target."""
        wrong = unpack_rows(self.packed ^ self._row(target), self.n_points)
        if self.point_weights is None:
            return np.asarray(wrong.mean(axis=1), dtype=np.float64)
        rates: FloatArray = wrong @ (self.point_weights / self.point_weights.sum())
        return rates

    def is_intersection_closed(self) -> bool:
        """Whether the AND of any two members is a member."""
        keys = {row.tobytes() for row in self.packed}
        unique = self.packed[unique_rows(self.packed)[0]]
        return all(
            row.tobytes() in keys for i in range(len(unique)) for row in unique[i + 1 :] & unique[i]
        )

    # Storage.

    def to_dict(self) -> dict[str, Any]:
        """Return the class as plain JSON values; weights and labels survive exactly."""
        from counterplay.core.class_io import to_dict

        return to_dict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> FiniteClass:
        """Undo :meth:`to_dict`."""
        from counterplay.core.class_io import from_dict

        return from_dict(data)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the class to an ``.npz`` file (no pickle inside); return the path."""
        from counterplay.core.class_io import save

        return save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FiniteClass:
        """Read a class written by :meth:`save`."""
        from counterplay.core.class_io import load

        return load(path)

    def _row(self, target: int | ArrayLike) -> Words:
        if np.ndim(target) == 0:
            member: Words = self.packed[as_indices(target, len(self), "target")[0]]
            return member
        row = np.asarray(target)
        if row.shape != (self.n_points,):
            raise InvalidInputError(f"target must have length {self.n_points}, got {row.shape}")
        return pack_rows(check_labels01(row, "target"))

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}


@checked(arrays=True)
@dataclass(frozen=True)
class Deduplication:
    """A class with equal rows merged, and where they came from.

    Attributes
    ----------
    unique:
        The class of distinct rows, weights added.
    first:
        Index of the first original member of each distinct row.
    inverse:
        Row of ``unique`` for each original member.
    counts:
        How many original members each distinct row stands for.
    """

    unique: FiniteClass
    first: IntArray
    inverse: IntArray
    counts: IntArray


def _coordinates(points: ArrayLike | None) -> FloatArray | None:
    return None if points is None else _columns(check_float_array(points, "points")).copy()


def _point_weights(point_weights: ArrayLike | None) -> FloatArray | None:
    return None if point_weights is None else check_weights(point_weights, "point_weights")


def _columns(array: FloatArray) -> FloatArray:
    return array[:, None] if array.ndim == 1 else array


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
