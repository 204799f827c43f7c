"""Best-first search over boxes of cells: the cheapest accepted move against a tree ensemble.

A box is a range of cells per column. Its bound is the least price at which the best leaves of all
trees within the box, each affordable at that price, together reach the cut. The box with the least
bound is split where its chosen leaves disagree most with its cheapest point. The least bound in
the heap is a certified lower bound at any time.

Source: "Tree ensembles", see docs/theory/20-moves.md.
"""

from __future__ import annotations

import heapq
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.strategic.tree_cells import CellPrices, Cells

Bits = NDArray[np.uint8]


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
    n = own.shape[0]
    lower, upper = np.zeros(n), np.full(n, np.inf)
    points = own.copy()
    for i in range(n):
        lower[i], upper[i] = _search(
            cells.tree_start,
            cells.node_left,
            cells.node_right,
            cells.node_block,
            cells.node_cut,
            cells.node_flip,
            cells.node_missing_left,
            cells.node_mask,
            cells.node_value,
            cells.masks,
            cells.leaf_tree,
            cells.leaf_value,
            cells.leaf_start,
            cells.entry_block,
            cells.entry_low,
            cells.entry_high,
            cells.entry_missing,
            cells.entry_mask,
            cells.entry_masks,
            cells.ordered,
            cells.offset,
            prices.price[i],
            prices.missing[i],
            own[i],
            target,
            cap,
            np.isinf(power),
            nodes,
            points[i],
        )
    return lower, upper, points


@numba.njit(cache=True)
def _steps_to_open(
    price: FloatArray, offset: IntArray, ordered: BoolArray
) -> tuple[IntArray, IntArray]:
    """Return, per cell, the next and the previous cell of its block with a finite price."""
    total = price.size
    following, previous = np.empty(total, np.int64), np.empty(total, np.int64)
    for g in range(offset.size - 1):
        last = offset[g + 1] - offset[g]
        for c in range(offset[g + 1] - 1, offset[g] - 1, -1):
            if np.isfinite(price[c]):
                last = c - offset[g]
            following[c] = last
        last = -1
        for c in range(offset[g], offset[g + 1]):
            if np.isfinite(price[c]):
                last = c - offset[g]
            previous[c] = last
    return following, previous


@numba.njit(cache=True)
def _cheapest_cell(
    own: int, start: int, low: int, high: int, following: IntArray, previous: IntArray
) -> int:
    """Return the cheapest cell of a range (prices rise away from the own cell), -1 if none."""
    if low > high:
        return -1
    if own >= 0 and low <= own <= high:
        return own
    if own < 0 or low > own:
        c = following[start + low]
        return c if c <= high else -1
    c = previous[start + high]
    return c if c >= low else -1


@numba.njit(cache=True)
def _search(
    tree_start: IntArray,
    node_left: IntArray,
    node_right: IntArray,
    node_block: IntArray,
    node_cut: IntArray,
    node_flip: BoolArray,
    node_missing_left: BoolArray,
    node_mask: IntArray,
    node_value: FloatArray,
    masks: Bits,
    leaf_tree: IntArray,
    leaf_value: FloatArray,
    leaf_start: IntArray,
    entry_block: IntArray,
    entry_low: IntArray,
    entry_high: IntArray,
    entry_missing: BoolArray,
    entry_mask: IntArray,
    entry_masks: Bits,
    ordered: BoolArray,
    offset: IntArray,
    price: FloatArray,
    hole: FloatArray,
    own: IntArray,
    target: float,
    cap: float,
    largest: bool,
    limit: int,
    point: IntArray,
) -> tuple[float, float]:
    """Search for one person; ``point`` gets the best cells (-1: missing)."""
    blocks, trees, total = ordered.size, tree_start.size - 1, price.size
    following, previous = _steps_to_open(price, offset, ordered)
    leaves = leaf_value.size
    kept, cost = np.empty(leaves, np.int64), np.empty(leaves)
    size = 64
    low, high = np.zeros((size, blocks), np.int64), np.zeros((size, blocks), np.int64)
    gap = np.zeros((size, blocks), np.uint8)  # 1 if the box holds "missing"
    bits = np.zeros((size, total), np.uint8)  # options of unordered blocks
    for g in range(blocks):
        low[0, g], high[0, g] = 0, offset[g + 1] - offset[g] - 1
        gap[0, g] = 1 if ordered[g] and np.isfinite(hole[g]) else 0
        if not ordered[g]:
            for c in range(offset[g], offset[g + 1]):
                bits[0, c] = 1 if np.isfinite(price[c]) else 0
    used = 1
    cheapest, z = np.zeros(blocks), np.zeros(blocks, np.int64)
    stamp = np.full(blocks, -1, np.int64)
    weight_cut, weight_gap = np.zeros(total), np.zeros(blocks)
    weight_mask = np.zeros(entry_masks.shape[0])
    chosen, at_z = np.zeros(trees, np.int64), np.zeros(trees)
    split_block = np.full(size, -1, np.int64)
    split_cut, split_kind = np.zeros(size, np.int64), np.zeros(size, np.int64)
    count = leaves
    for leaf in range(leaves):
        kept[leaf] = leaf
    best = np.inf
    heap = [(0.0, -1)]
    heap.pop()
    waiting = 0  # boxes made but not yet evaluated
    first = True
    opened = 0
    certified = 0.0
    while True:
        while waiting < used:
            b = waiting
            waiting += 1
            # the cheapest point of the box, block by block
            whole = 0.0
            feasible = True
            for g in range(blocks):
                if ordered[g]:
                    c = _cheapest_cell(
                        own[g], offset[g], low[b, g], high[b, g], following, previous
                    )
                    value = price[offset[g] + c] if c >= 0 else np.inf
                    if gap[b, g] == 1 and hole[g] < value:
                        c, value = -1, hole[g]
                else:
                    c, value = -1, np.inf
                    for k in range(offset[g], offset[g + 1]):
                        if bits[b, k] == 1 and price[k] < value:
                            c, value = k - offset[g], price[k]
                cheapest[g], z[g] = value, c
                if not np.isfinite(value):
                    feasible = False
                    break
                whole = max(whole, value) if largest else whole + value
            if not feasible or whole > cap or whole >= best:
                continue
            # is that point accepted?
            score = 0.0
            for t in range(trees):
                node = tree_start[t]
                while node_left[node] >= 0:
                    g = node_block[node]
                    if not ordered[g]:
                        left = masks[node_mask[node], z[g]] == 1
                    elif z[g] < 0:
                        left = node_missing_left[node]
                    else:
                        left = (z[g] <= node_cut[node]) != node_flip[node]
                    node = node_left[node] if left else node_right[node]
                at_z[t] = node_value[node]
                score += node_value[node]
            if score >= target:
                best = whole
                for g in range(blocks):
                    point[g] = z[g]
                continue
            # price of every leaf within the box
            for i in range(count):
                leaf = kept[i]
                sum_ = 0.0
                for e in range(leaf_start[leaf], leaf_start[leaf + 1]):
                    g = entry_block[e]
                    stamp[g] = leaf
                    if ordered[g]:
                        c = _cheapest_cell(
                            own[g],
                            offset[g],
                            max(low[b, g], entry_low[e]),
                            min(high[b, g], entry_high[e]),
                            following,
                            previous,
                        )
                        value = price[offset[g] + c] if c >= 0 else np.inf
                        if gap[b, g] == 1 and entry_missing[e]:
                            value = min(value, hole[g])
                    else:
                        value = np.inf
                        row = entry_mask[e]
                        for k in range(offset[g], offset[g + 1]):
                            if bits[b, k] == 1 and entry_masks[row, k - offset[g]] == 1:
                                value = min(value, price[k])
                    sum_ = max(sum_, value) if largest else sum_ + value
                    if not np.isfinite(sum_):
                        break
                if np.isfinite(sum_):
                    for g in range(blocks):
                        if cheapest[g] > 0.0 and stamp[g] != leaf:
                            sum_ = max(sum_, cheapest[g]) if largest else sum_ + cheapest[g]
                cost[i] = sum_
                for e in range(leaf_start[leaf], leaf_start[leaf + 1]):
                    stamp[entry_block[e]] = -1
            if first:  # leaves beyond the budget never come back
                first = False
                few = 0
                for i in range(count):
                    if np.isfinite(cost[i]) and cost[i] <= cap * (1.0 + 1e-12):
                        kept[few], cost[few] = kept[i], cost[i]
                        few += 1
                count = few
            # least c at which affordable leaves reach the target
            roof = min(best, min(cap, 1e300))  # an infinite price is no price
            base, top, sure = -1.0, -1.0, False
            for i in range(count):
                if cost[i] <= roof and cost[i] > top:
                    top = cost[i]
            if top < 0.0:
                continue
            reach = _best_leaves(top, count, kept, cost, leaf_tree, leaf_value, trees, chosen)
            if reach < target:
                continue
            base = -1.0
            for _ in range(40):
                middle = 0.5 * (base + top) if base >= 0.0 else whole
                inner, next_ = -1.0, np.inf
                for i in range(count):
                    if cost[i] <= middle:
                        inner = max(inner, cost[i])
                    else:
                        next_ = min(next_, cost[i])
                reach = _best_leaves(
                    middle, count, kept, cost, leaf_tree, leaf_value, trees, chosen
                )
                if reach >= target:
                    top = min(top, inner)
                    if base >= 0.0 and not base < top:
                        sure = True
                        break
                    if base < 0.0:
                        sure = True
                        break
                else:
                    base = middle
                    if next_ >= top:
                        sure = True
                        break
            bound = top
            if not sure:  # the next leaf price above a level that does not reach
                bound = top
                for i in range(count):
                    if cost[i] > base and cost[i] < bound:
                        bound = cost[i]
            bound = max(bound, whole)
            if bound >= best:
                continue
            _best_leaves(top, count, kept, cost, leaf_tree, leaf_value, trees, chosen)
            # where to split: chosen leaves that the cheapest point is not in
            weight_cut[:] = 0.0
            weight_gap[:] = 0.0
            weight_mask[:] = 0.0
            heaviest, kind, where, place = -1.0, -1, -1, -1
            for t in range(trees):
                leaf = chosen[t]
                gain = leaf_value[leaf] - at_z[t]
                if gain <= 0.0:
                    continue
                for e in range(leaf_start[leaf], leaf_start[leaf + 1]):
                    g = entry_block[e]
                    if ordered[g]:
                        if z[g] < 0:
                            if entry_missing[e]:
                                continue
                            weight_gap[g] += gain
                            if weight_gap[g] > heaviest:
                                heaviest, kind, where, place = weight_gap[g], 1, g, 0
                            continue
                        if entry_low[e] <= z[g] <= entry_high[e]:
                            continue
                        if gap[b, g] == 1:  # first set "missing" apart
                            weight_gap[g] += gain
                            if weight_gap[g] > heaviest:
                                heaviest, kind, where, place = weight_gap[g], 1, g, 0
                            continue
                        k = entry_low[e] - 1 if z[g] < entry_low[e] else entry_high[e]
                        weight_cut[offset[g] + k] += gain
                        if weight_cut[offset[g] + k] > heaviest:
                            heaviest, kind, where, place = weight_cut[offset[g] + k], 0, g, k
                    else:
                        row = entry_mask[e]
                        if entry_masks[row, z[g]] == 1:
                            continue
                        weight_mask[row] += gain
                        if weight_mask[row] > heaviest:
                            heaviest, kind, where, place = weight_mask[row], 2, g, row
            if kind < 0:
                continue  # cannot happen: the chosen leaves reach the target, the point does not
            split_block[b], split_cut[b], split_kind[b] = where, place, kind
            heapq.heappush(heap, (bound, b))
        if len(heap) == 0:
            return best, best
        certified = max(certified, heap[0][0])
        if heap[0][0] >= best:
            return best, best
        if opened >= limit:
            return certified, best
        opened += 1
        _, b = heapq.heappop(heap)
        if used + 2 > size:
            low = np.concatenate((low, np.zeros((size, blocks), np.int64)))
            high = np.concatenate((high, np.zeros((size, blocks), np.int64)))
            gap = np.concatenate((gap, np.zeros((size, blocks), np.uint8)))
            bits = np.concatenate((bits, np.zeros((size, total), np.uint8)))
            split_block = np.concatenate((split_block, np.zeros(size, np.int64)))
            split_cut = np.concatenate((split_cut, np.zeros(size, np.int64)))
            split_kind = np.concatenate((split_kind, np.zeros(size, np.int64)))
            size *= 2
        for child in range(2):
            c = used
            used += 1
            low[c], high[c], gap[c], bits[c] = low[b], high[b], gap[b], bits[b]
            g = split_block[b]
            if split_kind[b] == 1:  # missing, or present
                if child == 0:
                    low[c, g], high[c, g] = 0, -1
                else:
                    gap[c, g] = 0
            elif split_kind[b] == 0:
                if child == 0:
                    high[c, g] = split_cut[b]
                else:
                    low[c, g] = split_cut[b] + 1
            else:
                for k in range(offset[g], offset[g + 1]):
                    inside = entry_masks[split_cut[b], k - offset[g]]
                    if inside == child:
                        bits[c, k] = 0


@numba.njit(cache=True)
def _best_leaves(
    c: float,
    count: int,
    kept: IntArray,
    cost: FloatArray,
    leaf_tree: IntArray,
    leaf_value: FloatArray,
    trees: int,
    chosen: IntArray,
) -> float:
    """Sum over trees of the best leaf with price at most c; -inf if a tree has none."""
    total = 0.0
    i = 0
    for t in range(trees):
        top, arg = -np.inf, -1
        while i < count and leaf_tree[kept[i]] == t:
            if cost[i] <= c and leaf_value[kept[i]] > top:
                top, arg = leaf_value[kept[i]], kept[i]
            i += 1
        if arg < 0:
            return -np.inf
        chosen[t] = arg
        total += top
    return total


def values_at(
    cells: Cells, prices: CellPrices, points: IntArray, own: IntArray
) -> dict[Any, tuple[IntArray, list[Any]]]:
    """Return points given by cells as changed raw values per column."""
    changes: dict[Any, tuple[IntArray, list[Any]]] = {}
    for g, block in enumerate(cells.blocks):
        if block is None:
            continue
        moved = np.flatnonzero(points[:, g] != own[:, g])
        cell = points[moved, g]
        if cells.ordered[g]:
            raw = prices.value[moved, cells.offset[g] + np.maximum(cell, 0)]
            values: list[Any] = np.where(cell < 0, np.nan, raw).tolist()
        else:
            values = [cells.options[g][k] for k in cell.tolist()]
        changes[cells.columns[g]] = (moved, values)
    return changes
