"""Were these rows seen in training? How often the test says so, seen and unseen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.auditing.intervals import accuracy_of
from counterplay.auditing.sections import HonestSection
from counterplay.auditing.sections.gaming import cheapest_of, moves_of
from counterplay.core.figures import PALETTE, panels
from counterplay.core.threads import one_thread
from counterplay.studies.auditing.people import STAND_IN, available, context_of, table, whole_run
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ROWS, SEEDS, LARGE = 500, 20, 9000


def _grid(scale: Scale) -> Sequence[Params]:
    if scale == "quick":
        name = "german_credit" if available("german_credit") else STAND_IN
        return [
            {"data": name, "model": "HGB", "trained": how, "seed": 0} for how in ("here", "other")
        ]
    grid: list[Params] = [
        {"data": name, "model": kind, "trained": how, "seed": seed}
        for name in ("german_credit", "heloc")
        for kind in ("HGB", "LR")
        for how in ("here", "other")
        for seed in range(SEEDS)
    ]
    grid += [
        {"data": name, "model": kind, "trained": "large", "seed": seed}
        for name in ("adult", "taiwan", "heloc")
        for kind in ("HGB", "LR")
        for seed in range(6)
    ]
    return [*grid, {"data": "taiwan", "model": "LR", "trained": "coverage", "seed": 0}]


def _cell(params: Params, seed: int) -> Record:
    name, kind = str(params["data"]), str(params["model"])
    how, number = str(params["trained"]), int(params["seed"] or 0)
    if how == "coverage":
        return _coverage(name, kind)
    n = len(table(name)[1])
    order = np.random.default_rng(100 + number).permutation(n)
    size = min(ROWS, n // 2)
    rows = np.sort(order[:size])
    other = np.sort(order[size : size + (LARGE if how == "large" else size)])
    train = rows if how == "here" else other
    context = context_of(name, kind, rows, train, told=False)
    found = whole_run(context, HonestSection()).results["honest"]
    test: Any = found.seen  # type: ignore[attr-defined]
    return {
        "verdict": test.verdict, "p": test.p_value, "gap": test.gap, "rho": test.rho,
    }  # fmt: skip


def _coverage(name: str, kind: str) -> dict[str, Any]:
    """Return in how many of 200 subsamples the interval of gamed accuracy covers the truth."""
    n = len(table(name)[1])
    order = np.random.default_rng(0).permutation(n)
    context = context_of(name, kind, np.arange(n), np.sort(order[:2000]))
    with one_thread():
        moves_of(context)
        plan = cheapest_of(context, np.arange(n))
    sure = plan.upper <= 1.0
    truth = float((sure == context.wanted).mean())
    hits = 0
    for draw in range(200):
        rows = np.random.default_rng(draw).permutation(n)[:ROWS]
        found = accuracy_of(context.decided(sure[rows], rows=rows))
        hits += found.low <= truth <= found.high
    return {"verdict": "coverage", "hits": hits, "p": 0.0, "gap": 0.0, "rho": 0.0}


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    def flagged(kind: str | None, how: str) -> tuple[int, int]:
        own = frame[frame["trained"] == how]
        own = own if kind is None else own[own["model"] == kind]
        return int((own["verdict"] == "seen").sum()), len(own)

    verdicts = []
    hits, n = flagged("HGB", "here")
    if n:
        verdicts.append(at_least("27.08", f"Boosted trees on rows they saw, flagged of {n}.",
                                 float(hits), float(n)))  # fmt: skip
    hits, n = flagged(None, "other")
    if n:
        verdicts.append(at_most("27.08", f"Unseen rows that are called seen, of {n}.",
                                float(hits), max(1.0, n / 80)))  # fmt: skip
    hits, n = flagged(None, "large")
    if n:
        verdicts.append(at_most("27.08", f"Unseen rows of models with 9,000 training rows, of {n}.",
                                float(hits), 2.0))  # fmt: skip
    cover = frame[frame["trained"] == "coverage"]
    if len(cover):
        verdicts.append(at_least("27.26", "Subsamples of 500 rows of Taiwan, of 200, whose "
                                 "interval covers the value of the whole table.",
                                 float(cover["hits"].iloc[0]), 185.0))  # fmt: skip
    return verdicts


def _figure(frame: pd.DataFrame) -> Figure:
    """Gap between the model and its cross-fitted clone against rho, one point per table. Seen rows
    are to the upper right; the dashed lines are the bars of the test.
    """
    figure, (ax,) = panels(1, width=6)
    words = {"here": "seen", "other": "unseen", "large": "unseen, 9,000 training rows"}
    for k, (how, label) in enumerate(words.items()):
        for kind, mark in (("HGB", "o"), ("LR", "x")):
            own = frame[(frame["trained"] == how) & (frame["model"] == kind)]
            if len(own):
                ax.plot(own["rho"].clip(-1, 2), own["gap"], mark, color=PALETTE[k],
                        label=f"{label}, {kind}")  # fmt: skip
    ax.axhline(0.02, ls="--", color="k", lw=0.8)
    ax.axvline(0.5, ls="--", color="k", lw=0.8)
    ax.set(xlabel="rho", ylabel="gap in accuracy to the clone")
    ax.legend(fontsize=7)
    return figure


SEEN = Study(
    name="seen-rows",
    title="Were these rows seen in training?",
    question=(
        "A model and 500 rows: does the test with a cross-fitted clone flag rows the model was "
        "fitted on, and leave alone rows that it has not seen, also of models fitted on many more?"
    ),
    claims=("27.08", "27.26"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"seen": _figure},
    full_needs="the tables german_credit, heloc, taiwan and adult",
)
