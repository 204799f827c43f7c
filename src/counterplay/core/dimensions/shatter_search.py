"""Compiled depth-first searches for a largest shattered set of columns.

Both follow the same plan (see :mod:`counterplay.core.dimensions.vc`). One keeps each group of rows
as a bit set, which is fastest for few large groups; the other keeps sorted lists of rows, which
stays small for many groups. The result is (chosen columns, witness rows, finished).
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def popcount_word(word):  # type: ignore[no-untyped-def]  # compiled by numba
    """Number of set bits of one 64-bit word."""
    # Sums of 2, then 4, then 8 neighbouring bits; the product adds the eight bytes at the top.
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + (
        (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True)
def _splits_bitsets(one, zero, cells, order):  # type: ignore[no-untyped-def]  # compiled by numba
    """Whether a column has both labels in every cell; small cells first, they refute soonest."""
    for cell in order:
        seen1 = np.uint64(0)
        seen0 = np.uint64(0)
        for w in range(one.size):
            word = cells[cell, w]
            seen1 |= word & one[w]
            seen0 |= word & zero[w]
            if seen1 != 0 and seen0 != 0:
                break
        if seen1 == 0 or seen0 == 0:
            return False
    return True


@njit(cache=True)
def _first_row(words):  # type: ignore[no-untyped-def]  # compiled by numba
    """The lowest row of a bit set."""
    for w in range(words.size):
        for bit in range(64):
            if words[w] >> np.uint64(bit) & np.uint64(1):
                return 64 * w + bit
    return -1


@njit(cache=True)
def search_bitsets(ones, zeros, apart, limit, budget):  # type: ignore[no-untyped-def]  # compiled by numba
    """Search with groups of rows as bit sets; ``ones`` and ``zeros`` are packed columns."""
    n_columns, width = ones.shape
    cells = np.zeros((1 << (limit + 1), width), dtype=np.uint64)  # level k starts at 2^k
    cells[1] = ~np.uint64(0)
    cand = np.zeros((limit + 1, n_columns), dtype=np.int64)
    cand[0] = np.arange(n_columns)
    count = np.zeros(limit + 1, dtype=np.int64)
    count[0] = n_columns
    pointer = np.zeros(limit + 1, dtype=np.int64)
    chosen = np.zeros(limit, dtype=np.int64)
    sizes = np.zeros(1 << limit, dtype=np.int64)
    best = np.zeros(0, dtype=np.int64)
    witnesses = np.zeros(1, dtype=np.int64)
    steps = 0
    k = 0
    while k >= 0 and best.size < limit:
        # Even all candidates that are left would not beat the best set: go back.
        if k + count[k] - pointer[k] <= best.size:
            k -= 1
            continue
        if budget > 0 and steps >= budget:
            return best, witnesses, False
        steps += 1
        x = cand[k, pointer[k]]
        pointer[k] += 1
        chosen[k] = x
        # Split every cell by the label of x: cell c becomes the cells 2 c and 2 c + 1.
        n_new = 2 << k
        new = cells[n_new : 2 * n_new]
        for cell in range(1 << k):
            parent = cells[(1 << k) + cell]
            for w in range(width):
                new[2 * cell, w] = parent[w] & zeros[x, w]
                new[2 * cell + 1, w] = parent[w] & ones[x, w]
        if k + 1 > best.size:
            best = chosen[: k + 1].copy()
            witnesses = np.array([_first_row(new[c]) for c in range(n_new)])
        for cell in range(n_new):
            sizes[cell] = 0
            for w in range(width):
                sizes[cell] += popcount_word(new[cell, w])
        if sizes[:n_new].min() < (1 << (best.size - k)):
            continue  # too few rows in a group to shatter more than the best set
        order = np.argsort(sizes[:n_new])
        found = 0
        # Only later candidates that split every cell can extend this set or any set below it.
        for index in range(pointer[k], count[k]):
            if k + 1 + found + count[k] - index <= best.size:
                found = 0
                break
            y = cand[k, index]
            if apart.size > 0 and apart[x, y]:
                continue
            if _splits_bitsets(ones[y], zeros[y], new, order):
                cand[k + 1, found] = y
                found += 1
        count[k + 1] = found
        pointer[k + 1] = 0
        k += 1
    return best, witnesses, True


@njit(cache=True)
def _splits_lists(column, perm, bounds, order):  # type: ignore[no-untyped-def]  # compiled by numba
    """As ``_splits_bitsets``, with the rows of cell c in perm[bounds[c] : bounds[c + 1]]."""
    for cell in order:
        seen0 = False
        seen1 = False
        for position in range(bounds[cell], bounds[cell + 1]):
            label = column[perm[position]]
            if label == 0:
                seen0 = True
            elif label == 1:
                seen1 = True
            if seen0 and seen1:
                break
        if not (seen0 and seen1):
            return False
    return True


@njit(cache=True)
def _partition(column, perm, bounds, cells, new_perm, new_bounds):  # type: ignore[no-untyped-def]  # compiled by numba
    """Split every cell by the column; return the size of the smallest new cell."""
    fill = 0
    smallest = perm.size
    for cell in range(cells):
        for label in range(2):
            start = fill
            new_bounds[2 * cell + label] = start
            for position in range(bounds[cell], bounds[cell + 1]):
                if column[perm[position]] == label:
                    new_perm[fill] = perm[position]
                    fill += 1
            smallest = min(smallest, fill - start)
    new_bounds[2 * cells] = fill
    return smallest


@njit(cache=True)
def search_lists(values, apart, limit, budget):  # type: ignore[no-untyped-def]  # compiled by numba
    """Search with sorted lists of rows; ``values`` are columns with entries 0, 1, 2."""
    n_columns, n_rows = values.shape
    perm = np.zeros((limit + 1, n_rows), dtype=np.int64)
    perm[0] = np.arange(n_rows)
    bounds = np.zeros((limit + 1, (1 << limit) + 1), dtype=np.int64)
    bounds[0, 1] = n_rows
    cand = np.zeros((limit + 1, n_columns), dtype=np.int64)
    cand[0] = np.arange(n_columns)
    count = np.zeros(limit + 1, dtype=np.int64)
    count[0] = n_columns
    pointer = np.zeros(limit + 1, dtype=np.int64)
    chosen = np.zeros(limit, dtype=np.int64)
    best = np.zeros(0, dtype=np.int64)
    witnesses = np.zeros(1, dtype=np.int64)
    steps = 0
    k = 0
    while k >= 0 and best.size < limit:
        # Even all candidates that are left would not beat the best set: go back.
        if k + count[k] - pointer[k] <= best.size:
            k -= 1
            continue
        if budget > 0 and steps >= budget:
            return best, witnesses, False
        steps += 1
        x = cand[k, pointer[k]]
        pointer[k] += 1
        chosen[k] = x
        cells = 1 << k
        # Split every cell by the label of x; rows without a label (2) leave.
        smallest = _partition(values[x], perm[k], bounds[k], cells, perm[k + 1], bounds[k + 1])
        if k + 1 > best.size:
            best = chosen[: k + 1].copy()
            witnesses = np.array([perm[k + 1, bounds[k + 1, c]] for c in range(2 * cells)])
        if smallest < (1 << (best.size - k)):
            continue  # too few rows in a cell to shatter more than the best set
        sizes = np.diff(bounds[k + 1, : 2 * cells + 1])
        order = np.argsort(sizes)
        found = 0
        # Only later candidates that split every cell can extend this set or any set below it.
        for index in range(pointer[k], count[k]):
            if k + 1 + found + count[k] - index <= best.size:
                found = 0
                break
            y = cand[k, index]
            if apart.size > 0 and apart[x, y]:
                continue
            if _splits_lists(values[y], perm[k + 1], bounds[k + 1], order):
                cand[k + 1, found] = y
                found += 1
        count[k + 1] = found
        pointer[k + 1] = 0
        k += 1
    return best, witnesses, True
