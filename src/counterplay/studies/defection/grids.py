"""Heterogeneity by local steps, and the choice of the step size when nobody leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterplay.core.figures import PALETTE, figure_style, panels
from counterplay.studies.defection.digits import METHODS, digits_run, outcome
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def panel_grid(scale: Scale) -> list[Params]:
    """Shares of own data by local steps, for FedAvg and SafeStep."""
    quick = scale == "quick"
    return [
        {
            "method": method,
            "own": own,
            "eps": eps,
            "step_size": 0.5,
            "local_steps": steps,
            "rounds": 130 if quick else 1500,
            "replicate": replicate,
        }
        for own in ((0.9, 0.1) if quick else (0.9, 0.7, 0.5, 0.1))
        for steps in ((1, 5) if quick else (1, 5, 10))
        for eps in ((0.3, 0.6) if quick else (0.1, 0.2, 0.3, 0.5, 1.0))
        for method in ("fedavg", "safe_step")
        for replicate in range(1 if quick else 5)
    ]


def cell(params: Params, seed: int) -> Record:
    """Train one replicate to the end."""
    return outcome(digits_run(params))


def panel_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Departures hurt where agents differ and hardly where they are alike."""
    strict = frame["eps"].min()
    plain = frame[(frame["method"] == "fedavg") & (frame["eps"] == strict)]
    fall = (plain["peak"] - plain["average"]).groupby(plain["own"]).mean()
    different, alike = float(fall[0.9]), float(fall[0.1])
    return [
        Verdict(
            "05.24",
            "FedAvg falls from its peak by at least 10 points with own share 0.9, 2 with 0.1.",
            f"{different:.3f} and {alike:.3f}",
            ">= 0.10 and <= 0.02",
            different >= 0.10 and alike <= 0.02,
        )
    ]


def draw_panels(frame: pd.DataFrame) -> Figure:
    """Final average accuracy (solid) and worst device (dotted) against the target, one panel per
    share of own data; colours are rules, markers local steps."""
    owns = sorted(frame["own"].unique(), reverse=True)
    with figure_style():
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
    quick = scale == "quick"
    return [
        {
            "method": "fedavg",
            "own": own,
            "eps": 0.0,
            "step_size": step,
            "local_steps": steps,
            "rounds": 40 if quick else 500,
            "replicate": replicate,
        }
        for own in ((0.9,) if quick else (0.9, 0.7, 0.5, 0.1))
        for steps in ((1, 5) if quick else (1, 5, 10))
        for step in (0.03, 0.1, 0.3, 1.0, 3.0)
        for replicate in range(1 if quick else 5)
    ]


def tuning_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Nobody leaves at target 0, whatever the step."""
    lost = int(frame["defections"].sum())
    best = frame.groupby("step_size")["average"].mean().idxmax()
    return [
        Verdict(
            "05.19",
            "An agent with target 0 never leaves.",
            f"{lost} departures in {len(frame)} runs; best step size {best:g}",
            "0 departures",
            lost == 0,
        )
    ]


def draw_tuning(frame: pd.DataFrame) -> Figure:
    """Average accuracy after a fixed number of rounds against the step size, nobody leaving;
    one line per number of local steps, which share the step."""
    owns = sorted(frame["own"].unique(), reverse=True)
    with figure_style():
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
