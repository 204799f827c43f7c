"""Epoch-length dial: longer epochs mean fewer switches and a worse primary loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.seeds import spawn
from counterplay.core.stats import mean_interval
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most
from counterplay.tradeoff import EpochLearner, LossStream, bounds, instances, play

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

K, ALPHA, C, DELTA = 4, 0.5, 0.2, 0.5


def _grid(scale: Scale) -> list[Params]:
    T, replicates = (2**14, 6) if scale == "quick" else (2**18, 50)
    lengths = [2**k for k in range(0, T.bit_length(), 1 if scale == "full" else 2)]
    return [{"T": T, "B": B, "replicate": r} for B in lengths for r in range(replicates)]


def _cell(params: Params, seed: int) -> Record:
    T, B = int(params["T"] or 0), int(params["B"] or 0)
    coins, draws = spawn(seed, 2)
    game = instances.adaptive_switch_tax(T, ALPHA, K, C, DELTA, random_state=coins)
    stream = LossStream(game.l1, game.l2, c=C, replicates=40)
    run = play(EpochLearner(T, K, B=B), stream, random_state=draws, fast=True)
    return {"R1": run.primary_regret(clip=False), "R2": run.secondary_regret(clip=False)}


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    T = int(frame["T"].iloc[0])
    budget = DELTA * T**ALPHA
    mean = frame.groupby("B")[["R1", "R2"]].mean()
    crossing = float(np.abs(np.log(mean["R1"] / mean["R2"])).idxmin())
    first = max(mean.loc[B, "R1"] / bounds.epoch_primary(T, K, int(B)) for B in mean.index)
    second = max(
        mean.loc[B, "R2"] / bounds.epoch_secondary(T, K, int(B), budget) for B in mean.index
    )
    rise, fall = mean["R1"].iloc[-1] / mean["R1"].iloc[0], mean["R2"].iloc[-1] / mean["R2"].iloc[0]
    return [
        at_most("09.10", "Primary regret keeps its bound at every epoch length.", first, 1,
                what="largest ratio"),
        at_most("09.11", "Secondary regret keeps its bound at every epoch length.", second, 1,
                what="largest ratio"),
        at_least("09.10", "Longer epochs: more primary regret.", rise, 1, what="grows by"),
        at_most("09.10", "Longer epochs: less harm.", fall, 1, what="shrinks to"),
        at_most("09.10", f"Both are equal near the balanced length {budget:g}.",
                max(crossing / budget, budget / crossing), 4, what=f"B = {crossing:g}, factor"),
    ]  # fmt: skip


def _figure(frame: pd.DataFrame) -> Figure:
    """Both regrets against the epoch length, with their bounds. The thesis takes T^alpha; the
    balanced length is the burst budget itself.
    """
    T = int(frame["T"].iloc[0])
    budget = DELTA * T**ALPHA
    figure, (ax,) = panels(1, width=7.0)
    lengths = np.array(sorted(frame["B"].unique()))
    for k, (column, label) in enumerate((("R1", "primary regret"), ("R2", "harm above rate"))):
        stats = [mean_interval(frame.loc[frame["B"] == B, column]) for B in lengths]
        centre = np.array([s.estimate for s in stats])
        spread = np.array([[s.estimate - s.low, s.high - s.estimate] for s in stats]).T
        ax.errorbar(lengths, centre, spread, fmt="o", color=PALETTE[k], label=label)
    upper = [bounds.epoch_primary(T, K, int(B)) for B in lengths]
    ax.plot(lengths, upper, label="bound, primary", **{**THEORY, "color": PALETTE[0]})
    harm = [bounds.epoch_secondary(T, K, int(B), budget) for B in lengths]
    ax.plot(lengths, harm, label="bound, harm", **{**THEORY, "color": PALETTE[1]})
    ax.axvline(budget, color="#999999", linestyle=":", label=f"balanced: {budget:g}")
    ax.axvline(T**ALPHA, color="#999999", label=f"T^alpha: {T**ALPHA:g}")
    ax.set(xscale="log", yscale="log", xlabel="epoch length B (rounds)",
           ylabel="regret (loss units)", title=f"T = {T}, {K} experts")  # fmt: skip
    ax.legend(fontsize=8, ncols=3, loc="lower left")
    ax.set_ylim(bottom=20)
    return figure


EPOCH_DIAL = Study(
    name="epoch-dial",
    title="How long to keep a model before deciding again",
    question=(
        "The epoch length trades primary regret against harm from switching. Where do both bounds "
        "meet, and do the measured regrets follow them?"
    ),
    claims=("09.10", "09.11"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"dial": _figure},
)
