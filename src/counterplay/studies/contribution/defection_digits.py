"""A lone defector in federated training on digits: federated averaging against MW-FED.

Four parties, and the same experiment with eight: the same roles, each twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplay.contribution.defectors.cohort import DIGIT_NOISE
from counterplay.contribution.lab import (
    DigitsNetwork,
    PooledTraining,
    defection_curve,
    noisy_digits,
    pretrain,
    pretraining_digits,
)
from counterplay.core.draws import run_keys
from counterplay.core.figures import PALETTE, panels
from counterplay.core.stats import Interval, clopper_pearson, mean_interval
from counterplay.core.validation import BoolArray, FloatArray
from counterplay.federated import FedAvg, MWFed
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RUNS = 8
SHARES = (1.0, 0.05, 0.01)
ALL_SHARES = (1.0, 0.9, 0.75, 0.5, 0.25, 0.05, 0.01)
ROUNDS = tuple(range(0, 51, 10))
ALGORITHMS = ("FedAvg", "MWFed")
TRAININGS = (PooledTraining(FedAvg()), PooledTraining(MWFed(growth=4.0)))
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
    cohort, network = noisy_digits(keys), DigitsNetwork()
    start = pretrain(network, *pretraining_digits(SEED), keys, steps=25)
    shares = SHARES if params["shares"] == "3" else ALL_SHARES
    record: dict[str, float | str] = {"runs": RUNS}
    for training in TRAININGS:
        curve = defection_curve(training, network, cohort, start, fractions=shares)
        hard = curve.defector < 2
        for f, share in enumerate(shares):
            for t in ROUNDS:
                name = f"{curve.algorithm}_{share:g}_{t}"
                record[name] = int(curve.at[f, :, t].sum())
            record[f"{curve.algorithm}_{share:g}_hard"] = int(curve.at[f, hard, -1].sum())
            record[f"{curve.algorithm}_{share:g}_ever"] = int(curve.by[f, :, -1].sum())
            record[f"{curve.algorithm}_{share:g}_each"] = _as_text(curve.at[f, :, -1])
        drawn = curve.drawn[0].sum(axis=0)
        for i, n in enumerate(drawn):
            record[f"{curve.algorithm}_drawn_{i}"] = int(n)
    record["hard_defectors"] = int(hard.sum())
    for share in SOLO_SHARES if block % SOLO_EVERY == 0 else ():
        alone = cohort
        for party in range(4):
            alone = alone.defect(party, share)
        history = PooledTraining(batch_size=256).fit_alone(network, alone, start)
        accuracy = history.accuracy.reshape(RUNS, 4, -1).mean(axis=0)
        for party in range(4):
            for t in ROUNDS:
                record[f"solo_{share:g}_{party}_{t}"] = float(accuracy[party, t])
    return record


def verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Defectors succeed more often under federated averaging."""
    found = []
    for share in ("0.05", "0.01"):
        gap = _outcomes(frame[f"FedAvg_{share}_each"]) - _outcomes(frame[f"MWFed_{share}_each"])
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
    figure, axes = panels(2, width=5.0)
    success_bars(
        axes[0],
        shares,
        {
            algorithm: {
                s: clopper_pearson(int(frame[f"{algorithm}_{s:g}_50"].sum()), runs) for s in shares
            }
            for algorithm in ALGORITHMS
        },
    )
    for style, share in (("-", 0.05), ("--", 0.01)):
        for number, algorithm in enumerate(ALGORITHMS):
            rate = [frame[f"{algorithm}_{share:g}_{t}"].sum() / runs for t in ROUNDS]
            label = f"{algorithm}, keeps {share:.0%}"
            axes[1].plot(ROUNDS, rate, style, marker=".", color=PALETTE[number], label=label)
    axes[1].set(xlabel="round", ylabel="satisfied defectors", ylim=(-0.02, 1.25))
    axes[1].set_yticks(np.linspace(0, 1, 6))
    axes[1].legend(ncols=2, fontsize=8, loc="upper center")
    return figure


def success_bars(
    ax: Axes, shares: Sequence[float], found: Mapping[str, Mapping[float, Interval]]
) -> None:
    """Draw the share of satisfied defectors with its interval, one colour per algorithm."""
    for number, (algorithm, intervals) in enumerate(found.items()):
        place = [i + (number - 0.5) * 0.38 for i, s in enumerate(shares) if s in intervals]
        shown = [intervals[s] for s in shares if s in intervals]
        height = [i.estimate for i in shown]
        error = [[i.estimate - i.low for i in shown], [i.high - i.estimate for i in shown]]
        ax.bar(place, height, 0.36, yerr=error, capsize=3, color=PALETTE[number], label=algorithm)
    ax.set_xticks(range(len(shares)), [f"{s:.0%}" for s in shares])
    ax.set(xlabel="share of its data the defector keeps", ylabel="satisfied defectors")
    ax.set_ylim(0, 1.25)
    ax.set_yticks(np.linspace(0, 1, 6))
    ax.legend(ncols=2, loc="upper center")


def draw_solo(frame: pd.DataFrame) -> Figure:
    """Left: accuracy of every party trained alone with all (solid) and 5 % (dashed) of its data;
    the dotted line is the target. Right: who does the work in both protocols."""
    names = ("hardest", "hard", "easy", "easiest")
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


NOISE = {4: DIGIT_NOISE, 8: tuple(np.repeat(DIGIT_NOISE, 2).tolist())}
SMALL = (0.05, 0.01)
SEED_OF_EIGHT = 812


def grid_of_eight(scale: Scale) -> list[Params]:
    """Blocks of runs with four and with eight parties."""
    blocks, runs = (1, 4) if scale == "quick" else (8, 8)
    return [{"agents": k, "block": b, "runs": runs} for k in NOISE for b in range(blocks)]


def cell_of_eight(params: Params, seed: int) -> Record:
    """Train one block under both algorithms; outcomes of single runs as text."""
    parties, block, runs = (int(params[name] or 0) for name in ("agents", "block", "runs"))
    keys = run_keys(SEED_OF_EIGHT, runs, first=runs * block)
    cohort, network = noisy_digits(keys, NOISE[parties]), DigitsNetwork()
    start = pretrain(network, *pretraining_digits(SEED_OF_EIGHT), keys, steps=25)
    record: dict[str, float | str] = {}
    for training in TRAININGS:
        curve = defection_curve(training, network, cohort, start, fractions=SMALL)
        for f, share in enumerate(SMALL):
            record[f"{curve.algorithm}_{share:g}"] = _as_text(curve.at[f, :, -1])
        drawn = curve.drawn.sum(axis=(0, 1))
        record[f"{curve.algorithm}_hard"] = float(drawn[: parties // 2].sum() / drawn.sum())
    return record


def verdicts_of_eight(frame: pd.DataFrame) -> list[Verdict]:
    """Among eight parties MW-FED does not help the defector either; hard parties do the work."""
    found = []
    part = frame[frame["agents"] == 8].sort_values("block")
    for share in SMALL:
        difference = _outcomes(part[f"FedAvg_{share:g}"]) - _outcomes(part[f"MWFed_{share:g}"])
        found.append(
            at_least(
                "04.42",
                f"Among eight, a defector with {share:.0%} of its data does no better in MW-FED.",
                mean_interval(difference).estimate,
                0.0,
                what=f"{len(difference)} paired runs, difference",
            )
        )
    work = part["MWFed_hard"].mean()
    statement = "Among eight, MW-FED takes most points from the hard parties."
    return [*found, at_least("04.42", statement, work, 0.85, what="share of all points")]


def draw_eight(frame: pd.DataFrame) -> Figure:
    """Share of defectors that reach 70 % accuracy after 50 rounds among four and among eight
    parties, with exact 95 % intervals."""
    figure, axes = panels(2, width=4.6, height=3.6)
    for ax, parties in zip(axes, NOISE):
        part = frame[frame["agents"] == parties]
        found: dict[str, dict[float, Interval]] = {}
        for algorithm in ALGORITHMS:
            outcomes = {share: _outcomes(part[f"{algorithm}_{share:g}"]) for share in SMALL}
            found[algorithm] = {
                s: clopper_pearson(int(won.sum()), len(won)) for s, won in outcomes.items()
            }
        success_bars(ax, SMALL, found)
        ax.set_title(f"{parties} parties")
    return figure


def _as_text(outcomes: BoolArray) -> str:
    """Outcomes of single runs, which a flat record holds as text."""
    return "".join("1" if x else "0" for x in outcomes)


def _outcomes(column: pd.Series) -> FloatArray:
    return np.array([float(x) for x in "".join(column.astype(str))])


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

EIGHT = Study(
    name="eight",
    title="Does a second party of every kind protect the defector?",
    question=(
        "The source speaks of more parties but shows no figure. With every kind of party twice, "
        "the other hard party keeps working when one defects, so a defector gets away more often "
        "than among four, and MW-FED still gives it no advantage."
    ),
    claims=("04.42",),
    grid=grid_of_eight,
    cell=cell_of_eight,
    verdicts=verdicts_of_eight,
    figures={"eight": draw_eight},
)
