"""A stack of row vectors, seen only through inner products and combinations of its rows.

The server rules never touch a gradient otherwise, so one implementation of a rule serves NumPy
arrays, torch tensors on a GPU and the messages of a federation. Vectors are opaque: the rules only
subtract them and multiply them by numbers.
Source: spec 05 section 2.5 (aggregations lie in the span of what the agents sent).
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.validation import BoolArray, FloatArray
from counterplay.errors import InvalidInputError

Vector: TypeAlias = Any
"""A vector of the parameter space: supports ``-``, ``+`` and multiplication by a float."""


@runtime_checkable
class Stack(Protocol):
    """``M`` row vectors of one space; every number that leaves the stack is float64."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def gram(self) -> FloatArray:
        """Return all inner products of rows, shape (M, M)."""

    def combine(self, coefficients: FloatArray) -> Vector:
        """Return the combination of the rows with these ``M`` coefficients."""

    def inner(self, vector: Vector) -> FloatArray:
        """Return the inner product of every row with ``vector``, shape (M,)."""

    def dot(self, first: Vector, second: Vector) -> float:
        """Return the inner product of two vectors of the space."""

    def rows(self, mask: BoolArray) -> Stack:
        """Return the stack of the rows where ``mask`` is true."""


class NumpyStack:
    """Row vectors as one ``(M, d)`` float64 array.

    Use it to feed a server rule with gradients that are NumPy arrays.

    Parameters
    ----------
    rows : array of shape (M, d)
        One vector per row; converted to float64.

    Guarantees
    ----------
    ``gram``, ``inner`` and ``combine`` are float64 products, whatever the dtype of the input.

    Examples
    --------
    >>> stack = NumpyStack([[3.0, 4.0], [0.0, 2.0]])
    >>> stack.gram()[0].tolist()
    [25.0, 8.0]
    >>> stack.combine(np.array([1.0, -2.0])).tolist()
    [3.0, 0.0]

    References
    ----------
    Spec 05 section 2.5.
    """

    __slots__ = ("_gram", "array")

    def __init__(self, rows: ArrayLike) -> None:
        array = np.asarray(rows, dtype=np.float64)
        if array.ndim != 2:
            raise InvalidInputError(
                f"a stack needs one row per agent, shape (M, d), got shape {array.shape}"
            )
        self.array: FloatArray = array
        self._gram: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.array)

    def __repr__(self) -> str:
        return f"NumpyStack(M={self.array.shape[0]}, d={self.array.shape[1]})"

    def gram(self) -> FloatArray:
        """Return all inner products of rows, computed once."""
        if self._gram is None:
            self._gram = self.array @ self.array.T
        return self._gram

    def combine(self, coefficients: FloatArray) -> FloatArray:
        """Return the combination of the rows with these coefficients."""
        return np.asarray(coefficients @ self.array)

    def inner(self, vector: FloatArray) -> FloatArray:
        """Return the inner product of every row with ``vector``."""
        return np.asarray(self.array @ vector)

    def dot(self, first: FloatArray, second: FloatArray) -> float:
        """Return the inner product of two vectors."""
        return float(first @ second)

    def rows(self, mask: BoolArray) -> NumpyStack:
        """Return the stack of the rows where ``mask`` is true."""
        return NumpyStack(self.array[mask])
