"""The leaves that a person can afford, and what they say about a box of cells.

The bound of a box asks for the least price at which the best affordable leaf of every tree is good
enough. Only leaves matter that no other leaf of their tree beats in value and in price: the front.
The leaves of a tree are looked at from the best to the worst, so one pass finds it, and the pass
ends at the leaf of the cheapest point, which nothing undercuts.

Source: "Tree ensembles", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.strategic.tree_boxes import (
    AT_CUT,
    AT_GAP,
    AT_OPTIONS,
    Bits,
    Box,
    Forest,
    Person,
    Split,
    plus,
)

WORD = 62  # bits of a word that say which leaves a box can still reach


class Leaves(NamedTuple):
    """Leaves that cost at most the cap, with the entries that bind anything within it."""

    tree_start: IntArray  # first leaf of each tree; within a tree the best leaf comes first
    value: FloatArray
    start: IntArray  # first entry of each leaf
    block: IntArray
    low: IntArray
    high: IntArray
    missing: BoolArray
    mask: IntArray


class Front(NamedTuple):
    """Per tree the leaves that no leaf of the same tree beats, best and dearest first.

    The last one of every tree is that of the cheapest point; it is called -1.
    """

    start: IntArray
    leaf: IntArray
    cost: FloatArray


@numba.njit(inline="always")
def _range_price(
    price: FloatArray, following: IntArray, previous: IntArray, own: int, start: int, a: int, b: int
) -> float:
    """Return the price of the cheapest cell of a range: the one next to the own cell."""
    cost = np.inf
    if a <= b:
        if own >= 0 and a <= own <= b:
            cost = 0.0
        elif own < 0 or a > own:
            c = following[start + a]
            cost = price[start + c] if c <= b else np.inf
        else:
            c = previous[start + b]
            cost = price[start + c] if c >= a else np.inf
    return cost


@numba.njit(inline="always")
def _option_price(
    price: FloatArray, ranked: IntArray, bits: Bits, mask: Bits, start: int, end: int
) -> float:
    """Return the price of the cheapest option that a box and a leaf both leave open."""
    cost = np.inf
    for r in range(start, end):
        k = ranked[r]
        if bits[k] == 1 and mask[k - start] == 1:
            cost = price[k]
            break
    return cost


@numba.njit(cache=True, nogil=True)
def affordable_leaves(
    forest: Forest, person: Person, box: Box, cheapest: FloatArray, cap: float
) -> Leaves:
    """Return the leaves that cost at most the cap within the whole box."""
    # arrays of the loops below, taken out of their tuples once
    leaf_start, entry_block, entry_mask = forest.leaf_start, forest.entry_block, forest.entry_mask
    entry_low, entry_high = forest.entry_low, forest.entry_high
    entry_missing, masks = forest.entry_missing, forest.entry_masks
    ordered, offset = forest.ordered, forest.offset
    price, hole, own = person.price, person.hole, person.own
    following, previous, largest = person.following, person.previous, person.largest
    ranked, ranked_end = person.ranked, person.ranked_end
    box_low, box_high, gap, bits = box.low, box.high, box.gap, box.bits
    whole = _together(cheapest, largest)
    size = forest.leaf_value.size
    keep, binds = np.zeros(size, np.bool_), np.zeros(entry_block.size, np.bool_)
    count, many = 0, 0
    for leaf in range(size):
        total, mine = whole, 0
        for e in range(leaf_start[leaf], leaf_start[leaf + 1]):
            g = entry_block[e]
            start = offset[g]
            # an entry binds if it leaves out anything of the whole box
            if ordered[g]:
                cells = entry_low[e] > box_low[g] or entry_high[e] < box_high[g]
                binds[e] = (box_low[g] <= box_high[g] and cells) or (
                    gap[g] == 1 and not entry_missing[e]
                )
            else:
                for r in range(start, ranked_end[g]):
                    if bits[ranked[r]] == 1 and masks[entry_mask[e], ranked[r] - start] == 0:
                        binds[e] = True
                        break
            if not binds[e]:
                continue
            mine += 1
            if ordered[g]:
                a, b = max(box_low[g], entry_low[e]), min(box_high[g], entry_high[e])
                cost = _range_price(price, following, previous, own[g], start, a, b)
                if entry_missing[e] and gap[g] == 1 and hole[g] < cost:
                    cost = hole[g]
            else:
                row = masks[entry_mask[e]]
                cost = _option_price(price, ranked, bits, row, start, ranked_end[g])
            total = max(total, cost) if largest else total + (cost - cheapest[g])
            if total > cap:
                break
        if total <= cap:
            keep[leaf] = True
            count += 1
            many += mine
    return _kept(forest, keep, binds, count, many)


@numba.njit(cache=True, nogil=True)
def _together(cheapest: FloatArray, largest: bool) -> float:
    """Return the price of a point from the prices of its blocks."""
    whole = 0.0
    for g in range(cheapest.size):
        whole = max(whole, cheapest[g]) if largest else whole + cheapest[g]
    return whole


@numba.njit(cache=True, nogil=True)
def _kept(forest: Forest, keep: BoolArray, binds: BoolArray, count: int, many: int) -> Leaves:
    """Return kept leaves with their binding entries, side by side."""
    trees = forest.tree_start.size - 1
    found = Leaves(
        np.zeros(trees + 1, np.int64),
        np.empty(count),
        np.zeros(count + 1, np.int64),
        np.empty(many, np.int64),
        np.empty(many, np.int64),
        np.empty(many, np.int64),
        np.empty(many, np.bool_),
        np.empty(many, np.int64),
    )
    # arrays of the loops below, taken out of their tuples once: reading a tuple costs as much
    leaf_value, leaf_tree, leaf_start = forest.leaf_value, forest.leaf_tree, forest.leaf_start
    tree_start, value, start = found.tree_start, found.value, found.start
    i, m = 0, 0
    taken = np.empty(many, np.int64)
    for leaf in range(keep.size):
        if not keep[leaf]:
            continue
        value[i] = leaf_value[leaf]
        tree_start[leaf_tree[leaf] + 1] += 1
        for e in range(leaf_start[leaf], leaf_start[leaf + 1]):
            if binds[e]:
                taken[m] = e
                m += 1
        i += 1
        start[i] = m
    found.block[:], found.mask[:] = forest.entry_block[taken], forest.entry_mask[taken]
    found.low[:], found.high[:] = forest.entry_low[taken], forest.entry_high[taken]
    found.missing[:] = forest.entry_missing[taken]
    for t in range(trees):
        tree_start[t + 1] += tree_start[t]
    return found


@numba.njit(cache=True, nogil=True)
def write_front(
    forest: Forest,
    person: Person,
    leaves: Leaves,
    box: Box,
    cheapest: FloatArray,
    at_z: FloatArray,
    roof: float,
    alive: IntArray,
    front: Front,
) -> None:
    """Write the front of a box, up to the roof; forget leaves that cost more.

    A leaf costs what the cheapest point costs, plus what its own blocks cost more than there.
    """
    # arrays of the loops below, taken out of their tuples once
    value, first, tree_start = leaves.value, leaves.start, leaves.tree_start
    block, low, high = leaves.block, leaves.low, leaves.high
    missing, mask = leaves.missing, leaves.mask
    ordered, offset, masks = forest.ordered, forest.offset, forest.entry_masks
    price, hole, own = person.price, person.hole, person.own
    following, previous = person.following, person.previous
    ranked, ranked_end, largest = person.ranked, person.ranked_end, person.largest
    box_low, box_high, gap, bits = box.low, box.high, box.gap, box.bits
    front_start, front_leaf, front_cost = front.start, front.leaf, front.cost
    whole = _together(cheapest, largest)
    count = 0
    for t in range(at_z.size):
        front_start[t] = count
        least = np.inf
        for i in range(tree_start[t], tree_start[t + 1]):
            # no leaf below the own one of the cheapest point matters
            if value[i] <= at_z[t]:
                break
            if alive[i // WORD] >> (i % WORD) & 1 == 0:
                continue
            total = whole
            for e in range(first[i], first[i + 1]):
                g = block[e]
                start = offset[g]
                if ordered[g]:
                    a, b = max(box_low[g], low[e]), min(box_high[g], high[e])
                    cost = _range_price(price, following, previous, own[g], start, a, b)
                    if missing[e] and gap[g] == 1 and hole[g] < cost:
                        cost = hole[g]
                else:
                    row = masks[mask[e]]
                    cost = _option_price(price, ranked, bits, row, start, ranked_end[g])
                total = max(total, cost) if largest else total + (cost - cheapest[g])
                if total >= least or total > roof:
                    break
            if total > roof:  # out of reach of this box and of its parts
                alive[i // WORD] &= ~(np.int64(1) << (i % WORD))
            elif total < least:
                front_leaf[count], front_cost[count] = i, total
                least = total
                count += 1
        front_leaf[count], front_cost[count] = -1, whole
        count += 1
    front_start[at_z.size] = count


@numba.njit(cache=True, nogil=True)
def sum_within(forest: Forest, leaves: Leaves, front: Front, at_z: FloatArray, c: float,
               chosen: IntArray) -> float:  # fmt: skip
    """Choose the best leaf of every tree that costs at most c; return the sum in tree order.

    Rounded sums in one order are monotone in their terms, so this is at least the score of every
    point of the box that costs at most c, to the last bit.
    """
    start, leaf, cost, value = front.start, front.leaf, front.cost, leaves.value
    single, total = forest.single, forest.start
    for t in range(chosen.size):
        i, end = start[t], start[t + 1] - 1
        while i < end and cost[i] > c:
            i += 1
        chosen[t] = leaf[i]
        total = plus(single, total, at_z[t] if leaf[i] < 0 else value[leaf[i]])
    return total


@numba.njit(cache=True, nogil=True)
def least_price(
    forest: Forest,
    leaves: Leaves,
    front: Front,
    at_z: FloatArray,
    target: float,
    floor: float,
    roof: float,
    chosen: IntArray,
) -> float:
    """Return the least c from the floor on whose affordable leaves reach the target.

    Infinite if none up to the roof does. ``chosen`` gets the leaves at that price.
    """
    # nothing within the roof suffices: the usual end of a box
    if sum_within(forest, leaves, front, at_z, roof, chosen) < target:
        return np.inf
    # no part of a box is cheaper than the box; often it is as cheap
    if sum_within(forest, leaves, front, at_z, floor, chosen) >= target:
        return floor
    # the sum jumps only at the prices of leaves: bisection over them
    count, size, cost = 0, front.start[-1], front.cost
    costs = np.empty(size)
    for i in range(size):
        if floor < cost[i] <= roof:
            costs[count] = cost[i]
            count += 1
    costs = np.sort(costs[:count])
    a, b = 0, count - 1
    while a < b:
        middle = (a + b) // 2
        if sum_within(forest, leaves, front, at_z, costs[middle], chosen) >= target:
            b = middle
        else:
            a = middle + 1
    sum_within(forest, leaves, front, at_z, costs[a], chosen)
    return float(costs[a])


@numba.njit(cache=True, nogil=True)
def choose_split(forest: Forest, leaves: Leaves, box: Box, z: IntArray, at_z: FloatArray,
                 chosen: IntArray) -> Split:  # fmt: skip
    """Return the split between z and the chosen leaves that carries most of their surplus."""
    value, first, block = leaves.value, leaves.start, leaves.block
    low, high, missing, mask = leaves.low, leaves.high, leaves.missing, leaves.mask
    ordered, offset, masks, gap = forest.ordered, forest.offset, forest.entry_masks, box.gap
    cuts, gaps, rows = np.zeros(offset[-1]), np.zeros(z.size), np.zeros(masks.shape[0])
    heaviest, kind, where, place = -1.0, -1, -1, -1
    for t in range(chosen.size):
        if chosen[t] < 0:
            continue
        gain = value[chosen[t]] - at_z[t]
        for e in range(first[chosen[t]], first[chosen[t] + 1]):
            g = block[e]
            if not ordered[g]:
                row = mask[e]
                if masks[row, z[g]] == 1:
                    continue
                rows[row] += gain
                if rows[row] > heaviest:
                    heaviest, kind, where, place = rows[row], AT_OPTIONS, g, row
                continue
            inside = missing[e] if z[g] < 0 else low[e] <= z[g] <= high[e]
            if inside:
                continue
            if z[g] < 0 or gap[g] == 1:  # first set "missing" apart
                gaps[g] += gain
                if gaps[g] > heaviest:
                    heaviest, kind, where, place = gaps[g], AT_GAP, g, 0
                continue
            k = low[e] - 1 if z[g] < low[e] else high[e]
            cell = offset[g] + k
            cuts[cell] += gain
            if cuts[cell] > heaviest:
                heaviest, kind, where, place = cuts[cell], AT_CUT, g, k
    return Split(kind, where, place)
