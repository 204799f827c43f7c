"""What all wrappers of classifiers share: labels in any coding, and probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from counterplay.core.validation import FloatArray, IntArray, shorten
from counterplay.errors import InvalidInputError
from counterplay.invariance.images import Rows
from counterplay.invariance.orbit_estimator import OrbitPredictor, ask
from counterplay.invariance.transformations import TransformationSet
from counterplay.tables import Table
from counterplay.tables.labels import as_labels


def has_proba(self: Any) -> bool:
    """Whether the inner classifier gives probabilities."""
    inner = getattr(self, "estimator_", self.estimator)
    return hasattr(inner, "predict_proba")


class OrbitClassifier(ClassifierMixin, OrbitPredictor):
    """Labels and probabilities of the inner classifier, shared by all wrappers."""

    def _start(
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> tuple[Rows, IntArray, TransformationSet, FloatArray | None]:
        """Checked rows, labels as class numbers, the group for these data, and weights."""
        self._begin(X, y, sample_weight)
        table = Table.of(X, y, sample_weight=sample_weight)
        labels = table.labels
        assert labels is not None
        self.classes_ = as_labels(labels.classes)
        try:
            check_classification_targets(self.classes_[labels.codes])
        except ValueError as error:
            raise InvalidInputError(shorten(str(error))[1:-1]) from None
        rows = self._read(table)
        return rows, labels.codes, self.group_, table.weights

    def _targets(self, codes: Any) -> Any:
        return self.classes_[codes]

    @available_if(has_proba)
    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities."""
        return self._chances(self._view(self._rows(X)))

    def _chances(self, rows: Rows) -> FloatArray:
        """Probabilities of the inner classifier, one column per class seen in fit."""
        inner = self.estimator_
        chances = np.asarray(
            ask(inner, "give probabilities", inner.predict_proba, self._give(rows)),
            dtype=np.float64,
        )
        if not np.isfinite(chances).all():
            raise InvalidInputError(
                f"{type(inner).__name__} gave probabilities that are not numbers; scale the columns"
            )
        known = list(getattr(inner, "classes_", self.classes_))
        if len(known) == len(self.classes_):
            return chances
        full = np.zeros((len(chances), len(self.classes_)))  # conflicts can leave a class out
        full[:, np.searchsorted(self.classes_, known)] = chances
        return full
