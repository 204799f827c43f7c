"""Odd geometry of coverage games: stable and envy-free plans are not convex sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.contribution import bounds, envy_report, instances, stability_report
from counterplay.contribution.lab import is_feasible
from counterplay.core.figures import PALETTE, panels
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def grid(scale: Scale) -> list[Params]:
    """Points of the two-party plane, and of the segment between two matchings of K4."""
    plane = 41 if scale == "quick" else 201
    segment = 101 if scale == "quick" else 501
    cells: list[Params] = [{"game": "pair", "x": float(x)} for x in np.linspace(0, 2, plane)]
    return cells + [{"game": "k4", "x": float(a)} for a in np.linspace(0.5, 1, segment)]


def cell(params: Params, seed: int) -> Record:
    """Best response and feasibility boundary, or utilities and envy margin."""
    x = float(params["x"] or 0.0)
    if params["game"] == "pair":
        game = instances.identical_pair()
        response = game.best_response(1, [x, 0.0])
        both = [is_feasible(game, [x, response]), stability_report(game, [x, response]).is_stable]
        diagonal = [x / 2, 1 - x / 2]  # the segment between the two stable plans
        return {
            "response": response,
            "feasible": both[0],
            "stable": both[1],
            "on_segment": float(game.utilities(diagonal)[0]),
            "margin": np.nan,
            "envious": 0,
        }
    k4 = instances.k4_edges()
    theta = instances.k4_segment(x)
    report = envy_report(k4, theta)
    heavier = theta[:, None] > theta[None, :] + 1e-9
    return {
        "response": np.nan,
        "feasible": report.is_feasible,
        "stable": False,
        "on_segment": float(k4.utilities(theta).min()),
        "margin": float(report.margin[heavier].max()) if heavier.any() else -1.0,
        "envious": len(report.pairs),
    }


def verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """The formulas of the two theorems, and the switch points."""
    pair = frame[frame["game"] == "pair"]
    theory = (pair["x"] / 2).map(bounds.pair_segment_utility)
    k4 = frame[frame["game"] == "k4"].sort_values("x")
    inside = k4[(k4["x"] > 0.5) & (k4["x"] < 1)]
    free = inside[inside["envious"] == 0]["x"]
    ends = k4[k4["x"].isin([0.5, 1.0])]
    step = float(np.diff(k4["x"]).max())
    near = abs(free.min() - 0.701) <= step and abs(free.max() - 0.843) <= step
    return [
        equals(
            "04.18",
            "Between the two stable plans of identical parties utility dips by alpha(1-alpha)/8.",
            float(abs(pair["on_segment"] - theory).max()),
            0.0,
            what="largest difference",
            tolerance=1e-12,
        ),
        Verdict(
            "04.19",
            "Both matchings of K4 are envy-free, their mixtures are so only on one inner interval.",
            f"free at both ends: {bool((ends['envious'] == 0).all())}; "
            f"inside on [{free.min():.3f}, {free.max():.3f}]",
            "[0.701, 0.843] up to the grid",
            bool(near and (ends["envious"] == 0).all()),
        ),
    ]


def draw_maps(frame: pd.DataFrame) -> Figure:
    """Left: two identical parties, both stable plans lie at corners of the feasible region. Right:
    along the segment between two envy-free plans of K4, envy appears, vanishes and reappears."""
    pair = frame[frame["game"] == "pair"].sort_values("x")
    k4 = frame[(frame["game"] == "k4") & (frame["x"] > 0.5) & (frame["x"] < 1)].sort_values("x")
    figure, (left, right) = panels(2, width=5.2)
    x, f = pair["x"].to_numpy(), pair["response"].to_numpy()
    left.fill_between(x, f, 2.0, color=PALETTE[4], alpha=0.25, label="everybody satisfied")
    left.plot(x, f, color=PALETTE[0], label="best response of party 2")
    left.plot(f, x, color=PALETTE[2], ls=":", lw=3, label="best response of party 1")
    left.plot([1, 0], [0, 1], color="#777777", ls="--", label="between: not feasible")
    left.plot([1, 0], [0, 1], "o", color=PALETTE[1], ms=9, label="stable plans")
    left.set(xlabel="samples of party 1", ylabel="samples of party 2", xlim=(-0.05, 2))
    left.set_ylim(-0.05, 2)
    left.legend(loc="upper right")
    margin = k4["margin"].to_numpy()
    right.plot(k4["x"], margin, color=PALETTE[0], label="best swap")
    right.axhline(0.0, color="#444444", ls="--")
    envied = margin >= 0
    right.fill_between(
        k4["x"], 0, margin, where=envied, color=PALETTE[1], alpha=0.4, label="somebody envies"
    )
    right.set(xlabel="weight of the first matching", ylabel="utility after the best swap - target")
    right.legend()
    return figure


STUDY = Study(
    name="geometry",
    title="Stable and envy-free plans need not be convex",
    question=(
        "Can two good plans be averaged? In coverage games not: between two stable plans of "
        "identical parties nobody is satisfied, between two envy-free plans envy comes and goes."
    ),
    claims=("04.18", "04.19"),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"maps": draw_maps},
)
