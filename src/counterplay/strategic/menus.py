"""What one person can do against a score that is a sum over columns: menus, stairs and lines.

The model is asked once for the gain of every value that matters. A column with few values gives a
menu of options, an affine column with many steps a stair, a continuous affine column a line.

Source: "Additive scores", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import FloatArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.strategic.asking import Asking
from counterplay.strategic.columns import as_floats
from counterplay.strategic.links import reachable, steps_within
from counterplay.strategic.move_blocks import Block, CategoryBlock, NumberBlock
from counterplay.tables.cells import is_missing, shown

if TYPE_CHECKING:
    from counterplay.strategic.additive import AdditiveScore

LONGEST_MENU = 64  # more equal steps than that are kept as a stair
MOST_ASKED = 4_000_000


@dataclass(frozen=True, eq=False)
class Line:
    """A continuous column on which the score is affine: gain and price of one unit upward."""

    name: Any
    block: NumberBlock
    slope: float

    @property
    def price(self) -> float:
        """Price of one raw unit in the direction that helps."""
        return (self.block.up if self.slope > 0 else self.block.down) / self.block.unit

    def room(self, x: FloatArray) -> FloatArray:
        """Return how far people can go in the direction that helps."""
        way = self.block.high - x if self.slope > 0 else x - self.block.low
        return np.where(self.block.absent(x), 0.0, np.maximum(way, 0.0))

    def gap(self, x: FloatArray) -> FloatArray:
        """Return how far somebody outside the bounds must go to be inside; 0 for all others."""
        way = self.block.low - x if self.slope > 0 else x - self.block.high
        return np.where(self.block.absent(x), 0.0, np.maximum(way, 0.0))

    def goal(self, x: FloatArray, amount: FloatArray) -> FloatArray:
        """Return where people end who move by an amount."""
        goal = x + np.sign(self.slope) * amount
        return np.asarray(np.clip(goal, self.block.low, self.block.high), dtype=np.float64)


def own_values(score: AdditiveScore) -> dict[Any, Any]:
    """Return the cells of the columns that move: floats, or places of categories."""
    frame = score.asked.frame
    return {
        name: block.codes(frame[name])
        if isinstance(block, CategoryBlock)
        else as_floats(frame[name].to_numpy(), name)
        for name, block in score.blocks.items()
    }


@dataclass(frozen=True, eq=False)
class Options:
    """Options of one column that are the same for all people: values and their gains."""

    values: list[Any]
    gains: FloatArray
    own: FloatArray  # gain of each person's own value over the reference person's
    bend: Bend | None = None


@dataclass(frozen=True, eq=False)
class Bend:
    """Gains of all values that somebody can reach by steps where the score is not straight."""

    values: FloatArray
    gains: FloatArray
    budget: float

    def at(self, values: FloatArray) -> FloatArray:
        """Return the gains of some of the values."""
        return np.asarray(self.gains[np.searchsorted(self.values, values)], dtype=np.float64)


def option_tables(
    score: AdditiveScore, values: Mapping[Any, Any], budget: float
) -> dict[Any, Options]:
    """Ask the model, in one batch, for the gain of every option of every column."""
    frame = score.asked.frame
    options: dict[Any, list[Any]] = {}
    own: dict[Any, list[Any]] = {}
    back: dict[Any, NDArray[Any]] = {}
    bends: dict[Any, Bend] = {}
    ask = Asking(score.asked, score.opened)
    for name, block in score.blocks.items():
        cells = frame[name].tolist()
        if isinstance(block, CategoryBlock):
            options[name] = list(block.categories)
        elif block.grid is not None:
            options[name] = block.fillings().tolist()
        elif name in score.slopes:
            absent = block.absent(values[name])
            options[name] = block.fillings().tolist() if absent.any() else []
            cells = cells if absent.any() or np.isfinite(block.hide) else []
        else:
            options[name] = []
            bends[name] = _bend(ask, block, values[name], budget)
        if np.isfinite(block.hide):
            options[name] = [*options[name], np.nan]
        keys = ["missing" if is_missing(c) else c for c in cells]
        order = {key: k for k, key in enumerate(dict.fromkeys(keys))}
        back[name] = np.array([order[key] for key in keys], dtype=np.int64)
        own[name] = [np.nan if key == "missing" else key for key in order]
    gains = ask({(name): [*options[name], *own[name]] for name in score.blocks})
    tables = {}
    for name in score.blocks:
        k = len(options[name])
        mine = gains[name][k:][back[name]] if len(back[name]) else np.zeros(len(frame))
        tables[name] = Options(options[name], gains[name][:k], mine, bends.get(name))
    return tables


def _bend(ask: Asking, block: NumberBlock, own: FloatArray, budget: float) -> Bend:
    """Ask for the gain of every value that somebody can reach by steps."""
    present = np.unique(own[~block.absent(own)])
    parts = [np.zeros(0)]
    if block.absent(own).any() and np.isfinite(block.fill):
        parts.append(block.fillings(MOST_ASKED + 1))
    count = parts[-1].size + steps_within(block, present, budget).sum()
    if count > MOST_ASKED:
        raise InvalidInputError(_too_many(block, float(count)))
    parts += [reachable(block, x, budget, MOST_ASKED) for x in present.tolist()]
    values = np.unique(np.concatenate(parts))
    pieces = np.array_split(values, 1 + values.size // 100_000)
    gains = [ask({block.name: piece.tolist()})[block.name] for piece in pieces if piece.size]
    return Bend(values, np.concatenate([np.zeros(0), *gains]), budget)


def _too_many(block: NumberBlock, count: float) -> str:
    """Say that a column has too many values, and what would help."""
    told = f"{shown(block.name, 40)} has"
    if np.isinf(count):
        return f"{told} no bound and the score is not straight along it: give low, high or a budget"
    step = float(block.step or 1.0) * np.ceil(count / MOST_ASKED)
    return (
        f"{told} {count:,.0f} values within reach and the score is not straight along it; coarsen "
        f"its step to {step:g}, or give a grid or a smaller budget"
    )


@dataclass(frozen=True, eq=False)
class Menu:
    """Options of one column for some people."""

    name: Any
    block: Block
    values: list[Any]
    prices: FloatArray  # (people, options), infinite where of no use
    gains: FloatArray
    own: Any  # people's own values, for steps
    slope: float
    steps: IntArray | None  # useful steps of each person
    bend: tuple[Bend, FloatArray] | None = None  # gains of steps, and of the people's own values
    ways: dict[Any, tuple[FloatArray, ...]] = field(default_factory=dict, repr=False)

    @property
    def empty(self) -> bool:
        """Whether nobody has an option here."""
        return not np.isfinite(self.prices).any() and (self.steps is None or not self.steps.any())

    def is_stair(self, i: int, power: float) -> bool:
        """Whether a person has too many steps here for a menu."""
        if self.steps is None or self.bend is not None or self.steps[i] <= LONGEST_MENU:
            return False
        assert isinstance(self.block, NumberBlock)
        if any(self.block.low <= code <= self.block.high for code in self.block.codes):
            return False
        return power == 1 or self.first(i) == 0

    def first(self, i: int) -> int:
        """Return how many steps lead somebody from outside the bounds inside; 0 for all others."""
        assert isinstance(self.block, NumberBlock)
        x, step = float(self.own[i]), float(self.block.step or 1.0)
        if self.block.low <= x <= self.block.high:
            return 0
        count = int(
            max(0.0, (self.block.low - x if self.slope > 0 else x - self.block.high) / step)
        )
        while not self.block.low <= self.after(i, count) <= self.block.high:
            count += 1  # ends: the last useful step is inside
        return count

    def options(self, i: int, power: float) -> tuple[list[Any], FloatArray, FloatArray]:
        """Return the explicit options of one person: values, prices, gains."""
        open_ = np.flatnonzero(np.isfinite(self.prices[i]))
        values = [self.values[k] for k in open_]
        prices, gains = self.prices[i, open_], self.gains[i, open_]
        if self.steps is None or not self.steps[i] or self.is_stair(i, power):
            return values, prices, gains
        reached, ways, more = self._stepped(i)
        return (
            values + reached.tolist(),
            np.concatenate((prices, ways)),
            np.concatenate((gains, more)),
        )

    def _stepped(self, i: int) -> tuple[FloatArray, ...]:
        """Return values, prices and gains of a person's steps: the same from the same value."""
        assert isinstance(self.block, NumberBlock)
        assert self.steps is not None
        x = float(self.own[i])
        key = None if np.isnan(x) else x
        if key not in self.ways:
            if self.bend is None:
                reached = self.after(i, np.arange(1, int(self.steps[i]) + 1))
                gains = self.slope * (reached - x)
            else:
                bend, own = self.bend
                absent = bool(self.block.absent(np.array([x]))[0])
                reached = np.zeros(0)
                if not absent:
                    reached = reachable(self.block, x, bend.budget, MOST_ASKED)
                elif np.isfinite(self.block.fill):
                    reached = self.block.fillings(MOST_ASKED)
                gains = bend.at(reached) - own[i]
            prices = self.block.price(x, reached)
            fine = np.flatnonzero(np.isfinite(prices) & (gains > 0))
            fine = fine[efficient(prices[fine], gains[fine])] if fine.size else fine
            self.ways[key] = reached[fine], prices[fine], gains[fine]
        return self.ways[key]

    def after(self, i: int, count: Any) -> Any:
        """Return the value of a person after some steps in the direction that helps."""
        assert isinstance(self.block, NumberBlock)
        assert self.block.step is not None
        return float(self.own[i]) + (1.0 if self.slope > 0 else -1.0) * count * self.block.step


def menu_of(score: AdditiveScore, name: Any, options: Options, values: Any, who: IntArray) -> Menu:
    """Return the options of one column for the people ``who``."""
    block, slope = score.blocks[name], score.slopes.get(name, 0.0)
    own = values[who]
    gains = options.gains[None, :] - options.own[who][:, None]
    if isinstance(block, CategoryBlock):
        places = np.array(
            [-1 if is_missing(v) else k for k, v in enumerate(options.values)], dtype=np.int64
        )
        prices = block.price_codes(own[:, None], places[None, :])
    elif options.values:
        prices = block.price(own[:, None], np.asarray(options.values, dtype=np.float64)[None, :])
    else:
        prices = np.full((who.size, 0), np.inf)
    steps, bend = None, None
    useful = (prices > 0) & (gains > 0)
    if options.bend is not None:
        bend, steps = (options.bend, options.own[who]), np.ones(who.size, dtype=np.int64)
    if isinstance(block, NumberBlock) and block.grid is None and name in score.slopes:
        # who has a value moves on a line or by steps; else the value is filled in, or hidden
        hidden = np.array([is_missing(v) for v in options.values], dtype=bool)
        useful &= block.absent(own)[:, None] | hidden[None, :]
        if block.step is not None:
            steps = _useful_steps(block, own, slope)
    prices = np.where(useful, prices, np.inf)
    return Menu(name, block, options.values, prices, gains, own, slope, steps, bend)


def _useful_steps(block: NumberBlock, own: FloatArray, slope: float) -> IntArray:
    """Return how many steps each person can take in the direction that helps."""
    assert block.step is not None
    way = block.high - own if slope > 0 else own - block.low
    price = block.up if slope > 0 else block.down
    if slope == 0 or np.isinf(price):
        return np.zeros(own.size, dtype=np.int64)
    with np.errstate(invalid="ignore"):
        count = np.floor(np.where(block.absent(own), 0.0, np.clip(way, 0, None)) / block.step)
    count = np.minimum(np.nan_to_num(count, posinf=2.0**40), 2.0**40)
    sign = 1.0 if slope > 0 else -1.0
    for shift in (1.0, 0.0):  # the quotient may be rounded one up or down
        value = own + sign * (count + shift) * block.step
        inside = (value <= block.high) if slope > 0 else (value >= block.low)
        count = np.where(inside & (shift == 1), count + 1, count)
        count = np.where(~inside & (shift == 0), count - 1, count)
    last = own + sign * count * block.step
    inside = (last >= block.low) & (last <= block.high)  # else no step comes inside the bounds
    return np.where(inside, np.maximum(count, 0), 0).astype(np.int64)


def efficient(prices: FloatArray, gains: FloatArray) -> IntArray:
    """Return the options that no other beats in price and gain, cheapest first."""
    order = np.lexsort((-gains, prices))
    top = np.maximum.accumulate(gains[order])
    first = np.concatenate(([True], gains[order][1:] > top[:-1]))
    return np.asarray(order[first], dtype=np.int64)
