"""Size of the label test on data that had no part in its tuning, and its power.

Rows are real; labels are invariant by construction, or change for a planted share of the orbits.
Source: docs/theory/22-symmetry.md, "Calibration".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import clopper_pearson
from counterplay.studies.invariance.common import integer
from counterplay.studies.invariance.symmetry_worlds import BUNDLED, OWN, TAUGHT, draw
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

LEVEL = 0.05
_BLOCK = 20  # runs per cell of the store
_KEYS = ["data", "n", "share", "noise", "violating"]
_COUNTS = ["rejected", "rejected_once", "covered", "safe", "testable", "runs"]


def size_grid(scale: Scale) -> Sequence[Params]:
    """Data, rows, share of moved rows, label noise; 200 runs each in blocks of 20."""
    if scale == "quick":
        return _cells(BUNDLED, 500, [(0.4, 0.3)], 0.0, 6)
    worlds = (*OWN, *TAUGHT, *BUNDLED) if os.environ.get("COUNTERPLAY_DATA") else BUNDLED
    kinds = [(share, noise) for share in (0.15, 0.4) for noise in (0.0, 0.3)]
    return [*_cells(worlds, 500, kinds, 0.0, 200), *_cells(worlds, 1200, [(0.4, 0.3)], 0.0, 200)]


def power_grid(scale: Scale) -> Sequence[Params]:
    """Rows and share of violating orbits, 40 % of rows moved, no label noise."""
    if scale == "quick":
        return _cells(BUNDLED, 800, [(0.4, 0.0)], 0.25, 3)
    cells = []
    for n in (400, 800, 1400):
        for violating in (0.125, 0.25, 0.5):
            cells += _cells(BUNDLED, n, [(0.4, 0.0)], violating, 40)
    if os.environ.get("COUNTERPLAY_DATA"):
        for violating in (0.3, 0.6, 1.0):
            for n in (500, 1500, 3000):
                cells += _cells((*OWN[:2], *TAUGHT[2:]), n, [(0.4, 0.0)], violating, 40)
    return cells


def _cells(
    worlds: Sequence[str],
    n: int,
    kinds: Sequence[tuple[float, float]],
    violating: float,
    runs: int,
) -> list[Params]:
    return [
        {"data": name, "n": n, "share": share, "noise": noise, "violating": violating,
         "block": block, "runs": min(runs, _BLOCK)}
        for block in range(max(1, runs // _BLOCK)) for name in worlds for share, noise in kinds
    ]  # fmt: skip


def size_cell(params: Params, seed: int) -> Record:
    """Rejections at level .05 by five repeats and by one, and coverage, in some runs of a cell."""
    from counterplay.invariance.label_test import label_test
    from counterplay.invariance.symmetry import read_question

    rng = np.random.default_rng(seed)
    counts = dict.fromkeys(_COUNTS[:-1], 0)
    tuples, detectable, truth = [], [], []
    for _ in range(integer(params, "runs")):
        share, noise, bad = (float(params[key] or 0) for key in ("share", "noise", "violating"))
        one = draw(str(params["data"]), integer(params, "n"), share, noise, bad, rng)
        question = read_question(one.X, one.y, load_group(params))
        test = label_test(question.embed(question.rows), question.y, question.mover(),
                          clusters=question.clusters, rng=rng)  # fmt: skip
        said = test.testable
        counts["testable"] += said
        counts["rejected"] += said and test.p_value <= LEVEL
        counts["rejected_once"] += said and test.repeats[0].p_value <= LEVEL
        counts["covered"] += not said or test.low(LEVEL) <= one.eta <= test.high(LEVEL)
        counts["safe"] += not said or test.safe(LEVEL) >= one.eta
        tuples.append(test.n_tuples)
        detectable.append(test.detectable(LEVEL))
        truth.append(one.eta)
    return {
        **{key: int(value) for key, value in counts.items()}, "tuples": float(np.mean(tuples)),
        "detectable": float(np.mean(detectable)), "eta": float(np.mean(truth)),
    }  # fmt: skip


def load_group(params: Params) -> object:
    """The group of the world of a cell."""
    from counterplay.studies.invariance.symmetry_worlds import load

    return load(str(params["data"])).group


def summed(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per cell of the grid: counts of all blocks added."""
    sums = frame.groupby(_KEYS, sort=False)[_COUNTS].sum()
    means = frame.groupby(_KEYS, sort=False)[["tuples", "detectable", "eta"]].mean()
    return sums.join(means).reset_index()


def size_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Rejections of true symmetries, by five repeats and by one."""
    cells = summed(frame)
    out = []
    for column, words in (("rejected", "five repeats"), ("rejected_once", "one repeat")):
        low = [clopper_pearson(int(k), int(n), 0.99).low
               for k, n in zip(cells[column], cells["runs"])]  # fmt: skip
        most = int(cells[column].max())
        out.append(
            at_most("22.02", f"No null cell rejects significantly more often than the level "
                    f"({words}; at most {most} rejections in a cell).", max(low), LEVEL,
                    what="lower 99 % bound of the largest size")
        )  # fmt: skip
    digits = cells[cells["data"].isin(BUNDLED)]
    share = float((digits["rejected"] / digits["runs"]).max())
    out.append(at_most("22.02", "Turned digits: at most 6 of 60 per cell.", share, 0.1))
    return out


def power_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Coverage of the interval, the safe bound, and power on turned digits."""
    cells = summed(frame)
    share = float((cells["covered"] / cells["runs"]).min())
    safe = float((cells["safe"] / cells["runs"]).min())
    out = [
        Verdict("22.03", "The interval covers the true violation rate.", f"{share:.3f}",
                ">= .95 in every power cell", share >= 0.95),
        Verdict("22.07", "The safe bound covers the true violation rate.", f"{safe:.3f}",
                ">= .95 in every power cell", safe >= 0.95),
    ]  # fmt: skip
    for n, violating in ((1400, 0.125), (800, 0.25)):
        mine = cells[cells["data"].isin(BUNDLED) & (cells["n"] == n)]
        mine = mine[mine["violating"] == violating]
        if len(mine):
            power = float((mine["rejected"] / mine["runs"]).iloc[0])
            words = f"Power on turned digits, {violating:.1%} of the classes, {n} rows."
            out.append(Verdict("22.04", words, f"{power:.2f}", ">= .8", power >= 0.8))
    return out


def size_figure(frame: pd.DataFrame) -> Figure:
    """Share of runs in which a true symmetry is called violated at level .05 (dashed), by five
    repeats (filled) and by one repeat (hollow). 200 runs per cell; bars are 95 % intervals.
    """
    cells = summed(frame)
    figure, (ax,) = panels(1, width=7.5, height=0.2 * len(cells) + 1.4)
    for place, row in enumerate(cells.to_dict(orient="records")):
        for column, shift, fill in (("rejected", -0.15, PALETTE[0]), ("rejected_once", 0.15, "w")):
            rate = clopper_pearson(int(row[column]), int(row["runs"]))
            spread = [[rate.estimate - rate.low], [rate.high - rate.estimate]]
            ax.errorbar(rate.estimate, place + shift, xerr=spread, fmt="o", ms=4, mfc=fill,
                        color=PALETTE[0], lw=1)  # fmt: skip
    names = [f"{r['data']}, {r['n']} rows, {r['share']:.0%} moved, noise {r['noise']:.1f}"
             for r in cells.to_dict(orient="records")]  # fmt: skip
    ax.set_yticks(np.arange(len(cells)), names, fontsize=7)
    ax.invert_yaxis()
    ax.axvline(LEVEL, **THEORY)
    ax.set(xlabel="share of runs called violated", xlim=(-0.005, None))
    return figure


def power_figure(frame: pd.DataFrame) -> Figure:
    """Share of runs in which a planted violation is found, by the number of rows; one line per
    share of violating orbits, dashed the level. 40 % of rows moved, five repeats.
    """
    cells = summed(frame)
    worlds = list(dict.fromkeys(cells["data"]))
    figure, axes = panels(len(worlds), width=2.9, height=3.4)
    for ax, name in zip(axes, worlds):
        mine = cells[cells["data"] == name]
        for colour, (share, part) in zip(PALETTE, mine.groupby("violating")):
            rates = [clopper_pearson(int(k), int(n))
                     for k, n in zip(part["rejected"], part["runs"])]  # fmt: skip
            spread = [[r.estimate - r.low for r in rates], [r.high - r.estimate for r in rates]]
            ax.errorbar(part["n"], [r.estimate for r in rates], yerr=spread, marker="o", ms=4,
                        color=colour, capsize=2, label=f"{share:.0%} violate")  # fmt: skip
        ax.axhline(LEVEL, **THEORY)
        ax.set_title(name, fontsize=9)
        ax.set(xlabel="rows", ylim=(-0.03, 1.03), xscale="log")
        ticks = sorted(mine["n"].unique())
        ax.set_xticks(ticks, [str(t) for t in ticks])
        ax.minorticks_off()
        ax.legend(fontsize=7)
    axes[0].set_ylabel("share of runs called violated")
    return figure


SIZE = Study(
    name="symmetry-size",
    title="Size of the label test",
    question="How often is a true symmetry called violated, on data the test was not tuned on?",
    claims=("22.02",),
    grid=size_grid,
    cell=size_cell,
    verdicts=size_verdicts,
    figures={"symmetry-size": size_figure},
    version=3,
)
POWER = Study(
    name="symmetry-power",
    title="Power of the label test",
    question="How many rows does it take to find a violation, and do the bounds cover it?",
    claims=("22.03", "22.04", "22.07"),
    grid=power_grid,
    cell=size_cell,
    verdicts=power_verdicts,
    figures={"symmetry-power": power_figure},
    version=2,
)
