"""Does dropping losers early change the advice? The race against the full search.

Source: docs/theory/22-symmetry.md, "The race and the corrected error".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.studies.invariance.symmetry_settings import available, task
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SETTINGS = ("tic-tac-toe, D4, tree", "digits, quarter turns, LR", "wine: sets of 3, LR",
            "Spambase, words rolled, LR")  # fmt: skip


def race_grid(scale: Scale) -> Sequence[Params]:
    """Settings and random training sets."""
    sets = 1 if scale == "quick" else 12
    names = SETTINGS[:1] if scale == "quick" else [s for s in SETTINGS if s in available()]
    return [{"setting": name, "set": r} for r in range(sets) for name in names]


def race_cell(params: Params, seed: int) -> Record:
    """Recommendation, fits and corrected error of the search with and without dropping."""
    from counterplay.invariance import symmetry_advisor

    one = task(str(params["setting"]), seed)
    raced, full = (
        symmetry_advisor(one.model, one.X, one.y, one.group, future=one.future, check=False,
                         race=race, random_state=seed)
        for race in (0.01, None)
    )  # fmt: skip
    return {
        "error_raced": raced.error, "error_full": full.error,
        "truth": 1 - float(raced.model.score(one.X_test, one.y_test)),
        "dropped": sum(not survived for survived in raced.to_frame()["survived"]),
        "raced": raced.recommendation, "full": full.recommendation,
        "same": int(raced.recommendation == full.recommendation),
        "fits_raced": raced.fits_used, "fits_full": full.fits_used,
        "by_fold": " ".join(str(count) for count in raced.fits_by_fold),
    }  # fmt: skip


def race_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """The same recommendation, never more fits, and what the dropped ones do to the error."""
    same = float(frame["same"].mean())
    fewer = bool((frame["fits_raced"] <= frame["fits_full"]).all())
    gap = frame["error_raced"] - frame["error_full"]
    return [
        Verdict("22.16", "The race recommends what the full search recommends.",
                f"{int(frame['same'].sum())} of {len(frame)}", ">= 90 %", same >= 0.9),
        Verdict("22.16", "It never needs more fits.",
                f"{int(frame['fits_raced'].sum())} of {int(frame['fits_full'].sum())}", "at most",
                fewer),
        Verdict("22.14", "Candidates that were dropped, and are left out of the correction, hardly "
                "change it.", f"raced minus full {gap.mean():+.4f}, smallest {gap.min():+.4f}",
                "no run more than .005 too low", bool(gap.min() >= -0.005)),
    ]  # fmt: skip


def race_figure(frame: pd.DataFrame) -> Figure:
    """Models fitted in each fold: the race drops losers after the second fold. Means over random
    training sets; dashed: without the race.
    """
    figure, (ax,) = panels(1, width=6.5, height=4.0)
    for colour, (name, part) in zip(PALETTE, frame.groupby("setting", sort=False)):
        counts = np.mean([np.array(text.split(), dtype=float) for text in part["by_fold"]], axis=0)
        folds = np.arange(1, len(counts) + 1)
        ax.plot(folds, counts, marker="o", ms=4, color=colour, label=str(name))
        ax.plot(folds, np.full(len(folds), counts[0]), color=colour, ls="--", lw=1)
    ax.set(xlabel="fold (two repeats of five below 500 rows)", ylabel="models fitted",
           ylim=(0, None))  # fmt: skip
    ax.legend(fontsize=8)
    return figure


RACE = Study(
    name="symmetry-race",
    title="Dropping losers early",
    question="Does the race save fits without changing the recommendation?",
    claims=("22.14", "22.16"),
    grid=race_grid,
    cell=race_cell,
    verdicts=race_verdicts,
    figures={"symmetry-race": race_figure},
    version=3,
)
