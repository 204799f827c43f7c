"""The dashboard of ``ChampionChallenger``: live model, primary loss, harm with budget and bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, axes_or_new, figure_style
from counterplay.tradeoff.pictures import colour, stacked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from counterplay.tradeoff.champion_report import ChampionReport


def dashboard(report: ChampionReport) -> Figure:
    """Draw the three panels."""
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
