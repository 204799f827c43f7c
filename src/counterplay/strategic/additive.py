"""Cheapest accepted moves against scores that are sums over columns, behind real pipelines.

A linear model behind column-wise steps (scalers, imputers, encoders, bins, splines) gives a score
that is a sum of one function per raw column. The functions are not retyped: the model is asked for
its score with one column set to every value that matters. What is left is a knapsack per person.

Source: "Additive scores", "Fold by asking", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.strategic.asking import (
    Asking,
    Changes,
    destinations,
    keep_changes,
    no_changes,
)
from counterplay.strategic.choices import (
    Choices,
    PersonMenus,
    choices_of,
    found_nothing,
    solve_person,
)
from counterplay.strategic.fold import (
    LINEAR,
    Asked,
    OpenModel,
    column_wise,
    has_probabilities,
)
from counterplay.strategic.joint_menus import JointTables
from counterplay.strategic.knapsack import MOST_STATES, least_price, most_gain
from counterplay.strategic.knapsack_dual import Solution
from counterplay.strategic.knapsack_max import least_price_max, most_gain_max
from counterplay.strategic.line_filling import fill_budget, fill_lines
from counterplay.strategic.links import JointBlock
from counterplay.strategic.menus import Options, option_tables, own_values
from counterplay.strategic.move_blocks import Block, NumberBlock
from counterplay.strategic.moves import Moves
from counterplay.strategic.straight_columns import gridded, slopes_of

SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class AdditiveScore:
    """A score that is a sum over columns, ready to be asked.

    Parameters
    ----------
    asked
        The model with its people.
    opened
        The model taken apart.
    blocks
        Prices of the columns that move; shaped columns have got a grid.
    joint
        Blocks of linked columns.
    slopes
        Gain of one raw unit of each column on which the score is affine.
    anchors
        A value of each such column and its gain over the first person's own.
    scores
        Score of each person.
    cut
        Accepted are scores above it.
    strict
        Whether a score at the cut is rejected.
    """

    asked: Asked
    opened: OpenModel
    blocks: Mapping[Any, Block]
    joint: tuple[JointBlock, ...]
    slopes: Mapping[Any, float]
    anchors: Mapping[Any, tuple[float, float]]
    scores: FloatArray
    cut: float
    strict: bool

    @property
    def grids(self) -> dict[Any, int]:
        """Number of values of each column that was put on a grid because its score is shaped."""
        given = self.asked.frame
        return {
            name: block.grid.size
            for name, block in self.blocks.items()
            if isinstance(block, NumberBlock) and block.grid is not None and name in given
        }


def fold(
    asked: Asked, opened: OpenModel, moves: Moves, *, alone: bool = True
) -> AdditiveScore | None:
    """Return the model as a sum over columns, None if it is not known to be one.

    ``alone`` is False for a member of an ensemble, whose decisions are not those of the model.
    """
    final = opened.final
    linear = type(final).__name__ in LINEAR or getattr(final, "kernel", "") == "linear"
    if not linear or not column_wise(opened.steps):
        return None
    frame = asked.frame
    if alone and asked.fitted.model is not final and not _decisions_agree(asked, opened):
        return None
    scores = opened.score(asked.given(frame))
    ask = Asking(asked, opened)
    if not _is_additive(ask, scores):
        return None
    slopes, anchors = slopes_of(ask, moves)
    blocks: dict[Any, Block] = {}
    for name, block in moves.alone.items():
        shaped = isinstance(block, NumberBlock) and not block.finite and name not in slopes
        blocks[name] = gridded(block, moves) if shaped else block  # type: ignore[arg-type]
    cut, strict = opened.cut()
    return AdditiveScore(asked, opened, blocks, moves.joint, slopes, anchors, scores, cut, strict)


def cheapest_additive(
    score: AdditiveScore, moves: Moves, who: IntArray, budget: float
) -> tuple[FloatArray, FloatArray, BoolArray, Changes]:
    """Return lower and upper prices, exactness and changed cells for the people ``who``.

    The model itself is asked about every destination. A score that rounds onto the cut is first
    taken as accepted; where the model disagrees, a little more is demanded until it agrees.
    """
    n = who.size
    lower, upper = np.zeros(n), np.full(n, np.inf)
    exact = np.ones(n, dtype=bool)
    changes = no_changes(moves.touched)
    people = PeopleMenus(score, moves, budget)
    size = 1.0 + np.abs(score.scores[who]) + (abs(score.cut) if np.isfinite(score.cut) else 0.0)
    smooth = any(isinstance(b, NumberBlock) and not b.finite for b in score.blocks.values())
    # a score that passes the cut by one rounding passes in this batch of rows and not in another
    offsets = [-1e-12] + ([1e-13 * 8.0**k for k in range(7)] if smooth else [1e-12, 1e-10])
    pending = np.arange(n)
    for attempt, offset in enumerate(offsets):
        if not pending.size:
            break
        need = score.cut - score.scores[who[pending]] + offset * size[pending]
        found = people.cheapest(who[pending], need, budget)
        if attempt == 0:
            lower[pending] = found.lower
            exact[pending] = found.found | np.isinf(found.lower)
        reach = np.isfinite(found.lower)
        frame = destinations(score.asked.frame, who[pending], found.changes)
        good = np.zeros(pending.size, dtype=bool)
        if reach.any():
            good[reach] = score.asked.accepts(frame.iloc[np.flatnonzero(reach)])
        price = moves.price(score.asked.frame.iloc[who[pending]], frame)
        done = good | ~reach
        upper[pending[good]] = price[good]
        if not reach.all() and attempt > 0:  # demanded a little more and found nothing
            gone = pending[~reach]
            exact[gone] = score.strict
            lower[gone] = np.where(exact[gone], np.inf, lower[gone])
        keep_changes(changes, found.changes, pending, done)
        if attempt > 0 and not smooth:
            tie = pending[good]
            exact[tie] &= score.strict | (upper[tie] <= lower[tie] * (1 + SLACK))
        pending = pending[~done]
    exact[pending] = False
    near = upper <= lower + SLACK * (1 + lower)
    exact &= near | np.isinf(upper) | (score.strict and not smooth)
    exact &= np.isfinite(upper) | np.isinf(lower)
    lower = np.where(exact, upper, np.minimum(lower, upper))
    return lower, upper, exact, changes


def best_additive(score: AdditiveScore, moves: Moves, budgets: FloatArray) -> list[Candidate]:
    """Return, per budget, bounds on the most that the score of each person can gain."""
    people = PeopleMenus(score, moves, float(budgets.max()))
    who = np.arange(len(score.asked.frame))
    return people.best(who, budgets)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A choice for each person: where it leads, as changed cells, and certified bounds."""

    lower: FloatArray
    upper: FloatArray
    changes: Changes

    @property
    def found(self) -> BoolArray:
        """Where the bounds agree."""
        return np.asarray(self.lower == self.upper, dtype=bool)


class PeopleMenus:
    """People of a table with their menus; solves one knapsack each."""

    def __init__(self, score: AdditiveScore, moves: Moves, budget: float = np.inf) -> None:
        self.score, self.power = score, moves.power
        self.values = own_values(score)
        self.tables: Mapping[Any, Options] = option_tables(score, self.values, budget)
        self.joint = JointTables(score)
        self.touched = moves.touched

    def _choices(self, who: IntArray, budget: float) -> Choices:
        choices = choices_of(self.score, self.tables, self.values, who, self.power)
        linked = [self.joint.menu(joint, who, budget) for joint in self.score.joint]
        return replace(choices, menus=[*choices.menus, *linked])

    def cheapest(self, who: IntArray, need: FloatArray, budget: float) -> Candidate:
        """Return bounds on the least price for what the scores of people lack."""
        choices = self._choices(who, budget)
        if choices.only_lines:
            price, amount = fill_lines(
                need, choices.line_gain, choices.line_price, choices.room, self.power
            )
            low = np.where(price <= budget * (1 + SLACK), price, np.inf)
            return self._candidate(who, choices, low, low, [{} for _ in who], amount)
        low, high = np.full(who.size, np.inf), np.full(who.size, np.inf)
        amount, picks = np.zeros(choices.room.shape), []
        for i in range(who.size):
            low[i], high[i], pick, amount[i] = _cheapest_person(choices, i, float(need[i]), budget)
            picks.append(pick)
        return self._candidate(who, choices, low, high, picks, amount)

    def best(self, who: IntArray, budgets: FloatArray) -> list[Candidate]:
        """Return, per budget, bounds on the most that people can gain within it."""
        roofs = budgets * (1 + SLACK)
        # Only linked columns have options that depend on the budget.
        same = None if self.score.joint else self._choices(who, float(budgets.max()))
        every = [same or self._choices(who, float(budget)) for budget in budgets]
        if all(own.only_lines for own in every):
            return [self._filled(who, own, float(roof)) for own, roof in zip(every, roofs)]
        shape = (budgets.size, who.size)
        low, high = np.zeros(shape), np.zeros(shape)
        amount = np.zeros((*shape, every[0].room.shape[1]))
        picks: list[list[dict[Any, Any]]] = [[] for _ in every]
        for i in range(who.size):
            for k, own in enumerate(every):
                low[k, i], high[k, i], pick, amount[k, i] = _best_person(own, i, float(roofs[k]))
                picks[k].append(pick)
        return [
            self._candidate(who, own, low[k], high[k], picks[k], amount[k])
            for k, own in enumerate(every)
        ]

    def _filled(self, who: IntArray, choices: Choices, roof: float) -> Candidate:
        """Return the gain of people who have nothing but lines."""
        amount = fill_budget(roof, choices.line_gain, choices.line_price, choices.room, self.power)
        gain = (amount * choices.line_gain).sum(axis=1)
        return self._candidate(who, choices, gain, gain, [{} for _ in who], amount)

    def _candidate(
        self,
        who: IntArray,
        choices: Choices,
        lower: FloatArray,
        upper: FloatArray,
        picks: list[dict[Any, Any]],
        amount: FloatArray,
    ) -> Candidate:
        """Write choices as changed cells."""
        cells: dict[Any, tuple[list[int], list[Any]]] = {name: ([], []) for name in self.touched}
        for i, pick in enumerate(picks):
            for name, value in pick.items():
                cells[name][0].append(i)
                cells[name][1].append(value)
        for j, line in enumerate(choices.lines):
            movers = np.flatnonzero((amount[:, j] > 0) & np.isfinite(upper))
            goal = line.goal(self.values[line.name][who[movers]], amount[movers, j])
            cells[line.name][0].extend(movers.tolist())
            cells[line.name][1].extend(goal.tolist())
        changes = {name: (np.array(p, dtype=np.int64), v) for name, (p, v) in cells.items()}
        return Candidate(lower, upper, changes)


def _cheapest_person(
    choices: Choices, i: int, need: float, budget: float
) -> tuple[float, float, dict[Any, Any], FloatArray]:
    """Return bounds on the price, the chosen value per column, and the amounts of the lines."""
    power = choices.power

    def solve(person: PersonMenus, best: float) -> Solution:
        price, gain = person.price, person.gain
        if np.isinf(power):
            found = least_price_max(person.problem, need - gain)
            r = max(price, found.high)
            r = r if r <= min(budget * (1 + SLACK), best) else np.inf
            return found._replace(low=r, high=r)
        cap = min(budget**power * (1 + SLACK), best**power)
        if price**power > cap:
            return found_nothing(person.problem, np.inf)
        found = least_price(person.problem, need - gain, cap - price**power, MOST_STATES)
        low, high = (p + price**power for p in found[:2])
        return found._replace(low=low ** (1 / power), high=high ** (1 / power))

    return solve_person(choices, i, solve, least=True)


def _best_person(
    choices: Choices, i: int, roof: float
) -> tuple[float, float, dict[Any, Any], FloatArray]:
    """Return bounds on the gain, the chosen value per column, and the amounts of the lines."""
    power = choices.power

    def solve(person: PersonMenus, best: float) -> Solution:
        price, gain = person.price, person.gain
        if price > roof:
            return found_nothing(person.problem, -np.inf)
        if np.isinf(power):
            found = most_gain_max(person.problem, roof)
        else:
            found = most_gain(person.problem, roof**power - price**power, MOST_STATES)
        return found._replace(low=found.low + gain, high=found.high + gain)

    return solve_person(choices, i, solve, least=False)


def _decisions_agree(asked: Asked, opened: OpenModel) -> bool:
    """Return whether score and cut give the model's own decisions (away from the cut)."""
    frame = asked.frame.iloc[:: max(1, len(asked.frame) // 500)]
    rows = asked.given(frame)
    if not hasattr(opened.final, "decision_function"):
        return False
    scores = opened.score(rows)
    if scores.shape != (len(frame),):
        return False
    sign = 1.0 if opened.rising else -1.0
    cut, _ = opened.cut()
    clear = np.abs(scores - cut) > 1e-6 * (1 + np.abs(scores))
    said = opened.accept(sign * scores)
    wrapped = asked.fitted.model
    if getattr(wrapped, "threshold", None) is not None or hasattr(wrapped, "best_threshold_"):
        uses_chances = getattr(wrapped, "response_method", "") != "decision_function"
        if uses_chances and not has_probabilities(opened, rows):
            calibrated = "Calibrated" in str(type(getattr(wrapped, "estimator_", None)))
            if not calibrated:
                return False
    return bool((said == asked.accepts(frame))[clear].all())


def _is_additive(ask: Asking, scores: FloatArray) -> bool:
    """Compare scores of up to 100 people with the sum over columns."""
    frame = ask.asked.frame
    rows = np.unique(np.linspace(0, len(frame) - 1, min(100, len(frame))).astype(np.int64))
    total = np.full(rows.size, ask.base)
    requests = {name: frame[name].iloc[rows].tolist() for name in frame.columns}
    for gains in ask(requests).values():
        total += gains
    return bool((np.abs(total - scores[rows]) <= 1e-8 * (1 + np.abs(scores[rows]))).all())
