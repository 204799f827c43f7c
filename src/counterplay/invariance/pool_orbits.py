"""Orbits on a finite pool of points: given by their numbers, or by maps without group laws.

Source: docs/theory/11-invariance.md, "Proposition 11.B: maps that are not a group".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.validation import IntArray
from counterplay.errors import InvalidInputError
from counterplay.invariance.errors import IdentityMissingError, ShapeError
from counterplay.invariance.transformation_set import TransformationSet


class AbstractOrbits(TransformationSet):
    """Orbits on a finite pool, given by a number per pool point; points are pool indices.

    Use it where only the partition into orbits matters: all theoretical constructions.

    Examples
    --------
    >>> orbits = AbstractOrbits([0, 0, 1])
    >>> orbits.orbit_key([1, 2]), orbits.images([1])[0]
    ([0, 1], array([0, 1]))
    """

    _point_ndim = 0

    def __init__(self, orbit_id: ArrayLike) -> None:
        ids = np.asarray(orbit_id)
        if ids.ndim != 1:
            raise ShapeError(f"orbit_id must be a list of numbers, got shape {ids.shape}")
        self.orbit_id: IntArray = np.unique(ids, return_inverse=True)[1].reshape(-1)
        self.orbit_id.setflags(write=False)
        self._order = np.argsort(self.orbit_id, kind="stable")
        self._starts = np.searchsorted(self.orbit_id[self._order], np.arange(self.n_orbits + 1))

    def __repr__(self) -> str:
        return f"AbstractOrbits({self.orbit_id.size} points, {self.n_orbits} orbits)"

    @property
    def n_orbits(self) -> int:
        """Number of orbits."""
        return int(self.orbit_id.max(initial=-1)) + 1

    @property
    def order(self) -> float:
        """Size of the largest orbit: enough transformations to produce the orbits."""
        return int(np.diff(self._starts).max(initial=1))

    def members(self, orbit: int) -> IntArray:
        """Pool points of one orbit."""
        return self._order[self._starts[orbit] : self._starts[orbit + 1]]

    def check_points(self, X: ArrayLike) -> IntArray:
        """Return pool indices as int64."""
        return _pool_indices(X, self.orbit_id.size)

    def apply(self, X: ArrayLike) -> IntArray:
        """Pool indices of all images; small orbits repeat their members."""
        points = self.check_points(X)
        lists = [np.resize(self.members(o), int(self.order)) for o in self.orbit_id[points]]
        return np.array(lists, dtype=np.int64).reshape(len(points), int(self.order)).T

    def images(self, X: ArrayLike) -> tuple[NDArray[Any], IntArray]:
        """All members of the orbits, and the point each belongs to."""
        points = self.check_points(X)
        lists = [self.members(o) for o in self.orbit_id[points]]
        owner = np.repeat(np.arange(len(points)), [len(part) for part in lists])
        return np.concatenate([*lists, np.zeros(0, dtype=np.int64)]), owner

    def orbit_key(self, X: ArrayLike) -> list[Any]:
        """The orbit number of each point."""
        result: list[Any] = self.orbit_id[self.check_points(X)].tolist()
        return result

    def point_key(self, X: ArrayLike) -> list[Any]:
        """The pool index of each point."""
        result: list[Any] = self.check_points(X).tolist()
        return result


class MapSet(TransformationSet):
    """Maps of a finite pool into itself that need not form a group; points are pool indices.

    Points whose orbits intersect must share a label; they are tied through ``components``.

    Parameters
    ----------
    images:
        Table of image indices, shape (P, |G|); the first column is the identity.

    Examples
    --------
    >>> funnel = MapSet([[0, 2], [1, 2], [2, 2]])   # points 0 and 1 are mapped to point 2
    >>> funnel.components([0, 1])[0]
    array([0, 0])
    """

    is_group = False
    proved_group = False
    _point_ndim = 0

    def __init__(self, images: ArrayLike) -> None:
        table = np.asarray(images)
        if table.ndim != 2 or table.shape[1] == 0 or table.dtype.kind not in "iu":
            raise ShapeError(f"images must be an integer table (P, |G|), got {table.shape}")
        if (table < 0).any() or (table >= table.shape[0]).any():
            raise ShapeError("images must be indices of the pool")
        if (table[:, 0] != np.arange(table.shape[0])).any():
            raise IdentityMissingError("the first column of images must be the identity")
        self.table: IntArray = np.ascontiguousarray(table.astype(np.int64))
        self.table.setflags(write=False)

    def __repr__(self) -> str:
        return f"MapSet({self.table.shape[0]} points, {self.table.shape[1]} maps)"

    @property
    def order(self) -> float:
        """Number of maps."""
        return int(self.table.shape[1])

    def check_points(self, X: ArrayLike) -> IntArray:
        """Return pool indices as int64."""
        return _pool_indices(X, self.table.shape[0])

    def apply(self, X: ArrayLike) -> IntArray:
        """Image indices, shape (|G|, n)."""
        return np.asarray(self.table[self.check_points(X)].T)

    def orbit_key(self, X: ArrayLike) -> list[Any]:
        """The sorted orbit of each point; points of intersecting orbits may have other keys."""
        rows = self.table[self.check_points(X)]
        return [tuple(sorted(set(row))) for row in rows.tolist()]

    def point_key(self, X: ArrayLike) -> list[Any]:
        """The pool index of each point."""
        result: list[Any] = self.check_points(X).tolist()
        return result


def _pool_indices(X: ArrayLike, size: int) -> IntArray:
    array = np.asarray(X)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or not np.array_equal(array, np.floor(array)):
        raise ShapeError(f"points must be a list of pool indices, got shape {array.shape}")
    if (array < 0).any() or (array >= size).any():
        raise InvalidInputError(f"pool indices must be between 0 and {size - 1}")
    return array.astype(np.int64)
