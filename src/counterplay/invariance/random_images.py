"""One random image of every row, drawn independently: for tests, and for rows that come turned."""

from __future__ import annotations

import math

import numpy as np

from counterplay.core.validation import FloatArray, IntArray
from counterplay.invariance.symmetric_group import SymmetricGroup
from counterplay.invariance.transformations import TransformationSet

_LOOKED_AT = 50  # rows on which an element is taken for the identity before all are compared


def random_images(
    rows: FloatArray,
    group: TransformationSet,
    rng: np.random.Generator,
    elements: IntArray | None = None,
) -> tuple[FloatArray, IntArray]:
    """An image of each row under its own random element, and the number of that element.

    ``elements`` are those to draw from (default: all); groups that cannot be listed give -1.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> rng = np.random.default_rng(0)
    >>> random_images(np.array([[1.0, 2.0]]), groups.sequence_reversal(2), rng, np.array([1]))
    (array([[2., 1.]]), array([1]))
    """
    if not math.isfinite(group.order):
        return _unlisted(rows, group, rng), np.full(len(rows), -1)
    choice = np.arange(int(group.order)) if elements is None else elements
    picks = choice[rng.integers(len(choice), size=len(rows))]
    out = np.empty(rows.shape)
    for g in np.unique(picks).tolist():
        mine = picks == g
        out[mine] = group.exact_image(g, rows[mine])
    return out, picks


def moving_elements(rows: FloatArray, group: TransformationSet) -> IntArray:
    """Numbers of the elements that move at least one of the rows; empty if none does."""
    some = rows[:_LOOKED_AT]
    moving = []
    for g in range(int(group.order)):
        still = np.array_equal(group.exact_image(g, some), some, equal_nan=True)
        if not still or not np.array_equal(group.exact_image(g, rows), rows, equal_nan=True):
            moving.append(g)
    return np.array(moving, dtype=np.int64)


def _unlisted(rows: FloatArray, group: TransformationSet, rng: np.random.Generator) -> FloatArray:
    if isinstance(group, SymmetricGroup):
        return group.shuffled(rows, rng)
    images = [group.sample(row[None], 1, rng)[0, 0] for row in rows]
    return np.asarray(images, dtype=np.float64).reshape(rows.shape)
