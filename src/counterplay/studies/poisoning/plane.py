"""The planar learner: attackable rates between real attacks and the certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.seeds import derive_seed
from counterplay.core.stats import Interval, clopper_pearson
from counterplay.core.validation import FloatArray
from counterplay.errors import ConvergenceError, NotRealizableError
from counterplay.poisoning import LabelledSet, attackable_rate, bounds
from counterplay.poisoning.dyadic import candidates, consistent_arc
from counterplay.poisoning.instances import convex_chain
from counterplay.poisoning.lab import (
    DyadicDirectionLearner,
    DyadicPathAttacker,
    HardMarginSVM,
    LinearTarget,
    SqueezePairAttacker,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most, covers, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE, GAMMA = 200, 0.02


def _grid(scale: Scale) -> Sequence[Params]:
    quick = scale == "quick"
    runs, tests = (2, 25) if quick else (8, 100)
    sizes = (20, 50, SIZE) if quick else (20, 50, SIZE, 1000)
    gammas = (0.002, 0.2) if quick else (0.0002, 0.002, 0.2, 0.6)
    disc = [(m, GAMMA) for m in sizes] + [(SIZE, gamma) for gamma in gammas]
    cells: list[Params] = [
        {"where": "disc", "m": m, "gamma": g, "learner": name, "runs": runs, "tests": tests}
        for m, g in disc
        for name in ("dyadic", "svm")
    ]
    repeats = 150 if quick else 2000
    return cells + [
        {"where": "chain", "m": m, "gamma": 0.0, "learner": name, "runs": repeats, "tests": 1}
        for m in (1, 2, 3, 4)
        for name in ("dyadic", "svm")
    ]


def _cell(params: Params, seed: int) -> Record:
    return chain_cell(params, seed) if params["where"] == "chain" else disc_cell(params)


def disc_problem(
    m: int, gamma: float, n_test: int, rng: np.random.Generator
) -> tuple[LinearTarget, LabelledSet, Any]:
    """A random half-plane with margin gamma on the unit disc: target, rows, test points."""
    beta = 2 * np.pi * rng.random()
    target = LinearTarget([np.cos(beta), np.sin(beta)], rng.uniform(-0.6, 0.6))
    X = np.zeros((0, 2))
    while len(X) < m + n_test:
        more = rng.uniform(-1, 1, size=(4 * (m + n_test), 2))
        more = more[np.hypot(*more.T) <= 1]
        X = np.vstack([X, more[np.abs(target.decision_function(more)) >= gamma / 2]])
    return target, LabelledSet(X[:m], target(X[:m])), X[m : m + n_test]


def disc_cell(params: Params) -> Record:
    """Rates on the disc; both learners see the same problems.

    Masses are taken on 4000 points. Attacks are tried on some of the points that no proof excludes,
    and (for the dyadic learner) on some that its certificate does exclude.
    """
    m, gamma, tests = (float(params[name] or 0) for name in ("m", "gamma", "tests"))
    rng = np.random.default_rng(derive_seed("plane", int(m), gamma))
    rows = []
    for _ in range(int(params["runs"] or 1)):
        target, S, test = disc_problem(int(m), gamma, 4000, rng)
        fan = DyadicDirectionLearner().fit(S.X, S.y)
        worst, contested = fan.consistent_errors(target, test)
        learner: Any = HardMarginSVM(tol=1e-3)
        attacker: Any = SqueezePairAttacker()
        upper, bound = 1.0, 1.0
        if params["learner"] == "dyadic":
            learner, attacker = DyadicDirectionLearner(), DyadicPathAttacker()
            contested = fan.upper_region(target, test)
            upper = float(contested.mean())
            bound = bounds.dyadic_rate(worst, 0.0, gamma / 2)
        points = test[contested][: int(tests)]
        share, broken = 0.0, 0
        if len(points):
            share = attackable_rate(learner, target, S, points, [attacker]).atk_lower
        if params["learner"] == "dyadic":
            safe = attackable_rate(learner, target, S, test[~contested][: int(tests)], [attacker])
            broken = int((safe.attacked > 0).sum())
        error = float((learner.fit(S.X, S.y).predict(test) != target(test)).mean())
        lower = max(error, share * float(contested.mean()))
        rows.append((error, lower, upper, bound, broken))
    table = np.array(rows)
    mean = table.mean(axis=0)
    return {
        "error": mean[0], "lower": mean[1], "upper": mean[2], "bound": mean[3],
        "broken": int(table[:, 4].sum()), "over": int((table[:, 2] > table[:, 3] + 1e-12).sum()),
        "low": 0.0, "high": 0.0, "refused": 0,
    }  # fmt: skip


def chain_cell(params: Params, seed: int) -> Record:
    """Rates on the chain distribution: a random chain point, attacked by reflection if unseen."""
    m, runs = int(params["m"] or 0), int(params["runs"] or 0)
    rng = np.random.default_rng(seed)
    wrong = clean = open_points = refused = 0
    for _ in range(runs):
        game = convex_chain(m, random_state=rng)
        chain = game.details["chain"]
        x0 = chain.X[int(rng.integers(2 * m))]
        model: Any = HardMarginSVM(tol=1e-3)
        if params["learner"] == "dyadic":
            model = DyadicDirectionLearner().fit(game.S.X, game.S.y)
            open_points += int(model.upper_region(game.target, x0[None])[0])
            clean += int(model.predict(x0[None])[0] != chain.s)
        poison = game.attacker.attack(game.target, game.S, x0)
        if len(poison) == 0:
            continue
        both = game.S + poison
        order = rng.permutation(len(both))
        try:
            model.fit(both.X[order], both.y[order])
        except (ConvergenceError, NotRealizableError):  # thinner than 64-bit numbers
            refused += 1
            continue
        value = float(model.decision_function(x0[None])[0])
        answer = int(rng.integers(2)) if abs(value) < 1e-6 else int(value >= 0)
        wrong += int(answer != chain.s)
    span = clopper_pearson(wrong, max(1, runs - refused), 0.9999)
    return {
        "error": clean / runs, "lower": span.estimate, "upper": open_points / runs,
        "bound": bounds.chain_rate(m), "broken": 0, "over": 0, "low": span.low, "high": span.high,
        "refused": refused,
    }  # fmt: skip


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    dyadic = frame[(frame.learner == "dyadic") & (frame["where"] == "disc")]
    flipped = "certified points of the dyadic learner that an attack flipped"
    ordered = "disorder of error, attacked and not certified for the dyadic learner"
    bound = "data sets whose mass left open by the certificate exceeds 2 e' log(64/gamma)"
    disorder = max((dyadic.error - dyadic.lower).max(), (dyadic.lower - dyadic.upper).max())
    found = [
        equals("10.22", flipped, int(dyadic.broken.sum()), 0),
        at_most("10.22", ordered, disorder, 0, what="largest difference"),
        equals("10.22", bound, int(dyadic.over.sum()), 0),
    ]
    chain = frame[(frame["where"] == "chain") & (frame.learner == "dyadic")]
    return found + [
        covers(
            "10.20",
            f"dyadic learner on the chain with {2 * int(row.m)} points: attackable rate",
            Interval(row.lower, row.low, row.high),
            row.bound,
        )
        for row in chain.itertuples()
    ]


def _curves(frame: pd.DataFrame) -> Figure:
    """Half-planes on the disc, same problems for both learners, over the number of rows (left) and
    over the margin (right): the attackable rate of the dyadic learner lies between real attacks and
    its certificate, which stays below 2 e' log(64/gamma), e' the largest error of a consistent
    classifier. Two clean points move the SVM far beyond its error, and nothing bounds the
    damage from above."""
    disc = frame[frame["where"] == "disc"]
    figure, (left, right) = panels(2, width=5.2, height=4.4)
    _rates(left, disc[disc.gamma == GAMMA].sort_values("m"), "m")
    sizes = sorted(disc.m.unique())
    left.set_xscale("log")
    left.set_xticks(sizes, [str(m) for m in sizes])
    left.set(xlabel="training rows m", ylabel="fraction of points", title=f"gamma = {GAMMA}")
    part = disc[disc.m == SIZE].sort_values("gamma", ascending=False)
    _rates(right, part.assign(log=np.log2(1 / part.gamma)), "log")
    right.set(xlabel="log2(1/gamma)", ylabel="fraction of points", title=f"m = {SIZE}")
    for ax in (left, right):
        ax.minorticks_off()
        ax.set_yscale("symlog", linthresh=1e-4)
        ax.set_ylim(0, 3)
    left.legend(fontsize=7, loc="lower left")
    return figure


def _rates(ax: Axes, part: pd.DataFrame, x: str) -> None:
    dyadic, svm = part[part.learner == "dyadic"], part[part.learner == "svm"]
    ax.plot(dyadic[x], dyadic.bound, label="2 e' log(64/gamma)", **THEORY)
    ax.fill_between(dyadic[x], dyadic.lower, dyadic.upper, color=PALETTE[0], alpha=0.25)
    ax.plot(dyadic[x], dyadic.upper, "v-", color=PALETTE[0], label="dyadic: certificate")
    ax.plot(dyadic[x], dyadic.lower, "^-", color=PALETTE[0], label="dyadic: attacked")
    ax.plot(svm[x], svm.lower, "s-", color=PALETTE[1], label="SVM: attacked, 2 points")
    ax.plot(svm[x], svm.error, "s:", color=PALETTE[1], label="SVM: error")


def _chain(frame: pd.DataFrame) -> Figure:
    """The chain distribution, where no learner for half-planes is safe: rate of points flipped by
    reflecting the m training rows, with 99.99 % intervals, and what the certificate of the dyadic
    learner leaves open. Runs in which the exact SVM refuses an answer (the margin is below 64-bit
    numbers) are left out."""
    chain = frame[frame["where"] == "chain"].sort_values("m")
    figure, (ax,) = panels(1, width=6.4, height=4.0)
    for i, name in enumerate(("dyadic", "svm")):
        part = chain[chain.learner == name]
        bars = [part.lower - part.low, part.high - part.lower]
        label = {"dyadic": "dyadic: attacked", "svm": "SVM: attacked"}[name]
        ax.errorbar(part.m + 0.06 * (2 * i - 1), part.lower, bars, fmt="os"[i], capsize=3,
                    color=PALETTE[i], label=label)  # fmt: skip
        for row in part[part.refused > 0].itertuples():
            text = f"{row.refused / row.runs:.0%} refused"
            ax.annotate(text, (row.m + 0.1, row.lower), fontsize=7)
    dyadic = chain[chain.learner == "dyadic"]
    ax.plot(dyadic.m, dyadic.upper, "v-", color=PALETTE[0], label="dyadic: certificate")
    ax.plot(dyadic.m, dyadic.bound, label="any learner: (1/2)(1 - 1/2m)^m", **THEORY)
    ax.set_xticks([1, 2, 3, 4])
    ax.set(xlabel="training rows m (chain of 2m points)", ylabel="fraction of points")
    ax.set_ylim(0, 1.05)
    ax.legend(fontsize=8, loc="upper left", ncols=2)
    return figure


def picture(frame: pd.DataFrame) -> Figure:
    """The dyadic learner at work: training rows, arc of consistent directions, dyadic candidates
    (dashed, on the way to the target's direction), points that could be flipped (shaded), and one
    winning poison of at most four correct rows (stars) against the circled point."""
    rng = np.random.default_rng(11)
    target, S, _ = disc_problem(14, 0.1, 1, rng)
    learner = DyadicDirectionLearner().fit(S.X, S.y)
    lattice = np.stack(np.meshgrid(*[np.linspace(-1, 1, 301)] * 2), axis=-1).reshape(-1, 2)
    lattice = lattice[np.hypot(*lattice.T) <= 1]
    region = lattice[learner.upper_region(target, lattice)]
    order = rng.permutation(len(region))[:400]
    report = attackable_rate(learner, target, S, region[order], [DyadicPathAttacker()])
    hit = next((i for i in report.exposed()), None)
    figure, (ax,) = panels(1, width=6.2, height=5.6)
    turn = np.linspace(0, 2 * np.pi, 200)
    ax.plot(np.cos(turn), np.sin(turn), color="#999999", linewidth=1)
    ax.scatter(region[:, 0], region[:, 1], s=3, color=PALETTE[5], alpha=0.25, linewidth=0)
    ax.scatter([], [], s=50, color=PALETTE[5], label="could be flipped")
    for label, marker, color in ((1, "o", PALETTE[0]), (0, "s", PALETTE[1])):
        ax.scatter(
            S.X[S.y == label, 0],
            S.X[S.y == label, 1],
            marker=marker,
            color=color,
            s=40,
            label=f"label {label}",
        )
    arc = consistent_arc(learner.positive_, learner.negative_)
    sweep = np.linspace(arc.low, arc.low + arc.width, 50)
    ax.plot(1.07 * np.cos(sweep), 1.07 * np.sin(sweep), color=PALETTE[2], linewidth=5,
            label="consistent directions")  # fmt: skip
    for i, c in enumerate(candidates(target)):
        if i > 7:
            break
        ax.plot([0, 1.2 * np.cos(c.beta)], [0, 1.2 * np.sin(c.beta)], **THEORY | {"linewidth": 0.8})
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


def chords(frame: pd.DataFrame) -> Figure:
    """The picture of the proof: the target's boundary meets the unit circle in q1 and
    q2, the learned one in p1 and p2, on one side of it. If p2 left the strip around the target's
    boundary (shaded), the line h' through q1 and p2 would be consistent, too, and its direction
    would differ by more than the width of the search interval: so deep in the search the learned
    boundary lies inside the strip."""
    beta, b, z = 1.2, 0.15, 0.3
    target, learned = _chord(beta, b), _chord(1.35, -0.25)
    (q1, q2), (p1, p2) = target, learned
    figure, (ax,) = panels(1, width=6.4, height=4.8)
    turn = np.linspace(0, 2 * np.pi, 300)
    ax.plot(np.cos(turn), np.sin(turn), color="#999999", linewidth=1)
    high, low = _chord(beta, b - z), _chord(beta, b + z)
    strip = np.vstack([_arc(low[0], high[0]), _arc(high[1], low[1])])
    ax.fill(*strip.T, color=PALETTE[5], alpha=0.25, linewidth=0, label="strip A_z around it")
    for chord, style, name in (
        (target, {"color": "black", "linewidth": 2}, "target's boundary"),
        (learned, {"color": PALETTE[0], "linewidth": 2}, "learned boundary"),
        (np.vstack([q1, p2]), THEORY, "h' through q1 and p2"),
    ):
        ax.plot(*chord.T, label=name, **style)
    for point, name in ((q1, "q1"), (q2, "q2"), (p1, "p1"), (p2, "p2")):
        ax.plot(*point, "o", color="black", markersize=5)
        ax.annotate(name, (1.1 * point[0], 1.1 * point[1]), ha="center", va="center")
    foot = -b * np.array([np.cos(beta), np.sin(beta)]) - 0.45 * (q2 - q1) / 2
    tip = foot + 0.55 * np.array([np.cos(beta), np.sin(beta)])
    ax.annotate("", (tip[0], tip[1]), xytext=(foot[0], foot[1]),
                arrowprops={"arrowstyle": "->"})  # fmt: skip
    ax.annotate("label 1", (tip[0], tip[1] + 0.07), ha="center")
    ax.set_aspect("equal")
    ax.set(xlabel="x1", ylabel="x2", xlim=(-1.25, 2.4), ylim=(-1.2, 1.2))
    ax.legend(fontsize=8, loc="center right")
    return figure


def _chord(beta: float, b: float) -> FloatArray:
    """Ends of the boundary <(cos, sin), x> + b = 0 on the unit circle, left end first."""
    u = np.array([np.cos(beta), np.sin(beta)])
    along = np.array([u[1], -u[0]])
    half = np.sqrt(1 - b**2)
    return np.vstack([-b * u - half * along, -b * u + half * along])


def _arc(start: FloatArray, stop: FloatArray) -> FloatArray:
    """The short arc of the unit circle between two of its points."""
    low = np.arctan2(start[1], start[0])
    turn = (np.arctan2(stop[1], stop[0]) - low + np.pi) % (2 * np.pi) - np.pi
    angles = low + turn * np.linspace(0, 1, 40)
    return np.column_stack([np.cos(angles), np.sin(angles)])


PLANE = Study(
    name="plane",
    title="Half-planes: the dyadic learner and the SVM",
    question=(
        "Random half-planes in the unit disc with a margin, and the chain on which nobody is safe. "
        "How large is the attackable rate of the dyadic direction learner, from below and above, "
        "and what do two points do to the SVM?"
    ),
    claims=("10.20", "10.22"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"rates": _curves, "chain-rates": _chain, "picture": picture, "proof": chords},
    version=2,
)
