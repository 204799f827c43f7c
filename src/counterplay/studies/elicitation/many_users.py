"""Many users share bases: the planner is called once per extra user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.elicitation import (
    LinearPreferenceUser,
    PreferenceElicitor,
    answered_by,
    bounds,
    instances,
)
from counterplay.elicitation.lab import SharedBases
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

K = 4


def _grid(scale: Scale) -> Sequence[Params]:
    counts = (1, 3, 10, 30, 100) if scale == "quick" else (1, 3, 10, 30, 100, 300, 1000, 3000)
    return [{"users": n} for n in counts]


def _cell(params: Params, seed: int) -> Record:
    n = int(params["users"] or 1)
    mdp = instances.random_mdp(0, k=K)
    rng = np.random.default_rng(seed)
    shared = SharedBases(mdp, kind="thesis")
    alone = 0
    for i in range(n):
        w = rng.dirichlet(np.ones(K))
        user = LinearPreferenceUser(w / np.linalg.norm(w), 0.01)
        answered_by(PreferenceElicitor(shared), user)
        if i < 10:
            single = SharedBases(mdp, kind="thesis")
            answered_by(PreferenceElicitor(single), user)
            alone += single.oracle.n_calls
    certificates = 2 * (K - 1) * len({*shared._coefficients})
    return {
        "shared": shared.oracle.n_calls - certificates,
        "certificates": certificates,
        "separate": alone / min(n, 10) * n,
    }


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    limit = np.array([bounds.shared_oracle_calls(K, K, int(n)) for n in frame.users])
    worst = float((frame.shared / limit).max())
    return [
        at_most(
            "08.24",
            "Planner directions with shared bases, in units of k + k d(2k-d-1) + n",
            worst,
            1.0,
        )
    ]


def _calls(frame: pd.DataFrame) -> Figure:
    """Directions the planner solves for n users, with shared bases and without (linear in n with a
    large factor), and the bound."""
    figure, (axes,) = panels(1)
    part = frame.sort_values("users")
    axes.loglog(part.users, part.separate, "^-", color=PALETTE[1], label="each user alone")
    axes.loglog(part.users, part.shared, "o-", color=PALETTE[0], label="shared bases")
    limit = [bounds.shared_oracle_calls(K, K, int(n)) for n in part.users]
    axes.loglog(part.users, limit, **THEORY, label="k + k d(2k-d-1) + n")
    axes.set_xlabel("users")
    axes.set_ylabel("directions planned")
    axes.legend(fontsize=8)
    return figure


MANY_USERS = Study(
    name="many-users",
    title="One more user costs one more plan",
    question=(
        "Only the choice of the benchmark depends on the user, so bases can be shared. How many "
        "directions does the planner solve for n users?"
    ),
    claims=("08.24",),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"calls": _calls},
)
