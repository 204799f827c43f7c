"""Real tables with the accounts that sent their rows, and the pipelines to be guarded.

SMS spam: the first number of at least five digits in a text is its sender; the other messages get
1,200 invented accounts of one class each. Spambase and MNIST: 800 and 4,000 invented accounts,
independent of content. Sizes of invented accounts follow Zipf's law with exponent 0.8. Adult: rows
of one sampling weight are one stratum. Bank: month, day, contact and job name a calling list, the
hard case, because lists differ in content. Tumours: a bundled stand-in where the others are absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from counterplay import datasets
from counterplay.core.validation import IntArray
from counterplay.errors import DataUnavailableError, MissingDependencyError

BLOCKS = {"sms": 50, "spambase": 50, "adult": 100, "bank": 100, "mnist": 100, "tumours": 25}
TEST_ROWS = {"sms": 1000, "spambase": 1000, "adult": 2000, "bank": 2000, "mnist": 1000,
             "tumours": 150}  # fmt: skip
NAMES = {"sms": "SMS spam", "spambase": "Spambase", "adult": "Adult", "bank": "Bank",
         "mnist": "MNIST", "tumours": "Tumours"}  # fmt: skip
_MNIST_ROWS = 24_000


@dataclass(frozen=True, eq=False)
class Sent:
    """Rows with labels and sources, split into training and test rows.

    Parameters
    ----------
    X
        Rows in their own container.
    y
        Labels.
    sources
        Who sent each row.
    train
        Positions of the training rows.
    test
        Positions of the test rows.
    """

    X: Any
    y: NDArray[Any]
    sources: NDArray[Any]
    train: IntArray
    test: IntArray

    def rows(self, places: Any) -> Any:
        """Some of the rows."""
        return self.X.iloc[places] if isinstance(self.X, pd.DataFrame) else self.X[places]


def available() -> bool:
    """Whether the real messages are here."""
    try:
        datasets.fetch("sms_spam", download=False)
        datasets.fetch("spambase", download=False)
    except (DataUnavailableError, MissingDependencyError):
        return False
    return True


@lru_cache(maxsize=2)
def sent(name: str, seed: int) -> Sent:
    """A data set with its sources; the seed draws test rows and invented accounts."""
    rng = np.random.default_rng([seed, 21])
    X, y, sources = _READERS[name](rng)
    order = rng.permutation(len(y))
    count = TEST_ROWS[name]
    return Sent(X, y, sources, np.sort(order[count:]), np.sort(order[:count]))


def pipeline(name: str, *, by_type: bool = False) -> Any:
    """The whole pipeline of a block; None is one nearest neighbour.

    Tables: columns of numbers are scaled, all others one-hot coded; ``by_type`` codes columns of
    the type category only and drops the rest, as selectors by type do.
    """
    if name == "mnist":
        return None
    if name == "sms":
        return make_pipeline(CountVectorizer(binary=True), MultinomialNB(alpha=0.3))
    if name in ("spambase", "tumours"):
        steps = FunctionTransformer(np.log1p), StandardScaler()
        return make_pipeline(*steps, LogisticRegression(C=0.3, max_iter=1000))
    words = {"dtype_include": "category"} if by_type else {"dtype_exclude": "number"}
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(**words)),
        (StandardScaler(), make_column_selector(dtype_include="number")),
    )
    weight = "balanced" if name == "bank" else None
    return make_pipeline(columns, LogisticRegression(max_iter=1000, class_weight=weight))


def zipf_accounts(n: int, count: int, rng: np.random.Generator) -> IntArray:
    """An account for each of ``n`` rows; sizes follow Zipf's law with exponent 0.8."""
    weights = 1 / np.arange(1, count + 1) ** 0.8
    return rng.choice(count, size=n, p=weights / weights.sum())


def _sms(rng: np.random.Generator) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    frame = _frame("sms_spam")
    texts, spam = frame["text"].astype(str), (frame["label"] == "spam").to_numpy()
    sender = texts.str.extract(r"(\d{5,})")[0].to_numpy(dtype=object)
    other = pd.isna(sender)
    for label in (False, True):  # an account sends one class
        rows = np.flatnonzero(other & (spam == label))
        count = max(1, round(1200 * len(rows) / other.sum()))
        accounts = zipf_accounts(len(rows), count, rng)
        sender[rows] = [f"{'spam' if label else 'ham'} account {i}" for i in accounts]
    return texts.to_numpy(dtype=object), np.where(spam, "spam", "ham"), sender


def _spambase(rng: np.random.Generator) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    data: Any = datasets.fetch("spambase", download=False)
    labels = np.where(np.asarray(data.y) == 1, "spam", "ham")
    if (labels == "spam").sum() > len(labels) / 2:  # 1 is the class that senders want
        labels = np.where(labels == "spam", "ham", "spam")
    return np.asarray(data.X, dtype=float), labels, zipf_accounts(len(labels), 800, rng)


def _adult(rng: np.random.Generator) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    frame = _frame("adult")
    labels = np.where(frame["income"].astype(str).str.strip() == ">50K", "above", "below")
    return _typed(frame.drop(columns=["income", "fnlwgt"])), labels, frame["fnlwgt"].to_numpy()


def _bank(rng: np.random.Generator) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    frame = _frame("bank_marketing")
    lists = frame[["month", "day", "contact", "job"]].astype(str).agg("-".join, axis=1)
    labels = frame["y"].astype(str).to_numpy(dtype=object)
    return _typed(frame.drop(columns="y")), labels, lists.to_numpy(dtype=object)


def _mnist(rng: np.random.Generator) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    data: Any = datasets.fetch("mnist", download=False)
    places = rng.permutation(len(data.X))[:_MNIST_ROWS]
    images = np.asarray(data.X)[places].reshape(len(places), -1) / 255.0
    return images, np.asarray(data.y)[places], zipf_accounts(len(places), 4000, rng)


def _tumours(rng: np.random.Generator) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    X, y = datasets.load("breast_cancer", return_X_y=True)
    labels = np.where(np.asarray(y) == 1, "benign", "malignant")
    return np.asarray(X), labels, zipf_accounts(len(labels), 200, rng)


def _frame(name: str) -> pd.DataFrame:
    frame: pd.DataFrame | None = datasets.fetch(name, download=False).frame
    assert frame is not None
    return frame


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers as numbers, everything else as categories."""
    found = {}
    for column in frame:
        values = frame[column]
        number = pd.api.types.is_numeric_dtype(values)
        found[column] = values.astype(float) if number else values.astype(str).astype("category")
    return pd.DataFrame(found).reset_index(drop=True)


_READERS = {
    "sms": _sms, "spambase": _spambase, "adult": _adult, "bank": _bank, "mnist": _mnist,
    "tumours": _tumours,
}  # fmt: skip
POSITIVE = {
    "sms": "spam", "spambase": "spam", "adult": "above", "bank": "yes", "tumours": "malignant",
}  # fmt: skip
