"""What the two scikit-learn meta-estimators of this area share: one model per block, and a vote."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from counterplay.core.seeds import derive_seed
from counterplay.core.validation import FloatArray, IntArray
from counterplay.core.votes import Vote
from counterplay.poisoning.errors import GlobalFeaturesWarning
from counterplay.poisoning.global_features import sign_of_global_features
from counterplay.poisoning.nearest_row import NearestRow
from counterplay.poisoning.voting import Failed, collect_votes, count_votes, fit_blocks


class VotingClassifier(ClassifierMixin, BaseEstimator):
    """What both classifiers share once ``models_`` are fitted."""

    n_jobs: int | None

    def _validated(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        points, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.classes_, encoded = np.unique(labels, return_inverse=True)
        if (sign := sign_of_global_features(points)) is not None:
            warnings.warn(
                f"{sign}; if a step fitted on all rows made these features, one planted row "
                "reaches every block and no certificate covers that: pass raw rows and put the "
                "step into a pipeline as estimator",
                GlobalFeaturesWarning,
                stacklevel=3,
            )
        return points, encoded.reshape(-1)

    def _fit_models(
        self, estimator: Any, X: NDArray[Any], y: NDArray[Any], blocks: list[IntArray], seed: int
    ) -> None:
        base = NearestRow() if estimator is None else estimator
        seeds = [derive_seed("block", seed, i) % 2**31 for i in range(len(blocks))]
        labels = self.classes_[
            y
        ]  # no codes: a new label elsewhere must not rename those of a block
        self.models_ = fit_blocks(base, X, labels, blocks, seeds, self.n_jobs)
        self.n_empty_ = sum(model is None for model in self.models_)
        self.n_failed_ = sum(isinstance(model, Failed) for model in self.models_)

    def votes(self, X: ArrayLike) -> IntArray:
        """Class positions voted for, shape (models, points); -1 where a model abstains."""
        check_is_fitted(self)
        points = validate_data(self, X, reset=False, dtype=np.float64)
        return collect_votes(self.models_, points, self.classes_, self.n_jobs)

    def vote(self, X: ArrayLike) -> Vote:
        """Counts and winners; ties go to the first class."""
        counts = count_votes(self.votes(X), len(self.classes_))
        return Vote(counts.argmax(axis=1).astype(np.int64), counts, self.classes_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class with most votes, the first one on ties."""
        return self.vote(X).labels

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Vote shares per class; equal where all models abstain."""
        counts = self.vote(X).counts.astype(np.float64)
        counts[counts.sum(axis=1) == 0] = 1.0
        shares: FloatArray = counts / counts.sum(axis=1, keepdims=True)
        return shares

    def vote_margin(self, X: ArrayLike) -> IntArray:
        """Votes for the winner minus votes for the strongest other class."""
        return self.vote(X).gap
