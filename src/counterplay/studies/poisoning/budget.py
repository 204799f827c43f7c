"""Budgeted attacks: the plain learner, block and projected majority, subsample, hash partition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.svm import SVC

from counterplay.core.figures import PALETTE, panels
from counterplay.core.stats import Interval, clopper_pearson
from counterplay.poisoning import (
    BlockMajorityClassifier,
    IntervalTarget,
    LabelledSet,
    PartitionClassifier,
    attackable_rate,
    bounds,
)
from counterplay.poisoning.lab import (
    AcrossBoundaryAttacker,
    GapCuttingAttacker,
    HalfspaceProjector,
    IntervalProjector,
    LinearTarget,
    MaxOpenInterval,
    ProjectedMajority,
    SubsampleERM,
    open_interval_rate,
)
from counterplay.poisoning.model import fresh
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

LEARNERS = ("plain", "block", "projected", "subsample", "hash")
NAMES = {
    "plain": "plain", "block": "block majority", "projected": "ProjectedMajority",
    "subsample": "SubsampleERM, eps = 0.3", "hash": "hash partition (DPA)",
}  # fmt: skip
BASES = ("longest interval", "SVM, digits 3 or 8", "SVM, two components")
EPS, ROWS = 0.3, {"longest interval": 1000, BASES[1]: 200, BASES[2]: 200}


def _grid(scale: Scale) -> Sequence[Params]:
    quick = scale == "quick"
    budgets: dict[str, tuple[int, ...]] = dict.fromkeys(BASES, (1,) if quick else (1, 2, 3))
    budgets[BASES[0]] = (1, 5) if quick else (1, 2, 5, 10)
    return [
        {"base": base, "learner": name, "t": t, "attacks": _attacks(name, quick),
         "coins": _coins(name, quick), "draws": _draws(base, name, t, quick)}
        for base in BASES
        for t in budgets[base]
        for name in LEARNERS
        if base != BASES[1] or name != "projected"  # 66 t + 1 blocks of ten need more rows
    ]  # fmt: skip


def _attacks(name: str, quick: bool) -> int:
    """Points to attack; each costs a few refits of all blocks."""
    few = {"plain": 20, "subsample": 6, "block": 2, "projected": 1, "hash": 4}
    return few[name] if quick else 40


def _coins(name: str, quick: bool) -> int:
    """Fits per poison; a subsample is a coin with much luck in it, so take many."""
    if name in ("plain", "hash"):
        return 1
    return (4 if quick else 40) if name == "subsample" else (1 if quick else 2)


def _draws(base: str, name: str, t: int, quick: bool) -> int:
    """Draws behind a certified rate, which is known to about 3.7 / draws at best."""
    if name in ("plain", "hash"):
        return 1
    if not quick:
        return 400 if base == BASES[0] else 160  # there are 157 test digits
    if base == BASES[0] and name == "block":
        return {1: 320, 5: 120}[t]
    return 5 if name == "projected" else 15


@cache
def _digits(components: int | None) -> tuple[Any, LinearTarget]:
    """Digits 3 and 8 with the labels of a linear teacher fitted on all of them."""
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, (3, 8))
    points, labels = X[chosen], (y[chosen] == 8).astype(int)
    if components is not None:
        points = PCA(components, random_state=0).fit_transform(points)
    teacher = SVC(kernel="linear").fit(points, labels)
    return points, LinearTarget(teacher.coef_[0], float(teacher.intercept_[0]))


def _problem(base: str, seed: int) -> tuple[Any, Any, LabelledSet, Any, list[Any]]:
    """Base learner, target, training rows, test points, attackers."""
    rng = np.random.default_rng(seed)
    if base == BASES[0]:
        S = LabelledSet(rng.random(ROWS[base]), np.zeros(ROWS[base]))
        test = rng.permutation(np.linspace(0, 1, 401))[:, None]
        return MaxOpenInterval(), IntervalTarget(), S, test, [GapCuttingAttacker()]
    points, target = _digits(None if base == BASES[1] else 2)
    order = rng.permutation(len(points))
    X, test = points[order[: ROWS[base]]], points[order[ROWS[base] :]]
    attackers = [AcrossBoundaryAttacker(step) for step in (1.001, 1.2, 1.5, 2.0)]
    return SVC(kernel="linear"), target, LabelledSet(X, target(X)), test, attackers


def _learner(params: Params, base: Any, reference: Any) -> Any:
    t, name = int(params["t"] or 1), params["learner"]
    if name == "block":
        return BlockMajorityClassifier(base, t)
    if name == "projected":
        if params["base"] == BASES[0]:
            return ProjectedMajority(base, t, 3, IntervalProjector(reference))
        return ProjectedMajority(base, t, 4, HalfspaceProjector(reference))
    if name == "subsample":
        return SubsampleERM(base, t, EPS)
    return base if name == "plain" else PartitionClassifier(base, 10 * t + 1)


def _cell(params: Params, seed: int) -> Record:
    t = int(params["t"] or 1)
    base, target, S, test, attackers = _problem(str(params["base"]), 7)  # the same for all learners
    learner = _learner(params, base, test)
    coins = int(params["coins"] or 1)
    few = test[: int(params["attacks"] or 1)]
    report = attackable_rate(learner, target, S, few, attackers, t, n_coins=coins, seed=seed)
    low = report.interval("atk_lower")
    if params["base"] == BASES[0] and params["learner"] == "plain":
        value = open_interval_rate(S.X, t)  # exact: no attack does better
        low = Interval(value, value, value, 0.95)
    up = _upper(params, learner, target, S, test, seed)
    drawn = 1 - (len(S) / (len(S) + t)) ** bounds.subsample_size(len(S) + t, t, EPS)
    return {
        "error": report.err, "lower": low.estimate, "lower_low": low.low, "lower_high": low.high,
        "upper": up.estimate, "upper_high": up.high,
        "drawn": drawn, "broken": int((report.certified & (report.attacked > 0)).sum()),
    }  # fmt: skip


def _upper(
    params: Params, learner: Any, target: Any, S: LabelledSet, test: Any, seed: int
) -> Interval:
    """What can be proven: 1 for plain models, exact for the plain longest interval."""
    t, truth = int(params["t"] or 1), np.asarray(target(test))
    if params["learner"] == "plain":
        value = open_interval_rate(S.X, t) if params["base"] == BASES[0] else 1.0
        return Interval(value, value, value, 0.95)
    if params["learner"] == "hash":
        curve = learner.fit(S.X, S.y).certified_accuracy(test, truth)
        return clopper_pearson(len(test) - round(curve.at(t) * len(test)), len(test))
    draws = int(params["draws"] or 1)
    span: Interval = fresh(learner, seed).certified_upper_rate(
        S.X, S.y, test, truth, n_permutations=draws
    )
    return span


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    line = frame[frame.base == BASES[0]]
    plain = line[line.learner == "plain"].set_index("t").upper
    found = [
        Verdict(
            "10.29",
            f"block majority of the longest interval, t = {row.t}: certified rate",
            f"{row.upper:.4f} (at most {row.upper_high:.4f})",
            f"below the plain learner's exact rate {plain[row.t]:.4f}",
            bool(row.upper_high < plain[row.t]),
        )
        for row in line[(line.learner == "block") & (line.t <= 5)].itertuples()  # 10: 9 rows each
    ]
    broken = int(frame[frame.learner == "hash"].broken.sum())
    flipped = "certified predictions of hash partitions that a real attack flipped, all bases"
    beyond = int((frame.lower_low > frame.upper_high).sum())
    reached = "rates that real attacks reach beyond the certified rate, all learners and bases"
    drawn = frame[frame.learner == "subsample"].drawn.max()
    chance = "chance that the subsample contains poison, all bases and budgets (eps/3)"
    return [
        *found,
        equals("10.34", flipped, broken, 0),
        equals("10.45", reached, beyond, 0, what=f"of {len(frame)}:"),
        at_most("10.32", chance, drawn, EPS / 3, what="largest"),
    ]


def _figure(frame: pd.DataFrame) -> Figure:
    """Attacked rate (filled markers, real attacks) and certified rate (open markers, the most that
    any attack can reach) over the poison budget, both with 95 % intervals; attacks are run on some
    of the test points, certificates hold for the mean over all of them. Left: the longest open
    interval, 1000 rows, where the rate of the plain learner is exact. Middle and right: a linear
    SVM on digits 3 and 8, 200 rows, with all 64 pixels and with two principal components. The
    projected majority needs 10 k_p t + 1 blocks, with 64 pixels 661 for t = 1, and is left out
    there. Votes of blocks of a few rows mean little: see the largest budgets."""
    figure, axes = panels(3, width=4.2, height=4.4)
    for ax, base in zip(axes, BASES):
        part = frame[frame.base == base]
        budgets = sorted(part.t.unique())
        for i, name in enumerate(LEARNERS):
            own = part[part.learner == name].sort_values("t")
            if own.empty:
                continue
            place = np.searchsorted(budgets, own.t) + 0.13 * (i - 2)
            bars = [own.lower - own.lower_low, own.lower_high - own.lower]
            ax.errorbar(place, own.lower, bars, fmt="o", color=PALETTE[i], elinewidth=0.8,
                        label=NAMES[name])  # fmt: skip
            ax.errorbar(place + 0.04, own.upper, [0 * own.upper, own.upper_high - own.upper],
                        fmt="v", color=PALETTE[i], markerfacecolor="none", markersize=7,
                        elinewidth=0.8)  # fmt: skip
        ax.set_xticks(range(len(budgets)), [str(t) for t in budgets])
        ax.set_xlim(-0.6, len(budgets) - 0.4)
        ax.set_yscale("symlog", linthresh=1e-2)
        ax.set_yticks([0, 0.01, 0.1, 1], ["0", "0.01", "0.1", "1"])
        ax.set_ylim(-0.001, 1.5)
        ax.set(xlabel="poison budget t (rows)", title=base)
    axes[0].set_ylabel("fraction of points")
    axes[0].plot([], [], "v", color="black", markerfacecolor="none", label="certified: at most")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, fontsize=8, loc="outside upper center", ncols=6)
    return figure


BUDGET = Study(
    name="budget",
    title="What a known poison budget buys",
    question=(
        "An attacker can add t rows. How much can it flip, and how much can be excluded, for the "
        "plain learner, the three wrappers of the theory and a hash partition, around the most "
        "attackable learner and around a linear SVM on digits?"
    ),
    claims=("10.29", "10.32", "10.34", "10.45"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"rates": _figure},
    version=4,
)
