"""Streams of credit and marketing cases: models of the first tenth, history of the second."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from counterplay import datasets
from counterplay.core.validation import FloatArray
from counterplay.studies.tradeoff.streams import RealStream, digits_stream, flu_stream

BATCH = 20
SAFE = 7
CHAMPIONS = {"bank": 1, "Taiwan": 2, "GMSC": 1, "Elec2": 1}
"""The model that is live at first: the usual one; on Taiwan one that heeds defaults."""
WANTED = {
    "bank": ("bank_marketing", 1),
    "Taiwan": ("taiwan", 0),
    "GMSC": ("give_me_some_credit", 0),
    "Elec2": ("elec2", 1),
}
"""Data set, and the label that must not be missed: a buyer, a default, a rising price."""


@lru_cache(maxsize=4)
def stream_of(name: str) -> RealStream:
    """Return losses and harms of all models, batch by batch; the rate is left to calibration."""
    if name == "digits":
        return digits_stream()
    if name == "flu":
        return flu_stream()
    source, wanted = WANTED[name]
    X, y = datasets.fetch(source, return_X_y=True)
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y) == wanted
    tenth = len(y) // 10
    names, guesses = [], []
    for title, model in _models(X[:tenth], y[:tenth]):
        names.append(title)
        guesses.append(model(X[tenth:]))
    said, truth = np.stack(guesses, axis=1), y[tenth:, None]
    error, missed = (said != truth).astype(float), (truth & ~said).astype(float)
    rounds = len(truth) // BATCH
    l1, l2 = (
        part[: rounds * BATCH].reshape(rounds, BATCH, -1).mean(axis=1) for part in (error, missed)
    )
    at = tenth // BATCH
    return RealStream(name, tuple(names), 0.0, (l1[:at], l2[:at]), (l1[at:], l2[at:]))


def _models(X: FloatArray, y: np.ndarray) -> list[tuple[str, Callable[[FloatArray], np.ndarray]]]:
    """Eight usual models; the last is the safe one, which flags more."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    def logistic(**options: Any) -> Any:
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500, **options))

    balanced = logistic(class_weight="balanced")
    candidates: list[tuple[str, Any, float]] = [
        ("balanced logistic", balanced, 0.5),
        ("logistic", logistic(), 0.5),
        ("balanced tree", DecisionTreeClassifier(max_depth=5, class_weight="balanced",
                                                 random_state=0), 0.5),
        ("naive Bayes", make_pipeline(StandardScaler(), GaussianNB(var_smoothing=1e-2)), 0.5),
        ("forest", RandomForestClassifier(60, max_depth=8, random_state=0), 0.5),
        ("boosting", HistGradientBoostingClassifier(max_iter=60, random_state=0), 0.5),
        ("neighbours", make_pipeline(StandardScaler(), KNeighborsClassifier(15)), 0.5),
        ("cautious logistic", balanced, 0.35),
    ]  # fmt: skip

    def decide(model: Any, threshold: float) -> Callable[[FloatArray], np.ndarray]:
        return lambda rows: np.asarray(model.predict_proba(rows)[:, 1] >= threshold)

    return [(title, decide(model.fit(X, y), threshold)) for title, model, threshold in candidates]
