"""Best responses in turn, at once or half-way: when do they settle?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.contribution import best_response_dynamics, bounds, instances
from counterplay.contribution.lab import CyclePACGame, NonConvergence
from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MODES = ("sequential", "simultaneous", "damped")
SHOWN = 24


def games() -> dict[str, tuple[Any, float]]:
    """The two games of the study with their stable level."""
    return {
        "directed triangle": (instances.directed_triangle(), 0.5),
        "cycle": (CyclePACGame(1, 0.9, integral=False, upper=1), bounds.cycle_real_level(0.9)),
    }


def grid(scale: Scale) -> list[Params]:
    """Every game with every way of moving."""
    return [{"game": game, "mode": mode} for game in games() for mode in MODES]


def cell(params: Params, seed: int) -> Record:
    """Run the dynamics from a fixed uneven start and keep the plans as text."""
    game, level = games()[str(params["game"])]
    start = np.array([0.1, 0.7, 0.3])
    mode: Any = params["mode"]
    try:
        result = best_response_dynamics(game, mode, theta0=start, max_sweeps=400)
        settled, period = True, 0
        history = list(result["theta"])
        distance = float(abs(result.theta - level).max())
    except NonConvergence as error:
        settled, period, distance = False, len(error.cycle), float("nan")
        history = _replay(game, mode, start)
    text = ";".join(" ".join(f"{x:.6g}" for x in row) for row in history[: SHOWN + 1])
    return {
        "settled": settled,
        "period": period,
        "sweeps": len(history) - 1,
        "distance": distance,
        "level": level,
        "plans": text,
    }


def _replay(game: Any, mode: str, theta: np.ndarray) -> list[np.ndarray]:
    plans = [theta]
    for _ in range(SHOWN):
        theta = theta.copy()
        if mode == "sequential":
            for i in range(game.k):
                theta[i] = game.best_response(i, theta)
        else:
            theta = game.best_response_map(theta)
        plans.append(theta)
    return plans


def verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Damped moves settle at the stable plan, the others cycle."""
    damped = frame[frame["mode"] == "damped"]
    other = frame[frame["mode"] != "damped"]
    periods = sorted({int(p) for p in other["period"]})
    return [
        equals(
            "04.26",
            "Moving half-way settles at the stable plan of both games.",
            float(damped["distance"].max(skipna=False)),
            0.0,
            what="largest distance",
            tolerance=1e-8,
        ),
        equals(
            "04.26",
            "Moving in turn or at once repeats itself for ever.",
            int((~other["settled"].astype(bool)).sum()),
            len(other),
            what=f"periods {periods}; runs that repeat:",
        ),
    ]


def draw(frame: pd.DataFrame) -> Figure:
    """Contribution of the first party, sweep by sweep; the stable plan is dashed."""
    figure, axes = panels(2, width=5.0, height=3.6)
    for ax, name in zip(axes, games()):
        part = frame[frame["game"] == name].set_index("mode")
        for color, mode in zip(PALETTE, MODES):
            plans = [row.split(" ") for row in part.loc[mode, "plans"].split(";")]
            first = [float(row[0]) for row in plans]
            ax.plot(first, marker=".", color=color, label=mode, lw=1.2)
        ax.axhline(float(part["level"].iloc[0]), **THEORY)
        ax.set(title=name, xlabel="sweep", ylabel="contribution of party 0", xlim=(0, SHOWN))
        ax.set_ylim(-0.05, 1.45)
        ax.legend(loc="upper right", ncols=3, fontsize=8)
    return figure


STUDY = Study(
    name="trajectories",
    title="Do parties that adjust ever settle?",
    question=(
        "A stable plan exists, but do the parties find it? On games where help goes round in a "
        "circle, adjusting in turn or all at once never ends; going half-way does."
    ),
    claims=("04.26",),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"trajectories": draw},
)
