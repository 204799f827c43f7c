"""What happened in a strategic game: labels, decisions, who moved, how many rules remain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, THEORY, axes_or_new, figure_style
from counterplay.core.transcript import Transcript
from counterplay.core.validation import IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@checked
@dataclass(frozen=True)
class StrategicTranscript(Transcript):
    """Rounds of a strategic game.

    Applicants: columns ``y``, ``yhat``, ``mistake``, ``moved`` and, for learners with a version
    space, ``alive`` (rules left after the round; -1 otherwise). On a manipulation graph: the nodes
    ``x`` and ``report``, ``yhat`` and ``y``.

    Examples
    --------
    >>> from counterplay.strategic import StrategicHalving, instances, play
    >>> instance = instances.threshold_line(8)
    >>> game = play(StrategicHalving(instance.hypotheses), instance.adversary())
    >>> game.mistakes
    3
    >>> game.version_space_sizes
    array([4, 2, 1])
    """

    @property
    def mistakes(self) -> int:
        """Number of wrong decisions."""
        return int(np.count_nonzero(self["yhat"] != self["y"]))

    @property
    def mistake_rounds(self) -> IntArray:
        """Rounds with a wrong decision, counted from 0."""
        return np.flatnonzero(self["yhat"] != self["y"]).astype(np.int64)

    @property
    def false_positives(self) -> int:
        """Accepted agents with label 0."""
        return int(np.sum((self["yhat"] == 1) & (self["y"] == 0)))

    @property
    def false_negatives(self) -> int:
        """Rejected agents with label 1."""
        return int(np.sum((self["yhat"] == 0) & (self["y"] == 1)))

    @property
    def version_space_sizes(self) -> IntArray:
        """Number of rules left after each round."""
        return self["alive"]

    def summary(self) -> str:
        """Return one line: who played, where, and how many mistakes were made."""
        text = (
            f"{self.meta.get('learner', 'learner')} in setting {self.meta.get('setting', '?')}: "
            f"{self.mistakes} mistakes in {len(self)} rounds ({self.false_positives} accepted, "
            f"{self.false_negatives} rejected wrongly"
        )
        if self.meta.get("bound") is not None:
            text += f"; guarantee: at most {self.meta['bound']:.4g}"
            text += " in expectation" if self.meta.get("bound_in_expectation") else ""
        text += ")"
        if "alive" in self.columns and len(self) and self["alive"][-1] >= 0:
            text += f", {int(self['alive'][-1])} of {self.meta.get('rules', '?')} rules left"
        return text

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw mistakes so far against the guarantee, over the rounds."""
        with figure_style():
            ax = axes_or_new(ax)
            rounds = np.arange(1, len(self) + 1)
            wrong = np.cumsum(self["yhat"] != self["y"])
            ax.step(rounds, wrong, where="post", color=PALETTE[0])
            if self.meta.get("bound") is not None:
                ax.axhline(float(self.meta["bound"]), label="guarantee", **THEORY)
                ax.legend()
            ax.set_xlabel("round")
            ax.set_ylabel("mistakes so far")
            ax.set_title(f"{self.meta.get('learner', '')}, {self.meta.get('setting', '')}")
        return ax


def join_transcripts(parts: Sequence[StrategicTranscript]) -> StrategicTranscript:
    """Return the transcript of a game that was played in several parts."""
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0].columns}
    return StrategicTranscript(columns, parts[-1].meta)
