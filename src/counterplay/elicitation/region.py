"""The region of preferences that no bet has ruined, and the largest regret over it.

Branch and bound on simplices: a cell of preferences is done when nobody in it regrets the item by
more than ``r``, or when the answers exclude every one of its members; otherwise it is cut in two.
"Certified" is proved cell by cell; a witness is a real preference.
Source: docs/theory/26-people.md, "Branch and bound".
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numba import njit

from counterplay.core.validation import FloatArray, IntArray
from counterplay.elicitation.answer_model import best_likelihood, known_likelihood
from counterplay.elicitation.slips import bet_levels

WITNESSES = 30
_DEPTH = 600
_SMALL = 1e-4  # cells with shorter edges are left undecided
_ROUNDING = 1e-12
_WORST = 6  # worst items tried in a range of worths
CERTIFIED, REFUTED, UNDECIDED = 1, 0, -1
RATIO, RANGE, ANY = 0, 1, 2


@dataclass(frozen=True)
class Search:
    """What a search over all preferences found."""

    status: int
    witnesses: FloatArray
    cells: int


class Region:
    """Preferences whose bets are still solvent after the answers so far.

    Parameters
    ----------
    k:
        Number of weights.
    rate:
        Bound on wrong answers.
    jnd:
        Just noticeable difference.
    alpha:
        The true preference leaves the region at some time with at most this probability.
    running:
        Whether a preference that left stays out.
    """

    def __init__(self, k: int, rate: float, jnd: float, alpha: float, running: bool) -> None:
        self.k, self.rate, self.jnd, self.running = k, rate, jnd, running
        self.limit = float(np.log(1.0 / alpha))
        self.differences = np.zeros((0, 3, k))
        self.sizes = np.zeros(0, dtype=np.int64)
        self.levels = self._no_levels()
        self.pairs = np.zeros((0, k))  # every pair that was asked, in one direction
        self.pair_levels = np.zeros((0, 5))  # log factors of all its answers, by the difference

    def _no_levels(self) -> FloatArray:
        return np.zeros((0, 4))

    def _level(self, forecast: float, size: int) -> FloatArray:
        """What an answer adds to the evidence, by how clearly it is contradicted."""
        return bet_levels(forecast, self.rate, size == 2)

    def add(self, options: FloatArray, chosen: int, forecast: float) -> None:
        """Take the choice of one of several options, which had this forecast."""
        others = np.delete(np.arange(len(options)), chosen)
        row = np.zeros((1, 3, self.k))
        row[0, : len(others)] = options[chosen] - options[others]
        self.differences = np.concatenate([self.differences, row])
        self.sizes = np.append(self.sizes, len(others))
        level = self._level(forecast, len(options))
        self.levels = np.vstack([self.levels, level])
        if len(others) == 1 and level.size == 4:
            self._add_pair(row[0, 0], level)

    def _add_pair(self, difference: FloatArray, level: FloatArray) -> None:
        """Add up the answers to the same pair: nobody can agree with both of two opposite ones."""
        # log factors where the difference is clear, close, zero, close against, clear against
        summed = level[[0, 1, 1, 2, 3]]
        leading = np.flatnonzero(difference)
        if leading.size and difference[leading[0]] < 0:
            difference, summed = -difference, level[[3, 2, 1, 1, 0]]
        same = np.flatnonzero((self.pairs == difference).all(axis=1))
        if same.size:
            self.pair_levels[same[0]] += summed
            return
        self.pairs = np.vstack([self.pairs, difference])
        self.pair_levels = np.vstack([self.pair_levels, summed])

    def evidence(self, weights: FloatArray) -> FloatArray:
        """Return the logarithm of the evidence against each preference (its largest so far)."""
        return np.asarray(
            _evidence(
                np.ascontiguousarray(weights), self.differences, self.sizes, self.levels,
                self.jnd, self.running,
            )
        )  # fmt: skip

    def contains(self, weights: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether each preference is still solvent."""
        return np.asarray(self.evidence(weights) < self.limit)

    def search(
        self,
        start: FloatArray,
        items: FloatArray,
        item: int,
        regret: float,
        mode: int,
        most: int,
        witnesses: int = WITNESSES,
    ) -> Search:
        """Look for a solvent preference that regrets ``item`` by more than ``regret``.

        Parameters
        ----------
        start:
            Cells (c, k, k) that cover all preferences.
        items:
            Values (n, k).
        item:
            Position of the item.
        regret:
            The bound to be proved.
        mode:
            ``RATIO``, ``RANGE`` (unknown signs) or ``ANY`` (whether the region is empty).
        most:
            Cells to look at; beyond it the answer is "undecided".
        witnesses:
            How many such preferences to find.
        """
        status, cells, found, met = _search(
            start, np.ascontiguousarray(items), item, regret, mode,
            (self.differences, self.sizes, self.levels, self.pairs, self.pair_levels),
            self.jnd, self.limit, self.running, most, witnesses,
        )  # fmt: skip
        return Search(int(status), met[:found].copy(), int(cells))


class ModelRegion(Region):
    """Preferences that the answer model with some lapse and temperature explains well enough."""

    def __init__(self, k: int, alpha: float) -> None:
        super().__init__(k, 0.0, 0.0, alpha, False)

    def _no_levels(self) -> FloatArray:
        return np.zeros((0, 1))

    def _level(self, forecast: float, size: int) -> FloatArray:
        return np.array([np.log(forecast)])


def start_cells(k: int, unknown: IntArray) -> FloatArray:
    """Return the simplex of weights, one copy for every choice of the unknown signs.

    Examples
    --------
    >>> start_cells(2, np.array([1])).tolist()
    [[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [-0.0, -1.0]]]
    """
    cells = []
    for signs in product((1.0, -1.0), repeat=len(unknown)):
        cell = np.eye(k)
        for j, sign in zip(unknown, signs):
            cell[j] *= sign
        cells.append(cell)
    return np.array(cells)


@njit(cache=True)
def _dot(a, b):  # type: ignore[no-untyped-def]  # compiled by numba
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@njit(cache=True)
def _level(g, delta):  # type: ignore[no-untyped-def]  # compiled by numba
    """Class of an answer by the difference ``g`` in its favour: 0 agreed ... 3 contradicted."""
    if g > delta:
        return 0
    if g >= 0.0:
        return 1
    if g >= -delta:
        return 2
    return 3


@njit(cache=True, nogil=True)
def _evidence(weights, differences, sizes, levels, delta, running):  # type: ignore[no-untyped-def]
    """Sum of the log factors of every preference; its largest prefix if ``running``."""
    n, k = weights.shape
    result = np.zeros(n)
    if levels.shape[1] == 1:  # forecasts against the answer model
        gaps = np.empty(differences.shape[:2])
        for i in range(n):
            for s in range(sizes.size):
                for b in range(sizes[s]):
                    gaps[s, b] = _dot(weights[i], differences[s, b])
            result[i] = levels.sum() - known_likelihood(gaps, sizes)
        return result
    for i in range(n):
        total, most = 0.0, 0.0
        for s in range(sizes.size):
            # the smallest difference in favour of the chosen option decides
            g = np.inf
            for b in range(sizes[s]):
                d = 0.0
                for j in range(k):
                    d += weights[i, j] * differences[s, b, j]
                g = min(g, d)
            total += levels[s, _level(g, delta)]
            most = max(most, total)
        result[i] = most if running else total
    return result


@njit(cache=True)
def _excluded(cell, answers, delta, limit, running):  # type: ignore[no-untyped-def]
    """Whether the answers exclude every preference of a cell, by a lower bound of the evidence."""
    differences, sizes, levels, pairs, pair_levels = answers
    if levels.shape[1] == 1:  # forecasts against the answer model
        high = np.empty(differences.shape[:2])
        for s in range(sizes.size):
            for b in range(sizes[s]):
                high[s, b] = -np.inf
                for v in range(cell.shape[0]):
                    high[s, b] = max(high[s, b], _dot(cell[v], differences[s, b]) + _ROUNDING)
        return levels.sum() - best_likelihood(high, sizes) >= limit
    # answers to one pair: the most favourable of the differences that occur on the cell
    last = 0.0
    for g in range(len(pairs)):
        least_d, most_d = np.inf, -np.inf
        for v in range(cell.shape[0]):
            d = _dot(cell[v], pairs[g])
            least_d, most_d = min(least_d, d - _ROUNDING), max(most_d, d + _ROUNDING)
        least = np.inf
        if most_d > delta:
            least = min(least, pair_levels[g, 0])
        if most_d > 0.0 and least_d <= delta and delta > 0.0:
            least = min(least, pair_levels[g, 1])
        if least_d <= 0.0 <= most_d:
            least = min(least, pair_levels[g, 2])
        if least_d < 0.0 and most_d >= -delta and delta > 0.0:
            least = min(least, pair_levels[g, 3])
        if least_d < -delta:
            least = min(least, pair_levels[g, 4])
        last += least
    # choices from larger sets one by one, and all prefixes if the region never grows
    total, most = 0.0, 0.0
    for s in range(sizes.size):
        if sizes[s] == 1 and not running:
            continue
        g_low = np.inf
        for b in range(sizes[s]):
            # a difference is linear, so its largest value on the cell is at a vertex
            top = -np.inf
            for v in range(cell.shape[0]):
                top = max(top, _dot(cell[v], differences[s, b]))
            g_low = min(g_low, top)
        # the factor falls in the difference, so the upper bound gives a lower bound
        value = levels[s, _level(g_low + _ROUNDING, delta)]
        total += value
        most = max(most, total)
        if sizes[s] > 1:
            last += value
    return (max(most, last) if running else last) >= limit


@njit(cache=True)
def _worst_items(centre, items, count):  # type: ignore[no-untyped-def]
    """Positions of the items with the smallest worth under one preference."""
    found = np.empty(min(count, len(items)), np.int64)
    worth = np.empty(found.size)
    kept = 0
    for low in range(len(items)):
        u = _dot(centre, items[low])
        if kept == found.size and u >= worth[kept - 1]:
            continue
        # insert it into the sorted list
        place = min(kept, found.size - 1)
        while place > 0 and worth[place - 1] > u:
            worth[place], found[place] = worth[place - 1], found[place - 1]
            place -= 1
        worth[place], found[place] = u, low
        kept = min(kept + 1, found.size)
    return found


@njit(cache=True)
def _keep_rivals(cell, items, order, count, item, r, mode, worst):  # type: ignore[no-untyped-def]
    """Move the items to the front that somebody in the cell may prefer by more than ``r``.

    Subtrees only permute within the first ``count`` entries, so the set of a parent stays intact.
    """
    kept = 0
    size = cell.shape[0]
    own = np.empty(size)
    for v in range(size):
        own[v] = _dot(cell[v], items[item])
    for position in range(count):
        j = order[position]
        rival = False
        if mode == RATIO:
            for v in range(size):
                if (1.0 - r) * _dot(cell[v], items[j]) - own[v] > _ROUNDING:
                    rival = True
                    break
        else:
            # settled if one low item makes the range wide enough at all vertices
            rival = True
            for low in worst:
                wide = True
                for v in range(size):
                    u = (1.0 - r) * _dot(cell[v], items[j]) + r * _dot(cell[v], items[low])
                    if u - own[v] > _ROUNDING:
                        wide = False
                        break
                if wide:
                    rival = False
                    break
        if rival:
            order[position] = order[kept]
            order[kept] = j
            kept += 1
    return kept


@njit(cache=True)
def _violates(centre, items, order, count, item, r, mode, worst):  # type: ignore[no-untyped-def]
    """Whether one preference regrets the item by more than ``r``."""
    best = -np.inf
    for position in range(count):
        best = max(best, _dot(centre, items[order[position]]))
    excess = (1.0 - r) * best - _dot(centre, items[item])
    if mode == RANGE:
        excess += r * _dot(centre, items[worst[0]])
    return excess > _ROUNDING


@njit(cache=True, nogil=True)
def _search(start, items, item, r, mode, answers, delta, limit, running, most, wanted):  # type: ignore[no-untyped-def]
    """Depth-first over cells; returns status, cells seen, number of witnesses, witnesses."""
    k = start.shape[2]
    stack = np.empty((_DEPTH + len(start), k, k))
    counts = np.empty(_DEPTH + len(start), np.int64)
    for c in range(len(start)):
        counts[c] = len(items)
        for v in range(k):
            for j in range(k):
                stack[c, v, j] = start[c, v, j]
    top, seen, found = len(start), 0, 0
    undecided = False
    order = np.arange(len(items))
    witnesses = np.empty((wanted, k))
    differences, sizes, levels, _, _ = answers
    nobody = np.zeros(1, np.int64)
    one = np.empty((1, k))
    centre = one[0]
    while top > 0:
        if seen >= most or found == wanted:
            undecided = True
            break
        top -= 1
        seen += 1
        cell, count = stack[top].copy(), counts[top]
        for j in range(k):
            one[0, j] = 0.0
            for v in range(k):
                one[0, j] += cell[v, j] / k
        worst = _worst_items(centre, items, _WORST) if mode == RANGE else nobody
        if mode != ANY:
            # nobody in the cell regrets the item: done
            count = _keep_rivals(cell, items, order, count, item, r, mode, worst)
            if count == 0:
                continue
        if _excluded(cell, answers, delta, limit, running):
            continue
        bad = mode == ANY or _violates(centre, items, order, count, item, r, mode, worst)
        if bad and _evidence(one, differences, sizes, levels, delta, running)[0] < limit:
            for j in range(k):
                witnesses[found, j] = centre[j]
            found += 1
            if mode == ANY:
                break
            continue
        # cut the longest edge in the middle
        longest, a, b = 0.0, 0, 0
        for v in range(k):
            for u in range(v):
                length = 0.0
                for j in range(k):
                    length += (cell[v, j] - cell[u, j]) ** 2
                if length > longest:
                    longest, a, b = length, v, u
        if longest < _SMALL**2 or top + 2 > len(stack):
            undecided = True
            continue
        for v in range(k):
            for j in range(k):
                stack[top, v, j] = stack[top + 1, v, j] = cell[v, j]
        for j in range(k):
            middle = 0.5 * (cell[a, j] + cell[b, j])
            stack[top, a, j] = middle
            stack[top + 1, b, j] = middle
        counts[top] = counts[top + 1] = count
        top += 2
    status = REFUTED if found > 0 else (UNDECIDED if undecided else CERTIFIED)
    return status, seen, found, witnesses
