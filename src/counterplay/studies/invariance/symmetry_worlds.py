"""Real rows for which it is known whether labels survive a transformation.

"Own labels": some rows are transformed and keep their label, or the rows are sets whose order means
nothing. "Taught": a classifier that is constant on orbits, fitted on other rows, names the class.
Violations are planted: labels of a known share of the orbits change with the transformation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray

BUNDLED = ("digits without 6, 9",)
OWN = ("EMNIST letters, own labels", "CIFAR-10 grey, own labels", "wine sets, own labels",
       "credit pairs, own labels")  # fmt: skip
TAUGHT = ("EMNIST letters", "CIFAR-10 grey", "wine quality", "Spambase")
_LETTERS = tuple("ABGHKQRS")  # none of them is another one turned by a quarter


@dataclass(frozen=True)
class World:
    """Rows, class numbers that are invariant, and the group."""

    X: FloatArray
    y: Any
    group: Any

    @property
    def odd_share(self) -> float:
        """Share of odd elements among those other than the identity."""
        order = int(self.group.order)
        return (order // 2) / (order - 1)


@dataclass(frozen=True)
class Draw:
    """One sample of a world: rows, labels, and the violation rate that was planted."""

    X: FloatArray
    y: Any
    eta: float


def draw(
    name: str, n: int, share: float, noise: float, violating: float, rng: np.random.Generator
) -> Draw:
    """``n`` rows, a share of them transformed, labels replaced with chance ``noise``.

    Of a share ``violating`` of the orbits labels change under odd elements. Pictures whose mirror
    image looks as natural as they do carry the change by the side that is brighter.
    """
    from counterplay.invariance.random_images import random_images

    world = load(name)
    pick = rng.permutation(len(world.X))[:n]
    moved, element = random_images(world.X[pick], world.group, rng, _others(world.group))
    turned = rng.random(len(pick)) < share
    X = np.where(turned[:, None], moved, world.X[pick])
    y, bad = world.y[pick], _violating(name, world, violating)[pick]
    mirrored = name.startswith("CIFAR")
    odd = _right_is_brighter(X) if mirrored else turned & (element % 2 == 1)
    classes = int(world.y.max()) + 1
    y = np.where(odd & bad, y + classes, y)
    replaced = rng.random(len(y)) < noise
    eta = float(bad.mean()) * (1.0 if mirrored else world.odd_share)
    return Draw(X, np.where(replaced, rng.integers(0, classes, size=len(y)), y), eta)


def _others(group: Any) -> Any:
    return np.arange(1, int(group.order))


def _violating(name: str, world: World, share: float) -> Any:
    """Whole orbits: the first classes of digits, elsewhere those with the smallest totals."""
    if share <= 0:
        return np.zeros(len(world.y), dtype=bool)
    if name in BUNDLED:
        return world.y < round(share * (int(world.y.max()) + 1))
    totals = world.X.sum(axis=1)
    return totals <= np.quantile(totals, share)


def _right_is_brighter(X: FloatArray) -> Any:
    side = round(np.sqrt(X.shape[1]))
    images = X.reshape(-1, side, side)
    return images[:, :, side // 2 :].sum(axis=(1, 2)) > images[:, :, : side // 2].sum(axis=(1, 2))


@lru_cache(maxsize=16)
def load(name: str) -> World:
    """Rows, invariant labels and a group."""
    X, y, group = _rows(name)
    if name in TAUGHT:
        X, y = _taught(X, y, group)
    return World(X, np.unique(y, return_inverse=True)[1].reshape(-1), group)


def _taught(X: FloatArray, y: Any, group: Any) -> tuple[FloatArray, Any]:
    """Rows that a classifier of orbits did not see, and the labels it gives them."""
    from sklearn.svm import SVC

    from counterplay.invariance import OrbitKernelClassifier

    order = np.random.default_rng(0).permutation(len(X))
    teach, rest = order[:800], order[800:4800]
    teacher = OrbitKernelClassifier(SVC(C=10.0, kernel="precomputed"), group)
    return X[rest], teacher.fit(X[teach], y[teach]).predict(X[rest])


def _rows(name: str) -> tuple[FloatArray, Any, Any]:
    from sklearn import datasets as bundled

    from counterplay import datasets
    from counterplay.invariance import groups

    if name in BUNDLED:
        X, y = bundled.load_digits(return_X_y=True)
        keep = (y != 6) & (y != 9)
        return X[keep], y[keep], groups.image_rotations((8, 8))
    if name.startswith("EMNIST"):
        X, y = datasets.fetch("emnist_balanced", return_X_y=True)
        X, y = np.asarray(X), np.asarray(y)
        keep = np.flatnonzero((y >= 10) & (y < 22))[:6000]
        if name in OWN:
            keep = np.flatnonzero(np.isin(y, [10 + ord(c) - ord("A") for c in _LETTERS]))
        return halved(X[keep]), y[keep], groups.image_rotations((14, 14))
    if name.startswith("CIFAR"):
        X, y = datasets.fetch("cifar10", return_X_y=True)
        grey = np.asarray(X[:6000]).reshape(-1, 32, 32, 3).mean(axis=3)
        return halved(grey), y[:6000], groups.image_flips((16, 16), ["horizontal"])
    return _tables(name)


def _tables(name: str) -> tuple[FloatArray, Any, Any]:
    from sklearn.preprocessing import StandardScaler

    from counterplay import datasets
    from counterplay.invariance import groups

    if name == "wine quality":
        X, y = datasets.fetch("wine_quality", return_X_y=True)
        rows = StandardScaler().fit_transform(np.asarray(X, dtype=np.float64)[:, :10])
        return rows, y, groups.cyclic_shifts(10, step=5)
    if name == "Spambase":
        X, y = datasets.fetch("spambase", return_X_y=True)
        words = np.log1p(np.asarray(X, dtype=np.float64)[:, :48])
        return words, y, groups.cyclic_shifts(48, step=12)
    if name == "wine sets, own labels":
        return wine_sets()
    return credit_pairs()


@lru_cache(maxsize=1)
def credit_pairs() -> tuple[FloatArray, Any, Any]:
    """Do both customers of a pair default, one, or none? Their order means nothing."""
    from sklearn.preprocessing import StandardScaler

    from counterplay import datasets
    from counterplay.invariance import groups

    X, y = datasets.fetch("taiwan", return_X_y=True)
    numbers = np.asarray(X, dtype=np.float64)
    order = np.random.default_rng(0).permutation(len(numbers))[:12_000]
    rows = StandardScaler().fit_transform(np.sign(numbers) * np.log1p(np.abs(numbers)))[order]
    defaults = np.asarray(y)[order].astype(int).reshape(-1, 2).sum(axis=1)
    width = 2 * rows.shape[1]
    blocks = np.arange(width).reshape(2, -1).tolist()
    return rows.reshape(-1, width), defaults, groups.column_permutations(width, blocks=blocks)


@lru_cache(maxsize=1)
def wine_sets() -> tuple[FloatArray, Any, Any]:
    """Is the mean quality of three wines above that of all wines? Their order means nothing."""
    from sklearn.preprocessing import StandardScaler

    from counterplay import datasets
    from counterplay.invariance import groups

    frame: Any = datasets.fetch("wine_quality").frame
    order = np.random.default_rng(0).permutation(len(frame))[: len(frame) // 3 * 3]
    quality = frame["quality"].to_numpy()[order].reshape(-1, 3).mean(axis=1)
    numbers = frame.drop(columns="quality").select_dtypes("number").to_numpy(dtype=np.float64)
    rows = StandardScaler().fit_transform(numbers)[order].reshape(len(quality), -1)
    blocks = np.arange(rows.shape[1]).reshape(3, -1).tolist()
    label = (quality > frame["quality"].mean()).astype(int)
    return rows, label, groups.column_permutations(rows.shape[1], blocks=blocks)


def halved(images: Any) -> FloatArray:
    """Pictures at half the resolution, as rows of numbers in [0, 1]."""
    side = round(np.sqrt(images[0].size))
    quarter = images.reshape(len(images), side // 2, 2, side // 2, 2).mean(axis=(2, 4))
    return np.asarray(quarter.reshape(len(images), -1) / 255.0)
