"""Digits on coloured backgrounds: the birds, half real.

Source: docs/theory/11-invariance.md, "Example 11.5: birds".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import mean_interval
from counterplay.core.validation import FloatArray
from counterplay.studies.invariance.common import integer, plain_ticks
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

FEATURES = ("colour alone", "all pixels")
LABELS = {"erm": "ERM", "erm_inv": "ERM-INV", "da": "augmentation", "da_inv": "augmentation + INV"}


def colours_grid(scale: Scale) -> Sequence[Params]:
    """Features, sample sizes, splits."""
    sizes, splits = ((10, 80), 5) if scale == "quick" else ((5, 10, 20, 40, 80, 160), 20)
    return [{"features": f, "m": m, "split": r} for f in FEATURES for m in sizes
            for r in range(splits)]  # fmt: skip


def coloured_digits(rng: np.random.Generator) -> tuple[FloatArray, np.ndarray[Any, Any]]:
    """Threes on the first background colour and eights on the second, shape (n, 8, 8, 2)."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    keep = rng.permutation(np.flatnonzero((y == 3) | (y == 8)))
    other = int(np.flatnonzero(y[keep] != y[keep[0]])[0])
    keep[[1, other]] = keep[[other, 1]]  # both classes are among the first two
    ink, labels = X[keep].reshape(-1, 8, 8) / 16.0, (y[keep] == 8).astype(np.int64)
    images = np.repeat(ink[..., None], 2, axis=3)
    own = np.arange(2) == labels[:, None]  # natural data: the colour tells the class
    strength = 0.5 + 0.2 * rng.random(len(ink))
    paper = (1.0 - ink) * strength[:, None, None]
    return images + paper[..., None] * own[:, None, None, :], labels


def colours_cell(params: Params, seed: int) -> Record:
    """Error on natural images of logistic regression with and without swapped colours."""
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression

    from counterplay.invariance import AugmentedClassifier, ErmInvClassifier, groups

    images, y = coloured_digits(np.random.default_rng(seed))
    group: Any
    if params["features"] == "colour alone":
        hue = images.mean(axis=(1, 2)) @ [[1.0], [-1.0]]  # which paper, and how bright
        X, group = hue, groups.sign_flips(1)
    else:
        X, group = images.reshape(len(images), -1), groups.colour_permutations((8, 8, 2))
    m = integer(params, "m")
    base = LogisticRegression(C=100.0, max_iter=500)
    erm = FrozenEstimator(base.fit(X[:m], y[:m]))
    da = FrozenEstimator(AugmentedClassifier(base, group).fit(X[:m], y[:m]))
    models: dict[str, Any] = {
        "erm": erm,
        "erm_inv": ErmInvClassifier(erm, group),
        "da": da,
        "da_inv": ErmInvClassifier(da, group),
    }
    return {name: 1 - float(model.fit(X[:m], y[:m]).score(X[m:], y[m:]))
            for name, model in models.items()}  # fmt: skip


def colours_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Perfect without, a coin toss with augmentation if only the colour is seen."""
    late = frame[frame["m"] == frame["m"].max()]
    colour, pixels = (late[late["features"] == name] for name in FEATURES)
    plain, coin = float(colour["erm_inv"].max()), mean_interval(colour["da"], 0.999)
    cost = mean_interval(pixels["da"] - pixels["erm"], 0.99)
    return [
        Verdict("11.11", "On the colour alone, ERM and the look-up are perfect.", f"{plain:g}", "0",
                plain == 0),
        Verdict("11.11", "On the colour alone, augmentation leaves a coin toss.", str(coin), "0.5",
                abs(coin.estimate - 0.5) < 0.06),
        Verdict("11.11", "With all pixels augmentation learns the shape; it never beats ERM here.",
                str(cost), ">= 0 (error above ERM)", cost.high >= 0),
    ]  # fmt: skip


def colours_figure(frame: pd.DataFrame) -> Figure:
    """Threes and eights pasted on two background colours, the group swaps the colours. A model that
    sees only the colour is destroyed by augmentation (dashed: a coin toss, the exact value);
    one that sees all pixels has to learn the shape instead.
    """
    figure, axes = panels(2, width=5.2)
    for ax, name in zip(axes, FEATURES):
        part = frame[frame["features"] == name]
        for offset, ((model, label), colour) in enumerate(zip(LABELS.items(), PALETTE)):
            groups = part.groupby("m")[model]
            ax.errorbar(groups.mean().index * 1.04 ** (offset - 1.5), groups.mean(),
                        2 * groups.sem().fillna(0), fmt="os^D"[offset], capsize=3, color=colour,
                        label=label)  # fmt: skip
        if name == "colour alone":
            ax.axhline(0.5, label="exact: 1/2", **THEORY)
        ax.set(xscale="log", xlabel="training images", ylabel="error on natural images",
               ylim=(-0.02, 0.7), title=f"logistic regression on {name}")  # fmt: skip
        plain_ticks(ax, sorted(set(part["m"].astype(int))))
        ax.legend(fontsize=8)
    return figure


COLOURS = Study(
    name="coloured-digits",
    title="Digits on coloured backgrounds",
    question=(
        "Real digits on two paper colours that could be swapped without changing the label. What "
        "does augmentation do to a model that sees only the colour, and to one that sees all?"
    ),
    claims=("11.11",),
    grid=colours_grid,
    cell=colours_cell,
    verdicts=colours_verdicts,
    figures={"coloured-digits": colours_figure},
    version=2,
)
