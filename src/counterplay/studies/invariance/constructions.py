"""Where augmentation helps, is not enough, or hurts: three constructions with exact curves.

Source: docs/theory/11-invariance.md, "Theorem 11.2: augmentation is not optimal", "Theorem 11.3:
knowing the group helps" and "Example 11.5: birds".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.studies.invariance.common import (
    EPS,
    draw_means,
    integer,
    on_curve,
    plain_ticks,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


PROPER = {
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
    errors: dict[str, list[float]] = {name: [] for name in PROPER}
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

    d = int(frame["d"].min())
    exact = [
        on_curve("11.07", f"Augmentation with {m} samples (d = {d}) follows the exact curve.",
                 frame.loc[(frame["m"] == m) & (frame["d"] == d), "da"],
                 bounds.proper_error(d, EPS, m))
        for m in ((6, 24) if 6 in set(frame["m"]) else (8, 32))
    ]  # fmt: skip
    part = frame.groupby(["d", "m"])["relaxed"].mean()
    ratio = max(float(v) / bounds.expected_error(d, m) for (d, m), v in part.items())
    return [
        *exact,
        equals("11.07", "The invariant one-inclusion learner makes no error for any sample size.",
               float(frame["one_inclusion"].max()), 0),
        at_most("11.06", "The relaxed one-inclusion learner stays below VCao / (m + 1).", ratio, 1,
                what="share of the bound"),
    ]  # fmt: skip


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
        draw_means(ax, part, "m", PROPER, fmt=list("os^Dv"))
        grid = np.unique(np.geomspace(1, max(part["m"].max(), 12 * d), 60).astype(int))
        ax.plot(grid, [bounds.proper_error(d, EPS, int(m)) for m in grid], **THEORY)
        bound = [bounds.expected_error(d, int(m)) for m in grid]
        ax.plot(grid, bound, color=PALETTE[3], ls=":", lw=1.2)
        ax.axvline(bounds.proper_fails_below(d, EPS), color="#999999", lw=0.8)
        ax.plot(bounds.proper_limit(d, EPS), EPS, "*", color="#444444", ms=12)
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
    limit = [bounds.proper_limit(1, float(1 / ratio)) for ratio in line]
    ax.plot(line, limit, label="0.1693 d / eps", **THEORY)
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


def helps_grid(scale: Scale) -> Sequence[Params]:
    """Sample sizes and replicates."""
    sizes, replicates = ((5, 20, 80), 8) if scale == "quick" else ((2, 5, 10, 20, 40, 80, 160), 40)
    return [{"m": m, "replicate": r} for m in sizes for r in range(replicates)]


def helps_cell(params: Params, seed: int) -> Record:
    """Mean errors of ERM and augmentation over random groups."""
    from counterplay.invariance import instances
    from counterplay.invariance.lab import DA, ERM

    rng = np.random.default_rng(seed)
    erm: list[float] = []
    da: list[float] = []
    for _ in range(50):
        case = instances.da_helps(21, EPS, random_state=rng)
        X, y = case.distribution.sample(integer(params, "m"), rng)
        for kind, out in ((ERM, erm), (DA, da)):
            learner = kind(case.problem, case.group, tie="random", random_state=rng)
            out.append(case.distribution.error_of(learner.fit(X, y)))
    return {"erm": float(np.mean(erm)), "da": float(np.mean(da))}


def helps_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """ERM on its formula, augmentation far below."""
    from counterplay.invariance import bounds

    part = frame[frame["m"] == 20]
    ratio = float(part["erm"].mean() / part["da"].mean())
    return [
        on_curve("11.08", "ERM, blind to the group, has error 8 eps (1 - 16 eps/(d-1))^m.",
                 part["erm"], bounds.blind_error(21, EPS, 20)),
        at_least("11.08", "Augmentation is more than five times better at m = 20.", ratio, 5,
                 what="times"),
    ]  # fmt: skip


def helps_figure(frame: pd.DataFrame) -> Figure:
    """All labelings of 21 points, but three orbits: augmentation learns from a few samples what
    ERM learns point by point (dashed: exact).
    """
    from counterplay.invariance import bounds

    figure, (ax,) = panels(1)
    draw_means(ax, frame, "m", {"erm": "ERM", "da": "augmentation"})
    grid = np.geomspace(2, frame["m"].max(), 40).astype(int)
    exact = [
        bounds.blind_error(21, EPS, int(m)) + bounds.blind_heavy_error(EPS, int(m)) for m in grid
    ]
    ax.plot(grid, exact, label="exact, blind", **THEORY)
    ax.set(xscale="log", xlabel="number of samples", ylabel="error", ylim=(-0.003, None))
    plain_ticks(ax, (2, 5, 10, 20, 40, 80, 160))
    ax.legend()
    return figure


HELPS = Study(
    name="helps",
    title="Knowing the group helps",
    question=("Three orbits instead of 21 free points: how much does augmentation gain?"),
    claims=("11.08",),
    grid=helps_grid,
    cell=helps_cell,
    verdicts=helps_verdicts,
    figures={"helps": helps_figure},
)


LARGEST_LISTED = 5  # beyond, the weights 1/2 are used, which are optimal (checked up to 8)


def birds_grid(scale: Scale) -> Sequence[Params]:
    """Number of birds and of samples."""
    Ks, shares, replicates = (
        ((4,), (0.25, 0.75, 3), 8) if scale == "quick" else ((4, 8, 16, 32, 64), (0.25, 1, 3), 30)
    )
    return [{"K": K, "n": max(1, round(share * K)), "replicate": r} for K in Ks
            for share in shares for r in range(replicates)]  # fmt: skip


@lru_cache(maxsize=8)
def _orbit_only(K: int) -> Any:
    """The optimal orbit-only learner of K birds; its programs are solved once per process."""
    from counterplay.invariance import instances
    from counterplay.invariance.lab import OrbitOnlyOptimal

    return OrbitOnlyOptimal(instances.background_birds(K, random_state=0).problem)


def birds_cell(params: Params, seed: int) -> Record:
    """Mean errors on random birds, and the value of the orbit game on all of them (K <= 8)."""
    from counterplay.invariance import instances
    from counterplay.invariance.lab import DA, ERM, ErmInv, mu_of

    K, n = integer(params, "K"), integer(params, "n")
    rng = np.random.default_rng(seed)
    errors: dict[str, list[float]] = {"erm": [], "erm_inv": [], "da": [], "orbit_only": []}
    best = _orbit_only(K) if K <= LARGEST_LISTED else None
    for _ in range(30):
        case = instances.background_birds(K, random_state=rng)
        D = case.distribution
        X, y = D.sample(n, rng)
        errors["erm"].append(D.error_of(ERM(case.problem).fit(X, y)))
        errors["erm_inv"].append(D.error_of(ErmInv(ERM(case.problem)).fit(X, y)))
        da = DA(case.problem, tie="random", random_state=rng)
        errors["da"].append(D.error_of(da.fit(X, y)))
        errors["orbit_only"].append(
            0.5 * float((~np.isin(D.points, X)).mean()) if best is None
            else D.error(best.fresh().fit(X, y).predict_proba(D.points)[:, 1])
        )  # fmt: skip
    out: dict[str, float | None] = {name: float(np.mean(v)) for name, v in errors.items()}
    small = K <= 8 and integer(params, "replicate") == 0
    out["mu"] = mu_of(case.problem, None, range(K)).value if small else None
    return out


def birds_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """ERM at zero, augmentation at one half, the orbit-only optimum on its curve."""
    from counterplay.invariance import bounds

    K = int(frame["K"].min())
    n = int(frame.loc[frame["K"] == K, "n"].median())
    part = frame[(frame["K"] == K) & (frame["n"] == n)]
    known = frame.dropna(subset=["mu"])
    gap = float((known["mu"] - known["K"] / 2).abs().max())
    erm = float(frame[["erm", "erm_inv"]].to_numpy().max())
    return [
        equals("11.11", "ERM and ERM-INV are perfect after one sample.", erm, 0),
        on_curve("11.11", "Augmentation is a coin toss for every sample size.", frame["da"], 0.5),
        on_curve("11.11", f"The best orbit-only learner follows (1-1/K)^n/2 (K = {K}, n = {n}).",
                 part["orbit_only"], bounds.birds_error(K, n)),
        equals("11.09", f"The linear program for all K birds (K <= {int(known['K'].max())}) has "
               "value K/2: tossing coins is optimal.", gap, 0, what="off by", tolerance=1e-7),
    ]  # fmt: skip


def birds_figure(frame: pd.DataFrame) -> Figure:
    """Birds on swappable backgrounds: augmentation never learns (1/2), the best learner that sees
    only orbits needs to see every bird (dashed: exact), ERM needs one sample.
    """
    from counterplay.invariance import bounds

    Ks = sorted(set(frame["K"].astype(int)))
    shown = Ks if len(Ks) < 3 else [Ks[1], Ks[-1]]
    figure, axes = panels(len(shown), width=5.4)
    labels = {"da": "augmentation", "orbit_only": "best orbit-only learner", "erm_inv": "ERM-INV"}
    for ax, K in zip(axes, shown):
        part = frame[frame["K"] == K]
        draw_means(ax, part, "n", labels)
        grid = np.unique(np.geomspace(1, 3 * K, 40).astype(int))
        ax.plot(grid, [bounds.birds_error(K, int(n)) for n in grid], label="(1-1/K)^n / 2",
                **THEORY)  # fmt: skip
        ax.set(xlabel="number of samples n", ylabel="error", ylim=(-0.02, 0.75),
               title=f"K = {K} birds")  # fmt: skip
        ax.legend(fontsize=8)
    return figure


HURTS = Study(
    name="hurts",
    title="Augmentation can hurt",
    question=(
        "Birds whose backgrounds can be swapped: what is left for a learner that forgets which "
        "copy was natural?"
    ),
    claims=("11.09", "11.11"),
    grid=birds_grid,
    cell=birds_cell,
    verdicts=birds_verdicts,
    figures={"hurts": birds_figure},
)
