"""Prices of one column: what a change or a switch costs, and which values can be reached.

A number is moved along a scale on which prices are linear (raw units, steps, spreads, deciles); a
category along a table of prices that is closed under composition, so that two switches never
undercut a direct one. Both answer the same questions: the price between two values, and the
values a person can move to.

Source: "Prices", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.strategic.columns import same_cells
from counterplay.strategic.number_line import Lines, values_down, values_up
from counterplay.tables.cells import is_missing

MOST_GRID_VALUES = 256


@dataclass(frozen=True, eq=False)
class NumberBlock:
    """A numeric column with its prices, bounds and reachable values.

    Parameters
    ----------
    name
        The column.
    up
        Price of one unit of the scale upward; infinite if that way is closed.
    down
        The same downward.
    unit
        Raw units in one unit of the scale; NaN when the scale is the ranks of ``seen``.
    low
        Least destination (not a bound on people).
    high
        Largest destination.
    step
        Distance between destinations, counted from the person's own value; None if continuous.
    grid
        Destinations, if only these can be reached.
    seen
        Sorted reference values, for ranks.
    fill
        Price of filling a missing entry; infinite if impossible.
    hide
        Price of withholding a value; infinite if impossible.
    codes
        Values that mean "no record".
    """

    name: Any
    up: float
    down: float
    unit: float
    low: float
    high: float
    step: float | None = None
    grid: FloatArray | None = None
    seen: FloatArray | None = None
    fill: float = np.inf
    hide: float = np.inf
    codes: tuple[float, ...] = ()
    _codes: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_codes", np.asarray(self.codes, dtype=np.float64))

    @property
    def finite(self) -> bool:
        """Whether destinations are a grid or steps."""
        return self.grid is not None or self.step is not None

    def absent(self, values: FloatArray) -> BoolArray:
        """Return which values are missing or codes for "no record"."""
        gone: BoolArray = np.isnan(values)
        return gone | np.isin(values, self._codes) if self._codes.size else gone

    def scale(self, values: FloatArray) -> FloatArray:
        """Return positions on the scale on which prices are linear."""
        if self.seen is None:
            return np.asarray(values / self.unit, dtype=np.float64)
        below = np.searchsorted(self.seen, values, "left")
        upto = np.searchsorted(self.seen, values, "right")
        return np.asarray(5.0 * (below + upto) / self.seen.size, dtype=np.float64)  # 10 F, mid-rank

    def distance_price(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return the price of the way from a to b, both present, whether b is allowed or not."""
        if self.seen is None:
            way = (b - a) / self.unit
        else:
            way = self.scale(b) - self.scale(a)
        with np.errstate(invalid="ignore"):
            price = np.where(way > 0, self.up * way, -self.down * way)
        return np.where(way == 0, 0.0, price)

    def allowed(self, a: FloatArray, b: FloatArray) -> BoolArray:
        """Return whether b lies within the bounds, on the grid or steps, and is no code."""
        fine: BoolArray = (b >= self.low) & (b <= self.high) & ~self.absent(b)
        if self.grid is not None:
            place = np.minimum(np.searchsorted(self.grid, b), self.grid.size - 1)
            fine &= self.grid[place] == b
        elif self.step is not None:
            with np.errstate(invalid="ignore"):
                start = np.where(self.absent(a), self.fill_start, a)
                count = np.round((b - start) / self.step)
                fine &= start + count * self.step == b
        return fine

    @property
    def fill_start(self) -> float:
        """First value from which steps are counted for somebody without a value."""
        if np.isfinite(self.low):
            return self.low
        return self.high if np.isfinite(self.high) else 0.0

    def price(self, a: Any, b: Any) -> FloatArray:
        """Return the price of moving from a to b; infinite where it is impossible."""
        a, b = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(b, np.float64))
        gone_a, gone_b = self.absent(a), self.absent(b)
        with np.errstate(invalid="ignore"):
            way = np.where(self.allowed(a, b), self.distance_price(a, b), np.inf)
        way = np.where(gone_a, np.where(self.allowed(a, b), self.fill, np.inf), way)
        way = np.where(np.isnan(b), np.where(gone_a, np.inf, self.hide), way)
        way = np.where(gone_b & ~np.isnan(b), np.inf, way)  # a code is never a destination
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        return np.where(same, 0.0, way)

    def reach_up(self, x: FloatArray, target: FloatArray) -> FloatArray:
        """Return the least allowed value at or above each target, NaN if there is none.

        ``x`` are present values of people, ``target`` lies above them.
        """
        x, target = np.broadcast_arrays(x, target)
        return values_up(x.ravel(), target.ravel(), *self._line).reshape(x.shape)

    def reach_down(self, x: FloatArray, target: FloatArray) -> FloatArray:
        """Return the largest allowed value at or below each target, NaN if there is none."""
        x, target = np.broadcast_arrays(x, target)
        return values_down(x.ravel(), target.ravel(), *self._line).reshape(x.shape)

    @property
    def _line(self) -> tuple[float, float, float, FloatArray, FloatArray]:
        """Bounds, step, grid and codes as compiled loops take them."""
        step = np.nan if self.step is None or self.grid is not None else self.step
        grid = np.zeros(0) if self.grid is None else self.grid
        return self.low, self.high, step, grid, self._codes

    def fillings(self, most: int = MOST_GRID_VALUES) -> FloatArray:
        """Return values with which a missing entry may be filled (the ends if continuous)."""
        if self.grid is not None:
            inside = (self.grid >= self.low) & (self.grid <= self.high)
            return self.grid[inside & ~self.absent(self.grid)]
        ends = np.array([v for v in (self.low, self.high) if np.isfinite(v)])
        if self.step is None or ends.size < 2:
            return ends if self.step is None else ends[:1]
        count = int(np.floor((self.high - self.low) / self.step + 1e-9))
        places = np.unique(np.linspace(0, count, min(count + 1, most)).round())
        values = self.low + places * self.step
        return values[(values <= self.high) & ~self.absent(values)]

    def with_grid(self, grid: FloatArray) -> NumberBlock:
        """Return the block with destinations on a grid."""
        return NumberBlock(
            self.name,
            self.up,
            self.down,
            self.unit,
            self.low,
            self.high,
            None,
            grid,
            self.seen,
            self.fill,
            self.hide,
            self.codes,
        )


def side_by_side(blocks: Sequence[NumberBlock]) -> Lines:
    """Return number blocks in flat arrays."""

    def flat(parts: Sequence[FloatArray]) -> tuple[FloatArray, IntArray]:
        ends = np.cumsum([0, *(part.size for part in parts)]).astype(np.int64)
        return np.concatenate([np.zeros(0), *parts]), ends

    def column(values: Iterable[float]) -> FloatArray:
        return np.array(list(values), dtype=np.float64)

    made = [block._line for block in blocks]
    grid, grid_start = flat([line[3] for line in made])
    seen, seen_start = flat([np.zeros(0) if b.seen is None else b.seen for b in blocks])
    codes, codes_start = flat([line[4] for line in made])
    return Lines(
        low=column(line[0] for line in made),
        high=column(line[1] for line in made),
        step=column(line[2] for line in made),
        up=column(b.up for b in blocks),
        down=column(b.down for b in blocks),
        unit=column(b.unit for b in blocks),
        fill=column(b.fill for b in blocks),
        hide=column(b.hide for b in blocks),
        first=column(b.fill_start for b in blocks),
        grid=grid,
        grid_start=grid_start,
        seen=seen,
        seen_start=seen_start,
        codes=codes,
        codes_start=codes_start,
    )


@dataclass(frozen=True, eq=False)
class CategoryBlock:
    """A column of categories with a closed table of prices.

    Parameters
    ----------
    name
        The column.
    categories
        What can be switched from and to.
    prices
        Price from row to column; zero on the diagonal, infinite if impossible.
    fill
        Price of filling a missing entry; infinite if impossible.
    hide
        Price of withholding a value; infinite if impossible.
    """

    name: Any
    categories: tuple[Any, ...]
    prices: FloatArray
    fill: float = np.inf
    hide: float = np.inf

    def codes(self, values: Sequence[Any] | NDArray[Any] | pd.Series) -> IntArray:
        """Return the place of each value; -1 if missing, -2 if no switch mentions it."""
        place = {category: k for k, category in enumerate(self.categories)}
        cells = values.tolist() if hasattr(values, "tolist") else list(values)
        return np.array([-1 if is_missing(v) else place.get(v, -2) for v in cells], dtype=np.int64)

    def price_codes(self, a: IntArray, b: IntArray) -> FloatArray:
        """Return the price between categories given by their places."""
        n = len(self.categories)
        table = np.full((n + 2, n + 2), np.inf)  # the last rows: unknown (-2), missing (-1)
        table[:n, :n] = self.prices
        table[n + 1, :n] = self.fill
        table[:n, n + 1] = self.hide
        np.fill_diagonal(table, 0.0)
        return np.asarray(table[a, b], dtype=np.float64)

    def price(self, a: Any, b: Any) -> FloatArray:
        """Return the price of switching from a to b; infinite where it is impossible."""
        a, b = np.asarray(a, dtype=object), np.asarray(b, dtype=object)
        x, z = self.codes(a.ravel()).reshape(a.shape), self.codes(b.ravel()).reshape(b.shape)
        cost = self.price_codes(x, z)
        unknown = (x == -2) & (z == -2)  # two categories that no switch mentions
        if unknown.any():
            cost = np.where(unknown & ~same_cells(a, b), np.inf, cost)
        return cost


Block = NumberBlock | CategoryBlock


def closed(prices: FloatArray) -> FloatArray:
    """Return prices closed under composition (Floyd-Warshall).

    Examples
    --------
    >>> closed(np.array([[0, 1, 9.0], [9, 0, 1], [9, 9, 0]]))[0]
    array([0., 1., 2.])
    """
    d = np.array(prices, dtype=np.float64)
    for k in range(len(d)):
        d = np.minimum(d, d[:, k, None] + d[None, k, :])
    return d
