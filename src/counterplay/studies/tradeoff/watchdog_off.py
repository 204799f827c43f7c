"""Watchdog off: experts that are switched off for good, three hard streams."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most, equals
from counterplay.tradeoff import (
    CusumOracle,
    DeactivationLearner,
    LossStream,
    bounds,
    instances,
    play,
)
from counterplay.tradeoff.lab import Instance, RestartOnDeactivation

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ALPHA = 0.3
STARS, STAR_ALPHA = 16, 0.4


def _grid(scale: Scale) -> list[Params]:
    T = 2**15 if scale == "quick" else 2**18
    kinds = ("doubling", "decreasing")
    ladder: list[Params] = [
        {"part": "ladder", "T": 4 * T, "K": k, "tuning": kind}
        for k in range(2, 7)
        for kind in kinds
    ]
    sizes = (4, 8, 16, 32) if scale == "quick" else (4, 8, 16, 32, 64)
    staggered: list[Params] = [
        {"part": "staggered", "T": T, "K": k, "tuning": kind, "restart": restart}
        for k in sizes
        for kind in ("fixed", "doubling")
        for restart in (False, True)
    ]
    prefix: list[Params] = [
        {"part": "prefix", "T": 2**p, "K": STARS, "T_h": _life(2**p), "tuning": kind}
        for p in range(10, 17 if scale == "quick" else 21, 2)
        for kind in ("fixed", *kinds)
    ]
    return [*ladder, *staggered, *prefix]


def _life(rounds: int) -> int:
    """How long the star lives: half the time a learner tuned for all rounds needs to find it."""
    B: int = round(rounds**STAR_ALPHA)
    return round(0.5 * B * math.sqrt(math.ceil(rounds / B) * math.log(STARS)))


def _cell(params: Params, seed: int) -> Record:
    part, T, K = params["part"], int(params["T"] or 0), int(params["K"] or 0)
    if part == "ladder":
        game, alpha = instances.deactivation_ladder(T, ALPHA, K), ALPHA
    elif part == "staggered":
        game, alpha = instances.staggered(T, ALPHA, K), ALPHA
    else:
        game = instances.prefix_star(T, STAR_ALPHA, K, int(params["T_h"] or 0))
        alpha = STAR_ALPHA
    cls = RestartOnDeactivation if params.get("restart") else DeactivationLearner
    return _measure(cls, game, alpha, str(params["tuning"]))


def _measure(cls: Any, game: Instance, alpha: float, tuning: str) -> Record:
    oracle = CusumOracle(game.c, game.threshold)
    learner = cls(
        game.rounds, game.K, alpha, oracle=oracle, anytime=None if tuning == "fixed" else tuning
    )
    run = play(learner, LossStream(game.l1, game.l2, replicates=0), fast=True)
    sleeping = run.sleeping_regret(clip=False)
    record = {
        "R2": run.secondary_regret(clip=False),
        "threshold": game.threshold,
        "first": float(sleeping[0]),
        "survivor": float(sleeping[-1]),
        "B": float(learner.grid.B),
    }
    if "lengths" in game.meta:
        record["least_R2"] = bounds.ladder_secondary(
            game.meta["lengths"], game.meta["excess"], sleeping
        )
        record["on_time"] = float(tuple(run.active.sum(axis=0)) == game.meta["times"])
    return record


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    ladder = frame[frame["part"] == "ladder"].sort_values("K")
    steps = np.concatenate(
        [np.diff(rows["R2"] / rows["threshold"]) for _, rows in ladder.groupby("tuning")]
    )
    slack = float((ladder["R2"] - ladder["least_R2"]).min())
    staggered = frame[frame["part"] == "staggered"].copy()
    staggered["scaled"] = _scaled(staggered)
    growth = {
        key: rows.sort_values("K")["scaled"].iloc[-1] / rows.sort_values("K")["scaled"].iloc[0]
        for key, rows in staggered.groupby(["restart", "tuning"])
    }
    prefix = frame[(frame["part"] == "prefix") & (frame["tuning"] == "doubling")]
    ratio = max(
        row.first / bounds.deactivation_sleeping(int(row.T_h), STARS, int(row.B))
        for row in prefix.itertuples()
    )
    fixed = frame[(frame["part"] == "prefix") & (frame["tuning"] == "fixed")]
    grown = _star_ratio(fixed).iloc[-1] / _star_ratio(fixed).iloc[0]
    return [
        equals("09.19", "Ladder: every further expert costs about 0.5 to 0.9 budgets of harm.",
               float(steps[np.abs(steps - 0.7).argmax()]), 0.7, what="farthest", tolerance=0.2),
        at_least("09.19", "Ladder: the exact inequality holds.", slack, 0, what="smallest slack",
                 slack=1e-6),
        equals("09.19", "Ladder: share of runs in which all experts leave on time.",
               float(ladder["on_time"].mean()), 1),
        *(equals("09.18", f"Staggered, {kind}: without restarts the regret does not depend on K.",
                 growth[False, kind], 1, what="factor", tolerance=0.15)
          for kind in ("fixed", "doubling")),
        *(at_least("09.18", f"Staggered, {kind}: restarting costs more with every expert.",
                   growth[True, kind], least, what="factor")
          for kind, least in (("fixed", 5), ("doubling", 2.5))),
        at_most("09.17", "Short-lived star: the prefix bound holds with doubling.", ratio, 1,
                what="largest ratio"),
        at_least("09.17", "Short-lived star: tuned for T, the regret outgrows the prefix bound.",
                 grown, 1.4, what="ratio grows by"),
    ]  # fmt: skip


def _star_ratio(rows: pd.DataFrame) -> pd.Series:
    rows = rows.sort_values("T")
    return rows["first"] / np.sqrt(math.log(STARS) * rows["T_h"] * rows["T"] ** STAR_ALPHA)


def _scaled(rows: pd.DataFrame) -> pd.Series:
    return rows["survivor"] / np.sqrt(np.log(rows["K"]) * rows["T"] ** (1 + ALPHA))


def _figure(frame: pd.DataFrame) -> Figure:
    """Left: harm on the ladder grows linearly with the number of experts. Middle: regret to the
    surviving expert when the others leave one by one. Right: regret to a star that lives shortly,
    in units of the predicted order; it stays bounded for anytime tuning only.
    """
    figure, (left, middle, right) = panels(3, width=4.4)
    _draw_ladder(left, frame[frame["part"] == "ladder"].sort_values("K"))
    _draw_staggered(middle, frame[frame["part"] == "staggered"].sort_values("K"))
    prefix = frame[frame["part"] == "prefix"].sort_values("T")
    for k, (kind, rows) in enumerate(prefix.groupby("tuning")):
        right.plot(rows["T"], _star_ratio(rows), "o-", color=PALETTE[k], label=kind)
    T = sorted(prefix["T"].unique())
    right.set(xscale="log", xlabel="rounds T", ylim=(0, None),
              ylabel="regret to the star / sqrt(ln K T_h T^alpha)",
              title="Short-lived star")  # fmt: skip
    right.set_xticks(T, [f"$2^{{{int(np.log2(t))}}}$" for t in T])
    right.minorticks_off()
    right.legend(fontsize=8)
    return figure


def _draw_ladder(ax: Axes, ladder: pd.DataFrame) -> None:
    for k, (kind, rows) in enumerate(ladder.groupby("tuning")):
        if k == 0:
            ratio = rows["T"] ** ((1 - ALPHA) / (rows["K"] - 1))
            target = [bounds.ladder_target(int(n), float(r)) for n, r in zip(rows["K"], ratio)]
            ax.plot(rows["K"], target, label="limit for large T", **THEORY)
        ax.plot(rows["K"], rows["R2"] / rows["threshold"], "o", color=PALETTE[k], label=kind)
    ax.set(xlabel="experts K", ylabel="harm / burst budget", title="Ladder: linear in K")
    ax.set_xticks(sorted(ladder["K"].unique()))
    ax.legend(fontsize=8)


def _draw_staggered(ax: Axes, staggered: pd.DataFrame) -> None:
    staggered = staggered.assign(scaled=_scaled(staggered))
    for k, ((restart, kind), rows) in enumerate(staggered.groupby(["restart", "tuning"])):
        label = f"{'restart' if restart else 'stand-ins'}, {kind}"
        ax.plot(rows["K"], rows["scaled"], "o-", color=PALETTE[k], label=label)
    ax.set(xscale="log", yscale="log", xlabel="experts K",
           ylabel="survivor's regret / sqrt(ln K T^(1+alpha))",
           title="One leaves after the other")  # fmt: skip
    sizes = sorted(staggered["K"].unique())
    ax.set_xticks(sizes, [str(int(n)) for n in sizes])
    ax.minorticks_off()
    ax.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    ax.legend(fontsize=8)


WATCHDOG_OFF = Study(
    name="watchdog-off",
    title="Models that are taken down for good",
    question=(
        "A watchdog switches off models that exceed the burst budget. Can the learner compete with "
        "each of them for as long as it was allowed, without starting from scratch each time?"
    ),
    claims=("09.17", "09.18", "09.19"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"three-streams": _figure},
)
