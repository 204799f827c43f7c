"""Moves as bags: every row that a person can make of hers within a budget.

Source: "Graphs", see docs/theory/20-moves.md, and "Strategic empirical risk minimisation", see
docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray, IntArray, check_size
from counterplay.errors import InvalidInputError
from counterplay.strategic.move_blocks import CategoryBlock, NumberBlock
from counterplay.strategic.moves import Moves, combined
from counterplay.tables.cells import shown

MOST_OPTIONS = 10_000
MOST_POINTS = 2_000_000


def move_bags(
    moves: Moves, rows: FloatArray, names: list[Any], budget: float
) -> tuple[FloatArray, IntArray, IntArray]:
    """Return points and, per row, which of them she can reach, her own first.

    Examples
    --------
    >>> from counterplay.strategic.moves import Change
    >>> moves = Moves({0: Change("down", step=1, per="step", low=0)})
    >>> points, pointers, position = move_bags(moves, np.array([[3.0], [0.0]]), [0], 2.0)
    >>> [points[position[a:b], 0].tolist() for a, b in zip(pointers, pointers[1:])]
    [[3.0, 2.0, 1.0], [0.0]]
    """
    if getattr(moves, "links", ()):
        raise InvalidInputError("moves with links cannot be compiled to bags; use moves.graph")
    bags = []
    total = 0
    for row in rows:
        bag = _reachable(moves, row, names, budget)
        total += len(bag)
        check_size(total, MOST_POINTS, "reachable rows")
        bags.append(bag)
    points, position = np.unique(np.vstack(bags) + 0.0, axis=0, return_inverse=True)
    pointers = np.concatenate(([0], np.cumsum([len(bag) for bag in bags]))).astype(np.int64)
    return points, pointers, position.reshape(-1).astype(np.int64)


def _reachable(moves: Moves, row: FloatArray, names: list[Any], budget: float) -> FloatArray:
    """List what one person can show: combinations of options whose price is within the budget."""
    cap = (budget**moves.power if moves.power == 2 else budget) * (1 + 1e-9)
    bag, spent = row[None, :], np.zeros(1)
    for name, block in moves.blocks.items():
        j = names.index(name)
        values, prices = _options(name, block, float(row[j]), budget)
        if not values.size:
            continue
        cost = combined(spent[:, None], prices[None, :], moves.power)
        who, which = np.nonzero(cost <= cap)
        more = bag[who]
        more[:, j] = values[which]
        bag = np.vstack((bag, more))
        spent = np.concatenate((spent, cost[who, which]))
        if len(bag) > MOST_OPTIONS:
            raise InvalidInputError(
                f"one person can reach more than {MOST_OPTIONS} rows; coarsen the step of "
                f"{shown(name, 40)} or lower the budget"
            )
    return bag


def _options(name: Any, block: Any, x: float, budget: float) -> tuple[FloatArray, FloatArray]:
    """Return the other values of one column within the budget, and their prices."""
    if isinstance(block, CategoryBlock):
        try:
            values = np.array([float(c) for c in block.categories])
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"{shown(name, 40)} holds text; give an encoded column"
            ) from None
        prices = block.price(np.full(values.size, x, dtype=object), np.array(values, object))
    else:
        assert isinstance(block, NumberBlock)
        values = _numbers(name, block, x, budget)
        prices = block.price(x, values)
    fine = (prices > 0) & (prices <= budget * (1 + 1e-9))
    return values[fine], prices[fine]


def _numbers(name: Any, block: NumberBlock, x: float, budget: float) -> FloatArray:
    if block.grid is not None:
        return block.grid
    if block.step is None:
        raise InvalidInputError(
            f"{shown(name, 40)} moves continuously; give it a step or a grid to list what people "
            "can reach"
        )
    if block.absent(np.array([x]))[0]:
        return block.fillings() if np.isfinite(block.fill) else np.zeros(0)
    ways = []
    for price, sign in ((block.up, 1.0), (block.down, -1.0)):
        if np.isfinite(price):
            each = price * block.step / block.unit
            count = min(int(np.floor(budget / each * (1 + 1e-9))) + 1, MOST_OPTIONS)
            ways.append(x + sign * block.step * np.arange(1, count + 1))
    return np.concatenate(ways) if ways else np.zeros(0)
