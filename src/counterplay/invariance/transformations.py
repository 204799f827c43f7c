"""Sets of transformations: how they act, which points share an orbit, and whether they are a group.

Every orbit has a canonical member (the lexicographically smallest image), so "same orbit" is one
comparison of keys. Groups that are too large to list (all permutations) have a canonical form
without ever being listed. Negative zeros are normalised before any comparison.
Source: spec 11 sections 2.1, 2.2, 7.9 and 7.16.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, IntArray, check_int
from counterplay.errors import InvalidInputError
from counterplay.invariance.errors import (
    IdentityMissingError,
    InfiniteOrbitError,
    NotAGroupError,
    ShapeError,
)

_CHUNK = 8_000_000  # numbers held at once while searching canonical forms


class TransformationSet(ABC):
    """A set G of transformations of a domain; the orbit of x is {g x : g in G}.

    Concrete sets say how they act (``apply``, ``act``), name the orbit of a point (``orbit_key``)
    and list the images of points (``images``). ``is_group`` is True where orbits partition the
    domain; other sets tie points whose orbits intersect (``components``).
    """

    is_group: bool = True
    contains_identity: bool = True

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

    def iterate(self, X: ArrayLike) -> Iterator[NDArray[Any]]:
        """Images of all points under one transformation after the other."""
        points = self.check_points(X)
        for g in range(int(self.order)):
            yield self._act(g, points)

    def point_key(self, X: ArrayLike) -> list[Any]:
        """A sortable key of each point itself."""
        return _byte_keys(self.check_points(X))

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
        picks = rng.integers(int(self.order), size=check_int(n_images, "n_images", low=1))
        return np.stack([self._act(int(g), points) for g in picks])

    def validate(self, X: ArrayLike | None = None) -> None:
        """Raise if the set is not what it claims to be; with data, also check the orbit keys."""
        if not self.contains_identity:
            raise IdentityMissingError("the identity is missing; add it to the set")
        if X is not None and self.is_group and math.isfinite(self.order):
            points = self.check_points(X)
            keys = self.orbit_key(points)
            for g, image in enumerate(self.iterate(points)):
                if self.orbit_key(image) != keys:
                    raise NotAGroupError(
                        f"transformation {g} moves a point out of its orbit; the set is not a "
                        "group on these data: use closure(), or pass a MapSet"
                    )


class _VectorGroup(TransformationSet):
    """Transformations of vectors of a fixed length; rows of X may have more axes."""

    n_features: int

    def check_points(self, X: ArrayLike) -> FloatArray:
        """Return points as finite rows of numbers."""
        try:
            array = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):
            raise ShapeError("the points must be rows of numbers") from None
        if array.ndim > 2 and math.prod(array.shape[1:]) == self.n_features:
            array = array.reshape(array.shape[0], -1)
        if array.ndim != 2 or array.shape[1] != self.n_features:
            raise ShapeError(
                f"the points must be rows of {self.n_features} numbers, got shape {array.shape}"
            )
        if not np.isfinite(array).all():
            row = int(np.argwhere(~np.isfinite(array))[0, 0])
            raise ShapeError(f"point {row} contains NaN or infinity; remove or impute it")
        return np.ascontiguousarray(array + 0.0)  # -0.0 + 0.0 is 0.0

    def canonical(self, X: ArrayLike) -> FloatArray:
        """The smallest image of every point in lexicographic order."""
        points = self.check_points(X)
        step = max(1, int(_CHUNK // max(self.order * self.n_features, 1)))
        parts = [self._canonical(points[i : i + step]) for i in range(0, len(points), step)]
        result: FloatArray = np.concatenate(parts) if parts else points
        return result

    def _canonical(self, points: FloatArray) -> FloatArray:
        smallest: FloatArray = _smallest_image(np.ascontiguousarray(self.apply(points) + 0.0))
        return smallest

    def orbit_key(self, X: ArrayLike) -> list[Any]:
        """Bytes of the canonical image of every point."""
        return _byte_keys(self.canonical(X))


class TrivialGroup(TransformationSet):
    """Only the identity: every point is its own orbit; acts on rows of any length.

    >>> TrivialGroup().apply([[1.0, 2.0]]).shape
    (1, 1, 2)
    """

    def __repr__(self) -> str:
        return "TrivialGroup()"

    @property
    def order(self) -> float:
        """One."""
        return 1

    def check_points(self, X: ArrayLike) -> NDArray[Any]:
        """Return the points as an array without negative zeros."""
        array = np.asarray(X)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ShapeError("the points contain NaN or infinity; remove or impute them")
        return np.ascontiguousarray(array + 0.0) if array.dtype.kind == "f" else array

    def apply(self, X: ArrayLike) -> NDArray[Any]:
        """The points themselves, with one leading axis."""
        return self.check_points(X)[None]

    def canonical(self, X: ArrayLike) -> NDArray[Any]:
        """The points themselves."""
        return self.check_points(X)

    def orbit_key(self, X: ArrayLike) -> list[Any]:
        """Bytes of every point."""
        return _byte_keys(self.check_points(X))


class CoordinatePermutationGroup(_VectorGroup):
    """Transformations that permute coordinates: rotations and flips of images, boards, shifts.

    Use it for every exact symmetry that moves values to other places without changing them.

    Parameters
    ----------
    perms:
        Gather indices, shape (|G|, p): ``(g x)[j] = x[perms[g, j]]``.

    Examples
    --------
    >>> swap = CoordinatePermutationGroup([[0, 1], [1, 0]])
    >>> swap.canonical([[5.0, 3.0], [3.0, 5.0]])
    array([[3., 5.],
           [3., 5.]])
    """

    def __init__(self, perms: ArrayLike) -> None:
        array = np.asarray(perms)
        if array.ndim != 2 or array.shape[0] == 0 or array.dtype.kind not in "iu":
            raise ShapeError(f"perms must be an integer matrix (|G|, p), got shape {array.shape}")
        array = array.astype(np.int64)
        wanted = np.arange(array.shape[1])
        wrong = (np.sort(array, axis=1) != wanted).any(axis=1)
        if wrong.any():
            raise ShapeError(f"row {int(wrong.argmax())} of perms is not a permutation")
        keep = np.sort(np.unique(array, axis=0, return_index=True)[1])
        self.perms: IntArray = np.ascontiguousarray(array[keep])
        self.perms.setflags(write=False)
        self.n_features = array.shape[1]
        self._check_group()

    def __repr__(self) -> str:
        return f"CoordinatePermutationGroup(order={len(self.perms)}, p={self.n_features})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CoordinatePermutationGroup):
            return NotImplemented
        return np.array_equal(np.unique(self.perms, axis=0), np.unique(other.perms, axis=0))

    def __hash__(self) -> int:
        return hash(np.unique(self.perms, axis=0).tobytes())

    @classmethod
    def closure(cls, generators: ArrayLike, *, limit: int = 100_000) -> CoordinatePermutationGroup:
        """The group generated by some permutations, the identity first."""
        gens = np.asarray(generators, dtype=np.int64)
        if gens.ndim != 2:
            raise ShapeError(f"generators must be a matrix, got shape {gens.shape}")
        identity = np.arange(gens.shape[1])
        found = {identity.tobytes(): identity}
        front = [identity]
        while front:
            new = []
            for perm in front:
                for gen in gens:
                    product = perm[gen]
                    if product.tobytes() not in found:
                        found[product.tobytes()] = product
                        new.append(product)
            if len(found) > limit:
                raise InfiniteOrbitError(f"the generated group has more than {limit} elements")
            front = new
        return cls(np.array(list(found.values())))

    @property
    def order(self) -> float:
        """Number of permutations."""
        return len(self.perms)

    def apply(self, X: ArrayLike) -> FloatArray:
        """All images, shape (|G|, n, p)."""
        result: FloatArray = np.moveaxis(self.check_points(X)[:, self.perms], 1, 0)
        return result

    def _act(self, g: int, X: NDArray[Any]) -> NDArray[Any]:
        result: NDArray[Any] = X[:, self.perms[g]]
        return result

    def _canonical(self, points: FloatArray) -> FloatArray:
        smallest: FloatArray = _smallest_permuted(points, self.perms)
        return smallest

    def _check_group(self) -> None:
        elements = {row.tobytes(): g for g, row in enumerate(self.perms)}
        if np.arange(self.n_features).tobytes() not in elements:
            raise IdentityMissingError("the identity is missing from perms; add np.arange(p)")
        if len(self.perms) > 2000:
            return  # closure() made it, or checking all pairs would take minutes
        for a, first in enumerate(self.perms):
            products = first[self.perms]
            for b, row in enumerate(products):
                if row.tobytes() not in elements:
                    raise NotAGroupError(
                        f"the product of transformations {a} and {b} is missing; "
                        "use closure(), or pass a MapSet",
                        pair=(a, b),
                    )


class SignFlipGroup(_VectorGroup):
    """Sign changes of some coordinates, generated by masks.

    Parameters
    ----------
    mask_generators:
        Matrix of 0/1 or booleans, shape (k, p): each row flips the signs where it is 1. The group
        has all products of the rows.

    Examples
    --------
    >>> SignFlipGroup([[1, 0]]).canonical([[2.0, -1.0], [-2.0, -1.0]])
    array([[-2., -1.],
           [-2., -1.]])
    """

    def __init__(self, mask_generators: ArrayLike) -> None:
        masks = np.asarray(mask_generators)
        if masks.ndim != 2 or not np.isin(masks, (0, 1)).all():
            raise ShapeError("mask_generators must be a 0/1 matrix (k, p)")
        group: IntArray = np.zeros((1, masks.shape[1]), dtype=np.int64)
        for mask in masks.astype(np.int64):
            if not (group == mask).all(axis=1).any():
                group = np.concatenate([group, group ^ mask])
            if len(group) > 100_000:
                raise InfiniteOrbitError("more than 100,000 sign patterns; use fewer generators")
        self.signs = (1 - 2 * group).astype(np.int8)
        self.signs.setflags(write=False)
        self.n_features = masks.shape[1]

    def __repr__(self) -> str:
        return f"SignFlipGroup(order={len(self.signs)}, p={self.n_features})"

    @property
    def order(self) -> float:
        """Number of sign patterns."""
        return len(self.signs)

    def apply(self, X: ArrayLike) -> FloatArray:
        """All images, shape (|G|, n, p)."""
        return self.signs[:, None, :] * self.check_points(X)[None] + 0.0

    def _act(self, g: int, X: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(X * self.signs[g] + 0.0)


class MatrixGroup(_VectorGroup):
    """Linear maps given by matrices; images are rounded, which is part of the object.

    Parameters
    ----------
    mats:
        Shape (|G|, p, p).
    decimals:
        Images are rounded to this many decimals before they are compared.

    Examples
    --------
    >>> turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    >>> quarter = MatrixGroup([np.linalg.matrix_power(turn, k) for k in range(4)])
    >>> len(set(quarter.orbit_key([[1.0, 2.0], [-2.0, 1.0], [2.0, 1.0]])))
    2
    """

    def __init__(self, mats: ArrayLike, decimals: int = 9) -> None:
        array = np.asarray(mats, dtype=np.float64)
        if array.ndim != 3 or array.shape[1] != array.shape[2] or not np.isfinite(array).all():
            raise ShapeError(f"mats must be finite with shape (|G|, p, p), got {array.shape}")
        self.mats: FloatArray = np.ascontiguousarray(array)
        self.mats.setflags(write=False)
        self.decimals = check_int(decimals, "decimals")
        self.n_features = array.shape[1]
        self._check_group()

    def __repr__(self) -> str:
        return f"MatrixGroup(order={len(self.mats)}, p={self.n_features}, decimals={self.decimals})"

    @property
    def order(self) -> float:
        """Number of matrices."""
        return len(self.mats)

    def apply(self, X: ArrayLike) -> FloatArray:
        """All images, rounded, shape (|G|, n, p)."""
        images = np.einsum("gij,nj->gni", self.mats, self.check_points(X))
        return np.asarray(np.round(images, self.decimals) + 0.0)

    def _check_group(self) -> None:
        tolerance = 10.0**-self.decimals * 10
        flat = self.mats.reshape(len(self.mats), -1)

        def known(matrix: FloatArray) -> bool:
            return bool((np.abs(flat - matrix.reshape(-1)).max(axis=1) <= tolerance).any())

        if not known(np.eye(self.n_features)):
            raise IdentityMissingError("the identity matrix is missing from mats; add it")
        for a, first in enumerate(self.mats):
            for b, second in enumerate(self.mats):
                if not known(first @ second):
                    raise NotAGroupError(
                        f"the product of transformations {a} and {b} is missing; "
                        "add it, or pass a MapSet",
                        pair=(a, b),
                    )


class SymmetricGroup(TransformationSet):
    """All permutations of the elements along one axis: sets, bags of rows, unordered columns.

    The group is never listed: the canonical form is the sorted array.

    Parameters
    ----------
    axis:
        Axis of X (0 is the axis of points) that may be permuted.
    shape:
        Shape of one point when X is flat, such as (n_elements, element_size).

    Examples
    --------
    >>> bags = SymmetricGroup(axis=1)
    >>> bags.orbit_key([[3.0, 1.0, 2.0]]) == bags.orbit_key([[2.0, 3.0, 1.0]])
    True
    """

    def __init__(self, axis: int = 1, shape: tuple[int, ...] | None = None) -> None:
        self.axis = check_int(axis, "axis", low=1)
        self.shape = None if shape is None else tuple(int(s) for s in shape)
        if self.shape is not None and self.axis > len(self.shape):
            raise ShapeError(f"axis {axis} does not exist in points of shape {self.shape}")

    def __repr__(self) -> str:
        return f"SymmetricGroup(axis={self.axis}, shape={self.shape})"

    @property
    def order(self) -> float:
        """Infinite as far as listing is concerned; the factorial of the length in truth."""
        return math.inf

    def check_points(self, X: ArrayLike) -> FloatArray:
        """Return points as numbers, in the shape they were given."""
        array = np.asarray(X, dtype=np.float64)
        if not np.isfinite(array).all():
            raise ShapeError("the points contain NaN or infinity; remove or impute them")
        wanted = array.ndim - 1 if self.shape is None else len(self.shape)
        if array.ndim < 2 or self.axis > wanted:
            raise ShapeError(f"the points have no axis {self.axis}, got shape {array.shape}")
        if self.shape is not None and math.prod(array.shape[1:]) != math.prod(self.shape):
            raise ShapeError(f"the points must have shape {self.shape}, got {array.shape[1:]}")
        return np.ascontiguousarray(array + 0.0)

    def apply(self, X: ArrayLike) -> NDArray[Any]:
        """Not possible: there are too many permutations."""
        raise InfiniteOrbitError("all permutations cannot be listed; use sample(X, n_images)")

    def act(self, g: int, x: ArrayLike) -> NDArray[Any]:
        """Not possible: permutations are not numbered."""
        raise InfiniteOrbitError("permutations are not numbered; use sample(X, n_images)")

    def canonical(self, X: ArrayLike) -> FloatArray:
        """Elements sorted along the axis, in the shape of the input."""
        points = self.check_points(X)
        blocks = self._blocks(points)
        order = np.lexsort(np.moveaxis(blocks, -1, 0)[::-1], axis=-1)
        ordered = np.take_along_axis(blocks, order[..., None], axis=1)
        return self._unblock(ordered, points)

    def orbit_key(self, X: ArrayLike) -> list[Any]:
        """Bytes of the sorted point."""
        return _byte_keys(self.canonical(X))

    def sample(self, X: ArrayLike, n_images: int, random_state: RandomState = None) -> NDArray[Any]:
        """Images under random permutations, shape (n_images, n, ...)."""
        points = self.check_points(X)
        blocks = self._blocks(points)
        rng = generator(random_state)
        return np.stack(
            [
                self._unblock(blocks[:, rng.permutation(blocks.shape[1])], points)
                for _ in range(check_int(n_images, "n_images", low=1))
            ]
        )

    def _full_shape(self, points: FloatArray) -> tuple[int, ...]:
        return (len(points), *(points.shape[1:] if self.shape is None else self.shape))

    def _blocks(self, points: FloatArray) -> FloatArray:
        moved = np.moveaxis(points.reshape(self._full_shape(points)), self.axis, 1)
        return np.asarray(moved.reshape(len(points), moved.shape[1], -1))

    def _unblock(self, blocks: FloatArray, points: FloatArray) -> FloatArray:
        full = self._full_shape(points)
        moved_shape = (full[0], full[self.axis], *full[1 : self.axis], *full[self.axis + 1 :])
        moved = blocks.reshape(moved_shape)
        return np.ascontiguousarray(np.moveaxis(moved, 1, self.axis).reshape(points.shape))


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


def orbit_table(keys: Sequence[Hashable], labels: NDArray[Any]) -> dict[Hashable, Any]:
    """First label seen for every key.

    >>> orbit_table(["a", "b", "a"], np.array([1, 0, 1]))
    {'a': 1, 'b': 0}
    """
    table: dict[Hashable, Any] = {}
    for key, label in zip(keys, labels.tolist()):
        table.setdefault(key, label)
    return table


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


def _byte_keys(array: NDArray[Any]) -> list[Any]:
    rows = np.ascontiguousarray(array).reshape(len(array), -1)
    if rows.size == 0 or rows.dtype == object:
        return [row.tobytes() for row in rows]
    joined = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))
    result: list[Any] = joined.reshape(-1).tolist()
    return result


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _smallest_permuted(points, perms):  # type: ignore[no-untyped-def]  # compiled by numba
    out = np.empty_like(points)
    for i in range(points.shape[0]):
        best = 0
        for g in range(1, perms.shape[0]):
            for j in range(perms.shape[1]):
                a = points[i, perms[g, j]]
                b = points[i, perms[best, j]]
                if a < b:
                    best = g
                if a != b:
                    break
        for j in range(perms.shape[1]):
            out[i, j] = points[i, perms[best, j]]
    return out


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _smallest_image(images):  # type: ignore[no-untyped-def]  # compiled by numba
    out = np.empty_like(images[0])
    for i in range(images.shape[1]):
        best = 0
        for g in range(1, images.shape[0]):
            for j in range(images.shape[2]):
                a = images[g, i, j]
                b = images[best, i, j]
                if a < b:
                    best = g
                if a != b:
                    break
        for j in range(images.shape[2]):
            out[i, j] = images[best, i, j]
    return out
