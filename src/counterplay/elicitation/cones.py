"""Extreme rays of a polyhedral cone that is cut by one halfspace at a time.

The double description method: keep the rays, split them by the sign of the new inequality, and
join adjacent pairs across the cut. Exact up to rounding; the geometry behind
:class:`~counterplay.elicitation.consistent_set.ConsistentSet`.
Source: Motzkin et al. (1953); Fukuda and Prodon (1996) for the combinatorial adjacency test.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from counterplay.core.validation import FloatArray

TOLERANCE = 1e-11


class Cone:
    """A pointed cone ``{y : A y >= 0}`` given by its extreme rays, normalised to sum(y[:k]) = 1.

    Parameters
    ----------
    rays:
        Extreme rays (m, n) of the starting cone.
    constraints:
        Its inequalities (c, n).
    k:
        The first k coordinates of every ray sum to 1.
    """

    def __init__(self, rays: FloatArray, constraints: FloatArray, k: int) -> None:
        self.k = k
        self.rays = np.ascontiguousarray(rays, dtype=np.float64)
        self.constraints = [np.asarray(row, dtype=np.float64) for row in constraints]
        self._zeros = np.zeros((len(rays), 1), dtype=np.uint64)
        for position, row in enumerate(self.constraints):
            self._mark(position, np.abs(self.rays @ row) <= TOLERANCE)

    @property
    def empty(self) -> bool:
        """Whether only the origin is left."""
        return len(self.rays) == 0

    def cut(self, row: FloatArray) -> None:
        """Keep the part with ``row @ y >= 0``."""
        position = len(self.constraints)
        self.constraints.append(np.asarray(row, dtype=np.float64))
        signed = self.rays @ row
        keep = signed >= -TOLERANCE
        if not keep.all():
            fresh, zeros = _join(self.rays, self._zeros, signed, self.k, TOLERANCE)
            self.rays = np.vstack([self.rays[keep], fresh])
            self._zeros = np.vstack([self._zeros[keep], zeros])
            on_cut = np.concatenate([np.abs(signed[keep]) <= TOLERANCE, np.ones(len(fresh), bool)])
        else:
            on_cut = np.abs(signed) <= TOLERANCE
        self._mark(position, on_cut)

    def copy(self) -> Cone:
        """Return an independent copy."""
        twin = object.__new__(Cone)
        twin.k = self.k
        twin.rays = self.rays.copy()
        twin.constraints = list(self.constraints)
        twin._zeros = self._zeros.copy()
        return twin

    def flat(self, positions: Sequence[int]) -> bool:
        """Whether one of these inequalities holds with equality on the whole cone."""
        common = np.bitwise_and.reduce(self._zeros, axis=0)
        return any(int(common[p // 64]) >> (p % 64) & 1 for p in positions)

    def incidence(self, position: int) -> int:
        """Number of rays on the boundary of one inequality; 0 means it is redundant."""
        word, bit = divmod(position, 64)
        return int(((self._zeros[:, word] >> np.uint64(bit)) & np.uint64(1)).sum())

    def _mark(self, position: int, on_boundary: NDArray[np.bool_]) -> None:
        word, bit = divmod(position, 64)
        if word >= self._zeros.shape[1]:
            grown = np.zeros((len(self._zeros), 1), dtype=np.uint64)
            self._zeros = np.hstack([self._zeros, grown])
        self._zeros[on_boundary, word] |= np.uint64(1) << np.uint64(bit)


@njit(cache=True)
def _count_bits(word):  # type: ignore[no-untyped-def]  # compiled by numba
    """Number of ones: sums of neighbouring 1, 2 and 4 bits, then all bytes by one product."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + (
        (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@njit(cache=True)
def _join(rays, zeros, signed, k, tolerance):  # type: ignore[no-untyped-def]  # compiled by numba
    """New rays on the cut, one for each pair of adjacent rays on different sides of it."""
    m, n = rays.shape
    words = zeros.shape[1]
    above = np.flatnonzero(signed > tolerance)
    below = np.flatnonzero(signed < -tolerance)
    fresh = np.empty((64, n))
    marks = np.empty((64, words), np.uint64)
    common = np.empty(words, np.uint64)
    count = 0
    for p in above:
        for q in below:
            # necessary for adjacency: enough constraints hold with equality on both rays
            shared = np.uint64(0)
            for w in range(words):
                common[w] = zeros[p, w] & zeros[q, w]
                shared += _count_bits(common[w])
            if shared < np.uint64(n - 2):
                continue
            # sufficient: no third ray lies on all of them
            adjacent = True
            for r in range(m):
                if r in (p, q):
                    continue
                covers = True
                for w in range(words):
                    if zeros[r, w] & common[w] != common[w]:
                        covers = False
                        break
                if covers:
                    adjacent = False
                    break
            if not adjacent:
                continue
            # room for twice as many
            if count == len(fresh):
                more = np.empty((2 * count, n))
                more[:count] = fresh
                fresh = more
                wider = np.empty((2 * count, words), np.uint64)
                wider[:count] = marks
                marks = wider
            # the point between both rays on the cut, scaled so that its weights sum to 1
            total = 0.0
            for j in range(n):
                fresh[count, j] = signed[p] * rays[q, j] - signed[q] * rays[p, j]
            for j in range(k):
                total += fresh[count, j]
            for j in range(n):
                fresh[count, j] /= total
            marks[count] = common
            count += 1
    return fresh[:count], marks[:count]
