"""Impossibility frontier: no learner keeps both regrets small in both worlds (Theorem 9.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.online import FollowTheLeader, Hedge
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, equals, slope
from counterplay.tradeoff import (
    CusumOracle,
    DeactivationLearner,
    EpochLearner,
    LossStream,
    bounds,
    instances,
    play,
)
from counterplay.tradeoff.lab import (
    BicriteriaLearner,
    ScalarizedLearner,
    frontier,
    impossibility_phases,
    minimax,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

C = instances.impossibility_worlds(2)[0].c  # the rate in both worlds
WEIGHTS = (0.25, 0.5, 1.0, 2.0, 4.0)
NAMES = ("Hedge", "follow the leader", "lazy epochs", "with watchdog")


def _learner(name: str, rounds: int) -> BicriteriaLearner:
    if name.startswith("mixed"):
        return ScalarizedLearner(rounds, 2, float(name.split()[1]), learner=Hedge())
    if name == "with watchdog":
        return DeactivationLearner(rounds, 2, 0.5, oracle=CusumOracle(C, rounds**0.5))
    if name == "lazy epochs":
        return EpochLearner(rounds, 2, 0.5)
    inner = Hedge() if name == "Hedge" else FollowTheLeader()
    return EpochLearner(rounds, 2, B=1, learner=inner)


def _grid(scale: Scale) -> list[Params]:
    largest = 17 if scale == "quick" else 21
    names = (*NAMES, *(f"mixed {lam:g}" for lam in WEIGHTS))
    return [{"T": 2**p, "learner": name} for p in range(11, largest, 2) for name in names]


def _cell(params: Params, seed: int) -> Record:
    T, learner = int(params["T"] or 0), _learner(str(params["learner"]), int(params["T"] or 0))
    record: dict[str, float] = {}
    worst = []
    for world in instances.impossibility_worlds(T):
        run = play(learner, LossStream(world.l1, world.l2, c=world.c, replicates=0), fast=True)
        first, second = run.primary_regret(clip=False), run.secondary_regret(clip=False)
        record[f"R1_world_{world.meta['world']}"] = first / T
        record[f"R2_world_{world.meta['world']}"] = second / T
        worst.append(max(first, second))
    record["worst_on_average"] = float(np.mean(worst)) / T
    return record


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    value = minimax(impossibility_phases(), C).value
    worse = minimax(impossibility_phases(), C, "worst").value
    lowest = float(frame["worst_on_average"].min())
    largest = frame[frame["T"] == frame["T"].max()].set_index("learner")
    leader = float(largest.loc["follow the leader", "worst_on_average"])
    hedge = frame[frame["learner"] == "Hedge"].sort_values("T")
    return [
        equals("09.02", "The linear program gives the least average regret per round.", value,
               bounds.impossibility_average(1), tolerance=1e-9),
        equals("09.02", "The linear program gives the least worst-world regret per round.", worse,
               bounds.impossibility_worst(1), tolerance=1e-9),
        at_least("09.02", "No learner is below it, whatever it does.", lowest, value,
                 what=f"lowest of {len(frame)}", slack=1e-9),
        equals("09.03", "Follow the Leader pays T/96.",
               leader / bounds.impossibility_leader(1), 1, tolerance=2e-3),
        slope("09.03", "The regret of Hedge is linear in T.", hedge["T"],
              hedge["worst_on_average"] * hedge["T"], 1, 0.05),
    ]  # fmt: skip


def _figure(frame: pd.DataFrame) -> Figure:
    """Left: regrets (per round) reached in the worse of two worlds; nobody can get into the grey
    region. Right: the larger regret, averaged over both worlds, grows linearly for everybody.
    """
    figure, (left, right) = panels(2)
    _draw_frontier(left, frame[frame["T"] == frame["T"].max()])
    T = np.array(sorted(frame["T"].unique()), dtype=float)
    leader = [bounds.impossibility_leader(int(t)) for t in T]
    right.plot(T, leader, label="T/96: the leader", **{**THEORY, "linestyle": ":"})
    least = [bounds.impossibility_average(int(t)) for t in T]
    right.plot(T, least, label="T/144: nobody is below", **THEORY)
    for k, name in enumerate(NAMES):
        mine = frame[frame["learner"] == name].sort_values("T")
        right.plot(mine["T"], mine["worst_on_average"] * mine["T"], "o", color=PALETTE[k],
                   label=name)  # fmt: skip
    right.set(xscale="log", yscale="log", xlabel="rounds T",
              ylabel="larger regret, mean of both worlds", title="Linear regret")  # fmt: skip
    right.set_xticks(T, [f"$2^{{{int(np.log2(t))}}}$" for t in T])
    right.minorticks_off()
    right.legend(fontsize=8)
    return figure


def _draw_frontier(ax: Axes, rows: pd.DataFrame) -> None:
    levels = np.linspace(0.0, 0.04, 60)
    curve = frontier(impossibility_phases(), C, levels)
    ax.fill_betweenx(levels, -0.003, curve, color="#999999", alpha=0.3, linewidth=0)
    ax.plot(curve, levels, label="best possible (LP)", **THEORY)
    first = rows[["R1_world_I", "R1_world_II"]].max(axis=1)
    second = rows[["R2_world_I", "R2_world_II"]].max(axis=1)
    mixed = rows["learner"].str.startswith("mixed")
    ax.plot(first[mixed], second[mixed], "s", color=PALETTE[4], label="mixed losses, 0.25 to 4")
    for k, name in enumerate(NAMES):
        mine = rows["learner"] == name
        ax.plot(first[mine], second[mine], "o", color=PALETTE[k], label=name)
    ax.axhline(0.0, color="#999999", linewidth=0.8)
    ax.set(xlabel="primary regret / T (worse world)", ylabel="secondary regret / T (worse world)",
           title="The grey corner cannot be reached", xlim=(-0.003, None))  # fmt: skip
    ax.legend(fontsize=8)


FRONTIER = Study(
    name="impossibility-frontier",
    title="Two worlds that look alike until half time",
    question=(
        "Every model ends within the harm rate. Can a learner be almost as good as the best one "
        "and keep the rate, too? The linear program says how close anybody can get; the learners "
        "are compared with it."
    ),
    claims=("09.02", "09.03"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"frontier": _figure},
)
