"""What the classifiers that vote share: reading rows, votes, predictions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from counterplay.core.seeds import derive_seed
from counterplay.core.validation import FloatArray, IntArray
from counterplay.core.votes import Vote
from counterplay.errors import InvalidInputError
from counterplay.poisoning.block_fits import Failed, report_failures
from counterplay.poisoning.block_votes import collect_votes, count_votes
from counterplay.poisoning.errors import GlobalFeaturesWarning
from counterplay.poisoning.global_features import sign_of_global_features
from counterplay.poisoning.model import BatchLearner, LabelledSet
from counterplay.poisoning.nearest_row import NearestRow
from counterplay.poisoning.training_rows import (
    Accepted,
    Rows,
    accept,
    check_classes,
    column_of,
    distinct,
    entry,
    points_of,
    warn_rejected,
)
from counterplay.tables import Schema
from counterplay.tables.labels import as_labels, cast_labels

BINARY = np.array([0, 1], dtype=np.uint8)


class VotingClassifier(ClassifierMixin, BaseEstimator):
    """What both classifiers share once ``models_`` are fitted.

    Around a :class:`BatchLearner` the rows may be positions, and the labels are 0 and 1 even if
    only one of them is there: such learners may answer with a label that they have not seen.
    """

    estimator: Any
    n_jobs: int | None
    _in_parts = False  # whether every model gets its rows by `Rows.part`

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
        found = accept(X, y, frozen, known, plain=not self._in_parts)
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
        """Read rows for a fitted classifier."""
        check_is_fitted(self)
        return self._rows(X)

    def _rows(self, X: Any) -> Rows:
        """Read the user's own rows; one that does not fit is an error."""
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

    def _truth(self, y: Any, n: int) -> NDArray[Any]:
        values, known = cast_labels(y)
        if len(values) != n:
            raise InvalidInputError(f"X has {n} rows, y {len(values)}")
        if not known.all():
            raise InvalidInputError(
                f"y has no label in row {int(np.argmin(known))}; drop such rows"
            )
        return values
