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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pandas as pd

from counterplay.core.validation import FloatArray, check_choice
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.strategic.changes import UNITS, Change, Switch
from counterplay.strategic.columns import (
    as_floats,
    cells,
    frame_of,
    is_whole,
    native,
    same_cells,
)
from counterplay.strategic.links import Derived, JointBlock, Link, joint_blocks, obeys
from counterplay.strategic.move_blocks import Block, CategoryBlock, NumberBlock
from counterplay.strategic.move_compile import (
    compile_block,
    describe_category,
    describe_number,
    reference_column,
)
from counterplay.tables import Table
from counterplay.tables.cells import listed, shown

if TYPE_CHECKING:
    from counterplay.strategic.graphs.manipulation_graph import Action, ManipulationGraph

Combine = Literal["sum", "euclid", "max"]


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
    links
        Columns that cannot move alone: `Derived`, `OneHot`, `NotAbove`.

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

    References
    ----------
    "Prices", see docs/theory/20-moves.md.
    """

    columns: Mapping[Any, Change | Switch]
    reference: Any = field(default=None, repr=False)
    combine: Combine = "sum"
    budget: float | None = None
    links: Sequence[Link] = ()
    blocks: Mapping[Any, Block] = field(init=False, repr=False)
    joint: tuple[JointBlock, ...] = field(init=False, repr=False)

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
            name: compile_block(
                name, item, None if frame is None else reference_column(frame, name)
            )
            for name, item in self.columns.items()
        }
        object.__setattr__(self, "blocks", MappingProxyType(blocks))
        if isinstance(self.links, str) or not isinstance(self.links, Sequence):
            raise InvalidInputError(f"links must be a list of links, got {shown(self.links)}")
        object.__setattr__(self, "links", tuple(self.links))
        object.__setattr__(self, "joint", joint_blocks(blocks, self.links, self.power))
        if frame is not None:
            for name in (c for link in self.links for c in link.columns):
                reference_column(frame, name)
        _warn_integers(self.columns, frame)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (dict(self.columns), self.reference, self.combine, self.budget, self.links)

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
        return "price 1 = one " + ", or one ".join(UNITS[per] for per in pers)

    @property
    def alone(self) -> dict[Any, Block]:
        """Prices of the columns that no link holds."""
        linked = {name for joint in self.joint for name in joint.columns}
        return {name: block for name, block in self.blocks.items() if name not in linked}

    @property
    def touched(self) -> tuple[Any, ...]:
        """All columns that may change: those with a price, then those that follow them."""
        follow = [link.column for link in self.links if isinstance(link, Derived)]
        return (*self.blocks, *follow)

    def check_columns(self, names: Sequence[Any], what: str = "X") -> None:
        """Raise if a column of these moves is not among the names."""
        known = list(names)
        for name in (*self.columns, *(c for link in self.links for c in link.columns)):
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
        return self.between(start, goal, list(start.columns), pairwise=pairwise)

    def between(
        self,
        start: pd.DataFrame,
        goal: pd.DataFrame,
        names: Sequence[Any],
        *,
        pairwise: bool = False,
    ) -> FloatArray:
        """Return the prices between frames that were checked and differ in these columns only."""
        total = np.zeros((len(start), len(goal)) if pairwise else (len(start),))
        follow = {link.column for link in self.links if isinstance(link, Derived)}
        for name in names:
            if name in follow:
                continue
            a, b = cells(start[name]), cells(goal[name])
            if pairwise:
                a, b = a[:, None], b[None, :]
            total = combined(total, self._column_price(name, a, b), self.power)
        for link in self.links:
            total = np.where(obeys(link, start, goal, pairwise=pairwise), total, np.inf)
        return total ** (1 / self.power) if self.power == 2 else total

    def _column_price(self, name: Any, a: Any, b: Any) -> FloatArray:
        block = self.blocks.get(name)
        if block is None:
            return np.where(same_cells(a, b), 0.0, np.inf)
        if isinstance(block, CategoryBlock):
            return block.price(a, b)
        return block.price(as_floats(a, name), as_floats(b, name))

    def describe(self) -> pd.DataFrame:
        """Return one row per column: what can be done, and at which price in raw units."""
        rows = [
            describe_number(name, item, cast(NumberBlock, self.blocks[name]))
            if isinstance(item, Change)
            else describe_category(name, item, cast(CategoryBlock, self.blocks[name]))
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
                whole = is_whole(as_floats(column.to_numpy(), name))
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

    def ball_units(self, names: Sequence[Any]) -> FloatArray | None:
        """Return how far a budget of 1 reaches along each column; None if this is no such ball."""
        units = np.zeros(len(names))
        for name, block in self.blocks.items():
            free = isinstance(block, NumberBlock) and not block.finite and not block.codes
            if self.links or not free or not isinstance(block, NumberBlock):
                return None
            ends = (-block.low, block.high, block.hide, block.fill)
            if block.up != block.down or min(ends) < np.inf:
                return None
            units[list(names).index(name)] = block.unit / block.up
        return units

    @classmethod
    def from_actions(cls, actions: Sequence[Action], *, reference: Any) -> Moves:
        """Return named actions as moves: one column each, a step of the action's change.

        Parameters
        ----------
        actions
            What people can do; two actions on one column go by the same step, up and down.
        reference
            The data, which give the range of every column.

        Examples
        --------
        >>> from counterplay.strategic import Action
        >>> pay = Action("pay back", column=0, change=-2, cost=3.0)
        >>> moves = Moves.from_actions([pay], reference=[[9.0], [1.0]])
        >>> moves.price([[9.0]], [[5.0]]).tolist()
        [6.0]
        """
        frame = frame_of(reference, "reference")
        columns: dict[Any, Change | Switch] = {}
        for column in dict.fromkeys(action.column for action in actions):
            mine = [action for action in actions if action.column == column]
            if column >= frame.shape[1]:
                raise InvalidInputError(
                    f"action {mine[0].name!r} changes column {column}, but X has "
                    f"{frame.shape[1]} columns"
                )
            columns[frame.columns[column]] = _one_change(mine)
        if not columns:
            raise InvalidInputError("actions must not be empty; without actions nobody moves")
        return cls(columns, reference=frame)

    def graph(self, nodes: Any, budget: float) -> ManipulationGraph:
        """Return what people at some rows can become within a budget, as a manipulation graph.

        There is an arc from x to z if ``0 < price(x, z) <= budget``. All columns that move need a
        step, a grid or categories. Induced labels and best responses on the graph are those of
        these moves restricted to the nodes.

        Examples
        --------
        >>> moves = Moves({0: Change("up", step=1, per="unit")})
        >>> moves.graph([[0.0], [1.0], [3.0]], budget=2).neighbors(1).tolist()
        [2]
        """
        from counterplay.strategic.move_graph import graph_of

        return graph_of(self, nodes, check_budget(budget))

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


def _one_change(actions: Sequence[Action]) -> Change:
    """Return the actions on one column as a change by steps."""
    sizes = {abs(action.change) for action in actions}
    ways = [action.change > 0 for action in actions]
    if len(sizes) > 1 or len(set(ways)) < len(ways):
        names = listed([action.name for action in actions])
        raise InvalidInputError(
            f"{names} change column {actions[0].column}; a column takes one action up and one "
            "down, by the same step"
        )
    cost = {action.change > 0: action.cost for action in actions}
    bounds = {
        end: next((v for a in actions if (v := getattr(a, end)) is not None), None)
        for end in ("low", "high")
    }
    return Change(
        "both" if len(ways) == 2 else "up" if ways[0] else "down",
        (cost.get(True, math.inf), cost.get(False, math.inf)),
        step=sizes.pop(),
        per="step",
        low=bounds["low"],
        high=bounds["high"],
    )


def _rebuilt(*given: Any) -> Moves:
    """Return moves that travelled to another process; what was said once is not said again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        return Moves(*given)


def combined(total: FloatArray, price: FloatArray, power: float) -> FloatArray:
    """Return the running combination of prices, before the final root."""
    if math.isinf(power):
        return np.maximum(total, price)
    return total + (price if power == 1 else price**power)


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
        and is_whole(as_floats(frame[name].to_numpy(), name))
    ]
    if loose:
        warnings.warn(
            f"{listed(loose)} hold whole numbers and may be moved by fractions; give step=1 if "
            "people cannot do that",
            AssumptionWarning,
            stacklevel=4,
        )
