"""What happened in a federation, round by round and party by party, and a watcher of it.

Source: Algorithm 5.1, see docs/theory/05-defection.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.validation import FloatArray
from counterplay.federated.gauges import (
    MEANING,
    RoundGauge,
    Status,
    counted,
    parallel_sentence,
)
from counterplay.federated.reports import Decision, Reports

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

NAMED = 12  # parties with a name of their own in the picture


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class FederationHistory(Report):
    """The record of a run: who stood where, who left, who was dropped or refused.

    Parameters
    ----------
    rounds :
        One :class:`RoundGauge` per round.
    status :
        How the run ended.
    delta :
        Margin of the rule, for the figure; None if it has none.
    landed :
        Whether a certified last step took every party into its target; None if none was tried.
    notes :
        Sentences about the whole run, shown first.
    w :
        The final model as a vector, where known.
    final :
        Loss of every party at the final model, also of those who left, where they could be asked.
    guarantee :
        What the run promises about who stays: ``"proved (convex)"``, ``"curvature estimated"``,
        ``"updates only: none"``, or why there is nothing to promise.
    set_aside :
        Parties whose answers were refused three times in a row, with the round of the last one.
    remarks :
        Sentences about single parties, shown last.
    buffers :
        Running statistics of the final model, where it has some.

    Examples
    --------
    >>> from counterplay.federated.gauges import PartyGauge
    >>> gauge = PartyGauge("north", 1, loss=0.5, threshold=0.2)
    >>> history = FederationHistory((RoundGauge(1, (gauge,), "running"),), "max_rounds")
    >>> print(history.summary())
    1 round, max_rounds: the last round was reached. Nobody left. Nobody was dropped.
    Largest distance to a target: 0.3 (north).
    >>> history.to_frame()["gap"].tolist()
    [0.3]

    References
    ----------
    "The verdict", see docs/theory/23-training.md.
    """

    rounds: tuple[RoundGauge, ...]
    status: Status
    delta: float | None = None
    landed: bool | None = None
    notes: tuple[str, ...] = ()
    w: FloatArray | None = None
    final: Mapping[str, float] = field(default_factory=dict)
    guarantee: str = "none"
    set_aside: Mapping[str, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    buffers: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def answers(self) -> int:
        """Usable answers that the run took."""
        return sum(len(gauge.present) for gauge in self.rounds)

    @property
    def final_losses(self) -> pd.Series:
        """Loss of every party at the final model; empty where leavers cannot be asked."""
        import pandas as pd

        return pd.Series(dict(self.final), name="loss", dtype=float)

    @property
    def left(self) -> dict[str, int]:
        """The parties that left, with the round in which they said goodbye."""
        return {name: gauge.round for gauge in self.rounds for name in gauge.left}

    @property
    def dropped(self) -> dict[str, list[int]]:
        """The parties that missed rounds, with these rounds."""
        missed: dict[str, list[int]] = {}
        for gauge in self.rounds:
            for name in gauge.dropped:
                missed.setdefault(name, []).append(gauge.round)
        return missed

    @property
    def refused(self) -> dict[str, list[str]]:
        """The parties whose answers could not be used, with the reasons."""
        found: dict[str, list[str]] = {}
        for gauge in self.rounds:
            for name, why in gauge.dropped.items():
                if why != "no reply":
                    found.setdefault(name, []).append(f"round {gauge.round}: {why}")
        return found

    def summary(self) -> str:
        """Return the run in a few sentences; all parties count, also those who left."""
        done = counted(len(self.rounds))
        first = f"{done}, {self.status}: {MEANING[self.status]}."
        left = ", ".join(f"{name} (round {r})" for name, r in self.left.items())
        lost = ", ".join(f"{k} ({counted(len(v))})" for k, v in self.dropped.items())
        first += f" Left: {left}." if left else " Nobody left."
        first += f" Dropped: {lost}." if lost else " Nobody was dropped."
        lines = [*self.notes, first, *self._distances()]
        last = self.rounds[-1] if self.rounds else None
        if last is not None and last.parallel is not None and self.status == "stalled":
            lines.append(parallel_sentence(last.parallel))
        if self.status == "no_usable_answer":
            lines += [f"{name}: {reasons[-1]}." for name, reasons in self.refused.items()]
        for name, r in self.set_aside.items():
            why = self.refused[name][-1].split(": ", 1)[-1] if name in self.refused else ""
            lines.append(f"{name} is set aside since round {r}, not protected ({why}).")
        lines += self.remarks
        if self.guarantee != "none":
            lines.append(f"Nobody leaves: {self.guarantee}.")
        if self.landed is not None:
            how = "into every party's target" if self.landed else "refused, it cannot be certified"
            lines.append(f"Last step: {how}.")
        return "\n".join(lines)

    def _distances(self) -> list[str]:
        """Who is farthest from its target, and of whom that is not known."""
        gaps: dict[str, float] = {}
        since: dict[str, int] = {}
        last = max((g.round for g in self.rounds if g.present), default=0)
        for gauge in self.rounds:
            for p in gauge.present:
                known = self.final.get(p.party)
                gaps[p.party] = p.gap if known is None else known - p.threshold
                since[p.party] = gauge.round
        old = {p: r for p, r in since.items() if r < last and p not in self.final}
        now = {p: gap for p, gap in gaps.items() if p not in old and not math.isnan(gap)}
        lines = []
        if now:
            worst = max(now, key=lambda p: now[p])
            line = f"Largest distance to a target: {now[worst]:.4g} ({worst}"
            line += f", who left in round {self.left[worst]})." if worst in self.left else ")."
            lines.append(line)
        if old:
            who = ", ".join(f"{p} (since round {r})" for p, r in old.items())
            lines.append(f"Unknown at the final model: {who}.")
        if never := [name for name in self.dropped if name not in since]:
            lines.append(f"Never protected, without a usable answer: {', '.join(never)}.")
        return lines

    def to_frame(self) -> pd.DataFrame:
        """Return one row per round and party that was asked."""
        import pandas as pd  # here, because every message of a party starts a process

        columns = ("round", "party", "node", "loss", "threshold", "gap", "predicted", "event")
        return pd.DataFrame(
            [
                (g.round, p.party, p.node, p.loss, p.threshold, p.gap, p.predicted, p.event)
                for g in self.rounds
                for p in g.parties
            ],
            columns=list(columns),
        )

    def rounds_frame(self) -> pd.DataFrame:
        """Return one row per round: mean loss, parties, step, health of the gradients."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "round": g.round,
                    "status": g.status,
                    "case": g.case,
                    "mean_loss": g.mean_loss,
                    "present": len(g.present),
                    "predicted": sum(p.predicted for p in g.present),
                    "left": len(g.left),
                    "dropped": len(g.dropped),
                    "step_length": g.step_length,
                    "sigma_min": g.sigma_min,
                }
                for g in self.rounds
            ]
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw every party's distance to its target over the rounds.

        A cross ends the line of a party that left; dots lead to where the final model puts it, if
        that is known. Of more than twelve parties the twelve that end farthest are named.
        """
        from counterplay.core.figures import axes_or_new, label_of

        ax = axes_or_new(ax, width=7.2)
        frame = self.to_frame()
        lines = list(frame[frame["event"] == ""].groupby("party", sort=False))
        if len(lines) > NAMED:
            lines.sort(key=lambda line: -line[1]["gap"].iloc[-1])
        for i, (name, rows) in enumerate(lines):
            told = label_of(str(name), longest=30)
            told += f", left in round {self.left[name]}" if name in self.left else ""
            look: dict[str, Any] = (
                {"label": told} if i < NAMED else {"color": "#cccccc", "zorder": 1}
            )
            (line,) = ax.plot(rows["round"], rows["gap"], marker=".", **look)
            if name in self.left:
                end, colour = rows.iloc[-1], line.get_color()
                ax.plot(end["round"], end["gap"], "x", color=colour, markersize=9)
                gap = self.final.get(str(name), math.nan) - end["threshold"]
                ax.plot([end["round"], len(self.rounds)], [end["gap"], gap], ":", color=colour)
        ax.axhline(0.0, color="black", linewidth=1.0)
        if self.delta is not None:
            for factor in (1, 2):
                ax.axhline(factor * self.delta, color="black", linestyle="--", linewidth=1.0)
        ax.set_xlabel("round")
        ax.set_ylabel("loss above the party's target")
        if lines:
            title = f"farthest {NAMED} of {len(lines)}" if len(lines) > NAMED else None
            ax.legend(fontsize="small", title=title, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return ax


@dataclass(frozen=True, eq=False)
class RoundEvent:
    """What a watcher sees after the server has decided in a round."""

    round: int
    w: FloatArray
    reports: Reports
    decision: Decision


class HealthGauge:
    """A watcher that keeps the :class:`RoundGauge` of every round and can show it while training.

    Parameters
    ----------
    show : callable, optional
        Called with the gauge of every ``every``-th round, for example ``print``.
    every : int
        How often to read the gauge.

    Examples
    --------
    >>> from counterplay.defection import ADAGD, FederationGame, Server, instances, play
    >>> c, gauge = instances.identical_agents(), HealthGauge()
    >>> server = Server(ADAGD(0.05), c.w0, step_size=0.01, watch=[gauge])
    >>> run = play(server, FederationGame(c.problem, c.eps))
    >>> print(gauge.last.summary())
    stalled: The gradients of agent 0 and agent 1 are closest to parallel, 0 degrees; sigma_min 0
    agent 0: 0.05125 above its target, about to leave
    agent 1: 0.4513 above its target

    References
    ----------
    Propositions 5.C, 5.D and Lemmas D.6, D.7 in docs/theory/05-defection.md.
    """

    def __init__(self, show: Callable[[RoundGauge], object] | None = None, every: int = 1) -> None:
        self.show, self.every = show, every
        self.rounds: list[RoundGauge] = []

    def __call__(self, event: RoundEvent) -> None:
        """Read the gauge for one round."""
        if event.round % self.every and event.decision.status == "running":
            return
        gauge = RoundGauge.of(event.round, event.reports, event.decision)
        self.rounds.append(gauge)
        if self.show is not None:
            self.show(gauge)

    def __repr__(self) -> str:
        return f"HealthGauge(rounds={len(self.rounds)})"

    @property
    def last(self) -> RoundGauge:
        """The latest reading."""
        return self.rounds[-1]

    def history(self) -> FederationHistory:
        """All readings, as a report with a table and a picture."""
        return FederationHistory(tuple(self.rounds), self.last.status if self.rounds else "running")
