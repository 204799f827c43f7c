"""The advisor as an estimator: ``fit`` searches, ``predict`` uses the model it found.

Source: docs/theory/22-symmetry.md, "The race and the corrected error".
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from counterplay.core.seeds import RandomState
from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError
from counterplay.invariance.advisor import Future, symmetry_advisor
from counterplay.invariance.orbit_estimator import OrbitEstimator
from counterplay.tables import Table


class _SymmetrySearch(MetaEstimatorMixin, BaseEstimator):
    """Parameters, fit and access to the model, shared by classifier and regressor."""

    def __init__(
        self,
        estimator: Any,
        group: Any = None,
        future: Future = "natural",
        candidates: Any = "all",
        n_splits: int = 5,
        race: float | None = 0.01,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.group = group
        self.future = future
        self.candidates = candidates
        self.n_splits = n_splits
        self.race = race
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            inner = get_tags(self.estimator).input_tags
        except Exception:  # not a scikit-learn estimator: it says nothing
            return tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = inner.sparse, inner.allow_nan
        return tags

    def _search(self, X: Any, y: Any, sample_weight: Any) -> None:
        OrbitEstimator._begin(self, X, y, None)
        OrbitEstimator._note_columns(self, Table.of(X))
        self.advice_ = symmetry_advisor(
            self.estimator, X, y, self.group, future=self.future, candidates=self.candidates,
            n_splits=self.n_splits, race=self.race, check=False, sample_weight=sample_weight,
            n_jobs=self.n_jobs, random_state=self.random_state,
        )  # fmt: skip
        self.model_ = self.advice_.model

    def _check_estimator(self, weighted: bool) -> None:
        """The advisor checks it."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Predictions of the model that was found."""
        given = self._given(X)
        answers: NDArray[Any] = self.model_.predict(given)
        return answers

    def _given(self, X: Any) -> Any:
        """Rows as the model takes them: the columns of the training data, by name."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        table = Table.of(X, columns=None if names is None else names.tolist())
        if table.width != self.n_features_in_:
            raise InvalidInputError(
                f"X has {table.width} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return table.rows


class SymmetryClassifier(ClassifierMixin, _SymmetrySearch):
    """Find out how to use a symmetry, and use it: the advisor as a classifier.

    Parameters
    ----------
    estimator:
        Any classifier.
    group:
        A set of transformations, a function of the number of features that returns one, or None.
    future:
        "natural", "transformed" or the share of transformed rows that will come.
    candidates:
        "all", or names of some ways to use the symmetry.
    n_splits:
        Folds that keep orbits together.
    race:
        Level at which a candidate is dropped early; None for never.
    n_jobs:
        Processes.
    random_state:
        Seed.

    Attributes
    ----------
    advice_:
        The :class:`~counterplay.invariance.lab.SymmetryAdvice`.
    model_:
        Its fitted model.

    Notes
    -----
    ``advice_.error`` is corrected for the search.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from counterplay.invariance import groups
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)
    >>> tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    >>> model = SymmetryClassifier(tree, groups.column_permutations(2), random_state=0)
    >>> model.fit(X, y).advice_.recommendation
    'canonical'

    References
    ----------
    "The race and the corrected error", see docs/theory/22-symmetry.md.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SymmetryClassifier:
        """Search, and fit the winner on all rows."""
        self._search(X, y, sample_weight)
        self.classes_ = self.model_.classes_
        return self

    @available_if(lambda self: hasattr(getattr(self, "model_", self.estimator), "predict_proba"))
    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities of the model that was found."""
        given = self._given(X)
        chances: FloatArray = self.model_.predict_proba(given)
        return chances


class SymmetryRegressor(RegressorMixin, _SymmetrySearch):
    """Find out how to use a symmetry, and use it: the advisor as a regressor.

    Parameters
    ----------
    estimator:
        Any regressor.
    group:
        A set of transformations, a function of the number of features that returns one, or None.
    future:
        "natural", "transformed" or the share of transformed rows that will come.
    candidates:
        "all", or names of some ways to use the symmetry.
    n_splits:
        Folds that keep orbits together.
    race:
        Level at which a candidate is dropped early; None for never.
    n_jobs:
        Processes.
    random_state:
        Seed.

    Attributes
    ----------
    advice_:
        The :class:`~counterplay.invariance.lab.SymmetryAdvice`.
    model_:
        Its fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from counterplay.invariance import groups
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = SymmetryRegressor(
    ...     DecisionTreeRegressor(random_state=0), groups.set_permutations(3), random_state=0)
    >>> model.fit(X, X.max(axis=1)).advice_.recommendation
    'smallest'

    References
    ----------
    "The race and the corrected error", see docs/theory/22-symmetry.md.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SymmetryRegressor:
        """Search, and fit the winner on all rows."""
        self._search(X, y, sample_weight)
        return self
