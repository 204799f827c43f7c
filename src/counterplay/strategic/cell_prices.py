"""What every cell of a tree ensemble costs each person, and the cheapest value behind it.

Source: "Tree ensembles", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray, IntArray
from counterplay.strategic.asking import Changes
from counterplay.strategic.move_blocks import CategoryBlock
from counterplay.strategic.number_line import price_lines
from counterplay.strategic.tree_cells import Cells, JointCells


@dataclass(frozen=True, eq=False)
class CellPrices:
    """Prices of all cells for some people, before the final root, and the values behind them."""

    price: FloatArray  # (people, cells)
    value: FloatArray  # (people, cells) raw value of ordered cells
    missing: FloatArray  # (people, blocks) price of having no value
    who: IntArray


def price_cells(cells: Cells, who: IntArray, power: float) -> CellPrices:
    """Return the price of the cheapest allowed value of every cell for every person."""
    n, total = who.size, int(cells.offset[-1])
    price, value = np.full((n, total), np.inf), np.full((n, total), np.nan)
    missing = np.full((n, len(cells.blocks)), np.inf)
    rows, own = np.arange(n), cells.own[who]
    for g, block in enumerate(cells.blocks):
        part = slice(int(cells.offset[g]), int(cells.offset[g + 1]))
        if isinstance(block, JointCells):
            for i, person in enumerate(who.tolist()):
                options, cost = block.open_to(person)
                price[i, part.start + options] = cost
        elif block is None:
            present = own[:, g] >= 0
            price[rows[present], part.start + own[present, g]] = 0.0
            missing[~present, g] = 0.0
        elif isinstance(block, CategoryBlock):
            price[:, part] = _category_prices(block, cells.options[g], own[:, g])
    numbers = cells.numbers
    price_lines(
        numbers.lines, numbers.block, cells.offset, numbers.bottom, numbers.top,
        numbers.values[who], own, price, value, missing,
    )  # fmt: skip
    if power == 2:
        price, missing = price**2, missing**2
    return CellPrices(price, value, missing, who)


def _category_prices(block: CategoryBlock, options: list[Any], own: IntArray) -> FloatArray:
    """Return the price of every option; who has a category no switch mentions stays."""
    codes, rows = block.codes(options), np.arange(own.size)
    price = block.price_codes(codes[own][:, None], codes[None, :])
    price[codes[own] == -2] = np.inf
    price[rows, own] = 0.0
    return price


def values_at(cells: Cells, prices: CellPrices, points: IntArray, own: IntArray) -> Changes:
    """Return points given by cells as changed raw values per column."""
    changes: Changes = {}
    differs = points != own
    still = ~differs.any(axis=0)
    for g, block in enumerate(cells.blocks):
        if block is None:
            continue
        if still[g] and not isinstance(block, JointCells):
            changes[cells.columns[g]] = (np.zeros(0, dtype=np.int64), [])
            continue
        moved = np.flatnonzero(differs[:, g])
        cell = points[moved, g]
        if isinstance(block, JointCells):
            changes.update(block.changes(prices.who, moved, cell))
        elif cells.ordered[g]:
            raw = prices.value[moved, cells.offset[g] + np.maximum(cell, 0)]
            changes[cells.columns[g]] = (moved, np.where(cell < 0, np.nan, raw).tolist())
        else:
            changes[cells.columns[g]] = (moved, [cells.options[g][k] for k in cell.tolist()])
    return changes
