"""Blocks by contributor on real tables: what a certificate per account costs and what it buys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.stats import mean_interval
from counterplay.studies.poisoning.sources import figures
from counterplay.studies.poisoning.sources.cells import BUDGETS, CANDIDATES, HALVING_BUDGET, cell
from counterplay.studies.poisoning.sources.data import NAMES, available
from counterplay.studies.study import Params, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most, equals

if TYPE_CHECKING:
    import pandas as pd

ROWS_OF_AN_ACCOUNT = 20


def _grid(scale: Scale) -> Sequence[Params]:
    if scale == "quick":
        names = ("sms", "spambase") if available() else ("tumours",)
        grid: list[Params] = [
            {"part": "table", "data": name, "by": by, "split": 0}
            for name in names
            for by in ("row", "source")
        ]
        return [*grid, {"part": "collective", "data": names[-1]}]
    grid = [
        {"part": "table", "data": name, "by": by, "split": split}
        for name in ("sms", "spambase", "adult", "bank", "mnist")
        for by in ("row", "source")
        for split in range(5)
    ]
    for name in ("sms", "spambase"):
        grid += [{"part": "blocks", "data": name, "blocks": count} for count in CANDIDATES]
        grid += [{"part": "halving", "data": name, "metric": m} for m in ("accuracy", "f1")]
        grid += [{"part": "attack", "data": name}]
    grid += [{"part": "collective", "data": name} for name in ("spambase", "mnist")]
    return [*grid, {"part": "leak", "data": "adult"}]


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    found = _accounts(frame) + _thresholds(frame) + _together(frame)
    if (frame.part == "halving").any():
        found += _halving(frame) + _leak(frame) + _attacks(frame)
    return found


def _accounts(frame: pd.DataFrame) -> list[Verdict]:
    """Three accounts of twenty rows, by row and by source."""
    found = []
    tables = frame[frame.part == "table"]
    for name, part in tables[tables.data.isin(("sms", "tumours"))].groupby("data"):
        own = part[part.by == "source"].at_3.mean()
        curves = [json.loads(text) for text in part[part.by == "row"].curve]
        rows = 3 * ROWS_OF_AN_ACCOUNT
        by_row = float(np.mean([c[rows] if rows < len(c) else 0.0 for c in curves]))
        text = f"{NAMES[str(name)]}: certified accuracy against 3 accounts of 20 rows, blocks by "
        found.append(equals("21.10", f"{text}row", by_row, 0))
        found.append(at_least("21.10", f"{text}account", own, 0.93 if name == "sms" else 0.7))
    return found


def _thresholds(frame: pd.DataFrame) -> list[Verdict]:
    """Thresholds chosen on one half of the test rows and judged on the other."""
    tables = frame[(frame.part == "table") & (frame.by == "source") & (frame.data == "sms")]
    if len(tables) < 5:
        return []
    gains = np.concatenate([tables[f"chosen_5_{j}"] - tables[f"majority_5_{j}"] for j in (0, 1)])
    text = "SMS spam, 5 accounts: certified F1 with a chosen vote threshold minus majority"
    span = mean_interval(gains, 0.95)
    return [
        at_least("21.18", f"{text}, mean over halves", float(gains.mean()), 0.06, what=str(span)),
        at_least("21.18", f"{text}, smallest over halves", float(gains.min()), 0.0),
    ]


def _together(frame: pd.DataFrame) -> list[Verdict]:
    found = []
    for _, row in frame[frame.part == "collective"].iterrows():
        name = NAMES[str(row.data)]
        worst = max(
            max(row[f"per_point_{t}"] - row[f"together_{t}"], row[f"together_{t}"]
                - row[f"attained_{t}"]) for t in BUDGETS
        )  # fmt: skip
        text = f"{name}: per decision <= for one training set <= attained, largest violation"
        found.append(at_most("21.17", text, float(worst), 0.0, slack=1e-9))
    return found


def _halving(frame: pd.DataFrame) -> list[Verdict]:
    """Regret of the halving to the best of the grid, and blocks fitted."""
    found = []
    choices = frame[(frame.part == "halving") & (frame.metric == "accuracy")]
    for _, row in choices.iterrows():
        grid = frame[(frame.part == "blocks") & (frame.data == row.data)]
        best = max(json.loads(c)[HALVING_BUDGET] for c in grid.certified_accuracy)
        where = f"{NAMES[str(row.data)]}, {HALVING_BUDGET} accounts"
        regret = float(best - row.certified)
        text = f"{where}: certified accuracy of the best of eight minus that of the choice"
        found.append(at_most("21.26", text, regret, 0.01))
        share = f"{where}: ensembles fitted by halving over those of the grid"
        found.append(at_most("21.26", share, float(row.share_of_fits), 0.5))
    return found


def _leak(frame: pd.DataFrame) -> list[Verdict]:
    row = frame[frame.part == "leak"].iloc[0]
    text = "Adult, 40 blocks, one cell '39 years': certified predictions that flip, "
    slices = f"{text}blocks sliced from the frame, "
    return [
        at_least("21.04", f"{slices}columns by type", float(row.naive_flips), 50),
        at_least("21.04", f"{slices}others coded as words", float(row.coded_flips), 10),
        equals("21.04", f"{text}frozen schema", float(row.frozen_flips), 0),
        equals("21.04", "blocks whose votes change, frozen schema", float(row.blocks_changed), 0),
        equals("21.04", "rows rejected, frozen schema", float(row.rejected), 1),
    ]


def _attacks(frame: pd.DataFrame) -> list[Verdict]:
    found = []
    for _, row in frame[frame.part == "attack"].iterrows():
        name = NAMES[str(row.data)]
        worst = max(float(row[f"guarded_{t}"] - row[f"open_{t}"]) for t in range(11))
        text = f"{name}: attacks on the guarded pipeline beyond what is not certified"
        found.append(at_most("21.33", text, worst, 0.0))
        for kind in ("true_rows", "wrong_label"):
            steps = np.diff([row[f"{kind}_{t}"] for t in range(11)])
            text = f"{name}, {kind}: largest fall of the attacked rate with one more row"
            found.append(at_most("21.33", text, float(-steps.min()), 0.0))
    return found


SOURCES = Study(
    name="sources",
    title="Blocks by contributor: how many accounts must somebody control?",
    question=(
        "Strangers control accounts, and an account sends many rows. What does a partition by "
        "account cost in accuracy, what does it certify, how much recall does a vote threshold "
        "give back, and what can one poisoned training set do to all decisions at once?"
    ),
    claims=("21.04", "21.10", "21.17", "21.18", "21.26", "21.33"),
    grid=_grid,
    cell=cell,
    verdicts=_verdicts,
    figures={
        "accounts": figures.accounts,
        "threshold": figures.threshold,
        "units": figures.units,
        "blocks": figures.blocks,
        "leak": figures.leak,
        "together": figures.together,
        "attack": figures.attack,
    },
    data=("sms_spam", "spambase", "adult", "bank_marketing", "mnist"),
    full_needs="the SMS, Spambase, Adult, bank and MNIST data",
)
