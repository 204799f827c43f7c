"""What you see decides what you pay: worst-case mistakes against the size of the catalogue.

Source: Theorem 2.1, Theorem 2.3, Example 2.1, "Results", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.strategic import MWMR, StrategicHalving, bounds, instances, play
from counterplay.strategic.lab import SequentialElimination
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_SIZES = {
    "quick": {
        "x before": [4, 8, 16, 32, 64, 128, 256, 512, 1024],
        "x after": [4, 8, 16, 32],
        "nothing": [4, 8, 16, 32, 64, 128, 256],
    },
    "full": {
        "x before": [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
        "x after": [4, 8, 16, 32, 64, 128, 256],
        "nothing": [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    },
}


def _grid(scale: Scale) -> list[Params]:
    return [{"seen": seen, "n": n} for seen, sizes in _SIZES[scale].items() for n in sizes]


def _cell(params: Params, seed: int) -> Record:
    n, seen = int(params["n"] or 0), params["seen"]
    if seen == "x before":
        line = instances.threshold_line(n)
        return _record(play(StrategicHalving(line.hypotheses), line.adversary()).mistake_rounds)
    if seen == "nothing":
        star = instances.star_instance(n)
        game = play(SequentialElimination(star.hypotheses), star.adversary(), rounds=n)
        return _record(game.mistake_rounds)
    instance = instances.online_lb_instance(n)
    learner = MWMR(instance.hypotheses, random_state=seed)
    adversary = instance.adversary(mode="lazy")
    rounds: list[int] = []
    played = 0
    while learner.remaining > 1 and played < 4 * n**2:  # it cannot err once one rule is left
        part = adversary.play_on(learner, 2 * n)
        rounds += (part.mistake_rounds + played).tolist()
        played += len(part)
    return _record(np.array(rounds))


def _record(rounds: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Record:
    return {"mistakes": int(rounds.size), "rounds": int(rounds[-1]) + 1 if rounds.size else 0}


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    before, after, nothing = (
        frame[frame["seen"] == seen] for seen in ("x before", "x after", "nothing")
    )
    return [
        _as_bound("02.01", before, bounds.halving_mistakes, "Features seen first: the adversary "
                  "forces exactly floor(log2 n) mistakes."),
        _as_bound("02.07", after, bounds.sequential_mistakes, "Features seen afterwards: the lazy "
                  "adversary forces n - 1 mistakes on MWMR."),
        _as_bound("02.05", nothing, bounds.sequential_mistakes, "Nothing seen: sequential "
                  "elimination errs n - 1 times."),
    ]  # fmt: skip


def _as_bound(
    claim: str, part: pd.DataFrame, bound: Callable[[int], int], statement: str
) -> Verdict:
    gap = max(abs(int(m) - bound(int(n))) for n, m in zip(part["n"], part["mistakes"]))
    what = f"{part['mistakes'].tolist()} for n = {part['n'].tolist()}, largest difference"
    return equals(claim, statement, gap, 0, what=what)


def _figure(frame: pd.DataFrame) -> Figure:
    """Worst-case mistakes against the number of rules, one line per kind of feedback; dashed
    lines are the theorems. Seeing applicants before the decision turns n into log n.
    """
    figure, (ax,) = panels(1, width=7.0)
    n = [int(v) for v in sorted(frame["n"].unique())]
    ax.plot(n, [bounds.sequential_mistakes(v) for v in n], label="n - 1", **THEORY)
    dotted = {**THEORY, "linestyle": ":"}
    ax.plot(n, [bounds.halving_mistakes(v) for v in n], label="log2 n", **dotted)
    labels = {
        "nothing": "nothing seen: SequentialElimination",
        "x after": "features seen afterwards: MWMR",
        "x before": "features seen first: StrategicHalving",
    }
    for (seen, label), marker, color in zip(labels.items(), "s^o", PALETTE):
        part = frame[frame["seen"] == seen].sort_values("n")
        ax.plot(part["n"], part["mistakes"], marker, color=color, label=label)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="number of rules n",
        ylabel="worst-case mistakes",
        title="What you see decides what you pay",
    )
    ax.legend()
    return figure


WHAT_YOU_SEE = Study(
    name="what-you-see",
    title="What you see decides what you pay",
    question=(
        "How many mistakes are unavoidable before the right rule of a catalogue is found? With "
        "features seen before the decision log2 n, otherwise n - 1, against adversaries who know "
        "the learner."
    ),
    claims=("02.01", "02.05", "02.07"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"mistakes": _figure},
)
