"""Heterogeneity by local steps, and the choice of the step size when nobody leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterplay.core.figures import PALETTE, panels
from counterplay.studies.defection.digits import METHODS, cell, cells
from counterplay.studies.study import Params, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def panel_grid(scale: Scale) -> list[Params]:
    """Shares of own data by local steps, for FedAvg and SafeStep."""
    rules, step = ("fedavg", "safe_step"), [0.5]
    if scale == "quick":
        return cells(1, own=(0.9, 0.1), local_steps=(1, 5), eps=(0.3, 0.6), method=rules,
                     step_size=step, rounds=[130])  # fmt: skip
    return cells(5, own=(0.9, 0.7, 0.5, 0.1), local_steps=(1, 5, 10), method=rules,
                 eps=(0.1, 0.2, 0.3, 0.5, 1.0), step_size=step, rounds=[1500])  # fmt: skip


def panel_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Departures hurt where agents differ and hardly where they are alike."""
    strict = frame["eps"].min()
    plain = frame[(frame["method"] == "fedavg") & (frame["eps"] == strict)]
    fall = (plain["peak"] - plain["average"]).groupby(plain["own"]).mean()
    where = f"at the strictest target ({strict:g})"
    return [
        at_least("05.24", f"With own share 0.9 FedAvg falls by at least 10 points {where}.",
                 float(fall[0.9]), 0.10),
        at_most("05.24", f"With own share 0.1 it falls by at most 2 points {where}.",
                float(fall[0.1]), 0.02),
    ]  # fmt: skip


def draw_panels(frame: pd.DataFrame) -> Figure:
    """Final average accuracy (solid) and worst device (dotted) against the target, one panel per
    share of own data; colours are rules, markers local steps."""
    owns = sorted(frame["own"].unique(), reverse=True)
    figure, axes = panels(len(owns), width=4.4, height=3.8)
    for ax, own in zip(axes, owns):
        for i, method in enumerate(("fedavg", "safe_step")):
            for marker, (steps, rows) in zip(
                "os^", frame[frame["method"] == method].groupby("local_steps")
            ):
                mean = rows[rows["own"] == own].groupby("eps")[["average", "worst"]].mean()
                label = f"{METHODS[method]}, K={steps}"
                style: Any = {"color": PALETTE[i], "marker": marker, "markersize": 5}
                ax.plot(mean.index, mean["average"], label=label, **style)
                ax.plot(mean.index, mean["worst"], linestyle=":", **style)
        ax.set(xlabel="target loss eps", title=f"own share {own:g}", ylim=(0, 1.02))
    axes[0].set_ylabel("accuracy: average (solid), worst (dotted)")
    axes[-1].legend(fontsize=8, loc="lower left")
    return figure


def tuning_grid(scale: Scale) -> list[Params]:
    """Step sizes by local steps, with targets nobody reaches."""
    steps, method = (0.03, 0.1, 0.3, 1.0, 3.0), ["fedavg"]
    if scale == "quick":
        return cells(1, method=method, eps=[0.0], local_steps=(1, 5), step_size=steps, rounds=[40])
    return cells(5, method=method, own=(0.9, 0.7, 0.5, 0.1), eps=[0.0], local_steps=(1, 5, 10),
                 step_size=steps, rounds=[500])  # fmt: skip


def tuning_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Nobody leaves at target 0, whatever the step."""
    lost = float(frame["defections"].sum())
    return [equals("05.19", "An agent with target 0 never leaves.", lost, 0.0, what="departures")]


def draw_tuning(frame: pd.DataFrame) -> Figure:
    """Average accuracy after a fixed number of rounds against the step size, nobody leaving;
    one line per number of local steps, which share the step."""
    owns = sorted(frame["own"].unique(), reverse=True)
    figure, axes = panels(len(owns), width=4.4, height=3.6)
    for ax, own in zip(axes, owns):
        for i, (steps, rows) in enumerate(frame[frame["own"] == own].groupby("local_steps")):
            mean = rows.groupby("step_size")["average"].mean()
            ax.plot(mean.index, mean, marker="o", color=PALETTE[i], label=f"K={steps}")
        ax.set_xscale("log")
        ax.set(xlabel="step size", title=f"own share {own:g}", ylim=(0, 1.02))
    axes[0].set_ylabel("average accuracy")
    axes[0].legend()
    return figure


Q_BY_K = Study(
    name="q-by-k",
    title="Heterogeneity by local steps",
    question=(
        "Agents keep a share of their own digit and mix the rest. Departures hurt where agents "
        "differ; where they are alike they cost nothing, and protection is not needed."
    ),
    claims=("05.24",),
    grid=panel_grid,
    cell=cell,
    verdicts=panel_verdicts,
    figures={"panels": draw_panels},
)

FINE_TUNE = Study(
    name="fine-tune",
    title="The step size when nobody leaves",
    question=(
        "With target 0 nobody leaves, and federated averaging is ordinary training: this is how "
        "the source chose its step sizes."
    ),
    claims=("05.19",),
    grid=tuning_grid,
    cell=cell,
    verdicts=tuning_verdicts,
    figures={"tuning": draw_tuning},
)
