"""How few questions people need: adaptive questionnaire on catalogues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.elicitation import (
    LinearPreferenceUser,
    PolytopeElicitor,
    PreferenceElicitor,
    answered_by,
)
from counterplay.elicitation.lab import PointSetOracle, equal_weights, random_comparisons
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

N, K, TARGET = 1000, 4, 0.01
PRIORS = {"even": 10.0, "uniform": 1.0, "sparse": 0.3}
RANDOM_LIMIT = 64


def _grid(scale: Scale) -> Sequence[Params]:
    people = 15 if scale == "quick" else 200
    kinds = ("scattered", "all undominated")
    return [
        {"catalogue": kind, "prior": prior, "person": i}
        for kind in kinds
        for prior in PRIORS
        for i in range(people)
    ]


def _items(kind: str, rng: np.random.Generator) -> Any:
    if kind == "scattered":
        return rng.random((N, K))
    items = np.abs(rng.normal(size=(N, K)))
    return items / np.linalg.norm(items, axis=1, keepdims=True)


def _cell(params: Params, seed: int) -> Record:
    rng = np.random.default_rng([7, int(params["person"] or 0)])
    items = _items(str(params["catalogue"]), rng)
    w = rng.dirichlet(np.full(K, PRIORS[str(params["prior"])]))
    w /= np.linalg.norm(w)
    worth = items @ w
    user = LinearPreferenceUser(w, 1e-4)

    def loss(row: int) -> float:
        return 1 - float(worth[row]) / float(worth.max())

    elicitor = PolytopeElicitor(items, target_regret=TARGET, random_state=0)
    reached = None
    while (query := elicitor.ask()) is not None:
        if reached is None and loss(elicitor.best_guess()) <= TARGET:
            reached = len(elicitor.events)
        elicitor.tell(user.compare(query.first, query.second))
    result = elicitor.result()
    return {
        "reached": len(elicitor.events) if reached is None else reached,
        "certified": result.n_queries,
        "regret": loss(result.index),
        "certificate": result.regret_certificate,
        "guaranteed": answered_by(PreferenceElicitor(items), user).n_queries,
        "random": _random_pairs(items, user, loss, seed),
    }


def _random_pairs(items: Any, user: LinearPreferenceUser, loss: Any, seed: int) -> int:
    """Random comparisons until the Chebyshev centre recommends well, up to a limit."""
    oracle = PointSetOracle(items)
    for q in (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, RANDOM_LIMIT):
        found = equal_weights(oracle) if q == 0 else random_comparisons(oracle, user, q, seed)
        if loss(found.item) <= TARGET:
            return q
    return RANDOM_LIMIT


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    found = []
    for kind in ("scattered", "all undominated"):
        part = frame[frame.catalogue == kind]
        by = part.groupby("prior").reached.median()
        limit = 5 if kind == "scattered" else 6
        found.append(
            at_most(
                "08.30",
                f"Median questions to 1 % regret, {kind} items, worst of three priors",
                by.max(),
                limit,
            )
        )
    over = float((frame.regret - frame.certificate).max())
    return [*found, at_most("08.28", "Regret minus certificate, largest", over, 0.0, slack=1e-9)]


def _counts(frame: pd.DataFrame) -> Figure:
    """Questions per person (1,000 items, four objectives): until the best guess is within 1 % of
    the optimum, until this is certified for every preference that fits the answers, with random
    comparisons, and with the guaranteed procedure at a precision of 1e-4."""
    columns = {
        "reached": "adaptive: within 1 %",
        "certified": "adaptive: certified",
        "random": "random comparisons",
        "guaranteed": "guaranteed procedure",
    }
    kinds = list(dict.fromkeys(frame.catalogue))
    figure, axes = panels(len(kinds), width=3.8, height=3.8)
    for ax, kind in zip(axes, kinds):
        part = frame[frame.catalogue == kind]
        data = [part[column].to_numpy(dtype=float) for column in columns]
        boxes = ax.boxplot(data, widths=0.6, patch_artist=True, whis=(5, 95), showfliers=False)
        for box, color in zip(boxes["boxes"], PALETTE):
            box.set_facecolor(color)
            box.set_alpha(0.6)
        for line in boxes["medians"]:
            line.set_color("black")
        ax.set_xticks(range(1, 5), list(columns.values()), rotation=20, ha="right", fontsize=8)
        ax.axhline(5, color="#444444", ls="--", lw=1.2)
        ax.set_title(kind)
        ax.set_ylim(bottom=-1)
    axes[0].set_ylabel("questions")
    return figure


ADAPTIVE = Study(
    name="few-questions",
    title="A handful of questions suffices, with a certificate",
    question=(
        "A person chooses among 1,000 items with four criteria. How many comparisons until the "
        "recommendation is within 1 % of the best, and until this is certain, for people whose "
        "weights are even, uniform or sparse?"
    ),
    claims=("08.28", "08.30"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"questions": _counts},
)
