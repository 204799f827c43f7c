"""Boxes of cells of a tree ensemble: the steps that every search over them is made of.

A box is a range of cells per ordered block, whether it holds "missing", and a set of options per
unordered block. The steps are: its cheapest point, the score of a point, and its two parts. They
are compiled; each has the arrays it needs in one tuple.

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
    path, the entries ``leaf_start[l] .. leaf_start[l + 1]``. The leaves of a tree stand together,
    best first.
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


class Split(NamedTuple):
    """Where a box is split: kind, block, and cut or row of ``entry_masks``."""

    kind: int
    block: int
    place: int


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def whole_box(forest: Forest, person: Person, cap: float, box: Box) -> None:
    """Write the box of everything that costs at most the cap in its block alone."""
    for g in range(forest.ordered.size):
        start, end = forest.offset[g], forest.offset[g + 1]
        box.low[g], box.high[g], box.gap[g] = 0, -1, 0
        if not forest.ordered[g]:
            for c in range(start, end):
                box.bits[c] = 1 if np.isfinite(person.price[c]) and person.price[c] <= cap else 0
            continue
        box.gap[g] = 1 if np.isfinite(person.hole[g]) and person.hole[g] <= cap else 0
        for c in range(start, end):
            if np.isfinite(person.price[c]) and person.price[c] <= cap:
                box.low[g] = c - start if box.high[g] < 0 else box.low[g]
                box.high[g] = c - start


@numba.njit(cache=True, nogil=True)
def cheapest_point(
    forest: Forest, person: Person, box: Box, cheapest: FloatArray, z: IntArray
) -> float:
    """Write the cheapest point of a box and its price per block; return its price."""
    # arrays of the loop below, taken out of their tuples once: reading a tuple costs as much
    ordered, offset = forest.ordered, forest.offset
    price, hole, own, largest = person.price, person.hole, person.own, person.largest
    following, previous = person.following, person.previous
    ranked, ranked_end = person.ranked, person.ranked_end
    low, high, gap, bits = box.low, box.high, box.gap, box.bits
    whole = 0.0
    for g in range(ordered.size):
        start = offset[g]
        c, value = -1, np.inf
        if ordered[g]:
            # prices rise away from the own cell: the cheapest of a range is next to it
            if low[g] <= high[g]:
                if own[g] >= 0 and low[g] <= own[g] <= high[g]:
                    c = own[g]
                elif own[g] < 0 or low[g] > own[g]:
                    c = following[start + low[g]]
                    c = c if c <= high[g] else -1
                else:
                    c = previous[start + high[g]]
                    c = c if c >= low[g] else -1
            value = price[start + c] if c >= 0 else np.inf
            if gap[g] == 1 and hole[g] < value:
                c, value = -1, hole[g]
        else:
            for i in range(start, ranked_end[g]):
                if bits[ranked[i]] == 1:
                    c, value = ranked[i] - start, price[ranked[i]]
                    break
        cheapest[g], z[g] = value, c
        if not np.isfinite(value):
            return np.inf
        whole = max(whole, value) if largest else whole + value
    return whole


@numba.njit(inline="always")
def plus(single: bool, total: float, value: float) -> float:
    """Add one leaf as the model adds it."""
    if single:
        total = float(np.float32(np.float32(total) + np.float32(value)))
    else:
        total = total + value
    return total


@numba.njit(cache=True, nogil=True)
def score_at(forest: Forest, z: IntArray, at_z: FloatArray) -> float:
    """Write the value of the leaf of every tree at a point; return their sum in tree order."""
    tree_start, left, right, block = forest.tree_start, forest.left, forest.right, forest.block
    cut, flip, missing_left = forest.cut, forest.flip, forest.missing_left
    mask, masks, value, ordered = forest.mask, forest.masks, forest.value, forest.ordered
    single, score = forest.single, forest.start
    for t in range(at_z.size):
        node = tree_start[t]
        while left[node] >= 0:
            g = block[node]
            if not ordered[g]:
                goes = masks[mask[node], z[g]] == 1
            elif z[g] < 0:
                goes = missing_left[node]
            else:
                goes = (z[g] <= cut[node]) != flip[node]
            node = left[node] if goes else right[node]
        at_z[t] = value[node]
        score = plus(single, score, value[node])
    return score


@numba.njit(cache=True, nogil=True)
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
