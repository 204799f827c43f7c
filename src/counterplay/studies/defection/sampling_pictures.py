"""The pictures of the study of sampled training."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EPS, DELTA = 0.2, 0.02
LOOK = {
    "everybody": ("-", PALETTE[2], "SafeStep, everybody answers"),
    "cuts": ("-", PALETTE[0], "SafeStep with cuts, 3 of 10 answer"),
    "sample only": ("--", PALETTE[3], "SafeStep on the sample alone"),
    "FedAvg": (":", PALETTE[1], "FedAvg, 3 of 10 answer"),
}


def distances(frame: pd.DataFrame) -> Figure:
    """Digits, ten parties: loss of the worst-off party above its target against the answers used.
    The dashed line is what is promised. The rule on the sample alone stops with a false claim
    (cross); averaging loses everybody and ends far away.
    """
    figure, (ax,) = panels(1, width=6.0)
    for rule, (style, colour, label) in LOOK.items():
        told = _trace(frame, rule)
        rows = np.array(told["rows"])
        worst = rows[:, 1:].max(axis=1) - EPS
        ax.plot(rows[:, 0], worst, style, color=colour, label=label)
        if told["status"] == "converged":
            true = worst[-1] <= 2.0 * DELTA + 1e-3
            ax.plot(rows[-1, 0], worst[-1], "o" if true else "X", color=colour, markersize=9)
    ax.axhline(2.0 * DELTA, **THEORY)
    ax.set(xlabel="answers used", ylabel="worst loss above its target", yscale="log")
    ax.set_title('"converged": circle if true, cross if false')
    ax.legend(fontsize=8)
    return figure


def traces(frame: pd.DataFrame) -> Figure:
    """Loss of every party over the rounds, three of ten asked per round. Left: averaging; a circle
    where a party leaves, and what becomes of its loss afterwards. Right: cuts keep everybody above
    the target (solid line) until all are within twice the margin (dashed).
    """
    figure, axes = panels(2, width=5.0)
    for ax, rule, title in zip(axes, ("FedAvg", "cuts"), ("FedAvg", "SafeStep with cuts")):
        told = _trace(frame, rule)
        _losses(ax, told)
        ax.set(title=title, xlabel="round", ylabel="loss on own rows", yscale="log")
    low, high = 0.08, max(ax.get_ylim()[1] for ax in axes)
    for ax in axes:
        ax.set_ylim(low, high)
    return figure


def _losses(ax: Axes, told: dict[str, Any]) -> None:
    rows = np.array(told["rows"])
    last = max([*told["left"].values(), 1])
    rounds = np.linspace(1, max(told.get("rounds", last), last), len(rows))
    for m in range(rows.shape[1] - 1):
        colour = PALETTE[m % len(PALETTE)]
        ax.plot(rounds, rows[:, 1 + m], color=colour, linewidth=1.0)
        gone = told["left"].get(f"site {m}")
        if gone is not None:
            at = int(np.abs(rounds - gone).argmin())
            ax.plot(rounds[at], rows[at, 1 + m], "o", color=colour, markersize=5)
    ax.axhline(EPS, color="black", linewidth=1.0)
    ax.axhline(EPS + 2.0 * DELTA, **THEORY)


def _trace(frame: pd.DataFrame, rule: str) -> dict[str, Any]:
    some = frame[(frame["task"] == "digits") & (frame["rule"] == rule) & (frame["replicate"] == 0)]
    found: dict[str, Any] = json.loads(some["trace"].iloc[0])
    found["rounds"] = int(some["rounds"].iloc[0])
    return found
