"""MW-FED without the learning: how much could be withdrawn from what it collects?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.contribution import instances, stability_report
from counterplay.contribution.lab import (
    mw_game_allocation,
    optimal_stable_linear,
    socially_optimal_linear,
)
from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import mean_interval
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

FACTORS = (1.0, 1.1, 1.5, 4.0, 16.0)


def grid(scale: Scale) -> list[Params]:
    """Random overlap games."""
    return [{"replicate": r} for r in range(12 if scale == "quick" else 60)]


def cell(params: Params, seed: int) -> Record:
    """Withdrawable share and total for every factor, on one random game."""
    game = instances.random_linear_game(20, 30, 0.3, seed)
    opt = socially_optimal_linear(game).total
    record: dict[str, float] = {"stable_ratio": optimal_stable_linear(game).total / opt}
    for c in FACTORS:
        plan = mw_game_allocation(game, c, 0.001)
        report = stability_report(game, plan.theta)
        record[f"share_{c:g}"] = report.withdrawable_share
        record[f"ratio_{c:g}"] = plan.total / opt
    return record


def verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Equal contributions leave most to withdraw, a factor of 4 least."""
    found = []
    for low, high, text in (("1.1", "1", "than equal contributions"), ("4", "1.1", "than 1.1")):
        gap = mean_interval((frame[f"share_{high}"] - frame[f"share_{low}"]).to_numpy())
        found.append(
            Verdict(
                "04.33",
                f"With factor {low} less can be withdrawn {text}.",
                f"difference of shares {gap}",
                "> 0",
                gap.low > 0,
            )
        )
    return found


def draw(frame: pd.DataFrame) -> Figure:
    """Left: share of all data that could be withdrawn by parties acting alone. Right: total over
    the cheapest total; the stable plan is dashed. Means over random games with 95 % intervals."""
    figure, axes = panels(2, width=4.6, height=3.6)
    for ax, name, label in zip(
        axes,
        ("share", "ratio"),
        ("share that could be withdrawn", "total / cheapest total"),
    ):
        intervals = [mean_interval(frame[f"{name}_{c:g}"].to_numpy()) for c in FACTORS]
        mean = [i.estimate for i in intervals]
        error = [
            [i.estimate - i.low for i in intervals],
            [i.high - i.estimate for i in intervals],
        ]
        ax.errorbar(range(len(FACTORS)), mean, error, fmt="o-", color=PALETTE[0], capsize=3)
        labels = ["1\n(FedAvg)", *(f"{c:g}" for c in FACTORS[1:])]
        ax.set_xticks(range(len(FACTORS)), labels)
        ax.set(xlabel="factor c for unsatisfied parties", ylabel=label)
    axes[0].set_ylim(0, 1)
    axes[0].axhline(0.0, **THEORY)
    axes[1].axhline(frame["stable_ratio"].mean(), **THEORY)
    return figure


STUDY = Study(
    name="weights",
    title="Multiplicative weights come close to a stable plan",
    question=(
        "Data are collected in small steps until everybody is satisfied, either equally (federated "
        "averaging) or in proportion to weights that grow for unsatisfied parties. How much of the "
        "result could single parties withdraw?"
    ),
    claims=("04.33",),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"weights": draw},
)
