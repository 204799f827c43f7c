"""What a coordinator reads: where the campaign stands, who worked how much, what came out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.validation import BoolArray, FloatArray
from counterplay.labeling.certificate import LabelCertificate

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Finished = Literal["open", "own", "joint", "left"]


@checked
@dataclass(frozen=True)
class PartyWork:
    """The account of one party.

    Attributes
    ----------
    party:
        Its name.
    asked:
        Questions put to it, answered or open.
    alone_at_least:
        What its own protocol would surely have asked alone by now.
    free:
        Answers of others that its own protocol used.
    outside_core:
        Questions that its own protocol would not surely have asked.
    retracted:
        Answers that are void after a retraction; the guarantee is weaker by this number.
    finished_by:
        "joint" or "own" certificate, "open", or "left".
    expected_saving:
        Estimate of the questions saved in the end, where it was asked for.
    """

    party: str
    asked: int
    alone_at_least: int
    free: int
    outside_core: int
    retracted: int
    finished_by: Finished
    expected_saving: float | None = None

    @property
    def saved_at_least(self) -> int:
        """Questions that are surely saved so far."""
        return self.alone_at_least + self.retracted - self.asked


@checked
@dataclass(frozen=True)
class WorkReport(Report):
    """Who worked how much, against what each would surely have done alone.

    Attributes
    ----------
    parties:
        One account each.
    solo:
        What "alone" means here: the parties' own protocols.
    stake:
        Questions outside the core that were agreed on.
    """

    parties: tuple[PartyWork, ...]
    solo: str
    stake: int = 0

    def summary(self) -> str:
        """One line per party."""
        lines = [f"alone means: {self.solo}"]
        for p in self.parties:
            text = (
                f"{p.party}: {p.asked} questions; alone at least {p.alone_at_least}, saved at "
                f"least {p.saved_at_least} ({p.finished_by})"
            )
            if p.retracted:
                answers = "1 answer is" if p.retracted == 1 else f"{p.retracted} answers are"
                text += f"; {answers} void after a retraction, on top of what it needs alone"
            if p.expected_saving is not None:
                text += f"; estimated saving {p.expected_saving:.0f}"
            lines.append(text)
        if len(self.parties) == 1:
            lines.append("one party: together is alone")
        if self.stake:
            lines.append(f"agreed: up to {self.stake} questions more than alone")
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per party."""
        import pandas as pd

        rows = [{**vars(p), "saved_at_least": p.saved_at_least} for p in self.parties]
        return pd.DataFrame(rows).set_index("party")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars per party: asked, and at least needed alone."""
        from counterplay.core.figures import axes_or_new

        axes = axes_or_new(ax)
        places = np.arange(len(self.parties))
        axes.bar(places - 0.2, [p.asked for p in self.parties], 0.4, label="asked")
        least = [p.alone_at_least for p in self.parties]
        axes.bar(places + 0.2, least, 0.4, label="alone, at least", color="0.7")
        axes.set_xticks(places, [p.party for p in self.parties])
        axes.set(ylabel="questions")
        axes.legend()
        return axes


@checked
@dataclass(frozen=True)
class CampaignStatus(Report):
    """Where a campaign stands.

    It does not say which questions were checks, nor how many so far: labelers who knew would answer
    them with more care.

    Attributes
    ----------
    finished:
        Whether nothing is left to ask.
    round:
        Rounds so far.
    open:
        Questions that wait for an answer, by party.
    answered:
        Answers so far, by party.
    state:
        How each party stands: "open", "joint", "own" or "left".
    """

    finished: bool
    round: int
    open: dict[str, int]
    answered: dict[str, int]
    state: dict[str, Finished]

    def summary(self) -> str:
        """One line per party."""
        head = "finished" if self.finished else f"round {self.round + 1}"
        words = {"own": "done, own certificate", "joint": "done, joint certificate",
                 "left": "has left", "open": "working"}  # fmt: skip
        lines = [
            f"{name}: {self.answered[name]} answered, {self.open[name]} open, {words[state]}"
            for name, state in self.state.items()
        ]
        return "\n".join([head, *lines])

    def to_frame(self) -> pd.DataFrame:
        """One row per party."""
        import pandas as pd

        table = {"answered": self.answered, "open": self.open, "state": self.state}
        return pd.DataFrame(table).rename_axis("party")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars per party: answered, and open on top."""
        from counterplay.core.figures import axes_or_new

        axes, places = axes_or_new(ax), np.arange(len(self.state))
        answered = list(self.answered.values())
        axes.bar(places, answered, 0.6, label="answered")
        axes.bar(places, list(self.open.values()), 0.6, bottom=answered, label="open")
        axes.set_xticks(places, list(self.state))
        axes.set(ylabel="questions")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.15), ncols=2)
        return axes


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class CampaignResult(Report):
    """The labels, where they come from, and what is certain about them.

    Attributes
    ----------
    labels:
        One per item; None where nothing is known yet.
    score:
        How sure the model is; 1 only where a person answered and answers are taken as right.
    source:
        "person", "check" (adjudicated), "known" or "model"; empty where there is no label.
    answers:
        Number of answers about each item.
    disputed:
        Items whose label differs from some answer about them.
    certificates:
        What can be signed, by party, "all parties", "remaining parties" or "later parties".
    withdrawn:
        Items that were taken out, with the reason.
    index:
        Names of the items.
    notes:
        What a reader must know about the certificates.
    """

    labels: NDArray[Any]
    score: FloatArray
    source: tuple[str, ...]
    answers: NDArray[np.int64]
    is_disputed: BoolArray
    certificates: dict[str, LabelCertificate]
    withdrawn: dict[int, str]
    index: Any
    notes: tuple[str, ...] = field(default=())

    @property
    def disputed(self) -> tuple[int, ...]:
        """Items whose label differs from some answer about them."""
        return tuple(np.flatnonzero(self.is_disputed).tolist())

    def summary(self) -> str:
        """What can be signed, and what it rests on."""
        people = sum(s in ("person", "check") for s in self.source)
        lines = [f"{len(self.labels)} items, {people} labelled by people"]
        lines += [str(c) for c in self.certificates.values()]
        if not self.certificates:
            lines.append("nothing can be signed yet")
        lines += self.notes
        if self.disputed:
            lines.append(f"{len(self.disputed)} labels differ from an answer: see disputed")
        if self.withdrawn:
            lines.append(f"{len(self.withdrawn)} items were withdrawn and are not covered")
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per item: label, score, source, number of answers, whether disputed."""
        import pandas as pd

        return pd.DataFrame(
            {
                "label": self.labels,
                "score": self.score,
                "source": self.source,
                "answers": self.answers,
                "disputed": self.is_disputed,
            },
            index=self.index,
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """What can be signed: the bound of every certificate beside the share to be shown."""
        from counterplay.core.figures import THEORY, axes_or_new

        axes, found = axes_or_new(ax), list(self.certificates.values())
        axes.barh(range(len(found)), [100 * c.bound for c in found], 0.5, label="at most")
        for place, c in enumerate(found):
            told = f" {c.checked} checked, {c.wrong} wrong"
            axes.annotate(told, (0, place), va="center", color="white", fontsize=9)
        for share in sorted({c.max_error for c in found}):
            axes.axvline(100 * share, label=f"to be shown: {100 * share:g} %", **THEORY)
        axes.set_yticks(range(len(found)), [c.scope for c in found])
        axes.set(xlabel="wrong labels (%)", xlim=(0, None))
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.15), ncols=2)
        return axes
