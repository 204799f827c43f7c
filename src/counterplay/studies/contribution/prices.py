"""The flower: how the prices of stability and fairness grow with the number of parties."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.contribution import (
    CoverageGame,
    best_response_dynamics,
    bounds,
    equal_allocation,
    instances,
)
from counterplay.contribution.audit import allocation
from counterplay.contribution.lab import (
    coverage_opt_integer,
    is_feasible,
    optimal_stable_linear,
    socially_optimal_linear,
)
from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.validation import FloatArray
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import equals, log_slope

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def grid(scale: Scale) -> list[Params]:
    """Flowers with linear and coverage utilities."""
    sizes = [2, 3, 4, 6, 8, 10] if scale == "quick" else [2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32]
    return [{"utilities": kind, "s": s} for kind in ("linear", "coverage") for s in sizes]


def cell(params: Params, seed: int) -> Record:
    """Totals of the cheapest, stable and equal plan, and who brings what."""
    s = int(params["s"] or 0)
    flower = instances.flower(s)
    if params["utilities"] == "linear":
        game = flower.linear()
        opt, eq, ef = (
            socially_optimal_linear(game),
            optimal_stable_linear(game),
            equal_allocation(game),
        )
        theory = (
            bounds.flower_linear_opt(s),
            bounds.flower_linear_stable(s),
            bounds.flower_linear_envy_free(s),
        )
    else:
        cover = flower.coverage()
        opt = allocation(cover, _core_only(cover), "optimal")
        eq = best_response_dynamics(cover).allocation
        ef = equal_allocation(cover)
        theory = (
            bounds.flower_coverage_core_only(s),
            bounds.flower_coverage_stable(s),
            bounds.flower_coverage_equal(s),
        )
    record: dict[str, float] = {"k": flower.k, "whole": np.nan, "whole_theory": np.nan}
    if params["utilities"] == "coverage":
        record["whole"] = coverage_opt_integer(flower.coverage()).total
        record["whole_theory"] = float(np.ceil(bounds.flower_coverage_relaxed_opt(s)))
    for name, plan, value in zip(("opt", "eq", "ef"), (opt, eq, ef), theory):
        record |= {
            name: plan.total,
            f"{name}_theory": value,
            f"{name}_core": float(plan.theta[0]),
            f"{name}_petal": float(plan.theta[1:].mean()),
        }
    return record


def _core_only(game: CoverageGame) -> FloatArray:
    """The cheapest plan in which only the core contributes, found by bisection."""
    theta = np.zeros(game.k)
    low, high = 0.0, 4.0 * np.sqrt(game.k)
    for _ in range(60):
        theta[0] = (low + high) / 2
        low, high = (low, theta[0]) if is_feasible(game, theta) else (theta[0], high)
    theta[0] = high
    return theta


def verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Totals equal the closed forms; prices grow with exponent 1/2."""
    linear = frame[frame["utilities"] == "linear"]
    cover = frame[frame["utilities"] == "coverage"]
    tail = linear[linear["s"] >= 4]
    rate = log_slope(tail["k"], tail["eq"] / tail["opt"])
    ratio = linear["eq"] / linear["opt"] / np.sqrt(linear["k"])
    totals = [
        equals(
            claim,
            f"The {name} flower's totals equal their closed forms.",
            max(float(abs(part[p] - part[f"{p}_theory"]).max()) for p in ("opt", "eq", "ef")),
            0.0,
            what="largest difference",
            tolerance=1e-4,
        )
        for claim, part, name in (("04.01", linear, "linear"), ("04.16", cover, "coverage"))
    ]
    return [
        *totals,
        equals(
            "04.16",
            "The cheapest whole-number plan is the relaxation rounded up.",
            float(abs(cover["whole"] - cover["whole_theory"]).max()),
            0.0,
            what="largest difference",
        ),
        Verdict(
            "04.03",
            "The price of stability divided by sqrt(k) approaches 1/2 from above.",
            f"{ratio.max():.3f} down to {ratio.min():.3f}; log-log slope {rate:.3f}",
            "between 0.5 and 0.6",
            bool(ratio.min() > 0.5 and ratio.max() < 0.6),
        ),
        equals(
            "04.01",
            "In the stable plan the core, who could help everybody, brings nothing.",
            float(frame["eq_core"].abs().max()),
            0.0,
        ),
    ]


def draw_prices(frame: pd.DataFrame) -> Figure:
    """Stability and fairness cost about sqrt(k)/2 times the cheapest plan; theory dashed."""
    figure, axes = panels(2, width=5.0)
    for ax, kind in zip(axes, ("linear", "coverage")):
        part = frame[frame["utilities"] == kind].sort_values("k")
        for name, label, color in (
            ("eq", "stable", PALETTE[0]),
            ("ef", "envy-free", PALETTE[1]),
        ):
            ax.plot(part["k"], part[name] / part["opt"], "o", color=color, label=f"{label} plan")
            ax.plot(part["k"], part[f"{name}_theory"] / part["opt_theory"], **THEORY)
        k = np.geomspace(part["k"].min(), part["k"].max(), 50)
        ax.plot(k, np.sqrt(k) / 2, color="#999999", lw=1, label="sqrt(k) / 2")
        ax.set(xscale="log", yscale="log", title=f"{kind} utilities")
        ax.set(xlabel="number of parties k", ylabel="total / cheapest total")
        ticks = [1, 2, 4, 8, 16]
        ax.set_yticks(ticks, [str(tick) for tick in ticks])
        ax.set_ylim(1.0, 1.6 * float((part["eq"] / part["opt"]).max()))
        ax.minorticks_off()
        ax.legend()
    return figure


def draw_anatomy(frame: pd.DataFrame) -> Figure:
    """Who brings how much on the flower with 17 parties: the cheapest plan rests on the core."""
    part = frame[frame["s"] == 4].set_index("utilities")
    figure, axes = panels(2, width=4.6, height=3.6)
    for ax, kind in zip(axes, ("linear", "coverage")):
        row = part.loc[kind]
        for number, (who, label) in enumerate((("core", "core"), ("petal", "each of 16 petals"))):
            heights = [row[f"{plan}_{who}"] for plan in ("opt", "eq", "ef")]
            place = np.arange(3) + (number - 0.5) * 0.36
            bars = ax.bar(place, heights, 0.34, color=PALETTE[number], label=label)
            ax.bar_label(bars, fmt="%.2f", fontsize=8)
        totals = [f"{name}\ntotal {row[p]:.2f}" for name, p in NAMES]
        ax.set_xticks(range(3), totals)
        ax.set(title=f"{kind} utilities", ylabel="contribution (samples)")
        ax.legend()
    return figure


NAMES = (("cheapest", "opt"), ("stable", "eq"), ("equal", "ef"))

STUDY = Study(
    name="prices",
    title="What stability and fairness cost on the flower",
    question=(
        "One party overlaps with everybody. The cheapest plan lets it do all the work, but it "
        "would stop early. How much more do a stable and an envy-free plan cost as the number of "
        "parties grows? Theory says about sqrt(k)/2 times as much."
    ),
    claims=("04.01", "04.03", "04.16"),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"prices": draw_prices, "anatomy": draw_anatomy},
)
