"""Is there a shattered set of a given size? A search that counts rows instead of only seeing them.

The depth-first search of :mod:`counterplay.core.dimensions.shatter_search` has to visit every
shattered set, and a class of random labels has billions. Two facts make the exhaustive proof short.

Counting: every labeling of k points of a shattered set of size t is given by at least 2^(t-k)
members. The few labelings with fewest members refute most sets long before a labeling is missing.

Order: lay the points on a circle. The t gaps between neighbours of the set add up to the whole
circle, so going around from one of its points (where the sum of the gaps, less their mean, is
largest) the m-th next point comes within m/t of the circle, for every m. The set is therefore found
from one of its points while every next one is looked for in a short stretch only. Points that
exclude each other share one place on the circle. Where sets of the size exist, a search without
this restriction finds one sooner, so a part of the time is spent on that first, unless random sets
miss far too many labelings.

Members must be defined everywhere (no 2).
Source: Proposition 11.J, see docs/theory/11-invariance.md; the order is the cycle lemma of
Dvoretzky and Motzkin (1947).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
from numba import njit
from numpy.typing import NDArray

from counterplay.core.dimensions.small_cells import (
    N_SMALL,
    bit_columns,
    count_ones,
    enough_everywhere,
    gather,
    halve,
    smaller_sides,
    smallest_cells,
    splitting,
    splitting_together,
    workspace,
)
from counterplay.core.threads import in_threads
from counterplay.core.validation import BoolArray, IntArray

_LAST = 5  # so many points are tested on small cells, after those by which all rows are sorted
_FREE_STEPS = 100_000_000  # columns tested without the order, which is better at finding a set
_TRIES = 8  # places from where that is done
_HOPELESS = 100.0  # labelings that random sets miss on average; then no set is expected
_SEED = 11  # of the random sets that show at which depth counting starts to bite


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
    places = _places(apart, n_columns)
    if len(places) < size or n_rows < 2**size:
        return np.zeros(0, dtype=np.int64)
    search = partial(_from_place, values, apart, places, size, _counting_depth(values, size))
    if _mean_missing(values, size) < _HOPELESS:
        found = _freely(search, len(places), size)
        if found is not None:
            return found
    reach = np.arange(size) * len(places) // size
    return _first_found(lambda first, start: search(reach, first, _endless(), start), len(places))


def _freely(search: Callable[..., IntArray], n_places: int, size: int) -> IntArray | None:
    """Search without the order from several places; None if all steps were used in vain."""
    anywhere = np.full(size, n_places - 1)
    finished = []

    def from_start(first: IntArray, start: int) -> IntArray:
        left = np.full(1, _FREE_STEPS // _TRIES)
        found = search(anywhere, first, left, start)
        if found.size == 0 and left[0] > 0 and first[0] > start:
            finished.append(start)  # no set anywhere, so nobody need look any further
            first[0] = -1
        return found

    starts = np.unique(np.arange(_TRIES) * n_places // _TRIES)
    found = _first_found(from_start, n_places, starts)
    return found if found.size or finished else None


def _first_found(
    search: Callable[[IntArray, int], IntArray], n_places: int, starts: Iterable[int] | None = None
) -> IntArray:
    """What the search finds from the earliest place, on all cores; empty if it finds nothing."""
    first = np.full(1, n_places)  # the first place so far from where a set was found
    sets: dict[int, IntArray] = {}

    def from_start(start: int) -> None:
        sets[start] = search(first, start)

    in_threads(from_start, range(n_places) if starts is None else starts)
    found = sorted(start for start, columns in sets.items() if columns.size)
    return sets[found[0]] if found else np.zeros(0, dtype=np.int64)


def _endless() -> IntArray:
    return np.full(1, np.iinfo(np.int64).max)


def _from_place(
    values: NDArray[np.uint8],
    apart: BoolArray,
    places: list[IntArray],
    size: int,
    n_sorted: int,
    reach: IntArray,
    first: IntArray,
    left: IntArray,
    start: int,
) -> IntArray:
    """Search around the circle from one place, unless an earlier place has found a set.

    The next points lie at most ``reach`` places after the first; ``left[0]`` steps are allowed.
    """
    around = places[start:] + places[:start]
    order = np.concatenate(around)
    stop = np.cumsum([len(place) for place in around])[reach]
    columns = np.ascontiguousarray(values[order])
    pairs = np.ascontiguousarray(apart[np.ix_(order, order)]) if apart.size else apart
    found: IntArray = _search(
        columns, _row_words(columns), pairs, stop, size, n_sorted, first, left, start
    )
    if found.size:
        first[0] = min(first[0], start)
    return order[found]


def _places(apart: BoolArray, n_columns: int) -> list[IntArray]:
    """Columns grouped so that all of one group exclude each other."""
    if not apart.size:
        return [np.array([c]) for c in range(n_columns)]
    free = np.ones(n_columns, dtype=np.bool_)
    places = []
    for c in range(n_columns):
        if free[c]:
            place = [c]
            for other in np.flatnonzero(apart[c] & free):
                if other != c and apart[other, place].all():
                    place.append(int(other))
            free[place] = False
            places.append(np.array(place))
    return places


def _row_words(values: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Labels of each row as bits: word w of a row holds columns 64 w to 64 w + 63."""
    n_columns, n_rows = values.shape
    n_words = -(-n_columns // 64)
    padded = np.zeros((n_rows, 64 * n_words), dtype=np.uint8)
    padded[:, :n_columns] = values.T
    packed = np.packbits(padded, axis=1, bitorder="little")
    return np.ascontiguousarray(packed.view("<u8").astype(np.uint64))


def _counting_depth(values: NDArray[np.uint8], size: int) -> int:
    """Points to sort by: the fourth after them is where most sets have too small a cell."""
    for k in range(3, size):
        passed = np.mean([counts.min() >= 2 ** (size - k) for counts in _random_cells(values, k)])
        if passed < 0.3:
            return min(max(k - 4, 0), size - _LAST)
    return size - _LAST


def _mean_missing(values: NDArray[np.uint8], size: int) -> float:
    """How many labelings a random set of this size misses, on average."""
    return float(np.mean([(counts == 0).sum() for counts in _random_cells(values, size)]))


def _random_cells(values: NDArray[np.uint8], size: int) -> Iterator[IntArray]:
    """Rows with each labeling of some random sets of this size."""
    rng = np.random.default_rng(_SEED)
    for _ in range(60):
        columns = rng.choice(values.shape[0], size=size, replace=False)
        codes = (1 << np.arange(size)) @ values[columns].astype(np.int64)
        yield np.bincount(codes, minlength=2**size)


# The compiled searches share their state as arguments, since numba has no cheap closures:
# values (columns, rows) and words (rows, packed columns) are the labels; apart, the excluded pairs;
# stop[i], the place before which point i must lie; size, the points wanted; chosen, those so far
# (the first k count); perm and bounds, the rows of the cells of the sorted points, cell c in
# perm[bounds[c] : bounds[c + 1]]; first[0], the earliest place with a set; left[0], steps left.


@njit(cache=True, nogil=True)
def _search(values, words, apart, stop, size, n_sorted, first, left, start):  # type: ignore[no-untyped-def]  # compiled by numba
    """Depth-first over the first ``n_sorted`` points; the cells of the others are bit sets."""
    n_rows = values.shape[1]
    perm = np.zeros((n_sorted + 1, n_rows), dtype=np.int64)
    perm[0] = np.arange(n_rows)
    bounds = np.zeros((n_sorted + 1, (1 << n_sorted) + 1), dtype=np.int64)
    bounds[0, 1] = n_rows
    chosen = np.zeros(size, dtype=np.int64)
    pointer = np.zeros(n_sorted + 1, dtype=np.int64)
    k = 0
    while k >= 0 and first[0] > start and left[0] > 0:
        # Deep enough: the points that are left are searched on bit sets of the cells.
        if k == n_sorted:
            found = _below(
                values, words, apart, stop, size, k, perm[k], bounds[k], chosen, pointer[k], left
            )
            if found.size > 0:
                return found
            k -= 1
            continue
        position = pointer[k]
        if position >= stop[k]:
            k -= 1
            continue
        pointer[k] += 1
        if not _allowed(apart, chosen, k, position):
            continue
        # A cell with fewer than 2^(points to come) rows cannot show all their labelings.
        smallest = _sort_rows(
            values[position], perm[k], bounds[k], 1 << k, perm[k + 1], bounds[k + 1]
        )
        if smallest < (1 << (size - k - 1)):
            continue
        chosen[k] = position
        pointer[k + 1] = position + 1
        k += 1
    return np.zeros(0, dtype=np.int64)


@njit(cache=True, nogil=True)
def _allowed(apart, chosen, k, x):  # type: ignore[no-untyped-def]  # compiled by numba
    """Whether x has no conflict with the first k chosen points."""
    if apart.size > 0:
        for i in range(k):
            if apart[chosen[i], x]:
                return False
    return True


@njit(cache=True, nogil=True)
def _sort_rows(column, perm, bounds, cells, new_perm, new_bounds):  # type: ignore[no-untyped-def]  # compiled by numba
    """Split every cell by the column; return the size of the smallest new cell."""
    smallest = perm.size
    for cell in range(cells):
        # Label 0 from the front, label 1 from the back of the cell's stretch.
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


@njit(cache=True, nogil=True)
def _below(values, words, apart, stop, size, k, perm, bounds, chosen, start, left):  # type: ignore[no-untyped-def]  # compiled by numba
    """One more point below k sorted ones: pick the smallest cells, test all others on these.

    ``start``: the first place at which the point may lie.
    """
    n_columns = values.shape[0]
    cells = 1 << k
    width = ((bounds[1 : cells + 1] - bounds[:cells]).max() + 63) // 64
    bits = np.zeros((cells, width, n_columns), dtype=np.uint64)
    counts = np.zeros((cells, n_columns), dtype=np.int64)
    for cell in range(cells):
        rows = perm[bounds[cell] : bounds[cell + 1]]
        bit_columns(words, rows, rows.size, bits[cell])
        count_ones(bits[cell], counts[cell])
    sizes = np.zeros(2 * cells, dtype=np.int64)
    picked = np.zeros(min(N_SMALL, 2 * cells), dtype=np.int64)
    inside = np.zeros((picked.size, width, n_columns), dtype=np.uint64)
    total = np.zeros(picked.size, dtype=np.int64)
    for x in range(start, stop[k]):
        if not _allowed(apart, chosen, k, x):
            continue
        for cell in range(cells):
            sizes[2 * cell + 1] = counts[cell, x]
            sizes[2 * cell] = bounds[cell + 1] - bounds[cell] - counts[cell, x]
        # Every half needs one row for each labeling of the points to come.
        if sizes.min() < 1 << (size - k - 1):
            continue
        chosen[k] = x
        # The smallest cells decide for nearly all further points; the others are looked at last.
        smallest_cells(sizes, picked)
        used = gather(words, perm, bounds, bits, picked, x, sizes, inside, total)
        found = _four_more(
            values, apart, stop, size, k + 1, chosen, inside, total, used, bits, bounds, left
        )
        if found.size > 0 or left[0] <= 0:
            return found
    return np.zeros(0, dtype=np.int64)


@njit(cache=True, nogil=True)
def _four_more(values, apart, stop, size, k, chosen, inside, total, width, bits, bounds, left):  # type: ignore[no-untyped-def]  # compiled by numba
    """The next four points on the small cells only; then all rows are looked at.

    ``inside[c]``: the columns of picked cell c as bit sets of ``width`` words; ``total[c]``, its
    rows; ``bits`` and ``bounds``: the same for all cells before the last point.
    """
    need = 1 << (size - k - 1)
    work = workspace(total.size, width, values.shape[0])
    end = stop[k + 3]
    for y in range(chosen[k - 1] + 1, stop[k]):
        # y must split all picked cells; z the tightest halves of them.
        if not _allowed(apart, chosen, k, y) or not halve(inside, total, y, end, need, work):
            continue
        if left[0] <= 0:
            break
        chosen[k] = y
        for z in range(y + 1, stop[k + 1]):
            if not _allowed(apart, chosen, k + 1, z) or not smaller_sides(work, z, need // 2):
                continue
            chosen[k + 1] = z
            left[0] -= end - z
            # Columns that split the smaller sides are the only candidates for u and v.
            m = splitting(work, z + 1, end, need // 4)
            for i in range(m - 1):
                u = work.kept[i]
                if u >= stop[k + 2]:
                    break
                for j in range(i + 1, m):
                    v = work.kept[j]
                    if splitting_together(work, u, v, need // 8):
                        chosen[k + 2], chosen[k + 3] = u, v
                        # The small cells do not object: ask all cells, then search on.
                        last = chosen[k - 1 : k + 4]
                        if not enough_everywhere(bits, bounds, last, need // 8):
                            continue
                        found = _complete(values, apart, stop, chosen, k + 4, size)
                        if found.size > 0:
                            return found
    return np.zeros(0, dtype=np.int64)


@njit(cache=True, nogil=True)
def _complete(values, apart, stop, chosen, k, size):  # type: ignore[no-untyped-def]  # compiled by numba
    """Exact search on all rows: extend k chosen points by later ones."""
    n_rows = values.shape[1]
    codes = np.zeros((size - k + 1, n_rows), dtype=np.int64)
    # The labels of the chosen points as the binary number of the row's cell.
    for i in range(k):
        column = values[chosen[i]]
        for row in range(n_rows):
            codes[0, row] = 2 * codes[0, row] + column[row]
    empty = np.zeros(0, dtype=np.int64)
    # Conflicts of the last two points were not looked at yet.
    for i in range(k - 2, k):
        if not _allowed(apart, chosen, i, chosen[i]):
            return empty
    if not _counts_reach(codes[0], k, 1 << (size - k)):
        return empty
    pointer = np.full(size - k + 1, chosen[k - 1] + 1, dtype=np.int64)
    level = 0
    while level >= 0:
        if k + level == size:
            return chosen.copy()
        x = pointer[level]
        if x >= stop[k + level]:
            level -= 1
            continue
        pointer[level] += 1
        if not _allowed(apart, chosen, k + level, x):
            continue
        column = values[x]
        for row in range(n_rows):
            codes[level + 1, row] = 2 * codes[level, row] + column[row]
        if _counts_reach(codes[level + 1], k + level + 1, 1 << (size - k - level - 1)):
            chosen[k + level] = x
            pointer[level + 1] = x + 1
            level += 1
    return empty


@njit(cache=True, nogil=True)
def _counts_reach(codes, k, need):  # type: ignore[no-untyped-def]  # compiled by numba
    """Whether every labeling of k points has ``need`` rows."""
    counts = np.bincount(codes, minlength=1 << k)
    return counts.min() >= need
