"""The planar learner: attackable rates between real attacks and the certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import Interval
from counterplay.studies.poisoning.plane_pictures import chords, picture
from counterplay.studies.poisoning.plane_problems import chain_cell, disc_cell
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most, covers, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE, GAMMA = 200, 0.02


def _grid(scale: Scale) -> Sequence[Params]:
    quick = scale == "quick"
    runs, tests = (2, 25) if quick else (8, 100)
    sizes = (20, 50, SIZE) if quick else (20, 50, SIZE, 1000)
    gammas = (0.002, 0.2) if quick else (0.0002, 0.002, 0.2, 0.6)
    disc = [(m, GAMMA) for m in sizes] + [(SIZE, gamma) for gamma in gammas]
    cells: list[Params] = [
        {"where": "disc", "m": m, "gamma": g, "learner": name, "runs": runs, "tests": tests}
        for m, g in disc
        for name in ("dyadic", "svm")
    ]
    repeats = 150 if quick else 2000
    return cells + [
        {"where": "chain", "m": m, "gamma": 0.0, "learner": name, "runs": repeats, "tests": 1}
        for m in (1, 2, 3, 4)
        for name in ("dyadic", "svm")
    ]


def _cell(params: Params, seed: int) -> Record:
    return chain_cell(params, seed) if params["where"] == "chain" else disc_cell(params)


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    dyadic = frame[(frame.learner == "dyadic") & (frame["where"] == "disc")]
    flipped = "certified points of the dyadic learner that an attack flipped"
    ordered = "disorder of error, attacked and not certified for the dyadic learner"
    bound = "data sets whose mass left open by the certificate exceeds 2 e' log(64/gamma)"
    disorder = max((dyadic.error - dyadic.lower).max(), (dyadic.lower - dyadic.upper).max())
    found = [
        equals("10.22", flipped, int(dyadic.broken.sum()), 0),
        at_most("10.22", ordered, disorder, 0, what="largest difference"),
        equals("10.22", bound, int(dyadic.over.sum()), 0),
    ]
    chain = frame[(frame["where"] == "chain") & (frame.learner == "dyadic")]
    return found + [
        covers(
            "10.20",
            f"dyadic learner on the chain with {2 * int(row.m)} points: attackable rate",
            Interval(row.lower, row.low, row.high),
            row.bound,
        )
        for row in chain.itertuples()
    ]


def _curves(frame: pd.DataFrame) -> Figure:
    """Half-planes on the disc, same problems for both learners, over the number of rows (left) and
    over the margin (right): the attackable rate of the dyadic learner lies between real attacks and
    its certificate, which stays below 2 e' log(64/gamma), e' the largest error of a consistent
    classifier. Two clean points move the SVM far beyond its error, and nothing bounds the
    damage from above."""
    disc = frame[frame["where"] == "disc"]
    figure, (left, right) = panels(2, width=5.2, height=4.4)
    _rates(left, disc[disc.gamma == GAMMA].sort_values("m"), "m")
    sizes = sorted(disc.m.unique())
    left.set_xscale("log")
    left.set_xticks(sizes, [str(m) for m in sizes])
    left.set(xlabel="training rows m", ylabel="fraction of points", title=f"gamma = {GAMMA}")
    part = disc[disc.m == SIZE].sort_values("gamma", ascending=False)
    _rates(right, part.assign(log=np.log2(1 / part.gamma)), "log")
    right.set(xlabel="log2(1/gamma)", ylabel="fraction of points", title=f"m = {SIZE}")
    for ax in (left, right):
        ax.minorticks_off()
        ax.set_yscale("symlog", linthresh=1e-4)
        ax.set_ylim(0, 3)
    left.legend(fontsize=7, loc="lower left")
    return figure


def _rates(ax: Axes, part: pd.DataFrame, x: str) -> None:
    dyadic, svm = part[part.learner == "dyadic"], part[part.learner == "svm"]
    ax.plot(dyadic[x], dyadic.bound, label="2 e' log(64/gamma)", **THEORY)
    ax.fill_between(dyadic[x], dyadic.lower, dyadic.upper, color=PALETTE[0], alpha=0.25)
    ax.plot(dyadic[x], dyadic.upper, "v-", color=PALETTE[0], label="dyadic: certificate")
    ax.plot(dyadic[x], dyadic.lower, "^-", color=PALETTE[0], label="dyadic: attacked")
    ax.plot(svm[x], svm.lower, "s-", color=PALETTE[1], label="SVM: attacked, 2 points")
    ax.plot(svm[x], svm.error, "s:", color=PALETTE[1], label="SVM: error")


def _chain(frame: pd.DataFrame) -> Figure:
    """The chain distribution, where no learner for half-planes is safe: rate of points flipped by
    reflecting the m training rows, with 99.99 % intervals, and what the certificate of the dyadic
    learner leaves open. Runs in which the exact SVM refuses an answer (the margin is below 64-bit
    numbers) are left out."""
    chain = frame[frame["where"] == "chain"].sort_values("m")
    figure, (ax,) = panels(1, width=6.4, height=4.0)
    for i, name in enumerate(("dyadic", "svm")):
        part = chain[chain.learner == name]
        bars = [part.lower - part.low, part.high - part.lower]
        label = {"dyadic": "dyadic: attacked", "svm": "SVM: attacked"}[name]
        ax.errorbar(part.m + 0.06 * (2 * i - 1), part.lower, bars, fmt="os"[i], capsize=3,
                    color=PALETTE[i], label=label)  # fmt: skip
        for row in part[part.refused > 0].itertuples():
            text = f"{row.refused / row.runs:.0%} refused"
            ax.annotate(text, (row.m + 0.1, row.lower), fontsize=7)
    dyadic = chain[chain.learner == "dyadic"]
    ax.plot(dyadic.m, dyadic.upper, "v-", color=PALETTE[0], label="dyadic: certificate")
    ax.plot(dyadic.m, dyadic.bound, label="any learner: (1/2)(1 - 1/2m)^m", **THEORY)
    ax.set_xticks([1, 2, 3, 4])
    ax.set(xlabel="training rows m (chain of 2m points)", ylabel="fraction of points")
    ax.set_ylim(0, 1.05)
    ax.legend(fontsize=8, loc="upper left", ncols=2)
    return figure


PLANE = Study(
    name="plane",
    title="Half-planes: the dyadic learner and the SVM",
    question=(
        "Random half-planes in the unit disc with a margin, and the chain on which nobody is safe. "
        "How large is the attackable rate of the dyadic direction learner, from below and above, "
        "and what do two points do to the SVM?"
    ),
    claims=("10.20", "10.22"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"rates": _curves, "chain-rates": _chain, "picture": picture, "proof": chords},
    version=2,
)
