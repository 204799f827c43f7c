"""Knowing the group helps.

Source: docs/theory/11-invariance.md, "Theorem 11.3: knowing the group helps".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import mean_interval
from counterplay.studies.invariance.common import EPS, integer, plain_ticks
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def helps_grid(scale: Scale) -> Sequence[Params]:
    """Sample sizes and replicates."""
    sizes, replicates = ((5, 20, 80), 8) if scale == "quick" else ((2, 5, 10, 20, 40, 80, 160), 40)
    return [{"m": m, "replicate": r} for m in sizes for r in range(replicates)]


def helps_cell(params: Params, seed: int) -> Record:
    """Mean errors of ERM and augmentation over random groups."""
    from counterplay.invariance import instances
    from counterplay.invariance.lab import DA, ERM

    rng = np.random.default_rng(seed)
    erm: list[float] = []
    da: list[float] = []
    for _ in range(50):
        case = instances.da_helps(21, EPS, random_state=rng)
        X, y = case.distribution.sample(integer(params, "m"), rng)
        for kind, out in ((ERM, erm), (DA, da)):
            learner = kind(case.problem, case.group, tie="random", random_state=rng)
            out.append(case.distribution.error_of(learner.fit(X, y)))
    return {"erm": float(np.mean(erm)), "da": float(np.mean(da))}


def helps_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """ERM on its formula, augmentation far below."""
    from counterplay.invariance import bounds

    part = frame[frame["m"] == 20]
    exact, interval = bounds.blind_error(21, EPS, 20), mean_interval(part["erm"], 0.9999)
    ratio = float(part["erm"].mean() / part["da"].mean())
    return [
        Verdict("11.08", "ERM, blind to the group, has error 8 eps (1 - 16 eps/(d-1))^m.",
                str(interval), f"{exact:.4f}", exact in interval),
        Verdict("11.08", "Augmentation is more than five times better at m = 20.",
                f"{ratio:.1f} times", "> 5", ratio > 5),
    ]  # fmt: skip


def helps_figure(frame: pd.DataFrame) -> Figure:
    """All labelings of 21 points, but three orbits: augmentation learns from a few samples what
    ERM learns point by point (dashed: exact).
    """
    from counterplay.invariance import bounds

    figure, (ax,) = panels(1)
    for name, label, colour in (("erm", "ERM", PALETTE[0]), ("da", "augmentation", PALETTE[1])):
        groups = frame.groupby("m")[name]
        ax.errorbar(groups.mean().index, groups.mean(), 2 * groups.sem(), fmt="o", capsize=3,
                    color=colour, label=label)  # fmt: skip
    grid = np.geomspace(2, frame["m"].max(), 40).astype(int)
    # The formula is about the light points; the heavy one is unseen with chance (16 eps)^m.
    heavy = (1 - 16 * EPS) / 2 * (16 * EPS) ** grid.astype(float)
    light = np.array([bounds.blind_error(21, EPS, int(m)) for m in grid])
    ax.plot(grid, light + heavy, label="exact, blind", **THEORY)
    ax.set(xscale="log", xlabel="number of samples", ylabel="error", ylim=(-0.003, None))
    plain_ticks(ax, (2, 5, 10, 20, 40, 80, 160))
    ax.legend()
    return figure


HELPS = Study(
    name="helps",
    title="Knowing the group helps",
    question=("Three orbits instead of 21 free points: how much does augmentation gain?"),
    claims=("11.08",),
    grid=helps_grid,
    cell=helps_cell,
    verdicts=helps_verdicts,
    figures={"helps": helps_figure},
)
