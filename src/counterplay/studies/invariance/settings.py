"""Other settings: benign data, unknown invariance, no right hypothesis.

Source: docs/theory/11-invariance.md, "Measured", "Proposition J.1 and Theorem J.1: unknown
invariance" and "Theorem 11.8: the agnostic setting".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import mean_interval
from counterplay.studies.invariance.common import draw_means, integer, on_curve, plain_ticks
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


BENIGN_LABELS = {
    "erm": "ERM",
    "erm_inv": "ERM-INV",
    "da": "augmentation",
    "invariant": "one-inclusion, invariant",
    "relaxed": "one-inclusion, relaxed",
}


def benign_grid(scale: Scale) -> Sequence[Params]:
    """Sample sizes and runs."""
    sizes, runs = ((6,), 40) if scale == "quick" else ((3, 6, 9), 120)
    return [{"n": n, "replicate": r} for n in sizes for r in range(runs)]


@lru_cache(maxsize=1)
def _halfspaces() -> tuple[Any, Any]:
    """Halfspaces on ten generic orbits of a reflection, and those that are constant on all."""
    from counterplay.invariance import instances

    problem = instances.halfspaces_c4(10, reflection=True).problem
    constant = problem.H[~problem.iota.any(axis=1)]  # type: ignore[union-attr]  # explicit
    return problem, constant


def benign_cell(params: Params, seed: int) -> Record:
    """Errors on natural points of ten orbits, for a random invariant halfspace."""
    from counterplay.invariance.lab import (
        DA,
        ERM,
        ErmInv,
        FiniteDistribution,
        OneInclusionInvariant,
        OneInclusionRelaxed,
    )

    rng = np.random.default_rng(seed)
    problem, constant = _halfspaces()
    target = constant[rng.integers(len(constant))]
    side = rng.integers(2, size=10)  # which of the two mirror images is natural
    natural = np.arange(10) + 10 * side
    D = FiniteDistribution(natural, target[natural], np.full(10, 0.1))
    X, y = D.sample(integer(params, "n"), rng)
    ties = int(rng.integers(2**31))  # the look-up sits on the very hypothesis that ERM picks
    learners = {
        "erm": ERM(problem, tie="random", random_state=ties),
        "erm_inv": ErmInv(ERM(problem, tie="random", random_state=ties)),
        "da": DA(problem, tie="random", random_state=rng),
        "invariant": OneInclusionInvariant(problem),
        "relaxed": OneInclusionRelaxed(problem),
    }
    return {name: D.error_of(learner.fit(X, y)) for name, learner in learners.items()}


def benign_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Both one-inclusion learners keep their bounds; the look-up costs nothing."""
    from counterplay.invariance import bounds

    part = frame[frame["n"] == 6]
    inside = mean_interval(part["invariant"], 0.999).low
    relaxed = mean_interval(part["relaxed"], 0.999).low
    worse = float((frame["erm_inv"] - frame["erm"]).max())
    return [
        at_most("11.14", "The look-up never makes ERM worse.", worse, 0, slack=1e-12),
        at_most("11.05", "The invariant learner stays below VCo / (n + 1) = 2/7.", inside,
                bounds.expected_error(2, 6), what="lower end"),
        at_most("11.06", "The relaxed learner stays below VCao / (n + 1) = 3/7.", relaxed,
                bounds.expected_error(3, 6), what="lower end"),
    ]  # fmt: skip


def benign_figure(frame: pd.DataFrame) -> Figure:
    """Halfspaces with a reflection and a random invariant target: nothing is hard here. The
    one-inclusion learners are optimal in the worst case, not best on average.
    """
    figure, (ax,) = panels(1)
    sizes = sorted(set(frame["n"].astype(int)))
    for offset, ((name, label), colour) in enumerate(zip(BENIGN_LABELS.items(), PALETTE)):
        groups = frame.groupby("n")[name]
        place = np.arange(len(sizes)) + 0.12 * (offset - 2)
        ax.errorbar(place, groups.mean(), 2 * groups.sem(), fmt="o", capsize=3, color=colour,
                    label=label)  # fmt: skip
    ax.set_xticks(range(len(sizes)), [str(n) for n in sizes])
    ax.set(
        xlabel="number of samples n", ylabel="error", xlim=(-0.5, len(sizes) - 0.5), ylim=(0, None)
    )
    ax.legend(fontsize=8)
    return figure


BENIGN = Study(
    name="benign",
    title="Benign data: worst-case optimal is not best on average",
    question=(
        "A random invariant halfspace on ten orbits. Which learner is best where nothing is hard?"
    ),
    claims=("11.05", "11.06", "11.14"),
    grid=benign_grid,
    cell=benign_cell,
    verdicts=benign_verdicts,
    figures={"benign": benign_figure},
    version=2,
)


ADAPTIVE_LABELS = {
    "adaptive": "adaptive",
    "invariant": "one-inclusion, invariant",
    "relaxed": "one-inclusion, relaxed",
    "erm_inv": "ERM-INV",
}


def adaptive_grid(scale: Scale) -> Sequence[Params]:
    """Invariance levels, sample sizes, replicates."""
    sizes, replicates = ((20, 80), 6) if scale == "quick" else ((10, 20, 40, 80, 160), 80)
    return [{"eta": eta, "m": m, "replicate": r} for eta in (0.0, 0.05, 0.2, 0.4) for m in sizes
            for r in range(replicates)]  # fmt: skip


def adaptive_cell(params: Params, seed: int) -> Record:
    """Errors of four learners on one random instance, and the chosen level."""
    from counterplay.invariance import instances
    from counterplay.invariance.lab import (
        ERM,
        AdaptiveRelaxed,
        ErmInv,
        OneInclusionInvariant,
        OneInclusionRelaxed,
    )

    rng = np.random.default_rng(seed)
    case = instances.eta_family(5, float(params["eta"] or 0.0), random_state=rng)
    X, y = case.distribution.sample(integer(params, "m"), rng)
    adaptive = AdaptiveRelaxed(case.problem, practical=True, random_state=rng)
    learners: dict[str, Any] = {
        "adaptive": adaptive,
        "invariant": OneInclusionInvariant(case.problem),
        "relaxed": OneInclusionRelaxed(case.problem),
        "erm_inv": ErmInv(ERM(case.problem, tie="random", random_state=rng)),
    }
    out = {name: case.distribution.error_of(m.fit(X, y)) for name, m in learners.items()}
    return {**out, "level": adaptive.chosen_}


def adaptive_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Zero error at eta = 0; learning at eta = 0.4."""
    zero = frame[frame["eta"] == 0.0]
    late = frame[(frame["eta"] == 0.4) & (frame["m"] >= 80)]
    worst, mean = float(zero["adaptive"].max()), float(late["adaptive"].mean())
    return [
        Verdict("11.16", "With a fully invariant target the adaptive learner makes no error.",
                f"{worst:g} (levels {sorted(set(zero['level'].astype(int)))})", "0", worst == 0),
        at_most("11.16", "With 40 % of the mass on mixed orbits it still learns (m >= 80).", mean,
                0.02),
    ]  # fmt: skip


def adaptive_figure(frame: pd.DataFrame) -> Figure:
    """The adaptive learner makes no error at eta = 0, like the invariant one. At larger eta and few
    samples it is worse than the relaxed learner and ERM-INV: half of its sample is for validation.
    """
    figure, (left, right) = panels(2, width=5.4)
    m = int(frame["m"].min())
    part = frame[frame["m"] == m]
    for offset, ((name, label), colour) in enumerate(zip(ADAPTIVE_LABELS.items(), PALETTE)):
        groups = part.groupby("eta")[name]
        place = np.arange(4) + 0.15 * (offset - 1.5)
        left.errorbar(place, groups.mean(), 2 * groups.sem().fillna(0), fmt="o", capsize=3,
                      color=colour, label=label)  # fmt: skip
    left.set_xticks(range(4), ["0", "0.05", "0.2", "0.4"])
    left.set(xlabel="invariance level eta of the target", ylabel="error",
             title=f"{m} samples")  # fmt: skip
    left.legend(fontsize=8)
    for offset, (eta, rows) in enumerate(frame.groupby("eta")):
        counts = rows["level"].astype(int).value_counts(normalize=True).sort_index()
        right.bar(counts.index + 0.18 * (offset - 1.5), counts, 0.17, label=f"eta = {eta:g}")
    right.set(xlabel="chosen level i", ylabel="share of runs")
    right.set_xticks(range(int(frame["level"].max()) + 1))
    right.legend(fontsize=8)
    return figure


def curves_figure(frame: pd.DataFrame) -> Figure:
    """Error against the number of samples at every invariance level. The adaptive learner
    makes no error at eta = 0; at larger eta it pays for its validation half. Seen orbits let
    even the invariant learner succeed with enough samples.
    """
    etas = sorted(set(frame["eta"]))
    figure, axes = panels(len(etas), width=3.6, height=3.6)
    for ax, eta in zip(axes, etas):
        part = frame[frame["eta"] == eta]
        draw_means(ax, part, "m", ADAPTIVE_LABELS, fmt=["o-", "s-", "D-", "^-"], shift=1.06)
        ax.set(xscale="log", xlabel="number of samples m", title=f"eta = {eta:g}",
               ylim=(-0.01, 0.33))  # fmt: skip
        plain_ticks(ax, sorted(set(part["m"].astype(int))))
    axes[0].set_ylabel("error")
    axes[-1].legend(fontsize=7)
    return figure


ADAPTIVE = Study(
    name="adaptive",
    title="Adapting to unknown invariance",
    question=(
        "The target is constant on all but a share eta of the orbits. Does the adaptive learner "
        "find the right level?"
    ),
    claims=("11.16",),
    grid=adaptive_grid,
    cell=adaptive_cell,
    verdicts=adaptive_verdicts,
    figures={"adaptive": adaptive_figure, "curves": curves_figure},
)


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
    values = [bounds.agnostic_excess(d, 2 * e, round(0.05 * d / e**2)) / e
              for d in (4, 16) for e in (0.05, 0.1)]  # fmt: skip
    spread = max(values) / min(values) - 1
    return [
        on_curve("11.20", "ERM's excess error equals the binomial formula.", part["excess"],
                 bounds.agnostic_excess(4, 0.2, 20) / 0.1),
        at_most("11.20", "Excess / eps depends on m eps^2 / d only, up to a few percent.", spread,
                0.06),
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
