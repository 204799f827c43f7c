"""Fit one model per block and collect votes; shared by all wrappers of this area.

A contaminated block may be unlearnable and must not stop the others: whatever its model raises, the
block abstains, at fitting as a whole and at prediction for the rows that cannot be predicted. A
block with one class votes for it. If no block has a model, the first error is raised, because then
the estimator itself is wrong. A certified vote has a model left after the certified number of
changes, so it cannot be stopped by them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray

from counterplay.core.validation import FloatArray, IntArray
from counterplay.poisoning.errors import BlockFailureWarning
from counterplay.poisoning.model import BatchLearner, fresh

ABSTAIN = -1


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
