"""Bit sets of the rows of small cells: how :mod:`.deep_search` refutes pairs and triples.

A cell holds the rows with one labeling of the chosen points. The few cells with fewest rows refute
most pairs of further points; their rows are packed into as few words as possible.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from counterplay.core.dimensions.shatter_search import popcount_word


class Workspace(NamedTuple):
    """Arrays that are filled anew for every set of ``depth`` points."""

    inside: Any  # candidates as bit sets of the rows of each small cell
    count: Any  # their numbers of ones
    total: Any  # rows of each small cell
    joined: Any  # pairs of candidates that no small cell refutes
    alive: Any  # candidates that no small cell refutes
    rows: Any  # the rows of one small cell
    later: Any  # of every candidate: the later ones it is joined with
    degree: Any  # their number


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
def bit_columns(words, rows, n, out):  # type: ignore[no-untyped-def]  # compiled by numba
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
def count_ones(bits, out):  # type: ignore[no-untyped-def]  # compiled by numba
    """Number of set bits of every column of bits[word, column]."""
    out[:] = 0
    for w in range(bits.shape[0]):
        for c in range(bits.shape[1]):
            out[c] += popcount_word(bits[w, c])


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def smallest_cells(sizes, picked):  # type: ignore[no-untyped-def]  # compiled by numba
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
def side_counts(bits, counts, x, picked, ones):  # type: ignore[no-untyped-def]  # compiled by numba
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
def restrict(words, perm, bounds, bits, ones, sizes, picked, x, y, need, work):  # type: ignore[no-untyped-def]  # compiled by numba
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
        members = perm[bounds[cell] : bounds[cell + 1]]
        _members(bits[cell, :, x], flip_x, bits[cell, :, y], flip_y, members, work.rows)
        work.total[i] = total
        inside, count = work.inside[i, : (total + 63) >> 6], work.count[i]
        bit_columns(words, work.rows, total, inside)
        count_ones(inside, count)
        for c in range(y + 1, n):
            alive[c] &= (count[c] >= need) & (total - count[c] >= need)
    n_alive = 0
    for c in range(y + 1, n):
        n_alive += alive[c]
    return n_alive


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _members(word_x, flip_x, word_y, flip_y, members, out):  # type: ignore[no-untyped-def]  # compiled by numba
    """Write the rows of a cell that have both wanted labels."""
    n = 0
    for start in range(0, members.size, 64):
        w = start >> 6
        mask = (word_x[w] ^ flip_x) & (word_y[w] ^ flip_y)
        if members.size - start < 64:
            mask &= (np.uint64(1) << np.uint64(members.size - start)) - np.uint64(1)
        while mask != 0:
            rest = mask & (mask - np.uint64(1))  # without the lowest one
            out[n] = members[start + popcount_word((mask ^ rest) - np.uint64(1))]
            n += 1
            mask = rest
    return n


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def join(work, n_cells, need, low, high):  # type: ignore[no-untyped-def]  # compiled by numba
    """Which pairs of a group have enough rows with each of the four labelings in every cell."""
    for i in range(low, high):
        work.joined[i, low:high] = False
        work.degree[i] = 0
        if work.alive[i]:
            later = work.later[i]
            n = 0
            for j in range(i + 1, high):
                later[n] = j
                n += work.alive[j]
            for p in range(n_cells):
                n = _keep_pairs(work.inside[p], work.count[p], work.total[p], need, i, later[:n])
            work.degree[i] = n
            for place in range(n):
                work.joined[i, later[place]] = True


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def _keep_pairs(inside, count, total, need, i, later):  # type: ignore[no-untyped-def]  # compiled by numba
    """Move those that one cell does not refute with i to the front; return their number."""
    n_words = (total + 63) >> 6
    mine, none = count[i], total - count[i]
    kept = 0
    for place in range(later.size):  # no branches: a quarter of the pairs fails in every cell
        j = later[place]
        both = popcount_word(inside[0, i] & inside[0, j])
        for w in range(1, n_words):
            both += popcount_word(inside[w, i] & inside[w, j])
        later[kept] = j
        few = min(min(both, mine - both), min(count[j] - both, none - count[j] + both))
        kept += few >= need
    return kept


@njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]  # numba has no types
def triple(work, n_cells, need, i, j, k):  # type: ignore[no-untyped-def]  # compiled by numba
    """Whether every cell has enough rows with each of the eight labelings of three points."""
    inside, total, count = work.inside, work.total, work.count
    for p in range(n_cells):
        ab = ac = bc = abc = np.int64(0)
        for w in range((total[p] + 63) >> 6):
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
def five(bits, bounds, points, need):  # type: ignore[no-untyped-def]  # compiled by numba
    """Whether every cell, not only small ones, has enough rows with each of 32 labelings."""
    for cell in range(bits.shape[0]):
        n = bounds[cell + 1] - bounds[cell]
        for labels in range(32):
            total = 0
            for w in range((n + 63) >> 6):
                word = ~np.uint64(0)
                if n - 64 * w < 64:
                    word = (np.uint64(1) << np.uint64(n - 64 * w)) - np.uint64(1)
                for t in range(5):
                    column = bits[cell, w, points[t]]
                    word &= column if (labels >> t) & 1 else ~column
                total += popcount_word(word)
            if total < need:
                return False
    return True
