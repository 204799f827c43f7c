"""The cheapest accepted move against a tree ensemble as a mixed-integer program: the slow way.

Every ordered block has one binary per cut ("not beyond it"), every other block one per option; a
leaf can be taken only if the block lies within it (Kantchelian, Tygar and Joseph 2016). It serves
as an independent check of the search, and as its measure of speed.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from counterplay.core.programs import minimize_integer
from counterplay.core.validation import IntArray
from counterplay.strategic.cell_prices import CellPrices
from counterplay.strategic.tree_cells import Cells


class _Rows:
    """Constraints ``low <= row x <= high``, collected one by one."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, float]] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def add(self, terms: list[tuple[int, float]], low: float, high: float) -> None:
        self.entries += [(len(self.low), column, weight) for column, weight in terms]
        self.low.append(low)
        self.high.append(high)


def cheapest_by_milp(
    cells: Cells,
    prices: CellPrices,
    own: IntArray,
    i: int,
    target: float,
    cap: float,
    time_limit: float | None = None,
) -> tuple[float, float]:
    """Return lower and upper price of person i; prices must add up.

    Both are infinite if nothing within the cap is accepted; they differ only if time ran out.
    """
    forest, offset = cells.forest, cells.offset
    price = prices.price[i]
    count = int(offset[-1])  # one binary per cell of every block: "the block is in this cell"
    leaves = forest.leaf_value.size
    gaps = len(cells.blocks)  # one more per block: "no value"
    rows = _Rows()
    hole = prices.missing[i]
    cost = np.concatenate((price, hole, np.zeros(leaves)))
    upper = np.where(np.isfinite(cost), 1.0, 0.0)
    for g in range(gaps):
        terms = [(c, 1.0) for c in range(offset[g], offset[g + 1])] + [(count + g, 1.0)]
        rows.add(terms, 1.0, 1.0)
    for t in range(forest.tree_start.size - 1):
        mine = np.flatnonzero(forest.leaf_tree == t)
        rows.add([(count + gaps + int(leaf), 1.0) for leaf in mine], 1.0, 1.0)
    for leaf in range(leaves):
        for e in range(forest.leaf_start[leaf], forest.leaf_start[leaf + 1]):
            inside = _inside(cells, e)
            terms = [(c, 1.0) for c in inside] + [(count + gaps + leaf, -1.0)]
            if forest.entry_missing[e]:
                terms.append((count + int(forest.entry_block[e]), 1.0))
            rows.add(terms, 0.0, np.inf)
    values = [(count + gaps + k, float(v)) for k, v in enumerate(forest.leaf_value)]
    rows.add(values, target, np.inf)
    finite = np.where(np.isfinite(cost), cost, 0.0)
    rows.add([(c, float(finite[c])) for c in range(count + gaps)], 0.0, min(cap, 1e6))
    r, c, w = zip(*rows.entries)
    matrix = sparse.csr_array((w, (r, c)), shape=(len(rows.low), cost.size))
    found = minimize_integer(
        finite,
        rows=matrix,
        low=rows.low,
        high=rows.high,
        integers=np.concatenate((np.ones(count + gaps), np.zeros(leaves))),
        bounds=(0.0, upper),
        gap=0.0,
        time_limit=time_limit,
        allow=("infeasible", "limit"),
    )
    if found.status == "infeasible":
        return np.inf, np.inf
    if found.status == "limit":
        bound = 0.0 if found.bound is None else found.bound
        return float(bound), np.inf if found.x is None else found.value
    return found.value, found.value


def _inside(cells: Cells, e: int) -> list[int]:
    """Return the cells of a block that an entry of a leaf holds."""
    forest = cells.forest
    g = int(forest.entry_block[e])
    start = int(cells.offset[g])
    if forest.ordered[g]:
        low, high = int(forest.entry_low[e]), int(forest.entry_high[e])
        return list(range(start + low, start + high + 1))
    size = int(cells.offset[g + 1]) - start
    bits = forest.entry_masks[forest.entry_mask[e], :size]
    return [start + k for k in np.flatnonzero(bits == 1).tolist()]
