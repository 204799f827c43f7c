"""Finite aggregation: a sharper certificate for the same amount of data per model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from counterplay.core.figures import PALETTE, THEORY, figure_style, panels
from counterplay.core.stats import mean_interval
from counterplay.core.validation import FloatArray
from counterplay.core.votes import Vote
from counterplay.poisoning import PartitionClassifier
from counterplay.poisoning.certificates import finite_aggregation_radius, partition_radius
from counterplay.poisoning.voting import count_votes
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

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
    tables = [_one(data, d, f"{split} {i}") for i in range(SALTS if d == 1 else 1)]
    mean = np.mean(tables, axis=0)
    record = {f"at_{t}": float(mean[t]) for t in RADII}
    return record | {"area": float(mean[:-2].mean()), "loose": mean[-2], "below": mean[-1]}


def _one(data: tuple[Any, ...], d: int, salt: str) -> FloatArray:
    """Certified accuracy at every budget, its mean by the loose rule, radii below loose ones."""
    X_train, X_test, y_train, y_test = data
    tree = DecisionTreeClassifier(random_state=0)
    guard = PartitionClassifier(tree, BLOCKS, spread=d, salt=salt).fit(X_train, y_train)
    votes = guard.votes(X_test)
    counts = count_votes(votes, len(guard.classes_))
    vote = Vote(counts.argmax(axis=1).astype(np.int64), counts, guard.classes_)
    right = vote.labels == y_test
    radius = partition_radius(vote)
    loose = radius // d  # d touched models per row, each taken at its worst
    if guard.design_ is not None:
        radius = finite_aggregation_radius(votes, guard.design_, len(guard.classes_))
    curve = [(right & (radius >= t)).mean() for t in RADII]
    rough = np.mean([(right & (loose >= t)).mean() for t in RADII])
    return np.array([*curve, rough, (radius < loose).sum()], dtype=np.float64)


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    wide = frame.pivot(index="split", columns="spread", values="area")
    best = max(wide.columns)
    gain = mean_interval((wide[best] - wide[1]).to_numpy(), 0.95)
    fine = frame[frame.spread == best]
    sharper = mean_interval((fine.area - fine.loose).to_numpy(), 0.95)
    return [
        Verdict(
            "10.39",
            f"digits, {BLOCKS} blocks, d = {best}: the sharper certificate against the plain one, "
            "same votes, mean over budgets",
            f"{sharper.estimate:+.4f} [{sharper.low:+.4f}, {sharper.high:+.4f}], "
            f"{int(frame.below.sum())} radii smaller",
            "> 0, no radius smaller",
            bool(sharper.low > 0 and frame.below.sum() == 0),
        ),
        Verdict(
            "10.39",
            f"digits, {BLOCKS} blocks: finite aggregation (d = {best}) against one part per model, "
            "mean certified accuracy over budgets",
            f"{gain.estimate:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}] over {len(wide)} splits",
            "> 0",
            bool(gain.low > 0),
        ),
    ]


def _figure(frame: pd.DataFrame) -> Figure:
    """Certified accuracy on digits (left; decision trees on blocks of about 54 rows, mean over
    splits) and the gain of finite aggregation over one part per model (right, with 95 % intervals):
    d times as many models, each row in d of them, and the damage of a planted row is counted part
    by part."""
    with figure_style():
        figure, (left, right) = panels(2, width=5.0)
        columns = [f"at_{t}" for t in RADII]
        base = frame[frame.spread == 1].sort_values("split")[columns].to_numpy()
        for i, d in enumerate(sorted(frame.spread.unique())):
            table = frame[frame.spread == d].sort_values("split")[columns].to_numpy()
            name = "d = 1 (deep partition aggregation)" if d == 1 else f"d = {d}"
            left.plot(RADII, table.mean(axis=0), color=PALETTE[i], label=name)
            if d > 1:
                spans = [mean_interval(column, 0.95) for column in (table - base).T]
                low, high = [s.low for s in spans], [s.high for s in spans]
                right.plot(RADII, [s.estimate for s in spans], color=PALETTE[i], label=name)
                right.fill_between(RADII, low, high, color=PALETTE[i], alpha=0.15, linewidth=0)
        right.axhline(0, **THEORY)
        left.set(xlabel="planted rows t", ylabel="certified accuracy", ylim=(0, 1.02))
        right.set(xlabel="planted rows t", ylabel="gain in certified accuracy")
        left.legend(fontsize=8)
        right.legend(fontsize=8)
        return figure


AGGREGATION = Study(
    name="aggregation",
    title="Finite aggregation: more models, sharper certificates",
    question=(
        "Every tree sees the same share of the data, but there are d times as many, and a row "
        "reaches d of them. How much more can be certified on digits?"
    ),
    claims=("10.39",),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"gain": _figure},
)
