"""What every cell of a tree ensemble costs each person, and the cheapest value behind it.

Source: "Tree ensembles", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from counterplay.core.validation import FloatArray, IntArray
from counterplay.strategic.asking import Changes
from counterplay.strategic.columns import as_floats
from counterplay.strategic.move_blocks import CategoryBlock, NumberBlock
from counterplay.strategic.tree_cells import Cells, JointCells


@dataclass(frozen=True, eq=False)
class CellPrices:
    """Prices of all cells for some people, before the final root, and the values behind them."""

    price: FloatArray  # (people, cells)
    value: FloatArray  # (people, cells) raw value of ordered cells
    missing: FloatArray  # (people, blocks) price of having no value
    who: IntArray


def price_cells(cells: Cells, frame: pd.DataFrame, who: IntArray, power: float) -> CellPrices:
    """Return the price of the cheapest allowed value of every cell for every person."""
    n, total = who.size, int(cells.offset[-1])
    price, value = np.full((n, total), np.inf), np.full((n, total), np.nan)
    missing = np.full((n, len(cells.blocks)), np.inf)
    rows = np.arange(n)
    for g, block in enumerate(cells.blocks):
        own = cells.own[who, g]
        part = slice(int(cells.offset[g]), int(cells.offset[g + 1]))
        if isinstance(block, JointCells):
            for i, person in enumerate(who.tolist()):
                options, cost = block.open_to(person)
                price[i, part.start + options] = cost
        elif block is None:
            present = own >= 0
            price[rows[present], part.start + own[present]] = 0.0
            missing[~present, g] = 0.0
        elif isinstance(block, CategoryBlock):
            price[:, part] = _category_prices(block, cells.options[g], own)
        else:
            x = as_floats(frame[cells.columns[g]].to_numpy(), block.name)[who]
            _number_prices(block, x, own, cells.cuts[g], price[:, part], value[:, part])
            gone = np.where(block.absent(x), np.inf, block.hide)
            missing[:, g] = np.where(np.isnan(x), 0.0, gone)
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


def _number_prices(
    block: NumberBlock,
    x: FloatArray,
    own: IntArray,
    cuts: FloatArray,
    price: FloatArray,
    value: FloatArray,
) -> None:
    """Write the cheapest allowed value of every cell and its price, for all people at once."""
    k = np.arange(cuts.size + 1)
    low = np.concatenate(([-np.inf], cuts))  # cell k holds low[k] <= v < low[k + 1]
    top = np.concatenate((np.nextafter(cuts, -np.inf), [np.inf]))
    absent = block.absent(x)
    start = np.where(absent, block.fill_start, x)[:, None]
    above = (k[None, :] > own[:, None]) | absent[:, None]
    with np.errstate(invalid="ignore", over="ignore"):
        up = block.reach_up(start, np.broadcast_to(low, (x.size, k.size)))
        up = np.where(up <= top[None, :], up, np.nan)
        down = block.reach_down(start, np.broadcast_to(top, (x.size, k.size)))
        down = np.where(down >= low[None, :], down, np.nan)
        goal = np.where(above, up, down)
        way = block.distance_price(start, goal)
    cost = np.where(absent[:, None], block.fill, way)
    cost = np.where(np.isnan(goal), np.inf, cost)
    cost = np.where(np.isnan(cost), np.inf, cost)
    price[:], value[:] = cost, goal
    rows = np.flatnonzero(own >= 0)
    price[rows, own[rows]] = 0.0
    value[rows, own[rows]] = x[rows]


def values_at(cells: Cells, prices: CellPrices, points: IntArray, own: IntArray) -> Changes:
    """Return points given by cells as changed raw values per column."""
    changes: Changes = {}
    for g, block in enumerate(cells.blocks):
        if block is None:
            continue
        moved = np.flatnonzero(points[:, g] != own[:, g])
        cell = points[moved, g]
        if isinstance(block, JointCells):
            changes.update(block.changes(prices.who, moved, cell))
        elif cells.ordered[g]:
            raw = prices.value[moved, cells.offset[g] + np.maximum(cell, 0)]
            changes[cells.columns[g]] = (moved, np.where(cell < 0, np.nan, raw).tolist())
        else:
            changes[cells.columns[g]] = (moved, [cells.options[g][k] for k in cell.tolist()])
    return changes
