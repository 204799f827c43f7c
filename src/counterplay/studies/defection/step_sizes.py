"""Step size sweep: what each rule does when the step is too large, and with noisy reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.seeds import generator
from counterplay.defection import (
    ADAGD,
    FedAvg,
    FederationGame,
    MWFed,
    SafeStep,
    Server,
    instances,
    play,
)
from counterplay.defection.lab import ReportNoise
from counterplay.federated.reports import Rule
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

M, DELTA = 5, 0.05
NOISE = ReportNoise(loss=0.03, gradient=0.2)
RULES: dict[str, tuple[Rule, ReportNoise | None, str, str]] = {
    "FedAvg": (FedAvg(), None, PALETTE[1], "o-"),
    "MW-FED": (MWFed(gap=DELTA), None, PALETTE[5], "v-"),
    "ADA-GD": (ADAGD(DELTA), None, PALETTE[2], "s-"),
    "SafeStep": (SafeStep(DELTA), None, PALETTE[0], "D-"),
    "ADA-GD, noisy reports": (ADAGD(DELTA), NOISE, PALETTE[6], "+:"),
    "SafeStep, noisy reports": (SafeStep(DELTA), NOISE, PALETTE[3], "x:"),
}


def _grid(scale: Scale) -> list[Params]:
    count, replicates = (6, 2) if scale == "quick" else (13, 20)
    etas = np.geomspace(0.05, 50.0, count)
    return [
        {"eta": float(e), "rule": rule, "replicate": r, "rounds": 400 if scale == "quick" else 4000}
        for e in etas
        for rule in RULES
        for r in range(replicates)
    ]


def _cell(params: Params, seed: int) -> Record:
    replicate = int(params["replicate"] or 0)
    rng = generator(replicate)
    c = instances.random_overparameterised(
        M, 6, 36, eps=0.1, delta=DELTA, spread=2.0, random_state=rng
    )
    rule, noise, _, _ = RULES[str(params["rule"])]
    run = play(
        Server(rule, c.w0, step_size=float(params["eta"] or 1.0)),
        FederationGame(c.problem, c.eps, noise=noise),
        rounds=int(params["rounds"] or 1),
        random_state=replicate,
    )
    floor = np.minimum(run.losses[0], c.eps + DELTA)
    return {
        "worst_excess": float((run.loss - c.eps).max()),
        "defections": run.n_defections,
        "steps": len(run),
        "status": run.status,
        "below_floor": float((floor - run.losses).max()),
    }


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    exact = frame[frame["rule"].isin(["ADA-GD", "SafeStep"])]
    noisy = frame[frame["rule"].str.endswith("noisy reports")]
    largest = frame["eta"].max()
    stop = frame[(frame["eta"] == largest) & (frame["rule"] == "ADA-GD")]
    flat = frame[(frame["rule"] == "SafeStep") & (frame["status"] == "converged")]
    return [
        equals("05.06", "ADA-GD and SafeStep lose nobody at any step size.",
               float(exact["defections"].sum()), 0.0, what="defections"),
        at_most("05.06", "They keep every loss above its floor at any step size.",
                float(exact["below_floor"].max()), 0.0, slack=1e-9),
        at_least("05.06", "A large step makes ADA-GD stop far from the targets.",
                 float(stop["worst_excess"].max()), 2 * DELTA, what="excess"),
        at_most("05.27", "SafeStep reaches the relaxed target wherever it stops.",
                float(flat["worst_excess"].max()), 2 * DELTA, what="largest excess", slack=1e-9),
        at_least("05.06", "The guarantee needs exact reports: with noise agents leave.",
                 float(noisy["defections"].sum()), 1.0, what="defections"),
    ]  # fmt: skip


def _figure(frame: pd.DataFrame) -> Figure:
    """Left: how far the worst agent ends above its target (dashed: the promised 2 delta). Right:
    how many of five agents left. Large steps make ADA-GD stop at once, far from the targets;
    SafeStep stays at the promise; noise in the reports (dotted) voids the guarantee of both.
    """
    figure, (left, right) = panels(2, width=5.0, height=4.6)
    for k, (rule, (_, _, colour, style)) in enumerate(RULES.items()):
        part = frame[frame["rule"] == rule].groupby("eta")[["worst_excess", "defections"]].mean()
        left.plot(part.index, part["worst_excess"], style, color=colour, label=rule)
        shift = 0.015 * (k - 2.5)  # keeps equal curves apart
        right.plot(part.index, part["defections"] + shift, style, color=colour, label=rule)
    left.axhline(2 * DELTA, **THEORY)
    left.set(xscale="log", yscale="log", xlabel="step size η",
             ylabel="worst final loss above target", title="Quality")  # fmt: skip
    right.set(xscale="log", xlabel="step size η", ylabel="agents that left (of 5)",
              title="Defections")  # fmt: skip
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8)
    return figure


STEP_SIZES = Study(
    name="step-sizes",
    title="Large steps: who still protects, who still learns",
    question=(
        "No defections alone is no success: a rule can keep everybody by not moving. How good is "
        "the final model and how many agents left, for step sizes over three decades?"
    ),
    claims=("05.06", "05.27"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"step-sizes": _figure},
)
