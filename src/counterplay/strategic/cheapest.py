"""The cheapest move that makes a model say yes, for every person of a table.

Exact for linear models and scorecards behind column-wise preprocessing and for trees, forests and
boosted trees; for other models a search gives a move that works, and nothing is claimed from
below. Every destination is checked with the model's own ``predict``.

Source: "Setting", "Additive scores", "Tree ensembles", see docs/theory/20-moves.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from counterplay.core.report import Report
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_int,
    check_positive_int,
)
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.strategic.asking import Changes, destinations, keep_changes, no_changes
from counterplay.strategic.columns import as_floats, frame_of
from counterplay.strategic.fold import Asked
from counterplay.strategic.move_blocks import NumberBlock
from counterplay.strategic.move_solvers import Prices, Solver, solver_of
from counterplay.strategic.moves import Moves, check_budget
from counterplay.tables.cells import shown
from counterplay.tables.reading import as_narwhals


@dataclass(frozen=True, eq=False)
class MovePlan(Report):
    """The cheapest accepted move of every person, with certified bounds on its price.

    Made by `cheapest_moves`.

    Parameters
    ----------
    lower
        Certified lower bounds on the price; 0 for who is accepted already.
    upper
        Price of ``destination``; like ``lower`` infinite for who provably has no move (within the
        budget).
    exact
        Whether the bounds agree, per person.
    destination
        Where everybody goes, in the container, types and index of the data; who has no move stays.
    method
        How it was found.
    moves
        What people could do.
    people
        The data, as a frame.
    goals
        The destinations, as a frame.
    wanted
        The class people want.
    budget
        Largest price that was looked at.
    """

    lower: FloatArray
    upper: FloatArray
    exact: BoolArray
    destination: Any
    method: str
    moves: Moves = field(repr=False)
    people: pd.DataFrame = field(repr=False)
    goals: pd.DataFrame = field(repr=False)
    wanted: Any = None
    budget: float = np.inf

    def to_frame(self) -> pd.DataFrame:
        """Return one row per person: bounds, exactness, number of columns changed."""
        return pd.DataFrame(
            {
                "lower": self.lower,
                "upper": self.upper,
                "exact": self.exact,
                "changed": self._changed().sum(axis=1),
            },
            index=self.people.index,
        )

    def changes(self, who: BoolArray | None = None) -> pd.DataFrame:
        """Return one row per changed cell: person, column, before, after, price.

        ``who`` says for every person whether she is of interest; default: all are.
        """
        changed = self._changed()
        if who is not None:
            changed = changed & np.asarray(who, dtype=bool)[:, None]
        rows = []
        for j, name in enumerate(self.moves.touched):
            for i in np.flatnonzero(changed[:, j]).tolist():
                before, after = self.people[name].iloc[i], self.goals[name].iloc[i]
                rows.append((i, self.people.index[i], name, before, after, self._price(name, i)))
        frame = pd.DataFrame(rows, columns=["row", "person", "column", "before", "after", "price"])
        return frame.sort_values("row", kind="stable").drop(columns="row").reset_index(drop=True)

    def advice(self, row: Any) -> str:
        """Say in one line what the person with this index should do.

        Examples
        --------
        >>> import pandas as pd
        >>> from sklearn.linear_model import LogisticRegression
        >>> from counterplay.strategic import Change
        >>> people = pd.DataFrame({"late": [0.0, 1.0, 4.0, 5.0]}, index=["ann", "bob", "cy", "di"])
        >>> model = LogisticRegression().fit(people, [1, 1, 0, 0])
        >>> moves = Moves({"late": Change("down", step=1, cost=2.0, per="unit", low=0)})
        >>> cheapest_moves(model, people, moves).advice("di")
        "'late' 5.0 -> 2.0 (6): 6 in total"
        """
        places = np.flatnonzero(self.people.index == row)
        if not places.size:
            raise InvalidInputError(f"there is no row {shown(row)}")
        if places.size > 1:
            raise InvalidInputError(
                f"{places.size} rows are called {shown(row)}; X.reset_index() tells them apart"
            )
        i = int(places[0])
        if self.upper[i] == 0:
            return "is accepted already"
        if np.isinf(self.upper[i]):
            return "has no move within the budget" if self.exact[i] else "no move was found"
        parts = [
            f"{shown(name, 40)} {shown(self.people[name].iloc[i], 30)} -> "
            f"{shown(self.goals[name].iloc[i], 30)} ({self._price(name, i):.6g})"
            for j, name in enumerate(self.moves.touched)
            if self._changed()[i, j]
        ]
        return f"{', '.join(parts)}: {self.upper[i]:.6g} in total"

    def summary(self) -> str:
        """Return the plan in a few lines."""
        n = self.upper.size
        rejected = self.upper > 0
        able = rejected & np.isfinite(self.upper)
        within = "" if np.isinf(self.budget) else f" within a budget of {self.budget:g}"
        lines = [
            f"Cheapest moves to {shown(self.wanted, 40)}: {n} people, {self.method}",
            f"  {self.moves.units}; prices combine as {self.moves.combine}; "
            f"{len(self.moves.columns)} columns can move",
            f"  exact for {int(self.exact.sum())} of {n} people",
            f"  {int(rejected.sum())} are rejected, {int(able.sum())} of them can be accepted"
            f"{within}",
        ]
        if able.any():
            q = np.quantile(self.upper[able], [0.25, 0.5, 0.75])
            lines.append(f"  their prices: quartiles {q[0]:.3g}, {q[1]:.3g}, {q[2]:.3g}")
        return "\n".join(lines)

    def _changed(self) -> BoolArray:
        columns = []
        for name in self.moves.touched:
            a, b = self.people[name].tolist(), self.goals[name].tolist()
            columns.append(
                np.array([not (u is v or u == v or (_nan(u) and _nan(v))) for u, v in zip(a, b)])
            )
        return np.column_stack(columns)

    def _price(self, name: Any, i: int) -> float:
        block = self.moves.blocks.get(name)
        if block is None:
            return 0.0  # follows other columns
        a, b = self.people[name].iloc[[i]], self.goals[name].iloc[[i]]
        if isinstance(block, NumberBlock):
            return float(
                block.price(as_floats(a.to_numpy(), name), as_floats(b.to_numpy(), name))[0]
            )
        return float(block.price(np.array(a.tolist(), object), np.array(b.tolist(), object))[0])


def _nan(value: Any) -> bool:
    return bool(pd.isna(value)) if np.ndim(value) == 0 else False


def cheapest_moves(
    model: Any,
    X: Any,
    moves: Moves,
    *,
    positive: Any = None,
    budget: float | None = None,
    nodes: int = 20_000,
    n_jobs: int = 1,
) -> MovePlan:
    """Return every person's cheapest move that makes a fitted model accept them.

    Use it to see what a decision asks of people, to advise one of them, or as the input of
    `gaming_report`: what happens when everybody takes the advice.

    Parameters
    ----------
    model
        Fitted classifier with two classes, in any pipeline, threshold, calibration or search
        wrapper.
    X
        The people: a frame with the columns of the model in any order, or an array if the model
        was fitted on one.
    moves
        What people can change, and what it costs.
    positive
        The class people want; may be left out if the classes are 0/1 or False/True.
    budget
        Largest price of interest; default: that of ``moves``, else no limit.
    nodes
        Most boxes opened per person against tree ensembles; where that does not suffice the
        bounds are certified, but differ.
    n_jobs
        Threads that share the people; the plan is the same for any number of them.

    Notes
    -----
    Guarantee: ``lower <= cheapest price <= upper``, and ``upper`` is the price of a destination
    that the model itself accepts. Exact (both equal, up to 1e-9) for linear scores behind
    column-wise steps, see proposition 20.A, and for trees and their ensembles once the search is
    closed, see proposition 20.B. Columns on which a linear score is neither affine nor stepped are
    moved on the grid of values that were seen; the method says so.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from counterplay.strategic import Change
    >>> people = pd.DataFrame({"late": [0.0, 1.0, 3.0, 4.0], "age": [30.0, 50.0, 40.0, 20.0]})
    >>> model = LogisticRegression().fit(people, [1, 1, 0, 0])
    >>> moves = Moves({"late": Change("down", step=1, cost=2.0, per="unit", low=0)})
    >>> plan = cheapest_moves(model, people, moves)
    >>> plan.upper.tolist(), plan.destination["late"].tolist()
    ([0.0, 0.0, 2.0, 8.0], [0.0, 1.0, 2.0, 0.0])

    References
    ----------
    "Additive scores", Proposition 20.A, Proposition 20.B, see docs/theory/20-moves.md.
    """
    if not isinstance(moves, Moves):
        raise InvalidInputError(f"moves must be Moves, got {shown(moves)}")
    limit = moves.budget if budget is None else check_budget(budget)
    limit = np.inf if limit is None else float(limit)
    check_positive_int(nodes, "nodes")
    check_int(n_jobs, "n_jobs", low=1, high=512)
    asked = Asked(model, X, positive)
    return plan_moves(asked, X, moves, limit, nodes, n_jobs=n_jobs)


def plan_moves(
    asked: Asked,
    X: Any,
    moves: Moves,
    budget: float,
    nodes: int,
    solver: Solver | None = None,
    n_jobs: int = 1,
) -> MovePlan:
    """Return the plan for a model that was read already, by its solver if that is there."""
    frame = asked.frame
    check_moves(frame, moves)
    accepted = asked.accepts(frame)
    n = len(frame)
    lower, upper = np.zeros(n), np.zeros(n)
    exact = np.ones(n, dtype=bool)
    who = np.flatnonzero(~accepted)
    changes: Changes = {}
    method = "nobody is rejected"
    if who.size:
        solver = solver_of(asked, moves, budget) if solver is None else solver
        method = solver.method
        lower[who], upper[who], exact[who], changes = _shared(solver, who, budget, nodes, n_jobs)
    beyond = upper > budget * (1 + 1e-9)
    upper[beyond] = np.inf
    proved = beyond & ((lower > budget * (1 + 1e-9)) | exact)
    lower[proved], exact[proved] = np.inf, True
    goals = destinations(frame, np.arange(n), _dropped(changes, who, np.isfinite(upper[who])))
    return MovePlan(
        lower,
        upper,
        exact,
        _like(X, asked, goals),
        method,
        moves,
        frame,
        goals,
        asked.positive,
        budget,
    )


def _shared(solver: Solver, who: IntArray, budget: float, nodes: int, n_jobs: int) -> Prices:
    """Solve for the people in as many parts as there are threads, and put the parts together."""
    parts = [part for part in np.array_split(np.arange(who.size), n_jobs) if part.size]
    if len(parts) == 1:
        return solver.cheapest(who, budget, nodes)
    run = Parallel(n_jobs=n_jobs, prefer="threads")
    found = run(delayed(solver.cheapest)(who[part], budget, nodes) for part in parts)
    changes = no_changes({name: None for one in found for name in one[3]})
    for part, one in zip(parts, found):
        keep_changes(changes, one[3], part, np.ones(part.size, dtype=bool))
    lower, upper, exact = (np.concatenate([one[k] for one in found]) for k in range(3))
    return lower, upper, exact, changes


def _dropped(
    changes: Mapping[Any, tuple[IntArray, list[Any]]], who: IntArray, keep: BoolArray
) -> dict[Any, tuple[IntArray, list[Any]]]:
    """Return the changes of those who have a move, by their place in the table."""
    kept = {}
    for name, (places, values) in changes.items():
        mine = keep[places]
        kept[name] = (who[places[mine]], [v for v, m in zip(values, mine.tolist()) if m])
    return kept


def check_moves(frame: pd.DataFrame, moves: Moves) -> None:
    """Refuse unknown columns and text where a number moves; count unmentioned categories."""
    moves.check_columns(list(frame.columns))
    reference = None if moves.reference is None else frame_of(moves.reference)
    for name, block in moves.blocks.items():
        if isinstance(block, NumberBlock):
            as_floats(frame[name].to_numpy(), name)
            continue
        known = set(block.categories)
        if reference is not None:
            known |= set(reference[name].dropna().tolist())
        unknown = np.flatnonzero(
            (block.codes(frame[name]) == -2) & ~frame[name].isin(list(known)).to_numpy()
        )
        if unknown.size:
            i = int(unknown[0])
            warnings.warn(
                f"row {shown(frame.index[i], 30)} has {shown(name, 40)[1:-1]}="
                f"{shown(frame[name].iloc[i], 30)}, which no switch mentions: it is treated as "
                f"unable to move there ({unknown.size} people)",
                AssumptionWarning,
                stacklevel=4,
            )


def _like(X: Any, asked: Asked, goals: pd.DataFrame) -> Any:
    """Return the destinations in the container of the data, columns in its order."""
    if isinstance(X, pd.DataFrame):
        return goals[list(X.columns)] if set(goals.columns) == set(X.columns) else goals
    if isinstance(X, np.ndarray | list | tuple):
        return goals.to_numpy()
    import narwhals as nw

    native = as_narwhals(X)
    columns = {name: goals[name].tolist() for name in native.columns}
    return nw.from_dict(columns, backend=native.implementation).to_native()
