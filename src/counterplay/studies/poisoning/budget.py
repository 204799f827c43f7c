"""Budgeted attacks: plain model, partition, finite aggregation and block majority on digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from counterplay.core.figures import PALETTE, THEORY, figure_style, panels
from counterplay.poisoning import (
    BlockMajority,
    LabelledSet,
    MaxOpenInterval,
    PartitionClassifier,
    certified_upper_rate,
    open_interval_rate,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

RADII = (0, 1, 2, 3, 5, 8, 10, 12, 15, 20)


def _grid(scale: Scale) -> Sequence[Params]:
    spreads = (1, 4) if scale == "quick" else (1, 2, 4, 8, 16)
    cells: list[Params] = [{"kind": "digits", "spread": d, "t": 0} for d in spreads]
    budgets = (1, 2, 5) if scale == "quick" else (1, 2, 5, 10)
    return cells + [{"kind": "interval", "spread": 0, "t": t} for t in budgets]


def _cell(params: Params, seed: int) -> Record:
    if params["kind"] == "digits":
        return _digits(int(params["spread"] or 1))
    rng, t = np.random.default_rng(seed), int(params["t"] or 1)
    x = rng.random(1000)
    S = LabelledSet(x, np.zeros(1000))
    test = np.linspace(0, 1, 1001)
    learner = BlockMajority(MaxOpenInterval(), t)
    rate = certified_upper_rate(
        learner, S, test, np.zeros(1001), n_permutations=5, random_state=rng
    )
    record: dict[str, float] = {"upper": rate.estimate, "upper_high": rate.high}
    return record | {"plain": open_interval_rate(x, t)} | {f"at_{r}": -1.0 for r in RADII}


def _digits(spread: int) -> Record:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    guard = PartitionClassifier(KNeighborsClassifier(1), 51, spread=spread).fit(X_train, y_train)
    curve = guard.certified_accuracy(X_test, y_test)
    record: dict[str, float] = {"upper": -1.0, "upper_high": -1.0, "plain": -1.0}
    return record | {f"at_{r}": curve.at(r) for r in RADII}


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    found = []
    for row in frame[frame.kind == "interval"].itertuples():
        found.append(
            Verdict(
                "10.29",
                f"block majority of the longest interval, t = {row.t}: certified rate",
                f"{row.upper:.4f} (at most {row.upper_high:.4f})",
                f"below the plain learner's exact rate {row.plain:.4f}",
                bool(row.upper_high < row.plain),
            )
        )
    digits = frame[frame.kind == "digits"].sort_values("spread")
    plain, fine = digits.iloc[0], digits.iloc[-1]
    gain = float(np.mean([fine[f"at_{r}"] - plain[f"at_{r}"] for r in RADII[3:8]]))
    found.append(
        Verdict(
            "10.39",
            "digits, 51 blocks: gain of finite aggregation at 3 to 12 planted rows",
            f"{gain:+.3f} certified accuracy",
            "> 0",
            gain > 0,
        )
    )
    return found


def _figure(frame: pd.DataFrame) -> Figure:
    """Left: certified accuracy on digits over the number of planted rows, nearest neighbour on 51
    content-hash blocks, plain and with finite aggregation (d times as many models). Right: exact
    attackable rate of the longest open interval, and the certified rate of its block majority."""
    with figure_style():
        figure, (left, right) = panels(2, width=5.0)
        digits = frame[frame.kind == "digits"].sort_values("spread")
        for i, (_, row) in enumerate(digits.iterrows()):
            name = (
                "one block per row"
                if row.spread == 1
                else f"finite aggregation, d = {int(row.spread)}"
            )
            left.plot(RADII, [row[f"at_{r}"] for r in RADII], "o-", color=PALETTE[i], label=name)
        left.axhline(0, **THEORY)
        left.set(xlabel="planted rows t", ylabel="certified accuracy")
        left.set_ylim(0, 1.02)
        left.legend(fontsize=8)
        part = frame[frame.kind == "interval"].sort_values("t")
        right.plot(part.t, part.plain, "s-", color=PALETTE[1], label="plain: exact attackable rate")
        bars = [0 * part.upper, part.upper_high - part.upper]
        right.errorbar(part.t, part.upper, bars, fmt="o-", color=PALETTE[0], capsize=3,
                       label="block majority: at most")  # fmt: skip
        right.set(xlabel="poison budget t (rows), m = 1000", ylabel="mass of points")
        right.set_ylim(bottom=-0.002)
        right.legend(fontsize=8)
        return figure


BUDGET = Study(
    name="budget",
    title="What a known poison budget buys",
    question=(
        "An attacker can add t rows. How much accuracy can be certified on digits, what does "
        "finite aggregation add, and how does a block majority tame the most attackable learner?"
    ),
    claims=("10.29", "10.39"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"curves": _figure},
)
