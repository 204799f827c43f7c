"""Rounds against the conditioning of the gradients, with the explicit bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.seeds import generator
from counterplay.defection import ADAGD, FederationGame, SafeStep, Server, bounds, instances, play
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

M, DELTA = 4, 0.1
MARKS = {"ADA-GD": ("o", PALETTE[2]), "SafeStep": ("s", PALETTE[0])}


def _grid(scale: Scale) -> list[Params]:
    replicates = 3 if scale == "quick" else 40
    corr = (0.0, 0.5, 1.0, 2.0) if scale == "quick" else (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
    return [
        {"corr": a, "replicate": r, "rule": rule}
        for a in corr
        for r in range(replicates)
        for rule in MARKS
    ]


def _cell(params: Params, seed: int) -> Record:
    corr = float(params["corr"] or 0.0)
    rng = generator(int(1000 * corr) + int(params["replicate"] or 0))
    c = instances.random_overparameterised(
        M, 2, 12, corr=corr, eps=0.2, delta=DELTA, spread=2.0, random_state=rng
    )
    H, L = float(c.problem.H or 1.0), float(c.problem.L or 1.0)
    ada = params["rule"] == "ADA-GD"
    eta = bounds.adagd_step_size(M, H, L, DELTA) if ada else 1.0 / H
    rule = ADAGD(DELTA) if ada else SafeStep(DELTA)
    run = play(
        Server(rule, c.w0, step_size=eta, log_sigma=True),
        FederationGame(c.problem, c.eps),
        rounds=200_000,
    )
    sigma = float(run.sigma_min.min())
    start = float(run.losses[0].mean())
    if ada:
        bound = bounds.adagd_rounds(M, start, eta, sigma)
    else:
        bound = bounds.safe_step_rounds(M, start, H, L, DELTA, sigma)
    return {
        "rounds": len(run),
        "sigma": sigma,
        "bound": bound,
        "status": run.status,
        "defections": run.n_defections,
    }


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    found = []
    for rule in MARKS:
        part = frame[frame["rule"] == rule]
        done = part["rounds"].where(part["status"] == "converged", np.inf)
        statement = f"{rule} finishes within its explicit bound on every problem."
        share = float((done / part["bound"]).max())
        found.append(at_most("05.11", statement, share, 1.0, what="largest share of the bound"))
    wide = frame.pivot_table(index=["corr", "replicate"], columns="rule", values="rounds")
    speed = float((wide["ADA-GD"] / wide["SafeStep"]).median())
    statement = "SafeStep needs fewer rounds than ADA-GD (median ratio)."
    return [*found, at_least("05.27", statement, speed, 1.0)]


def _figure(frame: pd.DataFrame) -> Figure:
    """Rounds until the rule stops against the smallest singular value of the gradients along the
    run. Dashed: the explicit bound of each run, sorted by sigma.
    """
    figure, axes = panels(2, width=4.6)
    for ax, (rule, (mark, colour)) in zip(axes, MARKS.items()):
        part = frame[frame["rule"] == rule].sort_values("sigma")
        ax.plot(part["sigma"], part["rounds"], mark, color=colour, label=f"{rule}, measured")
        ax.plot(part["sigma"], part["bound"], label="explicit bound", **THEORY)
        ax.set(xscale="log", yscale="log", xlabel="smallest singular value σ of the gradients",
               ylabel="rounds", title=rule)  # fmt: skip
        ax.legend(fontsize=8)
    low = min(float(frame["rounds"].min()), 3.0)
    for ax in axes:
        ax.set_xticks([0.05, 0.1, 0.2, 0.4], ["0.05", "0.1", "0.2", "0.4"])
        ax.set_xticks([], minor=True)
        ax.set_ylim(low / 2, float(np.max(frame["bound"])) * 3)
    return figure


ROUND_BOUNDS = Study(
    name="round-bounds",
    title="How many rounds protection takes",
    question=(
        "The more parallel the gradients, the longer it takes to serve everybody. How do measured "
        "rounds compare with the explicit bounds?"
    ),
    claims=("05.11", "05.27"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"rounds-and-sigma": _figure},
)
