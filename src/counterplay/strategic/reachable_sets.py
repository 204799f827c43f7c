"""Where people can go, as a linear rule sees it: balls, or bags of points.

Both answer the same questions for a direction w: the largest w.z within everybody's reach, and the
logistic loss of it with its gradient.

Source: "Strategic empirical risk minimisation", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.strategic.bag_logistic import BagLogistic
from counterplay.strategic.graphs.bags import best_threshold, score_rounding

Objective: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray]]
_TINY = 1e-12


class Balls:
    """Everybody within a radius: support function of the reachable sets, and the surrogate loss.

    ``units`` says how far a radius of 1 reaches along each feature (0: not at all).
    """

    def __init__(
        self, X: FloatArray, radius: FloatArray, dual: float, units: FloatArray | float = 1.0
    ) -> None:
        self.X, self.radius, self.dual, self.units = X, radius, dual, units

    def support(self, w: FloatArray) -> FloatArray:
        """Largest w.z that everybody can reach."""
        scores: FloatArray = self.X @ w + self.radius * self._length(w)
        return scores

    def _length(self, w: FloatArray) -> float:
        return float(np.linalg.norm(w * self.units, self.dual))

    def _slope(self, w: FloatArray) -> FloatArray:
        return self.units * _norm_gradient(w * self.units, self.dual)

    def own(self, w: FloatArray) -> FloatArray:
        """Everybody's score without a move."""
        scores: FloatArray = self.X @ w
        return scores

    def rounding(self, w: FloatArray) -> FloatArray:
        """How much the support function may differ when it is computed in another way."""
        gain = self.radius * self._length(w)
        bound: FloatArray = score_rounding(self.X, w) + 8 * np.finfo(np.float64).eps * gain
        return bound

    def objective(self, y: BoolArray, weights: FloatArray, C: float) -> Objective:
        """Weighted logistic loss of support - b plus a ridge on w, with its gradient."""
        signs = np.where(y, 1.0, -1.0)

        def value_and_slope(theta: FloatArray) -> tuple[float, FloatArray]:
            w = theta[:-1]
            margin = signs * (self.support(w) - theta[-1])
            value = C * float(weights @ np.logaddexp(0.0, -margin)) + 0.5 * float(w @ w)
            pull = -C * weights * signs * expit(-margin)
            slope = pull @ self.X + float(pull @ self.radius) * self._slope(w)
            return value, np.append(slope + w, -pull.sum())

        return value_and_slope


class Bags:
    """Everybody with a bag of points within reach; the same questions as for balls."""

    def __init__(self, points: FloatArray, pointers: IntArray, position: IntArray) -> None:
        self.points, self.pointers, self.position = points, pointers, position

    def support(self, w: FloatArray) -> FloatArray:
        """Largest w.z in every bag."""
        return self._largest(self.points @ w)

    def own(self, w: FloatArray) -> FloatArray:
        """Score of the first point of every bag, the person's own."""
        scores: FloatArray = (self.points @ w)[self.position[self.pointers[:-1]]]
        return scores

    def rounding(self, w: FloatArray) -> FloatArray:
        """How much the support function may differ when it is computed in another way."""
        return self._largest(score_rounding(self.points, w))

    def objective(self, y: BoolArray, weights: FloatArray, C: float) -> Objective:
        """Weighted logistic loss of support - b plus a ridge on w, with its gradient."""
        return BagLogistic(self.points, self.pointers, self.position, y, C * weights)

    def _largest(self, scores: FloatArray) -> FloatArray:
        largest: FloatArray = np.maximum.reduceat(scores[self.position], self.pointers[:-1])
        return largest


def _norm_gradient(w: FloatArray, order: float) -> FloatArray:
    if order == 2:
        return w / max(float(np.linalg.norm(w)), _TINY)
    if order == 1:
        return np.sign(w)
    result = np.zeros_like(w)
    largest = int(np.abs(w).argmax())
    result[largest] = np.sign(w[largest])
    return result


def best_offset(
    reach: Balls | Bags, w: FloatArray, y: BoolArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Least weighted error in this direction and the threshold that attains it."""
    return best_threshold(reach.support(w), weights * y, weights * ~y, reach.rounding(w))


def best_direction(
    reach: Balls | Bags,
    w: FloatArray,
    b: float,
    weights: FloatArray,
    objective: Objective,
    max_iter: int,
) -> tuple[FloatArray, int]:
    """Direction of least surrogate loss by L-BFGS, and the iterations."""
    shifted = b + float(np.average(reach.support(w) - reach.own(w), weights=weights))
    result = minimize(
        objective, np.append(w, shifted), jac=True, method="L-BFGS-B", options={"maxiter": max_iter}
    )
    best: FloatArray = result.x[:-1]
    usable = bool(np.isfinite(best).all()) and np.abs(best).sum() > 0
    return (best if usable else w), int(result.nit)
