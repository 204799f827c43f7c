"""What a questionnaire with people who slip hands back: three numbers, each with its condition.

Source: docs/theory/26-people.md, "Three stops".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, THEORY, axes_or_new, figure_style
from counterplay.core.report import Report, at_least, at_most
from counterplay.core.stats import clopper_pearson
from counterplay.core.validation import FloatArray
from counterplay.elicitation.choice_log import ChoiceAnswer

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@checked
@dataclass(frozen=True)
class ErrorsTested:
    """What questions that were asked twice say about the share of wrong answers.

    Examples
    --------
    >>> tested = ErrorsTested.of([False] * 9 + [True], rate=0.1, alpha=0.05, empty=False)
    >>> tested.n, tested.disagreements, tested.refuted
    (10, 1, False)
    >>> [round(end, 3) for end in tested.interval]
    [0.001, 0.334]
    """

    n: int
    """Questions asked twice, and answered."""
    disagreements: int
    interval: tuple[float, float]
    """Share of wrong answers if it is constant and slips are independent, at the confidence."""
    e_value: float
    """Evidence of the repeats against the bound."""
    refuted: bool
    """Whether no preference explains the answers within the bound, or the repeats refute it."""

    @classmethod
    def of(cls, differ: list[bool], rate: float | None, alpha: float, empty: bool) -> ErrorsTested:
        """Return the test of repeats against a bound on wrong answers (None: no bound)."""
        n, count = len(differ), sum(differ)
        low, high = 0.0, 0.5
        if n:
            found = clopper_pearson(count, n, 1.0 - alpha)
            low, high = _slip(found.low), _slip(found.high)
        e_value = 1.0
        if rate is not None and rate > 0:
            d = 2 * rate * (1 - rate)
            e_value = math.prod(0.5 / d if changed else 0.5 / (1 - d) for changed in differ)
        return cls(n, count, (low, high), e_value, empty or e_value >= 1.0 / alpha)


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class ReliableResult(Report):
    """The recommended item with what is certain about it, under which condition.

    Examples
    --------
    >>> from counterplay.elicitation import LinearPreferenceUser, ReliableElicitor, answered_by
    >>> table = np.random.default_rng(0).random((40, 2))
    >>> session = ReliableElicitor(table, target_regret=0.1, random_state=0)
    >>> result = answered_by(session, LinearPreferenceUser([2.0, 1.0], eps=1e-9))
    >>> bool(result.regret_certificate <= 0.1), result.confidence
    (True, 0.95)
    """

    row: int
    """Position of the recommended item in the caller's table."""
    label: str
    regret_certificate: float | None
    """Largest regret that is left, at the confidence and under the condition; None if void."""
    confidence: float
    condition: str
    """What the certificate assumes about wrong answers."""
    credible_regret: float
    """Posterior quantile of the regret: holds if prior and answer model are right."""
    if_every_answer_is_right: float | None
    """Largest regret over the preferences that explain every answer; None if none does."""
    errors_tested: ErrorsTested
    expected_regret: float
    """Posterior mean of the regret."""
    weights: pd.DataFrame = field(repr=False)
    """Posterior mean of each weight, with a 90 % band."""
    answers: tuple[ChoiceAnswer, ...] = field(repr=False)
    cannot_say: int
    """Questions that were asked but not answered."""
    finished: bool
    notes: tuple[str, ...] = ()
    item: int = -1
    """Position of the recommended item among those that could be chosen."""
    described: str = ""
    regret_kind: str = "below the best possible"

    def __call__(self) -> ReliableResult:
        """Return the result itself, so that ``session.result()`` reads like any other session's."""
        return self

    @property
    def index(self) -> int:
        """Position of the recommended item among those that could be chosen."""
        return self.item

    @property
    def n_queries(self) -> int:
        """Number of questions asked."""
        return sum(entry.kind != "volunteered" for entry in self.answers)

    def summary(self) -> str:
        """Return the recommendation and its three numbers, each with its condition."""
        n, tested = self.n_queries, self.errors_tested
        asked = f"{n} question{'' if n == 1 else 's'}, {self.cannot_say} of them 'cannot say'"
        lines = [f"recommended after {asked}: {self.described or self.label}"]
        if self.regret_certificate is None:
            lines.append("no certificate; see the notes")
        else:
            lines.append(
                f"with {at_least(self.confidence)} confidence at most "
                f"{at_most(self.regret_certificate)} {self.regret_kind}, {self.condition} "
                "(any pattern of errors, any taste)"
            )
        lines.append(
            f"{at_most(self.credible_regret)} with posterior probability "
            f"{at_least(self.confidence)}, if the prior and the model of errors are right"
        )
        if self.if_every_answer_is_right is not None:
            lines.append(f"{at_most(self.if_every_answer_is_right)} if every answer is right")
        else:
            ranged = self.regret_kind.endswith("worst")
            why = "not computed where signs are unknown" if ranged else "no preference explains all"
            lines.append(f"if every answer is right: {why}")
        if tested.n:
            lines.append(
                f"asked again: {tested.n}, answered differently: {tested.disagreements}; share of "
                f"wrong answers {100 * tested.interval[0]:.3g} to {100 * tested.interval[1]:.3g} % "
                "if slips are constant and independent"
            )
        mean = ", ".join(f"{name} {row['mean']:.2f}" for name, row in self.weights.iterrows())
        lines.append(f"weights: {mean}")
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per answer."""
        import pandas as pd

        records = [
            {
                "kind": entry.kind,
                "shown": [*entry.rows],
                "said": entry.said,
                "chosen": _chosen(entry),
                "repeats": entry.repeats,
            }
            for entry in self.answers
        ]
        frame = pd.DataFrame(records, columns=["kind", "shown", "said", "chosen", "repeats"])
        frame.index.name = "question"
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Return text, numbers and rows as plain values; infinite and missing ones are None."""
        from counterplay.core.report import plain

        tested = self.errors_tested
        numbers = {
            "row": self.row,
            "label": self.label,
            "regret_certificate": self.regret_certificate,
            "confidence": self.confidence,
            "condition": self.condition,
            "credible_regret": self.credible_regret,
            "if_every_answer_is_right": self.if_every_answer_is_right,
            "expected_regret": self.expected_regret,
            "errors_tested": tested,
            "questions": self.n_queries,
            "cannot_say": self.cannot_say,
            "finished": self.finished,
            "weights": self.weights.to_dict("index"),
            "notes": list(self.notes),
        }
        found: dict[str, Any] = plain({**super().to_dict(), **numbers})
        return found

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the posterior weights with their 90 % bands."""
        with figure_style():
            axes = axes_or_new(ax)
            at = np.arange(len(self.weights))
            mean: FloatArray = self.weights["mean"].to_numpy()
            low, high = self.weights["low"].to_numpy(), self.weights["high"].to_numpy()
            axes.errorbar(at, mean, yerr=[mean - low, high - mean], fmt="o", color=PALETTE[0],
                          capsize=3, label="posterior mean, 90 % band")  # fmt: skip
            axes.axhline(0.0, **{**THEORY, "lw": 0.8})
            axes.set_xticks(at, list(self.weights.index), rotation=15)
            axes.set_ylabel("weight (share of 1)")
            axes.legend(fontsize=8)
        return axes


def _slip(differ: float) -> float:
    """The share of wrong answers at which repeats differ this often: the smaller root."""
    return 0.5 * (1.0 - math.sqrt(max(0.0, 1.0 - 2.0 * min(differ, 0.5))))


def _chosen(entry: ChoiceAnswer) -> Any:
    if entry.said != "choice":
        return None
    names = entry.rows or tuple(range(len(entry.values)))
    return names[entry.order[0]] if len(entry.order) == 1 else [names[i] for i in entry.order]
