"""Augmentation helps but is not optimal.

Source: docs/theory/11-invariance.md, "Theorem 11.2: augmentation is not optimal".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import mean_interval
from counterplay.studies.invariance.common import EPS, integer
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


LABELS = {
    "erm": "ERM",
    "da": "augmentation",
    "erm_inv": "ERM-INV",
    "relaxed": "one-inclusion, relaxed",
    "one_inclusion": "one-inclusion, invariant",
}


def proper_grid(scale: Scale) -> Sequence[Params]:
    """Number of points u*, sample sizes, replicates."""
    ds, sizes, replicates = ((4,), (2, 6, 24, 96), 12) if scale == "quick" else (
        (4, 8, 16), (1, 2, 4, 8, 16, 32, 64, 128, 256), 20
    )  # fmt: skip
    return [{"d": d, "m": m, "replicate": r} for d in ds for m in sizes for r in range(replicates)]


def proper_cell(params: Params, seed: int) -> Record:
    """Mean error of all learners over a few random instances; one-inclusion on the first two."""
    from counterplay.invariance import instances
    from counterplay.invariance.lab import (
        DA,
        ERM,
        ErmInv,
        OneInclusionInvariant,
        OneInclusionRelaxed,
    )

    d, m = integer(params, "d"), integer(params, "m")
    rng = np.random.default_rng(seed)
    errors: dict[str, list[float]] = {name: [] for name in LABELS}
    problem = instances.da_lower_bound(d, EPS, random_state=0).problem
    relaxed, invariant = OneInclusionRelaxed(problem), OneInclusionInvariant(problem)
    for index in range(12):
        case = instances.da_lower_bound(d, EPS, random_state=rng)
        X, y = case.distribution.sample(m, rng)
        learners: dict[str, Any] = {
            "erm": ERM(problem, tie="random", random_state=rng),
            "da": DA(problem, tie="random", random_state=rng),
            "erm_inv": ErmInv(ERM(problem, tie="random", random_state=rng)),
        }
        if index < (2 if d <= 8 else 1):
            learners["one_inclusion"] = invariant.fresh()
            learners["relaxed"] = relaxed.fresh()
        for name, learner in learners.items():
            errors[name].append(case.distribution.error_of(learner.fit(X, y)))
    return {name: float(np.mean(values)) for name, values in errors.items()}


def proper_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Proper learners on the exact curve; the invariant learner at zero."""
    from counterplay.invariance import bounds

    verdicts = []
    d = int(frame["d"].min())
    for m in (6, 24) if 6 in set(frame["m"]) else (8, 32):
        part = frame[(frame["m"] == m) & (frame["d"] == d)]
        exact = bounds.proper_error(d, EPS, m)
        interval = mean_interval(part["da"], 0.9999)
        verdicts.append(
            Verdict(
                "11.07", f"Augmentation with {m} samples (d = {d}) follows the exact curve.",
                str(interval), f"{exact:.4f}", exact in interval,
            )
        )  # fmt: skip
    worst = float(frame["one_inclusion"].max())
    verdicts.append(
        Verdict("11.07", "The invariant one-inclusion learner makes no error for any sample size.",
                f"{worst:g}", "0", worst == 0.0)
    )  # fmt: skip
    part = frame.groupby(["d", "m"])["relaxed"].mean()
    ratio = max(float(v) / min(1.0, d / (m + 1)) for (d, m), v in part.items())
    verdicts.append(
        Verdict("11.06", "The relaxed one-inclusion learner stays below VCao / (m + 1).",
                f"{ratio:.3f} of the bound", "<= 1", ratio <= 1)
    )  # fmt: skip
    return verdicts


def proper_figure(frame: pd.DataFrame) -> Figure:
    """Augmentation follows the exact curve of all proper learners (dashed); the one-inclusion
    learners do better (dotted: their bound d/(m+1)). Vertical line: m = d/(64 eps), below which no
    proper learner succeeds; star: where the error of proper learners reaches eps.
    """
    from counterplay.invariance import bounds

    ds = sorted(set(frame["d"].astype(int)))
    figure, axes = panels(len(ds), width=5.6 if len(ds) < 3 else 4.6)
    for ax, d in zip(axes, ds):
        part = frame[frame["d"] == d]
        for (name, label), colour, marker in zip(LABELS.items(), PALETTE, "os^Dv"):
            groups = part.groupby("m")[name]
            spread = 2 * groups.sem().fillna(0)
            ax.errorbar(groups.mean().index, groups.mean(), spread, fmt=marker, color=colour,
                        label=label, alpha=0.85, capsize=2)  # fmt: skip
        grid = np.unique(np.geomspace(1, max(part["m"].max(), 12 * d), 60).astype(int))
        ax.plot(grid, [bounds.proper_error(d, EPS, int(m)) for m in grid], **THEORY)
        ax.plot(grid, [d / (m + 1) for m in grid], color=PALETTE[3], ls=":", lw=1.2)
        ax.axvline(d / (64 * EPS), color="#999999", lw=0.8)
        ax.plot(d / EPS * np.log(15) / 16, EPS, "*", color="#444444", ms=12)
        ax.set(xscale="log", xlabel="number of samples m", ylabel="error", ylim=(-0.005, 0.27),
               title=f"d = {d}, eps = 1/64")  # fmt: skip
    axes[0].legend(fontsize=8)
    return figure


def least_figure(frame: pd.DataFrame) -> Figure:
    """How many samples augmentation (or any proper learner) needs for error eps: exact values, and
    the limit ln(15)/16 d/eps (dashed). The invariant one-inclusion learner needs none.
    """
    from counterplay.invariance import bounds

    figure, (ax,) = panels(1)
    eps = np.array([1 / 16, 1 / 32, 1 / 64, 1 / 128])
    for d, colour in zip((2, 4, 8, 16, 32), PALETTE):
        ax.plot(d / eps, [bounds.proper_least_m(d, float(e)) for e in eps], "o", color=colour,
                label=f"d = {d}")  # fmt: skip
    line = np.geomspace(32, 4096, 20)
    ax.plot(line, np.log(15) / 16 * line, label="0.1693 d / eps", **THEORY)
    ax.set(xscale="log", yscale="log", xlabel="d / eps", ylabel="least m with error <= eps")
    ax.legend(fontsize=8)
    return figure


NOT_OPTIMAL = Study(
    name="not-optimal",
    title="Augmentation helps, but is not optimal",
    question=(
        "Every proper learner, augmented or not, follows one exact curve; learners that look at "
        "the orbit of the test point need no data at all."
    ),
    claims=("11.06", "11.07"),
    grid=proper_grid,
    cell=proper_cell,
    verdicts=proper_verdicts,
    figures={"not-optimal": proper_figure, "least-m": least_figure},
)
