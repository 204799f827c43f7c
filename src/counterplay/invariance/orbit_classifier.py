"""What all classifiers that wrap another one and know a group have in common.

Source: docs/theory/11-invariance.md, "Baselines".
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from counterplay.core.seeds import RandomState
from counterplay.core.validation import FloatArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.invariance.callable_group import CallableGroup
from counterplay.invariance.errors import NotAGroupError
from counterplay.invariance.orbit_sample import as_group, augmented_sample
from counterplay.invariance.transformations import TransformationSet


def has_proba(self: Any) -> bool:
    """Whether the inner classifier gives probabilities."""
    inner = getattr(self, "estimator_", self.estimator)
    return hasattr(inner, "predict_proba")


class OrbitClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Validation and access to the inner classifier, shared by all wrappers."""

    estimator: Any
    group: Any
    weighting: Literal["copies", "points"] = "copies"
    n_images: int = 8
    random_state: RandomState = None

    def _start(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, IntArray, TransformationSet]:
        """Checked data, labels as class numbers, and the group for these data."""
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        self.group_ = as_group(self.group, rows.shape[1])
        return rows, codes.reshape(-1), self.group_

    def _require_orbits(self, rows: FloatArray, why: str) -> None:
        """Raise unless orbits partition the data; functions are checked on some of the rows."""
        if not self.group_.is_group:
            raise NotAGroupError(f"{why}, and {self.group_!r} is not a group; orbits may intersect")
        if isinstance(self.group_, CallableGroup):
            self.group_.validate(rows)

    def _rows(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        rows: FloatArray = validate_data(self, X, dtype=np.float64, reset=False)
        return rows

    def _view(self, rows: FloatArray) -> FloatArray:
        """What the inner classifier sees of points."""
        return rows

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predicted classes."""
        seen = self._view(self._rows(X))
        result: NDArray[Any] = self.estimator_.predict(seen)
        return result

    @available_if(has_proba)
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Class probabilities."""
        seen = self._view(self._rows(X))
        return np.asarray(self.estimator_.predict_proba(seen), dtype=np.float64)

    def _fit_inner(self, rows: FloatArray, codes: IntArray) -> None:
        self.estimator_ = clone(self.estimator).fit(rows, self.classes_[codes])

    def _fit_copies(self, rows: FloatArray, codes: IntArray) -> int:
        """Fit the inner classifier on the transformed copies; how many there are."""
        by_point = self.weighting == "points"
        if by_point and not has_fit_parameter(self.estimator, "sample_weight"):
            raise InvalidInputError(
                f"fit of {type(self.estimator).__name__} takes no sample_weight, which "
                'weighting="points" needs; use weighting="copies"'
            )
        copies, copied, weights = augmented_sample(
            rows, codes, self.group_, self.n_images, self.random_state, distinct=by_point
        )
        if by_point:
            labels = self.classes_[copied]
            self.estimator_ = clone(self.estimator).fit(copies, labels, sample_weight=weights)
        else:
            self._fit_inner(copies, copied)
        return len(copies)
