"""The PAC cycle: a stable plan in whole numbers exists for every second target."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, log
from typing import TYPE_CHECKING

import numpy as np

from counterplay.contribution import TabularGame, bounds
from counterplay.contribution.lab import CyclePACGame
from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def grid(scale: Scale) -> list[Params]:
    """Numbers of hidden bits and of samples needed."""
    bits = (2, 3, 5) if scale == "quick" else tuple(range(2, 13))
    top = 9 if scale == "quick" else 14
    return [{"d": d, "m": m} for d in bits for m in range(1, top + 1)]


def cell(params: Params, seed: int) -> Record:
    """Count stable plans by looking at all of them."""
    d, m = int(params["d"] or 0), int(params["m"] or 0)
    mu = 1 - Fraction(d - 1, d) ** m / 2
    game = CyclePACGame(d, mu)
    table = TabularGame.from_game(game, [np.arange(m + 3)] * 3)
    cheapest = table.cheapest(table.feasible)
    fair = table.cheapest(table.envy_free)
    naive = ceil(log(2 * (1 - float(mu))) / log(1 - 1 / d))
    return {
        "needed": game.samples_needed,
        "naive": naive,
        "stable": int(table.stable.sum()),
        "cheapest": float("nan") if cheapest is None else float(cheapest.sum()),
        "fair": float("nan") if fair is None else float(fair.sum()),
    }


def verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Parity rule, and exactness of the number of samples."""
    expected = frame["m"].map(bounds.cycle_equilibria)
    naive = int((frame["naive"] != frame["m"]).sum())
    return [
        equals(
            "04.23",
            "No stable plan if an odd number of samples is needed, exactly one if even.",
            int((frame["stable"] != expected).sum()),
            0,
            what=f"exceptions in {len(frame)} games:",
        ),
        equals(
            "04.24",
            "The number of samples needed is exact (the usual formula with logarithms is not).",
            int((frame["needed"] != frame["m"]).sum()),
            0,
            what=f"errors: {naive} with logarithms, here",
        ),
    ]


def draw(frame: pd.DataFrame) -> Figure:
    """Number of stable whole-number plans by samples needed; the rule 0, 1, 0, 1, ... is dashed."""
    figure, (ax,) = panels(1, width=6.0, height=3.4)
    sizes = sorted(frame["d"].unique())
    for number, d in enumerate(sizes):
        part = frame[frame["d"] == d].sort_values("m")
        shift = (number - (len(sizes) - 1) / 2) * 0.5 / len(sizes)
        ax.plot(
            part["m"] + shift,
            part["stable"],
            "o",
            color=PALETTE[number % 7],
            label=f"{d} hidden bits" if number < 7 else None,
        )
    m = np.arange(1, frame["m"].max() + 1)
    ax.plot(m, [bounds.cycle_equilibria(int(x)) for x in m], **THEORY)
    ax.set(xlabel="samples needed (set by the target)", ylabel="stable plans")
    ax.set_yticks([0, 1])
    ax.set_ylim(-0.2, 1.7)
    ax.set_xticks(m)
    ax.legend(ncols=3, loc="upper center")
    return figure


STUDY = Study(
    name="parity",
    title="A target with no stable plan",
    question=(
        "Three parties learn from each other in a circle, in whole numbers of samples. Whether a "
        "stable plan exists depends on whether the number of samples needed is even."
    ),
    claims=("04.23", "04.24"),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"parity": draw},
)
