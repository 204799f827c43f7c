"""Random search for the learning rate and the batch size of the defection experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.contribution.defectors.pretraining import accuracy_on
from counterplay.contribution.lab import (
    DigitsNetwork,
    SearchResult,
    pretrain,
    pretraining_digits,
    random_search,
)
from counterplay.core.draws import run_keys
from counterplay.core.figures import panels
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

DRAWS, STEPS, BLOCK = 40, 200, 20
OURS = (0.002, 64)


def grid(scale: Scale) -> list[Params]:
    """Blocks of twenty draws: 40 draws, or three times as many."""
    return [{"block": b} for b in range(DRAWS // BLOCK * (1 if scale == "quick" else 3))]


def cell(params: Params, seed: int) -> Record:
    """Train twenty random settings and the one of the experiment on points no party holds."""
    X, y = pretraining_digits(901)
    other, labels = pretraining_digits(902)
    held = (other[:2000], labels[:2000])
    block = int(params["block"] or 0)
    network = DigitsNetwork()
    found = random_search(network, X, y, held, draws=BLOCK, steps=STEPS, seed=block)
    keys = run_keys(950 + block, 4)
    ours = pretrain(network, X, y, keys, steps=STEPS, step_size=OURS[0], batch_size=OURS[1])
    record: dict[str, float] = {"ours": float(accuracy_on(network, ours, *held).mean())}
    for n in range(BLOCK):
        record[f"lr_{n}"] = float(found.lr[n])
        record[f"batch_{n}"] = int(found.batch_size[n])
        record[f"accuracy_{n}"] = float(found.accuracy[n])
    return record


def collected(frame: pd.DataFrame) -> SearchResult:
    """Put the blocks together."""
    columns = [
        np.concatenate([frame[f"{name}_{n}"].to_numpy() for n in range(BLOCK)])
        for name in ("lr", "batch", "accuracy")
    ]
    return SearchResult(columns[0], columns[1].astype(np.int64), columns[2], STEPS)


def verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """The setting of the experiment is close to the best random one."""
    found = collected(frame)
    ours, best = float(frame["ours"].mean()), float(found.accuracy.max())
    winner = f"rate {found.best[0]:.2g}, batch {found.best[1]}, {len(found.lr)} draws"
    return [
        at_most(
            "04.43",
            "Learning rate 0.002 with batches of 64 is within 4 points of the best random setting.",
            best - ours,
            0.04,
            what=f"{ours:.1%} against {best:.1%} ({winner}): difference",
        )
    ]


def draw(frame: pd.DataFrame) -> Figure:
    """Held-out accuracy of random learning rates, one colour per batch size; the dotted lines are
    the learning rate of the experiment and its accuracy."""
    figure, (ax,) = panels(1, width=6.0)
    collected(frame).plot(ax)
    ax.axvline(OURS[0], color="#444444", ls=":")
    ax.axhline(float(frame["ours"].mean()), color="#444444", ls=":")
    ax.set_ylim(0, 1)
    return figure


STUDY = Study(
    name="search",
    title="Which learning rate and batch size?",
    question=(
        "The experiment uses a learning rate of 0.002 and batches of 64. How good is that among "
        "random rates from 1e-6 to 1e-2 and batches from 4 to 512, on points no party holds?"
    ),
    claims=("04.43",),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"search": draw},
)
