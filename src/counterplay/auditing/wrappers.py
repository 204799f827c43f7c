"""What makes a function or an array-fitted model look like a classifier on named columns."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError
from counterplay.tables.cells import shown


class ScoreFunction:
    """A function from a frame to scores, as a classifier with the answers 0 and 1.

    Scores that all lie in [0, 1] are chances and accept above 0.5; others accept above 0.

    Parameters
    ----------
    function
        Takes a frame, returns one score per row that grows with acceptance.
    columns
        Columns it is called with.
    """

    def __init__(self, function: Callable[[pd.DataFrame], Any], columns: tuple[str, ...]) -> None:
        self.function = function
        self.feature_names_in_ = np.array(columns, dtype=object)
        self.classes_ = np.array([0, 1])
        self.n_features_in_ = len(columns)
        self._chances: bool | None = None

    def decision_function(self, X: pd.DataFrame) -> FloatArray:
        """Return the score above the cut."""
        scores = np.asarray(self.function(X), dtype=np.float64)
        if scores.shape != (len(X),) or not np.isfinite(scores).all():
            raise InvalidInputError(
                f"the function must return one finite score per row, got shape {scores.shape}"
            )
        if self._chances is None:  # decided once, on the first rows, which are the table
            self._chances = bool((scores >= 0).all() and (scores <= 1).all())
        return scores - 0.5 if self._chances else scores

    def predict(self, X: pd.DataFrame) -> NDArray[np.int64]:
        """Return 1 for rows above the cut."""
        answers: NDArray[np.int64] = (self.decision_function(X) > 0).astype(np.int64)
        return answers


def named(model: Any, columns: tuple[str, ...], name: str) -> Any:
    """Return a copy of a model fitted on an array that knows the names of its columns."""
    width = getattr(model, "n_features_in_", None)
    if width is not None and int(width) != len(columns):
        raise InvalidInputError(
            f"{name} was fitted on {int(width)} columns, [model] columns names {len(columns)}."
        )
    twin = copy.copy(model)
    steps = getattr(model, "steps", None)
    if isinstance(steps, list) and steps:
        first, inner = steps[0]
        twin.steps = [(first, named(inner, columns, name)), *steps[1:]]
        return twin
    try:
        twin.feature_names_in_ = np.array(columns, dtype=object)
    except AttributeError as error:
        raise InvalidInputError(
            f"{name} cannot be told its column names ({shown(error, 60)}); fit it on a frame."
        ) from None
    return twin


def takes_raw_texts(model: Any) -> bool:
    """Whether the first step of a model turns texts into numbers."""
    steps = getattr(model, "steps", None)
    if isinstance(steps, list) and steps:
        return takes_raw_texts(steps[0][1])
    inner = getattr(model, "estimator", None)
    if inner is not None and not isinstance(inner, str):
        return takes_raw_texts(inner)
    return hasattr(model, "build_analyzer")


class TwoClasses:
    """A model of several classes, some of them wanted, as one that answers 1 for wanted, else 0.

    Parameters
    ----------
    model
        The fitted model.
    wanted
        Its wanted classes.
    names
        Columns it is called with.
    """

    def __init__(self, model: Any, wanted: tuple[Any, ...], names: tuple[str, ...]) -> None:
        self.model = model
        self.wanted = wanted
        self.classes_ = np.array([0, 1])
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return 1 for rows with a wanted answer."""
        answers = np.asarray(self.model.predict(X)).tolist()
        return np.array([int(answer in self.wanted) for answer in answers], dtype=np.int64)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the chances of the two."""
        chances = np.asarray(self.model.predict_proba(X), dtype=np.float64)
        places = [k for k, c in enumerate(self.model.classes_) if c in self.wanted]
        wanted = chances[:, places].sum(axis=1)
        return np.column_stack([1 - wanted, wanted])
