"""Best-first search over boxes of cells: what a person can do against a tree ensemble.

Two questions: the cheapest accepted point, and the best score within a budget. Both open the box
with the best bound, look at its cheapest point, and split it where the leaves behind the bound
disagree most with that point. The best bound that is left is certified at any time.

Source: "Tree ensembles", see docs/theory/20-moves.md.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numba
import numpy as np

from counterplay.core.validation import FloatArray, IntArray
from counterplay.strategic.cell_prices import CellPrices
from counterplay.strategic.tree_boxes import (
    Bits,
    Box,
    Forest,
    Kept,
    Person,
    Split,
    affordable,
    best_leaves,
    cheapest_point,
    choose_split,
    leaf_prices,
    narrow,
    person_of,
    recall,
    remember,
    score_at,
    whole_box,
)
from counterplay.strategic.tree_cells import Cells


def search_people(
    cells: Cells,
    prices: CellPrices,
    own: IntArray,
    target: float,
    cap: float,
    power: float,
    nodes: int,
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return lower and upper prices (before the root) and the cells of the best point per person.

    Parameters
    ----------
    cells
        The ensemble.
    prices
        Prices of the cells for these people.
    own
        Their own cells.
    target
        Sum of leaves that is accepted.
    cap
        Largest price of interest, before the root.
    power
        1 or 2 if prices add up, infinity for the maximum.
    nodes
        Most boxes to open per person.
    """
    lower, upper, points, _ = measured_search(cells, prices, own, target, cap, power, nodes)
    return lower, upper, points


def measured_search(
    cells: Cells,
    prices: CellPrices,
    own: IntArray,
    target: float,
    cap: float,
    power: float,
    nodes: int,
) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
    """Do the same and also return the effort per person: boxes opened, leaves kept.

    Leaves are kept if they cost at most the cap within the whole space; none are needed by who is
    accepted where she is.
    """
    n = own.shape[0]
    lower, upper = np.zeros(n), np.full(n, np.inf)
    points, effort = own.copy(), np.zeros((n, 2), dtype=np.int64)
    for i in range(n):
        person = person_of(
            cells.forest, prices.price[i], prices.missing[i], own[i], bool(np.isinf(power))
        )
        lower[i], upper[i], effort[i, 0], effort[i, 1] = _cheapest(
            cells.forest, person, target, cap, nodes, points[i]
        )
    return lower, upper, points, effort


def best_scores(
    cells: Cells, prices: CellPrices, own: IntArray, caps: FloatArray, power: float, nodes: int
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return the best sums of leaves found within each cap, upper bounds, and their cells.

    Shapes ``(people, caps)``, ``(people, caps)`` and ``(people, caps, blocks)``.
    """
    n, order = own.shape[0], np.argsort(-caps, kind="stable")
    found, bound = np.zeros((n, caps.size)), np.zeros((n, caps.size))
    points = np.repeat(own[:, None, :], caps.size, axis=1)
    for i in range(n):
        person = person_of(
            cells.forest, prices.price[i], prices.missing[i], own[i], bool(np.isinf(power))
        )
        done = None  # the last search: its point also serves smaller caps that can pay for it
        for k in order:
            if done is not None and done[1] <= caps[k] and done[0] == bound[i, done[2]]:
                found[i, k], bound[i, k], points[i, k] = done[0], done[0], points[i, done[2]]
                continue
            score, high, price = _best(cells.forest, person, caps[k], nodes, points[i, k])
            if done is not None:
                high = min(high, bound[i, done[2]])  # more money never buys less
            found[i, k], bound[i, k] = score, max(high, score)
            done = (score, price, k)
    return found, bound, points


class _Heap(NamedTuple):
    """Boxes side by side, their splits, and the waiting ones by their bound."""

    low: IntArray
    high: IntArray
    gap: Bits
    bits: Bits
    split: IntArray  # kind, block, place of every box
    alive: IntArray  # leaves that it can afford, 62 bits a word


@numba.njit(cache=True)
def _store(size: int, blocks: int, total: int, words: int) -> _Heap:
    return _Heap(
        np.zeros((size, blocks), np.int64),
        np.zeros((size, blocks), np.int64),
        np.zeros((size, blocks), np.uint8),
        np.zeros((size, total), np.uint8),
        np.zeros((size, 3), np.int64),
        np.zeros((size, words), np.int64),
    )


@numba.njit(cache=True)
def _larger(store: _Heap) -> _Heap:
    """Return a store with room for twice as many boxes."""
    size = store.low.shape[0]
    more = _store(2 * size, store.low.shape[1], store.bits.shape[1], store.alive.shape[1])
    more.low[:size], more.high[:size], more.gap[:size] = store.low, store.high, store.gap
    more.bits[:size], more.split[:size] = store.bits, store.split
    more.alive[:size] = store.alive
    return more


@numba.njit(cache=True)
def _box(store: _Heap, b: int) -> Box:
    return Box(store.low[b], store.high[b], store.gap[b], store.bits[b])


@numba.njit(cache=True)
def _children(forest: Forest, store: _Heap, b: int, used: int) -> None:
    """Write both parts of box b behind the boxes that are used."""
    split = Split(store.split[b, 0], store.split[b, 1], store.split[b, 2])
    for side in range(2):
        c = used + side
        store.low[c], store.high[c] = store.low[b], store.high[b]
        store.gap[c], store.bits[c] = store.gap[b], store.bits[b]
        store.alive[c] = store.alive[b]
        narrow(forest, _box(store, c), split, side)


@numba.njit(cache=True)
def _least_price(
    forest: Forest, kept: Kept, count: int, target: float, roof: float, chosen: IntArray
) -> float:
    """Return the least c whose affordable leaves reach the target, infinite if none below roof.

    ``chosen`` gets the leaves at that price.
    """
    # nothing within the roof suffices: the usual end of a box
    if best_leaves(forest, kept, count, roof, chosen) < target:
        return np.inf
    # leaves at the price of the cheapest point
    base = np.inf
    for i in range(count):
        base = min(base, kept.cost[i])
    total = forest.start
    top = np.full(chosen.size, -np.inf)
    for i in range(count):
        t = forest.leaf_tree[kept.leaf[i]]
        if kept.cost[i] <= base:
            top[t] = max(top[t], forest.leaf_value[kept.leaf[i]])
    # dearer leaves matter only where they are better; add them in the order of their prices
    events = np.empty(count, np.int64)
    many = 0
    for i in range(count):
        t = forest.leaf_tree[kept.leaf[i]]
        if base < kept.cost[i] <= roof and forest.leaf_value[kept.leaf[i]] > top[t]:
            events[many] = i
            many += 1
    order = np.argsort(kept.cost[events[:many]])
    closed = 0
    for t in range(chosen.size):
        if top[t] > -np.inf:
            total += top[t]
            closed += 1
    near = (1e-4 if forest.single else 1e-9) * (
        1.0 + abs(target)
    )  # within it the sum is taken again in tree order
    c, e = base, 0
    while True:
        near_enough = closed == chosen.size and total >= target - near
        if near_enough and best_leaves(forest, kept, count, c, chosen) >= target:
            return float(c)
        if e == many:  # cannot happen: all of them together suffice
            return float(roof)
        c = kept.cost[events[order[e]]]
        while e < many and kept.cost[events[order[e]]] <= c:
            leaf = kept.leaf[events[order[e]]]
            t, value = forest.leaf_tree[leaf], forest.leaf_value[leaf]
            if value > top[t]:
                closed += 1 if top[t] == -np.inf else 0
                total += value - (top[t] if top[t] > -np.inf else 0.0)
                top[t] = value
            e += 1


@numba.njit(cache=True)
def _cheapest(
    forest: Forest, person: Person, target: float, cap: float, limit: int, point: IntArray
) -> tuple[float, float, int, int]:
    """Return certified bounds on the price of an accepted point; ``point`` gets the best one.

    Behind them: the boxes opened, and the leaves that the person can afford at all.
    """
    blocks, trees, total = forest.ordered.size, forest.tree_start.size - 1, person.price.size
    leaves = forest.leaf_value.size
    store = _store(64, blocks, total, leaves // 62 + 1)
    whole_box(forest, person, _box(store, 0))
    kept = Kept(np.arange(leaves), np.empty(leaves))
    remember(store.alive[0], kept, leaves)
    used, waiting, opened, within = 1, 0, 0, 0
    cheapest, z = np.zeros(blocks), np.zeros(blocks, np.int64)
    chosen, at_z = np.zeros(trees, np.int64), np.zeros(trees)
    best, certified = np.inf, 0.0
    heap = [(0.0, -1)]
    heap.pop()
    while True:
        while waiting < used:  # evaluate the boxes that are new
            b = waiting
            waiting += 1
            box = _box(store, b)
            whole = cheapest_point(forest, person, box, cheapest, z)
            if not whole <= cap or whole >= best:
                continue
            if score_at(forest, z, at_z) >= target:
                best = whole
                point[:] = z
                continue
            roof = min(best, min(cap, 1e300))
            # leaves that a box cannot afford are out of reach of its parts as well
            count = recall(store.alive[b], kept)
            leaf_prices(forest, person, box, kept, count, cheapest, roof)
            count = affordable(kept, count, roof)
            remember(store.alive[b], kept, count)
            within = count if b == 0 else within
            bound = _least_price(forest, kept, count, target, roof, chosen)
            bound = max(bound, whole)
            if not bound < best or not np.isfinite(bound):
                continue
            split = choose_split(forest, box, z, at_z, chosen)
            if split.kind < 0:
                continue  # cannot happen: the chosen leaves reach the target, the point does not
            store.split[b] = np.array([split.kind, split.block, split.place])
            heapq.heappush(heap, (bound, b))
        if len(heap) == 0 or heap[0][0] >= best:
            return best, best, opened, within
        certified = max(certified, heap[0][0])
        if opened >= limit:
            return certified, best, opened, within
        opened += 1
        _, b = heapq.heappop(heap)
        if used + 2 > store.low.shape[0]:
            store = _larger(store)
        _children(forest, store, b, used)
        used += 2


@numba.njit(cache=True)
def _best(
    forest: Forest, person: Person, cap: float, limit: int, point: IntArray
) -> tuple[float, float, float]:
    """Return the best score within the cap, an upper bound on it, and the price of the point."""
    blocks, trees, total = forest.ordered.size, forest.tree_start.size - 1, person.price.size
    leaves = forest.leaf_value.size
    store = _store(64, blocks, total, leaves // 62 + 1)
    whole_box(forest, person, _box(store, 0))
    kept = Kept(np.arange(leaves), np.empty(leaves))
    remember(store.alive[0], kept, leaves)
    used, waiting, opened = 1, 0, 0
    cheapest, z = np.zeros(blocks), np.zeros(blocks, np.int64)
    chosen, at_z = np.zeros(trees, np.int64), np.zeros(trees)
    best, paid = -np.inf, 0.0
    heap = [(0.0, -1)]
    heap.pop()
    while True:
        while waiting < used:
            b = waiting
            waiting += 1
            box = _box(store, b)
            whole = cheapest_point(forest, person, box, cheapest, z)
            if not whole <= cap:
                continue
            score = score_at(forest, z, at_z)
            if score > best or (score == best and whole < paid):
                best, paid = score, whole
                point[:] = z
            roof = min(cap, 1e300)
            count = recall(store.alive[b], kept)
            leaf_prices(forest, person, box, kept, count, cheapest, roof)
            count = affordable(kept, count, roof)
            remember(store.alive[b], kept, count)
            bound = best_leaves(forest, kept, count, roof, chosen)
            if bound <= best:
                continue
            split = choose_split(forest, box, z, at_z, chosen)
            if split.kind < 0:
                continue  # the bound is the score of the point itself
            store.split[b] = np.array([split.kind, split.block, split.place])
            heapq.heappush(heap, (-bound, b))
        if len(heap) == 0 or -heap[0][0] <= best:
            return best, best, paid
        if opened >= limit:
            return best, -heap[0][0], paid
        opened += 1
        _, b = heapq.heappop(heap)
        if used + 2 > store.low.shape[0]:
            store = _larger(store)
        _children(forest, store, b, used)
        used += 2
