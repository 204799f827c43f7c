"""Pictures: who was played or live, what the watchdog saw, how the harm budget was used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, axes_or_new, figure_style
from counterplay.core.online import Hedge
from counterplay.core.validation import FloatArray
from counterplay.tradeoff.bursts import cusum
from counterplay.tradeoff.metrics import stints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from counterplay.tradeoff.champion_report import ChampionReport
    from counterplay.tradeoff.transcript import LossTranscript


def colour(expert: int) -> str:
    """The colour of an expert, the same in every panel."""
    return PALETTE[expert % len(PALETTE)]


def stacked(n: int, *, width: float = 7.0, height: float = 2.4) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``n`` axes above each other that share the time axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height * n), layout="constrained")
    return figure, list(figure.subplots(n, 1, squeeze=False, sharex=True)[:, 0])


def strip(ax: Axes, path: NDArray[np.integer], experts: int) -> None:
    """Draw which expert was played in every round as bars in one lane per expert."""
    starts, lengths = stints(path)
    for h in range(experts):
        mine = path[starts] == h
        spans = list(zip(starts[mine].tolist(), lengths[mine].tolist()))
        ax.broken_barh(spans, (h - 0.4, 0.8), facecolors=colour(h))
    ax.set_ylim(-0.6, experts - 0.4)
    ax.set_yticks(range(experts) if experts <= 12 else range(0, experts, experts // 8))
    ax.set_ylabel("expert played")


def burn_down(result: LossTranscript, ax: Axes | None = None) -> Axes:
    """Draw the secondary loss above the rate: learner, Hedge, best single expert, bound."""
    rate = result._rate
    rounds = np.arange(1, len(result.l1) + 1)
    with figure_style():
        ax = axes_or_new(ax)
        ax.plot(rounds, np.cumsum(result.secondary - rate), color=PALETTE[0], label="this learner")
        if result.l2 is not None:
            hedge = np.einsum("th,th->t", Hedge().marginals(result.l1), result.l2)
            best = int(result.l1.sum(axis=0).argmin())
            ax.plot(rounds, np.cumsum(hedge - rate), color=PALETTE[1], label="Hedge")
            alone = np.cumsum(result.l2[:, best] - rate)
            ax.plot(rounds, alone, color=PALETTE[2], label=f"expert {best} alone")
        bound = result.guarantees.get("secondary regret")
        if bound is not None and bound < 4 * np.abs(np.cumsum(result.secondary - rate)).max():
            ax.axhline(bound, label="guaranteed", **THEORY)
        ax.axhline(0.0, color="#999999", linewidth=0.8)
        ax.set_xlabel("round")
        ax.set_ylabel(f"secondary loss above\nrate {rate:.3g} (cumulative)")
        ax.legend(fontsize=8)
    return ax


def watchdog(result: LossTranscript, ax: Axes) -> None:
    """Draw every expert's CUSUM since the last reset, the threshold, and shade who was off."""
    assert result.l2 is not None  # the caller checked
    resets = (0,) if result.activity is None else result.activity.resets
    levels = _segment_cusum(result.l2, result._rate, (*resets, len(result.l2)))
    for h in range(levels.shape[1]):
        ax.plot(np.maximum(levels[:, h], 0.0), color=colour(h), linewidth=1.0)
        off = ~result.active[:, h]
        if off.any():
            starts, lengths = stints(off.astype(int))
            for start, length in zip(starts[off[starts]], lengths[off[starts]]):
                ax.axvspan(start, start + length, color=colour(h), alpha=0.12, linewidth=0)
    if result.threshold is not None:
        ax.axhline(result.threshold, label="burst budget", **THEORY)
        ax.legend(fontsize=8, loc="center right")
    ax.set_ylabel("excess over the\nrate (CUSUM)")


def dashboard(result: LossTranscript) -> Figure:
    """Draw the three panels of a run."""
    with figure_style():
        figure, axes = stacked(3 if result.l2 is not None else 2)
        if len(result.paths):
            strip(axes[0], result.paths[0], result.l1.shape[1])
        if result.l2 is not None:
            watchdog(result, axes[1])
        burn_down(result, axes[-1])
    return figure


def _segment_cusum(l2: FloatArray, c: float, edges: tuple[int, ...]) -> FloatArray:
    return np.concatenate([cusum(l2[a:b], c) for a, b in zip(edges, edges[1:])])


def champion_dashboard(report: ChampionReport) -> Figure:
    """Draw the live model over time, both losses, the budget and the bound."""
    with figure_style():
        figure, axes = stacked(3)
        _live_panel(report, axes[0])
        _primary_panel(report, axes[1])
        harm_panel(report, axes[2])
        axes[2].set_xlabel("round")
    return figure


def _live_panel(report: ChampionReport, ax: Axes) -> None:
    starts = np.array([start for start, _ in report.switch_log])
    models = np.array([model for _, model in report.switch_log])
    lengths = np.diff(np.append(starts, max(report.rounds, starts[-1] + 1)))
    for h in range(report.primary.size):
        mine = models == h
        spans = list(zip(starts[mine].tolist(), lengths[mine].tolist()))
        ax.broken_barh(spans, (h - 0.35, 0.7), facecolors=colour(h))
    downs = [(event.off_from, event.expert) for event in report.deactivations]
    if downs:
        rounds, who = zip(*downs)
        ax.plot(rounds, who, "x", color="black", markersize=6, label="taken down")
        ax.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0)
    ax.set_ylim(-0.6, report.primary.size - 0.4)
    if report.primary.size <= 12:
        ax.set_yticks(range(report.primary.size))
    ax.set_ylabel("live model")


def _primary_panel(report: ChampionReport, ax: Axes) -> None:
    if len(report.trace):
        rounds, played, best = report.trace[:, 0], report.trace[:, 1], report.trace[:, 3]
        ax.plot(rounds, played, color=PALETTE[0], label="live model")
        ax.plot(rounds, best, color=PALETTE[2], label="best single model so far")
        ax.legend(fontsize=8, loc="upper left")
    ax.set_ylabel("primary loss\n(cumulative)")


def harm_panel(report: ChampionReport, ax: Axes | None = None) -> Axes:
    """Draw the harm of the live models with the tolerated line and the guaranteed one."""
    with figure_style():
        ax = axes_or_new(ax)
        if len(report.trace):
            rounds, harm, bound = report.trace[:, 0], report.trace[:, 2], report.trace[:, 4]
            tolerated = report.harm_rate * rounds
            ax.plot(rounds, harm, color=PALETTE[1], label="live model")
            ax.plot(rounds, tolerated, color=PALETTE[6], linewidth=1, label="tolerated")
            if np.isfinite(bound).any():  # no line where nobody was left: it guarantees nothing
                guaranteed = np.where(np.isfinite(bound), tolerated + bound, np.nan)
                ax.plot(rounds, guaranteed, label="guaranteed", **THEORY)
            ax.legend(fontsize=8, loc="upper left")
        ax.set_ylabel("harm (cumulative)")
    return ax
