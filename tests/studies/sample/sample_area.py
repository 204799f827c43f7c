"""A small real area for the tests of the engine: how far does a fair walk get?"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import THEORY, panels
from counterplay.core.stats import mean_interval
from counterplay.errors import DataUnavailableError
from counterplay.studies.study import Area, Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def walk_grid(scale: Scale) -> Sequence[Params]:
    replicates = 4 if scale == "quick" else 8
    return [{"steps": n, "replicate": r} for n in (16, 64, 256) for r in range(replicates)]


def walk_cell(params: Params, seed: int) -> Record:
    time.sleep(float(os.environ.get("SAMPLE_PAUSE", "0")))
    rng = np.random.default_rng(seed)
    steps = int(params["steps"] or 0)
    ends = rng.choice([-1, 1], size=(500, steps)).sum(axis=1)
    return {
        "distance": np.abs(ends).mean(),
        "spread": float(np.sqrt(np.mean(ends.astype(float) ** 2))),
        "returned": int((ends == 0).sum()),
        "careless": np.random.rand(),  # noqa: NPY002  # the engine pins the global generator
        "never": math.nan,
        "beyond": -math.inf,
        "even": np.bool_(steps % 2 == 0),
        "label": f"walk {steps} µ",
        "nothing": None,
    }


def walk_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    verdicts = []
    for steps, part in frame.groupby("steps"):
        interval = mean_interval(part["spread"], 0.9999)
        verdicts.append(
            Verdict(
                claim="00.01",
                statement=f"A fair walk of {steps} steps ends sqrt(steps) away.",
                measured=str(interval),
                expected=f"{math.sqrt(steps):.4g}",
                holds=math.sqrt(steps) in interval,
            )
        )
    return verdicts


def walk_figure(frame: pd.DataFrame) -> Figure:
    figure, (ax,) = panels(1)
    ax.plot(frame["steps"], frame["spread"], "o", label="measured")
    grid = np.geomspace(16, 256, 50)
    ax.plot(grid, np.sqrt(grid), label="theory", **THEORY)
    ax.set(xscale="log", yscale="log", xlabel="steps", ylabel="root mean square distance")
    ax.legend()
    return figure


def walk_panels(frame: pd.DataFrame) -> Figure:
    """Distance and number of returns; more steps lead `further` away.

    The second paragraph is for readers of the code.
    """
    figure, axes = panels(2)
    for ax, column in zip(axes, ("distance", "returned")):
        ax.plot(frame["steps"], frame[column], "o")
        ax.set(xscale="log", xlabel="steps", ylabel=column)
    return figure


def fragile_cell(params: Params, seed: int) -> Record:
    if params["x"] == 2:
        raise ZeroDivisionError("two is not allowed")
    if params["x"] == 3:
        raise DataUnavailableError("there is no file three")
    return {"y": int(params["x"] or 0) ** 2}


WALK = Study(
    name="walk",
    title="How far a fair walk gets",
    question="A fair walk of n steps ends about sqrt(n) away from its start. Is that so?",
    claims=("00.01",),
    grid=walk_grid,
    cell=walk_cell,
    verdicts=walk_verdicts,
    figures={"spread": walk_figure, "two-panels": walk_panels},
)
FRAGILE = Study(
    name="fragile",
    title="Cells that fail",
    question="Are the other cells kept?",
    claims=(),
    grid=lambda scale: [{"x": x} for x in ((1, 2, 4) if scale == "quick" else (1, 3, 4))],
    cell=fragile_cell,
    verdicts=lambda frame: [],
)
AREA = Area(
    name="sample",
    title="Walks of a drunkard",
    story="A walker takes fair steps to the left and to the right.\n\n"
    "Nobody knows where it ends, but `sqrt(n)` says how far away.",
    studies=(WALK, FRAGILE),
)


def dying_cell(params: Params, seed: int) -> Record:
    os._exit(3)
