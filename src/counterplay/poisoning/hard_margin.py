"""HardMarginSVM: the exact maximum-margin hyperplane, without a quadratic-programming package.

The widest margin is the shortest vector between the two convex hulls. Wolfe's active-set method
finds it in finitely many steps from linear searches over the points; the result is checked against
every row and against its own dual. libsvm with a huge C is not exact when the margin is tiny.
Source: docs/theory/10-poisoning.md, "Theorem 10.6: one point breaks the SVM".
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, check_real
from counterplay.errors import ConvergenceError, NotRealizableError
from counterplay.poisoning.model import BatchLearner, Labels, training_set
from counterplay.poisoning.separation import separable


@checked
class HardMarginSVM(BatchLearner):
    """The linear classifier with the largest margin, solved to optimality.

    Parameters
    ----------
    tol:
        Relative optimality gap that is accepted; larger gaps raise an error instead of an answer.

    Notes
    -----
    Data with one label give a constant. The boundary is positive.

    Examples
    --------
    >>> svm = HardMarginSVM().fit([[0.0, 0.0], [0.0, 1.0], [2.0, 0.0]], [0, 0, 1])
    >>> svm.margin_, svm.coef_.round(6).tolist()
    (1.0, [1.0, 0.0])
    """

    def __init__(self, tol: float = 1e-7) -> None:
        self.tol = check_real(tol, "tol", low=0, open_low=True)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Solve for the maximum-margin hyperplane."""
        S = training_set(np.asarray(X, dtype=np.float64), y)
        self.coef_: FloatArray = np.zeros(S.X.shape[1])
        self.gap_ = 0.0
        self.margin_ = np.inf
        if len(S) == 0 or S.y.min() == S.y.max():
            self.intercept_ = 1.0 if len(S) and S.y[0] == 1 else -1.0
            return self
        center = S.X.mean(axis=0)
        scale = float(np.abs(S.X - center).max()) or 1.0
        scaled = (S.X - center) / scale
        positive, negative = scaled[S.y == 1], scaled[S.y == 0]
        v = shortest_difference(positive, negative)
        square = float(v @ v)
        first, last = float((positive @ v).min()), float((negative @ v).max())
        if square <= 1e-28 or first <= last:
            if not separable(S.X, S.y):
                raise NotRealizableError("no hyperplane separates the two labels")
            raise ConvergenceError(
                "the two labels are separable, but the margin is beyond 64-bit precision; "
                "bring the columns to similar scales"
            )
        self.gap_ = 1 - (first - last) / square
        if self.gap_ > self.tol:
            raise ConvergenceError(
                f"the optimality gap {self.gap_:.2g} exceeds tol={self.tol:g}; "
                "the margin is too small for 64-bit numbers"
            )
        self.coef_ = 2 * v / (first - last) / scale
        self.intercept_ = float(-(first + last) / (first - last) - self.coef_ @ center)
        self.margin_ = float((first - last) / np.sqrt(square) / 2 * scale)
        return self

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Signed value, at least 1 (at most -1) on positive (negative) training rows."""
        values: FloatArray = np.atleast_2d(np.asarray(X, np.float64)) @ self.coef_ + self.intercept_
        return values

    def predict(self, X: ArrayLike) -> Labels:
        """Label 1 on and above the hyperplane."""
        return (self.decision_function(X) >= 0).astype(np.uint8)


def shortest_difference(positive: FloatArray, negative: FloatArray) -> FloatArray:
    """Shortest vector from the hull of the negatives to the hull of the positives (Wolfe 1976).

    Examples
    --------
    >>> shortest_difference(np.array([[2.0, 0.0]]), np.array([[0.0, 1.0], [0.0, -1.0]]))
    array([2., 0.])
    """
    v = positive.mean(axis=0) - negative.mean(axis=0)
    pair = _extreme(positive, negative, v)
    pairs, corral = [pair], (positive[pair[0]] - negative[pair[1]])[None, :]
    weights = np.ones(1)
    v = corral[0].copy()
    for _ in range(50 * (positive.shape[1] + len(positive) + len(negative)) + 1000):
        pair = _extreme(positive, negative, v)
        new = positive[pair[0]] - negative[pair[1]]
        if v @ v - v @ new <= 1e-14 * max(float(v @ v), 1e-300) or pair in pairs:
            break
        pairs.append(pair)
        corral = np.vstack([corral, new])
        weights = np.append(weights, 0.0)
        before = float(v @ v)
        corral, weights, pairs = _minor_cycles(corral, weights, pairs)
        v = weights @ corral
        if float(v @ v) >= before * (1 - 1e-15):  # no progress left at this precision
            break
    return np.asarray(v, dtype=np.float64)


def _extreme(positive: FloatArray, negative: FloatArray, v: FloatArray) -> tuple[int, int]:
    return int((positive @ v).argmin()), int((negative @ v).argmax())


def _minor_cycles(
    corral: FloatArray, weights: FloatArray, pairs: list[Any]
) -> tuple[FloatArray, FloatArray, list[Any]]:
    """Move to the affine minimiser, dropping points that leave the simplex."""
    while True:
        affine = _affine_minimiser(corral)
        if (affine > 1e-13).all():
            return corral, affine, pairs
        falling = affine <= 1e-13
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(falling, weights / (weights - affine), np.inf)
        step = float(np.clip(np.nanmin(ratio), 0.0, 1.0))
        weights = step * affine + (1 - step) * weights
        keep = weights > 1e-13
        if keep.all():
            keep[int(np.nanargmin(ratio))] = False
        corral, weights = corral[keep], weights[keep]
        weights = weights / weights.sum()
        pairs = [pair for pair, kept in zip(pairs, keep) if kept]
        if len(pairs) == 1:
            return corral, np.ones(1), pairs


def _affine_minimiser(corral: FloatArray) -> FloatArray:
    """Weights (any sign, sum one) of the point of the affine hull closest to the origin."""
    base = corral[0]
    directions = (corral[1:] - base).T
    if directions.size == 0:
        return np.ones(1)
    try:
        gram = directions.T @ directions
        factor = cho_factor(gram, check_finite=False)
        step = cho_solve(factor, -directions.T @ base, check_finite=False)
        residual = directions.T @ (base + directions @ step)
        step -= cho_solve(factor, residual, check_finite=False)  # one refinement
    except LinAlgError:  # nearly dependent: slower, but stable
        step = np.linalg.lstsq(directions, -base, rcond=None)[0]
    return np.concatenate([[1 - step.sum()], step])
