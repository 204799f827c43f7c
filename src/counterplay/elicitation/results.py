"""What an elicitation hands back: the recommendation, its certificate, and how it came about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.report import Report, at_most
from counterplay.core.validation import FloatArray
from counterplay.elicitation.comparisons import LoggedAnswer
from counterplay.elicitation.estimators import PreferenceEstimate
from counterplay.errors import ProtocolError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Contradiction:
    """Answers that no preference explains together, and which of them were set aside."""

    conflict: tuple[int, ...]
    """Numbers of the answers in a smallest contradicting set."""
    set_aside: tuple[int, ...]
    """Numbers of the answers that are ignored from then on."""
    changed: tuple[int, ...] = ()
    """Numbers of the answers that the person changed when asked again."""
    restored: tuple[int, ...] = ()
    """Numbers of answers set aside before that count again."""

    def __str__(self) -> str:
        outcome = [
            f"{_numbers(numbers)} {verb}"
            for numbers, verb in (
                (self.set_aside, "set aside"),
                (self.changed, "changed"),
                (self.restored, "counted again"),
            )
            if numbers
        ]
        return f"answers {_numbers(self.conflict)} exclude each other; {', '.join(outcome)}"


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class ElicitationResult(Report):
    """The recommended option with its certificate.

    ``regret_certificate`` bounds the regret as a fraction of the best possible value for this
    person: it holds for every preference that explains the answers.

    Examples
    --------
    >>> from counterplay.elicitation import LinearPreferenceUser, PolytopeElicitor, answered_by
    >>> user = LinearPreferenceUser([1.0, 1.0], eps=0.01)
    >>> session = PolytopeElicitor([[1.0, 0.0], [0.7, 0.7], [0.0, 1.0]], random_state=0)
    >>> result = answered_by(session, user)
    >>> result.index, result.regret_certificate
    (1, 0.0)
    """

    item: Any
    value: FloatArray
    regret_certificate: float
    n_queries: int
    method: str
    label: str
    objective_names: tuple[str, ...]
    answers: tuple[LoggedAnswer, ...] = ()
    weights: FloatArray | None = None
    """Implied weights that sum to 1, where the answers determine them."""
    weight_ranges: FloatArray | None = None
    """Smallest and largest weight (k, 2) of each objective over all consistent preferences."""
    estimate: PreferenceEstimate | None = None
    single_values: FloatArray | None = None
    """Values of the best options of the single objectives, for comparison."""
    contradictions: tuple[Contradiction, ...] = ()
    notes: tuple[str, ...] = field(default=())
    row: Any = None
    """Index of the recommended row in the user's table; ``index`` is its position."""

    @property
    def policy(self) -> Any:
        """The recommended policy, for decision processes."""
        return self.item

    @property
    def index(self) -> int:
        """Position of the recommended row, for catalogues and tables."""
        if not isinstance(self.item, int | np.integer):
            raise ProtocolError("the recommended item has no row number; read result.item")
        return int(self.item)

    def summary(self) -> str:
        """Return the recommendation in a few lines of plain words."""
        lines = [
            f"recommended after {self.n_queries} questions: {self.label}",
            f"certificate: at most {at_most(self.regret_certificate)} below the best possible "
            f"{self._condition()}",
        ]
        if self.weights is not None:
            lines.append(f"implied weights: {self._told_weights(self.weights)}")
        lines += [f"contradiction: {contradiction}" for contradiction in self.contradictions]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _condition(self) -> str:
        """What the certificate rests on: people slip, and answers may have been set aside."""
        aside: set[int] = set()
        for contradiction in self.contradictions:
            aside |= set(contradiction.set_aside)
            aside -= set(contradiction.restored)
        n = len(self.answers)
        if aside:
            return (
                "for every preference that explains the answers that were kept "
                f"({n - len(aside)} of {n})"
            )
        return "if every answer is right"

    def _told_weights(self, weights: FloatArray) -> str:
        told = [f"{name} {w:.2f}" for name, w in zip(self.objective_names, weights)]
        if self.weight_ranges is not None:
            told = [
                f"{text} ({low:.2f} to {high:.2f})"
                for text, (low, high) in zip(told, self.weight_ranges)
            ]
        return ", ".join(told)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per answered question."""
        import pandas as pd

        records = [
            {
                "purpose": a.purpose,
                "first": a.first.tolist(),
                "second": a.second.tolist(),
                "answer": a.answer.value,
            }
            for a in self.answers
        ]
        frame = pd.DataFrame(records, columns=["purpose", "first", "second", "answer"])
        frame.index.name = "question"
        return frame

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the recommended value vector beside the best options of the single objectives."""
        with figure_style():
            axes = axes_or_new(ax)
            positions = np.arange(self.value.size)
            if self.single_values is not None:
                for j, row in enumerate(self.single_values):
                    label = f"best for {self.objective_names[j]}"
                    color = PALETTE[(j + 1) % len(PALETTE)]
                    axes.plot(positions, row, color=color, alpha=0.5, lw=1.2, label=label)
            axes.plot(positions, self.value, "o-", color=PALETTE[0], lw=2.5, label="recommended")
            axes.set_xticks(positions, list(self.objective_names), rotation=15)
            axes.set_ylabel("value (normalised)")
            axes.set_ylim(bottom=0)
            axes.legend(fontsize=8)
        return axes


def _numbers(answers: tuple[int, ...]) -> str:
    return ", ".join(str(i + 1) for i in answers) if answers else "none"
