"""What greedy joint labelling costs one party."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import THEORY, panels
from counterplay.labeling import B2IR, GBS, OptimalTree, bounds, instances, sir_mixture
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


DELTA = Fraction(1, 100)
LARGEST_SOLVED = 15  # levels up to which the optimal tree is computed


def _grid(scale: Scale) -> list[Params]:
    sizes = (
        [3, 4, 5, 6, 8, 10, 15, 20, 30, 40]
        if scale == "quick"
        else [*range(3, 41), *range(45, 201, 5)]
    )
    return [{"n": n} for n in sizes]


def _cell(params: Params, seed: int) -> Record:
    n = int(params["n"] or 0)
    exact = n <= 40
    problem = instances.gbs_counterexample(n, DELTA, exact=exact)
    gbs = GBS()
    joint = gbs.expected_costs(problem)
    alone = gbs.expected_costs(problem, (0,))[0]
    wrapped = B2IR(gbs).expected_costs(problem)
    mixture = sir_mixture(gbs, problem, Fraction(1) if exact else 1.0).expected_costs(problem)
    optimal = [float("nan")] * 2
    if n <= LARGEST_SOLVED:
        optimal = [float(cost) for cost in OptimalTree().expected_costs(problem)]
    return {
        "joint": float(joint[0]),
        "alone": float(alone),
        "b2ir": float(wrapped[0]),
        "sir": float(mixture[0]),
        "total_joint": float(joint.sum()),
        "total_b2ir": float(wrapped.sum()),
        "optimal": optimal[0],
        "optimum": sum(optimal),
        "smallest_prior": float(min(problem.prior)),
    }


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    expected = [bounds.counterexample_joint(int(n), float(DELTA)) for n in frame["n"]]
    error = float(np.abs(frame["joint"] - expected).max())
    large = frame[frame["n"] >= 6]
    excess = float((frame["b2ir"] - frame["alone"]).max())
    solved = frame.dropna(subset=["optimum"])
    ratios = [
        row.total_joint / bounds.gbs_queries(row.optimum, row.smallest_prior)
        for row in solved.itertuples()
    ]
    return [
        equals("06.02", "Joint GBS costs agent 1 what the closed form says, at every size.",
               error, 0, what="largest error", tolerance=1e-9),
        equals("06.06", "Joining hurts agent 1 from six levels on, more with every level.",
               int((large["joint"] > large["alone"]).sum()), len(large), what="sizes"),
        at_most("06.11", "B2IR never costs agent 1 more than staying alone.",
                excess, 0, what="largest excess", slack=1e-12),
        at_most("06.10", "GBS stays below 4 Q* ln(1/min prior).",
                max(ratios), 1, what="largest ratio"),
    ]  # fmt: skip


def _figure(frame: pd.DataFrame) -> Figure:
    """Left: agent 1's expected queries against the size of the instance; she does better alone
    in the grey range. Right: the greedy total against the optimal tree.
    """
    figure, (left, right) = panels(2)
    frame = frame.sort_values("n")
    n = frame["n"].to_numpy(dtype=float)
    joint = [bounds.counterexample_joint(int(v), float(DELTA)) for v in n]
    alone = [bounds.counterexample_alone(int(v), float(DELTA)) for v in n]
    left.plot(n, joint, label="theory, about n/4", **THEORY)
    left.plot(n, alone, **{**THEORY, "linestyle": ":"})
    for column, label, marker in (
        ("joint", "joint GBS", "o"),
        ("alone", "alone", "s"),
        ("b2ir", "B2IR", "x"),
        ("sir", "SIR mixture (eps=1)", "+"),
        ("optimal", "optimal tree", "v"),
    ):
        left.plot(n, frame[column], marker, label=label, markersize=6, alpha=0.85)
    left.axvspan(5, float(n.max()), color="#999999", alpha=0.12, linewidth=0)
    left.set(xlabel="levels n of the instance", ylabel="expected queries of agent 1",
             title="Greedy joint labelling loads agent 1")  # fmt: skip
    left.legend()
    solved = frame.dropna(subset=["optimum"])
    bound = [bounds.gbs_queries(1.0, prior) for prior in solved["smallest_prior"]]
    right.plot(solved["n"], bound, label="bound 4 ln(1/min prior)", **THEORY)
    right.plot(solved["n"], solved["total_joint"] / solved["optimum"], "o", label="GBS / optimum")
    right.set(xlabel="levels n of the instance", ylabel="total queries / optimum", yscale="log",
              title="GBS against the optimal tree")  # fmt: skip
    right.legend()
    return figure


STUDY = Study(
    name="cost-of-greed",
    title="What greed costs one party",
    question=(
        "Agent 1's expected queries under joint greedy search grow by a quarter query per level, "
        "although she needs fewer than three alone. B2IR brings her back."
    ),
    claims=("06.02", "06.06", "06.10", "06.11"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"cost-of-greed": _figure},
)
