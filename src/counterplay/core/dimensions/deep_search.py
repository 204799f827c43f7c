"""Is there a shattered set of a given size? A search that counts rows instead of only seeing them.

The depth-first search of :mod:`counterplay.core.dimensions.shatter_search` has to visit every
shattered set, and a class of random labels has billions. A shattered set of size t tells more about
its parts: every labeling of k of its points is given by at least 2^(t-k) members. Three ideas make
the exhaustive proof short. One of two halves of the points holds at least t/2 of the set, so the
first points come from one half. Below them only pairs of further points are looked at, on the few
labelings with fewest members, where most pairs fail at once. And of the points still missing three
lie in one of several groups, so only triples inside groups have to be refuted.
Members must be defined everywhere (no 2). Source: spec 11 section 3.1.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from counterplay.core.dimensions.small_cells import (
    Workspace,
    bit_columns,
    count_ones,
    five,
    join,
    restrict,
    side_counts,
    smallest_cells,
    triple,
)
from counterplay.core.validation import BoolArray, IntArray

# Labelings of the first points on which pairs and triples are tested: few are cheap to prepare,
# many are needed where a triple already is the whole rest of the set.
_FEW_CELLS, _MANY_CELLS = 12, 16
_SEED = 11  # of the random sets that decide at which depth counting starts to bite


def find_shattered(values: NDArray[np.uint8], apart: BoolArray, size: int) -> IntArray:
    """Columns of a shattered set of this size (at least 5), or an empty array if there is none.

    Parameters
    ----------
    values:
        0/1 matrix, one row per point (column of the class).
    apart:
        Pairs of points that must not both be chosen; shape (0, 0) for none.
    size:
        Wanted number of points.
    """
    n_columns, n_rows = values.shape
    if n_columns < size or n_rows < 2**size:
        return np.zeros(0, dtype=np.int64)
    depth = _counting_depth(values, size)
    n_small = _MANY_CELLS if size - depth < 5 else _FEW_CELLS
    half = -(-n_columns // 2)
    first = np.arange(n_columns)
    for order, n_first in ((first, half), (np.roll(first, -half), n_columns - half)):
        columns = np.ascontiguousarray(values[order])
        pairs = np.ascontiguousarray(apart[np.ix_(order, order)]) if apart.size else apart
        found: IntArray = _search(
            columns, _row_words(columns), pairs, n_first, size, depth, n_small
        )
        if found.size:
            return order[found]
    return np.zeros(0, dtype=np.int64)


def _row_words(values: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Labels of each row as bits: word w of a row holds columns 64 w to 64 w + 63."""
    n_columns, n_rows = values.shape
    n_words = -(-n_columns // 64)
    padded = np.zeros((n_rows, 64 * n_words), dtype=np.uint8)
    padded[:, :n_columns] = values.T
    packed = np.packbits(padded, axis=1, bitorder="little")
    return np.ascontiguousarray(packed.view("<u8").astype(np.uint64))


def _counting_depth(values: NDArray[np.uint8], size: int) -> int:
    """Depth below which most sets have a labeling with too few members, less the pair."""
    rng = np.random.default_rng(_SEED)
    n_columns = values.shape[0]
    for k in range(3, size):
        passed = 0
        for _ in range(60):
            columns = rng.choice(n_columns, size=k, replace=False)
            codes = (1 << np.arange(k)) @ values[columns].astype(np.int64)
            passed += int(np.bincount(codes, minlength=2**k).min() >= 2 ** (size - k))
        if passed < 0.3 * 60:
            return min(max(k - 2, 2), size - 3)
    return size - 3


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _search(values, words, apart, n_first, size, depth, n_small):  # type: ignore[no-untyped-def]  # compiled by numba
    """Depth-first over the first ``depth`` points, pairs and triples of groups below."""
    n_columns, n_rows = values.shape
    base = depth - 2  # rows are sorted by their labels on this many points
    half = (size + 1) // 2  # so many of the set lie among the first columns
    perm = np.zeros((base + 1, n_rows), dtype=np.int64)
    perm[0] = np.arange(n_rows)
    bounds = np.zeros((base + 1, (1 << base) + 1), dtype=np.int64)
    bounds[0, 1] = n_rows
    chosen = np.zeros(size, dtype=np.int64)
    pointer = np.zeros(base + 1, dtype=np.int64)
    empty = np.zeros(0, dtype=np.int64)
    k = 0
    while k >= 0:
        if k == base:
            found = _below(
                values, words, apart, n_first, half, size, depth, n_small,
                perm[k], bounds[k], chosen, pointer[k],
            )  # fmt: skip
            if found.size > 0:
                return found
            k -= 1
            continue
        stop = n_first if k < half else n_columns
        position = pointer[k]
        if position >= stop or n_columns - position < size - k:
            k -= 1
            continue
        pointer[k] += 1
        if not _allowed(apart, chosen, k, position):
            continue
        smallest = _sort_rows(
            values[position], perm[k], bounds[k], 1 << k, perm[k + 1], bounds[k + 1]
        )
        if smallest < (1 << (size - k - 1)):
            continue
        chosen[k] = position
        pointer[k + 1] = position + 1
        k += 1
    return empty


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _allowed(apart, chosen, k, x):  # type: ignore[no-untyped-def]  # compiled by numba
    if apart.size > 0:
        for i in range(k):
            if apart[chosen[i], x]:
                return False
    return True


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _sort_rows(column, perm, bounds, cells, new_perm, new_bounds):  # type: ignore[no-untyped-def]  # compiled by numba
    """Split every cell by the column; return the size of the smallest new cell."""
    smallest = perm.size
    for cell in range(cells):
        low, high = bounds[cell], bounds[cell + 1]
        fill = low
        top = high
        for position in range(low, high):
            row = perm[position]
            if column[row] == 0:
                new_perm[fill] = row
                fill += 1
            else:
                top -= 1
                new_perm[top] = row
        new_bounds[2 * cell] = low
        new_bounds[2 * cell + 1] = fill
        smallest = min(smallest, fill - low, high - fill)
    new_bounds[2 * cells] = perm.size
    return smallest


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _below(  # type: ignore[no-untyped-def]  # compiled by numba
    values, words, apart, n_first, half, size, depth, n_small, perm, bounds, chosen, start
):
    """Two more points below a set of ``depth - 2``, then pairs and triples."""
    n_columns = values.shape[0]
    base = depth - 2
    cells = 1 << base
    largest = (bounds[1 : cells + 1] - bounds[:cells]).max()
    width = (largest + 63) // 64
    bits = np.zeros((cells, width, n_columns), dtype=np.uint64)
    counts = np.zeros((cells, n_columns), dtype=np.int64)
    for cell in range(cells):
        rows = perm[bounds[cell] : bounds[cell + 1]]
        bit_columns(words, rows, rows.size, bits[cell])
        count_ones(bits[cell], counts[cell])
    work = Workspace(
        np.zeros((n_small, width, n_columns), dtype=np.uint64),
        np.zeros((n_small, n_columns), dtype=np.int64),
        np.zeros(n_small, dtype=np.int64),
        np.zeros((n_columns, n_columns), dtype=np.bool_),
        np.zeros(n_columns, dtype=np.bool_),
        np.zeros(largest, dtype=np.int64),
        np.zeros((n_columns, n_columns), dtype=np.int64),
        np.zeros(n_columns, dtype=np.int64),
    )
    ones = np.zeros((n_small, n_columns), dtype=np.int64)
    sizes = np.zeros(2 * cells, dtype=np.int64)
    picked = np.zeros(n_small, dtype=np.int64)
    stop1 = n_first if base < half else n_columns
    stop2 = n_first if base + 1 < half else n_columns
    for x in range(start, min(stop1, n_columns - (size - base) + 1)):
        if not _allowed(apart, chosen, base, x):
            continue
        for cell in range(cells):
            sizes[2 * cell + 1] = counts[cell, x]
            sizes[2 * cell] = bounds[cell + 1] - bounds[cell] - counts[cell, x]
        if sizes.min() < 1 << (size - base - 1):
            continue
        chosen[base] = x
        n_picked = smallest_cells(sizes, picked)
        side_counts(bits, counts, x, picked[:n_picked], ones)
        for y in range(x + 1, min(stop2, n_columns - (size - base - 1) + 1)):
            if not _allowed(apart, chosen, base + 1, y):
                continue
            chosen[base + 1] = y
            found = _triples(
                values, words, perm, bounds, apart, bits, ones, sizes, picked[:n_picked], chosen,
                size, depth, work,
            )  # fmt: skip
            if found.size > 0:
                return found
    return np.zeros(0, dtype=np.int64)


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _triples(  # type: ignore[no-untyped-def]  # compiled by numba
    values, words, perm, bounds, apart, bits, ones, sizes, picked, chosen, size, depth, work
):
    """Refute all triples of further points inside groups, or complete one to a shattered set."""
    empty = np.zeros(0, dtype=np.int64)
    missing = size - depth
    need = 1 << (missing - 1)
    last = chosen[depth - 1]
    alive = restrict(
        words, perm, bounds, bits, ones, sizes, picked, chosen[depth - 2], last, need, work
    )
    if alive < missing:
        return empty
    first, n = last + 1, values.shape[0]
    groups = (missing - 1) // 2
    for group in range(groups):
        low = first + group * (n - first) // groups
        high = first + (group + 1) * (n - first) // groups
        join(work, picked.size, need // 2, low, high)
        for i in range(low, high):
            later = work.later[i, : work.degree[i]]
            for place in range(later.size):
                j = later[place]
                for k in later[place + 1 :]:
                    if work.joined[j, k] and triple(work, picked.size, need // 4, i, j, k):
                        chosen[depth], chosen[depth + 1], chosen[depth + 2] = i, j, k
                        rest = chosen[depth - 2 : depth + 3]
                        if _allowed_all(apart, chosen, depth + 3) and five(
                            bits, bounds, rest, need // 4
                        ):
                            found = _complete(values, apart, chosen, depth + 3, size, first)
                            if found.size > 0:
                                return found
    return empty


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _allowed_all(apart, chosen, k):  # type: ignore[no-untyped-def]  # compiled by numba
    bad = 0
    for i in range(1, k):
        bad += not _allowed(apart, chosen, i, chosen[i])
    return bad == 0


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _complete(values, apart, chosen, k, size, first):  # type: ignore[no-untyped-def]  # compiled by numba
    """Exact search on all rows: extend k chosen points by points from ``first`` on."""
    n_rows = values.shape[1]
    codes = np.zeros((size - k + 1, n_rows), dtype=np.int64)
    for i in range(k):
        column = values[chosen[i]]
        for row in range(n_rows):
            codes[0, row] = 2 * codes[0, row] + column[row]
    empty = np.zeros(0, dtype=np.int64)
    if not _counts_reach(codes[0], k, 1 << (size - k)):
        return empty
    pointer = np.full(size - k + 1, first, dtype=np.int64)
    level = 0
    while level >= 0:
        if k + level == size:
            return chosen.copy()
        if pointer[level] >= values.shape[0]:
            level -= 1
            continue
        x = pointer[level]
        pointer[level] += 1
        if not _allowed(apart, chosen, k + level, x) or (chosen[: k + level] == x).any():
            continue
        column = values[x]
        for row in range(n_rows):
            codes[level + 1, row] = 2 * codes[level, row] + column[row]
        if _counts_reach(codes[level + 1], k + level + 1, 1 << (size - k - level - 1)):
            chosen[k + level] = x
            pointer[level + 1] = pointer[level]
            level += 1
    return empty


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _counts_reach(codes, k, need):  # type: ignore[no-untyped-def]  # compiled by numba
    counts = np.bincount(codes, minlength=1 << k)
    return counts.min() >= need
