"""What each departure does to the model: accuracy over the rounds under four rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, figure_style
from counterplay.core.stats import mean_interval
from counterplay.studies.defection.digits import METHODS, digits_run, outcome
from counterplay.studies.defection.squares import four_panels
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

POINTS = 41
STEP = {"fedavg": 0.5, "mw_fed": 0.5, "ada_gd": 0.1, "safe_step": 0.5}
LOCAL = {"fedavg": 5, "mw_fed": 5, "ada_gd": 5, "safe_step": 1}
CURVES = ("average", "worst", "population")


def grid(scale: Scale) -> list[Params]:
    """Every rule on the same replicates; the full scale takes the source's step size."""
    cells: list[Params] = []
    for method in METHODS:
        for replicate in range(3 if scale == "quick" else 10):
            small = scale == "full" and method in ("fedavg", "mw_fed")
            step = 0.1 if small else STEP[method]
            step = 0.02 if scale == "full" and method == "ada_gd" else step
            cells.append(
                {
                    "method": method,
                    "own": 0.9,
                    "eps": 0.2,
                    "step_size": step,
                    "local_steps": LOCAL[method],
                    "rounds": 200 if scale == "quick" else 1500,
                    "replicate": replicate,
                }
            )
    return cells


def cell(params: Params, seed: int) -> Record:
    """Train one replicate and keep its curves at some rounds."""
    record = digits_run(params)
    at = np.linspace(0, int(params["rounds"] or 1), POINTS).astype(int)
    accuracy, population = record.accuracy[0], record.population[0]
    seen = np.flatnonzero(np.isfinite(population))
    curves = {
        "average": accuracy[at].mean(axis=1),
        "worst": accuracy[at].min(axis=1),
        "population": np.interp(at, seen, population[seen]),
    }
    flat: dict[str, float | int | str] = {
        f"{name}_{i}": float(x) for name, curve in curves.items() for i, x in enumerate(curve)
    }
    left = sorted(int(r) for r in record.defect_round[0] if r >= 0)
    return outcome(record) | flat | {"left": " ".join(map(str, left))}


def verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """FedAvg falls from its peak; SafeStep and ADA-GD keep everybody."""
    rows = {m: frame[frame["method"] == m].sort_values("replicate") for m in METHODS}
    fall = mean_interval((rows["fedavg"]["peak"] - rows["fedavg"]["average"]).to_numpy())
    worst = [rows[m]["worst"].to_numpy() for m in ("safe_step", "fedavg")]
    gain = mean_interval(worst[0] - worst[1])
    lost = {m: int(rows[m]["defections"].sum()) for m in ("ada_gd", "safe_step")}
    return [
        Verdict(
            "05.24",
            "Under FedAvg the average accuracy falls by at least 10 points from its peak.",
            f"fall {fall}",
            ">= 0.10, interval above 0",
            fall.estimate >= 0.10 and fall.low > 0,
        ),
        Verdict(
            "05.24",
            "SafeStep and anchored ADA-GD lose nobody.",
            f"{lost['safe_step']} and {lost['ada_gd']} departures",
            "0 and 0",
            not any(lost.values()),
        ),
        Verdict(
            "05.24",
            "The worst device is at least 30 points better under SafeStep than under FedAvg.",
            f"gain {gain}",
            ">= 0.30, interval above 0",
            gain.estimate >= 0.30 and gain.low > 0,
        ),
    ]


def draw(frame: pd.DataFrame) -> Figure:
    """Average accuracy of all agents, worst agent and population over the rounds, mean over
    replicates; every dashed line is one agent leaving in one of the replicates."""
    rounds = np.linspace(0, int(frame["rounds"].iloc[0]), POINTS)
    with figure_style():
        figure, axes = four_panels()
        for ax, (method, title) in zip(axes, METHODS.items()):
            rows = frame[frame["method"] == method]
            for text in rows["left"].astype(str):
                for r in text.split():
                    ax.axvline(float(r) - 1, color="#999999", linestyle="--", linewidth=0.6)
            for i, name in enumerate(CURVES):
                mean = rows[[f"{name}_{k}" for k in range(POINTS)]].mean()
                ax.plot(rounds, mean.to_numpy(), color=PALETTE[i], label=name)
            ax.set(title=title, ylim=(-0.02, 1.02))
        for ax in axes[2:]:
            ax.set_xlabel("round")
        for ax in axes[::2]:
            ax.set_ylabel("accuracy")
        axes[-1].legend(loc="lower right")
    return figure


TIMELINE = Study(
    name="timeline",
    title="What every departure does to the model",
    question=(
        "Ten agents with mostly one digit each train a small network; an agent leaves for good "
        "once its own loss is at most 0.2. Under FedAvg each departure drags the average, "
        "the worst agent and the population down; rules that predict departures keep everybody."
    ),
    claims=("05.24",),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"timeline": draw},
)
