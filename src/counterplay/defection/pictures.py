"""The sets of the story in one picture: targets, their intersection, two ways in.

Source: Figure D.2; docs/theory/05-defection.md, "Setting".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.play import play
from counterplay.defection.federation_game import FederationGame, Server
from counterplay.defection.instances import uniform_fails_family
from counterplay.defection.landing import land
from counterplay.federated.reports import Rule
from counterplay.federated.rules import FedAvg, SafeStep

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def intersection_figure(ax: Axes | None = None) -> Axes:
    """Draw the targets S_0, S_1, their intersection S* and the common optima W*, with two runs.

    SafeStep enters both targets in its last, certified step; equal weights enter S_1 first, agent 1
    leaves, and the run ends outside S*.

    Examples
    --------
    >>> intersection_figure().get_xlabel()
    'w_1'

    References
    ----------
    Figure D.2; docs/theory/05-defection.md, "Setting".
    """
    from matplotlib.patches import Patch

    from counterplay.core.figures import PALETTE, axes_or_new

    ax = axes_or_new(ax, width=6.0, height=4.5)
    c = uniform_fails_family(alpha=0.0, eps=0.3, tau=0.25)
    x, y = np.meshgrid(np.linspace(-1.2, 2.6, 96), np.linspace(-0.6, 1.5, 71))
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    F = np.array([c.problem.losses(w) for w in points]).reshape(*x.shape, 2)
    for m, colour in ((0, PALETTE[4]), (1, PALETTE[5])):
        ax.contourf(x, y, F[..., m] - c.eps[m], levels=[-9.0, 0.0], colors=[colour], alpha=0.35)
    ax.fill([-1.2, 0.0, -0.6, -1.2], [0.0, 0.0, -0.6, -0.6], color="#444444", alpha=0.45)
    rules: tuple[tuple[Rule, float, str, str], ...] = (
        (FedAvg(), 0.02, PALETTE[1], "equal weights: enters S_1 first"),
        (SafeStep(0.004), 0.05, PALETTE[0], "SafeStep, then one landing step"),
    )
    for rule, eta, colour, label in rules:
        run = play(
            Server(rule, c.w0, step_size=eta),
            FederationGame(c.problem, c.eps, keep_every=1),
            rounds=600,
        )
        path = np.vstack([np.asarray(run.models), land(c.problem, run.w, c.eps).w])
        if isinstance(rule, FedAvg):
            path = path[:-1]
        ax.plot(path[:, 0], path[:, 1], color=colour, lw=1.8, label=label)
        ax.plot(path[-1, 0], path[-1, 1], "o", color=colour)
    ax.plot(*c.w0, "k*", markersize=11)
    ax.annotate("start", (2.0, 1.0), textcoords="offset points", xytext=(-6, 8))
    handles, labels = ax.get_legend_handles_labels()
    handles += [Patch(color=PALETTE[4], alpha=0.5), Patch(color=PALETTE[5], alpha=0.5)]
    handles += [Patch(color="#444444", alpha=0.5)]
    labels += ["S_0: agent 0 satisfied", "S_1: agent 1 satisfied", "W*: optimal for both"]
    ax.legend(handles, labels, fontsize=8, loc="lower right")
    ax.set(xlabel="w_1", ylabel="w_2", title="The target S* is the overlap of S_0 and S_1")
    return ax
