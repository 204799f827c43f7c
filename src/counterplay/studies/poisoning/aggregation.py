"""Finite aggregation and run-off: more certified rows for the same amount of data per model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import Interval, mean_interval
from counterplay.core.validation import FloatArray
from counterplay.poisoning import PartitionClassifier
from counterplay.poisoning.certificates import partition_radius
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

BLOCKS = 25
RADII = range(BLOCKS // 2 + 1)
SALTS = 4  # hash functions to average over when there is one part per model


def _grid(scale: Scale) -> Sequence[Params]:
    spreads, seeds = ((1, 8), 3) if scale == "quick" else ((1, 4, 16), 12)
    return [{"spread": d, "split": s} for d in spreads for s in range(seeds)]


def _cell(params: Params, seed: int) -> Record:
    split, d = int(params["split"] or 0), int(params["spread"] or 1)
    X, y = load_digits(return_X_y=True)
    data = tuple(train_test_split(X, y, random_state=split))
    votes, finals, loose, below = map(
        list, zip(*(_one(data, d, f"{split} {i}") for i in range(SALTS if d == 1 else 1)))
    )
    record = {"loose": float(np.mean(loose)), "below": float(np.sum(below))}
    for name, curves in (("vote", votes), ("final", finals)):
        mean = np.mean(curves, axis=0)
        record |= {f"{name}_{t}": float(mean[t]) for t in RADII} | {name: float(mean.mean())}
    return dict(record)


def _one(data: tuple[Any, ...], d: int, salt: str) -> tuple[FloatArray, FloatArray, float, int]:
    """Curves of the vote and the run-off, mean by the loose rule, number of radii below loose."""
    X_train, X_test, y_train, y_test = data
    tree = DecisionTreeClassifier(min_samples_leaf=2, random_state=0)  # leaves that hesitate
    guard = PartitionClassifier(tree, BLOCKS, spread=d, key=salt).fit(X_train, y_train)
    vote = guard.certified_accuracy(X_test, y_test)
    final = guard.set_params(aggregation="runoff").certified_accuracy(X_test, y_test)
    loose = partition_radius(guard.vote(X_test)) // d  # d touched models, each taken at its worst
    rough = np.mean([(vote.correct & (loose >= t)).mean() for t in RADII])
    curves = [np.array([curve.at(t) for t in RADII]) for curve in (vote, final)]
    return curves[0], curves[1], float(rough), int((vote.radii < loose).sum())


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    wide = frame.pivot(index="split", columns="spread", values="vote")
    best = max(wide.columns)
    gain = mean_interval((wide[best] - wide[1]).to_numpy(), 0.95)
    fine, single = frame[frame.spread == best], frame[frame.spread == 1]
    sharper = mean_interval((fine.vote - fine.loose).to_numpy(), 0.95)
    second = mean_interval((single.final - single.vote).to_numpy(), 0.95)
    where = f"digits, {BLOCKS} blocks"
    mean = "mean certified accuracy over budgets"
    rule = f"{where}, d = {best}: the sharper certificate against the plain one, same votes"
    more = f"{where}: finite aggregation (d = {best}) against one part per model, {mean}"
    again = f"{where}: run-off against plurality, one part per model, {mean}"
    return [
        _gain("10.39", f"{rule}, {mean}", sharper),
        equals("10.39", f"{rule}: radii that became smaller", int(frame.below.sum()), 0),
        _gain("10.39", more, gain),
        _gain("10.44", again, second),
    ]


def _gain(claim: str, statement: str, span: Interval) -> Verdict:
    return Verdict(claim, statement, str(span), "> 0", bool(span.low > 0))


def _figure(frame: pd.DataFrame) -> Figure:
    """Certified accuracy on digits (left; decision trees on blocks of about 54 rows, mean over
    splits) and the gain over the plurality vote with one part per model (right, with 95 %
    intervals). Finite aggregation: d times as many models, each row in d of them, and the damage of
    a planted row is counted part by part. Run-off (dotted): the two leading classes meet again, and
    every model chooses between them."""
    figure, (left, right) = panels(2, width=5.0)
    base = _curves(frame, 1, "vote")
    for i, d in enumerate(sorted(frame.spread.unique())):
        for rule, style, suffix in (("vote", "-", ""), ("final", ":", ", run-off")):
            table, name = _curves(frame, d, rule), f"d = {d}{suffix}"
            left.plot(RADII, table.mean(axis=0), style, color=PALETTE[i], label=name)
            if (d, rule) == (1, "vote"):
                continue
            spans = [mean_interval(column, 0.95) for column in (table - base).T]
            low, high = [s.low for s in spans], [s.high for s in spans]
            right.plot(RADII, [s.estimate for s in spans], style, color=PALETTE[i], label=name)
            right.fill_between(RADII, low, high, color=PALETTE[i], alpha=0.1, linewidth=0)
    right.axhline(0, **THEORY)
    left.set(xlabel="planted rows t", ylabel="certified accuracy", ylim=(0, 1.02))
    right.set(xlabel="planted rows t", ylabel="gain in certified accuracy")
    left.legend(fontsize=8)
    right.legend(fontsize=8)
    return figure


def _curves(frame: pd.DataFrame, d: int, rule: str) -> FloatArray:
    """Certified accuracy by split and budget."""
    own = frame[frame.spread == d].sort_values("split")
    table: FloatArray = own[[f"{rule}_{t}" for t in RADII]].to_numpy(dtype=np.float64)
    return table


AGGREGATION = Study(
    name="aggregation",
    title="Finite aggregation and run-off: sharper certificates from the same data",
    question=(
        "Every tree sees the same share of the data, but there are d times as many, and a row "
        "reaches d of them; or the two leading classes meet in a run-off. How much more can be "
        "certified on digits?"
    ),
    claims=("10.39", "10.44"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"gain": _figure},
    version=2,
)
