"""Pictures of the planar learner: the search at work, and the chords of the proof."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.validation import FloatArray
from counterplay.poisoning import attackable_rate
from counterplay.poisoning.dyadic import candidates, consistent_arc
from counterplay.poisoning.lab import DyadicDirectionLearner, DyadicPathAttacker
from counterplay.studies.poisoning.plane_problems import disc_problem

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def picture(frame: pd.DataFrame) -> Figure:
    """The dyadic learner at work: training rows, arc of consistent directions, dyadic candidates
    (dashed, on the way to the target's direction), points that could be flipped (shaded), and one
    winning poison of at most four correct rows (stars) against the circled point."""
    rng = np.random.default_rng(11)
    target, S, _ = disc_problem(14, 0.1, 1, rng)
    learner = DyadicDirectionLearner().fit(S.X, S.y)
    lattice = np.stack(np.meshgrid(*[np.linspace(-1, 1, 301)] * 2), axis=-1).reshape(-1, 2)
    lattice = lattice[np.hypot(*lattice.T) <= 1]
    region = lattice[learner.upper_region(target, lattice)]
    order = rng.permutation(len(region))[:400]
    report = attackable_rate(learner, target, S, region[order], [DyadicPathAttacker()])
    hit = next((i for i in report.exposed()), None)
    figure, (ax,) = panels(1, width=6.2, height=5.6)
    turn = np.linspace(0, 2 * np.pi, 200)
    ax.plot(np.cos(turn), np.sin(turn), color="#999999", linewidth=1)
    ax.scatter(region[:, 0], region[:, 1], s=3, color=PALETTE[5], alpha=0.25, linewidth=0)
    ax.scatter([], [], s=50, color=PALETTE[5], label="could be flipped")
    for label, marker, color in ((1, "o", PALETTE[0]), (0, "s", PALETTE[1])):
        ax.scatter(
            S.X[S.y == label, 0],
            S.X[S.y == label, 1],
            marker=marker,
            color=color,
            s=40,
            label=f"label {label}",
        )
    arc = consistent_arc(learner.positive_, learner.negative_)
    sweep = np.linspace(arc.low, arc.low + arc.width, 50)
    ax.plot(1.07 * np.cos(sweep), 1.07 * np.sin(sweep), color=PALETTE[2], linewidth=5,
            label="consistent directions")  # fmt: skip
    for i, c in enumerate(candidates(target)):
        if i > 7:
            break
        ax.plot([0, 1.2 * np.cos(c.beta)], [0, 1.2 * np.sin(c.beta)], **THEORY | {"linewidth": 0.8})
    w = target.w
    ends = -target.b * w + np.outer([-1, 1], np.sqrt(1 - target.b**2) * np.array([-w[1], w[0]]))
    ax.plot(*ends.T, color="black", linewidth=2, label="target boundary")
    poison = None if hit is None else report.poison[hit]
    if hit is not None and poison is not None:
        x0 = region[order][hit]
        ax.plot(x0[0], x0[1], "o", markersize=13, markerfacecolor="none", color="black")
        ax.scatter(
            poison.X[:, 0],
            poison.X[:, 1],
            marker="*",
            s=130,
            color=PALETTE[3],
            zorder=5,
            label="poison",
        )
    ax.set_aspect("equal")
    ax.set(xlabel="x1", ylabel="x2", xlim=(-1.3, 2.1))
    ax.legend(fontsize=8, loc="center right")
    return figure


def chords(frame: pd.DataFrame) -> Figure:
    """The picture of the proof (Figure I.2): the target's boundary meets the unit circle in q1 and
    q2, the learned one in p1 and p2, on one side of it. If p2 left the strip around the target's
    boundary (shaded), the line h' through q1 and p2 would be consistent, too, and its direction
    would differ by more than the width of the search interval: so deep in the search the learned
    boundary lies inside the strip."""
    beta, b, z = 1.2, 0.15, 0.3
    target, learned = _chord(beta, b), _chord(1.35, -0.25)
    (q1, q2), (p1, p2) = target, learned
    figure, (ax,) = panels(1, width=6.4, height=4.8)
    turn = np.linspace(0, 2 * np.pi, 300)
    ax.plot(np.cos(turn), np.sin(turn), color="#999999", linewidth=1)
    high, low = _chord(beta, b - z), _chord(beta, b + z)
    strip = np.vstack([_arc(low[0], high[0]), _arc(high[1], low[1])])
    ax.fill(*strip.T, color=PALETTE[5], alpha=0.25, linewidth=0, label="strip A_z around it")
    for chord, style, name in (
        (target, {"color": "black", "linewidth": 2}, "target's boundary"),
        (learned, {"color": PALETTE[0], "linewidth": 2}, "learned boundary"),
        (np.vstack([q1, p2]), THEORY, "h' through q1 and p2"),
    ):
        ax.plot(*chord.T, label=name, **style)
    for point, name in ((q1, "q1"), (q2, "q2"), (p1, "p1"), (p2, "p2")):
        ax.plot(*point, "o", color="black", markersize=5)
        ax.annotate(name, (1.1 * point[0], 1.1 * point[1]), ha="center", va="center")
    foot = -b * np.array([np.cos(beta), np.sin(beta)]) - 0.45 * (q2 - q1) / 2
    tip = foot + 0.55 * np.array([np.cos(beta), np.sin(beta)])
    ax.annotate("", (tip[0], tip[1]), xytext=(foot[0], foot[1]),
                arrowprops={"arrowstyle": "->"})  # fmt: skip
    ax.annotate("label 1", (tip[0], tip[1] + 0.07), ha="center")
    ax.set_aspect("equal")
    ax.set(xlabel="x1", ylabel="x2", xlim=(-1.25, 2.4), ylim=(-1.2, 1.2))
    ax.legend(fontsize=8, loc="center right")
    return figure


def _chord(beta: float, b: float) -> FloatArray:
    """Ends of the boundary <(cos, sin), x> + b = 0 on the unit circle, left end first."""
    u = np.array([np.cos(beta), np.sin(beta)])
    along = np.array([u[1], -u[0]])
    half = np.sqrt(1 - b**2)
    return np.vstack([-b * u - half * along, -b * u + half * along])


def _arc(start: FloatArray, stop: FloatArray) -> FloatArray:
    """The short arc of the unit circle between two of its points."""
    low = np.arctan2(start[1], start[0])
    turn = (np.arctan2(stop[1], stop[0]) - low + np.pi) % (2 * np.pi) - np.pi
    angles = low + turn * np.linspace(0, 1, 40)
    return np.column_stack([np.cos(angles), np.sin(angles)])
