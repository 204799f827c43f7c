"""Compiled depth-first searches for a largest set of columns that is shattered, or is a star.

Chosen columns sort the rows into cells, and every cell needs a row. A set is shattered when every
labelling has a row: 2^k cells, and a new column splits all of them. It is a star (around the row
of zeros) when every labelling with at most one 1 has a row: k + 1 cells, and a new column splits
the first one only, while the others keep their zeros.

One search keeps each cell as a bit set, which is fastest for few large cells; the other keeps
sorted lists of rows, which stays small for many cells. Only sets of more than ``beat`` columns
count; a ``budget`` of 0 is none. The result is (chosen columns, one row per cell, steps, finished),
with no columns if nothing beats ``beat``. Callers pass C-contiguous columns of one length.
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
def _fits_bitsets(one, zero, cells, order, star):  # type: ignore[no-untyped-def]  # compiled by numba
    """Whether a column leaves no cell empty; small cells first, they refute soonest."""
    for cell in order:
        seen0 = np.uint64(0)
        # Cells of a star that are not the first one lose their ones: they only need a zero.
        seen1 = np.uint64(star and cell > 0)
        for w in range(one.size):
            seen0 |= cells[cell, w] & zero[w]
            seen1 |= cells[cell, w] & one[w]
            if seen0 != 0 and seen1 != 0:
                break
        if seen0 == 0 or seen1 == 0:
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
def _too_few(sizes, more, star):  # type: ignore[no-untyped-def]  # compiled by numba
    """Whether some cell has too few rows for this many more columns."""
    # A star needs in its first cell one row per column and the center; else all halves need rows.
    return sizes[0] <= more if star else sizes.min() < 1 << more


@njit(cache=True)
def search_bitsets(ones, zeros, apart, limit, budget, star=False, beat=0):  # type: ignore[no-untyped-def]  # compiled by numba
    """Search with cells as bit sets; ``ones`` and ``zeros`` are packed columns."""
    n_columns, width = ones.shape
    # The cells of level k start at 2^k, those of a star at k (k + 1) / 2.
    cells = np.empty(((limit + 1) * (limit + 2) // 2 if star else 2 << limit, width), np.uint64)
    cells[0 if star else 1] = ~np.uint64(0)
    cand = np.empty((limit + 1, n_columns), dtype=np.int64)
    cand[0] = np.arange(n_columns)
    count = np.zeros(limit + 1, dtype=np.int64)
    count[0] = n_columns
    pointer = np.zeros(limit + 1, dtype=np.int64)
    chosen = np.zeros(limit, dtype=np.int64)
    sizes = np.zeros(1 if star else 1 << limit, dtype=np.int64)
    natural = np.arange(limit + 1)
    best = np.zeros(0, dtype=np.int64)
    witnesses = np.zeros(1, dtype=np.int64)
    steps = 0
    k = 0
    while k >= 0 and beat < limit:
        # Even all candidates that are left would not beat the best set: go back.
        if k + count[k] - pointer[k] <= beat:
            k -= 1
            continue
        if budget > 0 and steps >= budget:
            return best, witnesses, steps, False
        steps += 1
        x = cand[k, pointer[k]]
        pointer[k] += 1
        chosen[k] = x
        if star:
            # Every cell keeps its zeros; the ones of the first cell are the new cell.
            n_new = k + 2
            old = cells[k * (k + 1) // 2 :]
            new = cells[(k + 1) * (k + 2) // 2 : (k + 2) * (k + 3) // 2]
            for w in range(width):
                for cell in range(k + 1):
                    new[cell, w] = old[cell, w] & zeros[x, w]
                new[k + 1, w] = old[0, w] & ones[x, w]
        else:
            # Split every cell by the label of x: cell c becomes the cells 2 c and 2 c + 1.
            n_new = 2 << k
            new = cells[n_new : 2 * n_new]
            for cell in range(1 << k):
                parent = cells[(1 << k) + cell]
                for w in range(width):
                    new[2 * cell, w] = parent[w] & zeros[x, w]
                    new[2 * cell + 1, w] = parent[w] & ones[x, w]
        if k + 1 > beat:
            best, beat = chosen[: k + 1].copy(), k + 1
            witnesses = np.array([_first_row(new[c]) for c in range(n_new)])
        # A star is short of rows in its first cell, if anywhere, and that cell refutes soonest.
        counted = 1 if star else n_new
        for cell in range(counted):
            sizes[cell] = 0
            for w in range(width):
                sizes[cell] += popcount_word(new[cell, w])
        if _too_few(sizes[:counted], beat - k, star):
            continue
        order = natural[:n_new] if star else np.argsort(sizes[:n_new])
        found = 0
        # Only later candidates that leave no cell empty can extend this set or any set below it.
        for index in range(pointer[k], count[k]):
            if k + 1 + found + count[k] - index <= beat:
                found = 0
                break
            y = cand[k, index]
            if apart.size > 0 and apart[x, y]:
                continue
            if _fits_bitsets(ones[y], zeros[y], new, order, star):
                cand[k + 1, found] = y
                found += 1
        count[k + 1] = found
        pointer[k + 1] = 0
        k += 1
    return best, witnesses, steps, True


@njit(cache=True)
def _fits_lists(column, perm, bounds, order, star):  # type: ignore[no-untyped-def]  # compiled by numba
    """As ``_fits_bitsets``, with the rows of cell c in perm[bounds[c] : bounds[c + 1]]."""
    for cell in order:
        seen0 = False
        seen1 = star and cell > 0  # such a cell needs no row with a one
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
def _copy_label(column, label, rows, out, fill):  # type: ignore[no-untyped-def]  # compiled by numba
    """Append the rows with this label to ``out``; return the new fill."""
    for row in rows:
        if column[row] == label:
            out[fill] = row
            fill += 1
    return fill


@njit(cache=True)
def _partition(column, perm, bounds, cells, new_perm, new_bounds, star):  # type: ignore[no-untyped-def]  # compiled by numba
    """Sort the rows of all cells into the new cells; return how many there are."""
    new, fill = 0, 0
    for cell in range(cells):
        rows = perm[bounds[cell] : bounds[cell + 1]]
        for label in range(1 if star else 2):
            fill = _copy_label(column, label, rows, new_perm, fill)
            new += 1
            new_bounds[new] = fill
    if star:  # the ones of the first cell come last
        fill = _copy_label(column, 1, perm[: bounds[1]], new_perm, fill)
        new += 1
        new_bounds[new] = fill
    return new


@njit(cache=True)
def search_lists(values, apart, limit, budget, star=False, beat=0):  # type: ignore[no-untyped-def]  # compiled by numba
    """Search with sorted lists of rows; ``values`` are columns with entries 0, 1, 2."""
    n_columns, n_rows = values.shape
    perm = np.empty((limit + 1, n_rows), dtype=np.int32)
    perm[0] = np.arange(n_rows)
    bounds = np.empty((limit + 1, limit + 2 if star else (1 << limit) + 1), dtype=np.int32)
    bounds[:, 0] = 0
    bounds[0, 1] = n_rows
    cand = np.empty((limit + 1, n_columns), dtype=np.int64)
    cand[0] = np.arange(n_columns)
    count = np.zeros(limit + 1, dtype=np.int64)
    count[0] = n_columns
    pointer = np.zeros(limit + 1, dtype=np.int64)
    chosen = np.zeros(limit, dtype=np.int64)
    natural = np.arange(limit + 1)
    best = np.zeros(0, dtype=np.int64)
    witnesses = np.zeros(1, dtype=np.int64)
    steps = 0
    k = 0
    while k >= 0 and beat < limit:
        # Even all candidates that are left would not beat the best set: go back.
        if k + count[k] - pointer[k] <= beat:
            k -= 1
            continue
        if budget > 0 and steps >= budget:
            return best, witnesses, steps, False
        steps += 1
        x = cand[k, pointer[k]]
        pointer[k] += 1
        chosen[k] = x
        # Sort the rows by the label of x; rows without a label (2) leave.
        rows, starts = perm[k + 1], bounds[k + 1]
        n_old = k + 1 if star else 1 << k
        n_new = _partition(values[x], perm[k], bounds[k], n_old, rows, starts, star)
        if k + 1 > beat:
            best, beat = chosen[: k + 1].copy(), k + 1
            witnesses = np.array([np.int64(rows[starts[c]]) for c in range(n_new)])
        sizes = np.diff(starts[: n_new + 1])
        if _too_few(sizes, beat - k, star):
            continue
        order = natural[:n_new] if star else np.argsort(sizes)
        found = 0
        # Only later candidates that leave no cell empty can extend this set or any set below it.
        for index in range(pointer[k], count[k]):
            if k + 1 + found + count[k] - index <= beat:
                found = 0
                break
            y = cand[k, index]
            if apart.size > 0 and apart[x, y]:
                continue
            if _fits_lists(values[y], rows, starts, order, star):
                cand[k + 1, found] = y
                found += 1
        count[k + 1] = found
        pointer[k + 1] = 0
        k += 1
    return best, witnesses, steps, True
