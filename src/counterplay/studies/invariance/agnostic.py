"""The agnostic rate d / eps^2.

Source: docs/theory/11-invariance.md, "Theorem 11.8: the agnostic setting".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import mean_interval
from counterplay.studies.invariance.common import integer
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


SAMPLES = (40, 80, 160)  # of the second panel: d = 4, gamma = 0.1


def agnostic_grid(scale: Scale) -> Sequence[Params]:
    """First part: d, eps and budget c = m eps^2 / d. Second part: block size M and samples m."""
    replicates = 12 if scale == "quick" else 40
    sizes = (20, 100, 1000) if scale == "quick" else (10, 20, 50, 100, 300, 1000, 4000)
    rate: list[Params] = [
        {"part": "rate", "d": d, "eps": eps, "c": c, "M": 0, "m": round(c * d / eps**2),
         "replicate": r}
        for d in (4, 16) for eps in (0.05, 0.1) for c in (0.05, 0.1, 0.2)
        for r in range(replicates)
    ]  # fmt: skip
    return rate + [
        {"part": "memory", "d": 4, "eps": 0.05, "c": 0.0, "M": M, "m": m, "replicate": r}
        for M in sizes for m in SAMPLES for r in range(replicates)
    ]  # fmt: skip


def agnostic_cell(params: Params, seed: int) -> Record:
    """Mean excess error of ERM in units of eps, or what memorising orbits gains."""
    rng = np.random.default_rng(seed)
    d, eps, m = integer(params, "d"), float(params["eps"] or 0), integer(params, "m")
    if params["part"] == "memory":
        return {"excess": None, **_memory(d, 2 * eps, integer(params, "M"), m, rng)}
    counts = rng.multinomial(m, np.full(d, 1 / d), size=400)
    ones = rng.binomial(counts, 0.5 + 2 * eps)
    wrong = np.where(2 * ones == counts, 0.5, 2 * ones < counts)
    return {"excess": float(4 * eps * wrong.mean() / eps), "erm": None, "erm_inv": None}


def _memory(d: int, gamma: float, M: int, m: int, rng: np.random.Generator) -> dict[str, float]:
    """Error of ERM and of ERM-INV above the best hypothesis, mean of ten instances."""
    from counterplay.invariance import instances
    from counterplay.invariance.lab import ERM, ErmInv

    plain, lookup = [], []
    for _ in range(10):
        case = instances.agnostic_lower_bound(d, gamma, M, random_state=rng)
        X, y = case.distribution.sample(m, rng)
        share = case.target.reshape(d, M).mean(axis=1)
        best = float(np.minimum(share, 1 - share).mean())
        erm = ERM(case.problem, case.group, tie="random", random_state=rng)
        plain.append(case.distribution.error_of(erm.fit(X, y)) - best)
        lookup.append(case.distribution.error_of(ErmInv(erm).fit(X, y)) - best)
    return {"erm": float(np.mean(plain)), "erm_inv": float(np.mean(lookup))}


def agnostic_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Simulation on the exact formula; curves nearly collapse."""
    from counterplay.invariance import bounds

    rate = frame[frame["part"] == "rate"]
    part = rate[(rate["d"] == 4) & (rate["eps"] == 0.1) & (rate["c"] == 0.05)]
    memory = frame[(frame["part"] == "memory") & (frame["m"] == 80)]
    few = mean_interval(memory.loc[memory["M"] == 20, "erm_inv"], 0.9999)
    many = mean_interval(memory.loc[memory["M"] == memory["M"].max(), "erm_inv"], 0.9999)
    exact = bounds.agnostic_excess(4, 0.2, 20) / 0.1
    interval = mean_interval(part["excess"], 0.9999)
    values = [bounds.agnostic_excess(d, 2 * e, round(0.05 * d / e**2)) / e
              for d in (4, 16) for e in (0.05, 0.1)]  # fmt: skip
    spread = max(values) / min(values) - 1
    return [
        Verdict("11.20", "ERM's excess error equals the binomial formula.", str(interval),
                f"{exact:.4f}", exact in interval),
        Verdict("11.20", "Excess / eps depends on m eps^2 / d only, up to a few percent.",
                f"{spread:.1%}", "< 6%", spread < 0.06),
        Verdict("11.20", "With 20 points per block (m = 80) memorised labels beat every hypothesis "
                "of the class.", str(few), "< 0 (excess of ERM-INV)", few.high < 0),
        Verdict("11.20", "With large blocks there is nothing to memorise.", str(many),
                "> 0 (excess of ERM-INV)", many.low > 0),
    ]  # fmt: skip


def agnostic_figure(frame: pd.DataFrame) -> Figure:
    """Left: in the agnostic setting d / eps^2 samples are needed; the curves for different d and
    eps collapse (dashed: exact binomial formula, d = 16, eps = 0.05). Right: below zero,
    remembering the labels of seen points beats the best hypothesis; that ends with large blocks.
    """
    from counterplay.invariance import bounds

    figure, (left, right) = panels(2, width=5.4)
    rate = frame[frame["part"] == "rate"]
    for ((d, eps), rows), colour in zip(rate.groupby(["d", "eps"]), PALETTE):
        groups = rows.groupby("c")["excess"]
        left.errorbar(groups.mean().index, groups.mean(), 2 * groups.sem(), fmt="o", capsize=3,
                      color=colour, label=f"d = {d}, eps = {eps:g}")  # fmt: skip
    grid = np.linspace(0.03, 0.22, 30)
    theory = [bounds.agnostic_excess(16, 0.1, round(c * 16 / 0.0025)) / 0.05 for c in grid]
    left.plot(grid, theory, label="exact", **THEORY)
    left.set(xlabel="m eps^2 / d", ylabel="excess error / eps")
    left.legend(fontsize=8)
    memory = frame[frame["part"] == "memory"]
    for m, colour in zip(SAMPLES, PALETTE):
        rows = memory[memory["m"] == m]
        for name, style in (("erm", "o:"), ("erm_inv", "s-")):
            mean = rows.groupby("M")[name].mean()
            label = f"ERM-INV, m = {m}" if name == "erm_inv" else f"ERM, m = {m}"
            right.plot(mean.index, mean, style, color=colour, label=label)
    right.axhline(0, color="#444444", lw=0.8)
    right.set(xscale="log", xlabel="points per block M", ylabel="error above the best hypothesis",
              title="d = 4 blocks, bias 0.1")  # fmt: skip
    right.legend(fontsize=7)
    return figure


AGNOSTIC = Study(
    name="agnostic-rate",
    title="The agnostic rate d / eps^2",
    question=(
        "Does the excess error depend on m eps^2 / d only, and when does memorising orbits win?"
    ),
    claims=("11.20",),
    grid=agnostic_grid,
    cell=agnostic_cell,
    verdicts=agnostic_verdicts,
    figures={"agnostic-rate": agnostic_figure},
)
