"""How the target decides the harm: accuracy of the devices against eps, under four rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.core.figures import PALETTE, figure_style
from counterplay.core.stats import mean_interval
from counterplay.studies.defection.digits import METHODS, digits_run, outcome
from counterplay.studies.defection.squares import four_panels
from counterplay.studies.defection.timeline import LOCAL, STEP
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def grid(scale: Scale) -> list[Params]:
    """Targets from strict to lax; the same replicates for all rules."""
    targets = (0.3, 0.6, 1.0) if scale == "quick" else (0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
    return [
        {
            "method": method,
            "own": 0.9,
            "eps": eps,
            "step_size": STEP[method],
            "local_steps": LOCAL[method],
            "rounds": 130 if scale == "quick" else 1500,
            "replicate": replicate,
        }
        for eps in targets
        for method in METHODS
        for replicate in range(1 if scale == "quick" else 10)
    ]


def cell(params: Params, seed: int) -> Record:
    """Train one replicate to the end."""
    return outcome(digits_run(params))


def verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """At every target the worst device is better off under SafeStep."""
    found = []
    for eps, rows in frame.groupby("eps"):
        worst = rows.pivot(index="replicate", columns="method", values="worst")
        gain = (worst["safe_step"] - worst["fedavg"]).to_numpy()
        lost = int(rows.loc[rows["method"] == "safe_step", "defections"].sum())
        measured = f"{gain[0]:.3f}" if len(gain) == 1 else str(mean_interval(gain))
        found.append(
            Verdict(
                "05.24",
                f"At target {eps:g} SafeStep loses nobody and its worst device is better off.",
                f"{lost} departures, gain {measured}",
                "0 departures, gain > 0 in every replicate",
                lost == 0 and bool((gain > 0).all()),
            )
        )
    return found


def draw(frame: pd.DataFrame) -> Figure:
    """Accuracy of the final model on the worst, the average and the best device (band and line)
    against the loss at which devices leave."""
    with figure_style():
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


DEVICE_ACCURACY = Study(
    name="device-accuracy",
    title="Accuracy of the devices against the target",
    question=(
        "The easier agents are satisfied, the earlier they leave and the worse the final model "
        "serves those who left. The band is from the worst to the best device."
    ),
    claims=("05.24",),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"bands": draw},
)
