"""Where a number can go: the allowed value next to a target, and the price of the way there.

One person and one target at a time, compiled; whole tables are loops over it. Numbers are exact: no
tolerance anywhere, because a value that is rounded across a split would be a free crossing.

Source: "Prices", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from counterplay.core.validation import FloatArray, IntArray


class Lines(NamedTuple):
    """Several numbers side by side: bounds, steps and grids of destinations, prices, codes.

    Number j has the grid ``grid[grid_start[j] : grid_start[j + 1]]``, empty if there is none, and
    so for the values that were seen (for prices by rank) and the codes for "no record".
    """

    low: FloatArray
    high: FloatArray
    step: FloatArray  # NaN if continuous
    up: FloatArray  # price of one unit
    down: FloatArray
    unit: FloatArray
    fill: FloatArray  # price of filling a missing entry
    hide: FloatArray  # price of withholding a value
    first: FloatArray  # from where steps are counted for somebody without a value
    grid: FloatArray
    grid_start: IntArray
    seen: FloatArray
    seen_start: IntArray
    codes: FloatArray
    codes_start: IntArray


@numba.njit(inline="always")
def absent(x: float, codes: FloatArray) -> bool:
    """Whether a value is missing or a code for "no record"."""
    gone = bool(np.isnan(x))
    for code in codes:
        gone = gone or x == code
    return gone


@numba.njit(cache=True, nogil=True)
def value_up(
    x: float, target: float, low: float, high: float, step: float, grid: FloatArray,
    codes: FloatArray,
) -> float:  # fmt: skip
    """Return the least allowed value at or above the target, NaN if there is none."""
    if np.isnan(target):
        return np.nan
    target = max(target, low)
    if grid.size:
        place = np.searchsorted(grid, target)
        while place < grid.size and absent(grid[place], codes):
            place += 1
        value = grid[place] if place < grid.size else np.nan
    elif not np.isnan(step):
        count = np.ceil((target - x) / step)
        value = x + count * step
        # the rounded quotient may be one off on either side
        if value < target:
            value = x + (count + 1) * step
        lower = x + (count - 1) * step
        if lower >= target:
            value = lower
        for _ in codes:  # past values that mean "no record"
            if absent(value, codes):
                value += step
    else:
        value = target
        for code in codes:
            if value == code:
                value = np.nextafter(value, np.inf)
    return value if value <= high and not absent(value, codes) else np.nan


@numba.njit(cache=True, nogil=True)
def value_down(
    x: float, target: float, low: float, high: float, step: float, grid: FloatArray,
    codes: FloatArray,
) -> float:  # fmt: skip
    """Return the largest allowed value at or below the target, NaN if there is none."""
    if np.isnan(target):
        return np.nan
    target = min(target, high)
    if grid.size:
        place = np.searchsorted(grid, target, "right") - 1
        while place >= 0 and absent(grid[place], codes):
            place -= 1
        value = grid[place] if place >= 0 else np.nan
    elif not np.isnan(step):
        count = np.ceil((x - target) / step)
        value = x - count * step
        if value > target:
            value = x - (count + 1) * step
        upper = x - (count - 1) * step
        if upper <= target:
            value = upper
        for _ in codes:
            if absent(value, codes):
                value -= step
    else:
        value = target
        for code in codes:
            if value == code:
                value = np.nextafter(value, -np.inf)
    return value if value >= low and not absent(value, codes) else np.nan


@numba.njit(cache=True, nogil=True)
def values_up(
    x: FloatArray, target: FloatArray, low: float, high: float, step: float, grid: FloatArray,
    codes: FloatArray,
) -> FloatArray:  # fmt: skip
    """Return `value_up` of many people."""
    found = np.empty(x.size)
    for i in range(x.size):
        found[i] = value_up(x[i], target[i], low, high, step, grid, codes)
    return found


@numba.njit(cache=True, nogil=True)
def values_down(
    x: FloatArray, target: FloatArray, low: float, high: float, step: float, grid: FloatArray,
    codes: FloatArray,
) -> FloatArray:  # fmt: skip
    """Return `value_down` of many people."""
    found = np.empty(x.size)
    for i in range(x.size):
        found[i] = value_down(x[i], target[i], low, high, step, grid, codes)
    return found


@numba.njit(cache=True, nogil=True)
def _way(a: float, b: float, up: float, down: float, unit: float, seen: FloatArray) -> float:
    """Return the price of the way from a to b, by the distance or by ranks of what was seen."""
    way = (b - a) / unit
    if seen.size:
        ranks = np.searchsorted(seen, b) + np.searchsorted(seen, b, "right")
        ranks -= np.searchsorted(seen, a) + np.searchsorted(seen, a, "right")
        way = float(5.0 * ranks / seen.size)  # ten times the difference of mid-ranks
    price = up * way if way > 0 else -down * way
    return 0.0 if way == 0 else (np.inf if np.isnan(price) else price)


@numba.njit(cache=True, nogil=True)
def price_lines(
    lines: Lines, block: IntArray, offset: IntArray, bottom: FloatArray, top: FloatArray,
    x: FloatArray, own: IntArray, price: FloatArray, value: FloatArray, hole: FloatArray,
) -> None:  # fmt: skip
    """Write the cheapest allowed value of every cell and its price, for all people.

    Number j is block ``block[j]``, whose cells c hold ``bottom[c] <= v <= top[c]``.
    """
    for j in range(block.size):
        g = block[j]
        low, high, step, first = lines.low[j], lines.high[j], lines.step[j], lines.first[j]
        up, down, unit = lines.up[j], lines.down[j], lines.unit[j]
        grid = lines.grid[lines.grid_start[j] : lines.grid_start[j + 1]]
        seen = lines.seen[lines.seen_start[j] : lines.seen_start[j + 1]]
        codes = lines.codes[lines.codes_start[j] : lines.codes_start[j + 1]]
        for i in range(x.shape[0]):
            gone, mine = absent(x[i, j], codes), offset[g] + own[i, g]
            hole[i, g] = np.inf if gone else lines.hide[j]
            if np.isnan(x[i, j]):
                hole[i, g], mine = 0.0, -1
            start = first if gone else x[i, j]
            for c in range(offset[g], offset[g + 1]):
                if c == mine:
                    price[i, c], value[i, c] = 0.0, x[i, j]
                    continue
                if gone or c > mine:  # a hole may be filled with any value of the cell
                    goal = value_up(start, bottom[c], low, high, step, grid, codes)
                else:
                    goal = value_down(start, top[c], low, high, step, grid, codes)
                if not (bottom[c] <= goal <= top[c]):
                    price[i, c], value[i, c] = np.inf, np.nan
                    continue
                value[i, c] = goal
                price[i, c] = lines.fill[j] if gone else _way(start, goal, up, down, unit, seen)
