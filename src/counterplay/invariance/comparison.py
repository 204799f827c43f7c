"""Cross-validated mistakes of five ways to use a group, from two fits per fold.

The candidates are the plain classifier, augmentation, either with the orbit look-up, and
augmentation with a vote over the orbit. Source: docs/theory/11-invariance.md, "Dimensions and
advice".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedGroupKFold

from counterplay.core.seeds import generator
from counterplay.core.validation import BoolArray, IntArray
from counterplay.invariance.estimators import AugmentedClassifier
from counterplay.invariance.model import resolve_conflicts
from counterplay.invariance.orbit_sample import augmented_sample, orbit_images
from counterplay.invariance.transformations import TransformationSet

MODELS = ("ERM", "DA", "ERM-INV", "DA+INV", "DA+vote")


class Comparison:
    """Out-of-fold mistakes of the five candidates; ``orbits``: the group is one on the data."""

    def __init__(
        self,
        estimator: Any,
        group: TransformationSet,
        orbits: bool,
        n_images: int,
        seed: int,
        evaluate_on: str,
    ) -> None:
        self.estimator, self.group, self.orbits = estimator, group, orbits
        self.n_images, self.seed, self.evaluate_on = n_images, seed, evaluate_on
        self.levels = {"ERM": 0.0, "DA": 0.0}

    def wrong(self, X: NDArray[Any], y: NDArray[Any], splitter: Any) -> dict[str, BoolArray]:
        """Whether each candidate is wrong at each point, out of fold."""
        keys = self.group.orbit_key(X) if self.orbits else self.group.point_key(X)
        numbers: dict[Any, int] = {}
        ids = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
        wrong = {name: np.zeros(len(X), dtype=np.bool_) for name in MODELS}
        level = {"ERM": 0.0, "DA": 0.0}
        kept = ids if isinstance(splitter, StratifiedGroupKFold) else None
        for train, test in splitter.split(X, y, kept):
            predictions, varies = self._fold(X, y, ids, train, test)
            for name, labels in predictions.items():
                wrong[name][test] = labels != y[test]
            for name, count in varies.items():
                level[name] += count / len(X)
        self.levels = level
        return wrong

    def _fold(
        self, X: NDArray[Any], y: NDArray[Any], ids: IntArray, train: IntArray, test: IntArray
    ) -> tuple[dict[str, NDArray[Any]], dict[str, int]]:
        images = orbit_images(X[test], self.group, self.n_images, self.seed)
        asked = self._asked(X[test], images)
        models = {
            "ERM": clone(self.estimator).fit(X[train], y[train]),
            "DA": self._augmented().fit(X[train], y[train]),
        }
        table = dict(zip(ids[train].tolist(), resolve_conflicts(
            np.unique(ids[train], return_inverse=True)[1].reshape(-1), y[train], "majority"
        ).tolist()))  # fmt: skip
        seen = np.array([i in table for i in ids[test].tolist()])
        looked = np.array([table.get(i, y[0]) for i in ids[test].tolist()])
        out: dict[str, NDArray[Any]] = {}
        varies: dict[str, int] = {}
        for name, model in models.items():
            votes = np.array([model.predict(image) for image in images])
            varies[name] = int((votes != votes[0]).any(axis=0).sum())
            out[name] = np.asarray(model.predict(asked))
            out[f"{name}-INV" if name == "ERM" else f"{name}+INV"] = np.where(
                seen, looked, out[name]
            )
            if name == "DA":
                out["DA+vote"] = self._vote(model, images, votes)
        return {name: out[name] for name in MODELS}, varies

    def _asked(self, points: NDArray[Any], images: NDArray[Any]) -> NDArray[Any]:
        if self.evaluate_on == "natural":
            return points
        pick = generator(self.seed).integers(len(images), size=len(points))
        return np.asarray(images[pick, np.arange(len(points))])

    def _vote(self, model: Any, images: NDArray[Any], votes: NDArray[Any]) -> NDArray[Any]:
        classes = model.classes_
        if hasattr(model, "predict_proba"):
            mean = np.mean([model.predict_proba(image) for image in images], axis=0)
            return np.asarray(classes[mean.argmax(axis=1)])
        counts = np.array([(votes == label).sum(axis=0) for label in classes])
        return np.asarray(classes[counts.argmax(axis=0)])

    def _augmented(self) -> AugmentedClassifier:
        return AugmentedClassifier(
            self.estimator, self.group, n_images=self.n_images, random_state=self.seed
        )

    def training_errors(self, X: NDArray[Any], y: NDArray[Any]) -> tuple[float, float]:
        """Error of ERM on its natural and of DA on its augmented training data."""
        plain = clone(self.estimator).fit(X, y)
        augmented = self._augmented().fit(X, y)
        copies, labels, weights = augmented_sample(X, y, self.group, self.n_images, self.seed)
        miss = np.asarray(augmented.predict(copies)) != labels
        return float((plain.predict(X) != y).mean()), float(weights[miss].sum() / len(X))
