"""Fit one model per block and collect votes; shared by all wrappers of this area.

A contaminated block may be unlearnable and must not stop the others: a block with one class votes
for it, a block whose fit or prediction is refused votes for its most frequent class. If every
block is refused, the first error is raised, because then the estimator itself is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray

from counterplay.core.validation import FloatArray, IntArray
from counterplay.poisoning.model import Learner, fresh

ABSTAIN = -1


class Constant:
    """Always gives the same label; ``error`` tells why the real model is missing."""

    def __init__(self, label: Any, error: Exception | None = None) -> None:
        self.label = label
        self.error = error

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label for every row."""
        return np.full(len(np.asarray(X)), self.label)


def fit_blocks(
    base: Any,
    X: NDArray[Any],
    y: NDArray[Any],
    blocks: Sequence[IntArray],
    seeds: Sequence[int],
    n_jobs: int | None = None,
) -> list[Any]:
    """Return one fitted model per block; None for empty blocks.

    Blocks of classifiers with ``fit_blocks(X, y, blocks)`` are fitted by that method in one go.
    """
    if hasattr(base, "fit_blocks"):
        models: list[Any] = fresh(base).fit_blocks(X, y, blocks, seeds)
        return models
    if n_jobs is None or n_jobs == 1:
        models = [_fit(base, X[rows], y[rows], seed) for rows, seed in zip(blocks, seeds)]
    else:
        models = Parallel(n_jobs=n_jobs)(
            delayed(_fit)(base, X[rows], y[rows], seed) for rows, seed in zip(blocks, seeds)
        )
    refused = [m.error for m in models if isinstance(m, Constant) and m.error is not None]
    real = [m for m in models if m is not None and not isinstance(m, Constant)]
    if refused and not real:
        raise refused[0]
    return models


def _fit(base: Any, X: NDArray[Any], y: NDArray[Any], seed: int) -> Any:
    if len(y) == 0:
        return None
    labels, counts = np.unique(y, return_counts=True)
    common = labels[counts.argmax()]
    if labels.size == 1 and not isinstance(base, Learner):  # our learners have a rule for it
        return Constant(common)
    try:
        return fresh(base, seed).fit(X, y)
    except ValueError as error:
        return Constant(common, error)


def collect_votes(
    models: Sequence[Any],
    X: NDArray[Any],
    classes: NDArray[Any],
    fallback: Sequence[Any],
    n_jobs: int | None = None,
) -> IntArray:
    """Positions of the predicted classes, shape (models, points); -1 for empty blocks.

    ``fallback`` is the label of a model that refuses to predict (such as nearest neighbours with
    fewer rows than neighbours).
    """
    if n_jobs is None or n_jobs == 1:
        rows = [_predict(model, X, label) for model, label in zip(models, fallback)]
    else:
        rows = Parallel(n_jobs=n_jobs)(
            delayed(_predict)(model, X, label) for model, label in zip(models, fallback)
        )
    votes = np.full((len(models), len(X)), ABSTAIN, dtype=np.int64)
    for i, labels in enumerate(rows):
        if labels is not None:
            votes[i] = np.searchsorted(classes, labels)
    return votes


def _predict(model: Any, X: NDArray[Any], label: Any) -> NDArray[Any] | None:
    if model is None:
        return None
    try:
        return np.asarray(model.predict(X))
    except ValueError:
        return np.full(len(X), label)


def collect_scores(
    models: Sequence[Any],
    X: NDArray[Any],
    classes: NDArray[Any],
    fallback: Sequence[Any],
    n_jobs: int | None = None,
) -> FloatArray:
    """Score of every class by every model, shape (models, points, classes).

    A class that is not in the model's block scores ``-inf``, whatever happens in other blocks.
    Models without scores give 0 to the class they predict and ``-inf`` to all others.
    """
    if n_jobs is None or n_jobs == 1:
        found = [_scores(model, X, label) for model, label in zip(models, fallback)]
    else:
        found = Parallel(n_jobs=n_jobs)(
            delayed(_scores)(model, X, label) for model, label in zip(models, fallback)
        )
    scores = np.full((len(models), len(X), len(classes)), -np.inf)
    for i, (known, values) in enumerate(found):
        scores[i][:, np.searchsorted(classes, known)] = values
    return scores


def _scores(model: Any, X: NDArray[Any], label: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Classes a model knows, and their scores."""
    if model is None:
        return np.array([], dtype=np.int64), np.zeros((len(X), 0))
    for name in ("class_scores", "predict_proba", "decision_function"):
        if hasattr(model, name) and hasattr(model, "classes_"):
            try:
                values = np.asarray(getattr(model, name)(X), dtype=np.float64)
            except ValueError:
                break
            if values.ndim == 1 and len(model.classes_) == 2:
                values = np.column_stack([-values, values])
            if values.shape == (len(X), len(model.classes_)):
                return np.asarray(model.classes_), values
    votes = _predict(model, X, label)
    known = np.unique(np.asarray(votes))
    return known, np.where(np.asarray(votes)[:, None] == known[None, :], 0.0, -np.inf)


def block_labels(y: NDArray[Any], blocks: Sequence[IntArray]) -> list[Any]:
    """Most frequent label of each block (the first label for empty blocks)."""
    found = []
    for rows in blocks:
        labels, counts = np.unique(y[rows] if len(rows) else y[:1], return_counts=True)
        found.append(labels[counts.argmax()])
    return found


def count_votes(votes: IntArray, n_classes: int) -> IntArray:
    """Votes per point and class; abstentions count for nobody."""
    counts = np.zeros((votes.shape[1], n_classes), dtype=np.int64)
    for c in range(n_classes):
        counts[:, c] = (votes == c).sum(axis=0)
    return counts
