"""Proper versus improper: singletons, where every proper learner loses and an improper one wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.finite_class import FiniteClass
from counterplay.core.stats import Interval, mean_interval
from counterplay.poisoning import bounds
from counterplay.poisoning.instances import hollow_star_singletons
from counterplay.poisoning.lab import OrderedERM, TreeOrderLearner
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most, covers

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def _grid(scale: Scale) -> Sequence[Params]:
    sizes = (11, 21, 51, 101) if scale == "quick" else (11, 21, 51, 101, 201, 401)
    return [{"k": k, "replicates": 80 if scale == "quick" else 2000} for k in sizes]


def _cell(params: Params, seed: int) -> Record:
    k, runs = int(params["k"] or 0), int(params["replicates"] or 0)
    rng = np.random.default_rng(seed)
    H = FiniteClass.singletons(k)
    proper, improper = OrderedERM(H), TreeOrderLearner(H, 0)
    first, second = [], []
    for _ in range(runs):
        game = hollow_star_singletons(k, (k - 1) // 2, random_state=rng)
        labels = game.details["H"].labels[game.details["i_star"]].astype(np.uint8)
        first.append(float(proper.attackable_region(labels, game.S.X)[game.X_test].mean()))
        answer = improper.fit(game.S.X, game.S.y).predict(game.X_test)
        second.append(float((answer != labels[game.X_test]).mean()))
    span = mean_interval(first, 0.9999)
    return {
        "proper": span.estimate,
        "proper_low": span.low,
        "proper_high": span.high,
        "improper": float(np.mean(second)),
        "improper_worst": float(np.max(second)),
    }


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    found = []
    for row in frame.itertuples():
        k = int(row.k)
        exact = bounds.hollow_star_rate(k, (k - 1) // 2)
        mean, worst = "mean attackable rate", "worst attackable rate"
        span = Interval(row.proper, row.proper_low, row.proper_high)
        found += [
            covers("10.14", f"proper learner on {k} singletons: {mean}", span, exact),
            at_least("10.14", f"proper learner on {k} singletons: exact rate", exact, 1 / 4),
            at_most(
                "10.15", f"TreeOrderLearner on {k} singletons: {worst}", row.improper_worst,
                1 / (k - 1), slack=1e-12,
            ),
        ]  # fmt: skip
    return found


def _figure(frame: pd.DataFrame) -> Figure:
    """Singletons on k points, (k-1)/2 rows: a consistent proper learner can be fooled at more than
    a quarter of the points however large k is; the improper TreeOrderLearner at one point at
    most."""
    figure, (axes,) = panels(1)
    k = frame.k.to_numpy()
    bars = [frame.proper - frame.proper_low, frame.proper_high - frame.proper]
    axes.errorbar(
        k, frame.proper, yerr=bars, fmt="o", color=PALETTE[1], label="proper (first consistent)"
    )
    axes.plot(k, frame.improper, "s", color=PALETTE[0], label="TreeOrderLearner (improper)")
    axes.axhline(0.25, label="any proper learner: at least 1/4", **THEORY)
    line = np.linspace(k.min(), k.max(), 100)
    axes.plot(line, 1 / (line - 1), color=PALETTE[0], linestyle=":", label="1/(k-1)")
    axes.set(xscale="log", yscale="log", xlabel="points k", ylabel="attackable rate")
    axes.set_ylim(top=1)
    axes.legend(fontsize=8, loc="lower left")
    return figure


PROPER = Study(
    name="proper",
    title="Proper learners lose, an improper one wins",
    question=(
        "Singletons have VC dimension 1 but a large hollow star. How often can a consistent proper "
        "learner be fooled, and how often the tree-order learner on the same data?"
    ),
    claims=("10.14", "10.15"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"proper": _figure},
)
