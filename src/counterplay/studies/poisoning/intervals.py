"""Same error, different attackability: two learners for intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import Interval, mean_interval
from counterplay.core.validation import FloatArray
from counterplay.poisoning import bounds
from counterplay.poisoning.lab import MaxOpenInterval, gap_costs
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, covers

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

BUDGETS = (0, 1, 2, 5, 20, 100)
LOW, HIGH = 0.2, 0.8


def _grid(scale: Scale) -> Sequence[Params]:
    sizes = (10, 30, 100, 300, 1000)
    runs = 30 if scale == "quick" else 1000
    return [{"m": m, "replicates": runs} for m in sizes]


def _cell(params: Params, seed: int) -> Record:
    m, runs = int(params["m"] or 0), int(params["replicates"] or 0)
    rng = np.random.default_rng(seed)
    closed, longest, around = [], [], []
    rates: dict[int, list[float]] = {t: [] for t in BUDGETS}
    for _ in range(runs):
        x = rng.random(m)
        inside = x[(x >= LOW) & (x <= HIGH)]
        span = float(inside.max() - inside.min()) if inside.size else 0.0
        closed.append(HIGH - LOW - span)  # error and attackable rate of the smallest interval
        around.append(_open_error(x))  # error and attackable rate of the longest interval there
        gaps = np.diff(np.sort(x), prepend=0.0, append=1.0)
        cost = gap_costs(gaps)
        for t in BUDGETS:
            rates[t].append(float(gaps[cost <= t].sum()))
        longest.append(rates[0][-1])
    first, second = mean_interval(closed, 0.9999), mean_interval(longest, 0.9999)
    third = mean_interval(around, 0.9999)
    record: dict[str, float] = {
        "closed": first.estimate, "closed_low": first.low, "closed_high": first.high,
        "open_error": second.estimate, "open_low": second.low, "open_high": second.high,
        "around": third.estimate, "around_low": third.low, "around_high": third.high,
    }  # fmt: skip
    return record | {f"rate_{t}": float(np.mean(rates[t])) for t in BUDGETS}


def _open_error(x: FloatArray) -> float:
    """Error of the longest open interval for the target [LOW, HIGH]; with positives also atk."""
    learner = MaxOpenInterval().fit(x, (x >= LOW) & (x <= HIGH))
    overlap = max(0.0, min(learner.high_, HIGH) - max(learner.low_, LOW))
    return learner.high_ - learner.low_ + HIGH - LOW - 2 * overlap


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    found = []
    for row in frame.itertuples():
        m = int(row.m)
        found += [
            covers(
                "10.06",
                f"smallest closed interval, m = {m}: attackable rate equals the error",
                Interval(row.closed, row.closed_low, row.closed_high),
                bounds.closed_interval_error(HIGH - LOW, m),
            ),
            covers(
                "10.08",
                f"longest open interval, m = {m}: error without poison (attackable: 1)",
                Interval(row.open_error, row.open_low, row.open_high),
                bounds.largest_gap_error(m),
            ),
            covers(
                "10.09",
                f"longest open interval, target with positives, m = {m}: error = attackable",
                Interval(row.around, row.around_low, row.around_high),
                bounds.open_interval_error(LOW, m),
            ),
        ]
    steps = np.diff(frame[[f"rate_{t}" for t in BUDGETS]].to_numpy(), axis=1)
    rising = "the attackable rate of the longest interval rises with the budget"
    return [*found, at_least("10.09", rising, steps.min(), 0, what="smallest step")]


def _figure(frame: pd.DataFrame) -> Figure:
    """Two interval learners with almost the same error (left; filled: target [0.2, 0.8], where
    neither can be attacked beyond its error; open: empty target, where the smallest closed interval
    never errs and the longest open one can be attacked everywhere). Right: how the attackable rate
    of the latter grows with the number of correctly labelled rows."""
    figure, (left, right) = panels(2, width=5.2)
    m = frame.m.to_numpy()
    left.plot(m, frame.closed, "o", color=PALETTE[0], label="smallest closed: error = attackable")
    left.plot(m, frame.around, "s", color=PALETTE[1], label="longest open: error = attackable")
    left.plot(m, frame.open_error, "s", color=PALETTE[1], markerfacecolor="none",
              label="longest open, empty target: error")  # fmt: skip
    left.plot(m, np.ones(len(m)), "s-", color=PALETTE[3], markerfacecolor="none",
              label="longest open, empty target: attackable")  # fmt: skip
    line = np.unique(np.geomspace(m.min(), m.max(), 60).astype(int))
    left.plot(line, [bounds.closed_interval_error(HIGH - LOW, int(n)) for n in line], **THEORY)
    left.plot(line, [bounds.open_interval_error(LOW, int(n)) for n in line], **THEORY)
    left.plot(line, [bounds.largest_gap_error(int(n)) for n in line], label="theory", **THEORY)
    left.set(xscale="log", yscale="log", xlabel="training rows m", ylabel="mass of points")
    left.set_ylim(3e-4, 3)
    left.legend(fontsize=7, loc="lower left")
    for i, size in enumerate((100, 1000)):
        row = frame[frame.m == size].iloc[0]
        right.plot(BUDGETS, [row[f"rate_{t}"] for t in BUDGETS], "o-", color=PALETTE[i],
                   label=f"m = {size}")  # fmt: skip
    right.axhline(1, **THEORY)
    right.set_xscale("symlog")
    right.set_xlim(-0.2, 130)
    right.set_xticks(BUDGETS, [str(t) for t in BUDGETS])
    right.set(xlabel="poison budget t (rows)", ylabel="attackable rate, longest open")
    right.set_ylim(0, 1.05)
    right.legend()
    return figure


INTERVALS = Study(
    name="intervals",
    title="Same error, different attackability",
    question=(
        "Two consistent learners for intervals have error of order 1/m. Does the same hold when "
        "correct rows are added to fool them? One is never worse under attack, the other loses all."
    ),
    claims=("10.06", "10.08", "10.09"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"rates": _figure},
    version=2,
)
