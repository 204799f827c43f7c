"""A lone defector in federated training on digits: federated averaging against MW-FED."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.contribution.training import (
    MLP,
    FedAvg,
    IndividualTraining,
    MWFed,
    defection_curve,
    noisy_digits,
    pretrain,
    pretraining_digits,
    run_keys,
)
from counterplay.core.figures import PALETTE, figure_style, panels
from counterplay.core.stats import clopper_pearson, mean_interval
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

RUNS = 8
SHARES = (1.0, 0.05, 0.01)
ALL_SHARES = (1.0, 0.9, 0.75, 0.5, 0.25, 0.05, 0.01)
ROUNDS = tuple(range(0, 51, 10))
ALGORITHMS = ("FedAvg", "MWFed")
SOLO_SHARES = (1.0, 0.05)
SOLO_EVERY = 3  # training alone varies little: every third block is enough
SEED = 411


def grid(scale: Scale) -> list[Params]:
    """Blocks of eight runs; the same runs for both algorithms and all shares."""
    blocks = 3 if scale == "quick" else 13
    shares = "3" if scale == "quick" else "7"
    return [{"block": b, "shares": shares} for b in range(blocks)]


def cell(params: Params, seed: int) -> Record:
    """Train one block under everything and count satisfied defectors, round by round."""
    block = int(params["block"] or 0)
    keys = run_keys(SEED, RUNS, first=RUNS * block)
    cohort, network = noisy_digits(keys), MLP()
    start = pretrain(network, *pretraining_digits(SEED), keys, steps=25)
    shares = SHARES if params["shares"] == "3" else ALL_SHARES
    record: dict[str, float] = {"runs": RUNS}
    hard = None
    for algorithm in (FedAvg(rounds=50), MWFed(rounds=50)):
        curve = defection_curve(algorithm, network, cohort, start, fractions=shares)
        hard = curve.defector < 2
        for f, share in enumerate(shares):
            for t in ROUNDS:
                name = f"{curve.algorithm}_{share:g}_{t}"
                record[name] = int(curve.at[f, :, t].sum())
            record[f"{curve.algorithm}_{share:g}_hard"] = int(curve.at[f, hard, -1].sum())
            record[f"{curve.algorithm}_{share:g}_ever"] = int(curve.by[f, :, -1].sum())
            outcome = "".join("1" if x else "0" for x in curve.at[f, :, -1])
            record[f"{curve.algorithm}_{share:g}_each"] = outcome  # type: ignore[assignment]  # text
        drawn = curve.drawn[0].sum(axis=0)
        for i, n in enumerate(drawn):
            record[f"{curve.algorithm}_drawn_{i}"] = int(n)
    record["hard_defectors"] = int(hard.sum()) if hard is not None else 0
    for share in SOLO_SHARES if block % SOLO_EVERY == 0 else ():
        alone = cohort
        for party in range(4):
            alone = alone.defect(party, share)
        history = IndividualTraining(rounds=50).fit(network, alone, start)
        accuracy = history.accuracy.reshape(RUNS, 4, -1).mean(axis=0)
        for party in range(4):
            for t in ROUNDS:
                record[f"solo_{share:g}_{party}_{t}"] = float(accuracy[party, t])
    return record


def verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Defectors succeed more often under federated averaging."""
    found = []
    for share in ("0.05", "0.01"):
        outcomes = {a: "".join(frame[f"{a}_{share}_each"]) for a in ALGORITHMS}
        gap = np.array([int(x) - int(y) for x, y in zip(*outcomes.values())], dtype=float)
        interval = mean_interval(gap)
        found.append(
            Verdict(
                "04.32",
                f"A defector with {float(share):.0%} of its data succeeds more often under FedAvg.",
                f"difference {interval} over {len(gap)} paired runs",
                "> 0.15, interval above 0",
                bool(interval.estimate > 0.15 and interval.low > 0),
            )
        )
    return found


def draw_success(frame: pd.DataFrame) -> Figure:
    """Share of defectors that reach 70 % accuracy after 50 rounds, by how much of their data they
    keep, with exact 95 % intervals."""
    shares = SHARES if "FedAvg_0.5_50" not in frame else ALL_SHARES
    runs = int(frame["runs"].sum())
    with figure_style():
        figure, axes = panels(2, width=5.0)
        for number, algorithm in enumerate(ALGORITHMS):
            counts = [int(frame[f"{algorithm}_{s:g}_50"].sum()) for s in shares]
            intervals = [clopper_pearson(c, runs) for c in counts]
            place = np.arange(len(shares)) + (number - 0.5) * 0.38
            height = [i.estimate for i in intervals]
            error = [
                [i.estimate - i.low for i in intervals],
                [i.high - i.estimate for i in intervals],
            ]
            axes[0].bar(
                place, height, 0.36, yerr=error, capsize=3, color=PALETTE[number], label=algorithm
            )
        axes[0].set_xticks(range(len(shares)), [f"{s:.0%}" for s in shares])
        axes[0].set(xlabel="share of its data the defector keeps", ylabel="satisfied defectors")
        axes[0].set_ylim(0, 1.25)
        axes[0].set_yticks(np.linspace(0, 1, 6))
        axes[0].legend(ncols=2, loc="upper center")
        for style, share in (("-", 0.05), ("--", 0.01)):
            for number, algorithm in enumerate(ALGORITHMS):
                rate = [frame[f"{algorithm}_{share:g}_{t}"].sum() / runs for t in ROUNDS]
                label = f"{algorithm}, keeps {share:.0%}"
                axes[1].plot(ROUNDS, rate, style, marker=".", color=PALETTE[number], label=label)
        axes[1].set(xlabel="round", ylabel="satisfied defectors", ylim=(-0.02, 1.25))
        axes[1].set_yticks(np.linspace(0, 1, 6))
        axes[1].legend(ncols=2, fontsize=8, loc="upper center")
    return figure


def draw_solo(frame: pd.DataFrame) -> Figure:
    """Left: accuracy of every party trained alone with all (solid) and 5 % (dashed) of its data;
    the dotted line is the target. Right: who does the work in both protocols."""
    names = ("hardest", "hard", "easy", "easiest")
    with figure_style():
        figure, axes = panels(2, width=5.0)
        for party, name in enumerate(names):
            for style, share in (("-", 1.0), ("--", 0.05)):
                mean = [frame[f"solo_{share:g}_{party}_{t}"].mean() for t in ROUNDS]
                label = name if share == 1.0 else None
                axes[0].plot(ROUNDS, mean, style, marker=".", color=PALETTE[party], label=label)
        axes[0].axhline(0.7, color="#444444", ls=":")
        axes[0].set(xlabel="step", ylabel="validation accuracy", title="training alone")
        axes[0].legend()
        for number, algorithm in enumerate(ALGORITHMS):
            drawn = np.array([frame[f"{algorithm}_drawn_{i}"].sum() for i in range(4)])
            place = np.arange(4) + (number - 0.5) * 0.38
            axes[1].bar(place, drawn / drawn.sum(), 0.36, color=PALETTE[number], label=algorithm)
        axes[1].set_xticks(range(4), names)
        axes[1].set(xlabel="party", ylabel="share of all drawn points", title="training together")
        axes[1].legend()
    return figure


STUDY = Study(
    name="defection",
    title="How far can one party defect unnoticed?",
    question=(
        "Four parties train together on noisy digits until everybody should reach 70 %. One random "
        "party secretly keeps only a share of its data. Under federated averaging it usually gets "
        "away with it; MW-FED asks the unsatisfied defector itself, which has little to give."
    ),
    claims=("04.32",),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"success": draw_success, "solo": draw_solo},
)
