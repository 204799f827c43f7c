"""Columns that cannot move alone: a ratio follows its parts, one-hot columns, ordered counts.

A link merges its columns into one block whose joint options are enumerated per person. It forbids
moves and never changes a price: a joint option costs the combination of its columns' own prices.

Source: "Prices", see docs/theory/20-moves.md.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from counterplay.core.validation import BoolArray, FloatArray
from counterplay.errors import InvalidInputError
from counterplay.strategic.columns import as_floats, cells, same_cells
from counterplay.strategic.move_blocks import Block, CategoryBlock, NumberBlock
from counterplay.tables.cells import is_missing, listed, shown

MOST_JOINT = 10_000
LONGEST_FORMULA = 200


@dataclass(frozen=True)
class Derived:
    """A column that follows others, such as a ratio; it has no price of its own.

    Parameters
    ----------
    column
        The column that follows.
    of
        The columns it is computed from.
    by
        How: a function of a frame with these columns, or a formula in their names with numbers,
        + - * / and parentheses.

    Examples
    --------
    >>> import pandas as pd
    >>> ratio = Derived("ratio", of=["debt", "income"], by="debt / income")
    >>> ratio.values(pd.DataFrame({"debt": [1.0, 3.0], "income": [4.0, 4.0]})).tolist()
    [0.25, 0.75]

    References
    ----------
    "Prices", see docs/theory/20-moves.md.
    """

    column: Any
    of: Sequence[Any]
    by: Callable[[pd.DataFrame], Any] | str
    _call: Callable[[pd.DataFrame], Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        of = (
            tuple(self.of) if isinstance(self.of, Sequence) and not isinstance(self.of, str) else ()
        )
        if not of or self.column in of or len(set(of)) < len(of):
            raise InvalidInputError(
                f"Derived({shown(self.column, 40)}) needs the different columns it follows, got "
                f"{shown(self.of)}"
            )
        object.__setattr__(self, "of", of)
        if isinstance(self.by, str):
            call = formula(self.by, of)
        elif callable(self.by):
            call = self.by
        else:
            raise InvalidInputError(f"by must be a function or a formula, got {shown(self.by)}")
        object.__setattr__(self, "_call", call)

    def __reduce__(self) -> tuple[Any, ...]:
        return Derived, (self.column, self.of, self.by)

    @property
    def columns(self) -> tuple[Any, ...]:
        """All columns of the link."""
        return (self.column, *self.of)

    @property
    def label(self) -> str:
        """The link in messages."""
        return f"Derived({shown(self.column, 40)})"

    def values(self, frame: pd.DataFrame) -> FloatArray:
        """Return the column that follows from the others."""
        with np.errstate(all="ignore"):
            found = np.asarray(self._call(frame[list(self.of)]))
        if found.shape != (len(frame),):
            raise InvalidInputError(
                f"{self.label}: by must give one number per row, got shape {found.shape}"
            )
        return as_floats(found, self.column)


@dataclass(frozen=True)
class OneHot:
    """Columns of which exactly one is 1, the others 0: one category, encoded already.

    Use it in ``Moves(..., links=[...])`` for a category that was encoded before it came into the
    table.

    Parameters
    ----------
    columns:
        The columns of the category, at least two.

    Examples
    --------
    >>> OneHot(["rents", "owns"]).columns
    ('rents', 'owns')

    References
    ----------
    "Prices", see docs/theory/20-moves.md.
    """

    columns: Sequence[Any]

    def __post_init__(self) -> None:
        given = self.columns
        names = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else ()
        if len(names) < 2 or len(set(names)) < len(names):
            raise InvalidInputError(f"OneHot needs at least two columns, got {shown(given)}")
        object.__setattr__(self, "columns", names)

    @property
    def label(self) -> str:
        """The link in messages."""
        return f"OneHot({listed(list(self.columns))})"


@dataclass(frozen=True)
class NotAbove:
    """A column that is never above another, such as 90-day and 60-day late payments.

    Use it in ``Moves(..., links=[...])``, so that nobody is advised to move one column past the
    other.

    Parameters
    ----------
    low:
        Column that may not exceed the other.
    high:
        The other column.

    Examples
    --------
    >>> NotAbove("late90", "late60").columns
    ('late90', 'late60')

    References
    ----------
    "Prices", see docs/theory/20-moves.md.
    """

    low: Any
    high: Any

    def __post_init__(self) -> None:
        if self.low == self.high:
            raise InvalidInputError(f"NotAbove needs two columns, got {shown(self.low)} twice")

    @property
    def columns(self) -> tuple[Any, ...]:
        """All columns of the link."""
        return (self.low, self.high)

    @property
    def label(self) -> str:
        """The link in messages."""
        return f"NotAbove({shown(self.low, 40)}, {shown(self.high, 40)})"


Link = Derived | OneHot | NotAbove


@dataclass(frozen=True, eq=False)
class JointBlock:
    """Columns that links hold together, with the prices of those that move.

    Parameters
    ----------
    columns
        All columns of the block.
    movers
        Prices of the columns that move.
    links
        What holds them together.
    power
        Exponent under which prices are added.
    """

    columns: tuple[Any, ...]
    movers: Mapping[Any, Block]
    links: tuple[Link, ...]
    power: float

    @property
    def name(self) -> str:
        """The block in messages."""
        return "block (" + ", ".join(str(c) for c in self.columns) + ")"

    def options(self, person: Mapping[Any, Any], budget: float) -> tuple[pd.DataFrame, FloatArray]:
        """Return what a person can make of the block within a budget, and the prices.

        The first row is what she has.
        """
        names: list[Any] = []
        rows: list[tuple[Any, ...]] = [()]
        prices = np.zeros(1)
        for group, values, cost in self._factors(person, budget):
            total = _added(prices[:, None], cost[None, :], self.power)
            inside = np.argwhere(total <= _powered(budget, self.power) * (1 + 1e-9))
            if len(inside) > MOST_JOINT:
                raise InvalidInputError(self._too_many(len(inside), person, budget))
            rows = [rows[a] + values[b] for a, b in inside.tolist()]
            prices = total[inside[:, 0], inside[:, 1]]
            names += group
        frame = pd.DataFrame({name: [row[k] for row in rows] for k, name in enumerate(names)})
        for name in self.columns:
            if name not in names:
                frame[name] = [person[name]] * len(frame)
        frame = frame[list(self.columns)]
        keep = self._follow(frame, person)
        keep[0] = True
        root = prices ** (1 / self.power) if self.power == 2 else prices
        return frame[keep].reset_index(drop=True), root[keep]

    def _factors(
        self, person: Mapping[Any, Any], budget: float
    ) -> list[tuple[list[Any], list[tuple[Any, ...]], FloatArray]]:
        """Return groups of columns that are chosen independently: values and powered prices."""
        found = []
        hot = [link for link in self.links if isinstance(link, OneHot)]
        for link in hot:
            values, cost = self._one_hot(link, person)
            found.append((list(link.columns), values, cost))
        done = {name for link in hot for name in link.columns}
        for name, block in self.movers.items():
            if name not in done:
                values, cost = column_options(block, person[name], budget)
                found.append(([name], [(v,) for v in values], _powered(cost, self.power)))
        return found

    def _one_hot(
        self, link: OneHot, person: Mapping[Any, Any]
    ) -> tuple[list[tuple[Any, ...]], FloatArray]:
        own = [person[name] for name in link.columns]
        values, cost = [tuple(own)], [0.0]
        for j in range(len(own)):
            goal = [float(k == j) for k in range(len(own))]
            if all(a == b for a, b in zip(own, goal)):
                continue
            price = np.zeros(1)
            for name, a, b in zip(link.columns, own, goal):
                if a == b:
                    continue
                block = self.movers.get(name)
                step = np.inf if block is None else float(np.ravel(block.price([a], [b]))[0])
                price = _added(price, _powered(np.array([step]), self.power), self.power)
            if np.isfinite(price[0]):
                values.append(tuple(goal))
                cost.append(float(price[0]))
        return values, np.array(cost)

    def _follow(self, frame: pd.DataFrame, person: Mapping[Any, Any]) -> BoolArray:
        """Write the derived columns; return which rows obey all links."""
        keep = np.ones(len(frame), dtype=bool)
        for link in self.links:
            moved = np.zeros(len(frame), dtype=bool)
            for name in link.of if isinstance(link, Derived) else link.columns:
                moved |= differs(frame[name], person[name])
            if isinstance(link, Derived):
                if moved.any():
                    values = np.full(len(frame), np.nan)
                    values[moved] = link.values(frame[moved])
                    own = person[link.column]
                    frame[link.column] = [
                        v if m else own for v, m in zip(values.tolist(), moved.tolist())
                    ]
                    keep &= ~moved | np.isfinite(values)
            elif isinstance(link, NotAbove):
                low = as_floats(frame[link.low].to_numpy(), link.low)
                high = as_floats(frame[link.high].to_numpy(), link.high)
                keep &= ~moved | ~(low > high)
        return keep

    def _too_many(self, count: int, person: Mapping[Any, Any], budget: float) -> str:
        """Say how many options there are and which step to coarsen."""
        sizes = {
            name: len(column_options(block, person[name], budget)[0])
            for name, block in self.movers.items()
        }
        largest = max(sizes, key=lambda name: sizes[name])
        block = self.movers[largest]
        advice = f"shorten the list of {shown(largest, 40)}"
        if isinstance(block, NumberBlock) and block.step is not None:
            factor = float(np.ceil(max(2.0, count / MOST_JOINT)))
            advice = f"coarsen the step of {shown(largest, 40)} to {block.step * factor:g}"
        return f"{self.name} has {count:,} options within the budget; {advice}"


def column_options(block: Block, own: Any, budget: float) -> tuple[list[Any], FloatArray]:
    """Return the values of a finite column within a budget and their prices; the own one first."""
    if isinstance(block, CategoryBlock):
        values: list[Any] = [c for c in block.categories if c != own]
        values += [np.nan] if np.isfinite(block.hide) and not is_missing(own) else []
        prices = block.price(np.array([own], dtype=object), np.array([*values, None], dtype=object))
        prices = prices[:-1]
    else:
        x = np.nan if is_missing(own) else float(own)
        absent = bool(block.absent(np.array([x]))[0])
        reached = block.fillings(MOST_JOINT) if absent else reachable(block, x, budget)
        values = reached.tolist()
        values += [np.nan] if np.isfinite(block.hide) and not absent else []
        prices = block.price(x, np.array(values, dtype=np.float64)) if values else np.zeros(0)
    inside = np.flatnonzero((prices > 0) & np.isfinite(prices) & (prices <= budget * (1 + 1e-9)))
    return [own, *(values[k] for k in inside)], np.concatenate(([0.0], prices[inside]))


def reachable(
    block: NumberBlock, x: float, budget: float, most: int = 10 * MOST_JOINT
) -> FloatArray:
    """Return the values of a grid, or those that can be reached from x by steps."""
    if block.grid is not None:
        return block.grid
    assert block.step is not None
    down, up = (min(float(far[0]), most) for far in _far(block, np.array([x]), budget))
    # somebody outside the bounds may move inward
    values = x + np.arange(-down, up + 1) * block.step
    inside = (values >= block.low) & (values <= block.high) & (values != x)
    return np.asarray(values[inside], dtype=np.float64)


def steps_within(block: NumberBlock, values: FloatArray, budget: float) -> FloatArray:
    """Return how many steps down and up there are from each of some values; maybe infinite."""
    down, up = _far(block, values, budget)
    return down + up


def _far(block: NumberBlock, values: FloatArray, budget: float) -> list[FloatArray]:
    """Return the steps down, and up, that bounds and budget leave."""
    assert block.step is not None
    ways = ((block.down, values - block.low), (block.up, block.high - values))
    found = []
    for price, room in ways:
        rate = price * block.step / block.unit
        far = np.minimum(np.maximum(room, 0.0) / block.step, budget / rate)
        found.append(np.zeros(values.size) if np.isinf(price) else np.ceil(far))
    return found


def differs(column: pd.Series, own: Any) -> BoolArray:
    """Return which cells of a column differ from a value."""
    gone = is_missing(own)
    return np.array([is_missing(v) != gone or (not gone and v != own) for v in column], dtype=bool)


def _powered(price: Any, power: float) -> Any:
    return price if np.isinf(power) else price**power


def _added(a: FloatArray, b: FloatArray, power: float) -> FloatArray:
    return np.maximum(a, b) if np.isinf(power) else a + b


def obeys(link: Link, start: pd.DataFrame, goal: pd.DataFrame, *, pairwise: bool) -> BoolArray:
    """Return which moves from rows of one frame to rows of another a link allows."""

    def moved(names: Sequence[Any]) -> BoolArray:
        found = np.zeros((1,), dtype=bool)
        for name in names:
            a, b = cells(start[name]), cells(goal[name])
            found = found | ~(same_cells(a[:, None], b[None, :]) if pairwise else same_cells(a, b))
        return found

    if isinstance(link, Derived):
        own = moved([link.column])
        reached = as_floats(cells(goal[link.column]), link.column)
        follows = np.isclose(link.values(goal), reached, rtol=1e-6, atol=1e-12)
        return np.where(moved(link.of), follows, ~own)
    numbers = [as_floats(cells(goal[name]), name) for name in link.columns]
    if isinstance(link, OneHot):
        ones = np.sum([v == 1 for v in numbers], axis=0) == 1
        fine = ones & np.all([(v == 0) | (v == 1) for v in numbers], axis=0)
    else:
        fine = ~(numbers[0] > numbers[1])
    return np.asarray(~moved(link.columns) | fine, dtype=bool)


def joint_blocks(
    blocks: Mapping[Any, Block], links: Sequence[Link], power: float
) -> tuple[JointBlock, ...]:
    """Return the blocks that links make of columns; every column is in at most one of them."""
    follow = [link.column for link in links if isinstance(link, Derived)]
    for link in links:
        if not isinstance(link, Link):
            raise InvalidInputError(f"links must be Derived, OneHot or NotAbove, got {shown(link)}")
        _check_link(link, blocks, follow)
    groups: list[list[Link]] = []
    for link in links:
        mine = [g for g in groups if any(set(k.columns) & set(link.columns) for k in g)]
        groups = [g for g in groups if g not in mine]
        groups.append([k for g in mine for k in g] + [link])
    made = []
    for group in groups:
        names = tuple(dict.fromkeys(c for link in group for c in link.columns))
        movers = {name: blocks[name] for name in names if name in blocks}
        if movers:
            made.append(JointBlock(names, movers, _ordered(group), power))
    return tuple(made)


def _check_link(link: Link, blocks: Mapping[Any, Block], follow: list[Any]) -> None:
    """Refuse a follower with a price of its own and continuous columns."""
    if isinstance(link, Derived) and (link.column in blocks or follow.count(link.column) > 1):
        raise InvalidInputError(
            f"{shown(link.column, 40)} follows other columns and has no price of its own; leave "
            "it out of Moves"
        )
    if isinstance(link, OneHot):
        return
    for name in link.columns:
        block = blocks.get(name)
        if isinstance(block, NumberBlock) and not block.finite:
            raise InvalidInputError(f"{link.label} needs a step or grid for {shown(name, 40)}")
        if isinstance(block, CategoryBlock) and isinstance(link, NotAbove):
            raise InvalidInputError(f"{link.label}: {shown(name, 40)} is no number")


def _ordered(links: Sequence[Link]) -> tuple[Link, ...]:
    """Return links in an order in which every derived column comes after what it follows."""
    waiting = [link for link in links if isinstance(link, Derived)]
    done: list[Link] = []
    while waiting:
        open_ = {link.column for link in waiting}
        ready = [link for link in waiting if not open_ & set(link.of)]
        if not ready:
            raise InvalidInputError(f"{waiting[0].label} follows itself")
        done += ready
        waiting = [link for link in waiting if link not in ready]
    return (*done, *(link for link in links if not isinstance(link, Derived)))


def formula(text: str, names: Sequence[Any]) -> Callable[[pd.DataFrame], Any]:
    """Return a formula of columns: names, numbers, + - * / and parentheses; nothing is evaluated.

    Examples
    --------
    >>> import pandas as pd
    >>> formula("(a + 1) / 2", ["a"])(pd.DataFrame({"a": [3.0]})).tolist()
    [2.0]
    """
    if len(text) > LONGEST_FORMULA:
        raise InvalidInputError(f"links: by has {len(text)} characters; at most {LONGEST_FORMULA}")
    wrong = InvalidInputError(
        f"links: only names, numbers, + - * / and parentheses; got {shown(text, 100)}"
    )
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise wrong from None
    signs = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide}

    def check(node: ast.expr) -> None:
        if isinstance(node, ast.BinOp) and type(node.op) in signs:
            check(node.left)
            check(node.right)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            check(node.operand)
        elif isinstance(node, ast.Name):
            if node.id not in names:
                raise InvalidInputError(f"links: by names {node.id!r}, which is not in of")
        elif not (isinstance(node, ast.Constant) and type(node.value) in (int, float)):
            raise wrong

    check(tree)

    def value(node: ast.expr, frame: pd.DataFrame) -> Any:
        if isinstance(node, ast.BinOp):
            return signs[type(node.op)](value(node.left, frame), value(node.right, frame))
        if isinstance(node, ast.UnaryOp):
            inner = value(node.operand, frame)
            return -inner if isinstance(node.op, ast.USub) else inner
        if isinstance(node, ast.Name):
            return as_floats(frame[node.id].to_numpy(), node.id)
        assert isinstance(node, ast.Constant)
        return np.full(len(frame), float(node.value))  # type: ignore[arg-type]

    return lambda frame: value(tree, frame)
