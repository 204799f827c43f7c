"""Size, coverage and power of the label test on data that had no part in its tuning.

Labels are invariant by construction: a classifier that is constant on orbits, fitted on other rows,
names the class; noise replaces some labels. Pictures and tables are real.
Source: docs/theory/22-symmetry.md, "Calibration".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import clopper_pearson
from counterplay.core.validation import FloatArray
from counterplay.studies.invariance.common import integer
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

BUNDLED = ("digits without 6, 9",)
REAL = ("EMNIST letters", "CIFAR-10 grey", "wine quality", "Spambase")
LEVEL = 0.05
ROWS = 500


def size_grid(scale: Scale) -> Sequence[Params]:
    """Data, share of turned rows, label noise, violating share, runs."""
    import os

    runs = 6 if scale == "quick" else 200
    real = REAL if scale == "full" and os.environ.get("COUNTERPLAY_DATA") else ()
    data = real + BUNDLED
    nulls = [(share, noise, 0.0) for share in (0.15, 0.4) for noise in (0.0, 0.3)]
    cells = [*nulls, (0.4, 0.0, 0.15)]
    return [
        {"data": name, "share": share, "noise": noise, "violating": bad, "block": block,
         "runs": min(runs, 20)}
        for name in data for share, noise, bad in cells for block in range(max(1, runs // 20))
    ]  # fmt: skip


def size_cell(params: Params, seed: int) -> Record:
    """Rejections at level .05, and coverage of the interval, in some runs of one cell."""
    from counterplay.invariance.label_test import label_test
    from counterplay.invariance.symmetry import read_question

    X, labels, group = world(str(params["data"]))
    rng = np.random.default_rng(seed)
    rejected = covered = testable = 0
    runs = integer(params, "runs")
    for _ in range(runs):
        rows, y, eta = _draw(X, labels, group, params, rng)
        question = read_question(rows, y, group)
        test = label_test(question.embed(question.rows), question.y, question.mover(),
                          clusters=question.clusters, rng=rng)  # fmt: skip
        testable += test.testable
        rejected += test.testable and test.p_value <= LEVEL
        covered += not test.testable or test.low(LEVEL) <= eta <= test.high(LEVEL)
    return {"rejected": int(rejected), "covered": int(covered), "testable": int(testable)}


def _draw(
    X: FloatArray, labels: Any, group: Any, params: Params, rng: np.random.Generator
) -> tuple[FloatArray, Any, float]:
    """Rows, some of them transformed; labels of some classes change under odd elements."""
    from counterplay.invariance.random_images import random_images

    pick = rng.permutation(len(X))[:ROWS]
    moved, element = random_images(X[pick], group, rng, np.arange(1, int(group.order)))
    turned = rng.random(len(pick)) < float(params["share"] or 0)
    rows = np.where(turned[:, None], moved, X[pick])
    y = labels[pick]
    classes = np.unique(labels)
    bad = classes[np.argsort([(labels == c).mean() for c in classes])][::-1]
    share, chosen = 0.0, []
    for c in bad:  # the largest classes until the wanted share of rows violates
        if float(params["violating"] or 0) > share:
            chosen.append(c)
            share += float((labels == c).mean())
    odd = turned & (element % 2 == 1) & np.isin(y, chosen)
    y = np.where(odd, y + len(classes), y)
    noise = rng.random(len(y)) < float(params["noise"] or 0)
    y = np.where(noise, rng.choice(classes, size=len(y)), y)
    order = int(group.order)
    odd_share = (order // 2) / (order - 1)  # of elements other than the identity
    return rows, y, float(np.isin(labels[pick], chosen).mean()) * odd_share


@lru_cache(maxsize=8)
def world(name: str) -> tuple[FloatArray, Any, Any]:
    """Rows, invariant labels and a group: a classifier of orbits, fitted on other rows, labels."""
    from sklearn.svm import SVC

    from counterplay.invariance import OrbitKernelClassifier

    X, y, group = _rows(name)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    teach, rest = order[:800], order[800:4800]
    if len(X) < 1700:
        teach, rest = order[: len(X) // 3], order[len(X) // 3 :]
    teacher = OrbitKernelClassifier(SVC(C=10.0, kernel="precomputed"), group)
    labels = teacher.fit(X[teach], y[teach]).predict(X[rest])
    return X[rest], np.unique(labels, return_inverse=True)[1], group


def _rows(name: str) -> tuple[FloatArray, Any, Any]:
    from sklearn import datasets as bundled
    from sklearn.preprocessing import StandardScaler

    from counterplay import datasets
    from counterplay.invariance import groups

    if name == "digits without 6, 9":
        X, y = bundled.load_digits(return_X_y=True)
        keep = (y != 6) & (y != 9)
        return X[keep], y[keep], groups.image_rotations((8, 8))
    if name == "EMNIST letters":
        X, y = datasets.fetch("emnist_balanced", return_X_y=True)
        keep = np.flatnonzero((y >= 10) & (y < 22))[:6000]
        return halved(X[keep]), y[keep], groups.image_rotations((14, 14))
    if name == "CIFAR-10 grey":
        X, y = datasets.fetch("cifar10", return_X_y=True)
        grey = X[:6000].reshape(-1, 32, 32, 3).mean(axis=3)
        return halved(grey), y[:6000], groups.image_flips((16, 16), ["horizontal"])
    if name == "wine quality":
        X, y = datasets.fetch("wine_quality", return_X_y=True)
        X = StandardScaler().fit_transform(np.asarray(X, dtype=np.float64)[:, :10])
        return X, y, groups.cyclic_shifts(10, step=5)
    X, y = datasets.fetch("spambase", return_X_y=True)
    return np.log1p(np.asarray(X, dtype=np.float64)[:, :48]), y, groups.cyclic_shifts(48, step=12)


def halved(images: Any) -> FloatArray:
    """Pictures at half the resolution, as rows of numbers in [0, 1]."""
    side = round(np.sqrt(images[0].size))
    quarter = images.reshape(len(images), side // 2, 2, side // 2, 2).mean(axis=(2, 4))
    return np.asarray(quarter.reshape(len(images), -1) / 255.0)


def _cells(frame: pd.DataFrame) -> pd.DataFrame:
    keys = ["data", "share", "noise", "violating"]
    sums = frame.groupby(keys)[["rejected", "covered", "testable", "runs"]].sum()
    return sums.reset_index()


def size_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """Rejections of true symmetries, coverage of the interval."""
    cells = _cells(frame)
    nulls, power = cells[cells["violating"] == 0], cells[cells["violating"] > 0]
    excess = max(
        clopper_pearson(int(row.rejected), int(row.runs), 0.99).low for row in nulls.itertuples()
    )
    out = [
        at_most("22.02", "No null cell rejects significantly more often than the level.", excess,
                LEVEL, what="lower 99 % bound of the largest size"),
    ]  # fmt: skip
    if len(power):
        share = float((power["covered"] / power["runs"]).min())
        out.append(Verdict("22.03", "The interval covers the true violation rate.", f"{share:.3f}",
                           ">= .95 in every power cell", share >= 0.95))  # fmt: skip
    return out


def size_figure(frame: pd.DataFrame) -> Figure:
    """Share of runs in which a true symmetry is called violated (left; dashed: the level) and in
    which a violation is found (right). 500 rows, five repeats; bars are 95 % intervals.
    """
    figure, axes = panels(2, width=5.6, height=4.4)
    cells = _cells(frame)
    for ax, part, title in (
        (axes[0], cells[cells["violating"] == 0], "true symmetries"),
        (axes[1], cells[cells["violating"] > 0], "15 % of rows or more violate"),
    ):
        for place, row in enumerate(part.itertuples()):
            rate = clopper_pearson(int(row.rejected), int(row.runs))
            spread = [[rate.estimate - rate.low], [rate.high - rate.estimate]]
            ax.errorbar(rate.estimate, place, xerr=spread, fmt="o", color=PALETTE[0], capsize=3)
        names = [f"{r.data}, {r.share:.0%} moved, noise {r.noise:.1f}" for r in part.itertuples()]
        ax.set_yticks(np.arange(len(part)), names, fontsize=7)
        ax.invert_yaxis()
        ax.set(xlabel="share of runs called violated", title=title, xlim=(-0.02, None))
    axes[0].axvline(LEVEL, **THEORY)
    return figure


SIZE = Study(
    name="symmetry-size",
    title="Size and power of the label test",
    question="How often is a true symmetry called violated, on data the test was not tuned on?",
    claims=("22.02", "22.03"),
    grid=size_grid,
    cell=size_cell,
    verdicts=size_verdicts,
    figures={"symmetry-size": size_figure},
    version=1,
)
