"""What is fitted: two built-in models on coded columns, or the user's own classifier.

Coding is stateless (a column per number, a column per word that occurs); means, scales and weights
are learned from the contributed rows of a fit only, so that nothing leaks from held-out rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterplay.contribution.sites.reading import Sites
from counterplay.core.validation import FloatArray, IntArray, check_size, shorten
from counterplay.errors import InvalidInputError
from counterplay.tables.cells import shown

MODELS = ("logistic", "boosting")
MOST_CELLS = 1 << 27
MOST_WORDS = 2000
MISSING = "\x00missing"


@dataclass(frozen=True)
class Coding:
    """Columns that are numbers and columns that are words, with the words that occur."""

    numbers: tuple[str, ...]
    words: tuple[tuple[str, tuple[str, ...]], ...]


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
            from sklearn.linear_model import LogisticRegression

            X_train, X_test = self.scaled(train, test)
            model = LogisticRegression(max_iter=300)
            with np.errstate(all="ignore"):
                raw = _quietly(model, X_train, codes).predict_proba(X_test)
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


def scales(numeric: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of every column, 0 and 1 where it has no or one value."""
    known = np.isfinite(numeric)
    count = np.maximum(known.sum(axis=0), 1)
    filled = np.where(known, numeric, 0.0)
    centre = filled.sum(axis=0) / count
    spread = np.sqrt((np.where(known, numeric - centre, 0.0) ** 2).sum(axis=0) / count)
    return centre, np.where(spread > 1e-12 * np.maximum(1.0, abs(centre)), spread, 1.0)


def coded(sites: Sites) -> tuple[Coding, FloatArray, FloatArray]:
    """Return the coding of the pool, its numbers (missing: NaN) and its words as 0/1 columns."""
    pool = sites.pool
    if pool.container != "table":
        if pool.container == "texts":
            raise InvalidInputError(
                "the built-in models take tables and arrays; give model= a pipeline for texts"
            )
        numbers = pool.numbers(missing=True).reshape(len(pool), -1)
        names = tuple(str(j) for j in range(numbers.shape[1]))
        return Coding(names, ()), numbers, np.zeros((len(pool), 0))
    names = tuple(map(str, pool.names or range(pool.width)))
    kinds = pool.kinds
    blocks, dummies, numeric_names, words = [], [], [], []
    for j, (name, kind) in enumerate(zip(names, kinds)):
        column = pool.column(j).reset_index(drop=True)
        if kind == "time":
            raise InvalidInputError(
                f"column {shown(name, 40)} holds times; turn them into numbers or drop the column"
            )
        if kind in ("category", "text"):
            text = column.astype(object).where(column.notna(), MISSING).astype(str)
            levels = sorted(set(text) - {MISSING})
            if len(levels) > MOST_WORDS:
                raise InvalidInputError(
                    f"column {shown(name, 40)} holds {len(levels)} different words; drop it, or "
                    "give model= a pipeline"
                )
            words.append((name, tuple(levels)))
            dummies.append(text.to_numpy()[:, None] == np.array(levels, dtype=object)[None, :])
        else:
            numeric_names.append(name)
            blocks.append(_floats(column, name)[:, None])
    empty = np.zeros((len(pool), 0))
    numeric = np.hstack([empty, *blocks])
    width = numeric.shape[1] + sum(block.shape[1] for block in dummies)
    check_size(len(pool) * width, MOST_CELLS, "cells of coded columns")
    return (
        Coding(tuple(numeric_names), tuple(words)),
        numeric,
        np.hstack([empty, *dummies]).astype(np.float64),
    )


def _floats(column: Any, name: str) -> FloatArray:
    import pandas as pd

    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isinf(values).any():
        raise InvalidInputError(f"column {shown(name, 40)} holds an infinite number")
    return np.asarray(values)


def _quietly(model: Any, X: FloatArray, y: IntArray) -> Any:
    """Fit without the warning about few iterations: the score says how good the fit is."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


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
