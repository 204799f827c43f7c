"""One model per block and a vote; shared by all wrappers of this area.

A contaminated block may be unlearnable and must not stop the others: whatever its model raises, the
block abstains, at fitting as a whole and at prediction for the rows that cannot be predicted. A
block with one class votes for it. If no block has a model, the first error is raised, because then
the estimator itself is wrong. A certified vote has a model left after the certified number of
changes, so it cannot be stopped by them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from counterplay.core.seeds import RandomState, derive_seed, generator
from counterplay.core.validation import FloatArray, IntArray
from counterplay.core.votes import Vote, random_blocks
from counterplay.poisoning.errors import (
    BlockFailureWarning,
    GlobalFeaturesWarning,
    TooFewSamplesError,
)
from counterplay.poisoning.global_features import sign_of_global_features
from counterplay.poisoning.model import BatchLearner, LabelledSet, as_points, fresh

ABSTAIN = -1
BINARY = np.array([0, 1], dtype=np.uint8)
_CHUNK = 4_000_000


class Constant:
    """Always gives the same label."""

    def __init__(self, label: Any) -> None:
        self.label = label

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label for every row."""
        return np.full(len(np.asarray(X)), self.label)


@dataclass(frozen=True)
class Failed:
    """Stands for a model that could not be fitted: it abstains."""

    error: Exception


def fit_blocks(
    base: Any,
    X: NDArray[Any],
    y: NDArray[Any],
    blocks: Sequence[IntArray],
    seeds: Sequence[int],
    n_jobs: int | None = None,
) -> list[Any]:
    """Return one fitted model per block; None for empty blocks, `Failed` where fitting raised.

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
    failed = [model for model in models if isinstance(model, Failed)]
    if failed and len(failed) == sum(model is not None for model in models):
        raise failed[0].error
    if failed:
        error = failed[0].error
        warnings.warn(
            f"{len(failed)} of {len(models)} blocks could not be fitted and abstain; "
            f"first: {type(error).__name__}: {str(error)[:200]}",
            BlockFailureWarning,
            stacklevel=4,
        )
    return models


def _fit(base: Any, X: NDArray[Any], y: NDArray[Any], seed: int) -> Any:
    if len(y) == 0:
        return None
    if (y == y[0]).all() and not isinstance(base, BatchLearner):  # our learners have a rule for it
        return Constant(y[0])
    try:
        return fresh(base, seed).fit(X, y)
    except Exception as error:
        return Failed(error)


def fit_random_blocks(
    base: Any, S: LabelledSet, n_blocks: int, random_state: RandomState
) -> list[Any]:
    """Models of equal random blocks, the remainder dropped."""
    if len(S) < n_blocks:
        raise TooFewSamplesError(
            f"{len(S)} rows cannot fill {n_blocks} blocks; lower t or add rows"
        )
    rng = generator(random_state)
    blocks = list(random_blocks(len(S), n_blocks, random_state=rng))
    seeds = [int(s) for s in rng.integers(2**31, size=n_blocks)]
    return fit_blocks(base, S.X, S.y, blocks, seeds)


def collect_votes(
    models: Sequence[Any], X: NDArray[Any], classes: NDArray[Any], n_jobs: int | None = None
) -> IntArray:
    """Positions of the predicted classes, shape (models, points); -1 where a model abstains.

    The vote at a point does not depend on the other points. If no model can predict any of them,
    the first error is raised.
    """
    found = _each(_votes, models, X, classes, n_jobs)
    votes = np.array([values for values, _ in found], dtype=np.int64).reshape(len(models), len(X))
    errors = [error for _, error in found if error is not None]
    if errors and (votes == ABSTAIN).all():
        raise errors[0]
    return votes


def collect_scores(
    models: Sequence[Any], X: NDArray[Any], classes: NDArray[Any], n_jobs: int | None = None
) -> FloatArray:
    """Score of every class by every model, shape (models, points, classes).

    A class that is not in the model's block scores ``-inf``, whatever happens in other blocks.
    Models without scores, and rows that a model cannot score, have ``-inf`` everywhere.
    """
    found = _each(_scores, models, X, classes, n_jobs)
    shape = (len(models), len(X), len(classes))
    return np.array([values for values, _ in found], dtype=np.float64).reshape(shape)


Answer = tuple[NDArray[Any], "Exception | None"]


def _each(
    task: Callable[[Any, NDArray[Any], NDArray[Any]], Answer],
    models: Sequence[Any],
    X: NDArray[Any],
    classes: NDArray[Any],
    n_jobs: int | None,
) -> list[Answer]:
    if n_jobs is None or n_jobs == 1:
        return [task(model, X, classes) for model in models]
    found: list[Answer] = Parallel(n_jobs=n_jobs)(
        delayed(task)(model, X, classes) for model in models
    )
    return found


def _votes(model: Any, X: NDArray[Any], classes: NDArray[Any]) -> Answer:
    if model is None or isinstance(model, Failed):
        return np.full(len(X), ABSTAIN), None
    return _in_pieces(lambda rows: _positions(model.predict(rows), classes), X, ABSTAIN)


def _positions(labels: ArrayLike, classes: NDArray[Any]) -> IntArray:
    """Places of labels among the sorted classes; labels that are not classes abstain."""
    given = np.asarray(labels).reshape(-1)
    place = np.minimum(np.searchsorted(classes, given), len(classes) - 1)
    return np.where(classes[place] == given, place, ABSTAIN).astype(np.int64)


def _scores(model: Any, X: NDArray[Any], classes: NDArray[Any]) -> Answer:
    nothing = np.full(len(classes), -np.inf)
    names = ("class_scores", "predict_proba", "decision_function")
    name = next((name for name in names if hasattr(model, name)), None)
    if name is None or not hasattr(model, "classes_"):
        return np.tile(nothing, (len(X), 1)), None
    place = _positions(model.classes_, classes)

    def score(rows: NDArray[Any]) -> FloatArray:
        values = np.asarray(getattr(model, name)(rows), dtype=np.float64)
        if values.ndim == 1 and len(place) == 2:
            values = np.column_stack([-values, values])
        table = np.tile(nothing, (len(rows), 1))
        if values.shape == (len(rows), len(place)):
            table[:, place] = values
        return table

    return _in_pieces(score, X, nothing)


def _in_pieces(call: Callable[[NDArray[Any]], NDArray[Any]], X: NDArray[Any], none: Any) -> Answer:
    """Call with all rows; if that raises with halves, down to single rows, which get ``none``."""
    try:
        values = call(X)
        if len(values) != len(X):
            raise ValueError(f"{len(values)} predictions for {len(X)} rows")
        return values, None
    except Exception as error:
        if len(X) <= 1:
            return np.array([none] * len(X)), error
        half = len(X) // 2
        first, second = _in_pieces(call, X[:half], none), _in_pieces(call, X[half:], none)
        return np.concatenate([first[0], second[0]]), error


def count_votes(votes: IntArray, n_classes: int) -> IntArray:
    """Votes per point and class; abstentions count for nobody."""
    counts = np.zeros((votes.shape[1], n_classes), dtype=np.int64)
    for c in range(n_classes):
        counts[:, c] = (votes == c).sum(axis=0)
    return counts


class NearestRow(ClassifierMixin, BaseEstimator):
    """Label of the training row at the smallest Euclidean distance; ties go to the first row.

    Without an index: partition ensembles hold a few dozen rows per model; building a search
    structure and checking every call costs more than the distances.

    Examples
    --------
    >>> NearestRow().fit([[0.0], [1.0]], ["a", "b"]).predict([[0.4], [0.6]]).tolist()
    ['a', 'b']
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Store the rows."""
        self.rows_: FloatArray = np.asarray(X, dtype=np.float64)
        self.labels_: NDArray[Any] = np.asarray(y)
        self.squares_: FloatArray = np.einsum("ij,ij->i", self.rows_, self.rows_)
        self.classes_ = np.unique(self.labels_)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of the nearest row."""
        nearest = [distance.argmin(axis=1) for distance in self._distances(X)]
        labels: NDArray[Any] = (
            self.labels_[np.concatenate(nearest)] if nearest else self.labels_[:0]
        )
        return labels

    def class_scores(self, X: ArrayLike) -> FloatArray:
        """Minus the squared distance to the nearest row of each class, up to a common term."""
        own = [np.flatnonzero(self.labels_ == c) for c in self.classes_]
        parts = [
            np.column_stack([-distance[:, rows].min(axis=1) for rows in own])
            for distance in self._distances(X)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, len(own)))

    def _distances(self, X: ArrayLike) -> Iterator[FloatArray]:
        """Squared distances to all rows, less the square of the point, in bounded pieces."""
        points = np.asarray(X, dtype=np.float64)
        step = max(1, _CHUNK // len(self.rows_))
        for i in range(0, len(points), step):
            yield self.squares_ - 2 * (points[i : i + step] @ self.rows_.T)


class VotingClassifier(ClassifierMixin, BaseEstimator):
    """What both classifiers share once ``models_`` are fitted.

    Around a :class:`BatchLearner` the rows may be positions, and the labels are 0 and 1 even if
    only one of them is there: such learners may answer with a label that they have not seen.
    """

    estimator: Any
    n_jobs: int | None

    def _validated(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        if isinstance(self.estimator, BatchLearner):
            S = LabelledSet(np.asarray(X), np.asarray(y))
            self.classes_ = BINARY
            return S.X, S.y
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

    def _points(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        if isinstance(self.estimator, BatchLearner):
            return as_points(X)
        points: NDArray[Any] = validate_data(self, X, reset=False, dtype=np.float64)
        return points

    def _base(self) -> Any:
        return NearestRow() if self.estimator is None else self.estimator

    def _fit_models(
        self, X: NDArray[Any], y: NDArray[Any], blocks: list[IntArray], seed: int
    ) -> None:
        seeds = [derive_seed("block", seed, i) % 2**31 for i in range(len(blocks))]
        labels = self.classes_[y]  # no codes: a new label must not rename those of a block
        self.models_ = fit_blocks(self._base(), X, labels, blocks, seeds, self.n_jobs)
        self.n_empty_ = sum(model is None for model in self.models_)
        self.n_failed_ = sum(isinstance(model, Failed) for model in self.models_)

    def votes(self, X: ArrayLike) -> IntArray:
        """Class positions voted for, shape (models, points); -1 where a model abstains."""
        points = self._points(X)
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
