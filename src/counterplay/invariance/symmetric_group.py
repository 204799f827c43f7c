"""All permutations of the elements of a set: too many to list, but sorting is a canonical form.

Source: docs/theory/11-invariance.md, "Conventions".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, check_int, check_size
from counterplay.invariance.errors import InfiniteOrbitError, ShapeError
from counterplay.invariance.transformations import (
    MOST_NUMBERS,
    TransformationSet,
    byte_keys,
    finite_numbers,
)


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
