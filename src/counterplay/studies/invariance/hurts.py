"""Augmentation can hurt: birds. Source: docs/theory/11-invariance.md, "Example 11.5: birds"."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import mean_interval
from counterplay.studies.invariance.common import integer
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


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
        if best is not None:
            errors["orbit_only"].append(
                D.error(best.fresh().fit(X, y).predict_proba(D.points)[:, 1])
            )
        else:
            errors["orbit_only"].append(0.5 * float((~np.isin(D.points, X)).mean()))
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
    exact, interval = bounds.birds_error(K, n), mean_interval(part["orbit_only"], 0.9999)
    known = frame.dropna(subset=["mu"])
    gap = float((known["mu"] - known["K"] / 2).abs().max())
    da = mean_interval(frame["da"], 0.9999)
    erm = float(frame[["erm", "erm_inv"]].to_numpy().max())
    return [
        Verdict("11.11", "ERM and ERM-INV are perfect after one sample.", f"{erm:g}", "0",
                erm == 0),
        Verdict("11.11", "Augmentation is a coin toss for every sample size.", str(da), "0.5",
                0.5 in da),
        Verdict("11.11", f"The best orbit-only learner follows (1-1/K)^n/2 (K = {K}, n = {n}).",
                str(interval), f"{exact:.4f}", exact in interval),
        Verdict("11.09", f"The linear program for all K birds (K <= {int(known['K'].max())}) has "
                "value K/2: tossing coins is optimal.", f"off by {gap:.1g}", "0", gap < 1e-7),
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
        for (name, label), colour in zip(labels.items(), PALETTE):
            groups = part.groupby("n")[name]
            ax.errorbar(groups.mean().index, groups.mean(), 2 * groups.sem(), fmt="o", capsize=3,
                        color=colour, label=label)  # fmt: skip
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
