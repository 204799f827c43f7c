"""Stacks for the server rules: the vectors of many federations, with one Gram matrix each.

A rule only needs inner products and combinations. :class:`Spans` therefore keeps the vectors of
all seeds in one array, computes all inner products in one batched product in double precision the
first time a rule asks for one, and lets rules work on coefficients; one more product turns the
coefficients of all seeds into steps. Source: spec 05 sections 2.5 and 3.5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.defection.engine.arrays import Array, Backend

PIECE = 8192  # columns converted at once


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
