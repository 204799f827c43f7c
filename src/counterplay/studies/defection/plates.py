"""Contour plates: four problems in the plane and the paths of the rules on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.core.validation import FloatArray
from counterplay.defection import ADAGD, FedAvg, FederationGame, SafeStep, Server, instances, play
from counterplay.defection.instances import Construction
from counterplay.defection.lab import bad_region_linear
from counterplay.federated.reports import Rule
from counterplay.studies.defection.curves import pack, thinned, unpack
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RULES = ("equal weights", "ADA-GD", "SafeStep")
COLOURS = dict(zip(RULES, (PALETTE[1], PALETTE[2], PALETTE[0])))
STYLES = dict(zip(RULES, ("-", "--", "-")))
DELTA = 0.05
START, UNIFORM = "bad start", "uniform rules fail"
PARALLEL, ENDLESS = "parallel gradients", "endless"
# problem: step sizes of the three rules and the most rounds at both scales
SETTINGS: dict[str, tuple[tuple[float, float, float], tuple[int, int]]] = {
    START: ((0.25, 0.25, 0.25), (100, 100)),
    UNIFORM: ((0.01, 1 / 64, 0.5), (3000, 3000)),
    PARALLEL: ((0.01, 0.01, 0.1), (2000, 100_000)),
    ENDLESS: ((0.02236, 0.02236, 1 / 6), (2000, 1_000_000)),
}


def construction(name: str) -> Construction:
    """Return the problem of one plate."""
    if name == START:
        return instances.bad_init_example()
    if name == UNIFORM:
        return instances.uniform_fails_family(0.0, 0.05)
    if name == PARALLEL:
        return instances.non_heterogeneous_example()
    return instances.nonterminating_example()


def _rule(name: str) -> Rule:
    if name == "equal weights":
        return FedAvg()
    return ADAGD(DELTA) if name == "ADA-GD" else SafeStep(DELTA)


def _grid(scale: Scale) -> list[Params]:
    return [
        {"problem": problem, "rule": rule, "rounds": limits[scale == "full"]}
        for problem, (_, limits) in SETTINGS.items()
        for rule in RULES
    ]


def _cell(params: Params, seed: int) -> Record:
    name, rule = str(params["problem"]), str(params["rule"])
    c = construction(name)
    eta = SETTINGS[name][0][RULES.index(rule)]
    rounds = int(params["rounds"] or 1)
    every = max(1, rounds // 5000)
    run = play(
        Server(_rule(rule), c.w0, step_size=eta),
        FederationGame(c.problem, c.eps, keep_every=every),
        rounds=rounds,
    )
    kept = np.asarray(run.models)
    path = np.vstack([kept[thinned(len(kept))], run.w])
    return {
        "path": pack(path),
        "loss_0": float(run.loss[0]),
        "loss_1": float(run.loss[1]),
        "left_0": int(run.defect_round[0]),
        "left_1": int(run.defect_round[1]),
        "status": run.status,
        "eps": float(c.eps[0]),
    }


def _row(frame: pd.DataFrame, problem: str, rule: str) -> Any:
    return frame[(frame["problem"] == problem) & (frame["rule"] == rule)].iloc[0]


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    protected = frame[(frame["rule"] != "equal weights") & (frame["problem"] != START)]
    stayed = int(((protected["left_0"] < 0) & (protected["left_1"] < 0)).sum())
    start = frame[frame["problem"] == START]
    mean = float(((start["loss_0"] + start["loss_1"]) / 2).min())
    third, fourth = _row(frame, UNIFORM, "equal weights"), _row(frame, PARALLEL, "equal weights")
    endless = frame[(frame["problem"] == ENDLESS) & (frame["rule"] != "equal weights")]
    return [
        at_least("05.01", "From the bad start no rule gets the mean loss below one half.",
                 mean, construction(START).expected["smallest_mean_loss"]),
        at_least("05.03", "Where uniform rules fail, equal weights end with a mean loss of a half.",
                 (third["loss_0"] + third["loss_1"]) / 2, 0.5, slack=1e-12),
        equals("05.06", "ADA-GD and SafeStep lose nobody on the other three problems.",
               stayed, len(protected), what="runs"),
        equals("05.13", "With parallel gradients equal weights lose agent 0 and serve it badly.",
               fourth["loss_0"], construction(PARALLEL).expected["loss"][0], tolerance=0.02),
        equals("05.12", "On the endless problem no protecting rule ever stops.",
               int((endless["status"] == "max_rounds").sum()), len(endless), what="runs"),
    ]  # fmt: skip


def _plate(ax: Axes, c: Construction, box: tuple[float, float, float, float]) -> None:
    """Contours of the mean loss and the two targets."""
    x, y = np.meshgrid(np.linspace(box[0], box[1], 110), np.linspace(box[2], box[3], 90))
    F = np.array([c.problem.losses(w) for w in np.stack([x.ravel(), y.ravel()], axis=1)])
    mean = F.mean(axis=1).reshape(x.shape)
    levels = np.linspace(0.04, 1.0, 13) * float(mean.max())
    ax.contour(x, y, mean, levels=levels, colors="#bbbbbb", linewidths=0.7)
    for m, colour in ((0, PALETTE[4]), (1, PALETTE[5])):
        excess = (F[:, m] - c.eps[m]).reshape(x.shape)
        ax.contourf(x, y, excess, levels=[-1e9, 0.0], colors=[colour], alpha=0.35)


def _paths(ax: Axes, frame: pd.DataFrame, problem: str, rules: tuple[str, ...] = RULES) -> None:
    for rule in rules:
        row = _row(frame, problem, rule)
        path = unpack(row["path"], 2)
        ax.plot(path[:, 0], path[:, 1], STYLES[rule], color=COLOURS[rule], lw=2.0, label=rule)
        ax.plot(*path[-1], "o", color=COLOURS[rule], markersize=5)
    start = construction(problem).w0
    ax.plot(*start, "k*", markersize=10)


def _box(ax: Axes, box: tuple[float, float, float, float], title: str) -> None:
    ax.set(xlim=box[:2], ylim=box[2:], xlabel="parameter w_1", ylabel="parameter w_2", title=title)
    ax.grid(visible=False)


def _starts(frame: pd.DataFrame) -> Figure:
    """Left: starts in the red region are lost for every first-order protocol; the target
    sets of the two agents are blue and orange. Right: with equal weights agent 1 leaves
    when its (orange) target is reached, and the run ends far from it.
    """
    figure, (left, right) = panels(2, width=5.0)
    box = (-1.5, 1.5, -1.2, 1.2)
    _plate(left, construction(START), box)
    x, y = np.meshgrid(np.linspace(box[0], box[1], 500), np.linspace(box[2], box[3], 400))
    bad = bad_region_linear(np.stack([x, y], axis=-1), 0.1).astype(float)
    left.contourf(x, y, bad, levels=[0.5, 1.5], colors=["#cc3311"], alpha=0.45)
    _paths(left, frame, START, ("equal weights",))
    _box(left, box, "bad starts (red)")
    wide = (-0.3, 2.3, -0.3, 1.3)
    _plate(right, construction(UNIFORM), wide)
    _paths(right, frame, UNIFORM)
    _box(right, wide, "equal weights lose agent 1")
    right.legend(fontsize=8, loc="lower right")
    return figure


def _assumptions(frame: pd.DataFrame) -> Figure:
    """Left: parallel gradients; after agent 0 has left (blue strip) agent 1 drives the model
    across the strip, while ADA-GD keeps both and stalls. Right: unbounded sublevel sets; the
    protecting rules drift to the right for ever.
    """
    figure, (left, right) = panels(2, width=5.0)
    box = (-3.4, 4.0, -4.0, 9.0)
    _plate(left, construction(PARALLEL), box)
    _paths(left, frame, PARALLEL)
    _box(left, box, "parallel gradients")
    left.legend(fontsize=8, loc="upper left")
    ends = frame[frame["problem"] == ENDLESS]["path"].map(_rightmost)
    wide = (-1.5, float(ends.max()) + 1.5, -3.0, 5.6)
    _plate(right, construction(ENDLESS), wide)
    _paths(right, frame, ENDLESS)
    _box(right, wide, "unbounded sublevel sets")
    return figure


def _rightmost(text: str) -> float:
    path: FloatArray = unpack(text, 2)
    return float(path[:, 0].max())


PLATES = Study(
    name="plates",
    title="Four problems in the plane",
    question=(
        "Where do first-order protocols fail, and why? A lost start, a family that defeats equal "
        "weights, parallel gradients, and unbounded sublevel sets, each with the paths of three "
        "rules."
    ),
    claims=("05.01", "05.03", "05.06", "05.12", "05.13"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"starts-and-weights": _starts, "assumptions": _assumptions},
)
