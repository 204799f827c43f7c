"""Littlestone dimension with a mistake tree as certificate.

``at_least(V, d)`` asks whether V shatters a tree of depth d: some point must split V into two
parts that both shatter depth d - 1. Asking for one depth at a time keeps the recursion as shallow
as the dimension itself (the plain definition descends once per hypothesis). A part with fewer
than 2^(d-1) members cannot do it, the smaller part is tried first, equal splits are tried once,
and what is known about a set is remembered. Source: spec 03 section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numba import njit

from counterplay.core.bits import Words, pack_rows, popcount, unique_rows, unpack_rows
from counterplay.core.dimensions.shatter_search import popcount_word
from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import IntArray


@dataclass(frozen=True)
class MistakeTree:
    """A complete binary tree of points, shattered by the class.

    Attributes
    ----------
    points:
        Inner nodes in heap order: node j (from 1) has children 2j (label 0) and 2j + 1 (label 1),
        so after labels y_1..y_{i-1} the point is number 2^(i-1) + sum_k y_k 2^(i-1-k).
    leaves:
        One member per path, that gives exactly the labels of the path; leaf r has the binary
        digits of r as labels, the root's the most significant.
    """

    points: tuple[int, ...]
    leaves: tuple[int, ...]

    @property
    def value(self) -> int:
        """The Littlestone dimension: the depth of the tree."""
        return len(self.leaves).bit_length() - 1

    def __int__(self) -> int:
        return self.value

    def verify(self, cls: FiniteClass) -> bool:
        """Check against the class that every path of the tree has its witness."""
        d = self.value
        if len(self.leaves) != 2**d or len(self.points) != 2**d - 1:
            return False
        for r, leaf in enumerate(self.leaves):
            labels = [(r >> (d - 1 - i)) & 1 for i in range(d)]
            for i in range(d):
                node = 2**i + sum(labels[k] << (i - 1 - k) for k in range(i))
                if int(cls.labels[leaf, self.points[node - 1]]) != labels[i]:
                    return False
        return True

    def summary(self) -> str:
        """One sentence with the dimension and the first points of the tree."""
        head = f"Littlestone dimension is {self.value}"
        return f"{head}; root point: {self.points[0]}" if self.points else head


def littlestone_dimension(cls: FiniteClass) -> MistakeTree:
    """Find the Littlestone dimension and a shattered mistake tree.

    It is the largest number of mistakes that an adversary can force on any learner of the class,
    and that :class:`counterplay.core.online.SOA` never exceeds.

    Examples
    --------
    Thresholds on 127 points need seven bisections:

    >>> line = FiniteClass.thresholds(range(127))
    >>> tree = littlestone_dimension(line)
    >>> tree.value, tree.points[0], tree.verify(line)
    (7, 63, True)

    References
    ----------
    Littlestone (1988), "Learning quickly when irrelevant attributes abound".
    """
    return LittlestoneSolver(cls).tree()


class LittlestoneSolver:
    """Littlestone dimensions of subsets of one class, with a memory shared by all questions.

    Use it when many version spaces of the same class are asked about, as SOA does. Subsets are
    packed words over the members of the class (``full`` is the whole class).

    Examples
    --------
    >>> solver = LittlestoneSolver(FiniteClass.singletons(6))
    >>> solver.dimension()
    1
    """

    def __init__(self, cls: FiniteClass) -> None:
        self.cls = cls
        first, inverse, _ = unique_rows(cls.packed)
        self._first: IntArray = first
        self._inverse: IntArray = inverse
        self._distinct = first.size == len(cls)
        columns = pack_rows(np.ascontiguousarray(cls.labels[first].T))
        self._full = pack_rows(np.ones(first.size, dtype=np.bool_))
        points, _ = _splitting(self._full, columns, np.arange(cls.n_points), first.size)
        self._points: IntArray = points[_distinct_splits(self._full, columns, points)]
        self._columns: Words = np.ascontiguousarray(columns[self._points])
        self._all = np.arange(self._points.size, dtype=np.int64)
        self._bounds: dict[bytes, tuple[int, int]] = {}
        self._splits: dict[tuple[bytes, int], int] = {}

    def __repr__(self) -> str:
        return f"LittlestoneSolver({self.cls!r})"

    @property
    def full(self) -> Words:
        """The whole class as packed words."""
        return pack_rows(np.ones(len(self.cls), dtype=np.bool_))

    def dimension(self, members: Words | None = None) -> int:
        """Littlestone dimension of a subset of the class (default: all of it); -1 if empty."""
        V = self._full if members is None else self._internal(members)
        return self._dimension(V)

    def at_least(self, members: Words, d: int) -> bool:
        """Whether the subset has Littlestone dimension ``d`` or more."""
        V = self._internal(members)
        return d < 0 or self._at_least(V, d, int(popcount(V)), self._all)

    def tree(self, members: Words | None = None) -> MistakeTree:
        """A shattered mistake tree of the largest depth for a subset (default: the class)."""
        V = self._full if members is None else self._internal(members)
        representative = self._first.copy()
        if members is not None:
            present = np.flatnonzero(unpack_rows(members, len(self.cls)))
            representative[self._inverse[present[::-1]]] = present[::-1]
        d = self._dimension(V)
        if d < 0:
            return MistakeTree((), ())
        points = [0] * (2**d - 1)
        leaves = [0] * 2**d
        stack = [(V, d, 1)]
        while stack:
            part, depth, node = stack.pop()
            if depth == 0:
                row = np.argmax(unpack_rows(part, self._first.size))
                leaves[node - 2**d] = int(representative[row])
                continue
            column = self._split(part, depth)
            points[node - 1] = int(self._points[column])
            stack.append((part & ~self._columns[column], depth - 1, 2 * node))
            stack.append((part & self._columns[column], depth - 1, 2 * node + 1))
        return MistakeTree(tuple(points), tuple(leaves))

    def _internal(self, members: Words) -> Words:
        """Translate a set of members into a set of distinct rows."""
        if self._distinct:
            return members
        mask = np.zeros(self._first.size, dtype=np.bool_)
        mask[self._inverse[unpack_rows(members, len(self.cls))]] = True
        return pack_rows(mask)

    def _dimension(self, V: Words) -> int:
        size = int(popcount(V))
        if size <= 1:
            return size - 1
        low, high = self._bounds.get(V.tobytes(), (1, size.bit_length() - 1))
        while low < high and self._at_least(V, low + 1, size, self._all):
            low += 1
        return low

    def _at_least(self, V: Words, d: int, size: int, candidates: IntArray) -> bool:
        if d <= 1 or size < 1 << d:
            return size >= 1 << d
        key = V.tobytes()
        low, high = self._bounds.get(key, (1, size.bit_length() - 1))
        if d <= low or d > high:
            return d <= low
        column = self._find_split(V, d, size, candidates)
        if column is None:
            self._bounds[key] = (low, d - 1)
            return False
        self._splits[key, d] = column
        self._bounds[key] = (d, high)
        return True

    def _find_split(self, V: Words, d: int, size: int, candidates: IntArray) -> int | None:
        """A column with Littlestone dimension d - 1 or more on both sides, or None."""
        splitting, smaller = _splitting(V, self._columns, candidates, size)
        usable = np.flatnonzero(smaller >= 1 << (d - 1))
        if usable.size == 0:
            return None
        if d == 2:  # two sides with two distinct rows each have dimension 1
            return int(splitting[usable[np.argmax(smaller[usable])]])
        if splitting.size > 1:
            kept = _distinct_splits(V, self._columns, splitting)
            splitting, smaller = splitting[kept], smaller[kept]
        order = np.argsort(-smaller, kind="stable")
        for index in order[: np.count_nonzero(smaller >= 1 << (d - 1))]:
            column, count = int(splitting[index]), int(smaller[index])
            small, large = V & self._columns[column], V & ~self._columns[column]
            if int(popcount(small)) != count:
                small, large = large, small
            if self._at_least(small, d - 1, count, splitting) and self._at_least(
                large, d - 1, size - count, splitting
            ):
                return column
        return None

    def _split(self, V: Words, d: int) -> int:
        """The column at the root of a tree of depth d for V, which has one."""
        size = int(popcount(V))
        key = V.tobytes()
        if (key, d) not in self._splits:
            need = 1 << (d - 1)
            splitting, smaller = _splitting(V, self._columns, self._all, size)
            if d == 1:
                self._splits[key, d] = int(splitting[np.argmax(smaller)])
            else:
                column = self._find_split(V, d, size, splitting[smaller >= need])
                self._splits[key, d] = cast(int, column)
        return self._splits[key, d]


def _distinct_splits(V: Words, columns: Words, candidates: IntArray) -> IntArray:
    """Positions in ``candidates`` of columns that split V in pairwise different ways."""
    rows, hashes = _canonical_splits(V, columns, candidates)
    order = np.argsort(hashes, kind="stable")
    same_hash = hashes[order[1:]] == hashes[order[:-1]]
    repeated = np.zeros(order.size, dtype=np.bool_)
    suspects = np.flatnonzero(same_hash)  # equal hashes: compare the rows themselves
    equal = (rows[order[suspects + 1]] == rows[order[suspects]]).all(axis=1)
    repeated[suspects[equal] + 1] = True
    return np.sort(order[~repeated])


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _splitting(V, columns, candidates, size):  # type: ignore[no-untyped-def]  # compiled by numba
    """Candidates that split V, and the size of the smaller part of each split."""
    kept = np.empty(candidates.size, dtype=np.int64)
    smaller = np.empty(candidates.size, dtype=np.int64)
    found = 0
    for candidate in candidates:
        ones = 0
        for w in range(V.size):
            ones += popcount_word(V[w] & columns[candidate, w])
        if 0 < ones < size:
            kept[found] = candidate
            smaller[found] = min(ones, size - ones)
            found += 1
    return kept[:found], smaller[:found]


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _canonical_splits(V, columns, candidates):  # type: ignore[no-untyped-def]  # compiled by numba
    """For each candidate the part of V without V's first member, and a hash of that part."""
    first_word = 0
    while V[first_word] == 0:
        first_word += 1
    first_bit = V[first_word] & (~V[first_word] + np.uint64(1))
    rows = np.empty((candidates.size, V.size), dtype=np.uint64)
    hashes = np.empty(candidates.size, dtype=np.uint64)
    for index in range(candidates.size):
        column = columns[candidates[index]]
        flip = (column[first_word] & first_bit) != 0
        mixed = np.uint64(0x9E3779B97F4A7C15)
        for w in range(V.size):
            word = V[w] & ~column[w] if flip else V[w] & column[w]
            rows[index, w] = word
            mixed = (mixed ^ word) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = mixed ^ (mixed >> np.uint64(31))
        hashes[index] = mixed
    return rows, hashes
