"""What is read off a model's scores: how far to trust them, what to ask, what labels to freeze.

Source: docs/theory/24-campaign.md, "The solo protocol".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from counterplay.core.validation import FloatArray, IntArray
from counterplay.labeling.models import PoolModel

MEMORY = 60
"""Learning answers from which the model's own estimate of its errors is calibrated."""


def calibration(record: Sequence[tuple[bool, float]]) -> float:
    """Wrong predictions over expected ones, on the last learning answers; no audit is used."""
    recent = record[-MEMORY:]
    wrong = sum(miss for miss, _ in recent)
    return (1.0 + wrong) / (1.0 + sum(doubt for _, doubt in recent))


def judged(scores: FloatArray, codes: Sequence[int]) -> list[tuple[bool, float]]:
    """Compare predictions with answers: whether wrong, and how probable that had seemed."""
    best = scores.argmax(axis=1)
    return [
        (bool(guess != code), float(1.0 - row.max()))
        for guess, row, code in zip(best.tolist(), scores, codes)
        if code >= 0
    ]


def smallest_margins(scores: FloatArray, count: int) -> IntArray:
    """Positions of the rows whose two best scores are closest, closest first."""
    top = np.partition(scores, -2, axis=1)[:, -2:] if scores.shape[1] > 1 else scores
    margins = top[:, -1] - top[:, 0]
    if count < len(margins):
        cut = np.partition(margins, count - 1)[count - 1]
        near = np.flatnonzero(margins <= cut)
    else:
        near = np.arange(len(margins))
    chosen: IntArray = near[np.argsort(margins[near], kind="stable")][:count].astype(np.int64)
    return chosen


def frozen_labels(
    scores: FloatArray, model: PoolModel, rows: IntArray, codes: IntArray, noise: float
) -> IntArray:
    """Labels of all rows: the model's, and the answers where there are any.

    With noise an answer is weighed against a model that has not seen it.
    """
    labels: IntArray = scores.argmax(axis=1).astype(np.int64)
    if not rows.size:
        return labels
    if noise == 0.0:
        labels[rows] = codes
        return labels
    logs = np.log(np.maximum(scores, 1e-6))
    logs[rows] = np.log(np.maximum(model.held_out(rows, codes), 1e-6))
    weight = np.log((1.0 - noise) * (scores.shape[1] - 1) / noise)
    np.add.at(logs, (rows, codes), weight)
    labels[rows] = logs[rows].argmax(axis=1)
    return labels
