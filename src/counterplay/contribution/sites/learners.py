"""What is fitted: two built-in models on coded columns, or the user's own classifier.

Coding is stateless (see ``coding``); means, scales and weights are learned from the contributed
rows of a fit only, so that nothing leaks from held-out rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.contribution.sites.coding import Coding, coded, scales
from counterplay.contribution.sites.reading import Sites
from counterplay.core.validation import FloatArray, IntArray, shorten
from counterplay.errors import InvalidInputError
from counterplay.tables.cells import shown

MODELS = ("logistic", "boosting")


class Learner:
    """Fits on some rows of the pool and answers for others; one object per ``measure_sites``."""

    def __init__(self, sites: Sites, model: Any, *, chances: bool) -> None:
        self.sites, self.model, self.chances = sites, model, chances
        self.coding: Coding | None = None
        self.numeric: FloatArray | None = None
        self.dummies: FloatArray | None = None
        if isinstance(model, str):
            if model not in MODELS:
                raise InvalidInputError(
                    f"model must be 'logistic', 'boosting' or a classifier, got {shown(model, 60)}"
                )
            self.coding, self.numeric, self.dummies = coded(sites)
        else:
            _check_classifier(model, chances)

    def answer(self, train: IntArray, test: IntArray) -> tuple[IntArray, FloatArray | None]:
        """Fit on rows ``train``; return classes and chances of rows ``test``."""
        codes = self.sites.labels.codes
        own = np.unique(codes[train])
        n_classes = len(self.sites.labels.classes)
        if len(own) == 1:  # nothing to tell apart: this class for everybody
            chance = np.zeros((len(test), n_classes))
            chance[:, own[0]] = 1.0
            return np.full(len(test), own[0], dtype=np.int64), chance
        if isinstance(self.model, str):
            return self._built_in(train, test, own, n_classes)
        from sklearn.base import clone

        values = self.sites.labels.values
        fitted = clone(self.model).fit(self.sites.pool.take(train), values[train])
        rows = self.sites.pool.take(test)
        said = np.asarray(fitted.predict(rows))
        if said.shape != (len(test),):
            raise InvalidInputError(f"predict gave shape {said.shape} for {len(test)} rows")
        place = {value: code for code, value in enumerate(self.sites.labels.classes)}
        answer = np.array([place.get(_plain(value), -1) for value in said.tolist()])
        if not self.chances:
            return answer, None
        known = [place[_plain(value)] for value in fitted.classes_.tolist()]
        chance = np.zeros((len(test), n_classes))
        chance[:, known] = fitted.predict_proba(rows)
        return answer, chance

    def _built_in(
        self, train: IntArray, test: IntArray, own: IntArray, n_classes: int
    ) -> tuple[IntArray, FloatArray]:
        codes = self.sites.labels.codes[train]
        if self.model == "boosting":
            from sklearn.ensemble import HistGradientBoostingClassifier

            X = np.hstack([self.numeric, self.dummies])  # type: ignore[list-item]
            model: Any = HistGradientBoostingClassifier(max_iter=60, random_state=0)
            raw = model.fit(X[train], codes).predict_proba(X[test])
        else:
            X_train, X_test = self.scaled(train, test)
            with np.errstate(all="ignore"):
                raw = fit_logistic(X_train, codes).predict_proba(X_test)
        chance = np.zeros((len(test), n_classes))
        chance[:, own] = raw
        return np.argmax(chance, axis=1).astype(np.int64), chance

    def scaled(self, train: IntArray, test: IntArray) -> tuple[FloatArray, FloatArray]:
        """Numbers centred and scaled by the rows ``train`` (missing: their mean), words as 0/1."""
        assert self.numeric is not None
        assert self.dummies is not None
        centre, scale = scales(self.numeric[train])
        return tuple(  # type: ignore[return-value]
            np.hstack([np.nan_to_num((self.numeric[rows] - centre) / scale), self.dummies[rows]])
            for rows in (train, test)
        )


def fit_logistic(X: FloatArray, codes: IntArray) -> Any:
    """Logistic regression, without the warning about few iterations: the score says how good."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(max_iter=300).fit(X, codes)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _check_classifier(model: Any, chances: bool) -> None:
    from sklearn.base import clone

    wanted = ("fit", "predict", *(("predict_proba",) if chances else ()))
    missing = [name for name in wanted if not hasattr(model, name)]
    if isinstance(model, type) or missing:
        what = f" (it has no {missing[0]})" if missing and not isinstance(model, type) else ""
        raise InvalidInputError(
            f"model must be 'logistic', 'boosting' or a scikit-learn classifier{what}, got "
            f"{shorten(model, 60)}"
        )
    try:
        clone(model)
    except Exception as error:
        raise InvalidInputError(
            f"the model cannot be copied for each fit: {shorten(str(error), 100)}"
        ) from None
