"""Adapting to unknown invariance.

Source: docs/theory/11-invariance.md, "Proposition J.1 and Theorem J.1: unknown invariance".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.studies.invariance.common import integer, plain_ticks
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

LABELS = {
    "adaptive": "adaptive",
    "invariant": "one-inclusion, invariant",
    "relaxed": "one-inclusion, relaxed",
    "erm_inv": "ERM-INV",
}


def adaptive_grid(scale: Scale) -> Sequence[Params]:
    """Invariance levels, sample sizes, replicates."""
    sizes, replicates = ((20, 80), 6) if scale == "quick" else ((10, 20, 40, 80, 160), 80)
    return [{"eta": eta, "m": m, "replicate": r} for eta in (0.0, 0.05, 0.2, 0.4) for m in sizes
            for r in range(replicates)]  # fmt: skip


def adaptive_cell(params: Params, seed: int) -> Record:
    """Errors of four learners on one random instance, and the chosen level."""
    from counterplay.invariance import instances
    from counterplay.invariance.lab import (
        ERM,
        AdaptiveRelaxed,
        ErmInv,
        OneInclusionInvariant,
        OneInclusionRelaxed,
    )

    rng = np.random.default_rng(seed)
    case = instances.eta_family(5, float(params["eta"] or 0.0), random_state=rng)
    X, y = case.distribution.sample(integer(params, "m"), rng)
    adaptive = AdaptiveRelaxed(case.problem, practical=True, random_state=rng)
    learners: dict[str, Any] = {
        "adaptive": adaptive,
        "invariant": OneInclusionInvariant(case.problem),
        "relaxed": OneInclusionRelaxed(case.problem),
        "erm_inv": ErmInv(ERM(case.problem, tie="random", random_state=rng)),
    }
    out = {name: case.distribution.error_of(m.fit(X, y)) for name, m in learners.items()}
    return {**out, "level": adaptive.chosen_}


def adaptive_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Zero error at eta = 0; learning at eta = 0.4."""
    zero = frame[frame["eta"] == 0.0]
    late = frame[(frame["eta"] == 0.4) & (frame["m"] >= 80)]
    worst, mean = float(zero["adaptive"].max()), float(late["adaptive"].mean())
    return [
        Verdict("11.16", "With a fully invariant target the adaptive learner makes no error.",
                f"{worst:g} (levels {sorted(set(zero['level'].astype(int)))})", "0", worst == 0),
        Verdict("11.16", "With 40 % of the mass on mixed orbits it still learns (m >= 80).",
                f"{mean:.4f}", "< 0.02", mean < 0.02),
    ]  # fmt: skip


def adaptive_figure(frame: pd.DataFrame) -> Figure:
    """The adaptive learner makes no error at eta = 0, like the invariant one. At larger eta and few
    samples it is worse than the relaxed learner and ERM-INV: half of its sample is for validation.
    """
    figure, (left, right) = panels(2, width=5.4)
    m = int(frame["m"].min())
    part = frame[frame["m"] == m]
    for offset, ((name, label), colour) in enumerate(zip(LABELS.items(), PALETTE)):
        groups = part.groupby("eta")[name]
        place = np.arange(4) + 0.15 * (offset - 1.5)
        left.errorbar(place, groups.mean(), 2 * groups.sem().fillna(0), fmt="o", capsize=3,
                      color=colour, label=label)  # fmt: skip
    left.set_xticks(range(4), ["0", "0.05", "0.2", "0.4"])
    left.set(xlabel="invariance level eta of the target", ylabel="error",
             title=f"{m} samples")  # fmt: skip
    left.legend(fontsize=8)
    for offset, (eta, rows) in enumerate(frame.groupby("eta")):
        counts = rows["level"].astype(int).value_counts(normalize=True).sort_index()
        right.bar(counts.index + 0.18 * (offset - 1.5), counts, 0.17, label=f"eta = {eta:g}")
    right.set(xlabel="chosen level i", ylabel="share of runs")
    right.set_xticks(range(int(frame["level"].max()) + 1))
    right.legend(fontsize=8)
    return figure


def curves_figure(frame: pd.DataFrame) -> Figure:
    """Error against the number of samples at every invariance level. The adaptive learner
    makes no error at eta = 0; at larger eta it pays for its validation half. Seen orbits let
    even the invariant learner succeed with enough samples.
    """
    etas = sorted(set(frame["eta"]))
    figure, axes = panels(len(etas), width=3.6, height=3.6)
    for ax, eta in zip(axes, etas):
        part = frame[frame["eta"] == eta]
        for place, (name, label) in enumerate(LABELS.items()):
            colour, marker = PALETTE[place], "osD^"[place]
            groups = part.groupby("m")[name]
            ax.errorbar(groups.mean().index * 1.06 ** (place - 1.5), groups.mean(),
                        2 * groups.sem().fillna(0), fmt=marker + "-", capsize=2, color=colour,
                        label=label)  # fmt: skip
        ax.set(xscale="log", xlabel="number of samples m", title=f"eta = {eta:g}",
               ylim=(-0.01, 0.33))  # fmt: skip
        plain_ticks(ax, sorted(set(part["m"].astype(int))))
    axes[0].set_ylabel("error")
    axes[-1].legend(fontsize=7)
    return figure


ADAPTIVE = Study(
    name="adaptive",
    title="Adapting to unknown invariance",
    question=(
        "The target is constant on all but a share eta of the orbits. Does the adaptive learner "
        "find the right level?"
    ),
    claims=("11.16",),
    grid=adaptive_grid,
    cell=adaptive_cell,
    verdicts=adaptive_verdicts,
    figures={"adaptive": adaptive_figure, "curves": curves_figure},
)
