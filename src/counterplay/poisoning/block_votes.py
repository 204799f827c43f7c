"""What the models of the blocks say about rows: votes and scores, each row alone.

A model that cannot predict some rows abstains on those; its vote at a row never depends on the
other rows. (A model that cannot predict rows of its own block has failed and is not asked.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from counterplay.core.validation import FloatArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.poisoning.block_fits import Categorised, Failed, n_rows, own_copy
from counterplay.poisoning.training_rows import Rows, positions_of

ABSTAIN = -1


def collect_votes(
    models: Sequence[Any],
    X: NDArray[Any] | Rows,
    classes: NDArray[Any],
    n_jobs: int | None = None,
) -> IntArray:
    """Positions of the predicted classes, shape (models, points); -1 where a model abstains.

    The vote at a point does not depend on the other points. If no model can predict any of them,
    the first error is raised.
    """
    votes = np.empty((len(models), len(X)), dtype=np.int64)
    errors = []
    for i, (values, error) in enumerate(_each(_votes, models, X, classes, n_jobs)):
        votes[i] = values
        errors += [error] if error is not None else []
    if errors and (votes == ABSTAIN).all():
        raise InvalidInputError(f"no block can predict these rows; first: {errors[0]}")
    return votes


def collect_scores(
    models: Sequence[Any],
    X: NDArray[Any] | Rows,
    classes: NDArray[Any],
    n_jobs: int | None = None,
) -> FloatArray:
    """Score of every class by every model, shape (models, points, classes).

    A class that is not in the model's block scores ``-inf``, whatever happens in other blocks.
    Models without scores, and rows that a model cannot score, have ``-inf`` everywhere.
    """
    found = _each(_scores, models, X, classes, n_jobs)
    shape = (len(models), len(X), len(classes))
    return np.array([values for values, _ in found], dtype=np.float64).reshape(shape)


Answer = tuple[NDArray[Any], "Failed | None"]


def _each(
    task: Callable[[Any, Any, NDArray[Any]], Answer],
    models: Sequence[Any],
    X: NDArray[Any] | Rows,
    classes: NDArray[Any],
    n_jobs: int | None,
) -> Iterator[Answer]:
    if n_jobs is None or n_jobs == 1:
        return (task(model, X, classes) for model in models)
    found: Iterator[Answer] = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(task)(model, X, classes) for model in models
    )
    return found


def _votes(model: Any, X: NDArray[Any] | Rows, classes: NDArray[Any]) -> Answer:
    if model is None or isinstance(model, Failed):
        return np.full(len(X), ABSTAIN), None
    inner, take = _taken(model, X)
    return _in_pieces(
        lambda rows: positions_of(inner.predict(rows), classes), take, 0, len(X), ABSTAIN
    )


def _taken(model: Any, X: NDArray[Any] | Rows) -> tuple[Any, Callable[[slice], Any]]:
    """The model, and a function that hands it some of the rows."""
    take = X.take if isinstance(X, Rows) else X.__getitem__
    if not isinstance(model, Categorised):
        return model, lambda part: own_copy(take(part))
    rows: Any = X
    whole = rows.take(slice(None), model.categories)
    return model.model, lambda part: whole.iloc[part].copy()


def _scores(model: Any, X: NDArray[Any] | Rows, classes: NDArray[Any]) -> Answer:
    nothing = np.full(len(classes), -np.inf)
    inner, take = _taken(model, X)
    names = ("class_scores", "predict_proba", "decision_function")
    name = next((name for name in names if hasattr(inner, name)), None)
    if name is None or not hasattr(inner, "classes_"):
        return np.tile(nothing, (len(X), 1)), None
    place = positions_of(inner.classes_, classes)

    def score(rows: Any) -> FloatArray:
        values = np.asarray(getattr(inner, name)(rows), dtype=np.float64)
        if values.ndim == 1 and len(place) == 2:
            values = np.column_stack([-values, values])
        table = np.tile(nothing, (n_rows(rows), 1))
        if values.shape == (n_rows(rows), len(place)):
            values = np.where(np.isnan(values), -np.inf, values)
            table[:, place[place >= 0]] = values[:, place >= 0]
        return table

    return _in_pieces(score, take, 0, len(X), nothing)


def _in_pieces(
    call: Callable[[Any], NDArray[Any]],
    take: Callable[[slice], Any],
    start: int,
    stop: int,
    none: Any,
) -> Answer:
    """Call with all rows; if that raises with halves, down to single rows, which get ``none``."""
    n = stop - start
    try:
        values = call(take(slice(start, stop)))
        if len(values) != n:
            raise ValueError(f"{len(values)} predictions for {n} rows")
        return values, None
    except Exception as error:
        if n <= 1:
            return np.array([none] * n), Failed.of(error)
        half = (start + stop) // 2
        first = _in_pieces(call, take, start, half, none)
        second = _in_pieces(call, take, half, stop, none)
        return np.concatenate([first[0], second[0]]), first[1] or second[1]


def count_votes(votes: IntArray, n_classes: int) -> IntArray:
    """Votes per point and class; abstentions count for nobody."""
    counts = np.zeros((votes.shape[1], n_classes), dtype=np.int64)
    for c in range(n_classes):
        counts[:, c] = (votes == c).sum(axis=0)
    return counts
