"""What a bad basis costs, and why weights are the wrong yardstick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.elicitation import (
    LinearPreferenceUser,
    PreferenceElicitor,
    answered_by,
    bounds,
    instances,
)
from counterplay.elicitation.lab import SharedBases, estimate_ratios, solve_preference
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def _grid(scale: Scale) -> Sequence[Params]:
    etas = np.logspace(0, -6, 7 if scale == "quick" else 25)
    rotations = 5 if scale == "quick" else 50
    cells: list[Params] = [
        {"kind": "fibonacci", "size": float(d), "rotations": rotations} for d in range(3, 14)
    ]
    cells += [{"kind": "thin", "size": float(eta), "rotations": 0} for eta in etas]
    return cells


def _axes(values: Any) -> Any:
    return np.eye(values.shape[1])[len(values) :]


def _cell(params: Params, seed: int) -> Record:
    size = float(params["size"] or 0)
    if params["kind"] == "thin":
        thin = instances.thin_direction(size)
        found = estimate_ratios(thin.values, LinearPreferenceUser(thin.w, thin.eps))
        off = solve_preference(thin.values, found.alpha_hat) - thin.w
        return {
            "weight_error": float(np.linalg.norm(off)),
            "value_error": float(np.abs(thin.values @ off).max()),
            "thesis": None,
            "barycentric": None,
            "rotated": None,
        }
    d = int(size)
    instance = instances.fibonacci(d)
    user = LinearPreferenceUser(instance.w, instance.eps)
    worth = instance.values @ instance.w

    def regret(shared: SharedBases) -> float:
        result = answered_by(PreferenceElicitor(shared), user)
        return float(worth.max() - worth[result.index]) / instance.eps

    rotated = [
        regret(SharedBases(instance.values, kind="thesis", complement="random", random_state=s))
        for s in range(int(params["rotations"] or 0))
    ]
    return {
        "weight_error": None,
        "value_error": None,
        "thesis": regret(SharedBases(instance.values, kind="thesis", complement=_axes)),
        "barycentric": regret(SharedBases(instance.values, C=2.0, complement=_axes)),
        "rotated": float(np.mean(rotated)),
    }


def _predicted(d: float) -> float:
    """Regret of the thesis' basis in units of the precision."""
    return bounds.fibonacci_regret(int(d), 1.0)


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    fib = frame[(frame.kind == "fibonacci") & (frame["size"] >= 5)]
    off = float(np.abs(fib.thesis / [_predicted(d) for d in fib["size"]] - 1).max())
    thin = frame[frame.kind == "thin"]
    return [
        at_most(
            "08.12",
            "Regret/eps of the thesis' basis against 0.72 (F(d+1)-1), largest relative difference",
            off,
            0.01,
        ),
        at_most(
            "08.12",
            "Largest regret of the barycentric basis on the same instances (d >= 5)",
            fib.barycentric.max(),
            0.0,
            slack=1e-6,
        ),
        at_least("08.08", "Largest weight error", thin.weight_error.max(), 100),
        at_most("08.08", "Largest value error meanwhile", thin.value_error.max(), 0.02),
    ]


def _fibonacci(frame: pd.DataFrame) -> Figure:
    """Regret in units of the person's precision on the Fibonacci instance. With axis-parallel
    complements the thesis' basis loses exactly the Fibonacci factor; the barycentric basis, after
    one swap, loses nothing, and its guarantee grows only linearly."""
    figure, (axes,) = panels(1)
    part = frame[frame.kind == "fibonacci"].sort_values("size")
    d = part["size"].to_numpy()
    axes.plot(d, [_predicted(i) for i in d], **THEORY, label="0.72 (F(d+1) - 1)")
    axes.plot(d, part.thesis, "o", color=PALETTE[1], label="thesis' basis")
    axes.plot(d, part.rotated, "^", color=PALETTE[5], label="thesis' basis, rotated")
    axes.plot(d, part.barycentric, "s", color=PALETTE[0], label="barycentric basis")
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=-0.1)
    axes.set_xlabel("number of objectives d")
    axes.set_ylabel("regret / eps")
    axes.legend(fontsize=8)
    return figure


def _thin(frame: pd.DataFrame) -> Figure:
    """A direction of width eta: the distance of the estimated weights from the truth explodes as
    the direction gets thinner, while the values of all options stay right."""
    figure, (axes,) = panels(1)
    part = frame[frame.kind == "thin"].sort_values("size")
    axes.loglog(part["size"], part.weight_error, "o-", color=PALETTE[1], label="of the weights")
    axes.loglog(part["size"], part.value_error, "s-", color=PALETTE[0], label="of any value")
    axes.axhline(0.01, **THEORY, label="precision eps")
    axes.set_xlabel("width eta of the third direction")
    axes.set_ylabel("error")
    axes.legend(fontsize=8)
    return figure


BASES = Study(
    name="bad-bases",
    title="A bad basis costs a Fibonacci factor; one swap repairs it",
    question=(
        "On an instance made for it, the thesis' basis magnifies measuring errors exponentially in "
        "the number of objectives. Does the barycentric basis avoid that? And is the distance of "
        "the estimated weights a sensible yardstick at all?"
    ),
    claims=("08.08", "08.12"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"fibonacci": _fibonacci, "thin-direction": _thin},
)
