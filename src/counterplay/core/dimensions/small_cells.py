"""Bit sets of the rows of small cells: how :mod:`.deep_search` refutes sets of points.

A cell holds the rows with one labeling of the chosen points. The few cells with fewest rows refute
most further points; their rows are packed into as few words as possible.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from counterplay.core.dimensions.shatter_search import popcount_word

N_SMALL = 14  # cells of the first points on which the further points are tested
_N_TIGHT = 16  # halves of these cells that are used
_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)  # unsigned indices need no sign check


class Workspace(NamedTuple):
    """The tightest halves of the small cells, filled anew for every next point.

    The last axis is the half, so that all of them are counted in one vectorised loop.
    """

    half: Any  # rows of both halves of every cell: [2 cell + label, word]
    half_size: Any
    tight: Any  # the halves with fewest rows
    rows: Any  # their rows: [word, half]
    size: Any  # their numbers of rows
    near: Any  # the columns inside them: [word, column, half]
    count: Any  # their numbers of ones: [column, half]
    side: Any  # the smaller side of one more point: [word, half]
    side_size: Any
    room: Any  # by how much a count may exceed what is needed
    ones: Any  # counts of one column
    kept: Any  # columns that no side refutes


@njit(cache=True, nogil=True)
def workspace(n_cells, width, n_columns):  # type: ignore[no-untyped-def]  # compiled by numba
    """Room for the parts of so many cells."""
    n = min(_N_TIGHT, 2 * n_cells)
    return Workspace(
        np.zeros((2 * n_cells, width), dtype=np.uint64),
        np.zeros(2 * n_cells, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        np.zeros((width, n), dtype=np.uint64),
        np.zeros(n, dtype=np.uint64),
        np.zeros((width, n_columns, n), dtype=np.uint64),
        np.zeros((n_columns, n), dtype=np.uint64),
        np.zeros((width, n), dtype=np.uint64),
        np.zeros(n, dtype=np.uint64),
        np.zeros(n, dtype=np.uint64),
        np.zeros(n, dtype=np.uint64),
        np.zeros(n_columns, dtype=np.int64),
    )


@njit(cache=True, nogil=True)
def _transpose(block):  # type: ignore[no-untyped-def]  # compiled by numba
    """Transpose a 64 x 64 bit matrix in place: bit c of word r becomes bit r of word c."""
    mask = np.uint64(0x00000000FFFFFFFF)
    j = 32
    while j != 0:
        shift = np.uint64(j)
        # Swap the off-diagonal j x j blocks, then go on inside the blocks with half the size.
        for start in range(0, 64, 2 * j):
            for r in range(start, start + j):
                swap = ((block[r] >> shift) ^ block[r + j]) & mask
                block[r] ^= swap << shift
                block[r + j] ^= swap
        j >>= 1
        if j:
            mask ^= mask << np.uint64(j)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def count_ones(bits, out):  # type: ignore[no-untyped-def]  # compiled by numba
    """Number of set bits of every column of bits[word, column]."""
    out[:] = 0
    for w in range(bits.shape[0]):
        for c in range(bits.shape[1]):
            out[c] += popcount_word(bits[w, c])


@njit(cache=True, nogil=True)
def smallest_cells(sizes, picked):  # type: ignore[no-untyped-def]  # compiled by numba
    """Write the cells with fewest rows, in increasing order (insertion into a short list)."""
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


@njit(cache=True, nogil=True)
def gather(words, perm, bounds, bits, picked, x, sizes, inside, total):  # type: ignore[no-untyped-def]  # compiled by numba
    """Pack the rows of the picked cells, cell 2 i + b of cell i where x is b; return the width."""
    rows = np.zeros(64 * bits.shape[1], dtype=np.int64)
    width = (sizes[picked].max() + 63) // 64
    for p in range(picked.size):
        cell = picked[p] >> 1
        flip = np.uint64(0) if picked[p] & 1 else ~np.uint64(0)
        _members(bits[cell, :, x], flip, perm[bounds[cell] : bounds[cell + 1]], rows)
        total[p] = sizes[picked[p]]
        bit_columns(words, rows, total[p], inside[p, :width])
    return width


@njit(cache=True, nogil=True)
def _members(word, flip, members, out):  # type: ignore[no-untyped-def]  # compiled by numba
    """Write the rows of a cell that have the wanted label."""
    n = 0
    for start in range(0, members.size, 64):
        mask = word[start >> 6] ^ flip
        if members.size - start < 64:
            mask &= (np.uint64(1) << np.uint64(members.size - start)) - np.uint64(1)
        while mask != 0:
            rest = mask & (mask - np.uint64(1))  # without the lowest one
            out[n] = members[start + popcount_word((mask ^ rest) - np.uint64(1))]
            n += 1
            mask = rest


@njit(cache=True, nogil=True)
def halve(inside, total, y, end, need, work):  # type: ignore[no-untyped-def]  # compiled by numba
    """Split the cells by the label of y; False where a half has too few rows.

    The columns after y and before ``end`` are copied into the tightest halves.
    """
    half, half_size = work.half, work.half_size
    # Rows of cell p with label 0 and 1 of y; both halves must still have room for all labelings.
    for p in range(total.size):
        ones = np.int64(0)
        for w in range(half.shape[1]):
            left = total[p] - 64 * w
            whole = ~np.uint64(0)
            if left < 64:
                whole = (np.uint64(1) << np.uint64(max(left, 0))) - np.uint64(1)
            half[2 * p, w] = whole ^ inside[p, w, y]
            half[2 * p + 1, w] = inside[p, w, y]
            ones += popcount_word(inside[p, w, y])
        half_size[2 * p], half_size[2 * p + 1] = total[p] - ones, ones
        if ones < need or total[p] - ones < need:
            return False
    # Only the tightest halves are kept: they refute most of the columns that come later.
    smallest_cells(half_size, work.tight)
    work.count[y + 1 : end] = 0
    for q in range(work.tight.size):
        h = work.tight[q]
        work.size[q] = half_size[h]
        for w in range(half.shape[1]):
            work.rows[w, q] = half[h, w]
            for c in range(y + 1, end):
                both = half[h, w] & inside[h >> 1, w, c]
                work.near[w, c, q] = both
                work.count[c, q] += popcount_word(both)
    return True


@njit(cache=True, nogil=True)
def smaller_sides(work, z, need):  # type: ignore[no-untyped-def]  # compiled by numba
    """Of each half the side of z with fewer rows; False where there are too few."""
    n, z, few = np.uint64(work.size.size), np.uint64(z), np.uint64(need)
    bad = _ZERO
    for q in range(n):
        least = min(work.count[z, q], work.size[q] - work.count[z, q])
        work.side_size[q] = least
        work.room[q] = least - few  # a side needs half of that for each label of the next point
        bad |= np.uint64(least < few)
    if bad:
        return False
    # The side with the fewer rows: the ones of z, or what is left of the half without them.
    for w in range(np.uint64(work.side.shape[0])):
        for q in range(n):
            flip = _ZERO - np.uint64(work.count[z, q] > work.side_size[q])
            work.side[w, q] = work.near[w, z, q] ^ (work.rows[w, q] & flip)
    return True


@njit(cache=True, nogil=True)
def splitting(work, low, high, need):  # type: ignore[no-untyped-def]  # compiled by numba
    """List the columns that have both labels often enough in every side; return their number.

    A count c passes where need <= c <= size - need, that is c - need <= room in unsigned numbers.
    """
    side, near, room, ones = work.side, work.near, work.room, work.ones
    n, width, few = np.uint64(room.size), np.uint64(side.shape[0]), np.uint64(need)
    m = 0
    for c in range(np.uint64(low), np.uint64(high)):
        bad = _ZERO
        if width == _TWO:
            for q in range(n):
                count = popcount_word(side[_ZERO, q] & near[_ZERO, c, q])
                count += popcount_word(side[_ONE, q] & near[_ONE, c, q])
                bad |= np.uint64(np.uint64(count) - few > room[q])
        else:
            ones[:] = _ZERO
            for w in range(width):
                for q in range(n):
                    ones[q] += np.uint64(popcount_word(side[w, q] & near[w, c, q]))
            for q in range(n):
                bad |= np.uint64(ones[q] - few > room[q])
        work.kept[m] = np.int64(c)
        m += bad == _ZERO
    return m


@njit(cache=True, nogil=True)
def splitting_together(work, u, v, need):  # type: ignore[no-untyped-def]  # compiled by numba
    """Whether all four labelings of u and v have enough rows in every side."""
    side, near, width = work.side, work.near, np.uint64(work.side.shape[0])
    u, v = np.uint64(u), np.uint64(v)
    for q in range(np.uint64(work.size.size)):
        with_u, with_v = side[_ZERO, q] & near[_ZERO, u, q], side[_ZERO, q] & near[_ZERO, v, q]
        both = popcount_word(with_u & with_v)
        ones_u, ones_v = popcount_word(with_u), popcount_word(with_v)
        if width > _ONE:  # the usual case of two words without a loop
            with_u, with_v = side[_ONE, q] & near[_ONE, u, q], side[_ONE, q] & near[_ONE, v, q]
            both += popcount_word(with_u & with_v)
            ones_u += popcount_word(with_u)
            ones_v += popcount_word(with_v)
            for w in range(_TWO, width):
                with_u, with_v = side[w, q] & near[w, u, q], side[w, q] & near[w, v, q]
                both += popcount_word(with_u & with_v)
                ones_u += popcount_word(with_u)
                ones_v += popcount_word(with_v)
        # By inclusion and exclusion the four cells follow from three counts.
        neither = np.int64(work.side_size[q]) - ones_u - ones_v + both
        if both < need or ones_u - both < need or ones_v - both < need or neither < need:
            return False
    return True


@njit(cache=True, nogil=True)
def enough_everywhere(bits, bounds, points, need):  # type: ignore[no-untyped-def]  # compiled by numba
    """Whether every sorted cell, not only small ones, has enough rows with each labeling."""
    for cell in range(bits.shape[0]):
        n = bounds[cell + 1] - bounds[cell]
        for labels in range(1 << points.size):
            total = 0
            for w in range((n + 63) >> 6):
                word = ~np.uint64(0)
                if n - 64 * w < 64:
                    word = (np.uint64(1) << np.uint64(n - 64 * w)) - np.uint64(1)
                # Rows of this cell that give exactly these labels to the points.
                for t in range(points.size):
                    column = bits[cell, w, points[t]]
                    word &= column if (labels >> t) & 1 else ~column
                total += popcount_word(word)
            if total < need:
                return False
    return True
