"""The rules that are compared: as is, honest and hardened cut, without movable columns, strategic.

Cuts are chosen on rows of the other folds, on scores of models that had not seen those rows; the
row's decision comes from the fold that judges it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from counterplay.auditing.context import Context
from counterplay.auditing.intervals import Bootstrap, Decided, difference_of
from counterplay.auditing.quantity import Quantity
from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.strategic.cuts import Cut, cut_over_budgets

AS_IS, HONEST, HARDENED, FIXED = "as is", "honest cut", "hardened cut", "without movable columns"
STRATEGIC = "fitted for gaming"
NEAR = 1 + 1e-9  # prices are compared like those of `gaming_report`


@dataclass(frozen=True, eq=False)
class Rules:
    """Decisions of every rule at every budget, on the same rows.

    Parameters
    ----------
    context
        The audit.
    rows
        The rows that all rules were judged on.
    budgets
        Budgets, 0 first.
    decisions
        For each rule one pair (accepted for certain, accepted possibly) per budget.
    upper
        Price of the move that was found to be accepted as is; infinite if there is none.
    cuts
        Cut of each rule to deploy, chosen on all rows.
    fold_cuts
        Cuts of each rule that were chosen for the folds.
    all_rows
        All rows that are judged, also those there was no time to search moves for.
    calm
        Decisions of every rule on all of them if nobody moves.
    no_fit
        Why no rule could be fitted for gaming; empty if one was, or if it was not tried.
    """

    context: Context
    rows: IntArray
    budgets: tuple[float, ...]
    decisions: Mapping[str, list[tuple[BoolArray, BoolArray]]]
    upper: FloatArray
    cuts: Mapping[str, Cut] = field(default_factory=dict)
    fold_cuts: Mapping[str, list[float]] = field(default_factory=dict)
    all_rows: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    calm: Mapping[str, BoolArray] = field(default_factory=dict)
    no_fit: str = ""

    @cached_property
    def boot(self) -> Bootstrap:
        """Draws that all rules share."""
        return self.context.bootstrap(len(self.paid_rows))

    @property
    def wanted(self) -> BoolArray:
        """Outcome of the rows."""
        return self.context.wanted[self.rows]

    @property
    def headline(self) -> int:
        """Place of the middle budget of the config among the budgets."""
        given = [b for b in self.budgets if b > 0] or [0.0]
        return self.budgets.index(given[len(given) // 2])

    def at(self, rule: str, b: int) -> Decided:
        """Return the decisions of a rule at a budget."""
        sure, maybe = self.decisions[rule][b]
        return self.context.decided(sure, maybe, self.rows)

    @property
    def sampled(self) -> bool:
        """Whether moves were searched for some of the rows only."""
        return len(self.all_rows) > len(self.rows)

    def at_rest(self, rule: str) -> tuple[Decided, IntArray]:
        """Return the decisions of a rule if nobody moves, on all rows where they are known."""
        if rule in self.calm:
            return self.context.decided(self.calm[rule], rows=self.all_rows), self.all_rows
        return self.at(rule, 0), self.rows

    @property
    def paid_rows(self) -> IntArray:
        """Rows that money rests on: all that are judged, also where moves are a sample."""
        return self.all_rows if self.sampled else self.rows

    def cost(self, rule: str, b: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the cost of each row that money rests on: with found moves, at least, at most.

        Where moves were searched for a sample, a row costs what it costs at rest, and a sampled row
        also stands for what moves add to others: the mean is that of all rows at rest plus the mean
        addition of the sample, and its spread is that of both.
        """
        found = self.at(rule, b)
        if not self.sampled or rule not in self.calm:
            return found.money, *found.money_ends
        rest = self.at_rest(rule)[0].money
        here = np.searchsorted(self.all_rows, self.rows)
        still = self.at(rule, 0).money
        sides = []
        for cost in (found.money, *found.money_ends):
            side = rest.copy()
            side[here] += (cost - still) * len(self.all_rows) / len(self.rows)
            sides.append(side)
        return sides[0], sides[1], sides[2]

    def money(self, rule: str, b: int, assumes: tuple[str, ...]) -> Quantity:
        """Return what a rule costs at a budget, per 1,000 decisions."""
        zero = np.zeros(len(self.paid_rows))
        exact = self.at(rule, b).exact
        found = difference_of(
            self.cost(rule, b), (zero, zero, zero), self.boot, unit=self.context.money_unit,
            basis="measured" if exact else "found", assumes=assumes,
        )  # fmt: skip
        return msgspec.structs.replace(found, n=len(self.rows))

    def mixed(self, rule: str, b: int, share: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the same if a share of people games at a budget and the others do not."""
        parts = zip(self.cost(rule, 0), self.cost(rule, b))
        one, two, three = ((1 - share) * calm + share * gamed for calm, gamed in parts)
        return one, two, three


def rules_from(
    context: Context, parts: Mapping[str, pd.DataFrame], budgets: tuple[float, ...]
) -> Rules:
    """Return the rules from the records of the stages."""
    moves = parts["moves"].set_index("row")
    fold = context.folds.of_row
    rows = np.sort(moves.index.to_numpy(dtype=np.int64))
    shown = parts["shown"]
    if len(shown):
        rows = np.intersect1d(rows, shown["row"].to_numpy(dtype=np.int64))
    rows = rows[fold[rows] >= 0]
    mine = moves.loc[rows]
    upper, lower = mine["upper"].to_numpy(dtype=float), mine["lower"].to_numpy(dtype=float)
    decisions: dict[str, Any] = {AS_IS: _within(lower, upper, budgets)}
    cuts: dict[str, Cut] = {}
    fold_cuts: dict[str, list[float]] = {}
    if len(shown):
        scores = Shown(context, shown.set_index("row"), len(budgets))
        for rule, levels in ((HONEST, 1), (HARDENED, len(budgets))):
            fold_cuts[rule] = [
                scores.cut_for(k, budgets[:levels]) for k in range(len(context.folds))
            ]
            decisions[rule] = scores.decide(rows, np.array(fold_cuts[rule])[fold[rows]])
            cuts[rule] = scores.cut_on(scores.rows, "", budgets[:levels])
    held: dict[int, bool] = {}
    if len(parts["fixed"]):
        held = dict(zip(parts["fixed"]["row"].tolist(), parts["fixed"]["accepted"].tolist()))
        fixed = np.array([bool(held[row]) for row in rows.tolist()])
        decisions[FIXED] = [(fixed, fixed)] * len(budgets)
    prices, why = _priced(parts["strategic"])
    if prices is not None:
        own = prices.loc[rows]
        decisions[STRATEGIC] = _within(
            own["lower"].to_numpy(dtype=float), own["upper"].to_numpy(dtype=float), budgets
        )
    every, calm = _at_rest(context, parts["calm"], fold_cuts, held)
    if prices is not None and len(every):
        calm[STRATEGIC] = prices.loc[every, "upper"].to_numpy(dtype=float) == 0
    return Rules(context, rows, budgets, decisions, upper, cuts, fold_cuts, every, calm, why)


def _priced(records: pd.DataFrame) -> tuple[pd.DataFrame | None, str]:
    """Return prices of acceptance by the rule fitted for gaming, or why there is none."""
    if not len(records):
        return None, ""
    if (records["row"] < 0).any():
        return None, str(records["why"].dropna().iloc[0])
    return records.set_index("row"), ""


def _within(
    lower: FloatArray, upper: FloatArray, budgets: tuple[float, ...]
) -> list[tuple[BoolArray, BoolArray]]:
    """Return who is accepted at each budget, for certain and possibly, from bounds of the price."""
    already = upper == 0
    return [
        (already, already) if b == 0 else (upper <= b * NEAR, already | (lower <= b * NEAR))
        for b in budgets
    ]


def _at_rest(
    context: Context,
    records: pd.DataFrame,
    fold_cuts: Mapping[str, list[float]],
    held: Mapping[int, bool],
) -> tuple[IntArray, dict[str, BoolArray]]:
    """Return all judged rows, and the decisions of every rule on them if nobody moves."""
    if not len(records):
        return np.zeros(0, dtype=np.int64), {}
    known = records.set_index("row").sort_index()
    rows = known.index.to_numpy(dtype=np.int64)
    fold = context.folds.of_row[rows]
    known, rows, fold = known[fold >= 0], rows[fold >= 0], fold[fold >= 0]
    calm = {AS_IS: known["accepted"].to_numpy(dtype=bool)}
    score = known["score"].to_numpy(dtype=float)
    for rule, cuts in fold_cuts.items():
        calm[rule] = score >= np.array(cuts)[fold]
    if held:
        calm[FIXED] = np.array([bool(held[row]) for row in rows.tolist()])
    return rows, calm


class Shown:
    """Best shown scores of the records, per budget."""

    def __init__(self, context: Context, records: pd.DataFrame, levels: int) -> None:
        self.context, self.records, self.levels = context, records, levels
        self.rows = np.sort(records.index.to_numpy(dtype=np.int64))

    def scores(self, rows: IntArray, prefix: str, levels: int) -> tuple[FloatArray, FloatArray]:
        """Return scores that some rows can show for certain, and at most."""
        part = self.records.loc[rows]
        low = np.column_stack([part[f"{prefix}low{b}"] for b in range(levels)]).astype(float)
        high = low.copy()
        for b in range(levels):
            name = f"{prefix}high{b}"
            if name in part:
                roof = part[name].to_numpy(dtype=float)
                high[:, b] = np.where(np.isnan(roof), low[:, b], roof)
        # More budget never shows less.
        low = np.maximum.accumulate(low, axis=1)
        high = np.maximum(high, low)
        return low, high

    def cut_for(self, k: int, budgets: tuple[float, ...]) -> float:
        """Return the cut of fold ``k``, chosen on rows of its training part alone."""
        context = self.context
        train = np.intersect1d(self.rows, context.folds.train[k])
        if not context.cross_fitted:
            return self.cut_on(train, "", budgets).cut
        inside = context.inside(k).of_row
        return self.cut_on(train[inside[train] >= 0], f"{k}:", budgets).cut

    def cut_on(self, rows: IntArray, prefix: str, budgets: tuple[float, ...]) -> Cut:
        """Return the cut of least largest regret over the budgets, on some rows."""
        if prefix == "" and self.context.cross_fitted:
            rows = rows[self.context.folds.of_row[rows] >= 0]
        low, high = self.scores(rows, prefix, len(budgets))
        return cut_over_budgets(
            low, high, self.context.wanted[rows], list(budgets),
            sample_weight=weights_of(self.context, rows),
        )  # fmt: skip

    def decide(self, rows: IntArray, cut: FloatArray) -> list[tuple[BoolArray, BoolArray]]:
        """Return who passes a cut at each budget, for certain and possibly."""
        low, high = self.scores(rows, "", self.levels)
        return [(low[:, b] >= cut, high[:, b] >= cut) for b in range(self.levels)]


def weights_of(context: Context, rows: IntArray) -> Any:
    """Return what an error costs at each row: the weight of the row when a cut is chosen."""
    cost = np.where(context.wanted[rows], context.cost_reject[rows], context.cost_accept[rows])
    return cost if cost.sum() > 0 else np.ones(len(rows))
