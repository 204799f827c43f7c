"""What to deploy instead, and what it gains: each step credited after the one before it.

The gain of a hardened cut is measured against the honest cut, never against the model as it is:
otherwise the gain of moving the cut would be sold as robustness.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from counterplay.auditing.context import Context
from counterplay.auditing.findings import Action, Scenario, Variant
from counterplay.auditing.intervals import difference_of, ends
from counterplay.auditing.quantity import Basis, Quantity, weakest
from counterplay.auditing.sections.break_even import BreakEven, break_even, drawn_shares
from counterplay.auditing.sections.gaming_rules import (
    AS_IS,
    FIXED,
    HARDENED,
    HONEST,
    STRATEGIC,
    Rules,
)
from counterplay.auditing.sections.honest import plain_cost
from counterplay.auditing.sections.honest_words import PLAIN
from counterplay.core.validation import BoolArray
from counterplay.strategic.rethreshold import scoring_model
from counterplay.tables import FittedModel

SHARES = (0.0, 0.25, 1.0)  # of people who game, where nobody knows


class Worth:
    """Gains of rules over each other, paired on rows.

    Parameters
    ----------
    rules
        Decisions of every rule at every budget.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules, self.context = rules, rules.context
        self.b = rules.headline

    @cached_property
    def share(self) -> float:
        """Share of people who game, for the ranking: that of the config, else a mean of three."""
        given = self.context.setting("effort", "share_gaming", "unknown")
        return float(np.mean(SHARES)) if isinstance(given, str) else float(given)

    @property
    def known_share(self) -> bool:
        """Whether the config says how many people game."""
        return not isinstance(self.context.setting("effort", "share_gaming", "unknown"), str)

    def gain(self, before: str, after: str, budget: float, share: float = 1.0) -> Quantity:
        """Return what the second rule saves against the first if a share games at a budget."""
        rules, b = self.rules, self.rules.budgets.index(budget)
        sides = rules.mixed(before, b, share), rules.mixed(after, b, share)
        found = difference_of(
            *sides, rules.boot, unit=self.context.money_unit, basis=self._basis(before, after, b),
            assumes=(*self.context.money_assumes, *(("costs of moves",) if b else ())),
        )  # fmt: skip
        return msgspec.structs.replace(found, n=len(rules.rows))

    def _basis(self, before: str, after: str, b: int) -> Basis:
        exact = all(self.rules.at(r, k).exact for r in (before, after) for k in (0, b))
        return weakest(["measured", "exact" if exact else "found"])

    @cached_property
    def plain_rule(self) -> str:
        """The cheaper one of accepting and rejecting all."""
        costs = [plain_cost(self.context, rule, self.rules.paid_rows).mean() for rule in PLAIN]
        return PLAIN[int(np.argmin(costs))]

    @cached_property
    def over_plain(self) -> Quantity:
        """What the best rule saves against the best plain rule if nobody games."""
        found = {rule: self.rules.at_rest(rule) for rule in self.rules.decisions}
        best, rows = min(found.values(), key=lambda item: item[0].money.mean())
        plain = plain_cost(self.context, self.plain_rule, rows)
        return difference_of(
            (plain, plain, plain), (best.money, *best.money_ends),
            self.context.bootstrap(len(rows)), unit=self.context.money_unit, basis="measured",
            assumes=self.context.money_assumes,
        )  # fmt: skip

    @property
    def no_better(self) -> bool:
        """Whether no rule beats the best plain one by more than the interval if nobody games."""
        return self.over_plain.low <= 0

    @cached_property
    def crossing(self) -> BreakEven | None:
        """From which share of people who game the hardened cut pays."""
        if HARDENED not in self.rules.decisions:
            return None
        means = [self.rules.cost(r, b)[0].mean() for r in (HONEST, HARDENED) for b in (0, self.b)]
        return break_even(*map(float, means))

    @cached_property
    def break_even_share(self) -> Quantity | None:
        """The same with its interval; 1 where it never pays."""
        if self.crossing is None:
            return None
        columns = [self.rules.cost(r, b)[0] for r in (HONEST, HARDENED) for b in (0, self.b)]
        drawn = drawn_shares(*self.rules.boot.means(np.column_stack(columns)).T)
        low, high = ends(drawn[:, None])[0]
        return Quantity(
            value=self.crossing.share, low=float(low), high=float(high), unit="share",
            basis=self._basis(HONEST, HARDENED, self.b), n=len(self.rules.rows),
            assumes=(*self.context.money_assumes, "costs of moves"),
        )  # fmt: skip

    def pays_sentence(self) -> str:
        """Say from which share on hardening pays."""
        found, number = self.crossing, self.break_even_share
        assert found is not None
        assert number is not None
        share = f"(break-even share [{number.low:.0%}, {number.high:.0%}])".replace("%", " %")
        if found.kind == "never":
            return f"As far as these rows tell it does not pay, whoever games {share}."
        if found.kind == "always":
            return f"As far as these rows tell it pays whoever games {share}."
        if found.kind == "below":
            return f"It pays only while fewer than {found.share:.0%} game.".replace("%", " %")
        text = (
            f"It pays as soon as about {found.share:.0%} of people game "
            f"[{number.low:.0%}, {number.high:.0%}]."
        )
        return text.replace("%", " %")

    def cut_text(self, rule: str) -> str:
        """Return the cut of a rule for people: as a chance where the model gives one."""
        cut = self.rules.cuts[rule].cut
        if not np.isfinite(cut):
            return "no score (reject all)" if cut > 0 else "any score (accept all)"
        chance = chance_at(self.context, cut)
        return f"score {cut:.3g}" if chance is None else f"{chance:.2f} (score {cut:.2g})"

    def actions(
        self, movers: list[tuple[str, float, str]], offered: tuple[Variant, ...]
    ) -> list[Action]:
        """Return what to do, each with the gain after what is credited before it."""
        if HONEST not in self.rules.decisions:
            return self._suggestions(movers)
        found = [self._cut(offered), self._harden(offered)]
        if FIXED in self.rules.decisions:
            found.append(self._fixed())
        if STRATEGIC in self.rules.decisions:
            found.append(self._strategic())
        return found + self._suggestions(movers)

    def remaining(self) -> dict[str, Quantity]:
        """Return the money that is left after the advised steps, in the ranking scenario."""
        rule = AS_IS
        for before, after in ((AS_IS, HONEST), (HONEST, HARDENED)):
            if after in self.rules.decisions and self._ranked(before, after)[0].low > 0:
                rule = after
        zero = np.zeros(len(self.rules.paid_rows))
        found = difference_of(
            self.rules.mixed(rule, self.b, self.share), (zero, zero, zero), self.rules.boot,
            unit=self.context.money_unit, basis=self._basis(rule, rule, self.b),
            assumes=(*self.context.money_assumes, "costs of moves"),
        )  # fmt: skip
        return {"remaining_money": found}

    def _scenarios(self, before: str, after: str) -> tuple[Scenario, ...]:
        budget = self.rules.budgets[self.b]
        return (
            Scenario(when="nobody games", gain=self.gain(before, after, budget, 0.0)),
            Scenario(when=f"all game at {budget:g}", gain=self.gain(before, after, budget, 1.0)),
        )

    def _ranked(self, before: str, after: str) -> tuple[Quantity, str]:
        budget = self.rules.budgets[self.b]
        if self.known_share:
            when = f"{self.share:.0%} game at {budget:g}".replace("%", " %")
        else:
            when = f"mean of 0, 25 and 100 % of people gaming at {budget:g}"
        return self.gain(before, after, budget, self.share), when

    def _cut(self, offered: tuple[Variant, ...]) -> Action:
        gain, when = self._ranked(AS_IS, HONEST)
        return Action(
            name=HONEST, title=f"Move the cut to {self.cut_text(HONEST)}", gain=gain,
            scenario=when, scenarios=self._scenarios(AS_IS, HONEST), credit=1, effort=1,
            how="hardened.skops, variant cut" if offered else self._nothing(),
        )  # fmt: skip

    def _harden(self, offered: tuple[Variant, ...]) -> Action:
        gain, when = self._ranked(HONEST, HARDENED)
        top = self.rules.budgets[-1]
        declared = self.gain(HONEST, HARDENED, self.rules.budgets[self.b])
        note = self.pays_sentence()
        if declared.low <= 0:
            note += " Not offered: its gain at the declared budget may be nothing."
        return Action(
            name=HARDENED,
            title=hardened_title(self.cut_text(HARDENED), self.cut_text(HONEST), top),
            gain=gain, scenario=when, scenarios=self._scenarios(HONEST, HARDENED), after=HONEST,
            credit=2, effort=1, note=note,
            how="hardened.skops" if any(v.name == "hardened" for v in offered) else self._nothing(),
        )  # fmt: skip

    def _fixed(self) -> Action:
        gain, when = self._ranked(HARDENED, FIXED)
        return Action(
            name=FIXED, title="Fit the model without the movable columns", gain=gain,
            scenario=when, scenarios=self._scenarios(HARDENED, FIXED), after=HARDENED,
            instead_of=(HONEST, HARDENED), effort=3,
            how="drop the columns and fit again",
        )  # fmt: skip

    def _strategic(self) -> Action:
        gain, when = self._ranked(HARDENED, STRATEGIC)
        budget = self.rules.budgets[self.b]
        return Action(
            name=STRATEGIC, title=f"Fit a linear rule for people who spend {budget:g}", gain=gain,
            scenario=when, scenarios=self._scenarios(HARDENED, STRATEGIC), after=HARDENED,
            instead_of=(HONEST, HARDENED), effort=3,
            how="`counterplay.strategic.StrategicLinearClassifier` with the moves of the config",
        )  # fmt: skip

    def _nothing(self) -> str:
        if self.no_better:
            return f"no file is offered: no rule beats '{self.plain_rule}'"
        return "no file is offered"

    def _suggestions(self, movers: list[tuple[str, float, str]]) -> list[Action]:
        """Suggest to verify what most movers change; its gain was not measured."""
        if not movers or movers[0][1] < 0.5:
            return []
        name, part, _ = movers[0]
        calm, gamed = (self.rules.at(AS_IS, b) for b in (0, self.b))
        most = round(1000 * float((gamed.sure & ~calm.sure & ~gamed.wanted).mean()))
        return [
            Action(
                name=f"verify {name}", title=f"Verify {name} before deciding",
                how="a check by hand", effort=2,
                note=f"{part:.0%} of movers change it under the model as it is. That avoids at "
                f"most {most:,} false accepts per 1,000 decisions there; how many was not "
                "measured.".replace("%", " %"),
            )
        ]  # fmt: skip


def hardened_title(cut: str, honest: str, top: float) -> str:
    """Return the advice on the hardened cut; it stands alone, since actions are sorted by gain.

    Examples
    --------
    >>> hardened_title("0.94 (score 2.7)", "0.91 (score 2.3)", 2.0)
    'Put the cut at 0.94 (score 2.7), not 0.91, chosen for budgets 0 to 2'
    """
    other = honest.split(" (")[0]
    bounded = other not in ("no score", "any score")
    against = f", not {other}" if bounded and other != cut.split(" (")[0] else ""
    return f"Put the cut at {cut}{against}, chosen for budgets 0 to {top:g}"


def chance_at(context: Context, cut: float) -> float | None:
    """Return the chance that stands for a score, where the model gives both."""
    model = scoring_model(context.estimator)
    if not (hasattr(model, "decision_function") and hasattr(model, "predict_proba")):
        return cut if hasattr(model, "predict_proba") else None
    part = context.table.part(np.sort(context.order[:2000]))
    score = context.scores(model, part)
    fitted = FittedModel.of(model)
    column = [c == context.positive for c in fitted.classes].index(True)
    chance = np.asarray(model.predict_proba(fitted.rows(part)))[:, column]
    order = np.argsort(score)
    return float(np.interp(cut, score[order], np.maximum.accumulate(chance[order])))


def variants_of(rules: Rules) -> tuple[Variant, ...]:
    """Return the model with the honest cut, and with the hardened one where that pays."""
    context, found = rules.context, []
    worth = Worth(rules)
    clones = ""
    if context.cross_fitted:
        clones = " The tables above are of clones that had not seen the rows; this is the model."
    for name, rule in (("cut", HONEST), ("hardened", HARDENED)):
        if rule not in rules.cuts or not np.isfinite(rules.cuts[rule].cut):
            continue
        if rule == HARDENED and worth.gain(HONEST, HARDENED, rules.budgets[worth.b]).low <= 0:
            continue
        model = deployed(context, rules.cuts[rule].cut)
        accepted = context.accepts(model, context.table)
        found.append(
            Variant(
                name=name, model=model, accepted=accepted, action=rule,
                sentence=f"The same model, accepted from {worth.cut_text(rule)}.{clones}",
            )
        )  # fmt: skip
    return tuple(found)


def deployed(context: Context, cut: float) -> Any:
    """Return the model with another cut on its score."""
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection import FixedThresholdClassifier

    model = scoring_model(context.estimator)
    wrapper = FixedThresholdClassifier(
        FrozenEstimator(model), threshold=cut, pos_label=context.positive,
        response_method="decision_function"
        if hasattr(model, "decision_function")
        else "predict_proba",
    )  # fmt: skip
    few = _both(context.wanted)
    return wrapper.fit(context.table.take(few), context.labels[few])


def _both(wanted: BoolArray) -> Any:
    """Return a few rows with both outcomes."""
    return np.sort(np.r_[np.flatnonzero(wanted)[:2], np.flatnonzero(~wanted)[:2]])
