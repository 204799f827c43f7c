"""Misreport: what one agent gains, and the others lose, when it understates its target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.seeds import generator
from counterplay.core.stats import mean_interval
from counterplay.defection import (
    ADAGD,
    FederationGame,
    RationalAgent,
    SafeStep,
    Server,
    instances,
    play,
)
from counterplay.defection.bounds import adagd_step_size
from counterplay.defection.lab import MisreportingAgent
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

M, DELTA, EPS = 4, 0.05, 0.4
FACTORS = (1.0, 0.9, 0.75, 0.5, 0.25, 0.1)
LOOK = {"ADA-GD": ("s-", PALETTE[2]), "SafeStep": ("o-", PALETTE[0])}


def _grid(scale: Scale) -> list[Params]:
    replicates = 8 if scale == "quick" else 60
    return [
        {"factor": f, "rule": rule, "replicate": r}
        for f in FACTORS
        for rule in LOOK
        for r in range(replicates)
    ]


def _cell(params: Params, seed: int) -> Record:
    rng = generator(int(params["replicate"] or 0))
    c = instances.random_overparameterised(
        M, 2, 12, eps=EPS, delta=DELTA, spread=2.0, random_state=rng
    )
    H, L = float(c.problem.H or 1.0), float(c.problem.L or 1.0)
    ada = params["rule"] == "ADA-GD"
    eta = adagd_step_size(M, H, L, DELTA) if ada else 1.0 / H
    told = EPS * float(params["factor"] or 1.0)
    agents = [RationalAgent(EPS, behaviour=MisreportingAgent(told))]
    agents += [RationalAgent(EPS)] * (M - 1)
    rule = ADAGD(DELTA) if ada else SafeStep(DELTA)
    run = play(Server(rule, c.w0, step_size=eta), FederationGame(c.problem, agents), rounds=20_000)
    left = int(run.defect_round[0])
    return {
        "liar_left": left,
        "liar_work": int(run.workload[0]),
        "liar_loss": float(run.loss[0]),
        "liar_took": float(run.losses[left - 1, 0]) if left > 0 else float(run.loss[0]),
        "others_work": float(run.workload[1:].mean()),
        "others_worst": float((run.loss[1:] - EPS).max()),
        "others_left": int((run.defect_round[1:] >= 0).sum()),
    }


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    honest = frame[frame["factor"] == 1.0]
    lies = frame[frame["factor"] <= 0.75]
    return [
        equals("05.05", "An honest agent is kept.",
               float((honest["liar_left"] > 0).sum()), 0.0, what="left"),
        equals("05.19", "A lie below the margin lets the liar leave.",
               float((lies["liar_left"] > 0).sum()), len(lies), what="lies"),
        at_most("05.19", "The liar leaves with a model it likes.",
                float(lies["liar_took"].max()), EPS, what="loss taken away"),
        equals("05.06", "The honest agents are still protected.",
               float(frame["others_left"].sum()), 0.0, what="left"),
    ]  # fmt: skip


def _figure(frame: pd.DataFrame) -> Figure:
    """One of four agents reports only a share of its target. Left: rounds it works, against the
    honest agents. Right: the loss it takes away (solid) is within its target (dashed); the honest
    agents (dotted) are kept above theirs until the last, landing step. Intervals: 95 %.
    """
    figure, (left, right) = panels(2, width=5.0)
    for rule, (style, colour) in LOOK.items():
        part = frame[frame["rule"] == rule].assign(
            share=lambda rows: rows["liar_work"] / rows["others_work"].clip(lower=1),
            honest=lambda rows: rows["others_worst"] + EPS,
        )
        _curve(left, part, "share", style, colour, rule)
        _curve(right, part, "liar_took", style, colour, f"liar, {rule}")
        _curve(right, part, "honest", style[0] + ":", colour, f"worst honest, {rule}")
    left.axhline(1.0, **THEORY)
    right.axhline(EPS, **THEORY)
    left.set(xlabel="reported target / true target", ylabel="liar's rounds / others' rounds",
             title="The liar works less", ylim=(0, 1.1))  # fmt: skip
    right.set(xlabel="reported target / true target", ylabel="loss on own data",
              title="The liar leaves with its target", ylim=(0.2, 0.5))  # fmt: skip
    left.legend(fontsize=8)
    right.legend(fontsize=7, loc="lower right")
    return figure


def _curve(ax: Axes, part: pd.DataFrame, column: str, style: str, colour: str, label: str) -> None:
    """One line with 95 % intervals over the replicates."""
    found = [
        mean_interval(part.loc[part["factor"] == f, column].to_numpy(dtype=float)) for f in FACTORS
    ]
    middle = np.array([i.estimate for i in found])
    reach = np.array([[i.estimate - i.low, i.high - i.estimate] for i in found]).T
    ax.errorbar(FACTORS, middle, yerr=reach, fmt=style, color=colour, label=label, capsize=2)


MISREPORT = Study(
    name="misreport",
    title="What a lie about the target buys",
    question=(
        "The server protects agents by the targets they report. What happens when one agent "
        "reports a smaller target than it has: when does it leave, and who pays?"
    ),
    claims=("05.05", "05.06", "05.19"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"misreport": _figure},
)
