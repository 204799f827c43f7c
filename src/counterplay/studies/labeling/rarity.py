"""How rare is it that joining hurts somebody?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.core.seeds import generator
from counterplay.core.stats import clopper_pearson
from counterplay.labeling import B2IR, GBS, PoolProblem, incentive_report, instances
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


KINDS = ("random", "embedded", "climbed")
LABELS = {
    "random": "random",
    "embedded": "known violation, perturbed",
    "climbed": "perturbed, then climbed",
}
CLIMB = 60  # steps of the search for harmful problems


def _grid(scale: Scale) -> list[Params]:
    trials = 15 if scale == "quick" else 1000
    return [{"kind": kind, "skew": skew, "trials": trials if kind != "climbed" else trials // 3}
            for kind in KINDS for skew in (1, 3, 9, 27)]  # fmt: skip


def _cell(params: Params, seed: int) -> Record:
    rng = generator(seed)
    trials, skew = int(params["trials"] or 0), int(params["skew"] or 1)
    make = {"random": _random_problem, "climbed": _climbed_violation,
            "embedded": _disguised_violation}[str(params["kind"])]  # fmt: skip
    violations = repaired = 0
    harm = 0.0
    for _ in range(trials):
        problem = make(rng, skew)
        report = incentive_report(GBS(), GBS(), problem)
        violations += not report.is_ir
        harm = max(harm, -float(min(report.slack)))
        repaired += incentive_report(B2IR(GBS()), GBS(), problem).is_ir
    return {"violations": violations, "repaired": repaired, "largest_harm": harm}


def _random_problem(rng: np.random.Generator, skew: int) -> PoolProblem:
    labels = rng.integers(0, 2, size=(12, 7))
    weights = [int(skew ** int(p)) for p in rng.integers(0, 6, size=12)]
    owners = rng.permutation(np.arange(7) % 2)
    pools = [np.flatnonzero(owners == i) for i in range(2)]
    return PoolProblem.from_labelings(labels, weights, pools, exact=True)


def _climbed_violation(rng: np.random.Generator, skew: int) -> PoolProblem:
    """Climb from a perturbed violation towards more harm, changing one weight at a time."""
    problem = _disguised_violation(rng, skew)
    weights = [int(w) for w in problem.weights]
    harm = _harm(problem, weights)
    for _ in range(CLIMB):
        trial = list(weights)
        row = int(rng.integers(problem.N))
        trial[row] = max(1, round(trial[row] * float(rng.choice([0.5, 0.8, 1.25, 2.0]))))
        new_harm = _harm(problem, trial)
        if new_harm >= harm:
            weights, harm = trial, new_harm
    return PoolProblem.from_labelings(problem.H, weights, problem.agents, exact=True)


def _harm(problem: PoolProblem, weights: list[int]) -> float:
    """How much more than alone the worse-off party expects to do."""
    here = PoolProblem.from_labelings(problem.H, weights, problem.agents)
    gbs = GBS()
    joint = gbs.expected_costs(here)
    return float(max(joint[i] - gbs.expected_costs(here, (i,))[i] for i in (0, 1)))


def _disguised_violation(rng: np.random.Generator, skew: int) -> PoolProblem:
    """The seven-labeling violation with permuted points, flipped labels, and perturbed weights."""
    base = instances.gbs_violation_7x6()
    order = rng.permutation(base.m)
    flips = rng.integers(0, 2, size=base.m, dtype=np.uint8)
    position = np.argsort(order)
    noise = rng.integers(0, skew, size=base.N)  # skew 1: none
    weights = [2 * int(w) + int(v) for w, v in zip(base.weights, noise)]
    pools = [position[pool] for pool in base.agents]
    return PoolProblem.from_labelings((base.H ^ flips)[:, order], weights, pools, exact=True)


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    total, fixed = int(frame["trials"].sum()), int(frame["repaired"].sum())
    hidden = frame[(frame["kind"] == "embedded") & (frame["skew"] == 1)]
    return [
        equals("06.11", "B2IR is individually rational on every instance.", fixed, total,
               what="instances"),
        equals("06.07", "The violation survives permuted points and flipped labels.",
               int(hidden["violations"].sum()), int(hidden["trials"].sum()), what="instances"),
    ]  # fmt: skip


def _figure(frame: pd.DataFrame) -> Figure:
    """Left: share of campaigns in which joint greedy search makes somebody worse off, with exact
    95 % intervals. Right: the largest harm, in queries more than alone.
    """
    figure, (left, right) = panels(2)
    for n, kind in enumerate(KINDS):
        part = frame[frame["kind"] == kind].sort_values("skew")
        pairs = zip(part["violations"], part["trials"])
        rates = [clopper_pearson(int(v), int(t)) for v, t in pairs]
        centre = np.array([100 * r.estimate for r in rates])
        low = centre - [100 * r.low for r in rates]
        high = np.array([100 * r.high for r in rates]) - centre
        x = part["skew"] * 1.06 ** (n - 1)  # side by side
        left.errorbar(x, centre, yerr=[low, high], fmt="o-", capsize=3, color=PALETTE[n],
                      label=LABELS[kind])  # fmt: skip
        right.plot(part["skew"], part["largest_harm"], "o-", color=PALETTE[n], label=LABELS[kind])
    for ax in (left, right):
        ax.set(xlabel="prior skew, or noise on the weights", xscale="log")
        ax.set_xticks([1, 3, 9, 27], ["1", "3", "9", "27"])
        ax.minorticks_off()
    left.set(ylabel="campaigns where joining hurts (%)", ylim=(-5, 108),
             title="Rare by chance, and B2IR repairs all")  # fmt: skip
    right.set(ylabel="largest harm (queries)", ylim=(-0.05, 1.1), title="What a search can reach")
    right.legend(loc="center left")
    return figure


STUDY = Study(
    name="how-rare",
    title="How rare is it that joining hurts?",
    question=(
        "Random campaigns almost never make anybody worse off; perturbations of a known bad one "
        "often do, and a local search makes them worse. Does B2IR repair all of them?"
    ),
    claims=("06.07", "06.11"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"how-rare": _figure},
)
