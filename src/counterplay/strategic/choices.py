"""The knapsack of one person, and columns on which one thing excludes another.

A column is hidden or moved, not both; who is outside the bounds stays or moves inside. The
knapsack lets a person do both. Where a solution does, the column is decided one way and the other,
and both are solved; a solution that is possible ends its branch. What a knapsack that allows more
promises is a bound for all that follow from it.

Source: "Additive scores", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.validation import FloatArray, IntArray
from counterplay.strategic.joint_menus import JointMenu
from counterplay.strategic.knapsack_dual import Problem, Solution
from counterplay.strategic.line_filling import filling_order
from counterplay.strategic.links import JointBlock
from counterplay.strategic.menus import Line, Menu, Options, efficient, menu_of
from counterplay.strategic.move_blocks import NumberBlock
from counterplay.tables.cells import is_missing

if TYPE_CHECKING:
    from counterplay.strategic.additive import AdditiveScore

MOST_BRANCHES = 2000

Modes = tuple[tuple[Any, str], ...]  # columns on which it is decided what is done


@dataclass(frozen=True, eq=False)
class PersonMenus:
    """The knapsack of one person, and how to read its solution."""

    problem: Problem
    rows: list[tuple[Any, list[Any]]]  # column and values of every menu
    stairs: list[tuple[Menu, int, int]]  # menu, person and steps that are made already
    lines: IntArray  # places of the open lines
    made: FloatArray  # what is made already of every open line
    price: float  # of what is decided
    gain: float

    def picked(self, choice: IntArray) -> dict[Any, Any]:
        """Return the chosen value per column."""
        found: dict[Any, Any] = {}
        for g, (name, values) in enumerate(self.rows):
            if choice[g] >= 0:
                value = values[choice[g] - self.problem.start[g]]
                found.update(value if isinstance(name, JointBlock) else {name: value})
        for (menu, i, made), count in zip(self.stairs, choice[len(self.rows) :].tolist()):
            if made + count > 0:
                found[menu.name] = menu.after(i, made + count)
        return found


@dataclass(frozen=True, eq=False)
class Choices:
    """Menus and lines of some people.

    A column of a person may be hidden or moved, not both, and who is outside the bounds stays or
    moves inside. A knapsack leaves that open, unless it is decided: ``"hide"`` (and do not move),
    ``"keep"`` (do not hide), ``"stay"`` (do not move) or ``"enter"`` (move inside the bounds).
    """

    menus: list[Menu | JointMenu]
    lines: list[Line]
    room: FloatArray  # (people, lines)
    gap: FloatArray  # (people, lines) what leads inside the bounds
    power: float
    last: dict[Any, Any] = field(default_factory=dict, repr=False)  # knapsacks of one person

    @property
    def only_lines(self) -> bool:
        """Whether nobody has anything but lines within the bounds."""
        outside = self.power == 1 and bool(((self.gap > 0) & (self.room > 0)).any())
        return not outside and all(menu.empty for menu in self.menus)

    @property
    def line_gain(self) -> FloatArray:
        """Gain of one unit of each line."""
        return np.array([abs(line.slope) for line in self.lines])

    @property
    def line_price(self) -> FloatArray:
        """Price of one unit of each line."""
        return np.array([line.price for line in self.lines])

    def person(self, i: int, modes: Modes = ()) -> PersonMenus:
        """Return the knapsack of person i with what is decided on some columns."""
        key = (i, modes)
        if key not in self.last:
            if self.last and next(iter(self.last))[0] != i:
                self.last.clear()
            self.last[key] = self._person(i, dict(modes))
        person: PersonMenus = self.last[key]
        return person

    def undecided(
        self, i: int, modes: Modes, person: PersonMenus, found: Solution
    ) -> tuple[Any, tuple[str, str]] | None:
        """Return a column on which a solution does what excludes each other, and both ways out."""
        rows = len(person.rows)
        hidden = {
            name
            for g, (name, values) in enumerate(person.rows)
            if found.choice[g] >= 0
            and not isinstance(name, JointBlock)
            and is_missing(values[found.choice[g] - person.problem.start[g]])
        }
        short: dict[Any, bool] = {}  # columns that move, and whether not far enough
        for (menu, _, made), count in zip(person.stairs, found.choice[rows:].tolist()):
            if count > 0:
                short[menu.name] = made + count < menu.first(i)
        for j, made, amount in zip(person.lines, person.made, found.amount):
            if amount > 0:
                short[self.lines[j].name] = made + amount < self.gap[i, j] * (1 - 1e-9)
        for name, outside in short.items():
            if name in hidden:
                return name, ("hide", "keep")
            if outside and self.power == 1:
                return name, ("stay", "enter")
        return None

    def _person(self, i: int, modes: dict[Any, str]) -> PersonMenus:
        """Make the knapsack of person i."""
        rows: list[tuple[Any, list[Any], FloatArray, FloatArray]] = []
        stairs: list[tuple[Menu, int, int, float, float, int]] = []
        paid: list[tuple[float, float]] = []
        for menu in self.menus:
            mode = modes.get(menu.name)
            values, prices, gains = menu.options(i, self.power)
            hiding = np.array([is_missing(v) for v in values], dtype=bool)
            if mode == "hide":
                paid.append((float(prices[hiding][0]), float(gains[hiding][0])))
                continue
            if mode in ("keep", "enter"):
                keep = np.flatnonzero(~hiding)
                values, prices, gains = [values[k] for k in keep], prices[keep], gains[keep]
            if len(values):
                best = efficient(prices, gains)
                rows.append((menu.name, [values[k] for k in best], prices[best], gains[best]))
            if isinstance(menu, Menu) and mode != "stay" and menu.is_stair(i, self.power):
                stairs.append(_stair(menu, i, menu.first(i) if mode == "enter" else 0))
                paid.append((stairs[-1][2] * stairs[-1][3], stairs[-1][2] * stairs[-1][4]))
        rows.sort(key=lambda row: -len(row[1]))
        stairs.sort(key=lambda stair: stair[3] / stair[4])
        shut = [modes.get(line.name) in ("hide", "stay") for line in self.lines]
        open_ = np.flatnonzero((self.room[i] > 0) & ~np.array(shut, dtype=bool))
        enter = np.array([modes.get(line.name) == "enter" for line in self.lines], dtype=bool)
        made = np.where(enter, self.gap[i], 0.0)
        room = self.room[i] - made
        gain, price = self.line_gain, self.line_price
        open_ = open_[filling_order(gain[open_], price[open_], room[open_], self.power)]
        gain, price, made, room = gain[open_], price[open_], made[open_], room[open_]
        paid += zip((made * price).tolist(), (made * gain).tolist())
        return PersonMenus(
            self._problem(rows, stairs, (gain, price, room)),
            [(row[0], row[1]) for row in rows],
            [stair[:3] for stair in stairs],
            open_,
            made,
            together([price for price, _ in paid], self.power),
            sum(gain for _, gain in paid),
        )

    def _problem(
        self, rows: list[Any], stairs: list[Any], lines: tuple[FloatArray, FloatArray, FloatArray]
    ) -> Problem:
        power = 1 if np.isinf(self.power) else int(self.power)
        return Problem(
            np.cumsum([0, *(len(row[1]) for row in rows)]).astype(np.int64),
            (np.concatenate([row[2] for row in rows]) if rows else np.zeros(0)) ** power,
            np.concatenate([row[3] for row in rows]) if rows else np.zeros(0),
            np.array([s[3] for s in stairs], dtype=np.float64),
            np.array([s[4] for s in stairs], dtype=np.float64),
            np.array([s[5] for s in stairs], dtype=np.int64),
            *lines,
            power,
        )


def _stair(menu: Menu, i: int, made: int) -> tuple[Menu, int, int, float, float, int]:
    """Return a stair of person i: what is made already, price and gain of a step, steps left."""
    assert menu.steps is not None
    assert isinstance(menu.block, NumberBlock)  # only numbers have steps
    line = Line(menu.name, menu.block, menu.slope)
    step = float(line.block.step or 0.0)
    left = int(menu.steps[i]) - made
    return menu, i, made, line.price * step, abs(menu.slope) * step, left


def together(prices: list[float], power: float) -> float:
    """Return the price of several blocks.

    Examples
    --------
    >>> together([3.0, 4.0], 1), together([3.0, 4.0], 2), together([3.0, 4.0], np.inf)
    (7.0, 5.0, 4.0)
    """
    if np.isinf(power):
        return max(prices, default=0.0)
    return float(sum(price**power for price in prices) ** (1 / power))


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
    room, gap = np.zeros((2, who.size, len(lines)))
    for j, line in enumerate(lines):
        room[:, j], gap[:, j] = line.room(values[line.name][who]), line.gap(values[line.name][who])
    menus = [menu_of(score, name, tables[name], values[name], who) for name in score.blocks]
    return Choices(list(menus), lines, room, np.where(gap <= room, gap, 0.0), power)


def solve_person(
    choices: Choices, i: int, solve: Callable[[PersonMenus, float], Solution], *, least: bool
) -> tuple[float, float, dict[Any, Any], FloatArray]:
    """Return bounds on the best value, the chosen value per column, and the amounts of the lines.

    ``solve`` is asked for a knapsack and told the best value so far; ``least`` says that less is
    better.
    """
    sign = 1.0 if least else -1.0  # below, less is better
    best = bound = np.inf
    pick: dict[Any, Any] = {}
    amount = np.zeros(len(choices.lines))
    branches: list[tuple[float, Modes]] = [(-np.inf, ())]
    for _ in range(MOST_BRANCHES):
        if not branches:
            break
        _, modes = branches.pop()
        person = choices.person(i, modes)
        found = solve(person, sign * best)
        floor, value = sorted((sign * found.low, sign * found.high))
        if not floor < best:
            continue
        open_ = choices.undecided(i, modes, person, found) if np.isfinite(value) else None
        if open_ is not None:
            name, ways = open_
            others = tuple(mode for mode in modes if mode[0] != name)
            branches += [(floor, (*others, (name, way))) for way in ways]
            continue
        bound = min(bound, floor)
        if value < best:
            best, pick = value, person.picked(found.choice)
            hidden = {name: np.nan for name, mode in modes if mode == "hide"}
            pick = hidden | pick
            amount = np.zeros(len(choices.lines))
            amount[person.lines] = person.made + found.amount
    bound = min([bound, best, *(floor for floor, _ in branches)])
    low, high = sorted((sign * bound, sign * best))
    return low, high, pick, amount


def found_nothing(problem: Problem, value: float) -> Solution:
    """Return that a knapsack has no solution of interest."""
    choice = np.full(problem.start.size - 1 + problem.stair_steps.size, -1, dtype=np.int64)
    choice[problem.start.size - 1 :] = 0
    return Solution(value, value, choice, np.zeros(problem.line_gain.size))
