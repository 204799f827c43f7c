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
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from counterplay.core.seeds import RandomState, derive_seed, generator
from counterplay.core.validation import FloatArray, IntArray
from counterplay.core.votes import Vote, random_blocks
from counterplay.errors import InvalidInputError
from counterplay.poisoning.errors import (
    BlockFailureWarning,
    GlobalFeaturesWarning,
    TooFewSamplesError,
)
from counterplay.poisoning.global_features import sign_of_global_features
from counterplay.poisoning.model import BatchLearner, LabelledSet, fresh
from counterplay.poisoning.training_rows import (
    Accepted,
    Rows,
    accept,
    block_labels,
    check_classes,
    column_of,
    distinct,
    entry,
    points_of,
    positions_of,
    warn_rejected,
)
from counterplay.tables import Schema, Table
from counterplay.tables.cells import shown
from counterplay.tables.labels import as_labels

ABSTAIN = -1
BINARY = np.array([0, 1], dtype=np.uint8)
_CHUNK = 4_000_000


class Constant:
    """Always gives the same label."""

    def __init__(self, label: Any) -> None:
        self.label = label

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label for every row."""
        return np.full(_length(X), self.label)


@dataclass(frozen=True)
class Failed:
    """Stands for a model that could not be fitted: it abstains."""

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True, eq=False)
class Categorised:
    """A model with the categories of its block: it sees other values as missing."""

    model: Any
    categories: dict[str, Any]


def fit_blocks(
    base: Any,
    X: NDArray[Any] | Rows,
    y: NDArray[Any],
    blocks: Sequence[IntArray],
    seeds: Sequence[int],
    n_jobs: int | None = None,
    backend: str | None = None,
) -> list[Any]:
    """Return one fitted model per block; None for empty blocks, `Failed` where fitting raised.

    Blocks of classifiers with ``fit_blocks(X, y, blocks)`` are fitted by that method in one go.
    """
    together = _together(base, X, y)
    if together is not None:
        models: list[Any] = fresh(base).fit_blocks(*together, blocks, seeds)
        return models
    take = X.take if isinstance(X, Rows) else X.__getitem__
    tasks = ((base, take(rows), y[rows], seed) for rows, seed in zip(blocks, seeds))
    if n_jobs is None or n_jobs == 1:
        return [_fit(*task) for task in tasks]
    try:
        models = Parallel(n_jobs=n_jobs, backend=backend)(delayed(_fit)(*task) for task in tasks)
    except BrokenExecutor:  # a worker died: find the block that kills it
        models = [_fit_apart(base, take(rows), y[rows], s) for rows, s in zip(blocks, seeds)]
    return models


def report_failures(models: Sequence[Any], stacklevel: int = 4) -> None:
    """Warn once of blocks that could not be fitted; raise if no block has a model."""
    failed = [model for model in models if isinstance(model, Failed)]
    if failed and len(failed) == sum(model is not None for model in models):
        raise InvalidInputError(
            f"no block could be fitted; first: {shown(Exception(failed[0]), 200)}"
        )
    if failed:
        warnings.warn(
            f"{len(failed)} of {len(models)} blocks could not be fitted and abstain; "
            f"first: {failed[0]}",
            BlockFailureWarning,
            stacklevel=stacklevel,
        )


def _together(base: Any, X: NDArray[Any] | Rows, y: NDArray[Any]) -> Any:
    """Numbers and labels for a base that fits all blocks in one go; None where it cannot."""
    if not hasattr(base, "fit_blocks"):
        return None
    labels = block_labels(y) if y.dtype == object else y
    points = X.take() if isinstance(X, Rows) else X
    if labels.dtype == object or not isinstance(points, np.ndarray) or points.ndim != 2:
        return None
    return points, labels


def _fit(base: Any, X: Any, y: NDArray[Any], seed: int) -> Any:
    if len(y) == 0:
        return None
    labels = block_labels(y) if y.dtype == object else y
    if (y == y[0]).all() and not isinstance(base, BatchLearner):  # our learners have a rule for it
        return Constant(y[0])
    try:
        model = fresh(base, seed).fit(X, labels)
    except Exception as error:
        return Failed(type(error).__name__, " ".join(str(error).split())[:200])
    categories = _categories(X)
    return Categorised(model, categories) if categories else model


def _fit_apart(base: Any, X: Any, y: NDArray[Any], seed: int) -> Any:
    """Fit a block in a process of its own; if that dies the block abstains."""
    try:
        return Parallel(n_jobs=2, backend="loky")([delayed(_fit)(base, X, y, seed)])[0]
    except BrokenExecutor:
        return Failed("BrokenExecutor", "the process died while fitting")


def _categories(X: Any) -> dict[str, Any]:
    if not isinstance(X, pd.DataFrame):
        return {}
    return {
        str(name): X[name].cat.categories.tolist()
        for name, dtype in X.dtypes.items()
        if isinstance(dtype, pd.CategoricalDtype)
    }


def _length(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


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
    models = fit_blocks(base, S.X, S.y, blocks, seeds)
    report_failures(models)
    return models


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
    found = _each(_votes, models, X, classes, n_jobs)
    votes = np.array([values for values, _ in found], dtype=np.int64).reshape(len(models), len(X))
    errors = [error for _, error in found if error is not None]
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
) -> list[Answer]:
    if n_jobs is None or n_jobs == 1:
        return [task(model, X, classes) for model in models]
    found: list[Answer] = Parallel(n_jobs=n_jobs)(
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
    if not isinstance(model, Categorised):
        return model, X.take if isinstance(X, Rows) else X.__getitem__
    rows: Any = X
    whole = rows.take(slice(None), model.categories)
    return model.model, lambda part: whole.iloc[part]


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
        table = np.tile(nothing, (_length(rows), 1))
        if values.shape == (_length(rows), len(place)):
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
            return np.array([none] * n), Failed(type(error).__name__, str(error)[:150])
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
        self.rows_: FloatArray = _numbers(X)
        self.labels_: NDArray[Any] = np.asarray(y)
        self.squares_: FloatArray = np.einsum("ij,ij->i", self.rows_, self.rows_)
        self.classes_ = np.unique(self.labels_)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
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
        points = _numbers(X)
        step = max(1, _CHUNK // len(self.rows_))
        for i in range(0, len(points), step):
            yield self.squares_ - 2 * (points[i : i + step] @ self.rows_.T)


def _numbers(X: Any) -> FloatArray:
    """Rows as finite numbers, images as long rows."""
    table = Table.of(X)
    points = table.numbers()
    return points.reshape(len(points), -1)


class VotingClassifier(ClassifierMixin, BaseEstimator):
    """What both classifiers share once ``models_`` are fitted.

    Around a :class:`BatchLearner` the rows may be positions, and the labels are 0 and 1 even if
    only one of them is there: such learners may answer with a label that they have not seen.
    """

    estimator: Any
    n_jobs: int | None

    def _accepted(self, X: Any, y: Any, schema: Schema | None, classes: Any = None) -> Accepted:
        """Read the training rows: cast alone to the schema, what does not fit left out."""
        if isinstance(self.estimator, BatchLearner):
            rows = points_of(X)
            S = LabelledSet(rows.take(), np.asarray(y))
            self.classes_ = BINARY
            self.schema_ = rows.cast.schema
            self._flat = rows.positions
            self.rows_rejected_ = 0
            labels = np.array(S.y.tolist(), dtype=object)
            return Accepted(rows, labels, np.arange(len(S)), ())
        X, y = entry(X), column_of(y)
        frozen = Schema.infer(X) if schema is None else schema
        known = None if classes is None else check_classes(classes)
        found = accept(X, y, frozen, known)
        total = len(found.places) + len(found.rejected)
        self.rows_rejected_ = len(found.rejected)
        warn_rejected(found.rejected, total)
        self.schema_ = frozen
        self.classes_ = as_labels(
            distinct(found.labels if known is None else np.array(known, object))
        )
        self._flat = False
        self._note_columns()
        return found

    def _note_columns(self) -> None:
        """Set what scikit-learn calls the columns."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)
        if self.schema_.container == "table":
            self.n_features_in_ = len(self.schema_.columns)
            self.feature_names_in_ = np.array(self.schema_.names, dtype=object)
        elif self.schema_.container == "matrix":
            self.n_features_in_ = self.schema_.shape[0]

    def _warn_global(self, rows: Rows) -> None:
        """Warn at signs of features that were computed from all rows."""
        if rows.cast.schema.container != "matrix" or isinstance(self.estimator, BatchLearner):
            return
        if (sign := sign_of_global_features(rows.take())) is not None:
            warnings.warn(
                f"{sign}; if a step fitted on all rows made these features, one planted row "
                "reaches every block and no certificate covers that: pass raw rows and put the "
                "step into a pipeline as estimator",
                GlobalFeaturesWarning,
                stacklevel=3,
            )

    def _points(self, X: Any) -> Rows:
        """Read the user's own rows; one that does not fit is an error."""
        check_is_fitted(self)
        if isinstance(self.estimator, BatchLearner):
            return points_of(X, self._flat)
        rows = entry(X)
        if self.schema_.container == "matrix" and getattr(rows, "ndim", 0) == 2:
            width = self.schema_.shape[0]
            if rows.shape[1] != width:  # in the words of scikit-learn
                raise InvalidInputError(
                    f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting "
                    f"{width} features as input"
                )
        cast = self.schema_.cast(rows)
        cast.raise_rejected()
        return Rows(cast)

    def _base(self) -> Any:
        return NearestRow() if self.estimator is None else self.estimator

    def _seeds(self, n: int, seed: int) -> list[int]:
        return [derive_seed("block", seed, i) % 2**31 for i in range(n)]

    def _note_models(self, models: list[Any]) -> None:
        report_failures(models, stacklevel=4)
        self.models_ = models
        self.n_empty_ = sum(model is None for model in models)
        self.failures_ = tuple(
            (i, model.kind, model.message)
            for i, model in enumerate(models)
            if isinstance(model, Failed)
        )
        self.n_failed_ = len(self.failures_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None and hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def votes(self, X: Any) -> IntArray:
        """Class positions voted for, shape (models, points); -1 where a model abstains."""
        return self._votes_of(self._points(X))

    def _votes_of(self, rows: Rows) -> IntArray:
        return collect_votes(self.models_, rows, self.classes_, self.n_jobs)

    def vote(self, X: Any) -> Vote:
        """Counts and winners; ties go to the first class."""
        counts = count_votes(self.votes(X), len(self.classes_))
        return Vote(counts.argmax(axis=1).astype(np.int64), counts, self.classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with most votes, the first one on ties."""
        return self.vote(X).labels

    def predict_proba(self, X: Any) -> FloatArray:
        """Vote shares per class; equal where all models abstain."""
        counts = self.vote(X).counts.astype(np.float64)
        counts[counts.sum(axis=1) == 0] = 1.0
        shares: FloatArray = counts / counts.sum(axis=1, keepdims=True)
        return shares

    def vote_margin(self, X: Any) -> IntArray:
        """Votes for the winner minus votes for the strongest other class."""
        return self.vote(X).gap
