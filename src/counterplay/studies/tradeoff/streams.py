"""Real streams as losses of several models: digits (bundled) and flu forecasts (if available)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from counterplay import datasets
from counterplay.core.validation import FloatArray

FLU_MODELS = 8
FLU_RATE, DIGITS_RATE = 0.2, 0.08


@dataclass(frozen=True)
class RealStream:
    """Losses of real models on real data, cut into history and the stream to play."""

    title: str
    models: tuple[str, ...]
    rate: float
    history: tuple[FloatArray, FloatArray] = field(repr=False)
    future: tuple[FloatArray, FloatArray] = field(repr=False)


def digits_stream() -> RealStream:
    """Meter readings: twelve classifiers trained on different windows read a stream of digits.

    Primary loss: the digit is wrong. Harm: it was read too large, so somebody is overcharged.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.tree import DecisionTreeClassifier

    X, y = datasets.load("digits", return_X_y=True)
    X, y = np.asarray(X) / 16, np.asarray(y)
    names, guesses = [], []
    for start in (0, 150, 300):
        window = slice(start, start + 150)
        for name, model in (
            ("nearest neighbours", KNeighborsClassifier(3)),
            ("naive Bayes", GaussianNB(var_smoothing=1e-2)),
            ("logistic", LogisticRegression(max_iter=2000)),
            ("tree", DecisionTreeClassifier(random_state=0)),
        ):
            names.append(f"{name}, rows {start}+")
            guesses.append(model.fit(X[window], y[window]).predict(X[450:]))
    predicted, truth = np.stack(guesses, axis=1), y[450:, None]
    l1, l2 = (predicted != truth).astype(float), (predicted > truth).astype(float)
    return _cut("digits read from meters", tuple(names), DIGITS_RATE, l1, l2, 300)


def flu_stream() -> RealStream:
    """Flu forecasts: eight research teams predict weekly hospital admissions.

    Primary loss: average quantile loss on the log scale. Harm: a surge was missed (observed above
    the 90 % quantile). The first season is history, the later ones are the stream.
    """
    frame = datasets.fetch("flusight").to_frame()
    for column in ("reference_date", "location", "model"):
        frame[column] = frame[column].astype(str)
    frame = frame[~frame["model"].str.startswith("FluSight-")]
    models = tuple(sorted(frame["model"].value_counts().index[:FLU_MODELS]))
    frame = frame[frame["model"].isin(models)].copy()
    observed = np.log1p(frame["observed"].to_numpy(float))
    total = np.zeros(len(frame))
    for column, level in (("q10", 0.1), ("q50", 0.5), ("q90", 0.9)):
        miss = observed - np.log1p(np.maximum(frame[column].to_numpy(float), 0))
        total += np.maximum(level * miss, (level - 1) * miss)
    frame["l1"] = np.minimum(1.0, total * 2 / 3)
    frame["l2"] = (frame["observed"] > frame["q90"]).astype(float)
    rounds = ["reference_date", "location", "horizon"]
    table = frame.pivot_table(index=rounds, columns="model", values=["l1", "l2"]).dropna()
    first_season = int((table.index.get_level_values(0) < "2024-09").sum())
    l1, l2 = (np.ascontiguousarray(table[name].to_numpy(float)) for name in ("l1", "l2"))
    return _cut("weekly flu forecasts", models, FLU_RATE, l1, l2, first_season)


def _cut(
    title: str, models: tuple[str, ...], rate: float, l1: FloatArray, l2: FloatArray, at: int
) -> RealStream:
    return RealStream(title, models, rate, (l1[:at], l2[:at]), (l1[at:], l2[at:]))
