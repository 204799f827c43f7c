"""How a model is solved: as a sum over columns, as a tree ensemble, or by search.

Each solver answers two questions for the people of a table: the cheapest accepted move, and the
best score within a budget, as changed cells with certified bounds.

Source: "Additive scores", "Tree ensembles", "Best shown score", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pandas as pd

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.errors import CounterplayError
from counterplay.strategic.additive import (
    SLACK,
    AdditiveScore,
    Candidate,
    PeopleMenus,
    best_additive,
    cheapest_additive,
    fold,
)
from counterplay.strategic.asking import Changes, destinations, keep_changes, no_changes
from counterplay.strategic.ball_certificates import certified_in_ball
from counterplay.strategic.cell_prices import price_cells, values_at
from counterplay.strategic.fold import Asked, OpenModel, open_members, open_model
from counterplay.strategic.move_blocks import NumberBlock
from counterplay.strategic.move_search import search_moves
from counterplay.strategic.moves import Moves
from counterplay.strategic.surrogate import imitate
from counterplay.strategic.tree_cells import Cells, build_cells
from counterplay.strategic.tree_search import best_scores, measured_search, search_people
from counterplay.tables.cells import shown

CHUNK = 1000  # people whose prices of cells are held at once
TIE = 1e-12

Prices = tuple[FloatArray, FloatArray, BoolArray, Changes]


class Solver(Protocol):
    """Answers the two questions about one model and one table."""

    @property
    def method(self) -> str:
        """What is said about the model."""

    @property
    def opened(self) -> OpenModel | None:
        """The model taken apart, if that is possible."""

    def cheapest(self, who: IntArray, budget: float, nodes: int) -> Prices:
        """Return lower and upper prices, exactness and changed cells for the people ``who``."""

    def best(self, budgets: FloatArray, nodes: int) -> list[Candidate]:
        """Return, per budget, the responses found (lower), upper bounds and changed cells.

        Both are scores of the final classifier that grow with acceptance, of all people.
        """


def solver_of(asked: Asked, moves: Moves, budget: float = np.inf) -> Solver:
    """Return the method for a model: additive score, tree ensemble, or search."""
    opened = open_model(asked)
    if opened is not None:
        score = fold(asked, opened, moves)
        if score is not None:
            return AdditiveSolver(score, moves)
        cells = build_cells(asked, opened, moves, budget)
        if cells is not None:
            return TreeSolver(asked, opened, cells, moves)
    return SearchSolver(asked, moves, _members(asked, moves))


def _members(asked: Asked, moves: Moves) -> tuple[tuple[AdditiveScore, float], ...]:
    """Return the members of a mean of chances if all of them are sums over columns."""
    opened = open_members(asked)
    if opened is None or len(opened) < 2:
        return ()
    found = [(fold(asked, one, moves, alone=False), weight) for one, weight in opened]
    members = tuple((score, weight) for score, weight in found if score is not None)
    return members if len(members) == len(found) else ()


@dataclass(frozen=True, eq=False)
class AdditiveSolver:
    """A score that is a sum over columns."""

    score: AdditiveScore
    moves: Moves

    @property
    def method(self) -> str:
        """What is said about the model."""
        shaped = [
            f"{name} on a grid of {block.grid.size} values"
            for name, block in self.score.blocks.items()
            if isinstance(block, NumberBlock)
            and block.grid is not None
            and getattr(self.moves.blocks[name], "grid", None) is None
        ]
        return "additive score" + (f" ({', '.join(map(str, shaped[:3]))})" if shaped else "")

    @property
    def opened(self) -> OpenModel:
        """The model taken apart."""
        return self.score.opened

    def cheapest(self, who: IntArray, budget: float, nodes: int) -> Prices:
        """Solve one knapsack per person."""
        return cheapest_additive(self.score, self.moves, who, budget)

    def best(self, budgets: FloatArray, nodes: int) -> list[Candidate]:
        """Solve one knapsack per person and budget."""
        own = self.score.scores
        found = best_additive(self.score, self.moves, budgets)
        return [Candidate(own + c.lower, own + c.upper, c.changes) for c in found]


@dataclass(frozen=True, eq=False)
class TreeSolver:
    """A tree ensemble in cells."""

    asked: Asked
    opened: OpenModel
    cells: Cells
    moves: Moves

    @property
    def method(self) -> str:
        """What is said about the model."""
        return f"{self.cells.forest.tree_start.size - 1} trees"

    def cheapest(self, who: IntArray, budget: float, nodes: int) -> Prices:
        """Search box by box for the people ``who``, in blocks that fit into memory."""
        asked, cells, moves = self.asked, self.cells, self.moves
        target, power, cap = self.target, moves.power, self._cap(budget)
        lower, upper = np.zeros(who.size), np.full(who.size, np.inf)
        changes = no_changes(moves.touched)
        for at in range(0, who.size, CHUNK):
            part = np.arange(at, min(at + CHUNK, who.size))
            people = who[part]
            prices = price_cells(cells, people, power)
            own = cells.own[people]
            low, high, points = search_people(cells, prices, own, target, cap, power, nodes)
            moved = values_at(cells, prices, points, own)
            here = asked.frame.iloc[people]
            goals = destinations(here, None, moved)
            reach = np.isfinite(high)
            _verify(asked, goals, reach)
            changed = [name for name, (places, _) in moved.items() if len(places)]
            spent = moves.between(here, goals, changed)
            root = np.sqrt if power == 2 else np.asarray
            lower[part] = root(low)
            upper[part] = np.where(reach, spent, np.inf)
            lower[part] = np.where(low == high, upper[part], lower[part])
            keep_changes(changes, moved, part, reach)
        lower = np.minimum(lower, upper)
        return lower, upper, lower == upper, changes

    def effort(self, who: IntArray, budget: float, nodes: int) -> IntArray:
        """Return the boxes that ``cheapest`` opens and the leaves it keeps, per person."""
        prices = price_cells(self.cells, who, self.moves.power)
        return measured_search(
            self.cells,
            prices,
            self.cells.own[who],
            self.target,
            self._cap(budget),
            self.moves.power,
            nodes,
        )[3]

    @cached_property
    def target(self) -> float:
        """The sum of leaves that is accepted."""
        cut, strict = self.opened.cut()
        tie = TIE * (1 + abs(cut) + float(np.abs(self.cells.forest.leaf_value).max()))
        return cut - self.cells.base + (tie if strict else -tie)

    def _cap(self, budget: float) -> float:
        """Return the largest price of interest, before the root."""
        return (budget**2 if self.moves.power == 2 else budget) * (1 + 1e-9)

    def best(self, budgets: FloatArray, nodes: int) -> list[Candidate]:
        """Search box by box for the best score within each budget."""
        asked, cells, power = self.asked, self.cells, self.moves.power
        n = len(asked.frame)
        caps = (budgets**2 if power == 2 else budgets) * (1 + 1e-9)
        low, high = np.zeros((n, budgets.size)), np.zeros((n, budgets.size))
        changes = [no_changes(self.moves.touched) for _ in budgets]
        for at in range(0, n, CHUNK):
            people = np.arange(at, min(at + CHUNK, n))
            prices = price_cells(cells, people, power)
            own = cells.own[people]
            low[people], high[people], points = best_scores(cells, prices, own, caps, power, nodes)
            for k in range(budgets.size):
                moved = values_at(cells, prices, points[:, k], own)
                keep_changes(changes[k], moved, people, np.ones(people.size, dtype=bool))
        base = cells.base
        return [Candidate(base + low[:, k], base + high[:, k], c) for k, c in enumerate(changes)]


@dataclass(frozen=True, eq=False)
class SearchSolver:
    """Any other model: what is found works; below it only ensembles of sums are certified.

    A mean of chances reaches a cut only if some member reaches it, so the cheapest move costs at
    least the least of the members' own prices; the mean is at most the mean of the members' best.
    In a norm ball nearest neighbours, Gaussian kernels and neural nets have certificates, too.
    """

    asked: Asked
    moves: Moves
    members: tuple[tuple[AdditiveScore, float], ...] = ()
    opened: OpenModel | None = None

    @property
    def method(self) -> str:
        """What is said about the model."""
        if self.members:
            return f"search (best found), bounded below by {len(self.members)} additive members"
        known = certified_in_ball(self.asked, self.moves, np.zeros(1, dtype=np.int64))
        if known is not None:
            return f"search (best found), bounded below by the {known[1]}"
        return "search (best found; nothing is certified from below)"

    def cheapest(self, who: IntArray, budget: float, nodes: int) -> Prices:
        """Start from accepted people, an imitation and the members' destinations; then undo."""
        lower, more = self._bounded(who, budget)
        imitation = imitate(self.asked, self.moves, budget)
        if imitation is not None:
            more += imitation.accepted(who, budget)
        upper, changes = search_moves(self.asked, self.moves, who, more)
        exact = np.isinf(lower) | (upper <= lower * (1 + SLACK))
        upper = np.where(np.isinf(lower), np.inf, upper)
        lower = np.where(exact, upper, np.minimum(lower, upper))
        return lower, upper, exact, changes

    def _bounded(self, who: IntArray, budget: float) -> tuple[FloatArray, list[Changes]]:
        """Return what people pay at least, and where members that are asked for more lead."""
        lower, more = np.full(who.size, np.inf if self.members else 0.0), []
        known = certified_in_ball(self.asked, self.moves, who)
        if known is not None:
            lower = known[0]
        for score, _ in self.members:
            people = PeopleMenus(score, self.moves, budget)
            size = 1.0 + np.abs(score.scores[who]) + abs(score.cut)
            need = score.cut - score.scores[who]
            least = people.cheapest(who, need - SLACK * size, budget).lower
            lower = np.minimum(lower, np.where(need <= 0, 0.0, least * (1 - SLACK)))
            more += [
                people.cheapest(who, np.maximum(factor * need, SLACK), budget).changes
                for factor in (1.0, 1.3, 2.0)
            ]
        return lower, more

    def best(self, budgets: FloatArray, nodes: int) -> list[Candidate]:
        """Return where an imitation scores best, and the mean of the members' best chances."""
        n = len(self.asked.frame)
        imitation = imitate(self.asked, self.moves, float(budgets.max()))
        nothing = [no_changes(self.moves.touched) for _ in budgets]
        found = nothing if imitation is None else imitation.best(budgets)
        chance = self.asked.response_method == "predict_proba"
        roof = np.full((budgets.size, n), 1.0 if chance else np.inf)
        if self.members and chance:
            roof[:] = 0.0
            for score, weight in self.members:
                for k, gain in enumerate(best_additive(score, self.moves, budgets)):
                    top = score.scores + gain.upper + SLACK * (1 + np.abs(score.scores))
                    roof[k] += weight * score.opened.response(top, "predict_proba")
            roof = np.minimum(roof + SLACK, 1.0)
        low = np.full(n, -np.inf)
        return [Candidate(low, roof[k], changes) for k, changes in enumerate(found)]


def _verify(asked: Asked, goals: pd.DataFrame, reach: BoolArray) -> None:
    """Raise if the model rejects a destination: then its trees were read wrongly."""
    places = np.flatnonzero(reach)
    said = asked.accepts(goals if reach.all() else goals.iloc[places])
    if not said.all():
        row = goals.index[places[int(np.argmin(said))]]
        raise CounterplayError(
            f"the model rejects the destination of row {shown(row)} that its trees accept; "
            "this version of the model cannot be read"
        )
