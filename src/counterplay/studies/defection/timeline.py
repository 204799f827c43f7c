"""What departures do to a network: accuracy over the rounds, and of the devices by target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE
from counterplay.core.stats import mean_interval
from counterplay.studies.defection.digits import (
    METHODS,
    cell,
    cells,
    digits_run,
    four_panels,
    outcome,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

POINTS = 41
CURVES = ("average", "worst", "population")


def grid(scale: Scale) -> list[Params]:
    """Every rule on the same replicates; the full scale takes the source's step size."""
    if scale == "quick":
        return cells(3, method=METHODS, rounds=[200])
    full = {"fedavg": 0.1, "mw_fed": 0.1, "ada_gd": 0.02, "safe_step": 0.5}
    found = cells(10, method=METHODS, rounds=[1500])
    return [{**cell, "step_size": full[str(cell["method"])]} for cell in found]


def curves(params: Params, seed: int) -> Record:
    """Train one replicate and keep its curves at some rounds."""
    record = digits_run(params)
    at = np.linspace(0, int(params["rounds"] or 1), POINTS).astype(int)
    accuracy, population = record.accuracy[0], record.population[0]
    seen = np.flatnonzero(np.isfinite(population))
    kept = {
        "average": accuracy[at].mean(axis=1),
        "worst": accuracy[at].min(axis=1),
        "population": np.interp(at, seen, population[seen]),
    }
    flat: dict[str, float | int | str] = {
        f"{name}_{i}": float(x) for name, curve in kept.items() for i, x in enumerate(curve)
    }
    left = sorted(int(r) for r in record.defect_round[0] if r >= 0)
    return outcome(record) | flat | {"left": " ".join(map(str, left))}


def verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """FedAvg falls from its peak; SafeStep and ADA-GD keep everybody."""
    rows = {m: frame[frame["method"] == m].sort_values("replicate") for m in METHODS}
    fall = mean_interval((rows["fedavg"]["peak"] - rows["fedavg"]["average"]).to_numpy())
    worst = [rows[m]["worst"].to_numpy() for m in ("safe_step", "fedavg")]
    gain = mean_interval(worst[0] - worst[1])
    lost = sum(int(rows[m]["defections"].sum()) for m in ("ada_gd", "safe_step"))
    return [
        at_least("05.24", "Under FedAvg the average accuracy falls by at least 10 points.",
                 fall.estimate, 0.10, what="fall"),
        at_least("05.24", "That fall is not chance.", fall.low, 0.0, what="95 % from"),
        equals("05.24", "SafeStep and anchored ADA-GD lose nobody.", float(lost), 0.0),
        at_least("05.24", "The worst device gains at least 30 points from SafeStep.",
                 gain.estimate, 0.30, what="gain"),
        at_least("05.24", "That gain is not chance.", gain.low, 0.0, what="95 % from"),
    ]  # fmt: skip


def draw(frame: pd.DataFrame) -> Figure:
    """Average accuracy of all agents, worst agent and population over the rounds, mean over
    replicates; every dashed line is one agent leaving in one of the replicates."""
    rounds = np.linspace(0, int(frame["rounds"].iloc[0]), POINTS)
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


def device_grid(scale: Scale) -> list[Params]:
    """Targets from strict to lax; the same replicates for all rules."""
    if scale == "quick":
        return cells(1, method=METHODS, eps=(0.3, 0.6, 1.0), rounds=[130])
    return cells(10, method=METHODS, eps=(0.1, 0.2, 0.3, 0.5, 0.75, 1.0), rounds=[1500])


def device_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """At every target the worst device is better off under SafeStep."""
    found = []
    for eps, rows in frame.groupby("eps"):
        worst = rows.pivot(index="replicate", columns="method", values="worst")
        gain = worst["safe_step"] - worst["fedavg"]
        lost = rows[rows["method"] == "safe_step"].set_index("replicate")["defections"]
        good = (gain > 0) & (lost == 0)
        statement = f"At target {eps:g} SafeStep loses nobody and its worst device is better off."
        what = f"gain from {gain.min():.3f}; replicates"
        found.append(equals("05.24", statement, int(good.sum()), len(good), what=what))
    return found


def draw_devices(frame: pd.DataFrame) -> Figure:
    """Accuracy of the final model on the worst, the average and the best device (band and line)
    against the loss at which devices leave."""
    figure, axes = four_panels()
    for i, (ax, (method, title)) in enumerate(zip(axes, METHODS.items())):
        rows = frame[frame["method"] == method]
        mean = rows.groupby("eps")[["worst", "average", "best", "defections"]].mean()
        ax.fill_between(mean.index, mean["worst"], mean["best"], color=PALETTE[i], alpha=0.25)
        ax.plot(mean.index, mean["average"], color=PALETTE[i], marker="o")
        for eps, count in mean["defections"].items():
            ax.annotate(f"{count:.3g} left", (eps, 0.02), ha="center", fontsize=8)
        ax.set(title=title, ylim=(0, 1.02))
        ax.margins(x=0.18)
    for ax in axes[2:]:
        ax.set_xlabel("target loss eps")
    for ax in axes[::2]:
        ax.set_ylabel("worst, average, best accuracy")
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
    cell=curves,
    verdicts=verdicts,
    figures={"timeline": draw},
)

DEVICE_ACCURACY = Study(
    name="device-accuracy",
    title="Accuracy of the devices against the target",
    question=(
        "The easier agents are satisfied, the earlier they leave and the worse the final model "
        "serves those who left. The band is from the worst to the best device."
    ),
    claims=("05.24",),
    grid=device_grid,
    cell=cell,
    verdicts=device_verdicts,
    figures={"bands": draw_devices},
)
