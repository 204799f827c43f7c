"""Real data with a symmetry that may or may not be one: rows, labels, group, model, future.

Negative controls: word columns of mails rolled, mirrored digits, forecasters exchanged. Pictures
other than digits are at half their resolution; forests have 40 trees.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.studies.invariance.symmetry_worlds import credit_pairs, halved, wine_sets

SETTINGS: dict[str, tuple[str, str, int, str]] = {  # data, model, training rows, future
    "tic-tac-toe, D4, tree": ("boards", "tree", 200, "natural"),
    "tic-tac-toe one-hot, D4, linear SVM": ("hot boards", "linear SVM", 300, "natural"),
    "digits, quarter turns, LR": ("digits", "LR", 400, "transformed"),
    "digits without 6 and 9, SVC": ("digits without 6, 9", "SVC", 300, "transformed"),
    "digits upright, quarter turns, forest": ("digits", "forest", 400, "natural"),
    "wine: sets of 3, LR": ("wine sets", "LR", 300, "natural"),
    "wine: sets of 3, forest": ("wine sets", "forest", 300, "natural"),
    "credit: pairs exchanged, forest": ("credit pairs", "forest", 500, "natural"),
    "Spambase, words rolled, LR": ("Spambase", "LR", 500, "natural"),
    "MNIST, mirror, LR": ("MNIST mirror", "LR", 500, "natural"),
    "MNIST, 1-pixel jitter, LR": ("MNIST jitter", "LR", 500, "natural"),
    "EMNIST A-L, quarter turns, LR": ("EMNIST", "LR", 600, "transformed"),
    "Fashion, mirror, forest": ("Fashion", "forest", 500, "natural"),
    "CIFAR grey, mirror, forest": ("CIFAR", "forest", 800, "natural"),
    "FluSight: 6 models exchanged, forest": ("FluSight", "forest", 500, "natural"),
}
BUNDLED = tuple(SETTINGS)[:5]


def available() -> tuple[str, ...]:
    """Settings whose data are here: those of scikit-learn, and a local folder if there is one."""
    if not os.environ.get("COUNTERPLAY_DATA"):
        return BUNDLED
    return tuple(name for name in SETTINGS if has_fashion() or not name.startswith("Fashion"))


def has_fashion() -> bool:
    """Whether Fashion-MNIST is in the local folder: it is the one that often is not."""
    from counterplay import datasets

    return any(d.name == "fashion_mnist" and d.available for d in datasets.list_datasets())


@dataclass(frozen=True)
class Task:
    """One training and test set of a setting."""

    X: FloatArray
    y: Any
    X_test: FloatArray
    y_test: Any
    group: Any
    model: Any
    future: Any


def task(name: str, seed: int, most_tests: int = 1500) -> Task:
    """A random training set of the setting, and test rows as the future will bring them."""
    from counterplay.invariance.random_images import random_images

    data, model, n, future = SETTINGS[name]
    X, y, group = _data(data)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    train, test = order[:n], order[n : n + most_tests]
    asked = X[test]
    if future == "transformed":
        asked = random_images(asked, group, rng)[0]
    return Task(X[train], y[train], asked, y[test], group, _model(model), future)


def _model(name: str) -> Any:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC, LinearSVC
    from sklearn.tree import DecisionTreeClassifier

    models: dict[str, Callable[[], Any]] = {
        "tree": lambda: DecisionTreeClassifier(random_state=0),
        "linear SVM": lambda: LinearSVC(random_state=0),
        "LR": lambda: LogisticRegression(max_iter=200),
        "SVC": lambda: SVC(C=10.0),
        "forest": lambda: RandomForestClassifier(40, random_state=0),
    }
    return models[name]()


@lru_cache(maxsize=16)
def _data(name: str) -> tuple[FloatArray, Any, Any]:
    from sklearn.datasets import load_digits

    from counterplay import datasets
    from counterplay.invariance import groups
    from counterplay.invariance.lab import one_hot_boards, tic_tac_toe_endgames

    if name.endswith("boards"):
        X, y = tic_tac_toe_endgames()
        hot = name.startswith("hot")
        return one_hot_boards(X) if hot else X, y, groups.d4((3, 3, 3) if hot else (3, 3))
    if name.startswith("digits"):
        X, y = load_digits(return_X_y=True)
        keep = np.ones(len(y), dtype=bool) if name == "digits" else (y != 6) & (y != 9)
        return X[keep] / 16, y[keep], groups.image_rotations((8, 8))
    if name.startswith("MNIST"):
        X, y = datasets.fetch("mnist", return_X_y=True)
        rows = halved(np.asarray(X[:9000]))
        mirror = groups.image_flips((14, 14), ["horizontal"])
        return rows, y[:9000], mirror if name.endswith("mirror") else groups.image_jitter((14, 14))
    if name == "EMNIST":
        X, y = datasets.fetch("emnist_balanced", return_X_y=True)
        keep = np.flatnonzero((np.asarray(y) >= 10) & (np.asarray(y) < 22))[:9000]
        return halved(np.asarray(X)[keep]), np.asarray(y)[keep], groups.image_rotations((14, 14))
    if name == "CIFAR":
        X, y = datasets.fetch("cifar10", return_X_y=True)
        grey = np.asarray(X[:9000]).reshape(-1, 32, 32, 3).mean(axis=3)
        return halved(grey), y[:9000], groups.image_flips((16, 16), ["horizontal"])
    if name == "Fashion":
        X, y = datasets.fetch("fashion_mnist", return_X_y=True)
        mirror = groups.image_flips((14, 14), ["horizontal"])
        return halved(np.asarray(X[:9000])), np.asarray(y[:9000]), mirror
    return _tables(name)


def _tables(name: str) -> tuple[FloatArray, Any, Any]:
    from counterplay import datasets
    from counterplay.invariance import groups
    from counterplay.invariance.lab import CoordinatePermutationGroup

    if name == "Spambase":
        X, y = datasets.fetch("spambase", return_X_y=True)
        places = np.arange(np.shape(X)[1])
        rolled = [np.concatenate([np.roll(places[:48], 12 * k), places[48:]]) for k in range(4)]
        rows = np.log1p(np.asarray(X, dtype=np.float64))
        return rows, np.asarray(y), CoordinatePermutationGroup(np.array(rolled))
    if name == "wine sets":
        return wine_sets()
    if name == "credit pairs":
        return credit_pairs()
    frame = datasets.fetch("flusight").frame
    assert frame is not None
    wide = frame.pivot_table(index=["reference_date", "location", "horizon"], columns="model",
                             values="q50", aggfunc="first")  # fmt: skip
    kept = wide[wide.notna().sum().nlargest(6).index].dropna()
    seen = frame.groupby(["reference_date", "location", "horizon"])["observed"].first()[kept.index]
    rows = np.log1p(kept.to_numpy(dtype=np.float64))
    above = np.log1p(seen.to_numpy(dtype=np.float64)) > rows.mean(axis=1)
    return rows, above.astype(int), groups.set_permutations(6)
