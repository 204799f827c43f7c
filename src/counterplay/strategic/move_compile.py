"""From the words of a table to prices: units, bounds and categories of the reference data.

Source: "Prices", see docs/theory/20-moves.md.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from counterplay.core.report import plural
from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError
from counterplay.strategic.changes import UNITS, Change, Switch
from counterplay.strategic.columns import as_floats, is_whole
from counterplay.strategic.move_blocks import (
    MOST_GRID_VALUES,
    Block,
    CategoryBlock,
    NumberBlock,
    closed,
)
from counterplay.tables.cells import is_missing, shown


def compile_block(name: Any, item: Change | Switch, column: pd.Series | None) -> Block:
    """Return the prices of one column, with the units of the reference data filled in."""
    if isinstance(item, Switch):
        return _compile_switch(name, item, column)
    values: FloatArray | None = None
    if column is not None:
        values = as_floats(column.to_numpy(), name)
        values = np.sort(values[np.isfinite(values) & ~np.isin(values, np.array(item.codes))])
        if not values.size:
            raise InvalidInputError(f"{shown(name, 40)} has no value in the reference data")
    up, down = item.prices
    low, high = _bounds(item, values)
    if item.missing != "keep" and not item.grid and not math.isfinite(low + high):
        raise InvalidInputError(
            f"Change for {shown(name, 40)}: a missing entry can be filled only within bounds; "
            "give low and high"
        )
    unit, grid, seen = 1.0, None, None
    if item.grid is not None:
        grid = np.asarray(item.grid, dtype=np.float64)
    if item.per == "step":
        assert item.step is not None
        unit = item.step
    elif item.per != "unit":
        if values is None:
            raise InvalidInputError(
                f"Moves needs reference= (the training frame) to know one {item.per} of "
                f"{shown(name, 40)}"
            )
        unit = _unit(name, item.per, values)
        if item.per == "decile":
            seen, unit = values, math.nan
            grid = thinned(np.unique(values)) if grid is None else grid
    return NumberBlock(
        name,
        up,
        down,
        unit,
        low,
        high,
        item.step,
        grid,
        seen,
        math.inf if item.missing == "keep" else float(item.missing),
        math.inf if item.hide is None else item.hide,
        tuple(item.codes),
    )


def _bounds(item: Change, values: FloatArray | None) -> tuple[float, float]:
    """Return the bounds of destinations: as given, else the seen range, else none."""
    seen = (-math.inf, math.inf) if values is None else (float(values[0]), float(values[-1]))
    low = seen[0] if item.low is None else item.low
    high = seen[1] if item.high is None else item.high
    if low > high:  # a given bound beyond what was seen: the other side stays open
        return (low, math.inf) if item.high is None else (-math.inf, high)
    return low, high


def _unit(name: Any, per: str, values: FloatArray) -> float:
    """Return one spread or standard deviation in raw units."""
    if values[0] == values[-1]:
        raise InvalidInputError(
            f'{shown(name, 40)} is constant in the reference data; give per="unit"'
        )
    with np.errstate(over="ignore", invalid="ignore"):
        sd = float(values.std())
        q10, q90 = np.quantile(values, [0.1, 0.9])
        unit = sd if per == "sd" else float(q90 - q10) / 2.563 or sd
    if not 1e-150 < unit < 1e150:
        raise InvalidInputError(
            f"one {per} of {shown(name, 40)} is {unit:g}, too far from 1; rescale it"
        )
    return unit


def _compile_switch(name: Any, item: Switch, column: pd.Series | None) -> CategoryBlock:
    if (
        column is not None
        and pd.api.types.is_float_dtype(column.dtype)
        and not is_whole(as_floats(column.to_numpy(), name))
    ):
        raise InvalidInputError(f"{shown(name, 40)} holds numbers; use Change(...)")
    seen: list[Any] = []
    if column is not None:
        cells = column.tolist()
        seen = [v for v in dict.fromkeys(cells) if not is_missing(v)]
        if len(seen) > 1000:
            raise InvalidInputError(
                f"{shown(name, 40)} has {len(seen)} categories; a switch takes at most 1000"
            )
    elif not isinstance(item.cost, Mapping) and item.ladder is None and item.allowed is None:
        raise InvalidInputError(
            f"Moves needs reference= (the training frame) to know the categories of "
            f"{shown(name, 40)}"
        )
    pairs = item.pairs(seen)
    categories = tuple(dict.fromkeys([c for pair in pairs for c in pair]))
    place = {c: k for k, c in enumerate(categories)}
    prices = np.full((len(categories), len(categories)), np.inf)
    np.fill_diagonal(prices, 0.0)
    for (a, b), price in pairs.items():
        prices[place[a], place[b]] = price
    return CategoryBlock(
        name,
        categories,
        closed(prices),
        math.inf if item.missing == "keep" else float(item.missing),
        math.inf if item.hide is None else item.hide,
    )


def thinned(values: FloatArray) -> FloatArray:
    """Return at most 256 of sorted values: all, or quantiles of them."""
    if values.size <= MOST_GRID_VALUES:
        return values
    places = np.linspace(0, values.size - 1, MOST_GRID_VALUES).round().astype(np.int64)
    return values[places]


def reference_column(frame: pd.DataFrame, name: Any) -> pd.Series:
    """Return a column of the reference data; an unknown one is an error with the nearest."""
    if name not in frame.columns:
        near = difflib.get_close_matches(str(name), list(map(str, frame.columns)), n=1, cutoff=0.5)
        hint = f"; did you mean {shown(near[0], 40)}?" if near else ""
        raise InvalidInputError(
            f"Moves names {shown(name, 40)}, which the reference data do not have{hint}"
        )
    return frame[name]


def describe_number(name: Any, item: Change, block: NumberBlock) -> dict[str, Any]:
    """Return the row of a numeric column in `Moves.describe`."""
    with np.errstate(divide="ignore"):
        up, down = block.up / block.unit, block.down / block.unit
    return {
        "column": name,
        "kind": "number",
        "direction": item.direction,
        "moves to": "seen values"
        if item.grid is None and block.grid is not None
        else f"{block.grid.size} values"
        if block.grid is not None
        else "any value"
        if block.step is None
        else f"steps of {block.step:g}",
        "low": block.low,
        "high": block.high,
        "one raw unit up": up,
        "one raw unit down": down,
        "priced per": UNITS[item.per],
        "missing": item.missing,
        "hide": item.hide,
    }


def describe_category(name: Any, item: Switch, block: CategoryBlock) -> dict[str, Any]:
    """Return the row of a category in `Moves.describe`."""
    ways = int((np.isfinite(block.prices) & (block.prices > 0)).sum())
    switches = plural(ways, "switch", "switches")
    return {
        "column": name,
        "kind": "category",
        "direction": item.direction if item.ladder is not None else "switch",
        "moves to": f"{switches} among {len(block.categories)} categories",
        "low": math.nan,
        "high": math.nan,
        "one raw unit up": math.nan,
        "one raw unit down": math.nan,
        "priced per": "switch",
        "missing": item.missing,
        "hide": item.hide,
    }
