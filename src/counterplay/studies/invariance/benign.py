"""Benign data: worst-case optimal is not best on average.

Source: docs/theory/11-invariance.md, "Measured".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.core.stats import mean_interval
from counterplay.studies.invariance.common import integer
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

LABELS = {
    "erm": "ERM",
    "erm_inv": "ERM-INV",
    "da": "augmentation",
    "invariant": "one-inclusion, invariant",
    "relaxed": "one-inclusion, relaxed",
}


def benign_grid(scale: Scale) -> Sequence[Params]:
    """Sample sizes and runs."""
    sizes, runs = ((6,), 40) if scale == "quick" else ((3, 6, 9), 120)
    return [{"n": n, "replicate": r} for n in sizes for r in range(runs)]


@lru_cache(maxsize=1)
def _halfspaces() -> tuple[Any, Any]:
    """Halfspaces on ten generic orbits of a reflection, and those that are constant on all."""
    from counterplay.invariance import instances

    problem = instances.halfspaces_c4(10, reflection=True).problem
    constant = problem.H[~problem.iota.any(axis=1)]  # type: ignore[union-attr]  # explicit
    return problem, constant


def benign_cell(params: Params, seed: int) -> Record:
    """Errors on natural points of ten orbits, for a random invariant halfspace."""
    from counterplay.invariance.lab import (
        DA,
        ERM,
        ErmInv,
        FiniteDistribution,
        OneInclusionInvariant,
        OneInclusionRelaxed,
    )

    rng = np.random.default_rng(seed)
    problem, constant = _halfspaces()
    target = constant[rng.integers(len(constant))]
    side = rng.integers(2, size=10)  # which of the two mirror images is natural
    natural = np.arange(10) + 10 * side
    D = FiniteDistribution(natural, target[natural], np.full(10, 0.1))
    X, y = D.sample(integer(params, "n"), rng)
    ties = int(rng.integers(2**31))  # the look-up sits on the very hypothesis that ERM picks
    learners = {
        "erm": ERM(problem, tie="random", random_state=ties),
        "erm_inv": ErmInv(ERM(problem, tie="random", random_state=ties)),
        "da": DA(problem, tie="random", random_state=rng),
        "invariant": OneInclusionInvariant(problem),
        "relaxed": OneInclusionRelaxed(problem),
    }
    return {name: D.error_of(learner.fit(X, y)) for name, learner in learners.items()}


def benign_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Both one-inclusion learners keep their bounds; the look-up costs nothing."""
    part = frame[frame["n"] == 6]
    inside = mean_interval(part["invariant"], 0.999)
    relaxed = mean_interval(part["relaxed"], 0.999)
    worse = float((frame["erm_inv"] - frame["erm"]).max())
    return [
        Verdict("11.14", "The look-up never makes ERM worse.", f"{worse:g} at most", "<= 0",
                worse <= 1e-12),
        Verdict("11.05", "The invariant learner stays below VCo / (n + 1) = 2/7.", str(inside),
                "<= 0.286", inside.low <= 2 / 7),
        Verdict("11.06", "The relaxed learner stays below VCao / (n + 1) = 3/7.", str(relaxed),
                "<= 0.429", relaxed.low <= 3 / 7),
    ]  # fmt: skip


def benign_figure(frame: pd.DataFrame) -> Figure:
    """Halfspaces with a reflection and a random invariant target: nothing is hard here. The
    one-inclusion learners are optimal in the worst case, not best on average.
    """
    figure, (ax,) = panels(1)
    sizes = sorted(set(frame["n"].astype(int)))
    for offset, ((name, label), colour) in enumerate(zip(LABELS.items(), PALETTE)):
        groups = frame.groupby("n")[name]
        place = np.arange(len(sizes)) + 0.12 * (offset - 2)
        ax.errorbar(place, groups.mean(), 2 * groups.sem(), fmt="o", capsize=3, color=colour,
                    label=label)  # fmt: skip
    ax.set_xticks(range(len(sizes)), [str(n) for n in sizes])
    ax.set(
        xlabel="number of samples n", ylabel="error", xlim=(-0.5, len(sizes) - 0.5), ylim=(0, None)
    )
    ax.legend(fontsize=8)
    return figure


BENIGN = Study(
    name="benign",
    title="Benign data: worst-case optimal is not best on average",
    question=(
        "A random invariant halfspace on ten orbits. Which learner is best where nothing is hard?"
    ),
    claims=("11.05", "11.06", "11.14"),
    grid=benign_grid,
    cell=benign_cell,
    verdicts=benign_verdicts,
    figures={"benign": benign_figure},
    version=2,
)
