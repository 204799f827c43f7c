"""Littlestone dimension with a mistake tree as certificate.

``at_least(V, d)`` asks whether V shatters a tree of depth d: some point must split V into two
parts that both shatter depth d - 1. Asking for one depth at a time keeps the recursion as shallow
as the dimension itself (the plain definition descends once per hypothesis). A part with fewer
than 2^(d-1) members cannot do it, the smaller part is tried first, equal splits are tried once,
and what is known about a set is remembered.

Source: "Dimensions", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numba import njit

from counterplay.core.arguments import checked
from counterplay.core.bits import (
    Words,
    int_to_mask,
    int_to_words,
    mask_to_int,
    pack_columns,
    unique_rows,
    words_to_int,
)
from counterplay.core.dimensions.shatter_search import popcount_word
from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import IntArray

_COMPILED_FROM = 20_000  # words to count at once


@checked
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


@checked
def littlestone_dimension(cls: FiniteClass) -> MistakeTree:
    """Find the Littlestone dimension and a shattered mistake tree.

    It is the largest number of mistakes that an adversary can force on any learner of the class,
    and that :class:`SOA` never exceeds.

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


@checked
class LittlestoneSolver:
    """Littlestone dimensions of subsets of one class, with a memory shared by all questions.

    Use it when many version spaces of the same class are asked about, as SOA does. Subsets are
    packed words over the members of the class, or Python ints with one bit per member.

    Examples
    --------
    >>> solver = LittlestoneSolver(FiniteClass.singletons(6))
    >>> solver.dimension(), solver.dimension(0b000100), solver.dimension(0)
    (1, 0, -1)
    """

    def __init__(self, cls: FiniteClass) -> None:
        self.cls = cls
        first, inverse, _ = unique_rows(cls.packed)
        self._first: IntArray = first
        self._inverse: IntArray = inverse
        self._distinct = first.size == len(cls)
        words = cls.columns if self._distinct else pack_columns(cls.labels[first])
        self._full = (1 << first.size) - 1
        points: dict[int, int] = {}  # one point for each way to split the class
        for point, column in enumerate(map(words_to_int, words)):
            if 0 < column < self._full:
                points.setdefault(self._full ^ column if column & 1 else column, point)
        self._points = list(points.values())
        self._words: Words = np.ascontiguousarray(words[self._points])
        self._columns = [words_to_int(column) for column in self._words]
        self._bounds: dict[int, tuple[int, int]] = {}
        self._splits: dict[tuple[int, int], int] = {}

    def __repr__(self) -> str:
        return f"LittlestoneSolver({self.cls!r})"

    @property
    def full(self) -> Words:
        """The whole class as packed words."""
        return int_to_words((1 << len(self.cls)) - 1, len(self.cls))

    def dimension(self, members: Words | int | None = None) -> int:
        """Littlestone dimension of a subset of the class (default: all of it); -1 if empty."""
        return self._dimension(self._internal(members))

    def at_least(self, members: Words | int, d: int) -> bool:
        """Whether the subset has Littlestone dimension ``d`` or more."""
        V = self._internal(members)
        return d < 0 or self._at_least(V, d, V.bit_count(), self._all())

    def tree(self, members: Words | int | None = None) -> MistakeTree:
        """A shattered mistake tree of the largest depth for a subset (default: the class)."""
        V = self._internal(members)
        representative = self._representatives(members)
        d = self._dimension(V)
        if d < 0:
            return MistakeTree((), ())
        points = [0] * (2**d - 1)
        leaves = [0] * 2**d
        stack = [(V, d, 1)]
        while stack:
            part, depth, node = stack.pop()
            if depth == 0:
                lowest = (part & -part).bit_length() - 1
                leaves[node - 2**d] = int(representative[lowest])
                continue
            column = self._split(part, depth)
            points[node - 1] = self._points[column]
            one = part & self._columns[column]
            stack += [(part ^ one, depth - 1, 2 * node), (one, depth - 1, 2 * node + 1)]
        return MistakeTree(tuple(points), tuple(leaves))

    def _internal(self, members: Words | int | None) -> int:
        """Translate a set of members into a set of distinct rows."""
        if members is None:
            return self._full
        value = members if isinstance(members, int) else words_to_int(members)
        if self._distinct:
            return value
        mask = np.zeros(self._first.size, dtype=np.bool_)
        mask[self._inverse[int_to_mask(value, len(self.cls))]] = True
        return mask_to_int(mask)

    def _representatives(self, members: Words | int | None) -> IntArray:
        """For each distinct row one member that has it, from the subset where possible."""
        chosen = self._first.copy()
        if members is not None and not self._distinct:
            value = members if isinstance(members, int) else words_to_int(members)
            present = np.flatnonzero(int_to_mask(value, len(self.cls)))[::-1]
            chosen[self._inverse[present]] = present
        return chosen

    def _all(self) -> IntArray:
        return np.arange(len(self._columns), dtype=np.int64)

    def _dimension(self, V: int) -> int:
        size = V.bit_count()
        if size <= 1:
            return size - 1
        low, high = self._bounds.get(V, (1, size.bit_length() - 1))
        while low < high and self._at_least(V, low + 1, size, self._all()):
            low += 1
        return low

    def _at_least(self, V: int, d: int, size: int, candidates: IntArray) -> bool:
        if d <= 1 or size < 1 << d:
            return size >= 1 << d
        low, high = self._bounds.get(V, (1, size.bit_length() - 1))
        if d <= low or d > high:
            return d <= low
        column = self._find_split(V, d, size, candidates)
        if column is None:
            self._bounds[V] = (low, d - 1)
            return False
        self._splits[V, d] = column
        self._bounds[V] = (d, high)
        return True

    def _find_split(self, V: int, d: int, size: int, candidates: IntArray) -> int | None:
        """A column with Littlestone dimension d - 1 or more on both sides, or None."""
        if d <= 2:  # sides with two distinct rows have dimension 1
            return self._first_split(V, size, d, candidates)
        usable, candidates = self._usable(V, size, 1 << (d - 1), candidates)
        usable.sort(reverse=True)
        tried = set()
        for count, column in usable:
            one = V & self._columns[column]
            zero = V ^ one
            small, large = (one, zero) if one.bit_count() == count else (zero, one)
            if small in tried:
                continue
            tried.add(small)
            if self._at_least(small, d - 1, count, candidates) and self._at_least(
                large, d - 1, size - count, candidates
            ):
                return column
        return None

    def _first_split(self, V: int, size: int, need: int, candidates: IntArray) -> int | None:
        """The first column with ``need`` rows of V or more on both sides."""
        if candidates.size * self._words.shape[1] >= _COMPILED_FROM:
            usable, _ = self._usable(V, size, need, candidates)
            return usable[0][1] if usable else None
        for column in candidates.tolist():
            if need <= (V & self._columns[column]).bit_count() <= size - need:
                return int(column)
        return None

    def _usable(
        self, V: int, size: int, need: int, candidates: IntArray
    ) -> tuple[list[tuple[int, int]], IntArray]:
        """(Smaller side, column) of the splits with ``need`` rows on both sides; what to try below.

        Few short columns are counted as Python ints, many long ones by compiled code.
        """
        if candidates.size * self._words.shape[1] < _COMPILED_FROM:
            usable = []
            for column in candidates.tolist():
                ones = (V & self._columns[column]).bit_count()
                smaller = ones if 2 * ones <= size else size - ones
                if smaller >= need:
                    usable.append((smaller, column))
            return usable, candidates
        splitting, counts = _splitting(int_to_words(V, self._first.size), self._words, candidates)
        counts = np.minimum(counts, size - counts)
        enough = counts >= need
        pairs = zip(counts[enough].tolist(), splitting[enough].tolist())
        return list(pairs), splitting[counts > 0]

    def _split(self, V: int, d: int) -> int:
        """The column at the root of a tree of depth d for V, which has one."""
        if (V, d) not in self._splits:
            size = V.bit_count()
            self._splits[V, d] = cast(int, self._find_split(V, d, size, self._all()))
        return self._splits[V, d]


@njit(cache=True)
def _splitting(V, columns, candidates):  # type: ignore[no-untyped-def]  # compiled by numba
    """Candidates with a 1 somewhere in V, and how many."""
    kept = np.empty(candidates.size, dtype=np.int64)
    counts = np.empty(candidates.size, dtype=np.int64)
    found = 0
    for candidate in candidates:
        ones = 0
        for w in range(V.size):
            ones += popcount_word(V[w] & columns[candidate, w])
        if ones > 0:
            kept[found] = candidate
            counts[found] = ones
            found += 1
    return kept[:found], counts[:found]
