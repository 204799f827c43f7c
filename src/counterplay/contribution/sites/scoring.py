"""Scores of a model at every site, with the number of rows that each score really rests on.

A score is an average over held-out rows, within classes where the metric asks for it. ``Rows``
keeps what each row adds, so that rows can be drawn again without another fit.
Source: "Measuring", see docs/theory/23-consortium.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from counterplay.core.validation import BoolArray, FloatArray, IntArray

Metric = Literal["accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc"]
METRICS: tuple[Metric, ...] = ("accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc")
_FLOOR = 1e-6
"""Probabilities below count as this in the log loss."""


@dataclass(frozen=True)
class Score:
    """A score, its effective test rows, and per row its part of the error (None: not scored)."""

    value: float
    test_rows: float
    parts: FloatArray


def to_error(score: FloatArray | float, metric: str) -> FloatArray:
    """Errors fall while scores rise: ``1 - score``, for the log loss the loss itself."""
    value = np.asarray(score, dtype=np.float64)
    return np.asarray(-value if metric == "neg_log_loss" else 1.0 - value)


def to_score(error: FloatArray | float, metric: str) -> FloatArray:
    """Back from errors to scores."""
    return to_error(error, metric)


def spread(error: FloatArray, metric: str) -> FloatArray:
    """Variance of one effective row: ``e (1 - e)``, for the log loss ``e^2``."""
    e = np.asarray(error, dtype=np.float64)
    if metric == "neg_log_loss":
        return np.asarray(np.maximum(e, 1e-3) ** 2)
    return np.asarray(np.clip(e * (1.0 - e), 1e-4, None))


def score_rows(
    metric: str, truth: IntArray, answer: IntArray, chance: FloatArray | None
) -> Score | None:
    """Score the held-out rows of one site; None where the metric has nothing to say.

    ``chance`` has a column per class (not needed for accuracies). The parts are errors per row;
    their mean (within classes and then over classes, see ``strata``) is the error.
    """
    if metric == "accuracy":
        wrong = (truth != answer).astype(np.float64)
        return Score(1.0 - float(wrong.mean()), float(len(truth)), wrong)
    if metric == "balanced_accuracy":
        wrong = (truth != answer).astype(np.float64)
        present, counts = np.unique(truth, return_counts=True)
        if len(present) < 2:
            return None
        means = [wrong[truth == c].mean() for c in present]
        rows = len(present) ** 2 / (1.0 / counts).sum()
        return Score(1.0 - float(np.mean(means)), float(rows), wrong)
    assert chance is not None  # asked for by the other metrics
    if metric == "neg_log_loss":
        loss = -np.log(np.clip(chance[np.arange(len(truth)), truth], _FLOOR, 1.0))
        mean = float(loss.mean())
        variance = max(float(loss.var(ddof=1)) if len(loss) > 1 else mean**2, 1e-12)
        return Score(-mean, float(spread(np.array(mean), metric)) * len(loss) / variance, loss)
    return _auc(truth == 1, chance[:, 1])


def _auc(positive: BoolArray, chance: FloatArray) -> Score | None:
    """Area under the curve with the variance of DeLong, DeLong and Clarke-Pearson (1988)."""
    n1, n0 = int(positive.sum()), int((~positive).sum())
    if not n1 or not n0:
        return None
    parts = np.empty(len(chance))
    together = stats.rankdata(chance)
    # structural components: how often a row is on the right side of the rows of the other class
    parts[positive] = (together[positive] - stats.rankdata(chance[positive])) / n0
    parts[~positive] = 1.0 - (together[~positive] - stats.rankdata(chance[~positive])) / n1
    area = float(parts[positive].mean())
    variance = sum(
        (parts[own].var(ddof=1) if own.sum() > 1 else 0.25) / own.sum()
        for own in (positive, ~positive)
    )
    error = 1.0 - area
    rows = float(spread(np.array(error), "roc_auc")) / max(float(variance), 1e-12)
    # rows of both classes add to the error: the two means of (1 - part) - error / 2 sum to it
    return Score(area, min(rows, 4.0 * len(chance)), (1.0 - parts) - error / 2.0)


def strata(metric: str, truth: IntArray) -> tuple[IntArray, FloatArray]:
    """Which average a row belongs to, and with which weight the averages add to the error."""
    if metric in ("accuracy", "neg_log_loss"):
        return np.zeros(len(truth), dtype=np.int64), np.ones(1)
    present, group = np.unique(truth, return_inverse=True)
    share = 1.0 if metric == "roc_auc" else 1.0 / len(present)
    return group.astype(np.int64), np.full(len(present), share)
