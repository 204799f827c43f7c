"""Studies of joint labelling campaigns: who gains, what greed costs, what strictness costs."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.finite_class import FiniteClass
from counterplay.core.seeds import generator
from counterplay.core.stats import clopper_pearson
from counterplay.core.validation import FloatArray, IntArray
from counterplay.labeling import (
    B2IR,
    GBS,
    PoolProblem,
    PrunedPartialSIR,
    bounds,
    incentive_report,
    instances,
    optimal_cost,
    optimal_mixture,
    run,
    sir_mixture,
)
from counterplay.studies.study import Area, Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

DELTA = Fraction(1, 100)


def _greed_grid(scale: Scale) -> list[Params]:
    sizes = (
        [3, 4, 5, 6, 8, 10, 15, 20, 30, 40]
        if scale == "quick"
        else [*range(3, 41), *range(45, 201, 5)]
    )
    return [{"n": n} for n in sizes]


def _greed_cell(params: Params, seed: int) -> Record:
    n = int(params["n"] or 0)
    exact = n <= 40
    problem = instances.gbs_counterexample(n, DELTA, exact=exact)
    gbs = GBS()
    joint = gbs.expected_costs(problem)
    alone = gbs.expected_costs(problem, (0,))[0]
    wrapped = B2IR(gbs).expected_costs(problem)
    mixture = sir_mixture(gbs, problem, Fraction(1) if exact else 1.0).expected_costs(problem)
    best = float(optimal_cost(problem)) if n <= 8 else float("nan")
    return {
        "joint": float(joint[0]),
        "alone": float(alone),
        "b2ir": float(wrapped[0]),
        "sir": float(mixture[0]),
        "total_joint": float(joint.sum()),
        "total_b2ir": float(wrapped.sum()),
        "optimum": best,
        "smallest_prior": float(min(problem.prior)),
    }


def _greed_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    n = frame["n"].to_numpy(dtype=float)
    expected = np.array([bounds.counterexample_joint(int(v)) for v in n]) + 0.02 * n - 0.04
    error = float(np.abs(frame["joint"] - expected).max())
    large = frame[frame["n"] >= 6]
    excess = float((frame["b2ir"] - frame["alone"]).max())
    solved = frame.dropna(subset=["optimum"])
    ratios = [
        row.total_joint / bounds.gbs_queries(row.optimum, row.smallest_prior)
        for row in solved.itertuples()
    ]
    return [
        Verdict("06.02", "Joint GBS costs agent 1 what the closed form says, at every size.",
                f"largest error {error:.1e}", "0", error < 1e-9),
        Verdict("06.06", "Joining hurts agent 1 from six levels on, more with every level.",
                f"{int((large['joint'] > large['alone']).sum())} of {len(large)} sizes", "all",
                bool((large["joint"] > large["alone"]).all())),
        Verdict("06.11", "B2IR never costs agent 1 more than staying alone.",
                f"largest excess {excess:.1e}", "<= 0", excess <= 1e-12),
        Verdict("06.10", "GBS stays below 4 Q* ln(1/min prior).",
                f"largest ratio {max(ratios):.3f}", "<= 1", max(ratios) <= 1),
    ]  # fmt: skip


def _greed_figure(frame: pd.DataFrame) -> Figure:
    """Left: agent 1's expected queries against the size of the instance; she does better alone
    in the grey range. Right: the greedy total against the optimal tree.
    """
    figure, (left, right) = panels(2)
    frame = frame.sort_values("n")
    n = frame["n"].to_numpy(dtype=float)
    left.plot(n, n / 4 + 11 / 8 + 0.02 * n - 0.04, label="theory, n/4 + 11/8 + shift", **THEORY)
    left.axhline(8 / 3 + 0.02, **{**THEORY, "linestyle": ":"})
    for column, label, marker in (
        ("joint", "joint GBS", "o"),
        ("alone", "alone", "s"),
        ("b2ir", "B2IR", "x"),
        ("sir", "SIR mixture (eps=1)", "+"),
    ):
        left.plot(n, frame[column], marker, label=label, markersize=6)
    left.axvspan(5, float(n.max()), color="#999999", alpha=0.12, linewidth=0)
    left.set(xlabel="levels n of the instance", ylabel="expected queries of agent 1",
             title="Greedy joint labelling loads agent 1")  # fmt: skip
    left.legend()
    solved = frame.dropna(subset=["optimum"])
    bound = 4 * np.log(1 / solved["smallest_prior"])
    right.plot(solved["n"], bound, label="bound 4 ln(1/min prior)", **THEORY)
    right.plot(solved["n"], solved["total_joint"] / solved["optimum"], "o", label="GBS / optimum")
    right.set(xlabel="levels n of the instance", ylabel="total queries / optimum", yscale="log",
              title="GBS against the optimal tree")  # fmt: skip
    right.legend()
    return figure


def _gain_grid(scale: Scale) -> list[Params]:
    sizes = [50] if scale == "quick" else [50, 100, 200]
    counts = [2, 4, 8] if scale == "quick" else [2, 3, 4, 6, 8, 10]
    layouts = ("disjoint", "overlapping", "separated")
    return [{"m": m, "k": k, "layout": a} for m in sizes for k in counts for a in layouts]


def _pools(X: FloatArray, k: int, layout: str, rng: np.random.Generator) -> list[IntArray]:
    m = len(X)
    if layout == "separated":
        return [np.sort(part) for part in np.array_split(np.argsort(X[:, 0]), k)]
    owners = rng.permutation(np.arange(m) % k)
    extra = rng.random((k, m)) < (0.3 if layout == "overlapping" else 0.0)
    return [np.flatnonzero((owners == i) | extra[i]) for i in range(k)]


def _gain_cell(params: Params, seed: int) -> Record:
    rng = generator(seed)
    m, k, layout = int(params["m"] or 0), int(params["k"] or 0), str(params["layout"])
    X = rng.normal(size=(m, 2))
    problem = PoolProblem.from_class(FiniteClass.halfspaces_2d(X), _pools(X, k, layout, rng))
    report = incentive_report(B2IR(GBS()), GBS(), problem)
    record: dict[str, Any] = {
        "total": float(report.total),
        "sum_alone": float(report.baseline_cost.sum()),
        "entropy": problem.entropy(),
        "smallest_saving": float(report.slack.min()),
        "is_ir": report.is_ir,
    }
    for i in range(k):
        record[f"alone_{i}"] = float(report.baseline_cost[i])
        record[f"together_{i}"] = float(report.protocol_cost[i])
    return record


def _gain_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    saving = 1 - (frame["total"] / frame["sum_alone"])
    return [
        Verdict("06.11", "Nobody does more work than alone, in any layout.",
                f"{int(frame['is_ir'].sum())} of {len(frame)} campaigns", "all",
                bool(frame["is_ir"].all())),
        Verdict("06.10", "The total stays above the entropy floor.",
                f"smallest excess {float((frame['total'] - frame['entropy']).min()):.3f}", ">= 0",
                bool((frame["total"] >= frame["entropy"] - 1e-9).all())),
        Verdict("06.11", "Working together saves labels.",
                f"{saving.min():.0%} to {saving.max():.0%} of the labels", "> 0 %",
                bool((saving > 0).all())),
    ]  # fmt: skip


def _gain_figure(frame: pd.DataFrame) -> Figure:
    """Left: expected queries of four parties alone and together. Right: all parties together
    against all alone, for three ways to split the points.
    """
    figure, (left, right) = panels(2)
    m = int(frame["m"].max())
    part = frame[frame["m"] == m]
    four = part[(part["k"] == 4) & (part["layout"] == "disjoint")].iloc[0]
    x = np.arange(4)
    left.bar(x - 0.2, [four[f"alone_{i}"] for i in x], 0.4, label="alone", color=PALETTE[1])
    left.bar(x + 0.2, [four[f"together_{i}"] for i in x], 0.4, label="together", color=PALETTE[0])
    left.set_xticks(x, [f"party {i + 1}" for i in x])
    left.set(ylabel="expected label queries", title=f"Four parties, {m} points, halfspaces")
    left.margins(y=0.25)
    left.legend()
    for n, layout in enumerate(("disjoint", "overlapping", "separated")):
        rows = part[part["layout"] == layout].sort_values("k")
        right.plot(rows["k"], rows["total"], "o-", color=PALETTE[n], label=f"together, {layout}")
        right.plot(rows["k"], rows["sum_alone"], ":", color=PALETTE[n], label=f"alone, {layout}")
    right.axhline(float(part["entropy"].iloc[0]), label="entropy floor", **THEORY)
    right.set(xlabel="parties", ylabel="expected queries of all parties", yscale="log",
              title="Everybody together against everybody alone")  # fmt: skip
    right.legend(fontsize=8)
    return figure


def _price_grid(scale: Scale) -> list[Params]:
    steps = 7 if scale == "quick" else 25
    values = np.logspace(-3, 0, steps)
    return [{"instance": name, "eps": float(e)} for name in ("counterexample", "trap", "plane")
            for e in values]  # fmt: skip


def _price_instance(name: str) -> tuple[PoolProblem, GBS]:
    if name == "counterexample":
        return instances.gbs_counterexample(10, exact=False), GBS(tie_break=[12])
    if name == "trap":
        trap = instances.weak_pruning_trap()
        return PoolProblem.from_labelings(trap.H, agents=trap.agents), GBS()
    X = np.random.default_rng(0).normal(size=(24, 2))
    pools = [np.arange(i, 24, 3) for i in range(3)]
    return PoolProblem.from_class(FiniteClass.halfspaces_2d(X), pools), GBS()


def _price_cell(params: Params, seed: int) -> Record:
    problem, gbs = _price_instance(str(params["instance"]))
    eps = float(params["eps"] or 0.0)
    ir = B2IR(gbs).expected_costs(problem)
    partial = [PrunedPartialSIR(gbs, i) for i in range(problem.k)]
    thesis = incentive_report(sir_mixture(gbs, problem, eps), gbs, problem)
    best = optimal_mixture([B2IR(gbs), *partial], gbs, problem, eps=eps)
    alone = thesis.baseline_cost
    gaps = [float(alone[i] - partial[i].expected_costs(problem)[i]) for i in range(problem.k)]
    floor = min(bounds.sir_slack(eps, problem.k, problem.m, gap) for gap in gaps)
    return {
        "ir_total": float(ir.sum()),
        "thesis_slack": float(thesis.slack.min()),
        "thesis_total": float(thesis.total),
        "slack_floor": floor,
        "lp_slack": best.smallest_slack,
        "lp_total": best.total,
        "is_sir": thesis.is_sir,
    }


def _price_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    over = float((frame["thesis_total"] - frame["ir_total"] - frame["eps"]).max())
    slack = float((frame["thesis_slack"] - frame["slack_floor"]).min())
    gain = float((frame["lp_slack"] / frame["thesis_slack"]).min())
    return [
        Verdict("06.17", "The mixture makes every party strictly better off.",
                f"{int(frame['is_sir'].sum())} of {len(frame)}", "all",
                bool(frame["is_sir"].all())),
        Verdict("06.17", "It costs at most eps more in total.", f"largest excess {over:.2e}",
                "<= 0", over <= 1e-9),
        Verdict("06.17", "Every party gains at least eps/(km) times its gain when favoured.",
                f"smallest margin {slack:.2e}", ">= 0", slack >= -1e-9),
        Verdict("06.17", "Weights from the linear program gain at least as much.",
                f"{gain:.2f} times at least", ">= 1", gain >= 1 - 1e-6),
    ]  # fmt: skip


def _price_figure(frame: pd.DataFrame) -> Figure:
    """The smallest gain of any party against the extra queries allowed: the thesis' weights
    follow the guarantee, weights from a linear program gain more.
    """
    names = list(dict.fromkeys(frame["instance"]))
    figure, axes = panels(len(names), width=4.4)
    for ax, name in zip(axes, names):
        part = frame[frame["instance"] == name].sort_values("eps")
        ax.plot(part["eps"], part["slack_floor"], label="guaranteed, eps/(km) * gap", **THEORY)
        ax.plot(part["eps"], part["thesis_slack"], "o", label="thesis weights")
        ax.plot(part["eps"], part["lp_slack"], "s", label="optimal weights (LP)")
        ax.set(xlabel="allowed extra queries eps", ylabel="smallest gain (queries)", xscale="log",
               yscale="log", title=name)  # fmt: skip
    axes[0].legend(fontsize=8)
    return figure


def _pool_grid(scale: Scale) -> list[Params]:
    sizes = [60] if scale == "quick" else [60, 120]
    return [{"m": m, "hospitals": 4} for m in sizes]


def _hospital_pool(m: int, k: int, seed: int) -> tuple[PoolProblem, NDArray[np.uint8], float]:
    """Breast cancer, two features; hospitals differ in the size of the tumours they see."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    names = list(data.feature_names)
    columns = [names.index("worst radius"), names.index("worst texture")]
    rng = generator(seed)
    rows = rng.choice(len(data.data), size=m, replace=False)
    X, y = data.data[rows][:, columns], data.target[rows].astype(np.uint8)
    order = np.argsort(X[:, 0] + rng.normal(scale=X[:, 0].std() / 2, size=m))
    owners = [np.sort(part) for part in np.array_split(order, k)]
    problem = PoolProblem.from_class(FiniteClass.halfspaces_2d(X), owners)
    errors = (y != problem.H).mean(axis=1)
    best = int(errors.argmin())
    return problem, problem.H[best], float(errors[best])


def _pool_cell(params: Params, seed: int) -> Record:
    m, k = int(params["m"] or 0), int(params["hospitals"] or 0)
    problem, truth, error = _hospital_pool(m, k, seed)
    protocol = B2IR(GBS())
    report = incentive_report(protocol, GBS(), problem)
    transcript = run(protocol, problem, truth, random_state=seed)
    known = [1.0 - float(e) / problem.entropy() for e in transcript["entropy_after"]]
    record: dict[str, Any] = {
        "N": problem.N,
        "in_class_error": error,
        "total": float(report.total),
        "sum_alone": float(report.baseline_cost.sum()),
        "entropy": problem.entropy(),
        "is_ir": report.is_ir,
        "queries": len(transcript),
        "agents_asked": ",".join(str(a) for a in transcript["agent"]),
        "bits_known": ",".join(f"{v:.6f}" for v in known),
    }
    for i in range(k):
        record[f"alone_{i}"] = float(report.baseline_cost[i])
        record[f"together_{i}"] = float(report.protocol_cost[i])
    return record


def _pool_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    row = frame.iloc[-1]
    return [
        Verdict("06.11", "On real patients no hospital does more tests than alone.",
                f"{row['total']:.1f} tests together, {row['sum_alone']:.1f} alone",
                "nobody worse", bool(frame["is_ir"].all())),
        Verdict("06.10", "The total is close to the entropy floor.",
                f"{float(row['total'] / row['entropy']):.3f} times the floor", ">= 1",
                bool((frame["total"] >= frame["entropy"]).all())),
    ]  # fmt: skip


def _pool_figure(frame: pd.DataFrame) -> Figure:
    """Left: expected tests of four hospitals alone and together. Right: one run; each dot is a
    test and its colour the hospital that made it.
    """
    figure, (left, right) = panels(2)
    row = frame.iloc[-1]
    k = int(row["hospitals"])
    x = np.arange(k)
    left.bar(x - 0.2, [row[f"alone_{i}"] for i in x], 0.4, label="alone", color=PALETTE[1])
    left.bar(x + 0.2, [row[f"together_{i}"] for i in x], 0.4, label="together", color=PALETTE[0])
    left.set_xticks(x, [f"hospital {i + 1}" for i in x])
    left.set(ylabel="expected tests", title=f"{row['m']} patients, {row['N']} halfspaces")
    left.margins(y=0.25)
    left.legend()
    asked = [int(a) for a in str(row["agents_asked"]).split(",")]
    known = [0.0, *(100 * float(v) for v in str(row["bits_known"]).split(","))]
    right.step(np.arange(len(known)), known, where="post", color="#444444", zorder=1)
    for i in range(k):
        at = [t + 1 for t, agent in enumerate(asked) if agent == i]
        right.plot(at, [known[t] for t in at], "o", color=PALETTE[i], label=f"hospital {i + 1}")
    right.set(xlabel="tests made", ylabel="uncertainty resolved (%)",
              title=f"One run, best halfspace ({row['in_class_error']:.1%} error)")  # fmt: skip
    right.legend()
    return figure


def _rare_grid(scale: Scale) -> list[Params]:
    trials = 25 if scale == "quick" else 1000
    return [{"kind": kind, "skew": skew, "trials": trials}
            for kind in ("random", "embedded") for skew in (1, 3, 9, 27)]  # fmt: skip


def _rare_cell(params: Params, seed: int) -> Record:
    rng = generator(seed)
    trials, skew = int(params["trials"] or 0), int(params["skew"] or 1)
    violations = repaired = 0
    for _ in range(trials):
        problem = (
            _random_problem(rng, skew)
            if params["kind"] == "random"
            else _disguised_violation(rng, skew)
        )
        report = incentive_report(GBS(), GBS(), problem)
        violations += not report.is_ir
        repaired += incentive_report(B2IR(GBS()), GBS(), problem).is_ir
    return {"violations": violations, "repaired": repaired}


def _random_problem(rng: np.random.Generator, skew: int) -> PoolProblem:
    labels = rng.integers(0, 2, size=(12, 7))
    weights = [int(skew ** int(p)) for p in rng.integers(0, 6, size=12)]
    owners = rng.permutation(np.arange(7) % 2)
    pools = [np.flatnonzero(owners == i) for i in range(2)]
    return PoolProblem.from_labelings(labels, weights, pools, exact=True)


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


def _rare_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    total, fixed = int(frame["trials"].sum()), int(frame["repaired"].sum())
    hidden = frame[(frame["kind"] == "embedded") & (frame["skew"] == 1)]
    return [
        Verdict("06.11", "B2IR is individually rational on every instance.",
                f"{fixed} of {total}", "all", fixed == total),
        Verdict("06.07", "The violation survives permuted points and flipped labels.",
                f"{int(hidden['violations'].sum())} of {int(hidden['trials'].sum())}", "all",
                int(hidden["violations"].sum()) == int(hidden["trials"].sum())),
    ]  # fmt: skip


def _rare_figure(frame: pd.DataFrame) -> Figure:
    """Share of campaigns in which joint greedy search makes somebody worse off, with exact 95 %
    intervals.
    """
    figure, (ax,) = panels(1)
    for n, kind in enumerate(("random", "embedded")):
        part = frame[frame["kind"] == kind].sort_values("skew")
        pairs = zip(part["violations"], part["trials"])
        rates = [clopper_pearson(int(v), int(t)) for v, t in pairs]
        centre = np.array([100 * r.estimate for r in rates])
        low = centre - [100 * r.low for r in rates]
        high = np.array([100 * r.high for r in rates]) - centre
        ax.errorbar(part["skew"], centre, yerr=[low, high], fmt="o-", capsize=3,
                    color=PALETTE[n], label=f"{kind} instances")  # fmt: skip
    ax.set(xlabel="prior skew", ylabel="instances where joining hurts somebody (%)", xscale="log",
           title="Violations are rare, and B2IR repairs all of them", ylim=(-5, 108))  # fmt: skip
    ax.legend()
    return figure


def _study(name: str, title: str, question: str, claims: Sequence[str], **parts: Any) -> Study:
    return Study(name=name, title=title, question=question, claims=tuple(claims), **parts)


AREA = Area(
    name="labeling",
    title="Share the label queries so that everyone gains",
    story=(
        "Several parties own pools of unlabeled data that one unknown rule labels. Together they "
        "need far fewer labels than alone. But the standard greedy protocol looks only at the "
        "total: it may ask one party again and again, who then does better by leaving. The library "
        "computes the exact expected work of every party, wraps any protocol so that nobody loses "
        "and the total does not grow, and can make everybody gain strictly."
    ),
    studies=(
        _study(
            "cost-of-greed", "What greed costs one party",
            "Agent 1's expected queries under joint greedy search grow by a quarter query per "
            "level, although she needs fewer than three alone. B2IR brings her back.",
            ["06.02", "06.06", "06.10", "06.11"],
            grid=_greed_grid, cell=_greed_cell, verdicts=_greed_verdicts,
            figures={"cost-of-greed": _greed_figure},
        ),
        _study(
            "who-gains", "Who gains from labelling together",
            "Points in the plane labeled by an unknown halfspace, split over several parties in "
            "three ways. Compared: expected queries of each party alone and together.",
            ["06.10", "06.11"],
            grid=_gain_grid, cell=_gain_cell, verdicts=_gain_verdicts,
            figures={"who-gains": _gain_figure},
        ),
        _study(
            "price-of-strictness", "What it costs that everybody gains strictly",
            "A mixture favours each party rarely. How large is the smallest gain for a given "
            "number of extra queries, with the thesis' weights and with optimal ones?",
            ["06.17"],
            grid=_price_grid, cell=_price_cell, verdicts=_price_verdicts,
            figures={"price-of-strictness": _price_figure},
        ),
        _study(
            "hospitals", "Four hospitals test together",
            "Breast cancer data, two features, four hospitals with differently sized tumours. How "
            "many tests does each make alone and together, and how fast does uncertainty vanish?",
            ["06.10", "06.11"],
            grid=_pool_grid, cell=_pool_cell, verdicts=_pool_verdicts,
            figures={"hospitals": _pool_figure},
        ),
        _study(
            "how-rare", "How rare is it that joining hurts?",
            "Random campaigns almost never make anybody worse off; small perturbations of a known "
            "bad one often do. Does B2IR repair all of them?",
            ["06.07", "06.11"],
            grid=_rare_grid, cell=_rare_cell, verdicts=_rare_verdicts,
            figures={"how-rare": _rare_figure},
        ),
    ),
)  # fmt: skip
