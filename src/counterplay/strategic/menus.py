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
from counterplay.strategic.asking import Asking
from counterplay.strategic.columns import as_floats
from counterplay.strategic.joint_menus import JointMenu
from counterplay.strategic.knapsack_dual import Problem
from counterplay.strategic.links import JointBlock
from counterplay.strategic.move_blocks import Block, CategoryBlock, NumberBlock
from counterplay.tables.cells import is_missing

if TYPE_CHECKING:
    from counterplay.strategic.additive import AdditiveScore

LONGEST_MENU = 64  # more equal steps than that are kept as a stair
MOST_OPTIONS = 20_000


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


def option_tables(score: AdditiveScore, values: Mapping[Any, Any]) -> dict[Any, Options]:
    """Ask the model, in one batch, for the gain of every option of every column."""
    frame = score.asked.frame
    options: dict[Any, list[Any]] = {}
    own: dict[Any, list[Any]] = {}
    back: dict[Any, NDArray[Any]] = {}
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
            options[name] = _all_steps(block, values[name])
        if np.isfinite(block.hide):
            options[name] = [*options[name], np.nan]
        keys = ["missing" if is_missing(c) else c for c in cells]
        order = {key: k for k, key in enumerate(dict.fromkeys(keys))}
        back[name] = np.array([order[key] for key in keys], dtype=np.int64)
        own[name] = [np.nan if key == "missing" else key for key in order]
    ask = Asking(score.asked, score.opened)
    gains = ask({(name): [*options[name], *own[name]] for name in score.blocks})
    tables = {}
    for name in score.blocks:
        k = len(options[name])
        mine = gains[name][k:][back[name]] if len(back[name]) else np.zeros(len(frame))
        tables[name] = Options(options[name], gains[name][:k], mine)
    return tables


def _all_steps(block: NumberBlock, own: FloatArray) -> list[Any]:
    """Return every value that somebody can reach by steps in a shaped column."""
    assert block.step is not None
    found: set[float] = set(block.fillings().tolist()) if block.absent(own).any() else set()
    for x in np.unique(own[~block.absent(own)]).tolist():
        found.update(_steps_from(block, x).tolist())
    return sorted(found)


def _steps_from(block: NumberBlock, x: float) -> FloatArray:
    """Return the values that can be reached from x by whole steps."""
    assert block.step is not None
    up = 0 if np.isinf(block.up) else max(0.0, (block.high - x) / block.step)
    down = 0 if np.isinf(block.down) else max(0.0, (x - block.low) / block.step)
    count = np.arange(-min(np.ceil(down), MOST_OPTIONS), min(np.ceil(up), MOST_OPTIONS) + 1)
    values = x + count * block.step
    inside = (values >= block.low) & (values <= block.high) & (count != 0)
    return np.asarray(values[inside], dtype=np.float64)


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
    ways: dict[float, tuple[FloatArray, ...]] = field(default_factory=dict, repr=False)

    @property
    def empty(self) -> bool:
        """Whether nobody has an option here."""
        return not np.isfinite(self.prices).any() and (self.steps is None or not self.steps.any())

    def is_stair(self, i: int, power: float) -> bool:
        """Whether a person has too many steps here for a menu."""
        many = self.steps is not None and bool(self.steps[i] > LONGEST_MENU)
        return many and bool(np.isfinite(power))

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
        if x not in self.ways:
            count = np.arange(1, min(int(self.steps[i]), MOST_OPTIONS) + 1)
            reached = np.array([self.after(i, int(m)) for m in count])
            prices = self.block.price(x, reached)
            fine = np.isfinite(prices)
            self.ways[x] = reached[fine], prices[fine], (self.slope * (reached - x))[fine]
        return self.ways[x]

    def after(self, i: int, count: int) -> float:
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
    steps = None
    useful = (prices > 0) & (gains > 0)
    if isinstance(block, NumberBlock) and block.grid is None and name in score.slopes:
        # who has a value moves on a line or by steps; else the value is filled in, or hidden
        hidden = np.array([is_missing(v) for v in options.values], dtype=bool)
        useful &= block.absent(own)[:, None] | hidden[None, :]
        if block.step is not None:
            steps = _useful_steps(block, own, slope)
    prices = np.where(useful, prices, np.inf)
    return Menu(name, block, options.values, prices, gains, own, slope, steps)


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
    return np.asarray(np.maximum(count, 0), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class PersonMenus:
    """The knapsack of one person, and how to read its solution."""

    problem: Problem
    rows: list[tuple[Any, list[Any]]]  # column and values of every menu
    stairs: list[tuple[Menu, int]]  # menu and person of every stair
    lines: IntArray  # places of the open lines

    def picked(self, choice: IntArray) -> dict[Any, Any]:
        """Return the chosen value per column."""
        found: dict[Any, Any] = {}
        for g, (name, values) in enumerate(self.rows):
            if choice[g] >= 0:
                value = values[choice[g] - self.problem.start[g]]
                found.update(value if isinstance(name, JointBlock) else {name: value})
        for k, (menu, i) in enumerate(self.stairs):
            if choice[len(self.rows) + k] > 0:
                found[menu.name] = menu.after(i, int(choice[len(self.rows) + k]))
        return found


@dataclass(frozen=True, eq=False)
class Choices:
    """Menus and lines of some people."""

    menus: list[Menu | JointMenu]
    lines: list[Line]
    room: FloatArray  # (people, lines)
    power: float
    last: dict[Any, Any] = field(default_factory=dict, repr=False)  # knapsacks of one person

    @property
    def only_lines(self) -> bool:
        """Whether nobody has anything but lines."""
        return all(menu.empty for menu in self.menus)

    @property
    def line_gain(self) -> FloatArray:
        """Gain of one unit of each line."""
        return np.array([abs(line.slope) for line in self.lines])

    @property
    def line_price(self) -> FloatArray:
        """Price of one unit of each line."""
        return np.array([line.price for line in self.lines])

    def hideable(self, i: int) -> list[tuple[Any, float, float]]:
        """Return columns that a person can hide, or else move on a line or a stair.

        With the price and gain of hiding; only one of both can be done.
        """
        lines = {line.name for j, line in enumerate(self.lines) if self.room[i, j] > 0}
        found = []
        for menu in self.menus:
            if isinstance(menu, JointMenu):
                continue
            if menu.name not in lines and not menu.is_stair(i, self.power):
                continue
            for k in np.flatnonzero(np.isfinite(menu.prices[i])).tolist():
                if is_missing(menu.values[k]):
                    found.append((menu.name, float(menu.prices[i, k]), float(menu.gains[i, k])))
        return found

    def person(self, i: int, hidden: frozenset[Any], both: frozenset[Any]) -> PersonMenus:
        """Return the knapsack of person i; columns in ``both`` are hidden or moved, not both.

        Those in ``hidden`` are hidden, which is paid for elsewhere.
        """
        key = (i, hidden, both)
        if key not in self.last:
            if self.last and next(iter(self.last))[0] != i:
                self.last.clear()
            self.last[key] = self._person(i, hidden, both)
        person: PersonMenus = self.last[key]
        return person

    def _person(self, i: int, hidden: frozenset[Any], both: frozenset[Any]) -> PersonMenus:
        """Make the knapsack of person i."""
        rows: list[tuple[Any, list[Any], FloatArray, FloatArray]] = []
        stairs: list[tuple[Menu, int, float, float, int]] = []
        for menu in self.menus:
            if menu.name in hidden:
                continue
            values, prices, gains = menu.options(i, self.power)
            if menu.name in both:
                keep = [k for k, v in enumerate(values) if not is_missing(v)]
                values, prices, gains = [values[k] for k in keep], prices[keep], gains[keep]
            if len(values):
                best = _efficient(prices, gains)
                rows.append((menu.name, [values[k] for k in best], prices[best], gains[best]))
            if isinstance(menu, Menu) and menu.is_stair(i, self.power):
                assert menu.steps is not None
                line = Line(menu.name, menu.block, menu.slope)  # type: ignore[arg-type]
                step = float(line.block.step or 0.0)
                stairs.append(
                    (menu, i, line.price * step, abs(menu.slope) * step, int(menu.steps[i]))
                )
        rows.sort(key=lambda row: -len(row[1]))
        stairs.sort(key=lambda stair: stair[2] / stair[3])
        open_ = np.array(
            [
                j
                for j, line in enumerate(self.lines)
                if self.room[i, j] > 0 and line.name not in hidden
            ],
            dtype=np.int64,
        )
        return PersonMenus(
            self._problem(i, rows, stairs, open_),
            [(row[0], row[1]) for row in rows],
            [(stair[0], stair[1]) for stair in stairs],
            open_,
        )

    def _problem(self, i: int, rows: list[Any], stairs: list[Any], open_: IntArray) -> Problem:
        power = 1 if np.isinf(self.power) else int(self.power)
        return Problem(
            np.cumsum([0, *(len(row[1]) for row in rows)]).astype(np.int64),
            (np.concatenate([row[2] for row in rows]) if rows else np.zeros(0)) ** power,
            np.concatenate([row[3] for row in rows]) if rows else np.zeros(0),
            np.array([s[2] for s in stairs], dtype=np.float64),
            np.array([s[3] for s in stairs], dtype=np.float64),
            np.array([s[4] for s in stairs], dtype=np.int64),
            self.line_gain[open_] if len(self.lines) else np.zeros(0),
            self.line_price[open_] if len(self.lines) else np.zeros(0),
            self.room[i, open_],
            power,
        )


def _efficient(prices: FloatArray, gains: FloatArray) -> IntArray:
    """Return the options that no other beats in price and gain, cheapest first."""
    order = np.lexsort((-gains, prices))
    top = np.maximum.accumulate(gains[order])
    first = np.concatenate(([True], gains[order][1:] > top[:-1]))
    return np.asarray(order[first], dtype=np.int64)


def choices_of(
    score: AdditiveScore,
    tables: Mapping[Any, Options],
    values: Mapping[Any, Any],
    who: IntArray,
    power: float,
) -> Choices:
    """Return what the people ``who`` can do."""
    lines = [
        Line(name, block, score.slopes[name])
        for name, block in score.blocks.items()
        if isinstance(block, NumberBlock)
        and not block.finite
        and score.slopes.get(name, 0.0) != 0.0
        and np.isfinite(block.up if score.slopes[name] > 0 else block.down)
    ]
    room = np.zeros((who.size, len(lines)))
    for j, line in enumerate(lines):
        room[:, j] = line.room(values[line.name][who])
    menus = [menu_of(score, name, tables[name], values[name], who) for name in score.blocks]
    return Choices(list(menus), lines, room, power)
