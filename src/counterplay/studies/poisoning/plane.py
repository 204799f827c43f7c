"""The planar learner: attackable rates between real attacks and the certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, figure_style, panels
from counterplay.poisoning import (
    DyadicDirectionLearner,
    DyadicPathAttacker,
    HardMarginSVM,
    LabelledSet,
    LinearTarget,
    SqueezePairAttacker,
    attackable_rate,
)
from counterplay.poisoning.dyadic import candidates, consistent_arc
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def _grid(scale: Scale) -> Sequence[Params]:
    runs, tests = (3, 60) if scale == "quick" else (10, 400)
    sizes = (20, 50, 200) if scale == "quick" else (20, 50, 200, 1000)
    gammas = (0.02, 0.2) if scale == "quick" else (0.002, 0.02, 0.2)
    return [
        {"m": m, "gamma": g, "learner": name, "runs": runs, "tests": tests}
        for m in sizes
        for g in gammas
        for name in ("dyadic", "svm")
    ]


def _problem(m: int, gamma: float, n_test: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    beta = 2 * np.pi * rng.random()
    target = LinearTarget([np.cos(beta), np.sin(beta)], rng.uniform(-0.6, 0.6))
    X = np.zeros((0, 2))
    while len(X) < m + n_test:
        more = rng.uniform(-1, 1, size=(4 * (m + n_test), 2))
        more = more[np.hypot(*more.T) <= 1]
        X = np.vstack([X, more[np.abs(target.decision_function(more)) >= gamma / 2]])
    S = LabelledSet(X[:m], target(X[:m]))
    return target, S, X[m : m + n_test]


def _cell(params: Params, seed: int) -> Record:
    rng = np.random.default_rng(seed)
    err, low, high, broken = [], [], [], 0
    for _ in range(int(params["runs"] or 1)):
        target, S, test = _problem(
            int(params["m"] or 0), float(params["gamma"] or 0), int(params["tests"] or 0), rng
        )
        dyadic = params["learner"] == "dyadic"
        learner = DyadicDirectionLearner() if dyadic else HardMarginSVM(tol=1e-3)
        attacker = DyadicPathAttacker() if dyadic else SqueezePairAttacker()
        report = attackable_rate(learner, target, S, test, [attacker])
        err.append(report.err)
        low.append(report.atk_lower)
        high.append(report.atk_upper)
        broken += int((report.certified & (report.attacked > 0)).sum())
    return {
        "error": float(np.mean(err)),
        "lower": float(np.mean(low)),
        "upper": float(np.mean(high)),
        "broken": broken,
    }


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    dyadic = frame[frame.learner == "dyadic"]
    broken = int(dyadic.broken.sum())
    first = [
        Verdict(
            "10.22",
            "no certified point of the dyadic learner was flipped by an attack",
            f"{broken} flipped",
            "0",
            broken == 0,
        ),
        Verdict(
            "10.22",
            "error, attacked and not certified are ordered for the dyadic learner",
            f"largest upper bound {dyadic.upper.max():.3f}",
            "error <= lower <= upper",
            bool((dyadic.error <= dyadic.lower).all() and (dyadic.lower <= dyadic.upper).all()),
        ),
    ]
    return first


def _curves(frame: pd.DataFrame) -> Figure:
    """Half-planes with margin gamma: the dyadic learner (band between real attacks and certificate)
    gets safe with more rows; two points per attack keep the SVM exposed longer, and it has no
    certificate."""
    with figure_style():
        gammas = sorted(frame.gamma.unique())
        figure, axes = panels(len(gammas), width=4.6)
        for ax, gamma in zip(axes, gammas):
            part = frame[frame.gamma == gamma].sort_values("m")
            dyadic, svm = part[part.learner == "dyadic"], part[part.learner == "svm"]
            ax.fill_between(dyadic.m, dyadic.lower, dyadic.upper, color=PALETTE[0], alpha=0.25)
            ax.plot(dyadic.m, dyadic.upper, "v-", color=PALETTE[0], label="dyadic: certificate")
            ax.plot(dyadic.m, dyadic.lower, "^-", color=PALETTE[0], label="dyadic: attacked")
            ax.plot(svm.m, svm.lower, "s-", color=PALETTE[1], label="SVM: attacked, 2 points")
            ax.plot(svm.m, svm.error, "s:", color=PALETTE[1], label="SVM: error")
            shape = float(dyadic.upper.iloc[0]) * float(dyadic.m.iloc[0])
            line = np.geomspace(dyadic.m.min(), dyadic.m.max(), 20)
            ax.plot(line, shape / line, label="slope of 1/m", **THEORY)
            ax.set_xscale("log")
            ax.set_xticks(dyadic.m.tolist(), [str(m) for m in dyadic.m])
            ax.minorticks_off()
            ax.set_yscale("symlog", linthresh=1e-2)
            ax.set(
                xlabel="training rows m", ylabel="fraction of points", title=f"gamma = {gamma:g}"
            )
            ax.set_ylim(bottom=0)
            ax.legend(fontsize=7)
        return figure


def _picture(frame: pd.DataFrame) -> Figure:
    """The dyadic learner at work: training rows, arc of consistent directions, dyadic candidates
    (dashed, on the way to the target's direction), points that could be flipped (shaded), and one
    winning poison of at most four correct rows (stars) against the circled point."""
    rng = np.random.default_rng(11)
    target, S, _ = _problem(14, 0.1, 1, rng)
    learner = DyadicDirectionLearner().fit(S.X, S.y)
    lattice = np.stack(np.meshgrid(*[np.linspace(-1, 1, 301)] * 2), axis=-1).reshape(-1, 2)
    lattice = lattice[np.hypot(*lattice.T) <= 1]
    region = lattice[learner.upper_region(target, lattice)]
    order = rng.permutation(len(region))[:400]
    report = attackable_rate(learner, target, S, region[order], [DyadicPathAttacker()])
    hit = next((i for i in report.exposed()), None)
    with figure_style():
        figure, (ax,) = panels(1, width=6.2, height=5.6)
        turn = np.linspace(0, 2 * np.pi, 200)
        ax.plot(np.cos(turn), np.sin(turn), color="#999999", linewidth=1)
        ax.scatter(*region.T, s=3, color=PALETTE[5], alpha=0.25, linewidth=0)
        ax.scatter([], [], s=50, color=PALETTE[5], label="could be flipped")
        for label, marker, color in ((1, "o", PALETTE[0]), (0, "s", PALETTE[1])):
            ax.scatter(
                *S.X[S.y == label].T, marker=marker, color=color, s=40, label=f"label {label}"
            )
        arc = consistent_arc(learner.positive_, learner.negative_)
        sweep = np.linspace(arc.low, arc.low + arc.width, 50)
        ax.plot(1.07 * np.cos(sweep), 1.07 * np.sin(sweep), color=PALETTE[2], linewidth=5,
                label="consistent directions")  # fmt: skip
        for i, c in enumerate(candidates(target)):
            if i > 7:
                break
            ax.plot(
                [0, 1.2 * np.cos(c.beta)], [0, 1.2 * np.sin(c.beta)], **THEORY | {"linewidth": 0.8}
            )
        w = target.w
        ends = -target.b * w + np.outer([-1, 1], np.sqrt(1 - target.b**2) * np.array([-w[1], w[0]]))
        ax.plot(*ends.T, color="black", linewidth=2, label="target boundary")
        poison = None if hit is None else report.poison[hit]
        if hit is not None and poison is not None:
            x0 = region[order][hit]
            ax.plot(x0[0], x0[1], "o", markersize=13, markerfacecolor="none", color="black")
            ax.scatter(
                poison.X[:, 0],
                poison.X[:, 1],
                marker="*",
                s=130,
                color=PALETTE[3],
                zorder=5,
                label="poison",
            )
        ax.set_aspect("equal")
        ax.set(xlabel="x1", ylabel="x2", xlim=(-1.3, 2.1))
        ax.legend(fontsize=8, loc="center right")
        return figure


PLANE = Study(
    name="plane",
    title="Half-planes: the dyadic learner and the SVM",
    question=(
        "Random half-planes in the unit disc with a margin. How large is the attackable rate of "
        "the dyadic direction learner, from below and above, and what do two points do to the SVM?"
    ),
    claims=("10.22",),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"rates": _curves, "picture": _picture},
)
