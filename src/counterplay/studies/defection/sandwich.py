"""Loss sandwich: every protected agent ends between eps + delta and eps + 2 delta."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.seeds import generator
from counterplay.defection import (
    ADAGD,
    FedAvg,
    FederationGame,
    SafeStep,
    Server,
    instances,
    land,
    play,
)
from counterplay.defection.bounds import adagd_step_size
from counterplay.federated.reports import Rule
from counterplay.studies.defection.curves import pack, thinned, unpack
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

RULES = ("equal weights", "ADA-GD", "SafeStep")
M, DELTA = 5, 0.05


def _grid(scale: Scale) -> list[Params]:
    problems = 6 if scale == "quick" else 100
    return [{"problem": p, "rule": rule} for p in range(problems) for rule in RULES]


def _cell(params: Params, seed: int) -> Record:
    rng = generator(int(params["problem"] or 0))  # the same problem for all rules
    eps = rng.uniform(0.1, 0.4, size=M)
    c = instances.random_overparameterised(
        M, 2, 14, eps=eps, delta=DELTA, spread=2.5, random_state=rng
    )
    H, L = float(c.problem.H or 1.0), float(c.problem.L or 1.0)
    eta_small = adagd_step_size(M, H, L, DELTA)
    rules: dict[str, tuple[Rule, float]] = {
        "equal weights": (FedAvg(), eta_small * 4),
        "ADA-GD": (ADAGD(DELTA), eta_small),
        "SafeStep": (SafeStep(DELTA), 1.0 / H),
    }
    rule, eta = rules[str(params["rule"])]
    run = play(Server(rule, c.w0, step_size=eta), FederationGame(c.problem, c.eps), rounds=20_000)
    excess = run.losses - c.eps
    rows = thinned(len(excess))
    return {
        "rounds": len(run),
        "status": run.status,
        "defections": run.n_defections,
        "lowest": float(excess.min()),
        "lowest_final": float(excess[-1].min()),
        "highest_final": float(excess[-1].max()),
        "landed": land(c.problem, run.w, c.eps).certified,
        "at": pack(rows.astype(np.float64)),
        "excess": pack(excess[rows]),
        "left": pack(run.defect_round.astype(np.float64)),
    }


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    ada = frame[frame["rule"] == "ADA-GD"]
    safe = frame[frame["rule"] == "SafeStep"]
    equal = frame[frame["rule"] == "equal weights"]
    kept = (ada["status"] == "converged") & (ada["defections"] == 0)
    return [
        equals("05.05", "ADA-GD converges without a defection on every problem.",
               float(kept.sum()), len(ada), what="problems"),
        at_least("05.05", "Its final losses lie above the lower line of the sandwich.",
                 float(ada["lowest_final"].min()), DELTA, slack=1e-9),
        at_most("05.05", "Its final losses lie below the upper line of the sandwich.",
                float(ada["highest_final"].max()), 2 * DELTA, slack=1e-9),
        at_least("05.27", "SafeStep never lets a loss fall below eps + delta.",
                 float(safe["lowest"].min()), DELTA, what="lowest excess", slack=1e-9),
        at_least("05.03", "Equal weights lose agents on the same problems.",
                 float((equal["defections"] > 0).sum()), 1.0, what="problems"),
    ]  # fmt: skip


def _figure(frame: pd.DataFrame) -> Figure:
    """How far each agent is above its target over the rounds. Dashed lines: the target, delta and
    2 delta. Protected agents end between the upper two; with equal weights (left) agents leave at
    the dots, at the target, and their losses rise again.
    """
    figure, axes = panels(3, width=3.7)
    for ax, rule in zip(axes, RULES):
        row = frame[(frame["rule"] == rule) & (frame["problem"] == 0)].iloc[0]
        at, excess = unpack(row["at"])[:, 0], unpack(row["excess"], M)
        left = unpack(row["left"])[:, 0]
        for m in range(M):
            ax.plot(at + 1, excess[:, m], color=PALETTE[m], lw=1.4)
            if left[m] >= 0:
                ax.plot(left[m], np.interp(left[m] - 1, at, excess[:, m]), "o",
                        color=PALETTE[m], markersize=6)  # fmt: skip
        for height in (0.0, DELTA, 2 * DELTA):
            ax.axhline(height, **THEORY)
        ax.set(xscale="log", xlabel="round", title=rule)
        ax.set_yscale("symlog", linthresh=4 * DELTA)
        ax.set_yticks([-0.1, 0.0, 0.05, 0.1, 1.0], ["-0.1", "0", "δ", "2δ", "1"])
        ax.minorticks_off()
        ax.set_ylim(-0.2, 2.0)
    axes[0].set_ylabel("loss above the target, F_m − ε_m")
    return figure


SANDWICH = Study(
    name="sandwich",
    title="Nobody leaves: the loss sandwich",
    question=(
        "Five agents, random problems on which the theory applies. Do protected runs end with "
        "every loss between one and two margins above its target, and what happens with "
        "equal weights?"
    ),
    claims=("05.03", "05.05", "05.27"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"sandwich": _figure},
)
