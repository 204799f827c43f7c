"""What all wrappers of estimators share: the door, the inner estimator, what it is given.

Rows are read once, by name; the group moves numbers, and the inner estimator sees them in the
container the user gave: a frame stays a frame with its names, images keep their axes and whole
numbers their type, sparse rows stay sparse.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from counterplay.core.arguments import check_parameters
from counterplay.core.seeds import RandomState
from counterplay.core.validation import FloatArray, shorten
from counterplay.errors import AssumptionWarning, CounterplayError, InvalidInputError
from counterplay.invariance.errors import DenseRowsError, NotAGroupError, ShapeError
from counterplay.invariance.images import Form, Rows, copies_of, group_for, numbers_for
from counterplay.invariance.transformations import TransformationSet
from counterplay.tables import Table
from counterplay.tables.cells import shown


class OrbitEstimator(MetaEstimatorMixin, BaseEstimator):
    """Validation and access to the inner estimator, shared by all wrappers."""

    estimator: Any
    group: Any
    weighting: Literal["copies", "points"] = "copies"
    n_images: int = 8
    random_state: RandomState = None
    _takes_missing = True
    _takes_sparse = True
    _kind = "classifier"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            inner = get_tags(self._inner()).input_tags
        except Exception:  # not a scikit-learn estimator: it says nothing
            return tags
        tags.input_tags.sparse = inner.sparse and self._takes_sparse
        tags.input_tags.allow_nan = inner.allow_nan and self._takes_missing
        return tags

    def _begin(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Check parameters and the inner estimator before anything is read."""
        check_parameters(self)
        self._check_estimator(sample_weight is not None)
        if y is None:
            raise InvalidInputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected.",
                DataConversionWarning,
                stacklevel=4,
            )

    def _read(self, table: Table) -> Rows:
        """Note the form of the rows and the group for it; the rows as numbers."""
        self._form = Form.of(table)
        self._note_columns(table)
        self.group_: TransformationSet = group_for(self.group, self._form)
        self._form = self._form.under(self.group_)
        return self._numbers(table)

    def _targets(self, codes: Any) -> Any:
        """What the inner estimator is fitted to."""
        return codes

    def _inner(self) -> Any:
        """The classifier that is wrapped, not fitted."""
        return self.estimator

    def _check_estimator(self, weighted: bool) -> None:
        inner = self._inner()
        methods = ("fit", "predict", "get_params")
        if isinstance(inner, type) or not all(hasattr(inner, name) for name in methods):
            raise InvalidInputError(
                f"estimator must be a scikit-learn {self._kind}, got {shorten(inner, 80)}"
            )
        if weighted:
            self._require_weights("sample_weight was given")

    def _require_weights(self, why: str) -> None:
        if not has_fit_parameter(self._inner(), "sample_weight"):
            name = type(self._inner()).__name__
            raise InvalidInputError(f"{why}, but fit of {name} takes no sample_weight")

    def _note_columns(self, table: Table) -> None:
        self.n_features_in_ = table.width
        if table.names is not None:
            self.feature_names_in_ = np.array(table.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _numbers(self, table: Table) -> Rows:
        if table.is_sparse and not self._takes_sparse:
            raise DenseRowsError(type(self).__name__)
        return numbers_for(table, self.group_, missing=self._takes_missing)

    def _require_orbits(self, rows: Rows, why: str) -> None:
        """Raise unless orbits partition the data; functions are checked on some of the rows."""
        if not self.group_.is_group:
            group = shorten(self.group_, 80)
            raise NotAGroupError(f"{why}, and {group} is not a group; orbits may intersect")
        if not self.group_.proved_group:  # functions: checked on the data
            self.group_.validate(rows)

    def _rows(self, X: Any) -> Rows:
        """Rows to predict: the columns of the training data, by name."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        table = Table.of(X, columns=None if names is None else names.tolist())
        if table.width != self.n_features_in_:
            raise InvalidInputError(
                f"X has {table.width} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        shape = Form.of(table).shape
        if shape != self._form.shape and shape is not None:
            raise ShapeError(
                f"X has items of shape {shape}; those seen in fit have {self._form.shape}"
                if self._form.shape is not None
                else f"X has items of shape {shape}; a table was seen in fit"
            )
        if names is None and table.names is not None and table.width > 1:
            warnings.warn(
                f"{type(self).__name__} was fitted without column names: columns are taken by "
                "position; fit it on a frame to have them matched by name",
                AssumptionWarning,
                stacklevel=3,
            )
        return self._numbers(table)

    def _view(self, rows: Rows) -> Rows:
        """What the inner classifier sees of points."""
        return rows

    def _fit_inner(self, rows: Rows, codes: Any, weights: FloatArray | None = None) -> None:
        self.estimator_ = clone(self._inner())
        more = {} if weights is None else {"sample_weight": weights}
        fit = self.estimator_.fit
        ask(self.estimator_, "be fitted", fit, self._give(rows), self._targets(codes), **more)

    def _fit_copies(self, rows: Rows, codes: Any, weights: FloatArray | None = None) -> int:
        """Fit the inner classifier on the transformed copies; how many there are."""
        by_point = self.weighting == "points"
        if by_point:
            self._require_weights('weighting="points" needs weights')
        copies, owner = copies_of(
            rows, self.group_, self.n_images, self.random_state, distinct=by_point
        )
        given = None if weights is None else weights[owner]
        if by_point:
            shares = 1.0 / np.bincount(owner, minlength=rows.shape[0])[owner]
            given = shares if given is None else shares * given
        self._fit_inner(copies, codes[owner], given)
        return int(copies.shape[0])

    def _give(self, rows: Rows) -> Any:
        return rows if sparse.issparse(rows) else self._form.give(rows)

    def _answers(self, rows: Rows) -> NDArray[Any]:
        """What the inner classifier says about rows."""
        inner = self.estimator_
        answers = np.asarray(ask(inner, "predict", inner.predict, self._give(rows)))
        if answers.shape != (rows.shape[0],):
            raise InvalidInputError(
                f"{type(inner).__name__} gave an answer of shape {answers.shape} for "
                f"{rows.shape[0]} rows"
            )
        return answers


class OrbitPredictor(OrbitEstimator):
    """Wrappers that predict."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Predictions for rows."""
        return self._answers(self._view(self._rows(X)))


def ask(inner: Any, what: str, call: Callable[..., Any], *args: Any, **more: Any) -> Any:
    """Call the inner estimator; its own complaint becomes one sentence."""
    try:
        return call(*args, **more)
    except CounterplayError:
        raise
    except Exception as error:
        axes = getattr(args[0], "ndim", 2)
        hint = "; flatten images for it: X.reshape(len(X), -1)" if axes > 2 else ""
        name = shown(type(inner).__name__, 40)[1:-1]
        raise InvalidInputError(f"{name} could not {what}: {shown(error, 170)}{hint}") from error
