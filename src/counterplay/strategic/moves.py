"""What people can really change, and what it costs them, in the words of a table.

A lender, school or insurer names the columns that people can move: in which direction, by which
steps, within which bounds, at which price; which categories can be switched; whether a missing
entry can be filled. Columns that are not named cannot move.

Source: "Prices", see docs/theory/20-moves.md.
"""

from __future__ import annotations

import math
import numbers
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from counterplay.core.validation import FloatArray, check_choice, shorten
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.strategic.move_blocks import (
    MOST_GRID_VALUES,
    Block,
    CategoryBlock,
    NumberBlock,
    closed,
)
from counterplay.tables import Table
from counterplay.tables.cells import is_missing, listed, shown

Direction = Literal["up", "down", "both"]
Per = Literal["unit", "step", "spread", "sd", "decile"]
Combine = Literal["sum", "euclid", "max"]

_UNITS = {
    "unit": "raw unit",
    "step": "step",
    "spread": "spread of the reference data",
    "sd": "standard deviation of the reference data",
    "decile": "tenth of the reference people",
}


@dataclass(frozen=True)
class Change:
    """A numeric column that people can move.

    Parameters
    ----------
    direction
        ``"up"``, ``"down"`` or ``"both"``.
    cost
        Price of one unit of the scale; a pair is (up, down).
    step
        Destinations are the own value plus whole multiples of it.
    per
        The scale: ``"unit"`` (raw units), ``"step"``, ``"spread"`` (robust standard deviation of
        the reference column: (q90 - q10) / 2.563), ``"sd"``, or ``"decile"`` (ranks among the
        reference people).
    low
        Least destination; default: the least value seen in the reference data.
    high
        Largest destination; default: the largest value seen.
    grid
        The only destinations, instead of ``step``.
    missing
        ``"keep"``, or the flat price of filling a missing entry with any allowed value.
    hide
        Price of withholding a value; None if it cannot be withheld.
    codes
        Values that mean "no record", such as -9: they are missing entries, never destinations.

    Examples
    --------
    >>> Change("down", step=1, cost=2.0, per="unit", low=0).prices
    (inf, 2.0)
    >>> Change("sideways")
    Traceback (most recent call last):
    ...
    counterplay.errors.InvalidInputError: direction must be one of 'up', 'down', 'both', got \
'sideways'
    """

    direction: Direction
    cost: float | tuple[float, float] = 1.0
    step: float | None = None
    per: Per = "spread"
    low: float | None = None
    high: float | None = None
    grid: Sequence[float] | None = None
    missing: float | Literal["keep"] = "keep"
    hide: float | None = None
    codes: Sequence[float] = ()

    def __post_init__(self) -> None:
        check_choice(self.direction, "direction", ("up", "down", "both"))
        check_choice(self.per, "per", tuple(_UNITS))
        if isinstance(self.cost, Sequence) and not isinstance(self.cost, str):
            pair = tuple(_price(c, "cost", infinite=True) for c in self.cost)
            if len(pair) != 2:
                raise InvalidInputError(f"cost is a number or (up, down), got {shown(self.cost)}")
            object.__setattr__(self, "cost", pair)
        else:
            object.__setattr__(self, "cost", _price(self.cost, "cost", infinite=True))
        if not any(map(math.isfinite, self.prices)):
            raise InvalidInputError(
                "cost is infinite both ways; a column nobody can move is left out of Moves"
            )
        for name in ("low", "high", "step"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _number(value, name))
        if self.low is not None and self.high is not None and self.low > self.high:
            raise InvalidInputError(f"low is {self.low:g} and above high, which is {self.high:g}")
        if self.step is not None and not self.step > 0:
            raise InvalidInputError(f"step must be above 0, got {self.step:g}")
        if self.step is not None and self.grid is not None:
            raise InvalidInputError("give step or grid, not both")
        if self.per == "step" and self.step is None:
            raise InvalidInputError('per="step" needs a step')
        if self.per == "decile" and self.step is not None:
            raise InvalidInputError('per="decile" moves to values that were seen; leave out step')
        if self.grid is not None:
            values = tuple(sorted({_number(v, "grid") for v in self.grid}))
            if not values:
                raise InvalidInputError("grid is empty")
            object.__setattr__(self, "grid", values)
        _check_holes(self)
        object.__setattr__(self, "codes", tuple(_number(c, "codes") for c in self.codes))

    @property
    def prices(self) -> tuple[float, float]:
        """Price of one unit upward and downward; infinite where the way is closed."""
        up, down = self.cost if isinstance(self.cost, tuple) else (self.cost, self.cost)
        return (
            up if self.direction != "down" else math.inf,
            down if self.direction != "up" else math.inf,
        )


@dataclass(frozen=True)
class Switch:
    """A column of categories that people can switch.

    Parameters
    ----------
    cost
        Price of every allowed switch, or a dictionary {(from, to): price}.
    allowed
        Pairs (from, to) that can be switched; default: any to any category that was seen.
    ladder
        Categories from the lowest to the highest rung; the price is per rung.
    direction
        Way on the ladder: ``"up"``, ``"down"`` or ``"both"``.
    missing
        ``"keep"``, or the flat price of filling a missing entry with any of the categories.
    hide
        Price of withholding the value; None if it cannot be withheld.

    Examples
    --------
    >>> Switch({("rent", "own"): 3.0, ("free", "rent"): 1.0}).pairs()
    {('rent', 'own'): 3.0, ('free', 'rent'): 1.0}
    >>> Switch(0.5, ladder=["none", "some", "full"], direction="up").pairs()
    {('none', 'some'): 0.5, ('some', 'full'): 0.5}
    """

    cost: float | Mapping[tuple[Any, Any], float] = 1.0
    allowed: Sequence[tuple[Any, Any]] | None = None
    ladder: Sequence[Any] | None = None
    direction: Direction = "both"
    missing: float | Literal["keep"] = "keep"
    hide: float | None = None

    def __post_init__(self) -> None:
        check_choice(self.direction, "direction", ("up", "down", "both"))
        if isinstance(self.cost, Mapping):
            if self.allowed is not None or self.ladder is not None:
                raise InvalidInputError(
                    "a table of prices says what is allowed; leave out the rest"
                )
            if not self.cost:
                raise InvalidInputError("the table of switches is empty")
            table = {_pair(k): _price(p, f"price of {shown(k)}") for k, p in self.cost.items()}
            object.__setattr__(self, "cost", MappingProxyType(table))
        else:
            object.__setattr__(self, "cost", _price(self.cost, "cost"))
        if self.allowed is not None and self.ladder is not None:
            raise InvalidInputError("give allowed or ladder, not both")
        if self.allowed is not None:
            object.__setattr__(self, "allowed", tuple(map(_pair, self.allowed)))
        if self.ladder is not None:
            rungs = tuple(self.ladder)
            if len(rungs) < 2 or len(set(rungs)) < len(rungs):
                raise InvalidInputError("a ladder needs at least two different rungs")
            object.__setattr__(self, "ladder", rungs)
        elif self.direction != "both":
            raise InvalidInputError("direction belongs to a ladder")
        _check_holes(self)

    def __reduce__(self) -> tuple[Any, ...]:
        cost = dict(self.cost) if isinstance(self.cost, Mapping) else self.cost
        return Switch, (cost, self.allowed, self.ladder, self.direction, self.missing, self.hide)

    def pairs(self, seen: Iterable[Any] = ()) -> dict[tuple[Any, Any], float]:
        """Return the price of each direct switch; ``seen`` are the categories of the data."""
        if isinstance(self.cost, Mapping):
            return dict(self.cost)
        if self.ladder is not None:
            steps = list(zip(self.ladder, self.ladder[1:]))
            up = steps if self.direction != "down" else []
            down = [(b, a) for a, b in steps] if self.direction != "up" else []
            return {pair: float(self.cost) for pair in up + down}
        if self.allowed is not None:
            return {pair: float(self.cost) for pair in self.allowed}
        known = list(dict.fromkeys(seen))
        return {(a, b): float(self.cost) for a in known for b in known if a != b}


@dataclass(frozen=True, eq=False)
class Moves:
    """Everything people can do to a row of a table, with its price.

    Parameters
    ----------
    columns
        A `Change` or `Switch` per column that can move (position instead of name for arrays).
        Columns that are not named cannot move.
    reference
        The training data: it gives spreads, ranks, seen ranges and categories.
    combine
        How prices of several columns add up: ``"sum"``, ``"euclid"`` (root of the sum of squares)
        or ``"max"``.
    budget
        What one person can spend, if that is known; functions use it as their default.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame({"late": [0, 1, 4], "home": ["rent", "own", "rent"],
    ...                        "age": [20, 30, 40]})
    >>> moves = Moves({"late": Change("down", step=1, per="unit", cost=2.0),
    ...                "home": Switch({("rent", "own"): 3.0})}, reference=people)
    >>> moves.price(people, people.assign(late=0, home="own")).tolist()
    [3.0, 2.0, 11.0]
    >>> moves.price(people, people.assign(age=18)).tolist()  # age is not named: nobody can move it
    [inf, inf, inf]
    """

    columns: Mapping[Any, Change | Switch]
    reference: Any = field(default=None, repr=False)
    combine: Combine = "sum"
    budget: float | None = None
    blocks: Mapping[Any, Block] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise InvalidInputError("Moves needs a dictionary of columns that can move")
        for name, item in self.columns.items():
            if not isinstance(item, Change | Switch):
                raise InvalidInputError(
                    f"Moves for {shown(name)} must be Change or Switch, got {shown(item)}"
                )
        check_choice(self.combine, "combine", ("sum", "euclid", "max"))
        if self.budget is not None:
            check_budget(self.budget)
        frame = (
            None if self.reference is None else Table.of(self.reference, what="reference").frame()
        )
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))
        blocks = {
            name: compile_block(name, item, None if frame is None else _column(frame, name))
            for name, item in self.columns.items()
        }
        object.__setattr__(self, "blocks", MappingProxyType(blocks))
        _warn_integers(self.columns, frame)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (dict(self.columns), self.reference, self.combine, self.budget)

    @property
    def power(self) -> float:
        """Exponent under which prices of blocks are added; infinite for the maximum."""
        return {"sum": 1.0, "euclid": 2.0, "max": math.inf}[self.combine]

    @property
    def units(self) -> str:
        """What a price of 1 buys, in words."""
        pers = list(dict.fromkeys(c.per for c in self.columns.values() if isinstance(c, Change)))
        if not pers:
            return "prices of switches"
        return "price 1 = one " + ", or one ".join(_UNITS[per] for per in pers)

    def check_columns(self, names: Sequence[Any], what: str = "X") -> None:
        """Raise if a column of these moves is not among the names."""
        known = list(names)
        for name in self.columns:
            if name not in known:
                import difflib

                near = difflib.get_close_matches(str(name), list(map(str, known)), n=1, cutoff=0.5)
                hint = f"; did you mean {shown(near[0], 40)}?" if near else ""
                raise InvalidInputError(
                    f"Moves names {shown(name, 40)}, which {what} does not have{hint}"
                )

    def price(self, A: Any, B: Any, *, pairwise: bool = False) -> FloatArray:
        """Return the price of moving from each row of A to the same row of B.

        Infinite where it is impossible. With ``pairwise`` every row of A is compared with every
        row of B, shape ``(len(A), len(B))``.
        """
        start, goal = frame_of(A, "A"), frame_of(B, "B")
        if list(start.columns) != list(goal.columns):
            goal = Table.of(goal, columns=list(map(str, start.columns)), what="B").frame()
        self.check_columns(list(start.columns), "A")
        if not pairwise and len(start) != len(goal):
            raise InvalidInputError(f"A has {len(start)} rows and B has {len(goal)}")
        shape = (len(start), len(goal)) if pairwise else (len(start),)
        total = np.zeros(shape)
        for name in start.columns:
            a, b = _cells(start[name]), _cells(goal[name])
            if pairwise:
                a, b = a[:, None], b[None, :]
            total = combined(total, self._column_price(name, a, b), self.power)
        return total ** (1 / self.power) if self.power == 2 else total

    def _column_price(self, name: Any, a: Any, b: Any) -> FloatArray:
        block = self.blocks.get(name)
        if block is None:
            a, b = np.broadcast_arrays(a, b)
            same = np.array(
                [u == v or (is_missing(u) and is_missing(v)) for u, v in zip(a.ravel(), b.ravel())],
                dtype=bool,
            ).reshape(a.shape)
            return np.where(same, 0.0, np.inf)
        if isinstance(block, CategoryBlock):
            return block.price(a, b)
        return block.price(as_floats(a, name), as_floats(b, name))

    def describe(self) -> pd.DataFrame:
        """Return one row per column: what can be done, and at which price in raw units."""
        rows = [
            _describe_number(name, item, cast(NumberBlock, self.blocks[name]))
            if isinstance(item, Change)
            else _describe_category(name, item, cast(CategoryBlock, self.blocks[name]))
            for name, item in self.columns.items()
        ]
        return pd.DataFrame(rows).set_index("column")

    def _repr_html_(self) -> str:
        return str(self.describe().to_html(border=0))

    @classmethod
    def all(cls, X: Any, *, fixed: Sequence[Any] = (), cost: float = 1.0) -> Moves:
        """Return moves of every column both ways, within the seen range: a first proposal.

        Whole numbers move by 1, categories switch at the price of one spread, constant columns and
        dates stay. Name in ``fixed`` what nobody can change, such as age.

        Examples
        --------
        >>> import pandas as pd
        >>> people = pd.DataFrame({"late": [0, 1, 4], "home": ["rent", "own", "rent"],
        ...                        "age": [2, 3, 4]})
        >>> Moves.all(people, fixed=["age"]).describe()["kind"].to_dict()
        {'late': 'number', 'home': 'category'}
        """
        table = Table.of(X)
        frame = native(table.frame())
        _known(fixed, frame.columns)
        columns: dict[Any, Change | Switch] = {}
        for name, kind in zip(frame.columns, table.kinds):
            column = frame[name]
            if name in set(fixed) or kind == "time" or column.dropna().nunique() < 2:
                continue
            if kind in ("category", "text", "flag"):
                columns[name] = Switch(cost)
            else:
                whole = _is_whole(as_floats(column.to_numpy(), name))
                columns[name] = Change("both", cost, step=1.0 if whole else None)
        return cls(columns, reference=X)

    @classmethod
    def ball(
        cls,
        X: Any,
        *,
        norm: float = 2,
        per: Literal["unit", "spread", "sd"] = "sd",
        fixed: Sequence[Any] = (),
    ) -> Moves:
        """Return moves of all numeric columns both ways, without bounds or steps: a norm ball.

        Parameters
        ----------
        X
            Reference data; columns that are no numbers stay.
        norm
            1, 2 or ``numpy.inf``: prices add up, as a root of squares, or the largest counts.
        per
            What costs 1 in each column.
        fixed
            Columns that cannot move.

        Examples
        --------
        >>> moves = Moves.ball([[0.0, 0.0], [2.0, 4.0]], norm=2, per="unit")
        >>> moves.price([[0.0, 0.0]], [[3.0, 4.0]]).tolist()
        [5.0]
        """
        combine = {1: "sum", 2: "euclid", np.inf: "max"}.get(norm)
        if combine is None:
            raise InvalidInputError(f"norm must be 1, 2 or numpy.inf, got {shown(norm)}")
        table = Table.of(X)
        frame = native(table.frame())
        _known(fixed, frame.columns)
        columns: dict[Any, Change | Switch] = {
            name: Change("both", per=per, low=-math.inf, high=math.inf)
            for name, kind in zip(frame.columns, table.kinds)
            if kind in ("number", "integer")
            and name not in set(fixed)
            and (per == "unit" or frame[name].dropna().nunique() > 1)
        }
        if not columns:
            raise InvalidInputError("no numeric column is left to move")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssumptionWarning)  # a ball has no steps on purpose
            return cls(columns, reference=X, combine=cast(Combine, combine))

    @classmethod
    def from_toml(
        cls,
        source: str | os.PathLike[str] | Mapping[str, Any],
        *,
        reference: Any,
        codes: Mapping[str, Sequence[float]] | None = None,
    ) -> Moves:
        """Read moves from a TOML file or a mapping of its content.

        Parameters
        ----------
        source
            Path of the file, or its parsed content; only ``[moves]`` and ``[movable]`` are read.
        reference
            The training data.
        codes
            Values that mean "no record", per column; ``"*"`` is for all columns.
        """
        from counterplay.strategic.moves_file import read_moves

        return read_moves(source, reference=reference, codes=codes)

    def to_toml(self, path: str | os.PathLike[str]) -> None:
        """Write the moves to a TOML file that `from_toml` reads."""
        from counterplay.strategic.moves_file import write_moves

        write_moves(self, path)


def _rebuilt(*given: Any) -> Moves:
    """Return moves that travelled to another process; what was said once is not said again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        return Moves(*given)


def frame_of(X: Any, what: str = "X") -> pd.DataFrame:
    """Return a user's data as a frame that pandas can compute with."""
    return native(Table.of(X, what=what).frame())


def native(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose numbers have this machine's order of bytes."""
    types = {
        name: dtype.newbyteorder("=")
        for name, dtype in frame.dtypes.items()
        if isinstance(dtype, np.dtype) and not dtype.isnative
    }
    if not types:
        return frame
    columns = {
        name: column.to_numpy().astype(types[name]) if name in types else column
        for name, column in frame.items()
    }
    return pd.DataFrame(columns, index=frame.index)


def combined(total: FloatArray, price: FloatArray, power: float) -> FloatArray:
    """Return the running combination of prices, before the final root."""
    if math.isinf(power):
        return np.maximum(total, price)
    return total + (price if power == 1 else price**power)


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
        and not _is_whole(as_floats(column.to_numpy(), name))
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


def as_floats(values: Any, name: Any) -> FloatArray:
    """Return cells as floats with NaN where missing; refuse text."""
    array = np.asarray(values)
    if array.dtype.kind in "fiub":
        return array.astype(np.float64)
    try:
        flat = [np.nan if is_missing(v) else _plain(v) for v in array.ravel().tolist()]
        return np.array(flat, dtype=np.float64).reshape(array.shape)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"{shown(name, 40)} holds text; use Switch(...), or give an encoded column"
        ) from None


def check_budget(budget: Any) -> float:
    """Return a budget: a number of at least 0."""
    fine = isinstance(budget, numbers.Real) and not isinstance(budget, bool)
    if not fine or not float(budget) >= 0:
        raise InvalidInputError(
            f"budget must be numbers of at least 0, or (low, high); got {shown(budget)}"
        )
    return float(budget)


def check_budgets(budget: Any) -> FloatArray:
    """Return budgets: a number, or several, of at least 0."""
    several = isinstance(budget, np.ndarray | Sequence) and not isinstance(budget, str)
    values = [check_budget(r) for r in (list(budget) if several else [budget])]
    if not values or len(values) > 10_000 or not np.isfinite(values).all():
        raise InvalidInputError("budget must be one to 10,000 finite numbers of at least 0")
    return np.array(values)


def _plain(value: Any) -> float:
    if isinstance(value, str | bytes):
        raise TypeError
    return float(value)


def thinned(values: FloatArray) -> FloatArray:
    """Return at most 256 of sorted values: all, or quantiles of them."""
    if values.size <= MOST_GRID_VALUES:
        return values
    places = np.linspace(0, values.size - 1, MOST_GRID_VALUES).round().astype(np.int64)
    return values[places]


def _is_whole(values: FloatArray) -> bool:
    known = values[np.isfinite(values)]
    return bool((known == np.round(known)).all())


def _cells(column: pd.Series) -> Any:
    array = column.to_numpy()
    return array if array.dtype.kind in "fiub" else np.asarray(column.astype(object), dtype=object)


def _column(frame: pd.DataFrame, name: Any) -> pd.Series:
    if name not in frame.columns:
        import difflib

        near = difflib.get_close_matches(str(name), list(map(str, frame.columns)), n=1, cutoff=0.5)
        hint = f"; did you mean {shown(near[0], 40)}?" if near else ""
        raise InvalidInputError(
            f"Moves names {shown(name, 40)}, which the reference data do not have{hint}"
        )
    return frame[name]


def _known(names: Sequence[Any], columns: Any) -> None:
    odd = [name for name in names if name not in list(columns)]
    if odd:
        raise InvalidInputError(f"fixed names {listed(odd)}, which X does not have")


def _warn_integers(columns: Mapping[Any, Change | Switch], frame: pd.DataFrame | None) -> None:
    """Say once which whole-number columns move by fractions."""
    if frame is None:
        return
    loose = [
        name
        for name, item in columns.items()
        if isinstance(item, Change)
        and item.step is None
        and item.grid is None
        and item.per != "decile"
        and _is_whole(as_floats(frame[name].to_numpy(), name))
    ]
    if loose:
        warnings.warn(
            f"{listed(loose)} hold whole numbers and may be moved by fractions; give step=1 if "
            "people cannot do that",
            AssumptionWarning,
            stacklevel=4,
        )


def _price(value: Any, name: str, *, infinite: bool = False) -> float:
    fine = _is_number(value) and float(value) > 0
    if not fine or (math.isinf(float(value)) and not infinite):
        raise InvalidInputError(f"{name} must be a price above 0, got {shorten(value, 100)}")
    return float(value)


def _number(value: Any, name: str) -> float:
    if not _is_number(value) or math.isnan(float(value)):
        raise InvalidInputError(f"{name} must be a number, got {shorten(value, 100)}")
    return float(value)


def _is_number(value: Any) -> bool:
    """Whether a value is a number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    return not isinstance(value, numbers.Integral) or abs(int(value)) < 2**1000


def _pair(value: Any) -> tuple[Any, Any]:
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise InvalidInputError(f"a switch is a pair (from, to), got {shown(value)}")
    if value[0] == value[1]:
        raise InvalidInputError(f"a switch leads to another category, got {shown(value)}")
    return value[0], value[1]


def _check_holes(item: Change | Switch) -> None:
    if item.missing != "keep":
        object.__setattr__(item, "missing", _price(item.missing, "missing"))
    if item.hide is not None:
        object.__setattr__(item, "hide", _price(item.hide, "hide"))


def _describe_number(name: Any, item: Change, block: NumberBlock) -> dict[str, Any]:
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
        "priced per": _UNITS[item.per],
        "missing": item.missing,
        "hide": item.hide,
    }


def _describe_category(name: Any, item: Switch, block: CategoryBlock) -> dict[str, Any]:
    ways = int((np.isfinite(block.prices) & (block.prices > 0)).sum())
    return {
        "column": name,
        "kind": "category",
        "direction": item.direction if item.ladder is not None else "switch",
        "moves to": f"{ways} switches among {len(block.categories)} categories",
        "low": math.nan,
        "high": math.nan,
        "one raw unit up": math.nan,
        "one raw unit down": math.nan,
        "priced per": "switch",
        "missing": item.missing,
        "hide": item.hide,
    }
