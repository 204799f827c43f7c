"""Groups that act on vectors: permutations of coordinates, sign flips, matrices, sets.

The canonical member of an orbit is its lexicographically smallest image. Negative zeros are
normalised before any comparison. All permutations of the elements of a set are too many to list,
but sorting is a canonical form. Source: docs/theory/11-invariance.md, "Conventions".
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.spatial import KDTree

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_float_array,
    check_int,
    check_size,
)
from counterplay.invariance.errors import (
    IdentityMissingError,
    InfiniteOrbitError,
    NotAGroupError,
    ShapeError,
)
from counterplay.invariance.transformations import (
    MOST_NUMBERS,
    TransformationSet,
    byte_keys,
    finite_numbers,
    number_keys,
)

_CHUNK = 8_000_000  # numbers held at once while searching canonical forms
MOST_ENTRIES = 1 << 24  # of the table that lists a group


class VectorGroup(TransformationSet):
    """Transformations of vectors of a fixed length; rows of X may have more axes."""

    n_features: int

    def check_points(self, X: ArrayLike) -> FloatArray:
        """Return points as finite rows of numbers."""
        array = finite_numbers(X, "the points", missing=self.allows_missing)
        if array.ndim > 2 and math.prod(array.shape[1:]) == self.n_features:
            array = array.reshape(array.shape[0], -1)
        if array.ndim != 2 or array.shape[1] != self.n_features:
            raise ShapeError(
                f"the points must be rows of {self.n_features} numbers, got shape {array.shape}"
            )
        return np.ascontiguousarray(array + 0.0)  # -0.0 + 0.0 is 0.0

    def _check_width(self, X: csr_array) -> None:
        if X.shape[1] != self.n_features:
            raise ShapeError(
                f"the points must be rows of {self.n_features} numbers, got shape {X.shape}"
            )

    def canonical(self, X: ArrayLike) -> FloatArray:
        """The smallest image of every point in lexicographic order."""
        points = self.check_points(X)
        step = max(1, int(_CHUNK // max(self.order * self.n_features, 1)))
        out = np.empty_like(points)
        for i in range(0, len(points), step):
            out[i : i + step] = self._canonical(points[i : i + step])
        return out

    def _canonical(self, points: FloatArray) -> FloatArray:
        smallest: FloatArray = _smallest_image(np.ascontiguousarray(self.apply(points) + 0.0))
        return smallest

    def orbit_key(self, X: ArrayLike) -> list[Any]:
        """Bytes of the canonical image of every point."""
        return byte_keys(self.canonical(X))


@checked
class CoordinatePermutationGroup(VectorGroup):
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

    keeps_values = True
    allows_missing = True
    allows_sparse = True

    def __init__(self, perms: ArrayLike) -> None:
        array = np.asarray(perms)
        if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "iu":
            raise ShapeError(f"perms must be an integer matrix (|G|, p), got shape {array.shape}")
        check_size(array.size, 2 * MOST_ENTRIES, "entries of permutations")
        array = array.astype(np.int64)
        wanted = np.arange(array.shape[1])
        wrong = (np.sort(array, axis=1) != wanted).any(axis=1)
        if wrong.any():
            raise ShapeError(f"row {int(wrong.argmax())} of perms is not a permutation")
        keep = np.unique(number_keys([_digest(row) for row in array]), return_index=True)[1]
        self.perms: IntArray = np.ascontiguousarray(array[keep])
        self.perms.setflags(write=False)
        self.n_features = array.shape[1]
        self._check_group()

    def __repr__(self) -> str:
        return f"CoordinatePermutationGroup(order={len(self.perms)}, p={self.n_features})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CoordinatePermutationGroup):
            return NotImplemented
        return self._elements() == other._elements()

    def __hash__(self) -> int:
        return hash(self._elements())

    def _elements(self) -> frozenset[bytes]:
        return frozenset(_digest(row) for row in self.perms)

    @classmethod
    def closure(cls, generators: ArrayLike, *, limit: int = 100_000) -> CoordinatePermutationGroup:
        """The group generated by some permutations, the identity first."""
        gens = np.asarray(generators)
        if gens.ndim != 2 or gens.size == 0 or gens.dtype.kind not in "iu":
            raise ShapeError(f"generators must be a matrix of integers, got shape {gens.shape}")
        if (np.sort(gens, axis=1) != np.arange(gens.shape[1])).any():
            raise ShapeError("a row of generators is not a permutation")
        identity = np.arange(gens.shape[1])
        found = {_digest(identity): identity}
        front = [identity]
        while front:
            new = []
            for perm in front:
                for gen in gens:
                    product = perm[gen]
                    key = _digest(product)
                    if key not in found:
                        found[key] = product
                        new.append(product)
            if len(found) > limit:
                raise InfiniteOrbitError(f"the generated group has more than {limit} elements")
            check_size(len(found) * len(identity), MOST_ENTRIES, "entries of permutations")
            front = new
        return cls(np.array(list(found.values())))

    @property
    def order(self) -> float:
        """Number of permutations."""
        return len(self.perms)

    def check_points(self, X: ArrayLike) -> NDArray[Any]:
        """Return points as finite rows of numbers; arrays keep their number type."""
        if not isinstance(X, np.ndarray) or (X.dtype.kind not in "iu" and X.dtype != np.float32):
            return super().check_points(X)
        if X.ndim < 2 or math.prod(X.shape[1:]) != self.n_features:
            raise ShapeError(
                f"the points must be rows of {self.n_features} numbers, got shape {X.shape}"
            )
        if X.dtype.kind == "f":
            finite_numbers(X[np.isinf(X).reshape(len(X), -1).any(axis=1)], "X", missing=True)
            return np.ascontiguousarray(X.reshape(len(X), -1) + np.float32(0))
        return np.ascontiguousarray(X.reshape(len(X), -1))

    def orbit_key(self, X: ArrayLike) -> list[Any]:
        """Bytes of the canonical image of every point, the same for all number types."""
        return byte_keys(np.asarray(self.canonical(X), dtype=np.float64) + 0.0)

    def gathered(self, X: NDArray[Any], rows: IntArray, elements: IntArray) -> NDArray[Any]:
        """Image of X[rows[i]] under element elements[i], for all i; the number type is kept."""
        if X.ndim != 2 or X.shape[1] != self.n_features or len(rows) != len(elements):
            raise ShapeError(f"X must be rows of {self.n_features} numbers, one element per row")
        for index, size in ((rows, len(X)), (elements, len(self.perms))):
            if len(index) and not 0 <= index.min() <= index.max() < size:
                raise ShapeError(f"indices must be between 0 and {size - 1}")
        moved: NDArray[Any] = _gather(_plain(X), rows, elements, self.perms)
        return moved.astype(X.dtype, copy=False)

    def apply(self, X: ArrayLike) -> FloatArray:
        """All images, shape (|G|, n, p)."""
        points = self.check_points(X)
        check_size(len(self.perms) * points.size, MOST_NUMBERS, "numbers in all images")
        result: FloatArray = np.moveaxis(points[:, self.perms], 1, 0)
        return result

    def _act(self, g: int, X: NDArray[Any]) -> NDArray[Any]:
        result: NDArray[Any] = X[:, self.perms[g]]
        return result

    def sparse_images(self, X: csr_array) -> list[csr_array]:
        """All images of the rows of a sparse matrix."""
        self._check_width(X)
        return [csr_array(X[:, perm]) for perm in self.perms]

    def _canonical(self, points: FloatArray) -> FloatArray:
        points = _plain(points)
        if points.dtype.kind in "iu":
            whole: FloatArray = _smallest_permuted(points, self.perms)
            return whole
        # A missing number comes last: points are finite, so infinity stands for it.
        smallest: FloatArray = _smallest_permuted(
            np.where(np.isnan(points), points.dtype.type(np.inf), points), self.perms
        )
        smallest[np.isinf(smallest)] = np.nan
        return smallest

    def _check_group(self) -> None:
        elements = {_digest(row): g for g, row in enumerate(self.perms)}
        identity = _digest(np.arange(self.n_features))
        if identity not in elements:
            raise IdentityMissingError("the identity is missing from perms; add np.arange(p)")
        # The group that some elements generate is the whole set: a few of them are enough.
        reached = {identity}
        generators: list[int] = []
        for g, row in enumerate(self.perms):
            if _digest(row) in reached:
                continue
            generators.append(g)
            front = [elements[key] for key in reached]
            while front:
                front = self._products(front, generators, elements, reached)

    def _products(
        self,
        front: list[int],
        generators: list[int],
        elements: dict[bytes, int],
        reached: set[bytes],
    ) -> list[int]:
        """Elements that are new among the products of the front with the generators."""
        new = []
        for a in front:
            for b in generators:
                key = _digest(self.perms[a][self.perms[b]])
                if key not in elements:
                    raise NotAGroupError(
                        f"the product of transformations {a} and {b} is missing; "
                        "use closure(), or pass a MapSet",
                        pair=(a, b),
                    )
                if key not in reached:
                    reached.add(key)
                    new.append(elements[key])
        return new


def _digest(perm: IntArray) -> bytes:
    """Return a short key of a permutation: the bytes of all of them would fill the memory."""
    return blake2b(np.ascontiguousarray(perm).tobytes(), digest_size=16).digest()


@checked
class SignFlipGroup(VectorGroup):
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

    allows_missing = True
    allows_sparse = True

    def __init__(self, mask_generators: ArrayLike) -> None:
        masks = np.asarray(mask_generators)
        if masks.ndim != 2 or masks.size == 0 or not np.isin(masks, (0, 1)).all():
            raise ShapeError("mask_generators must be a 0/1 matrix (k, p)")
        group: IntArray = np.zeros((1, masks.shape[1]), dtype=np.int64)
        for mask in masks.astype(np.int64):
            if not (group == mask).all(axis=1).any():
                if len(group) > 50_000:
                    raise InfiniteOrbitError(
                        "more than 100,000 sign patterns; use fewer generators"
                    )
                check_size(2 * group.size, MOST_ENTRIES, "entries of sign patterns")
                group = np.concatenate([group, group ^ mask])
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
        points = self.check_points(X)
        check_size(self.signs.shape[0] * points.size, MOST_NUMBERS, "numbers in all images")
        images = self.signs[:, None, :] * points[None] + 0.0
        images[:, np.isnan(points)] = np.nan  # all with the same bits
        return images

    def _act(self, g: int, X: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.where(np.isnan(X), X, X * self.signs[g] + 0.0))

    def sparse_images(self, X: csr_array) -> list[csr_array]:
        """All images of the rows of a sparse matrix."""
        self._check_width(X)
        return [csr_array(X.multiply(signs[None, :].astype(np.float64))) for signs in self.signs]

    def _canonical(self, points: FloatArray) -> FloatArray:
        # A missing number is the same in all images, so any number may stand for it.
        holes = np.isnan(points)
        smallest: FloatArray = super()._canonical(np.where(holes, 0.0, points))
        smallest[holes] = np.nan
        return smallest


@checked
class MatrixGroup(VectorGroup):
    """Linear maps given by matrices; images are rounded, which is part of the object.

    Products have rounding errors, so that images of one point found on different ways differ in
    their last digits. Rounding hides that but for about one number in a million, which lies next to
    the place where it is rounded up or down.

    Parameters
    ----------
    mats:
        Shape (|G|, p, p).
    digits:
        Images are rounded to this many digits relative to the largest number in the orbit. Points
        that differ by less count as one; about 2 p |G| 10^(digits - 16) of the rows lie so close to
        a rounding edge that members of their orbit may get different keys.

    Examples
    --------
    >>> turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    >>> quarter = MatrixGroup([np.linalg.matrix_power(turn, k) for k in range(4)])
    >>> len(set(quarter.orbit_key([[1.0, 2.0], [-2.0, 1.0], [2.0, 1.0]])))
    2
    """

    def __init__(self, mats: ArrayLike, digits: int = 9) -> None:
        array = check_float_array(mats, "mats")
        if array.ndim != 3 or array.size == 0 or array.shape[1] != array.shape[2]:
            raise ShapeError(f"mats must have the shape (|G|, p, p), got {array.shape}")
        check_size(len(array) ** 2 * array[0].size, MOST_ENTRIES, "entries of products of matrices")
        self.mats: FloatArray = np.ascontiguousarray(array)
        self.mats.setflags(write=False)
        self.digits = check_int(digits, "digits", low=0, high=15)
        self.tolerance = 10.0**-self.digits
        self.n_features = array.shape[1]
        self._check_group()

    def __repr__(self) -> str:
        return f"MatrixGroup(order={len(self.mats)}, p={self.n_features}, digits={self.digits})"

    @property
    def order(self) -> float:
        """Number of matrices."""
        return len(self.mats)

    def exact_image(self, g: int, X: NDArray[Any]) -> NDArray[Any]:
        """Product of checked points with matrix number ``g``, not rounded."""
        image: NDArray[Any] = X @ self.mats[g].T
        return image

    def apply(self, X: ArrayLike) -> FloatArray:
        """All images, rounded, shape (|G|, n, p)."""
        points = self.check_points(X)
        check_size(len(self.mats) * points.size, MOST_NUMBERS, "numbers in all images")
        with np.errstate(over="ignore", invalid="ignore"):
            images = np.einsum("gij,nj->gni", self.mats, points)
        if not np.isfinite(images).all():
            raise ShapeError("an image is not finite: the points or the matrices are too large")
        largest = np.abs(images).max(axis=(0, 2), initial=0.0)[:, None]
        # Powers of ten keep short decimals as they are. The factor moves the places where the power
        # changes away from round numbers, which are 1 or 0.999... after a product.
        power = np.floor(np.log10(np.where(largest > 0, 1.2345678 * largest, 1.0))) + 1
        unit = 10.0 ** np.clip(power, -300, 308)
        return np.asarray(np.round(images / unit, self.digits) * unit + 0.0)

    def _check_group(self) -> None:
        tolerance = 10.0**-self.digits * 10
        tree = KDTree(self.mats.reshape(len(self.mats), -1))

        def unknown(matrices: FloatArray) -> BoolArray:
            flat = matrices.reshape(len(matrices), -1)
            flat = np.where(np.isfinite(flat), flat, np.finfo(np.float64).max / 4)
            return np.asarray(tree.query(flat, p=np.inf)[0] > tolerance)

        if unknown(np.eye(self.n_features)[None]).any():
            raise IdentityMissingError("the identity matrix is missing from mats; add it")
        for a, first in enumerate(self.mats):
            with np.errstate(over="ignore", invalid="ignore"):
                missing = unknown(first @ self.mats)
            if missing.any():
                b = int(missing.argmax())
                raise NotAGroupError(
                    f"the product of transformations {a} and {b} is missing; "
                    "add it, or pass a MapSet",
                    pair=(a, b),
                )


def _plain(points: NDArray[Any]) -> NDArray[Any]:
    """Numbers in a form that compiled code takes: native bytes, floats of four or eight."""
    kind, size = points.dtype.kind, points.dtype.itemsize
    if points.dtype.isnative and (kind != "f" or size in (4, 8)):
        return points
    return points.astype(f"{kind}{min(max(size, 4), 8) if kind == 'f' else size}")


@njit(cache=True)
def _smallest_permuted(points, perms):  # type: ignore[no-untyped-def]  # compiled by numba
    # perms holds permutations of the columns of points, so every index is inside.
    out = np.empty_like(points)
    for i in range(points.shape[0]):
        best = 0
        for g in range(1, perms.shape[0]):
            # The first coordinate where image g and the best so far differ decides.
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


@njit(cache=True)
def _gather(points, rows, elements, perms):  # type: ignore[no-untyped-def]  # compiled by numba
    # The caller has checked rows and elements; perms are permutations of the columns.
    out = np.empty((len(rows), points.shape[1]), dtype=points.dtype)
    for i in range(len(rows)):
        for j in range(points.shape[1]):
            out[i, j] = points[rows[i], perms[elements[i], j]]
    return out


@njit(cache=True)
def _smallest_image(images):  # type: ignore[no-untyped-def]  # compiled by numba
    # The same for images that are listed, shape (|G|, n, p).
    out = np.empty_like(images[0])
    for i in range(images.shape[1]):
        best = 0
        for g in range(1, images.shape[0]):
            # The first coordinate where image g and the best so far differ decides.
            for j in range(images.shape[2]):
                a = images[g, i, j]
                b = images[best, i, j]
                if a < b:
                    best = g
                if a != b:
                    break
        out[i] = images[best, i]
    return out


@checked
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

    keeps_values = True
    allows_missing = True

    def __init__(self, axis: int = 1, shape: tuple[int, ...] | None = None) -> None:
        self.axis = check_int(axis, "axis", low=1)
        self.shape = None if shape is None else tuple(check_int(s, "shape", low=1) for s in shape)
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
        array = finite_numbers(X, "sets", missing=True)
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
        return byte_keys(self.canonical(X))

    def sample(self, X: ArrayLike, n_images: int, random_state: RandomState = None) -> NDArray[Any]:
        """Images under random permutations, shape (n_images, n, ...)."""
        points = self.check_points(X)
        blocks = self._blocks(points)
        rng = generator(random_state)
        count = check_int(n_images, "n_images", low=1)
        check_size(count * points.size, MOST_NUMBERS, "numbers in all images")
        orders = (rng.permutation(blocks.shape[1]) for _ in range(count))
        return np.stack([self._unblock(blocks[:, order], points) for order in orders])

    def shuffled(self, X: ArrayLike, random_state: RandomState = None) -> FloatArray:
        """Every point with its elements in an order of its own."""
        points = self.check_points(X)
        blocks = self._blocks(points)
        order = np.argsort(generator(random_state).random(blocks.shape[:2]), axis=1)
        return self._unblock(np.take_along_axis(blocks, order[..., None], axis=1), points)

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
