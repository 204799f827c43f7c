"""The model of an audit to which none was given: what a careful person would try first."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from counterplay.auditing.models import AuditModel
from counterplay.errors import InvalidInputError
from counterplay.tables.cells import listed

NAME = "no model given"
_MOST_ROWS = 5000
_FOLDS = 5


def default_model(
    frame: pd.DataFrame, y: Any, *, texts: Sequence[str] = (), seed: int = 0
) -> AuditModel:
    """Return gradient boosting, or a logistic regression if it is within one standard error.

    Missing numbers become the median, missing words the most frequent one, each with a mark that
    they were missing; words that occur fewer than ten times are one category.

    Parameters
    ----------
    frame
        The columns that may be used.
    y
        Outcomes, as the table has them.
    texts
        Columns of raw text.
    seed
        Seed of folds and models.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    target = np.array(list(y))
    dates = [c for c in frame.columns if pd.api.types.is_datetime64_any_dtype(frame[c])]
    frame = frame.drop(columns=dates)
    simple = _pipeline(frame, texts, LogisticRegression(max_iter=2000), scaled=True)
    if texts:  # trees on thousands of words would take the whole time
        chosen, words = simple, "logistic regression on words"
    else:
        boosted = _pipeline(
            frame, texts, HistGradientBoostingClassifier(random_state=seed), scaled=False
        )
        with _told():
            chosen, words = _better(boosted, simple, frame, target, seed)
    columns = tuple(map(str, frame.columns))
    digest = hashlib.sha256(f"{NAME} {words} {columns}".encode()).hexdigest()
    with _told():
        chosen.fit(frame, target)
    notes = [f"No model was given: a {words} was fitted to look at the table."]
    if dates:
        notes.append(f"It does not use columns of dates: {listed(dates, 8)}.")
    return AuditModel(chosen, NAME, "default", columns, digest, notes=tuple(notes))


@contextmanager
def _told() -> Iterator[None]:
    """Say in one sentence that a table is nothing for the default model."""
    try:
        yield
    except (ValueError, TypeError) as error:
        reason = str(error).strip().split("\n")[0].split(". ")[0].rstrip(".")
        raise InvalidInputError(
            "no model was given and the default one cannot be fitted to this table: "
            f"{reason[:200]}; mend the column, put it under [columns] ignore, or give a model"
        ) from error


def _better(
    boosted: Any, simple: Any, frame: pd.DataFrame, target: Any, seed: int
) -> tuple[Any, str]:
    """Compare the two on the same folds of at most 5,000 rows."""
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    rows = np.random.default_rng(seed).permutation(len(frame))[:_MOST_ROWS]
    part, labels = frame.iloc[rows], target[rows]
    fewest = min(int((labels == c).sum()) for c in np.unique(labels))
    folds = StratifiedKFold(max(2, min(_FOLDS, fewest)), shuffle=True, random_state=seed)
    scores = [
        cross_val_score(model, part, labels, cv=folds, error_score="raise")
        for model in (boosted, simple)
    ]
    gap = scores[0] - scores[1]
    error = float(gap.std(ddof=1) / np.sqrt(len(gap)))
    if float(gap.mean()) <= error:
        return simple, "logistic regression"
    return boosted, "gradient boosting"


def _pipeline(frame: pd.DataFrame, texts: Sequence[str], model: Any, *, scaled: bool) -> Any:
    from sklearn.pipeline import make_pipeline

    return make_pipeline(encoder(frame, texts, scaled=scaled), model)


def encoder(frame: pd.DataFrame, texts: Sequence[str] = (), *, scaled: bool) -> Any:
    """Return the unfitted transformer of numbers, words and texts that the default model uses.

    Parameters
    ----------
    frame
        The columns, for their types.
    texts
        Columns of raw text.
    scaled
        Whether numbers get mean 0 and variance 1.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numeric = [
        name
        for name in frame.columns
        if name not in texts and pd.api.types.is_numeric_dtype(frame[name])
    ]
    words = [name for name in frame.columns if name not in texts and name not in numeric]
    numbers = [SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)]
    categories = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="missing", keep_empty_features=True),
        OneHotEncoder(min_frequency=10, handle_unknown="infrequent_if_exist", sparse_output=False),
    )
    parts: list[tuple[str, Any, Any]] = []
    if numeric:
        scale = [StandardScaler()] if scaled else []
        parts.append(("numbers", make_pipeline(*numbers, *scale), numeric))
    if words:
        parts.append(("words", categories, words))
    parts += [(f"text {k}", TfidfVectorizer(min_df=2), name) for k, name in enumerate(texts)]
    return ColumnTransformer(parts)
