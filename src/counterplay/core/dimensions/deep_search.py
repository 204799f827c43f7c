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

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from counterplay.core.dimensions.shatter_search import popcount_word
from counterplay.core.validation import BoolArray, IntArray

# Labelings of the first points on which pairs and triples are tested: few are cheap to prepare,
# many are needed where a triple already is the whole rest of the set.
_FEW_CELLS, _MANY_CELLS = 12, 16
_SEED = 11  # of the random sets that decide at which depth counting starts to bite


class _Workspace(NamedTuple):
    """Arrays that are filled anew for every set of ``depth`` points."""

    inside: Any  # candidates as bit sets of the rows of each small cell
    count: Any  # their numbers of ones
    total: Any  # rows of each small cell
    joined: Any  # pairs of candidates that no small cell refutes
    alive: Any  # candidates that no small cell refutes


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
def _transpose(block):  # type: ignore[no-untyped-def]  # compiled by numba
    """Transpose a 64 x 64 bit matrix in place: bit c of word r becomes bit r of word c."""
    mask = np.uint64(0x00000000FFFFFFFF)
    j = 32
    while j != 0:
        shift = np.uint64(j)
        for start in range(0, 64, 2 * j):
            for r in range(start, start + j):
                swap = ((block[r] >> shift) ^ block[r + j]) & mask
                block[r] ^= swap << shift
                block[r + j] ^= swap
        j >>= 1
        if j:
            mask ^= mask << np.uint64(j)


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _bit_columns(words, rows, n, out):  # type: ignore[no-untyped-def]  # compiled by numba
    """Write the columns as bit sets of the first n of these rows: out[word, column]."""
    block = np.zeros(64, dtype=np.uint64)
    for w in range(out.shape[0]):
        for part in range(words.shape[1]):
            for i in range(64):
                block[i] = words[rows[64 * w + i], part] if 64 * w + i < n else np.uint64(0)
            _transpose(block)
            for c in range(64 * part, min(64 * part + 64, out.shape[1])):
                out[w, c] = block[c - 64 * part]


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
        _bit_columns(words, rows, rows.size, bits[cell])
        _count_ones(bits[cell], counts[cell])
    work = _Workspace(
        np.zeros((n_small, width, n_columns), dtype=np.uint64),
        np.zeros((n_small, n_columns), dtype=np.int64),
        np.zeros(n_small, dtype=np.int64),
        np.zeros((n_columns, n_columns), dtype=np.bool_),
        np.zeros(n_columns, dtype=np.bool_),
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
        n_picked = _smallest_cells(sizes, picked)
        _side_counts(bits, counts, x, picked[:n_picked], ones)
        for y in range(x + 1, min(stop2, n_columns - (size - base - 1) + 1)):
            if not _allowed(apart, chosen, base + 1, y):
                continue
            chosen[base + 1] = y
            found = _triples(
                values, apart, bits, ones, sizes, picked[:n_picked], chosen, size, depth, work
            )
            if found.size > 0:
                return found
    return np.zeros(0, dtype=np.int64)


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _count_ones(bits, out):  # type: ignore[no-untyped-def]  # compiled by numba
    """Number of set bits of every column of bits[word, column]."""
    out[:] = 0
    for w in range(bits.shape[0]):
        for c in range(bits.shape[1]):
            out[c] += popcount_word(bits[w, c])


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _smallest_cells(sizes, picked):  # type: ignore[no-untyped-def]  # compiled by numba
    """The cells with fewest rows, in increasing order (insertion into a short list)."""
    n = 0
    for cell in range(sizes.size):
        size = sizes[cell]
        if n == picked.size and size >= sizes[picked[n - 1]]:
            continue
        if n < picked.size:
            n += 1
        i = n - 1
        while i > 0 and sizes[picked[i - 1]] > size:
            picked[i] = picked[i - 1]
            i -= 1
        picked[i] = cell
    return n


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _side_counts(bits, counts, x, picked, ones):  # type: ignore[no-untyped-def]  # compiled by numba
    """Number of ones of every column in the picked cells of one more point."""
    for p in range(picked.size):
        cell, label = picked[p] >> 1, picked[p] & 1
        row = ones[p]
        row[:] = 0
        for w in range(bits.shape[1]):
            word = bits[cell, w, x]
            for c in range(bits.shape[2]):
                row[c] += popcount_word(bits[cell, w, c] & word)
        if label == 0:
            for c in range(bits.shape[2]):
                row[c] = counts[cell, c] - row[c]


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _triples(  # type: ignore[no-untyped-def]  # compiled by numba
    values, apart, bits, ones, sizes, picked, chosen, size, depth, work
):
    """Refute all triples of further points inside groups, or complete one to a shattered set."""
    empty = np.zeros(0, dtype=np.int64)
    missing = size - depth
    need = 1 << (missing - 1)
    last = chosen[depth - 1]
    if _restrict(bits, ones, sizes, picked, chosen[depth - 2], last, need, work) < missing:
        return empty
    first, n, joined = last + 1, values.shape[0], work.joined
    groups = (missing - 1) // 2
    for group in range(groups):
        low = first + group * (n - first) // groups
        high = first + (group + 1) * (n - first) // groups
        _join(work, picked.size, need // 2, low, high)
        for i in range(low, high):
            for j in range(i + 1, high):
                if not joined[i, j]:
                    continue
                for k in range(j + 1, high):
                    if joined[i, k] and joined[j, k] and _triple(
                        work, picked.size, need // 4, i, j, k
                    ):  # fmt: skip
                        chosen[depth], chosen[depth + 1], chosen[depth + 2] = i, j, k
                        if _allowed_all(apart, chosen, depth + 3):
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
def _restrict(bits, ones, sizes, picked, x, y, need, work):  # type: ignore[no-untyped-def]  # compiled by numba
    """Keep of every picked cell the side of y with fewer rows; which later points survive there?"""
    n_cells, n = picked.size, bits.shape[2]
    order = np.zeros(n_cells, dtype=np.int64)
    fewest = np.zeros(n_cells, dtype=np.int64)
    for p in range(n_cells):
        fewest[p] = min(sizes[picked[p]] - ones[p, y], ones[p, y])
        i = p
        while i > 0 and fewest[order[i - 1]] > fewest[p]:
            order[i] = order[i - 1]
            i -= 1
        order[i] = p
    if fewest[order[0]] < 2 * need:
        return 0
    alive = work.alive
    for c in range(y + 1, n):
        alive[c] = True
    for i in range(n_cells):
        p = order[i]
        cell, total = picked[p] >> 1, fewest[p]
        flip_x = np.uint64(0) if picked[p] & 1 else ~np.uint64(0)
        flip_y = np.uint64(0) if 2 * ones[p, y] <= sizes[picked[p]] else ~np.uint64(0)
        work.total[i] = total
        inside, count = work.inside[i], work.count[i]
        for c in range(y + 1, n):
            count[c] = 0
        for w in range(bits.shape[1]):
            mask = (bits[cell, w, x] ^ flip_x) & (bits[cell, w, y] ^ flip_y)
            for c in range(y + 1, n):
                inside[w, c] = bits[cell, w, c] & mask
                count[c] += popcount_word(inside[w, c])
        for c in range(y + 1, n):
            alive[c] &= (count[c] >= need) & (total - count[c] >= need)
    n_alive = 0
    for c in range(y + 1, n):
        n_alive += alive[c]
    return n_alive


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _join(work, n_cells, need, low, high):  # type: ignore[no-untyped-def]  # compiled by numba
    """Which pairs of a group have enough rows with each of the four labelings in every cell."""
    inside, count, total, alive = work.inside, work.count, work.total, work.alive
    for i in range(low, high):
        for j in range(i + 1, high):
            good = alive[i] & alive[j]
            p = 0
            while good and p < n_cells:
                both = np.int64(0)
                for w in range(inside.shape[1]):
                    both += popcount_word(inside[p, w, i] & inside[p, w, j])
                a, b = count[p, i], count[p, j]
                good = min(min(both, total[p] - a - b + both), min(a, b) - both) >= need
                p += 1
            work.joined[i, j] = good


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _triple(work, n_cells, need, i, j, k):  # type: ignore[no-untyped-def]  # compiled by numba
    """Whether every cell has enough rows with each of the eight labelings of three points."""
    inside, total, count = work.inside, work.total, work.count
    for p in range(n_cells):
        ab = ac = bc = abc = np.int64(0)
        for w in range(inside.shape[1]):
            both = inside[p, w, i] & inside[p, w, j]
            ab += popcount_word(both)
            abc += popcount_word(both & inside[p, w, k])
            ac += popcount_word(inside[p, w, i] & inside[p, w, k])
            bc += popcount_word(inside[p, w, j] & inside[p, w, k])
        a, b, c = count[p, i], count[p, j], count[p, k]
        none = total[p] - a - b - c + ab + ac + bc - abc
        pairs = min(ab, ac, bc) - abc
        singles = min(a - ab - ac, b - ab - bc, c - ac - bc) + abc
        if min(abc, pairs, singles, none) < need:
            return False
    return True


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
