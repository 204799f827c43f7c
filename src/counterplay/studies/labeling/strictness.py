"""What it costs that everybody gains strictly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import THEORY, panels
from counterplay.core.finite_class import FiniteClass
from counterplay.labeling import (
    B2IR,
    GBS,
    PoolProblem,
    bounds,
    incentive_report,
    instances,
    optimal_mixture,
    sir_mixture,
)
from counterplay.labeling.lab import PrunedPartialSIR
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def _grid(scale: Scale) -> list[Params]:
    steps = 7 if scale == "quick" else 25
    values = np.logspace(-3, 0, steps)
    return [{"instance": name, "eps": float(e)} for name in ("counterexample", "trap", "plane")
            for e in values]  # fmt: skip


def _instance(name: str) -> tuple[PoolProblem, GBS]:
    if name == "counterexample":
        return instances.gbs_counterexample(10, exact=False), GBS(tie_break=[12])
    if name == "trap":
        trap = instances.weak_pruning_trap()
        return PoolProblem.from_labelings(trap.H, agents=trap.agents), GBS()
    X = np.random.default_rng(0).normal(size=(24, 2))
    pools = [np.arange(i, 24, 3) for i in range(3)]
    return PoolProblem.from_class(FiniteClass.halfspaces_2d(X), pools), GBS()


def _cell(params: Params, seed: int) -> Record:
    problem, gbs = _instance(str(params["instance"]))
    eps = float(params["eps"] or 0.0)
    ir = B2IR(gbs).expected_costs(problem)
    partial = [PrunedPartialSIR(gbs, i) for i in range(problem.k)]
    fixed = incentive_report(sir_mixture(gbs, problem, eps), gbs, problem)
    best = optimal_mixture([B2IR(gbs), *partial], gbs, problem, eps=eps)
    alone = fixed.baseline_cost
    gaps = [float(alone[i] - partial[i].expected_costs(problem)[i]) for i in range(problem.k)]
    floor = min(bounds.sir_slack(eps, problem.k, problem.m, gap) for gap in gaps)
    return {
        "ir_total": float(ir.sum()),
        "fixed_slack": float(fixed.slack.min()),
        "fixed_total": float(fixed.total),
        "slack_floor": floor,
        "lp_slack": best.smallest_slack,
        "lp_total": best.total,
        "total_bound": bounds.sir_total(float(ir.sum()), eps, problem.m, problem.m),
        "is_sir": fixed.is_sir,
    }


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    over = float((frame["fixed_total"] - frame["total_bound"]).max())
    slack = float((frame["fixed_slack"] - frame["slack_floor"]).min())
    gain = float((frame["lp_slack"] / frame["fixed_slack"]).min())
    return [
        equals("06.17", "The mixture makes every party strictly better off.",
               int(frame["is_sir"].sum()), len(frame), what="campaigns"),
        at_most("06.17", "It costs at most (1 - eps/m) times the total of B2IR, plus eps.", over, 0,
                what="largest excess", slack=1e-9),
        at_least("06.17", "Every party gains at least eps/(km) times its gain when favoured.",
                 slack, 0, what="smallest margin", slack=1e-9),
        at_least("06.17", "Weights from the linear program gain at least as much.", gain, 1,
                 what="smallest ratio", slack=1e-6),
    ]  # fmt: skip


def _figure(frame: pd.DataFrame) -> Figure:
    """The smallest gain of any party against the extra queries allowed: the weights of Lemma
    6.2 follow the guarantee, weights from a linear program gain more.
    """
    names = list(dict.fromkeys(frame["instance"]))
    figure, axes = panels(len(names), width=4.4)
    for ax, name in zip(axes, names):
        part = frame[frame["instance"] == name].sort_values("eps")
        ax.plot(part["eps"], part["slack_floor"], label="guaranteed, eps/(km) * gap", **THEORY)
        ax.plot(part["eps"], part["fixed_slack"], "o", label="weights of Lemma 6.2")
        ax.plot(part["eps"], part["lp_slack"], "s", label="optimal weights (LP)")
        ax.set(xlabel="allowed extra queries eps", ylabel="smallest gain (queries)", xscale="log",
               yscale="log", title=name)  # fmt: skip
    axes[0].legend(fontsize=8)
    return figure


STUDY = Study(
    name="price-of-strictness",
    title="What it costs that everybody gains strictly",
    question=(
        "A mixture favours each party rarely. How large is the smallest gain for a given number of "
        "extra queries, with the weights of Lemma 6.2 and with optimal ones?"
    ),
    claims=("06.17",),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"price-of-strictness": _figure},
)
