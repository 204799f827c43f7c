"""What a live strategic learner has cost so far, against what its theorem promises.

The learners change on mistakes only, so one row per mistake says everything: mistakes against the
bound, copies of the base learner alive, and the total weight that the proof makes fall.

Source: Algorithm B.1, Algorithm 3.1, see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.validation import BoolArray, array_fault, check_int, shorten
from counterplay.errors import InvalidInputError
from counterplay.strategic import bounds
from counterplay.strategic.graphs.red2online import Red2OnlineFI, Red2OnlinePMF
from counterplay.strategic.learner import StrategicLearner
from counterplay.strategic.settings import Feedback

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@checked
class LearnerDashboard(StrategicLearner):
    """Cumulative mistakes against the bound, number of experts and total weight of a learner.

    Use it around the learner of a live system: call :meth:`update` with what was seen of each
    person; it updates the learner on mistakes. It is a learner itself, so ``play`` takes it, too.

    Parameters
    ----------
    learner:
        The ``Red2OnlinePMF`` or ``Red2OnlineFI`` to watch.

    Notes
    -----
    On realizable data the mistakes never exceed :attr:`bound` (Theorem B.3 and
    Theorem 3.4), because at each mistake the total weight falls at least to the promised one
    and never below ``(2(k+1))**-M``. A curve that crosses the bound says that no rule of the class
    is right about everybody.

    Examples
    --------
    Scores 0 to 14, one step up within reach; the true rule accepts who can report 9 or more:

    >>> from counterplay.strategic.lab import GridThreshold
    >>> board = LearnerDashboard(Red2OnlinePMF(GridThreshold(15), k=1))
    >>> for x in [3, 8, 12, 7, 9, 8, 2, 7]:
    ...     reach = [x, min(x + 1, 14)]
    ...     accepted = board.learner.accepts(reach)
    ...     v = reach[1] if accepted[1] and not accepted[0] else x
    ...     wrong = board.update(v, sorted({v, min(v + 1, 14)}), int(x >= 8))
    >>> print(board.summary())
    8 people, 2 mistakes (bound 41.5): 1 accepted wrongly, 1 rejected wrongly
    2 experts, total weight 10^-0.60 (promised at most 10^-0.18)
    """

    on_graph = True

    def __init__(self, learner: Red2OnlineFI | Red2OnlinePMF) -> None:
        if not isinstance(learner, Red2OnlineFI | Red2OnlinePMF):
            raise InvalidInputError(
                f"learner must be a Red2OnlineFI or a Red2OnlinePMF, got {type(learner).__name__}"
            )
        self.learner = learner
        self.needs = learner.needs
        self.k = learner.k if isinstance(learner, Red2OnlinePMF) else 0
        """Most moves per person: what ``Red2OnlinePMF`` was told, else the most seen so far."""
        self.rounds = 0
        self._rows: list[dict[str, Any]] = []
        self._record("start", learner.experts.log_total / math.log(10))

    def __repr__(self) -> str:
        return f"LearnerDashboard({self.mistakes} mistakes in {self.rounds} rounds)"

    @property
    def mistakes(self) -> int:
        """Wrong decisions so far."""
        return len(self._rows) - 1

    @property
    def bound(self) -> float:
        """Most mistakes on realizable data; infinite where the base learner has no bound."""
        M = float(self.learner.learner.mistake_bound)
        if math.isinf(M):
            return math.inf
        if isinstance(self.learner, Red2OnlinePMF):
            return bounds.red2online_pmf_mistakes(M, self.k)
        return bounds.red2online_fi_mistakes(M, self.k)

    def update(self, v: Any, bag: Any, y: int) -> bool:
        """Tell the learner about one person; return whether its decision was wrong.

        Parameters
        ----------
        v:
            Where the person was seen: the reported feature (``Red2OnlineFI``: the original one).
        bag:
            The closed neighbourhood of ``v``, ``v`` included (``Red2OnlinePMF(aggressive=True)``:
            of the original feature).
        y:
            The true label, 0 or 1.
        """
        check_int(y, "y", low=0, high=1)
        if fault := array_fault(v, kinds="biufUO"):
            raise InvalidInputError(f"v must be one node or point: {fault}")
        odd = getattr(bag, "ndim", 1) == 0 or hasattr(bag, "toarray")
        if odd or not hasattr(bag, "__len__"):
            raise InvalidInputError(f"bag must be a list of nodes, got {shorten(bag, 100)}")
        if isinstance(self.learner, Red2OnlinePMF):
            if len(bag) - 1 > self.k:
                raise InvalidInputError(
                    f"the neighbourhood of {v!r} has {len(bag) - 1} moves, but k is {self.k}; "
                    "give Red2OnlinePMF the most moves that anybody has"
                )
            yhat = int(self.learner.accepts(np.asarray([v]))[0])
        else:
            yhat = int(self.learner.decide(bag))
        self.learner.round += 1
        self._tell(Feedback(int(y), yhat, None, v, bag), bag)
        return yhat != y

    def act(self, seen: Any = None) -> BoolArray:
        """The rule of the learner."""
        return self.learner.act(seen)

    def observe(self, feedback: Feedback) -> None:
        """Pass on what was revealed, and record it if it was a mistake."""
        self._tell(feedback, feedback.neighbourhood)

    def _tell(self, feedback: Feedback, bag: Any) -> None:
        self.rounds += 1
        if isinstance(self.learner, Red2OnlineFI):
            self.k = max(self.k, len(bag) - 1)
        if feedback.yhat == feedback.y:
            return
        try:
            if isinstance(self.learner, Red2OnlinePMF):
                self.learner.observe(feedback)
            else:
                self.learner.update(bag, feedback.y)
        finally:  # a mistake that refutes every rule counts, too
            kind = "false negative" if feedback.y else "false positive"
            self._record(kind, self._rows[-1]["log10_promised"] + self._promised_fall(feedback.y))

    def _promised_fall(self, y: int) -> float:
        """How much log10 of the total weight falls at least at a mistake, by the proof."""
        hidden_yes = y == 0 and isinstance(self.learner, Red2OnlinePMF)
        return math.log10(1 - 1 / (4 * (self.k + 1)) if hidden_yes else 3 / 4)

    def _record(self, kind: str, promised: float) -> None:
        self._rows.append(
            {
                "round": self.rounds,
                "kind": kind,
                "mistakes": len(self._rows),
                "experts": len(self.learner.experts),
                "log10_weight": self.learner.experts.log_total / math.log(10),
                "log10_promised": promised,
            }
        )

    def to_frame(self) -> pd.DataFrame:
        """One row at the start and one after each mistake.

        ``log10_weight`` is the total weight of the experts, ``log10_promised`` what the proof says
        it is at most.
        """
        import pandas as pd

        return pd.DataFrame(self._rows)

    def summary(self) -> str:
        """Where the learner stands, as text."""
        row = self._rows[-1]
        limit = "no bound" if math.isinf(self.bound) else f"bound {self.bound:.1f}"
        kinds = [row["kind"] for row in self._rows]
        lines = [
            f"{self.rounds} people, {self.mistakes} mistakes ({limit}): "
            f"{kinds.count('false positive')} accepted wrongly, "
            f"{kinds.count('false negative')} rejected wrongly",
            f"{row['experts']} experts, total weight 10^{row['log10_weight']:.2f} "
            f"(promised at most 10^{row['log10_promised']:.2f})",
        ]
        if self.learner.guarantee_lost:
            lines.append("experts were dropped to stay below max_experts: the bound does not hold")
        return "\n".join(lines)

    def plot(self) -> Figure:
        """Three panels over the people seen: mistakes with the bound, experts, total weight."""
        from matplotlib.ticker import MaxNLocator

        figure, axes = panels(3, width=4.2, height=3.4)
        rows = [*self._rows, {**self._rows[-1], "round": self.rounds}]
        self._steps(axes[0], rows, "mistakes", "mistakes made")
        self._steps(axes[1], rows, "experts", "experts")
        self._steps(axes[2], rows, "log10_weight", "total weight")
        time = [row["round"] for row in rows]
        promised = [row["log10_promised"] for row in rows]
        axes[2].step(time, promised, where="post", label="promised at most", **THEORY)
        if not math.isinf(self.bound):
            axes[0].axhline(self.bound, label=f"bound {self.bound:.1f}", **THEORY)
        axes[0].set_yscale("symlog", linthresh=1)  # the bound is far above what usually happens
        axes[0].set(ylabel="cumulative mistakes", title="Mistakes", ylim=(0, None))
        axes[1].set(ylabel="copies of the base learner", title="Experts", ylim=(0, None))
        axes[1].yaxis.set_major_locator(MaxNLocator(integer=True))
        axes[2].set(ylabel="log10 of the weight", title="Total weight")
        for ax in axes:
            ax.set(xlabel="people seen")
        for ax in (axes[0], axes[2]):
            ax.legend(fontsize=8)
        return figure

    @staticmethod
    def _steps(ax: Axes, rows: list[dict[str, Any]], column: str, label: str) -> None:
        time = [row["round"] for row in rows]
        ax.step(time, [row[column] for row in rows], where="post", color=PALETTE[0], label=label)
