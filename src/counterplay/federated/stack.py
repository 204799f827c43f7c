"""Stacks of row vectors, seen only through inner products and combinations of their rows.

The server rules never touch a gradient otherwise, so one implementation of a rule serves NumPy
arrays, tensors on a GPU and the messages of a federation. Vectors are opaque: the rules only
subtract them and multiply them by numbers. :class:`Spans` holds the vectors of many seeds in one
array, computes all inner products in one batched product the first time a rule asks for one, and
lets rules work on coefficients; one more product turns the coefficients of all seeds into steps.
Source: Algorithm 5.1 (steps lie in the span of what was sent), see docs/theory/05-defection.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.federated.arrays import Array, Backend

PIECE = 8192  # columns converted at once
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


class Spans:
    """The vectors of ``S`` federations, in blocks ``(S, M, d)``; inner products on demand.

    With local steps there are two blocks, updates and gradients, otherwise one. The vectors of
    a federation are numbered through the blocks: ``K = M * blocks``.
    """

    def __init__(self, backend: Backend, blocks: Sequence[Array]) -> None:
        self.backend, self.blocks = backend, list(blocks)
        self.members = int(self.blocks[0].shape[1])
        self.count = self.members * len(self.blocks)
        self._gram: FloatArray | None = None

    def gram(self) -> FloatArray:
        """Return the ``(S, K, K)`` inner products, in double precision, computed once."""
        if self._gram is None:
            self._gram = self._on_cpu() if self.backend.on_cpu else self._on_device()
        return self._gram

    def _on_device(self) -> FloatArray:
        """One batched product per pair of blocks."""
        double = [self.backend.double(block) for block in self.blocks]
        rows = [
            np.concatenate([self.backend.fetch(a @ b.swapaxes(1, 2)) for b in double], axis=2)
            for a in double
        ]
        return np.concatenate(rows, axis=1)

    def _on_cpu(self) -> FloatArray:
        """Pieces that stay in the processor's cache, converted to double precision as they come.

        Two products of half the rows each are twice as fast as one: a matrix times its own
        transpose goes to a routine that is slow for few long rows.
        """
        blocks = [self.backend.fetch(block) for block in self.blocks]
        runs, _, d = blocks[0].shape
        total = np.zeros((runs, self.count, self.count))
        piece, half = np.empty((self.count, min(d, PIECE))), self.count // 2
        for s in range(runs):
            for a in range(0, d, PIECE):
                part = piece[:, : min(PIECE, d - a)]
                for b, block in enumerate(blocks):
                    part[b * self.members : (b + 1) * self.members] = block[s, :, a : a + PIECE]
                total[s, :half] += part[:half] @ part.T
                total[s, half:] += part[half:] @ part.T
        return np.asarray((total + total.swapaxes(1, 2)) / 2.0)

    def stack(self, run: int, members: IntArray, block: int = 0) -> SpanStack:
        """Return the stack of some vectors of one federation and block."""
        return SpanStack(self, run, members + block * self.members)

    def combine(self, coefficients: FloatArray) -> Array:
        """Return one vector per federation, ``(S, d)``, from coefficients ``(S, K)``."""
        total = None
        for b, block in enumerate(self.blocks):
            part = coefficients[:, None, b * self.members : (b + 1) * self.members]
            if part.any():
                vector = (self.backend.put(part) @ block)[:, 0]
                total = vector if total is None else total + vector
        return self.blocks[0][:, 0] * 0.0 if total is None else total


class SpanStack:
    """Some vectors of one federation; a vector is the array of its ``K`` coefficients."""

    __slots__ = ("members", "run", "spans")

    def __init__(self, spans: Spans, run: int, members: IntArray) -> None:
        self.spans, self.run, self.members = spans, run, members

    def __len__(self) -> int:
        return len(self.members)

    def gram(self) -> FloatArray:
        """Return the inner products of the members."""
        return np.asarray(self.spans.gram()[self.run][np.ix_(self.members, self.members)])

    def combine(self, coefficients: FloatArray) -> FloatArray:
        """Return the coefficients with respect to all vectors of the federation."""
        vector = np.zeros(self.spans.count)
        vector[self.members] = coefficients
        return vector

    def inner(self, vector: FloatArray) -> FloatArray:
        """Return the inner product of every member with a vector."""
        return np.asarray(self.spans.gram()[self.run][self.members] @ vector)

    def dot(self, first: FloatArray, second: FloatArray) -> float:
        """Return the inner product of two vectors; rounding never makes a square negative."""
        value = float(first @ self.spans.gram()[self.run] @ second)
        return max(value, 0.0) if first is second else value

    def rows(self, mask: BoolArray) -> SpanStack:
        """Return the stack of the members where ``mask`` is true."""
        return SpanStack(self.spans, self.run, self.members[mask])
