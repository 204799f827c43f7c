"""The logistic loss of the best point of every bag, with its gradient, in one compiled pass.

Source: "Strategic empirical risk minimisation", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from counterplay.core.validation import BoolArray, FloatArray, IntArray

_SAFE = 0.999  # keeps rounding from skipping a search that is needed


class BagLogistic:
    """The loss on the best point of every bag, with its gradient, in one compiled pass.

    The best point of a bag stays the best while the direction has moved less than the gap to the
    second best divided by the diameter of the bag. Bags within that distance are not searched
    again, so most evaluations look at one point per bag; the values are exact all the same.
    """

    def __init__(
        self,
        points: FloatArray,
        pointers: IntArray,
        position: IntArray,
        y: BoolArray,
        weights: FloatArray,
    ) -> None:
        self.points, self.pointers, self.position = points, pointers, position
        self.signs, self.weights = np.where(y, 1.0, -1.0), weights
        self.diameter = _diameters(points, pointers, position)
        self.best = np.zeros(y.size, dtype=np.int64)
        self.seen_at = np.zeros(y.size, dtype=np.int64)  # direction at which a bag was searched
        self.radius = np.full(y.size, -1.0)  # how far from there its best point is known
        self.directions = np.zeros((0, points.shape[1]))

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient at (w, b)."""
        w = np.ascontiguousarray(theta[:-1])
        self.directions = np.vstack([self.directions, w])
        away = np.linalg.norm(self.directions - w, axis=1)
        value, slope = _loss(
            w, float(theta[-1]), self.points, self.pointers, self.position, self.signs,
            self.weights, self.diameter, self.best, self.seen_at, self.radius, away,
        )  # fmt: skip
        slope[:-1] += w
        return float(value) + 0.5 * float(w @ w), slope


@njit(cache=True)
def _diameters(points, pointers, position):  # type: ignore[no-untyped-def]  # compiled by numba
    """Bound on the distance of two points of each bag: twice the largest one from its first."""
    result = np.empty(pointers.size - 1)
    for t in range(result.size):
        # Two points are at most twice as far apart as the farther one from the first point.
        first, largest = position[pointers[t]], 0.0
        for i in range(pointers[t] + 1, pointers[t + 1]):
            total = 0.0
            for j in range(points.shape[1]):
                step = points[position[i], j] - points[first, j]
                total += step * step
            largest = max(largest, total)
        result[t] = 2.0 * np.sqrt(largest)
    return result


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _dot(row, w):  # type: ignore[no-untyped-def]  # compiled by numba
    """Scalar product; the order of its terms is left to the compiler."""
    total = 0.0
    for j in range(w.size):
        total += row[j] * w[j]
    return total


@njit(cache=True)
def _search(t, w, points, pointers, position):  # type: ignore[no-untyped-def]  # compiled by numba
    """First best point of a bag, and by how much it beats the others."""
    chosen = position[pointers[t]]
    top, second = _dot(points[chosen], w), -np.inf
    for i in range(pointers[t] + 1, pointers[t + 1]):
        score = _dot(points[position[i]], w)
        # A new best one makes the old one second; equal scores keep the first and leave no gap.
        if score > top:
            chosen, second, top = position[i], top, score
        elif score > second:
            second = score
    return chosen, top - second


@njit(cache=True)
def _loss(w, b, points, pointers, position, signs, weights, diameter, best, seen_at, radius, away):  # type: ignore[no-untyped-def]  # compiled by numba
    """Loss and gradient at (w, b); ``best``, ``seen_at`` and ``radius`` are brought up to date."""
    value, slope, now = 0.0, np.zeros(w.size + 1), away.size - 1
    for t in range(signs.size):
        # Search a bag again only if the direction has left the ball in which its best is known.
        if not away[seen_at[t]] < radius[t]:
            best[t], gap = _search(t, w, points, pointers, position)
            seen_at[t] = now
            radius[t] = _SAFE * gap / diameter[t] if diameter[t] > 0 else np.inf
        row = points[best[t]]
        margin = signs[t] * (_dot(row, w) - b)
        # log(1 + exp(-margin)) and its slope, written so that no exponential overflows.
        if margin > 0:
            small = np.exp(-margin)
            value += weights[t] * np.log1p(small)
            wrong = small / (1.0 + small)
        else:
            small = np.exp(margin)
            value += weights[t] * (np.log1p(small) - margin)
            wrong = 1.0 / (1.0 + small)
        # The best point is the gradient of the support function, -1 that of -b.
        pull = -weights[t] * signs[t] * wrong
        for j in range(w.size):
            slope[j] += pull * row[j]
        slope[w.size] -= pull
    return value, slope
