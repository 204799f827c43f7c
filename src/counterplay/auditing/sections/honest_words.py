"""The sentences of the section on honest numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from counterplay.auditing.context import Context
from counterplay.auditing.findings import Finding
from counterplay.auditing.quantity import Quantity, number_text
from counterplay.auditing.sections.seen import SeenTest

PLAIN = ("accept all", "reject all")


@dataclass(frozen=True)
class Words:
    """The sentences of the section."""

    context: Context
    accuracy: Quantity
    money: Quantity
    larger: Quantity
    plain_money: Quantity
    rule: str
    seen: SeenTest | None

    def lead(
        self, inside: Quantity | None, crossed: Quantity | None, given: pd.DataFrame
    ) -> tuple[str, ...]:
        """Return the paragraphs under the heading.

        ``inside`` is the accuracy of a clone that has seen the rows, ``crossed`` of those that
        have not.
        """
        context = self.context
        if self.no_clones:
            return self._in_sample_words(), *self._missing()
        how = (
            "on rows that the judging model had not been fitted on "
            f"({len(context.folds)}-fold, by clones fitted on the other folds)"
            if context.cross_fitted
            else "of the model as it was given"
        )
        if not context.cross_fitted and context.rows != "unknown":
            how += ", on rows that it had not been fitted on"
        text = f"Accuracy {self.accuracy} {how}; larger class {self.larger.value:.3f}."
        if not context.cross_fitted and crossed is not None:
            text += f" Clones fitted on the other folds reach {crossed}."
        if context.cross_fitted and inside is not None:
            text += f" In sample it would look like {inside.value:.3f}."
        if context.cross_fitted and context.given and len(given):
            y = context.wanted[given["row"].to_numpy(dtype=np.int64)]
            own = float((given["accepted"].to_numpy(dtype=bool) == y).mean())
            text += f" The given model itself shows {own:.3f} on these rows."
        money = (
            f"Money {self.money} ({context.money_unit}); best plain rule "
            f"{number_text(self.plain_money.value, self.plain_money.unit)} ({self.rule})."
        )
        return text, money, *self._seen_words(), *self._missing()

    @property
    def no_clones(self) -> bool:
        """Whether there was no time for clones that have not seen the rows."""
        return bool(self.context.notes.get("no clones"))

    def _ratio(self) -> str:
        """Say how the errors compare, where a cut at 0.5 hides it."""
        accept, reject = (
            self.context.setting("costs", k, 1.0) for k in ("false_accept", "false_reject")
        )
        if isinstance(accept, str) or isinstance(reject, str) or min(accept, reject) <= 0:
            return ""
        if accept == reject:
            return ""
        names = ("false accept", "false reject")
        large, small = names if accept > reject else names[::-1]
        times = max(accept, reject) / min(accept, reject)
        return f"A {large} costs {times:g} times a {small}; a cut at 0.5 treats them alike."

    def _why_no_clones(self) -> str:
        if self.context.template is None:
            return f"clones that were not cannot be made ({self.context.no_refit})"
        return "there was no time for clones that were not (give more)"

    def _in_sample_words(self) -> str:
        return (
            f"Accuracy {self.accuracy}, money {self.money} ({self.context.money_unit}): in sample, "
            f"too good. Larger class {self.larger.value:.3f}; best plain rule "
            f"{number_text(self.plain_money.value, self.plain_money.unit)} ({self.rule})."
        )

    def _missing(self) -> tuple[str, ...]:
        gaps = self.context.table.missing if self.context.table.container == "table" else {}
        if not gaps:
            return ()
        most = max(gaps, key=lambda name: gaps[name])
        return (
            f"{sum(gaps.values()):,} cells in {len(gaps)} columns are missing (most in {most}: "
            f"{gaps[most]:,}); no row was dropped, the model deals with them.",
        )

    def _seen_words(self) -> tuple[str, ...]:
        """Say what is known about the rows; what the test found wrong is a finding of its own."""
        context, seen = self.context, self.seen
        if not context.given:
            return ("No model was given: a default was trained, and every number is cross-fitted.",)
        if context.train is not None:
            return ("The training rows are a file of their own.",)
        if context.rows != "unknown":
            return (f"The config says that these are {context.rows} rows.",)
        if seen is None:
            why = context.no_refit or "there was no time for it"
            return (f"Whether the model was fitted on these rows cannot be checked: {why}.",)
        if seen.verdict == "not seen":
            return (
                "The table does not look as if the model had been fitted on it "
                f"(p = {seen.p_value:.2g}); that is no proof, linear models often pass.",
            )
        return ()

    def findings(self) -> list[Finding]:
        """Return what matters: seen rows, the money, the larger class, missing costs."""
        found = [*self._seen_findings(), self._money_finding()]
        if self.no_clones:
            found.insert(
                0,
                Finding(
                    name="in_sample", severity="blocking",
                    sentence=f"The model was fitted on these rows, and {self._why_no_clones()}: "
                    "accuracy and money of this section are too good.",
                ),
            )  # fmt: skip
        if not self.context.priced:
            found.append(
                Finding(
                    name="no_costs", severity="low",
                    sentence="Every error counts the same: set [costs].",
                )
            )  # fmt: skip
        return found

    def _seen_findings(self) -> list[Finding]:
        seen = self.seen
        if seen is None or self.context.rows != "unknown" or seen.verdict == "not seen":
            return []
        n, differ = self.accuracy.n, seen.model_only + seen.clone_only
        half = 1.96 * math.sqrt(max(0.0, differ / n - seen.gap**2) / n)  # paired on the rows
        number = Quantity(
            value=seen.gap, low=seen.gap - half, high=seen.gap + half, unit="share", n=n,
            basis="measured",
        )  # fmt: skip
        facts = (
            f"right where its cross-fitted clone is wrong in {seen.model_only} rows, the reverse "
            f"in {seen.clone_only}; p = {seen.p_value:.1g}, gap {seen.gap:.3f}, rho {seen.rho:.2f}"
        )
        if seen.verdict == "seen":
            text = (
                f"These rows look as if the model was trained on them ({facts}). That is a test, "
                "no proof. The numbers below are those of clones that had not seen the row; set "
                "[data] rows if you know better."
            )
            return [Finding(name="seen_rows", sentence=text, severity="blocking", quantity=number)]
        text = (
            f"Better here than its clone ({facts}): trained on more rows, or partly on these? "
            "Set [data] rows."
        )
        return [Finding(name="seen_question", sentence=text, severity="medium", quantity=number)]

    def _money_finding(self) -> Finding:
        unit = self.context.money_unit
        plain = number_text(self.plain_money.value, unit)
        verb = "accepting" if self.rule == PLAIN[0] else "rejecting"
        worse = self.money.value >= self.plain_money.value
        sentence = (
            f"Used as it is, the model costs {self.money} {unit}; {verb} everybody "
            f"would cost {plain}."
        )
        if worse and (ratio := self._ratio()):
            sentence += f" {ratio}"
        severe: Any = (
            "high" if worse else "good" if self.money.high < self.plain_money.value else "medium"
        )
        return Finding(
            name="as_is_worse_than_plain" if worse else "as_is_money", sentence=sentence,
            severity=severe, quantity=self.money, headline=1,
        )  # fmt: skip
