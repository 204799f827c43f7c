"""Catalogues of candidate rules, seen through the distance to acceptance.

For an agent who can move by at most ``r`` only one number per rule matters: ``d(x, h)``, how far
she is from the nearest point that ``h`` accepts. She is accepted exactly if ``d(x, h) <= r``, and
the distance to a union of rules is the smallest of their distances. Learners therefore see rows of
distances and never features.

Source: equation 2.2, "Setting", "Distances that are exact", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    array_fault,
    check_positive_int,
)
from counterplay.errors import InvalidInputError
from counterplay.strategic.features import LARGEST, Names, read_points
from counterplay.strategic.metrics import Metric, Points

Members: TypeAlias = "ArrayLike | None"


class HypothesisClass(ABC):
    """A finite catalogue of rules that knows the exact distance to acceptance of each.

    Subclasses implement :meth:`distances` in closed form where one exists. Points are rows of
    features, or point numbers for classes over a finite space.
    """

    n: int
    """Number of hypotheses."""
    metric: Metric | None = None
    """What a move costs; None if only distances to the rules are known."""
    names: Names = None
    """Names of the features, if the catalogue knows them; frames are matched by name."""

    @abstractmethod
    def distances(self, points: Points, members: Members = None) -> FloatArray:
        """Return ``d(x, h)`` for every point (rows) and every member (columns; default: all)."""

    @abstractmethod
    def nearest(self, points: Points, members: ArrayLike) -> Points:
        """Return, for point t, a nearest point that member ``members[t]`` accepts."""

    @abstractmethod
    def check_points(self, points: Points) -> Points:
        """Return the points in canonical form, or raise an error that names the bad one."""

    def __len__(self) -> int:
        return self.n

    def predict(self, points: Points, members: Members = None) -> BoolArray:
        """Return which members accept which points as they stand: ``d(x, h) == 0``."""
        accepted: BoolArray = self.distances(points, members) == 0
        return accepted

    def shown(self, points: Points) -> Points:
        """Return the points as they look when they are reported without a move."""
        return points

    def accepts(self, reported: Points, members: Members = None) -> BoolArray:
        """Return which members accept which reported points."""
        return self.predict(reported, members)

    def reported_distances(self, reported: Points, members: Members = None) -> FloatArray:
        """Return the distances of reported points."""
        return self.distances(reported, members)

    def reaches(self, points: Points, radius: FloatArray, members: Members = None) -> BoolArray:
        """Return whether the agent at point t with ``radius[t]`` is accepted by each member."""
        within: BoolArray = self.distances(points, members) <= np.asarray(radius)[:, None]
        return within

    def losses(
        self, points: Points, radius: FloatArray, y: BoolArray, members: Members = None
    ) -> BoolArray:
        """Return whether each member errs on each ball agent with label ``y``."""
        accepted = self.reaches(points, radius, members)
        return np.not_equal(accepted, np.asarray(y, dtype=np.bool_)[:, None], out=accepted)

    def positive_sets(self) -> BoolArray:
        """Return the accepted points of every member, for classes over a finite space only."""
        raise InvalidInputError(
            f"{type(self).__name__} has no finite list of points; manipulation sets need a class "
            "over a finite space such as FiniteMetricClass"
        )

    def check_members(self, members: ArrayLike) -> IntArray:
        """Return hypothesis numbers as int64, or raise an error that names a wrong one."""
        if (
            isinstance(members, np.ndarray)
            and members.dtype == np.int64
            and members.ndim == 1
            and (members.size == 0 or (members.min() >= 0 and members.max() < self.n))
        ):
            return members  # the usual case, without conversions
        index = np.atleast_1d(np.asarray(members))
        if index.size and not np.issubdtype(index.dtype, np.integer):
            raise InvalidInputError(f"hypothesis numbers must be integers, got {index.dtype}")
        index = index.astype(np.int64, copy=False)
        bad = (index < 0) | (index >= self.n)
        if bad.any():
            raise InvalidInputError(
                f"hypothesis {int(index[bad][0])} does not exist; there are {self.n}, "
                f"numbered 0 to {self.n - 1}"
            )
        return index

    def distinct_members(self, points: Points) -> IntArray:
        """Return the members left when those with equal distances on ``points`` are merged.

        Duplicates are legal; they only inflate the logarithm in the bounds.
        """
        _, first = np.unique(self.distances(points), axis=1, return_index=True)
        return np.sort(first).astype(np.int64)


@checked
class DistanceTableClass(HypothesisClass):
    """A class known only through its rows of distances: the row is the point.

    Use it when the distances come from somewhere else (a simulator, a solver, a survey of efforts).

    Parameters
    ----------
    n:
        Number of hypotheses; every point is a row of ``n`` distances, ``numpy.inf`` allowed.

    Examples
    --------
    >>> catalogue = DistanceTableClass(3)
    >>> catalogue.distances([[1.0, 0.0, 2.5]], members=[0, 2])
    array([[1. , 2.5]])
    """

    def __init__(self, n: int) -> None:
        self.n = check_positive_int(n, "n")

    def __repr__(self) -> str:
        return f"DistanceTableClass(n={self.n})"

    def check_points(self, points: Points) -> Points:
        """Return rows of non-negative distances."""
        if fault := array_fault(points, kinds="biuf"):
            raise InvalidInputError(f"points must be rows of {self.n} distances: {fault}")
        rows = np.atleast_2d(np.asarray(points, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] != self.n:
            raise InvalidInputError(
                f"points must be rows of {self.n} distances, got shape {rows.shape}"
            )
        if not (rows >= 0).all():
            i, j = (int(v) for v in np.argwhere(~(rows >= 0))[0])
            raise InvalidInputError(
                f"distances must not be NaN or negative; row {i}, hypothesis {j} is {rows[i, j]}"
            )
        return rows

    def distances(self, points: Points, members: Members = None) -> FloatArray:
        """Return the stored distances."""
        rows = self.check_points(points)
        return rows if members is None else rows[:, self.check_members(members)]

    def nearest(self, points: Points, members: ArrayLike) -> Points:
        """Return the row of someone accepted by the member, infinitely far from all others."""
        chosen = self.check_members(members)
        out = np.full((chosen.size, self.n), np.inf)
        out[np.arange(chosen.size), chosen] = 0.0
        return out


def check_features(points: ArrayLike, width: int | None = None, names: Names = None) -> FloatArray:
    """Return rows of finite features, with ``width`` columns if given.

    The columns of a frame are put into the order of ``names``.
    """
    rows: Any = points
    if isinstance(rows, list | tuple | np.ndarray) and not array_fault(rows, kinds="biuf"):
        rows = np.atleast_2d(np.ascontiguousarray(rows, dtype=np.float64))  # one row is a table
    known = isinstance(rows, np.ndarray) and rows.dtype == np.float64 and rows.ndim == 2
    if not known or (rows.size and not np.abs(rows).max() <= LARGEST):  # the usual case is quick
        rows = read_points(rows, names)
    if width is not None and rows.shape[1] != width:
        raise InvalidInputError(f"X must have {width} features, got {rows.shape[1]}")
    checked_rows: FloatArray = rows
    return checked_rows


def check_indices(points: Points, size: int) -> IntArray:
    """Return point numbers below ``size``."""
    if fault := array_fault(points, kinds="biuf"):
        raise InvalidInputError(f"points must be a list of point numbers below {size}: {fault}")
    index: Any = np.atleast_1d(np.asarray(points))
    if index.ndim != 1 or (index.size and not np.issubdtype(index.dtype, np.integer)):
        raise InvalidInputError(
            f"points must be a list of point numbers below {size}, got shape {index.shape} of "
            f"{index.dtype}"
        )
    bad = (index < 0) | (index >= size)
    if bad.any():
        raise InvalidInputError(
            f"point {int(index[bad][0])} does not exist; there are {size}, numbered 0 to {size - 1}"
        )
    checked: IntArray = index.astype(np.int64, copy=False)
    return checked
