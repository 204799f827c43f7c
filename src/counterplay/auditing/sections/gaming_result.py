"""The page's words, tables and figures on gaming, from the decisions of every rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from counterplay.auditing.context import Context
from counterplay.auditing.findings import Column, Finding, Grid, RowValues, SectionResult, Variant
from counterplay.auditing.intervals import accuracy_of, money_of, share
from counterplay.auditing.quantity import Quantity, quantity_key
from counterplay.auditing.sections.gaming_ability import able_findings
from counterplay.auditing.sections.gaming_actions import Worth, variants_of
from counterplay.auditing.sections.gaming_people import group_table, movers_table
from counterplay.auditing.sections.gaming_pictures import figures
from counterplay.auditing.sections.gaming_rules import AS_IS, HARDENED, HONEST, Rules
from counterplay.auditing.sections.honest import best_plain, plain_cost
from counterplay.auditing.sections.honest_words import PLAIN
from counterplay.core.validation import IntArray

COLUMNS = (
    "rule", "budget", "accepted", "accuracy", "false_accepts", "false_rejects", "movers",
    "unqualified_movers", "money",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GamingResult(SectionResult):
    """Decisions of every rule at every budget, and what to deploy instead.

    Parameters
    ----------
    frame
        One line per rule and budget.
    break_even
        Share of people who game from which the hardened cut pays; None without one.
    cuts
        Cut on the score of the rules that have one.
    """

    frame: pd.DataFrame
    break_even: Quantity | None = None
    cuts: Mapping[str, float]

    def to_frame(self) -> pd.DataFrame:
        """Return one line per rule and budget."""
        return self.frame.copy()


def gaming_result(
    context: Context, rules: Rules, parts: Mapping[str, pd.DataFrame]
) -> GamingResult:
    """Return everything the section says."""
    table = decision_table(rules)
    worth = Worth(rules)
    quantities, values = _quantities(rules, table)
    quantities |= worth.remaining()
    words = Words(rules, table, worth)
    groups = group_table(rules)
    changes, movers = movers_table(rules, parts["moves"])
    offered: tuple[Variant, ...] = () if worth.no_better else variants_of(rules)
    _, plain = best_plain(context, rules.paid_rows, rules.boot)
    grids = [_grid(rules, table)]
    grids += [grid for grid in (changes, groups) if grid is not None]
    return GamingResult(
        name="gaming",
        title="What does gaming cost?",
        lead=words.lead(),
        findings=(*words.findings(movers), *able_findings(parts["ability"])),
        actions=tuple(worth.actions(movers, offered)),
        tables=tuple(grids),
        figures=tuple(figures(rules, table, changes, groups, worth)),
        quantities=quantities,
        plain={"gamed_money": plain, "gamed_accuracy": words.larger},
        row_values=values | _plain_values(context, rules.paid_rows, worth.plain_rule),
        assumptions=words.assumptions(),
        variants=offered,
        frame=_frame(decision_table(rules, whole=False) if rules.sampled else table),
        break_even=worth.break_even_share,
        cuts={name: cut.cut for name, cut in rules.cuts.items()},
    )


@dataclass(frozen=True)
class Line:
    """One rule at one budget."""

    rule: str
    budget: float
    n: int
    accepted: int
    accuracy: Quantity
    false_accepts: int
    false_rejects: int
    movers: int
    unqualified_movers: int
    money: Quantity
    exact: bool


def decision_table(rules: Rules, *, whole: bool = True) -> list[Line]:
    """Return one line per rule and budget; where nobody moves, on all rows if ``whole``."""
    context, lines = rules.context, []
    assumes = (*context.money_assumes, "costs of moves", "everybody knows the rule and moves")
    for rule in rules.decisions:
        calm = rules.at(rule, 0).sure
        for b, budget in enumerate(rules.budgets):
            found, rows = (rules.at(rule, b), rules.rows)
            moved = found.sure & ~calm
            if whole and b == 0:
                found, rows = rules.at_rest(rule)
                moved = np.zeros(len(rows), dtype=bool)
            told = assumes if b else context.money_assumes
            if whole and b and rules.sampled:
                money = rules.money(rule, b, told)
            else:
                money = money_of(found, context.bootstrap(len(rows)), context.money_unit, told)
            lines.append(
                Line(
                    rule, budget, len(rows), int(found.sure.sum()), accuracy_of(found),
                    int((found.sure & ~found.wanted).sum()),
                    int((~found.sure & found.wanted).sum()), int(moved.sum()),
                    int((moved & ~found.wanted).sum()), money, found.exact,
                )
            )  # fmt: skip
    return lines


def _frame(table: list[Line]) -> pd.DataFrame:
    """Return one row per rule and budget: money with its interval, and the basis of the moves."""
    rows = [
        {
            **{name: getattr(line, name) for name in COLUMNS if name not in ("accuracy", "money")},
            "accuracy": line.accuracy.value,
            "money": line.money.value,
            "low": line.money.low,
            "high": line.money.high,
            "basis": "exact" if line.exact else "found",
        }
        for line in table
    ]
    return pd.DataFrame(rows, columns=[*COLUMNS, "low", "high", "basis"])


def _grid(rules: Rules, table: list[Line]) -> Grid:
    context = rules.context

    def count(value: int, line: Line) -> Quantity:
        if line.n < len(rules.paid_rows):  # of a sample
            return _per_thousand(value, line.n, "measured" if line.exact else "found")
        return Quantity.certain(
            1000 * value / line.n, unit="per 1,000 decisions", n=line.n,
            basis="exact" if line.exact else "found",
        )  # fmt: skip

    counted = ("false_accepts", "false_rejects", "accepted", "movers", "unqualified_movers")
    rows = tuple(
        (
            line.rule, line.budget, line.money,
            *(count(getattr(line, c), line) for c in counted), line.accuracy,
            "exact" if line.exact else "found .. certified",
        )
        for line in table
    )  # fmt: skip
    words = [c.replace("_", " ") for c in counted]
    named = ["rule", "effort", "money", *words, "accuracy", "moves"]
    numbers = {"effort", "accuracy", "money", *words}
    return Grid(
        title="Decisions by rule and effort",
        columns=tuple(Column(name=name, number=name in numbers) for name in named),
        rows=rows,
        note=f"Counts per 1,000 rows; money in {context.money_unit}; effort in "
        f"{context.setting('effort', 'unit', 'units')}. {_rest(rules)}",
    )


def _rest(rules: Rules) -> str:
    """Say on how many rows the numbers rest, and which rule is missing."""
    missing = f" No rule could be fitted for gaming: {rules.no_fit}." if rules.no_fit else ""
    if not rules.sampled:
        return f"All on {len(rules.rows):,} rows.{missing}"
    return (
        f"Effort 0 rests on {len(rules.all_rows):,} rows; moves were searched for "
        f"{len(rules.rows):,} of them: counts and accuracy at other efforts are theirs, money and "
        f"gains add what their moves cost to the money at rest.{missing}"
    )


def _quantities(
    rules: Rules, table: list[Line]
) -> tuple[dict[str, Quantity], dict[str, RowValues]]:
    """Return numbers by gate name; the headline is the model as is at the middle budget."""
    found: dict[str, Quantity] = {}
    values: dict[str, RowValues] = {}
    for line in table:
        b = rules.budgets.index(line.budget)
        decided, own_rows = (
            rules.at_rest(line.rule) if b == 0 else (rules.at(line.rule, b), rules.rows)
        )
        basis: Any = "measured" if line.exact else "found"
        numbers = {"gamed_accuracy": line.accuracy, "gamed_money": line.money}
        for name, hits in (
            ("false_accepts_per_1000", line.false_accepts),
            ("false_rejects_per_1000", line.false_rejects),
            ("movers_per_1000", line.movers),
        ):
            numbers[name] = _per_thousand(hits, line.n, basis)
        paid = rules.cost(line.rule, b)[0], 1000.0, rules.paid_rows
        rows = {
            "gamed_accuracy": (decided.right.astype(float), 1.0, own_rows),
            "gamed_money": (decided.money, 1000.0, own_rows) if b == 0 else paid,
        }
        places: list[dict[str, Any]] = [{"budget": line.budget, "rule": line.rule}]
        if line.rule == AS_IS:
            places.append({"budget": line.budget})
            if b == rules.headline:
                places.append({})
        if b == rules.headline:
            places.append({"rule": line.rule})
        for place in places:
            for name, number in numbers.items():
                key = quantity_key(name, place)
                found[key] = number
                if name in rows:
                    own, scale, which = rows[name]
                    values[key] = RowValues(rows=which, values=own, scale=scale)
    return found, values


def _plain_values(context: Context, rows: IntArray, rule: str) -> dict[str, RowValues]:
    """Return the rows behind the best plain rules, to be paired with those of the model."""
    y = context.wanted[rows]
    right = y == (y.mean() >= 0.5)
    cost = plain_cost(context, rule, rows)
    return {
        "best_plain gamed_accuracy": RowValues(rows=rows, values=right.astype(float)),
        "best_plain gamed_money": RowValues(rows=rows, values=cost, scale=1000.0),
    }


def _per_thousand(hits: int, n: int, basis: Any) -> Quantity:
    found = share(hits, n)
    return Quantity(
        value=1000 * found.value, low=1000 * found.low, high=1000 * found.high,
        unit="per 1,000 decisions", basis=basis, n=n,
        assumes=("costs of moves", "everybody knows the rule and moves"),
    )  # fmt: skip


class Words:
    """The sentences of the section."""

    def __init__(self, rules: Rules, table: list[Line], worth: Worth) -> None:
        self.rules, self.worth, self.context = rules, worth, rules.context
        self.lines = {(line.rule, line.budget): line for line in table}
        self.budget = rules.budgets[rules.headline]
        y = rules.wanted
        self.larger = share(int(max(y.sum(), (~y).sum())), len(y))

    def at(self, rule: str, budget: float) -> Line | None:
        """Return one line of the table."""
        return self.lines.get((rule, budget))

    def lead(self) -> tuple[str, ...]:
        """Return what people can do, and how exact it is."""
        from counterplay.auditing.sections.gaming import moves_of

        context = self.context
        names = list(map(str, moves_of(context).columns))
        exact = all(line.exact for line in self.lines.values())
        how = (
            "All moves are exact."
            if exact
            else "Where a move is only bracketed, intervals count the row both ways."
        )
        judge = (
            "cut chosen on rows of the other folds, by clones that had not seen the row"
            if context.cross_fitted
            else "cut chosen on rows of the other folds"
        )
        unit = context.setting("effort", "unit", "units of effort")
        return (
            f"People can change: {', '.join(names)}. Everything else stays. Prices are yours; "
            f"effort in {unit}. {how}",
            f"{len(self.rules.rows):,} rows, {judge}. Read the money, not the accuracy: where "
            "accepts are the majority, gaming can raise accuracy while false accepts multiply.",
        )

    def assumptions(self) -> tuple[str, ...]:
        """Return what the numbers rest on."""
        return (
            "Costs of moves are those of the config.",
            "Everybody knows the rule and moves if acceptance is within the budget; outcomes stay "
            "as they are.",
            *self.context.money_words,
        )

    def findings(self, movers: list[tuple[str, float, str]]) -> list[Finding]:
        """Return the sentences, in the order of the first screen."""
        found = []
        if self.at(HONEST, 0.0) is not None:
            found += [self._honest(), self._gamed(HONEST, movers), self._hardened()]
        else:
            found.append(self._gamed(AS_IS, movers))
        if self.worth.no_better and self.at(HONEST, 0.0) is not None:
            found.append(self._no_better())
        return found

    def _honest(self) -> Finding:
        old, new = self.at(AS_IS, 0.0), self.at(HONEST, 0.0)
        assert old is not None
        assert new is not None
        gain = self.worth.gain(AS_IS, HONEST, 0.0)
        cut = self.worth.cut_text(HONEST)
        before, after = (round(1000 * line.false_accepts / line.n) for line in (old, new))
        sentence = (
            f"With the cut at {cut} it costs {new.money}; accuracy goes from "
            f"{old.accuracy.value:.3f} to {new.accuracy.value:.3f}, and {before:,} false accepts "
            f"per 1,000 become {after:,}. {self._beside_plain()}"
        )
        return Finding(
            name="honest_cut", sentence=sentence, severity="high" if gain.low > 0 else "low",
            quantity=new.money, headline=2, table="Decisions by rule and effort",
        )  # fmt: skip

    def _beside_plain(self) -> str:
        """Say what the best rule saves against the best plain one."""
        most, rule = self.worth.over_plain, self.worth.plain_rule
        verb = "accepting" if rule == PLAIN[0] else "rejecting"
        if most.low > 0:
            return f"Against {verb} everybody the best rule saves {most}."
        return f"That is no better than {verb} everybody (difference {most})."

    def _gamed(self, rule: str, movers: list[tuple[str, float, str]]) -> Finding:
        calm, gamed = self.at(rule, 0.0), self.at(rule, self.budget)
        assert calm is not None
        assert gamed is not None
        unit = self.context.setting("effort", "unit", "units of effort")
        still = self.rules.at(rule, 0)
        more = gamed.false_accepts - int((still.sure & ~still.wanted).sum())
        more = round(1000 * more / gamed.n)
        which = "that cut" if rule == HONEST else "the model as it is"
        how = ""
        if movers:
            names = " and ".join(name for name, _, _ in movers[:2])
            how = f", mostly by changing {names}"
            if rule == HONEST:  # moves are recorded for the model as it is
                how = f". Under the model as it is, movers change mostly {names}"
        found = "" if gamed.exact else "at least "
        sentence = (
            f"If people spend {self.budget:g} ({unit}), {which} costs {gamed.money}: "
            f"{found}{more:,} more false accepts per 1,000{how}."
        )
        return Finding(
            name="gamed", sentence=sentence,
            severity="high" if gamed.money.low > calm.money.value else "medium",
            quantity=gamed.money, headline=3, table="Decisions by rule and effort",
        )  # fmt: skip

    def _hardened(self) -> Finding:
        calm, gamed = self.at(HARDENED, 0.0), self.at(HARDENED, self.budget)
        assert calm is not None
        assert gamed is not None
        gain = self.worth.gain(HONEST, HARDENED, self.budget)
        number = f"{calm.money.value:,.0f}"
        pays = self.worth.pays_sentence()
        sentence = (
            f"A cut chosen with gaming in mind costs {gamed.money} then, and {number} if nobody "
            f"games. {pays}"
        )
        return Finding(
            name="hardened_cut", sentence=sentence, severity="medium" if gain.low > 0 else "low",
            quantity=gamed.money, headline=4, table="Decisions by rule and effort",
        )  # fmt: skip

    def _no_better(self) -> Finding:
        rule, most = self.worth.plain_rule, self.worth.over_plain
        sentence = (
            f"No rule here beats '{rule}' by more than the interval; the model is worth at most "
            f"{max(0.0, most.high):,.0f} {self.context.money_unit} (difference {most})."
        )
        return Finding(
            name="no_rule_beats_plain", sentence=sentence, severity="high", quantity=most
        )
