"""Watchdog off and on: experts that come back at every review (Theorem 9.8, repaired)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most
from counterplay.tradeoff import (
    CusumOracle,
    LossStream,
    ReactivationLearner,
    bounds,
    instances,
    play,
)
from counterplay.tradeoff.lab import AdaNormalHedge, BicriteriaLearner, RestartAtReset

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ALPHA, K = 0.4, 8
REPAIRED, PRINTED = "repaired", "as printed"
LEARNERS = (REPAIRED, PRINTED, "restart at reviews", "AdaNormalHedge, coupled")


def _grid(scale: Scale) -> list[Params]:
    T = 2**16 if scale == "quick" else 2**18
    resets = (0, 1, 3, 7, 15, 31)
    return [{"T": T, "N": n, "learner": name} for n in resets for name in LEARNERS]


def _learner(name: str, rounds: int, oracle: CusumOracle) -> BicriteriaLearner:
    if name in (REPAIRED, PRINTED):
        return ReactivationLearner(rounds, K, ALPHA, oracle=oracle, restore=name == REPAIRED)
    cls = RestartAtReset if name == "restart at reviews" else AdaNormalHedge
    return cls(rounds, K, ALPHA, oracle=oracle)


def _cell(params: Params, seed: int) -> Record:
    T, N = int(params["T"] or 0), int(params["N"] or 0)
    game = instances.burst(T, ALPHA, K, N)
    oracle = CusumOracle(game.c, game.threshold, resets=game.meta["resets"])
    run = play(
        _learner(str(params["learner"]), T, oracle),
        LossStream(game.l1, game.l2, replicates=0),
        fast=True,
    )
    B = int(game.meta["B"])
    sleeping, rounds = run.sleeping_regret(clip=False), run.active.sum(axis=0)
    limits = [bounds.reactivation_sleeping(T, K, B, int(n)) for n in rounds]
    D = 0 if run.activity is None else run.activity.deactivating_rounds
    harm = bounds.reactivation_secondary(T, K, B, game.threshold, game.c, D, N)
    return {
        "sleeping": float(sleeping.max()),
        "sleeping_bound": float(limits[int(sleeping.argmax())]),
        "ratio": float((sleeping / limits).max()),
        "R2": run.secondary_regret(clip=False) / game.threshold,
        "R2_bound": harm / game.threshold,
        "switches": float(run.expected_switches or 0.0),
    }


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    repaired = frame[frame["learner"] == REPAIRED]
    printed = frame[(frame["learner"] == PRINTED) & (frame["N"] >= 3)]
    excess = float((repaired["R2"] - repaired["N"] - 1).min())
    ratio = float((repaired["R2"] / repaired["R2_bound"]).max())
    return [
        at_most("09.21", "The repaired learner keeps its sleeping regret bound.",
                repaired["ratio"].max(), 1, what="largest ratio"),
        Verdict("09.21", "As printed (stand-ins are never reset) the bound fails.",
                f"smallest ratio {printed['ratio'].min():.2f} from 3 reviews on", "> 1",
                bool(printed["ratio"].min() > 1)),
        at_most("09.24", "The harm keeps the corrected bound.", ratio, 1, what="largest ratio"),
        Verdict("09.24", "The overshoot is real: more than one budget per segment.",
                f"smallest excess {excess:.2f} budgets", "> 0", excess > 0),
    ]  # fmt: skip


def _figure(frame: pd.DataFrame) -> Figure:
    """Left: largest regret to a model over its allowed time, against the number of reviews.
    Right: harm in units of the burst budget.
    """
    figure, (left, right) = panels(2)
    bound = frame[frame["learner"] == REPAIRED].sort_values("N")
    left.plot(bound["N"] + 1, bound["sleeping_bound"], label="bound (Theorem 9.8)", **THEORY)
    right.plot(bound["N"] + 1, bound["R2_bound"], label="bound, corrected", **THEORY)
    for k, name in enumerate(LEARNERS):
        rows = frame[frame["learner"] == name].sort_values("N")
        left.plot(rows["N"] + 1, rows["sleeping"], "o-", color=PALETTE[k], label=name)
        right.plot(rows["N"] + 1, rows["R2"], "o-", color=PALETTE[k], label=name)
    left.set(xscale="log", yscale="log", xlabel="segments N + 1",
             ylabel="largest sleeping regret", title="Regret while allowed")  # fmt: skip
    right.set(xscale="log", yscale="log", xlabel="segments N + 1",
              ylabel="harm above the rate / burst budget", title="Harm")  # fmt: skip
    left.legend(fontsize=8)
    right.legend(fontsize=8)
    return figure


def _timeline(frame: pd.DataFrame) -> Figure:
    """One run: who is live, the watchdog's statistic with the budget (shaded: taken down), and how
    the harm above the rate accumulates.
    """
    game = instances.burst(2**13, ALPHA, 4, 3)
    oracle = CusumOracle(game.c, game.threshold, resets=game.meta["resets"])
    learner = ReactivationLearner(2**13, 4, ALPHA, oracle=oracle, random_state=0)
    return play(learner, LossStream(game.l1, game.l2), fast=True).dashboard()


WATCHDOG_ON = Study(
    name="watchdog-on",
    title="Models that are taken down and come back",
    question=(
        "The best model misbehaves once in every segment and returns at the next review. Does the "
        "learner compete with it over the time it was allowed, and what does the missing reset of "
        "the stand-ins in the printed algorithm do?"
    ),
    claims=("09.21", "09.24"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"reviews": _figure, "timeline": _timeline},
)
