"""Sets of transformations: how they act, which points share an orbit, which must share a label.

Every orbit has a canonical member, so "same orbit" is one comparison of keys. Here are the base
class, the set that does nothing, and orbits on a finite pool of points, given by their numbers or
by maps without group laws. Source: docs/theory/11-invariance.md, "Setting" and "Proposition 11.B:
maps that are not a group".
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import IntArray, array_fault, check_int, check_size
from counterplay.errors import InvalidInputError
from counterplay.invariance.errors import (
    DenseRowsError,
    IdentityMissingError,
    NotAGroupError,
    ShapeError,
)
from counterplay.tables import Table

MOST_NUMBERS = 1 << 27  # one GiB of float64: what all images of all points may hold


class TransformationSet(ABC):
    """A set G of transformations of a domain; the orbit of x is {g x : g in G}.

    Concrete sets say how they act (``apply``, ``act``), name the orbit of a point (``orbit_key``)
    and list the images of points (``images``). ``is_group`` is True where orbits partition the
    domain; other sets tie points whose orbits intersect (``components``).
    """

    is_group: bool = True
    proved_group: bool = True  # by how it is made; False: to be checked on data
    tolerance: float = 0.0  # of images, relative to the largest number in them
    allows_missing: bool = False  # whether missing numbers (NaN) are moved like any other value
    allows_sparse: bool = False  # whether images of a sparse matrix are found without its zeros
    keeps_values: bool = False  # whether it only moves numbers to other places
    uniform: bool = True  # whether random elements are drawn uniformly
    approximate_form: bool = False  # whether it has a form that is nearly constant, without a group
    kind: str = ""  # what its points are ("image", "sequence", ...), where that is known

    @property
    @abstractmethod
    def order(self) -> float:
        """Number of transformations; ``math.inf`` where it is not finite."""

    @abstractmethod
    def check_points(self, X: ArrayLike) -> NDArray[Any]:
        """Return points as an array the set acts on, or raise ShapeError."""

    @abstractmethod
    def apply(self, X: ArrayLike) -> NDArray[Any]:
        """All images, shape (number of transformations, n, ...)."""

    @abstractmethod
    def orbit_key(self, X: ArrayLike) -> list[Any]:
        """A sortable key per point that is equal exactly for points of one orbit."""

    def canonical(self, X: ArrayLike) -> NDArray[Any]:
        """The member that stands for the orbit of every point, where the set has such a form."""
        raise NotAGroupError(f"{self!r} has no canonical form; use a group that acts on vectors")

    def act(self, g: int, x: ArrayLike) -> NDArray[Any]:
        """Image of one point (or of an array of points) under transformation number ``g``."""
        array = np.asarray(x)
        single = array.ndim == self._point_ndim
        index = check_int(g, "g", low=0, high=int(min(self.order, 2**62)) - 1)
        images = self._act(index, array[None] if single else array)
        result: NDArray[Any] = images[0] if single else images
        return result

    _point_ndim = 1

    def _act(self, g: int, X: NDArray[Any]) -> NDArray[Any]:
        result: NDArray[Any] = self.apply(X)[g]
        return result

    def exact_image(self, g: int, X: NDArray[Any]) -> NDArray[Any]:
        """Image of checked points under transformation number ``g``, not rounded."""
        return self._act(g, X)

    def point_key(self, X: ArrayLike) -> list[Any]:
        """A sortable key of each point itself."""
        return byte_keys(self.check_points(X))

    def sparse_images(self, X: csr_array) -> list[csr_array]:
        """All images of the rows of a sparse matrix, sparse."""
        raise DenseRowsError(repr(self))

    def images(self, X: ArrayLike) -> tuple[NDArray[Any], IntArray]:
        """All image points, and which point each belongs to (sorted)."""
        points = self.check_points(X)
        stacked = np.moveaxis(self.apply(points), 0, 1)
        owner = np.repeat(np.arange(len(points)), stacked.shape[1])
        return stacked.reshape(-1, *points.shape[1:]), owner

    def components(self, X: ArrayLike) -> tuple[IntArray, list[Any]]:
        """Which points must share a label: component of each point, and a key per component.

        For a group these are the orbits; otherwise connected components of "orbits intersect".
        """
        keys = self.orbit_key(X) if self.is_group else self._component_keys(X)
        distinct = sorted(set(keys))
        number = {key: i for i, key in enumerate(distinct)}
        return np.array([number[key] for key in keys], dtype=np.int64), distinct

    def _component_keys(self, X: ArrayLike) -> list[Any]:
        points = self.check_points(X)
        own = self.point_key(points)
        image_points, owner = self.images(points)
        everything = own + self.point_key(image_points)
        number = {key: i for i, key in enumerate(sorted(set(everything)))}
        columns = np.array([number[key] for key in everything])
        rows = np.concatenate([np.arange(len(own)), owner])
        n = len(own)
        graph = sparse.coo_array(
            (np.ones(rows.size, dtype=np.int8), (rows, n + columns)),
            shape=(n + len(number), n + len(number)),
        )
        labels = connected_components(graph, directed=False)[1][:n]
        smallest: dict[int, Any] = {}
        for label, key in zip(labels.tolist(), own):
            smallest[label] = min(smallest.get(label, key), key)
        return [smallest[label] for label in labels.tolist()]

    def sample(self, X: ArrayLike, n_images: int, random_state: RandomState = None) -> NDArray[Any]:
        """Images of all points under random transformations, shape (n_images, n, ...)."""
        points = self.check_points(X)
        rng = generator(random_state)
        count = check_int(n_images, "n_images", low=1)
        check_size(count * points.size, MOST_NUMBERS, "numbers in all images")
        picks = rng.integers(int(self.order), size=count)
        return np.stack([self._act(int(g), points) for g in picks])

    def orbit_sample(
        self, X: ArrayLike, n_images: int, random_state: RandomState = None
    ) -> NDArray[Any]:
        """Random members of the orbits, the same for all points of one; shape (n_images, n, ...).

        Images of the canonical members under transformations that depend on the seed alone.
        """
        return self.sample(self.canonical(X), n_images, random_state)

    def validate(self, X: ArrayLike | None = None) -> None:
        """Raise if a transformation moves one of these points out of its orbit."""
        if X is not None and self.is_group and math.isfinite(self.order):
            points = self.check_points(X)
            keys = self.orbit_key(points)
            for g in range(int(self.order)):
                if self.orbit_key(self._act(g, points)) != keys:
                    raise NotAGroupError(
                        f"transformation {g} moves a point out of its orbit; the set is not a "
                        "group on these data: use closure(), or pass a MapSet"
                    )


class TrivialGroup(TransformationSet):
    """Only the identity: every point is its own orbit; acts on rows of any length.

    Examples
    --------
    >>> TrivialGroup().apply([[1.0, 2.0]]).shape
    (1, 1, 2)
    """

    keeps_values = True
    allows_missing = True
    allows_sparse = True

    def __repr__(self) -> str:
        return "TrivialGroup()"

    @property
    def order(self) -> float:
        """One."""
        return 1

    def check_points(self, X: ArrayLike) -> NDArray[Any]:
        """Return the points as an array without negative zeros."""
        array = X if isinstance(X, np.ndarray) and X.dtype.kind in "biu" else None
        return finite_numbers(X, "the points", missing=True) + 0.0 if array is None else array

    def sparse_images(self, X: csr_array) -> list[csr_array]:
        """The rows themselves."""
        return [X]

    def apply(self, X: ArrayLike) -> NDArray[Any]:
        """The points themselves, with one leading axis."""
        return self.check_points(X)[None]

    def canonical(self, X: ArrayLike) -> NDArray[Any]:
        """The points themselves."""
        return self.check_points(X)

    def orbit_key(self, X: ArrayLike) -> list[Any]:
        """Bytes of every point."""
        return byte_keys(self.check_points(X))


def finite_numbers(X: Any, what: str, *, missing: bool = False) -> NDArray[np.float64]:
    """Points as finite numbers, or ShapeError with the first offending row.

    ``missing`` lets NaN pass, all with the same bits, so that bytes can be compared.

    Examples
    --------
    >>> finite_numbers([[1, 2]], "sets")
    array([[1., 2.]])
    """
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
        array = np.asarray(X, dtype=np.float64)
    elif fault := array_fault(X, kinds="biuf"):
        if not hasattr(X, "columns"):
            raise ShapeError(f"{what} must be rows of numbers of one length: {fault}")
        array = Table.of(X).numbers(missing=True)
    elif hasattr(X, "columns"):
        array = Table.of(X).numbers(missing=True)
    else:
        array = np.asarray(X, dtype=np.float64)
    if array.ndim == 0:
        raise ShapeError(f"{what} must be rows of numbers, got one number")
    holes = np.isnan(array)
    if holes.any() and missing:
        array = np.where(holes, np.nan, array)
    wrong = np.isinf(array) if missing else ~np.isfinite(array)
    if wrong.any():
        row = int(np.argwhere(wrong)[0, 0])
        bad = "infinity" if missing else "NaN or infinity"
        raise ShapeError(f"point {row} contains {bad}; remove or impute it")
    return array


def number_keys(keys: Sequence[Hashable]) -> IntArray:
    """Numbers of the keys in the order in which they first appear; equal for equal keys.

    Examples
    --------
    >>> number_keys(["b", "a", "b"])
    array([0, 1, 0])
    """
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def byte_keys(array: NDArray[Any] | csr_array) -> list[Any]:
    """The bytes of every row: equal exactly for equal rows, and sortable."""
    if sparse.issparse(array):
        return _sparse_keys(array)
    rows = np.ascontiguousarray(array).reshape(len(array), math.prod(array.shape[1:]))
    if rows.size == 0:
        return [row.tobytes() for row in rows]
    joined = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))
    result: list[Any] = joined.reshape(-1).tolist()
    return result


def _sparse_keys(matrix: csr_array) -> list[Any]:
    rows = sparse.csr_array(matrix, copy=True)
    rows.sum_duplicates()  # and sorts the columns of every row
    rows.eliminate_zeros()
    spans = zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist())
    places = rows.indices.astype(np.int64)
    return [places[a:b].tobytes() + rows.data[a:b].tobytes() for a, b in spans]


@checked
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


@checked
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
    if fault := array_fault(X, kinds="biuf"):
        raise ShapeError(f"points must be a list of pool indices: {fault}")
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
