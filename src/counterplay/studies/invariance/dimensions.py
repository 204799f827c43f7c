"""Which dimension matters.

Source: docs/theory/11-invariance.md, "Dimensions of the constructions".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.studies.invariance.common import EPS
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def dimension_grid(scale: Scale) -> Sequence[Params]:
    """Names of the constructions."""
    names = ("subsets", "lower bound", "three orbits", "birds", "images", "constrained images",
             "supplement", "indicators", "quarter turns", "reflection")  # fmt: skip
    return [{"case": name} for name in names]


def dimension_cell(params: Params, seed: int) -> Record:
    """All dimensions of one construction, and what theory says."""
    from counterplay.invariance import instances
    from counterplay.invariance.lab import dim, mu, vcao, vcdim, vco

    makers: dict[str, Callable[[], Any]] = {
        "subsets": lambda: instances.example_vco0(2),
        "lower bound": lambda: instances.da_lower_bound(2, EPS, random_state=0),
        "birds": lambda: instances.background_birds(4, random_state=0),
        "images": lambda: instances.rotated_images(2, 2),
        "constrained images": lambda: instances.rotated_images(4, 1, constrained=True),
        "three orbits": _three_orbits,
        "supplement": _supplemented,
        "reflection": lambda: instances.halfspaces_c4(5, reflection=True),
        "indicators": lambda: instances.indicator_blowup(2),
        "quarter turns": lambda: instances.halfspaces_c4(4),
    }
    case = makers[str(params["case"])]()
    small = len(case.problem.H) <= 80
    out: dict[str, Any] = {
        "VCdim": vcdim(case.problem).value,
        "VCao": vcao(case.problem).value,
        "VCo": vco(case.problem).value,
        "dim": dim(case.problem).value if small else None,
        "mu": mu(case.problem).value if small else None,
    }
    facts = dict(case.facts)
    out["agrees"] = all(
        facts.get(name, out[name]) == out[name] for name in ("VCdim", "VCao", "VCo")
    )
    return out


def _three_orbits() -> Any:
    """All labelings of five points in three orbits, listed."""
    from dataclasses import replace

    from counterplay.invariance import instances
    from counterplay.invariance.lab import FiniteProblem

    case = instances.da_helps(5, EPS, random_state=0)
    group: Any = case.group
    rows = np.array(list(np.ndindex(2, 2, 2, 2, 2)), dtype=np.uint8)
    return replace(case, problem=FiniteProblem(rows, group.orbit_id))


def _supplemented() -> Any:
    """Two constant hypotheses on three pairs, and everything that is constant on no pair."""
    from dataclasses import replace

    from counterplay.invariance import instances
    from counterplay.invariance.lab import FiniteProblem

    rows = np.array([[0] * 6, [1] * 6], dtype=np.uint8)
    pairs = FiniteProblem(rows, np.repeat(np.arange(3), 2))
    case = instances.background_birds(3, random_state=0)
    return replace(case, problem=instances.supplement(pairs), facts=(("VCo", 1), ("VCao", 3)))


def dimension_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Order of the dimensions, and mu at least dim / 2."""
    ordered = bool(((frame["VCo"] <= frame["VCao"]) & (frame["VCao"] <= frame["VCdim"])).all())
    known = frame.dropna(subset=["mu"])
    above = float((known["mu"] - known["dim"] / 2).min())
    return [
        Verdict("11.01", "VCo <= VCao <= VCdim, with the values of the theory.",
                "all constructions", "holds", ordered and bool(frame["agrees"].all())),
        at_least("11.09", "mu is at least half of dim.", above, 0, slack=1e-9,
                 what="smallest difference"),
    ]  # fmt: skip


def dimension_figure(frame: pd.DataFrame) -> Figure:
    """Which dimension matters: VCdim governs ERM without the group, VCao augmentation and look-up,
    VCo the optimum of the invariant setting, mu every learner that sees only orbits.
    """
    figure, (ax,) = panels(1, width=8.5)
    place = np.arange(len(frame))
    for offset, (name, colour) in enumerate(zip(("VCdim", "VCao", "VCo", "dim", "mu"), PALETTE)):
        values = frame[name].astype(float) / (2 if name == "dim" else 1)
        label = "dim / 2" if name == "dim" else name
        ax.bar(place + 0.16 * (offset - 2), values, 0.15, color=colour, label=label)
    ax.set_xticks(place, frame["case"], rotation=20, fontsize=8)
    ax.set(ylabel="dimension", ylim=(0, 1.2 * float(frame["VCdim"].max())))
    ax.legend(ncols=5, fontsize=8)
    return figure


DIMENSIONS = Study(
    name="dimensions",
    title="Which dimension matters",
    question=("All dimensions of all constructions side by side."),
    claims=("11.01", "11.09"),
    grid=dimension_grid,
    cell=dimension_cell,
    verdicts=dimension_verdicts,
    figures={"dimensions": dimension_figure},
)
