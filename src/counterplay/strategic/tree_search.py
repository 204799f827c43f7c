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
    Person,
    Split,
    cheapest_point,
    narrow,
    person_of,
    score_at,
    whole_box,
)
from counterplay.strategic.tree_cells import Cells
from counterplay.strategic.tree_leaves import (
    WORD,
    Front,
    Leaves,
    affordable_leaves,
    choose_split,
    least_price,
    sum_within,
    write_front,
)

FAR = 1e300  # instead of no cap
PART = 32  # people per compiled call: between two of them a run can be stopped


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

    Leaves are kept if they cost at most the cap within the whole space.
    """
    n, cap = own.shape[0], min(cap, FAR)
    lower, upper = np.zeros(n), np.full(n, np.inf)
    points, effort = own.copy(), np.zeros((n, 2), dtype=np.int64)
    for at in range(0, n, PART):
        part = slice(at, at + PART)
        _cheapest_of_all(
            cells.forest, prices.price[part], prices.missing[part], own[part],
            bool(np.isinf(power)), target, cap, nodes, lower[part], upper[part], points[part],
            effort[part],
        )  # fmt: skip
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
    for at in range(0, n, PART):
        part = slice(at, at + PART)
        _best_of_all(
            cells.forest, prices.price[part], prices.missing[part], own[part],
            bool(np.isinf(power)), np.minimum(caps, FAR), order, nodes, found[part], bound[part],
            points[part],
        )  # fmt: skip
    return found, bound, points


class _Boxes(NamedTuple):
    """Boxes side by side, and where each is split."""

    low: IntArray
    high: IntArray
    gap: Bits
    bits: Bits  # of all cells if there are unordered blocks
    split: IntArray  # kind, block, place
    alive: IntArray  # leaves that the box can still reach


class _View(NamedTuple):
    """What is known of the box at hand: its cheapest point and the front of its leaves."""

    cheapest: FloatArray  # price per block of the cheapest point
    z: IntArray
    at_z: FloatArray  # leaf of every tree there
    chosen: IntArray  # leaves behind the bound
    front: Front


@numba.njit(cache=True, nogil=True)
def _boxes(size: int, blocks: int, cells: int, words: int) -> _Boxes:
    return _Boxes(
        np.zeros((size, blocks), np.int64),
        np.zeros((size, blocks), np.int64),
        np.zeros((size, blocks), np.uint8),
        np.zeros((size, cells), np.uint8),
        np.zeros((size, 3), np.int64),
        np.zeros((size, words), np.int64),
    )


@numba.njit(cache=True, nogil=True)
def _larger(boxes: _Boxes) -> _Boxes:
    """Return room for twice as many boxes."""
    size = boxes.low.shape[0]
    more = _boxes(2 * size, boxes.low.shape[1], boxes.bits.shape[1], boxes.alive.shape[1])
    more.low[:size], more.high[:size], more.gap[:size] = boxes.low, boxes.high, boxes.gap
    more.bits[:size], more.split[:size] = boxes.bits, boxes.split
    more.alive[:size] = boxes.alive
    return more


@numba.njit(cache=True, nogil=True)
def _box(boxes: _Boxes, b: int) -> Box:
    return Box(boxes.low[b], boxes.high[b], boxes.gap[b], boxes.bits[b])


class _Start(NamedTuple):
    """What the searches of one person share: the whole box and the leaves within her cap."""

    person: Person
    root: _Boxes
    leaves: Leaves


@numba.njit(cache=True, nogil=True)
def _start(
    forest: Forest, price: FloatArray, hole: FloatArray, own: IntArray, largest: bool, cap: float
) -> _Start:
    """Return a person, all that she can have within the cap, and the leaves there."""
    person = person_of(forest, price, hole, own, largest)
    blocks = forest.ordered.size
    root = _boxes(1, blocks, 1 if forest.ordered.all() else price.size, 1)
    box, cheapest, z = _box(root, 0), np.zeros(blocks), np.zeros(blocks, np.int64)
    whole_box(forest, person, cap, box)
    cheapest_point(forest, person, box, cheapest, z)
    return _Start(person, root, affordable_leaves(forest, person, box, cheapest, cap))


@numba.njit(cache=True, nogil=True)
def _cheapest_of_all(
    forest: Forest,
    price: FloatArray,
    hole: FloatArray,
    own: IntArray,
    largest: bool,
    target: float,
    cap: float,
    nodes: int,
    lower: FloatArray,
    upper: FloatArray,
    points: IntArray,
    effort: IntArray,
) -> None:
    """Search for one person after the other."""
    for i in range(own.shape[0]):
        start = _start(forest, price[i], hole[i], own[i], largest, cap)
        lower[i], upper[i], effort[i, 0] = _cheapest(forest, start, target, cap, nodes, points[i])
        effort[i, 1] = start.leaves.value.size


@numba.njit(cache=True, nogil=True)
def _best_of_all(
    forest: Forest,
    price: FloatArray,
    hole: FloatArray,
    own: IntArray,
    largest: bool,
    caps: FloatArray,
    order: IntArray,
    nodes: int,
    found: FloatArray,
    bound: FloatArray,
    points: IntArray,
) -> None:
    """Search for one person after the other, the largest cap first."""
    for i in range(own.shape[0]):
        start = _start(forest, price[i], hole[i], own[i], largest, caps[order[0]])
        last, paid = -1, np.inf  # the last search: its point also serves caps that can pay for it
        for k in order:
            if last >= 0 and paid <= caps[k] and found[i, last] == bound[i, last]:
                found[i, k], bound[i, k] = found[i, last], bound[i, last]
                points[i, k] = points[i, last]
                continue
            score, high, price_of_point = _best(forest, start, caps[k], nodes, points[i, k])
            if last >= 0:
                high = min(high, bound[i, last])  # more money never buys less
            found[i, k], bound[i, k] = score, max(high, score)
            last, paid = k, price_of_point


@numba.njit(cache=True, nogil=True)
def _begin(forest: Forest, root: _Boxes, leaves: Leaves) -> tuple[_Boxes, _View]:
    """Return room for boxes, the whole one first, and an empty view."""
    blocks, trees, count = forest.ordered.size, forest.tree_start.size - 1, leaves.value.size
    boxes = _boxes(64, blocks, root.bits.shape[1], count // WORD + 1)
    boxes.low[0], boxes.high[0] = root.low[0], root.high[0]
    boxes.gap[0], boxes.bits[0] = root.gap[0], root.bits[0]
    boxes.alive[0] = (np.int64(1) << WORD) - 1
    front = Front(
        np.zeros(trees + 1, np.int64), np.zeros(count + trees, np.int64), np.zeros(count + trees)
    )
    return boxes, _View(
        np.zeros(blocks), np.zeros(blocks, np.int64), np.zeros(trees), np.zeros(trees, np.int64),
        front,
    )  # fmt: skip


@numba.njit(cache=True, nogil=True)
def _halve(forest: Forest, boxes: _Boxes, b: int, new: int) -> None:
    """Split box b: one part stays in its place, the other is written to a new one."""
    split = Split(boxes.split[b, 0], boxes.split[b, 1], boxes.split[b, 2])
    boxes.low[new], boxes.high[new] = boxes.low[b], boxes.high[b]
    boxes.gap[new], boxes.bits[new] = boxes.gap[b], boxes.bits[b]
    boxes.alive[new] = boxes.alive[b]
    narrow(forest, _box(boxes, b), split, 0)
    narrow(forest, _box(boxes, new), split, 1)


@numba.njit(cache=True, nogil=True)
def _cheapest(
    forest: Forest, start: _Start, target: float, cap: float, limit: int, point: IntArray
) -> tuple[float, float, int]:
    """Return certified bounds on the price of an accepted point, and the boxes opened.

    ``point`` gets the best point.
    """
    person, leaves = start.person, start.leaves
    boxes, view = _begin(forest, start.root, leaves)
    used, opened, certified, best = 1, 0, 0.0, np.inf
    heap = [(0.0, 0)]
    heap.pop()
    fresh, floor = np.array([0, -1]), 0.0
    while True:
        for b in fresh:
            if b < 0:
                continue
            box = _box(boxes, b)
            whole = cheapest_point(forest, person, box, view.cheapest, view.z)
            if not whole <= cap or whole >= best:
                continue
            if score_at(forest, view.z, view.at_z) >= target:
                best = whole
                point[:] = view.z
                continue
            # leaves that a box cannot afford are out of reach of its parts as well
            roof = min(best, cap)
            write_front(forest, person, leaves, box, view.cheapest, view.at_z, roof,
                        boxes.alive[b], view.front)  # fmt: skip
            bound = least_price(forest, leaves, view.front, view.at_z, target, max(floor, whole),
                                roof, view.chosen)  # fmt: skip
            if not bound < best:
                continue
            split = choose_split(forest, leaves, box, view.z, view.at_z, view.chosen)
            if split.kind < 0:
                continue  # cannot happen: the chosen leaves reach the target, the point does not
            boxes.split[b, 0], boxes.split[b, 1], boxes.split[b, 2] = split
            heapq.heappush(heap, (bound, -b))  # among equals the newest, to find a point soon
        if len(heap) == 0 or heap[0][0] >= best:
            return best, best, opened
        certified = max(certified, heap[0][0])
        if opened >= limit:
            return certified, best, opened
        opened += 1
        floor, b = heapq.heappop(heap)
        if used == boxes.low.shape[0]:
            boxes = _larger(boxes)
        _halve(forest, boxes, -b, used)
        fresh[0], fresh[1] = used, -b
        used += 1


@numba.njit(cache=True, nogil=True)
def _best(
    forest: Forest, start: _Start, cap: float, limit: int, point: IntArray
) -> tuple[float, float, float]:
    """Return the best score within the cap, an upper bound on it, and the price of the point."""
    person, leaves = start.person, start.leaves
    boxes, view = _begin(forest, start.root, leaves)
    used, opened, best, paid = 1, 0, -np.inf, 0.0
    heap = [(0.0, 0)]
    heap.pop()
    fresh = np.array([0, -1])
    while True:
        for b in fresh:
            if b < 0:
                continue
            box = _box(boxes, b)
            whole = cheapest_point(forest, person, box, view.cheapest, view.z)
            if not whole <= cap:
                continue
            score = score_at(forest, view.z, view.at_z)
            if score > best or (score == best and whole < paid):
                best, paid = score, whole
                point[:] = view.z
            write_front(forest, person, leaves, box, view.cheapest, view.at_z, cap,
                        boxes.alive[b], view.front)  # fmt: skip
            bound = sum_within(forest, leaves, view.front, view.at_z, cap, view.chosen)
            if bound <= best:
                continue
            split = choose_split(forest, leaves, box, view.z, view.at_z, view.chosen)
            if split.kind < 0:
                continue  # the bound is the score of the point itself
            boxes.split[b, 0], boxes.split[b, 1], boxes.split[b, 2] = split
            heapq.heappush(heap, (-bound, -b))
        if len(heap) == 0 or -heap[0][0] <= best:
            return best, best, paid
        if opened >= limit:
            return best, -heap[0][0], paid
        opened += 1
        _, b = heapq.heappop(heap)
        if used == boxes.low.shape[0]:
            boxes = _larger(boxes)
        _halve(forest, boxes, -b, used)
        fresh[0], fresh[1] = used, -b
        used += 1
