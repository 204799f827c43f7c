"""Switch tax: what a restless learner pays when every change of model hurts (Theorem 9.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.online import FollowLazyLeader, Hedge, ShrinkingDartboard
from counterplay.core.online.follow_lazy_leader import lazy_leader_scale
from counterplay.core.seeds import spawn
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most, slope
from counterplay.tradeoff import EpochLearner, LazyHedge, LossStream, bounds, instances, play

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

K, C, DELTA = 10, 0.2, 0.5
LAZY = ("dartboard epochs", "lazy leader epochs", "lazy Hedge")
LEARNERS = (*LAZY, "Hedge epochs")
GAMES = 4  # coin sequences per cell
TAIL = 1600  # rounds of alternating losses
STEPS = tuple(2**k for k in range(11))


def _grid(scale: Scale) -> list[Params]:
    largest, replicates = (14, 10) if scale == "quick" else (18, 50)
    cells: list[Params] = [
        {"part": "scaling", "alpha": alpha, "T": 2**p, "learner": name, "replicate": r}
        for alpha in (0.25, 0.5, 0.75)
        for p in range(10, largest + 1, 2)
        for name in LEARNERS
        for r in range(replicates)
    ]
    tails = ("dartboard epochs", "lazy leader epochs")
    return [*cells, *({"part": "tail", "learner": name} for name in tails)]


def _cell(params: Params, seed: int) -> Record:
    if params["part"] == "tail":
        return _tail(str(params["learner"]), seed)
    T, alpha, name = int(params["T"] or 0), float(params["alpha"] or 0), str(params["learner"])
    found = [_game(T, alpha, name, rng) for rng in spawn(seed, GAMES)]
    return dict(zip(("R1", "R2"), np.mean(found, axis=0).tolist()))


def _game(rounds: int, alpha: float, name: str, rng: np.random.Generator) -> tuple[float, float]:
    """Both regrets on one sequence of coins; exact for learners over epochs."""
    coins, draws = rng.spawn(2)
    game = instances.adaptive_switch_tax(rounds, alpha, K, C, DELTA, random_state=coins)
    if name == "lazy Hedge":
        lazy = LazyHedge(rounds, K, threshold=DELTA * rounds**alpha)
        stream = LossStream(game.l1, game.l2, c=C, replicates=20)
        run = play(lazy, stream, random_state=draws, fast=True)
        return run.primary_regret(clip=False), run.secondary_regret(clip=False)
    learner = EpochLearner(rounds, K, alpha, learner=_over_epochs(name))
    run = play(learner, LossStream(game.l1, game.l1, c=C, replicates=0), fast=True)
    switches = float(run.expected_switches or 0.0)
    # an epoch-aligned learner pays delta * B per stint, exactly (claim 09.11)
    return run.primary_regret(clip=False), DELTA * game.meta["B"] * (switches + 1)


def _over_epochs(name: str) -> ShrinkingDartboard | FollowLazyLeader | Hedge:
    if name == "dartboard epochs":
        return ShrinkingDartboard()
    return FollowLazyLeader() if name == "lazy leader epochs" else Hedge()


def _tail(name: str, seed: int) -> Record:
    """Distribution of the number of switches on losses that alternate."""
    losses = np.tile([[0.0, 1.0], [1.0, 0.0]], (TAIL // 2, 1))
    learner = _over_epochs(name)
    paths = learner.sample(losses, 20_000, random_state=seed)
    counts = np.count_nonzero(np.diff(paths, axis=1), axis=1)
    record = {f"at_least_{s}": float((counts >= s).mean()) for s in STEPS}
    loss = float((learner.marginals(losses) * losses).sum())
    return {
        **record,
        "switches": float(learner.expected_switches(losses)),
        "allowed": bounds.lazy_leader_switches(loss, lazy_leader_scale(2, TAIL)),
        "most": float(counts.max()),
    }


def _means(frame: pd.DataFrame) -> pd.DataFrame:
    scaling = frame[frame["part"] == "scaling"].copy()
    mean = scaling.groupby(["alpha", "learner", "T"])[["R1", "R2"]].mean().reset_index()
    mean["worst"] = mean[["R1", "R2"]].max(axis=1)
    return mean


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    mean = _means(frame)
    verdicts = [
        slope("09.13", f"alpha = {alpha:g}: the larger regret of {name}.", rows["T"], rows["worst"],
              (1 + alpha) / 2, 0.05)
        for (alpha, name), rows in mean.groupby(["alpha", "learner"])
        if name in LAZY
    ]  # fmt: skip
    half = mean[mean["alpha"] == 0.5].pivot(index="T", columns="learner", values="R2")
    ratio = half["Hedge epochs"] / half["dartboard epochs"]
    growth = float(ratio.iloc[-1] / ratio.iloc[0])
    least = [
        row.worst / bounds.switch_tax(int(row.T), K, max(1, round(row.T**row.alpha)), DELTA)
        for row in mean.itertuples()
    ]
    most = [
        row.R1 / bounds.epoch_primary(int(row.T), K, max(1, round(row.T**row.alpha)))
        for row in mean[mean["learner"] == "dartboard epochs"].itertuples()
    ]
    leader = frame[frame["part"] == "tail"].set_index("learner").loc["lazy leader epochs"]
    return [
        *verdicts,
        at_least("09.13", "Without laziness the harm grows faster (alpha = 0.5).", growth, 1.5,
                 what="harm of Hedge over lazy grows by"),
        at_least("09.14", "The corrected lower bound holds for every learner.", min(least), 1,
                 what="smallest ratio"),
        at_most("09.07", "The upper bound of the dartboard holds.", max(most), 1,
                what="largest ratio"),
        at_most("09.08", f"The lazy leader switches up to {leader['most']:.0f} times, but rarely.",
                leader["switches"], leader["allowed"], what="mean"),
    ]  # fmt: skip


def _scaling_figure(frame: pd.DataFrame) -> Figure:
    """Both regrets against the horizon: lazy learners follow the predicted slope (dashed), a
    learner that draws afresh each epoch pays far more harm. Dotted: the least possible value of
    the larger of both regrets.
    """
    mean = _means(frame)
    alphas = sorted(mean["alpha"].unique())
    figure, axes = panels(len(alphas), width=4.2)
    for ax, alpha in zip(axes, alphas):
        T = np.array(sorted(mean["T"].unique()), dtype=float)
        B = np.maximum(1, np.round(T**alpha))
        upper = [bounds.epoch_primary(int(t), K, int(b)) for t, b in zip(T, B)]
        lower = [bounds.switch_tax(int(t), K, int(b), DELTA) for t, b in zip(T, B)]
        ax.plot(T, upper, label="upper bound", **THEORY)
        ax.plot(T, lower, label="lower bound", **{**THEORY, "linestyle": ":"})
        for k, name in enumerate(LEARNERS):
            mine = mean[(mean["alpha"] == alpha) & (mean["learner"] == name)].sort_values("T")
            ax.plot(mine["T"], mine["R2"], "o", color=PALETTE[k], label=f"{name}: harm")
            ax.plot(mine["T"], mine["R1"], "+", color=PALETTE[k], label=f"{name}: primary",
                    markersize=9)  # fmt: skip
        ax.set(xscale="log", yscale="log", xlabel="rounds T", title=f"alpha = {alpha:g}")
    axes[0].set_ylabel("regret (loss units)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=8)
    return figure


def _tail_figure(frame: pd.DataFrame) -> Figure:
    """How often a learner switches at least so many times on alternating losses: the lazy leader
    hardly ever, but then always; the dartboard never far from its mean.
    """
    tail = frame[frame["part"] == "tail"]
    figure, (ax,) = panels(1)
    for k, row in enumerate(tail.to_dict("records")):
        shares = np.array([row[f"at_least_{s}"] for s in STEPS])
        seen = shares > 0
        ax.plot(np.array(STEPS)[seen], shares[seen], "o-", color=PALETTE[k],
                label=f"{row['learner']} (mean {row['switches']:.1f})")  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel="number of switches s in 1600 rounds",
           ylabel="share of runs with at least s switches",
           title="Rarely, but then always")  # fmt: skip
    ax.legend()
    return figure


SWITCH_TAX = Study(
    name="switch-tax",
    title="Every change of model hurts for a while",
    question=(
        "The primary losses are coins; the harm is high until a model has been live for an epoch. "
        "How do both regrets grow with the horizon for lazy learners and for Hedge, and how is the "
        "number of switches distributed?"
    ),
    claims=("09.07", "09.08", "09.13", "09.14"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"scaling": _scaling_figure, "tail": _tail_figure},
)
