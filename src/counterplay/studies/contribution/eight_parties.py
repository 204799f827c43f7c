"""The defection experiment with eight parties instead of four: the same roles, each twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.contribution.training import (
    MLP,
    FedAvg,
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

NOISE = {4: (0.42, 0.40, 0.22, 0.20), 8: (0.42, 0.42, 0.40, 0.40, 0.22, 0.22, 0.20, 0.20)}
SHARES = (0.05, 0.01)
ALGORITHMS = ("FedAvg", "MWFed")
SEED = 812


def grid(scale: Scale) -> list[Params]:
    """Blocks of runs with four and with eight parties."""
    blocks, runs = (1, 4) if scale == "quick" else (8, 8)
    return [{"agents": k, "block": b, "runs": runs} for k in NOISE for b in range(blocks)]


def cell(params: Params, seed: int) -> Record:
    """Train one block under both algorithms; outcomes of single runs as text."""
    parties, block, runs = (int(params[name] or 0) for name in ("agents", "block", "runs"))
    keys = run_keys(SEED, runs, first=runs * block)
    cohort, network = noisy_digits(keys, NOISE[parties]), MLP()
    start = pretrain(network, *pretraining_digits(SEED), keys, steps=25)
    record: dict[str, float | str] = {}
    for algorithm in (FedAvg(rounds=50), MWFed(rounds=50)):
        curve = defection_curve(algorithm, network, cohort, start, fractions=SHARES)
        for f, share in enumerate(SHARES):
            outcome = "".join("1" if x else "0" for x in curve.at[f, :, -1])
            record[f"{curve.algorithm}_{share:g}"] = outcome
        drawn = curve.drawn.sum(axis=(0, 1))
        record[f"{curve.algorithm}_hard"] = float(drawn[: parties // 2].sum() / drawn.sum())
    return record


def verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Among eight parties MW-FED does not help the defector either; hard parties do the work."""
    found = []
    part = frame[frame["agents"] == 8]
    for share in SHARES:
        difference = _outcomes(part, "FedAvg", share) - _outcomes(part, "MWFed", share)
        gap = mean_interval(difference)
        found.append(
            Verdict(
                "04.42",
                f"Among eight, a defector with {share:.0%} of its data does no better in MW-FED.",
                f"difference {gap} over {len(difference)} paired runs",
                ">= 0",
                bool(gap.estimate >= 0),
            )
        )
    work = part["MWFed_hard"].mean()
    found.append(
        Verdict(
            "04.42",
            "Among eight, MW-FED takes most points from the hard parties.",
            f"{work:.0%} of all points",
            "> 85 %",
            bool(work > 0.85),
        )
    )
    return found


def draw(frame: pd.DataFrame) -> Figure:
    """Share of defectors that reach 70 % accuracy after 50 rounds among four and among eight
    parties, with exact 95 % intervals."""
    with figure_style():
        figure, axes = panels(2, width=4.6, height=3.6)
        for ax, parties in zip(axes, NOISE):
            part = frame[frame["agents"] == parties]
            for number, algorithm in enumerate(ALGORITHMS):
                intervals = []
                for share in SHARES:
                    outcome = _outcomes(part, algorithm, share)
                    intervals.append(clopper_pearson(int(outcome.sum()), len(outcome)))
                height = [i.estimate for i in intervals]
                error = [
                    [i.estimate - i.low for i in intervals],
                    [i.high - i.estimate for i in intervals],
                ]
                place = np.arange(len(SHARES)) + (number - 0.5) * 0.38
                ax.bar(
                    place,
                    height,
                    0.36,
                    yerr=error,
                    capsize=3,
                    color=PALETTE[number],
                    label=algorithm,
                )
            ax.set_xticks(range(len(SHARES)), [f"{s:.0%}" for s in SHARES])
            ax.set(xlabel="share of its data the defector keeps", ylabel="satisfied defectors")
            ax.set(title=f"{parties} parties", ylim=(0, 1.25))
            ax.set_yticks(np.linspace(0, 1, 6))
            ax.legend(ncols=2, loc="upper center")
    return figure


def _outcomes(frame: pd.DataFrame, algorithm: str, share: float) -> np.ndarray:
    text = "".join(frame.sort_values("block")[f"{algorithm}_{share:g}"].astype(str))
    return np.array([float(x) for x in text])


STUDY = Study(
    name="eight",
    title="Does a second party of every kind protect the defector?",
    question=(
        "The source speaks of more parties but shows no figure. With every kind of party twice, "
        "the other hard party keeps working when one defects, so a defector gets away more often "
        "than among four, and MW-FED still gives it no advantage."
    ),
    claims=("04.42",),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"eight": draw},
)
