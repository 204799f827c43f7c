"""What a learner says about every item of a pool, refitted whenever answers arrive.

Any classifier with ``predict_proba`` or ``decision_function`` will do; it is trained on class codes
and called with rows in the user's own container. Where nothing is given, a default is built from
the kinds of the columns.
Source: docs/theory/24-campaign.md, "The solo protocol".
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import expit, softmax

from counterplay.core.seeds import derive_seed
from counterplay.core.validation import FloatArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.tables import Table
from counterplay.tables.cells import shown

FOLDS = 3
"""Parts of the training set when a learner judges its own training rows."""


class PoolModel(Protocol):
    """Predicts the class of every row of a pool."""

    def fit(self, rows: IntArray, codes: IntArray) -> FloatArray:
        """Learn from labelled rows (positions in the pool); return the scores of all rows."""

    def held_out(self, rows: IntArray, codes: IntArray) -> FloatArray:
        """Scores of the labelled rows by models that were not trained on them."""


@dataclass
class RefittedModel:
    """A classifier that is fitted from scratch each time."""

    table: Table
    estimator: Any
    n_classes: int
    seed: int

    def fit(self, rows: IntArray, codes: IntArray) -> FloatArray:
        """Fit on the labelled rows; return the scores of all rows, one column per class."""
        return self._scores(rows, codes, self.table.rows, len(self.table))

    def held_out(self, rows: IntArray, codes: IntArray) -> FloatArray:
        """Scores of the labelled rows, each by a model without its item."""
        scores = np.full((len(rows), self.n_classes), 1.0 / self.n_classes)
        fold = rows % FOLDS  # all answers to one item fall into one part
        for part in range(FOLDS):
            inside, outside = fold == part, fold != part
            if inside.any() and outside.any():
                there = self.table.take(rows[inside])
                scores[inside] = self._scores(
                    rows[outside], codes[outside], there, int(inside.sum())
                )
        return scores

    def _scores(self, rows: IntArray, codes: IntArray, there: Any, n: int) -> FloatArray:
        if len(codes) == 0:
            return np.full((n, self.n_classes), 1.0 / self.n_classes)
        present = np.unique(codes)
        if present.size == 1:  # one class so far: a constant prediction
            constant: FloatArray = np.zeros((n, self.n_classes))
            constant[:, present[0]] = 1.0
            return constant
        fitted = fit_quietly(self.estimator, self.table.take(rows), codes, self.seed)
        raw = raw_scores(fitted, there)
        known = np.asarray(getattr(fitted, "classes_", present), dtype=np.int64)
        scores = np.zeros((n, self.n_classes))
        scores[:, known] = raw
        return scores


def fit_quietly(estimator: Any, X: Any, codes: IntArray, seed: int) -> Any:
    """Fit a clone; its missing seeds are filled in, so that a replay gives the same model."""
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    fresh = clone(estimator)
    seeds = {
        name: derive_seed("learner", seed, name) % 2**31
        for name, value in fresh.get_params().items()
        if name.split("__")[-1] == "random_state" and value is None
    }
    fresh.set_params(**seeds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", FutureWarning)
            return fresh.fit(X, codes)
    except Exception as error:  # a stranger's estimator may raise anything
        raise InvalidInputError(
            f"fitting the learner on {len(codes)} answers failed: {shown(error, 200)}"
        ) from None


def raw_scores(fitted: Any, X: Any) -> FloatArray:
    """Probabilities of the classes a model knows; from decision values where it has no others."""
    proba = hasattr(fitted, "predict_proba")
    try:
        found = fitted.predict_proba(X) if proba else fitted.decision_function(X)
        values = np.asarray(found, dtype=np.float64)
    except Exception as error:  # a stranger's estimator may raise anything
        raise InvalidInputError(f"the learner cannot score the pool: {shown(error, 150)}") from None
    if proba:
        return values
    if values.ndim == 1:
        p = expit(values)
        return np.column_stack([1.0 - p, p])
    result: FloatArray = softmax(values, axis=1)
    return result


def check_learner(estimator: Any) -> Any:
    """Refuse what cannot say how sure it is."""
    if not hasattr(estimator, "fit") or isinstance(estimator, type):
        raise InvalidInputError(
            f"learner must be a classifier with fit, such as LogisticRegression(), got "
            f"{shown(estimator)}"
        )
    if not (hasattr(estimator, "predict_proba") or hasattr(estimator, "decision_function")):
        raise InvalidInputError(
            f"the learner {shown(estimator, 60)} has neither predict_proba nor decision_function, "
            "so nobody knows where it is unsure; wrap it in CalibratedClassifierCV"
        )
    return estimator


def default_learner(table: Table) -> Any:
    """Logistic regression on standardised numbers, one-hot categories and tf-idf of texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    regression = LogisticRegression(max_iter=1000)
    if table.container == "texts":
        return make_pipeline(TfidfVectorizer(sublinear_tf=True), regression)
    if table.is_sparse:
        return make_pipeline(StandardScaler(with_mean=False), regression)
    scaled = (SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    if table.container == "arrays":
        return make_pipeline(FunctionTransformer(_flat), *scaled, regression)
    if table.container == "matrix":
        return make_pipeline(*scaled, regression)
    return make_pipeline(FunctionTransformer(_frame), _columns(table), regression)


def _columns(table: Table) -> Any:
    """Transformers for the columns of a table, by their kind."""
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

    kinds = list(enumerate(table.kinds))
    numbers = [j for j, kind in kinds if kind in ("number", "integer", "flag")]
    texts = [j for j, kind in kinds if kind == "text" and _is_prose(table, j)]
    words = [j for j, kind in kinds if kind in ("category", "text") and j not in texts]
    parts: list[tuple[str, Any, Any]] = []
    if numbers:
        cast = FunctionTransformer(_floats)
        fill = SimpleImputer(strategy="median", keep_empty_features=True)
        parts.append(("numbers", make_pipeline(cast, fill, StandardScaler()), numbers))
    if words:
        one_hot = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=50)
        parts.append(("categories", make_pipeline(FunctionTransformer(_words), one_hot), words))
    for j in texts:
        tfidf = make_pipeline(FunctionTransformer(_prose), TfidfVectorizer(sublinear_tf=True))
        parts.append((f"text {j}", tfidf, [j]))
    if not parts:
        raise InvalidInputError(
            "the pool has neither numbers, categories nor texts to learn from; pass learner="
        )
    return ColumnTransformer(parts)


def _is_prose(table: Table, j: int) -> bool:
    """Whether a column of texts holds sentences: mostly different ones, of several words."""
    column = table.column(j).dropna().astype(str).head(2000)
    return bool(len(column)) and column.nunique() > 50 and column.str.count(" ").mean() >= 2


def _frame(X: Any) -> Any:
    return Table.of(X).frame()


def _flat(X: Any) -> FloatArray:
    array = np.asarray(X, dtype=np.float64)
    return array.reshape(len(array), -1)


def _floats(X: Any) -> FloatArray:
    result: FloatArray = X.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    return result


def _words(X: Any) -> Any:
    return X.astype(object).where(X.notna(), "missing").astype(str)


def _prose(X: Any) -> list[str]:
    return [
        "" if missing else str(cell) for cell, missing in zip(X.iloc[:, 0], X.iloc[:, 0].isna())
    ]
