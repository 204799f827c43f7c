"""Samples as weighted bags: what strategic empirical risk minimisation sees.

The induced label of x is the OR of the rule over N[x], so a sample is a multiset of bags of points
with labels. Equal bags with equal labels are merged, weights added.

Source: "Setting", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplay.core.validation import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class BagSample:
    """Weighted bags over a list of distinct points.

    Attributes
    ----------
    points:
        Distinct points, shape (q, p).
    pointers:
        Bag t holds the points ``position[pointers[t]:pointers[t + 1]]``.
    position:
        Numbers of the points, bag after bag.
    positive:
        Total weight of label 1 in each bag.
    negative:
        Total weight of label 0 in each bag.
    """

    points: FloatArray
    pointers: IntArray
    position: IntArray
    positive: FloatArray
    negative: FloatArray

    @property
    def n_bags(self) -> int:
        """Number of distinct bags."""
        return int(self.positive.size)

    @property
    def total(self) -> float:
        """Weight of the whole sample."""
        return float(self.positive.sum() + self.negative.sum())

    def bag(self, t: int) -> IntArray:
        """Points of bag t."""
        return self.position[self.pointers[t] : self.pointers[t + 1]]

    def any(self, accepted: BoolArray) -> BoolArray:
        """Whether some point of each bag is accepted; ``accepted`` has shape (..., q)."""
        result: BoolArray = np.logical_or.reduceat(
            accepted[..., self.position], self.pointers[:-1], axis=-1
        )
        return result

    def maxima(self, scores: FloatArray) -> FloatArray:
        """Largest score in each bag; ``scores`` has shape (..., q)."""
        result: FloatArray = np.maximum.reduceat(
            scores[..., self.position], self.pointers[:-1], axis=-1
        )
        return result

    def loss(self, accepted: BoolArray) -> FloatArray:
        """Strategic loss of rules given by their labels on the points, shape (..., q)."""
        induced = self.any(accepted)
        result: FloatArray = induced @ self.negative + (~induced) @ self.positive
        return result


def merge_bags(
    points: FloatArray,
    pointers: IntArray,
    position: IntArray,
    y: BoolArray,
    weights: FloatArray,
) -> BagSample:
    """Merge rows with the same bag."""
    members = [np.unique(position[pointers[t] : pointers[t + 1]]) for t in range(y.size)]
    keys = [bag.tobytes() for bag in members]
    number = {key: i for i, key in enumerate(sorted(set(keys)))}
    owner = np.array([number[key] for key in keys], dtype=np.int64)
    bags = [np.frombuffer(key, dtype=members[0].dtype) for key in number]
    starts = np.cumsum([0, *(bag.size for bag in bags)]).astype(np.int64)
    positive = np.bincount(owner, weights=weights * y, minlength=len(bags)).astype(np.float64)
    negative = np.bincount(owner, weights=weights * ~y, minlength=len(bags)).astype(np.float64)
    return BagSample(points, starts, np.concatenate(bags), positive, negative)


def best_threshold(
    maxima: FloatArray,
    positive: FloatArray,
    negative: FloatArray,
    rounding: FloatArray | float = 0.0,
    *,
    widest: bool = False,
    strict: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Best threshold on bag maxima for each row of ``maxima``: (losses, thresholds).

    A bag is accepted iff its maximum is at least the threshold (``strict``: above it). Equal maxima
    are never separated, nor are those that differ by less than the sum of their ``rounding``:
    whoever computes the score again must come to the same decision. Of several best thresholds the
    highest is taken, or the one in the ``widest`` gap (one row only).

    Examples
    --------
    >>> loss, cut = best_threshold(np.array([1.0, 3.0]), np.array([0, 1]), np.array([1, 0]))
    >>> float(loss), float(cut)
    (0.0, 2.0)
    """
    order = np.argsort(-maxima, axis=-1, kind="stable")
    high = np.take_along_axis(maxima, order, axis=-1)
    error = np.take_along_axis(np.broadcast_to(rounding, maxima.shape), order, axis=-1)
    gain = np.cumsum((negative - positive)[order], axis=-1)
    before = np.concatenate([np.zeros((*gain.shape[:-1], 1)), gain], axis=-1)
    may_cut = np.ones(before.shape, dtype=np.bool_)
    may_cut[..., 1:-1] = (high - error)[..., :-1] > (high + error)[..., 1:]
    losses = np.where(may_cut, before + positive.sum(), np.inf)
    top = high[..., :1] + _room(high[..., :1], error[..., :1])
    bottom = high[..., -1:] - _room(high[..., -1:], error[..., -1:])
    padded = np.concatenate([top, high, bottom], axis=-1)
    best = (_widest(losses, padded) if widest else losses.argmin(axis=-1))[..., None]
    least = np.take_along_axis(losses, best, axis=-1)[..., 0]
    upper = np.take_along_axis(padded, best, axis=-1)[..., 0]
    lower = np.take_along_axis(padded, best + 1, axis=-1)[..., 0]
    middle = upper / 2 + lower / 2  # one of the ends if no float lies between neighbours
    if strict:
        return least, np.where(middle < upper, middle, lower)
    return least, np.where(middle > lower, middle, upper)


def _widest(losses: FloatArray, padded: FloatArray) -> IntArray:
    """Position of the least loss with the widest gap; the lowest among equals."""
    width = np.where(losses == losses.min(), -np.diff(padded), -np.inf)
    return np.asarray(width.size - 1 - int(np.argmax(width[::-1])))


def _room(score: FloatArray, error: FloatArray) -> FloatArray:
    """Distance of an end: half of it changes the score, by more than its rounding."""
    return np.maximum(2.0, 4.0 * (error + np.spacing(np.abs(score))))


def score_rounding(points: FloatArray, w: FloatArray) -> FloatArray:
    """Bound on the difference between two ways to compute the scores ``points @ w``."""
    if points.shape[1] == 1 and abs(w[0]) == 1:
        return np.zeros(len(points))
    size: FloatArray = np.abs(points) @ np.abs(w)
    unit = 4 * (points.shape[1] + 2) * float(np.finfo(np.float64).eps)
    return np.asarray(unit * size)
