"""What fitted models say about a pool: one labeling per model, in codes of the labels people use.

The pool is read once; every model is then called with the columns and the container that it was
fitted on. Labels may be numbers, flags or texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.validation import IntArray
from counterplay.errors import InvalidInputError
from counterplay.labeling.model import MOST_LABELS
from counterplay.tables import FittedModel, Labels, Table


@dataclass(frozen=True, eq=False)
class Committee:
    """Fitted models, each of which is one hypothesis."""

    models: tuple[FittedModel, ...]

    @classmethod
    def of(cls, members: Sequence[Any]) -> Committee:
        """Read the models; refuse what has no ``predict``."""
        models = tuple(FittedModel.of(member) for member in members)
        if not models:
            raise InvalidInputError("the committee needs at least one fitted classifier")
        return cls(models)

    def labelings(self, pool: Table) -> tuple[tuple[Any, ...], IntArray]:
        """Return the labels people use, and the code of each model's answer for each row."""
        answers = [self._answers(i, pool) for i in range(len(self.models))]
        known = [label for labels, _ in answers for label in labels]
        classes = Labels.of(known, what="the models").classes
        check_number(classes)
        place = {label: code for code, label in enumerate(classes)}
        rows = [np.array([place[label] for label in labels])[codes] for labels, codes in answers]
        return classes, np.stack(rows).astype(np.int64)

    def _answers(self, i: int, pool: Table) -> tuple[tuple[Any, ...], IntArray]:
        """Return the labels that a model knows, and its answers as positions in them."""
        model = self.models[i]
        answers = model.predict(model.table(pool, what=pool.what))
        if answers.ndim == 2 and answers.shape[1] == 1:
            answers = answers[:, 0]
        if answers.ndim != 1:
            raise InvalidInputError(
                f"model {i} must give one label per row, it gave shape {answers.shape}"
            )
        found, codes = coded(answers, f"model {i}")
        if not model.classes:
            return found, codes
        place = {label: code for code, label in enumerate(model.classes)}
        if not set(found) <= set(place):
            raise InvalidInputError(f"model {i} predicts a label that it was not trained on")
        return model.classes, np.array([place[label] for label in found])[codes]


def coded(values: NDArray[Any], what: str) -> tuple[tuple[Any, ...], IntArray]:
    """Return the different labels in an array, numbers before texts, and the code of each entry.

    Examples
    --------
    >>> classes, codes = coded(np.array([["yes", "no"], ["no", "no"]]), "the matrix")
    >>> classes, codes.tolist()
    (('no', 'yes'), [[1, 0], [0, 0]])
    """
    if values.dtype.kind in "cV":
        raise InvalidInputError(f"{what} holds {values.dtype} values; use numbers or texts")
    native = values.astype(values.dtype.newbyteorder("="), copy=False)
    try:
        codes, found = pd.factorize(native.ravel(), use_na_sentinel=False)
    except TypeError:
        raise InvalidInputError(
            f"{what} holds something that is no label; use numbers or texts"
        ) from None
    labels = Labels.of(np.asarray(found), what=what)
    return labels.classes, labels.codes[codes].reshape(values.shape)


def check_number(classes: Sequence[Any]) -> None:
    """Refuse more labels than codes can hold."""
    if len(classes) > MOST_LABELS:
        raise InvalidInputError(
            f"the hypotheses give {len(classes)} different labels, at most {MOST_LABELS} are "
            "possible; are they regressors?"
        )
