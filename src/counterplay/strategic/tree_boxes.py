"""Boxes of cells of a tree ensemble: the steps that every search over them is made of.

A box is a range of cells per ordered block, whether it holds "missing", and a set of options per
unordered block. The steps are: its cheapest point, the score of a point, the price of every leaf
within it, and where to split it. They are compiled; each has the arrays it needs in one tuple.

Source: "Tree ensembles", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import BoolArray, FloatArray, IntArray

Bits = NDArray[np.uint8]

AT_CUT, AT_GAP, AT_OPTIONS = 0, 1, 2  # kinds of splits


class Forest(NamedTuple):
    """An ensemble whose splits are cuts of blocks, in flat arrays.

    Block ``g`` owns the cells ``offset[g] .. offset[g + 1]``. Ordered blocks have one cell more
    than cuts; unordered blocks have one cell per option. Leaf ``l`` holds, on the blocks of its
    path, the entries ``leaf_start[l] .. leaf_start[l + 1]``.
    """

    tree_start: IntArray  # first node of each tree
    left: IntArray  # left child; -1 at leaves
    right: IntArray
    block: IntArray
    cut: IntArray  # ordered: cells up to this one go left (or right, if flipped)
    flip: BoolArray
    missing_left: BoolArray
    mask: IntArray  # unordered: row of ``masks``; -1 otherwise
    value: FloatArray
    masks: Bits  # 1 where the option goes left
    leaf_tree: IntArray
    leaf_value: FloatArray
    leaf_start: IntArray
    entry_block: IntArray
    entry_low: IntArray
    entry_high: IntArray
    entry_missing: BoolArray
    entry_mask: IntArray
    entry_masks: Bits
    ordered: BoolArray
    offset: IntArray
    start: float  # what the sum of leaves starts from
    single: bool  # whether it is rounded to 32 bits after every tree


class Person(NamedTuple):
    """What one person pays for cells: prices before the final root, and her own cells."""

    price: FloatArray  # of every cell
    hole: FloatArray  # of having no value, per block
    own: IntArray  # own cell per block; -1 if missing
    following: IntArray  # next cell of the block with a finite price
    previous: IntArray  # previous one
    ranked: IntArray  # options of unordered blocks that she can afford, cheapest first
    ranked_end: IntArray  # end of the ranked options of each block
    largest: bool  # prices combine by the maximum


class Box(NamedTuple):
    """Cells that are still open: ranges, "missing" and options."""

    low: IntArray
    high: IntArray
    gap: Bits
    bits: Bits


class Kept(NamedTuple):
    """Leaves that are affordable at all, in the order of their trees."""

    leaf: IntArray
    cost: FloatArray  # price of the leaf within the box at hand


class Split(NamedTuple):
    """Where a box is split: kind, block, and cut or row of ``entry_masks``."""

    kind: int
    block: int
    place: int


@numba.njit(cache=True)
def person_of(
    forest: Forest, price: FloatArray, hole: FloatArray, own: IntArray, largest: bool
) -> Person:
    """Return a person's prices with the tables that make ranges and options fast."""
    total, blocks = price.size, forest.offset.size - 1
    following, previous = np.empty(total, np.int64), np.empty(total, np.int64)
    ranked, ranked_end = np.empty(total, np.int64), np.zeros(blocks, np.int64)
    for g in range(blocks):
        start, end = forest.offset[g], forest.offset[g + 1]
        if not forest.ordered[g]:
            # options by price, so that the first one that fits is the cheapest
            count = start
            for k in np.argsort(price[start:end]):
                if np.isfinite(price[start + k]):
                    ranked[count] = start + k
                    count += 1
            ranked_end[g] = count
            continue
        last = end - start
        for c in range(end - 1, start - 1, -1):
            if np.isfinite(price[c]):
                last = c - start
            following[c] = last
        last = -1
        for c in range(start, end):
            if np.isfinite(price[c]):
                last = c - start
            previous[c] = last
    return Person(price, hole, own, following, previous, ranked, ranked_end, largest)


@numba.njit(cache=True)
def whole_box(forest: Forest, person: Person, box: Box) -> None:
    """Write the box of everything that the person can have."""
    for g in range(forest.ordered.size):
        box.low[g], box.high[g] = 0, forest.offset[g + 1] - forest.offset[g] - 1
        box.gap[g] = 1 if forest.ordered[g] and np.isfinite(person.hole[g]) else 0
        if not forest.ordered[g]:
            for c in range(forest.offset[g], forest.offset[g + 1]):
                box.bits[c] = 1 if np.isfinite(person.price[c]) else 0


@numba.njit(cache=True)
def _cheapest_cell(person: Person, g: int, start: int, low: int, high: int) -> int:
    """Return the cheapest cell of a range (prices rise away from the own cell), -1 if none."""
    if low > high:
        return -1
    own = person.own[g]
    if own >= 0 and low <= own <= high:
        return int(own)
    if own < 0 or low > own:
        c = person.following[start + low]
        return int(c) if c <= high else -1
    c = person.previous[start + high]
    return int(c) if c >= low else -1


@numba.njit(cache=True)
def cheapest_point(
    forest: Forest, person: Person, box: Box, cheapest: FloatArray, z: IntArray
) -> float:
    """Write the cheapest point of a box and its price per block; return its price."""
    whole = 0.0
    for g in range(forest.ordered.size):
        start = forest.offset[g]
        c, value = -1, np.inf
        if forest.ordered[g]:
            c = _cheapest_cell(person, g, start, box.low[g], box.high[g])
            value = person.price[start + c] if c >= 0 else np.inf
            if box.gap[g] == 1 and person.hole[g] < value:
                c, value = -1, person.hole[g]
        else:
            for i in range(start, person.ranked_end[g]):
                if box.bits[person.ranked[i]] == 1:
                    c, value = person.ranked[i] - start, person.price[person.ranked[i]]
                    break
        cheapest[g], z[g] = value, c
        if not np.isfinite(value):
            return np.inf
        whole = max(whole, value) if person.largest else whole + value
    return whole


@numba.njit(cache=True)
def _plus(forest: Forest, total: float, value: float) -> float:
    """Add one leaf as the model adds it."""
    if forest.single:
        return float(np.float32(np.float32(total) + np.float32(value)))
    return total + value


@numba.njit(cache=True)
def score_at(forest: Forest, z: IntArray, at_z: FloatArray) -> float:
    """Write the value of the leaf of every tree at a point; return their sum in tree order."""
    score = forest.start
    for t in range(forest.tree_start.size - 1):
        node = forest.tree_start[t]
        while forest.left[node] >= 0:
            g = forest.block[node]
            if not forest.ordered[g]:
                left = forest.masks[forest.mask[node], z[g]] == 1
            elif z[g] < 0:
                left = forest.missing_left[node]
            else:
                left = (z[g] <= forest.cut[node]) != forest.flip[node]
            node = forest.left[node] if left else forest.right[node]
        at_z[t] = forest.value[node]
        score = _plus(forest, score, forest.value[node])
    return score


@numba.njit(cache=True)
def _entry_price(forest: Forest, person: Person, box: Box, e: int) -> float:
    """Return the least price of one block within a leaf and a box."""
    g = forest.entry_block[e]
    start = forest.offset[g]
    if forest.ordered[g]:
        low = max(box.low[g], forest.entry_low[e])
        high = min(box.high[g], forest.entry_high[e])
        c = _cheapest_cell(person, g, start, low, high)
        value = person.price[start + c] if c >= 0 else np.inf
        if box.gap[g] == 1 and forest.entry_missing[e]:
            value = min(value, person.hole[g])
        return float(value)
    row = forest.entry_mask[e]
    for i in range(start, person.ranked_end[g]):
        k = person.ranked[i]
        if box.bits[k] == 1 and forest.entry_masks[row, k - start] == 1:
            return float(person.price[k])
    return np.inf


@numba.njit(cache=True)
def leaf_prices(
    forest: Forest,
    person: Person,
    box: Box,
    kept: Kept,
    count: int,
    cheapest: FloatArray,
    roof: float,
) -> None:
    """Write the price of every kept leaf within the box, infinite where it exceeds the roof.

    Blocks on the path are where the leaf asks, the others at their cheapest cell of the box.
    """
    blocks = cheapest.size
    paid = np.empty(blocks, np.int64)
    many = 0
    for g in range(blocks):
        if cheapest[g] > 0.0:
            paid[many] = g
            many += 1
    stamp = np.full(blocks, -1, np.int64)
    for i in range(count):
        leaf = kept.leaf[i]
        total = 0.0
        for e in range(forest.leaf_start[leaf], forest.leaf_start[leaf + 1]):
            stamp[forest.entry_block[e]] = i
            value = _entry_price(forest, person, box, e)
            total = max(total, value) if person.largest else total + value
            if total > roof:
                break
        if total <= roof:
            for m in range(many):
                if stamp[paid[m]] != i:
                    value = cheapest[paid[m]]
                    total = max(total, value) if person.largest else total + value
        kept.cost[i] = total if total <= roof else np.inf


@numba.njit(cache=True)
def recall(alive: IntArray, kept: Kept) -> int:
    """Write the leaves whose bits are set, in the order of their trees; return how many."""
    count = 0
    for word in range(alive.size):
        bits = alive[word]
        if bits == 0:
            continue
        for k in range(62):
            if bits >> k & 1:
                kept.leaf[count] = 62 * word + k
                count += 1
    return count


@numba.njit(cache=True)
def remember(alive: IntArray, kept: Kept, count: int) -> None:
    """Set the bits of the kept leaves: parts of this box need to look at no others."""
    alive[:] = 0
    for i in range(count):
        alive[kept.leaf[i] // 62] |= np.int64(1) << (kept.leaf[i] % 62)


@numba.njit(cache=True)
def affordable(kept: Kept, count: int, cap: float) -> int:
    """Keep only the leaves that cost at most the cap; return how many."""
    few = 0
    for i in range(count):
        if kept.cost[i] <= cap:
            kept.leaf[few], kept.cost[few] = kept.leaf[i], kept.cost[i]
            few += 1
    return few


@numba.njit(cache=True)
def best_leaves(forest: Forest, kept: Kept, count: int, c: float, chosen: IntArray) -> float:
    """Choose the best leaf of every tree that costs at most c; return the sum in tree order.

    -inf if a tree has none. Rounded sums in one order are monotone in their terms, so this is at
    least the score of every point of the box that costs at most c, to the last bit.
    """
    total, i = forest.start, 0
    for t in range(chosen.size):
        top, arg = -np.inf, -1
        while i < count and forest.leaf_tree[kept.leaf[i]] == t:
            if kept.cost[i] <= c and forest.leaf_value[kept.leaf[i]] > top:
                top, arg = forest.leaf_value[kept.leaf[i]], kept.leaf[i]
            i += 1
        chosen[t] = arg
        if arg < 0:
            return -np.inf
        total = _plus(forest, total, top)
    return total


@numba.njit(cache=True)
def choose_split(
    forest: Forest, box: Box, z: IntArray, at_z: FloatArray, chosen: IntArray
) -> Split:
    """Return the split between z and the chosen leaves that carries most of their surplus."""
    cuts, gaps = np.zeros(forest.offset[-1]), np.zeros(z.size)
    rows = np.zeros(forest.entry_masks.shape[0])
    heaviest, kind, where, place = -1.0, -1, -1, -1
    for t in range(chosen.size):
        gain = forest.leaf_value[chosen[t]] - at_z[t]
        if gain <= 0.0:
            continue
        for e in range(forest.leaf_start[chosen[t]], forest.leaf_start[chosen[t] + 1]):
            g = forest.entry_block[e]
            if not forest.ordered[g]:
                row = forest.entry_mask[e]
                if forest.entry_masks[row, z[g]] == 1:
                    continue
                rows[row] += gain
                if rows[row] > heaviest:
                    heaviest, kind, where, place = rows[row], AT_OPTIONS, g, row
                continue
            inside = (
                forest.entry_missing[e]
                if z[g] < 0
                else (forest.entry_low[e] <= z[g] <= forest.entry_high[e])
            )
            if inside:
                continue
            if z[g] < 0 or box.gap[g] == 1:  # first set "missing" apart
                gaps[g] += gain
                if gaps[g] > heaviest:
                    heaviest, kind, where, place = gaps[g], AT_GAP, g, 0
                continue
            k = forest.entry_low[e] - 1 if z[g] < forest.entry_low[e] else forest.entry_high[e]
            cell = forest.offset[g] + k
            cuts[cell] += gain
            if cuts[cell] > heaviest:
                heaviest, kind, where, place = cuts[cell], AT_CUT, g, k
    return Split(kind, where, place)


@numba.njit(cache=True)
def narrow(forest: Forest, box: Box, split: Split, side: int) -> None:
    """Cut a copied box down to one side of a split."""
    g = split.block
    if split.kind == AT_GAP:  # missing, or present
        if side == 0:
            box.low[g], box.high[g] = 0, -1
        else:
            box.gap[g] = 0
    elif split.kind == AT_CUT:
        if side == 0:
            box.high[g] = min(box.high[g], split.place)
        else:
            box.low[g] = max(box.low[g], split.place + 1)
    else:
        for k in range(forest.offset[g], forest.offset[g + 1]):
            if forest.entry_masks[split.place, k - forest.offset[g]] == side:
                box.bits[k] = 0
