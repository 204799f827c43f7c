"""A linear classifier trained for people who move before they are judged.

Someone at x is accepted by w.z >= b after moving iff the support function max over reachable z of
w.z is at least b. Training on it instead of w.x is the whole difference. When everybody can move
equally far, it is a shift of the offset of ordinary logistic regression; otherwise a gradient
method finds the direction, and the offset is then set exactly.

Source: "Strategic empirical risk minimisation", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from counterplay.core.validation import BoolArray, FloatArray, check_float_array
from counterplay.errors import InvalidInputError
from counterplay.strategic.bag_logistic import BagLogistic
from counterplay.strategic.columns import model_names, named
from counterplay.strategic.graphs.bags import best_threshold, score_rounding
from counterplay.strategic.graphs.manipulation_graph import LocalGraph, ManipulationGraph

_DUAL = {1: np.inf, 2: 2, np.inf: 1}
_TINY = 1e-12


class StrategicLinearClassifier(ClassifierMixin, BaseEstimator):
    """Logistic regression for applicants who game it.

    Use it like ``LogisticRegression`` when you know how far people can move: everybody within a
    radius (a number, or one per training row), or along a manipulation graph.

    Parameters
    ----------
    radius:
        How far everybody can move, in units of ``norm``; 0: nobody moves. One value per training
        row is allowed.
    norm:
        1, 2 or ``inf``: how effort is measured.
    C:
        Inverse strength of the ridge penalty, as in ``LogisticRegression``.
    max_iter:
        Iterations of the optimiser.

    Attributes
    ----------
    coef_:
        The rule on *reported* features accepts iff ``coef_ @ z + intercept_ >= 0``.
    intercept_:
        Its offset.
    loss_:
        Strategic error rate on the training sample.
    exact_threshold_:
        True: the offset is the best one for the direction on the training sample.

    Notes
    -----
    For a common radius the strategic loss of (w, b) is the ordinary loss of (w, b - r ||w||_*), so
    fitting is as fast as logistic regression, and gaming costs nothing: accuracy on gamed data is
    that of the same model with radius 0 on data that nobody games. In general the direction is the
    minimiser of a surrogate or that of logistic regression, whichever errs less after moves; so the
    strategic error on the training sample is never larger than that of logistic regression.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(300, 5, random_state=0)
    >>> naive = StrategicLinearClassifier().fit(X, y)
    >>> robust = StrategicLinearClassifier(radius=1.0).fit(X, y)
    >>> shift = np.linalg.norm(robust.coef_)  # everybody moves by 1 towards the boundary
    >>> def gamed(model):
    ...     return ((model.decision_function(X) + np.linalg.norm(model.coef_) >= 0) == y).mean()
    >>> bool(gamed(robust) > gamed(naive))
    True

    References
    ----------
    Levanon, Rosenfeld: Generalized Strategic Classification and the Case of Aligned Incentives,
    ICML 2022 (surrogate losses for strategic classification).
    """

    def __init__(
        self, radius: Any = 0.0, *, norm: float = 2, C: float = 1.0, max_iter: int = 200
    ) -> None:
        self.radius = radius
        self.norm = norm
        self.C = C
        self.max_iter = max_iter

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        graph: ManipulationGraph | LocalGraph | None = None,
    ) -> StrategicLinearClassifier:
        """Fit to original features; ``graph`` replaces the radius where it is given."""
        rows, y = validate_data(self, X, y, dtype=np.float64)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if kind != "binary" or self.classes_.size > 2:
            raise InvalidInputError(
                f"Only binary classification is supported. The type of the target is {kind}."
            )
        if self.classes_.size < 2:
            raise InvalidInputError("y contains only one class; two are needed")
        if self.norm not in _DUAL:
            raise InvalidInputError(f"norm must be 1, 2 or inf, got {self.norm!r}")
        weights = _check_sample_weight(
            sample_weight, rows, dtype=np.float64, ensure_non_negative=True
        )
        labels = codes == 1
        radius = self._radii(len(rows)) if graph is None else None
        w, reach = self._direction(rows, labels, weights, radius, graph)
        self._set_rule(w, reach, labels, weights)
        return self

    def _direction(
        self,
        X: FloatArray,
        y: BoolArray,
        weights: FloatArray,
        radius: FloatArray | None,
        graph: ManipulationGraph | LocalGraph | None,
    ) -> tuple[FloatArray, _Support]:
        """Direction and everybody's reachable set."""
        start = LogisticRegression(C=self.C, max_iter=self.max_iter)
        w = start.fit(X, y, sample_weight=weights).coef_[0]
        self.n_iter_ = int(start.n_iter_[0])
        if graph is None:
            assert radius is not None
            reach: _Support = _BallSupport(X, radius, _DUAL[self.norm])
            if np.ptp(radius) == 0:  # a common radius only shifts the offset
                return w, reach
        else:
            reach = _BagSupport(*graph.bag_points(named(X, model_names(self))))
        offset = -float(start.intercept_[0])
        found, steps = _minimise(reach, w, offset, y, weights, self.C, self.max_iter)
        self.n_iter_ += steps
        losses = [float(reach.best_threshold(v, y, weights)[0]) for v in (found, w)]
        return (w if losses[1] < losses[0] else found), reach

    def _set_rule(self, w: FloatArray, reach: _Support, y: BoolArray, weights: FloatArray) -> None:
        loss, cut = reach.best_threshold(w, y, weights)
        self.coef_ = w[None, :]
        self.intercept_ = np.array([-float(cut)])
        self.loss_ = float(loss) / float(weights.sum())
        self.exact_threshold_ = True

    def _radii(self, n: int) -> FloatArray:
        radius = check_float_array(self.radius, "radius")
        if radius.ndim > 1 or (radius.ndim == 1 and radius.size != n):
            raise InvalidInputError(
                f"radius must be a number or one per row ({n}), got {radius.shape}"
            )
        if (radius < 0).any():
            raise InvalidInputError("radius must not be negative")
        return np.broadcast_to(radius, (n,))

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Signed score of reported features; accepted from 0 on."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        scores: FloatArray = rows @ self.coef_[0] + self.intercept_[0]
        return scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Decide on reported features."""
        accepted = self.decision_function(X) >= 0
        labels: NDArray[Any] = self.classes_[accepted.astype(np.int64)]
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class _Support:
    """Support function of everybody's reachable set, and the points that attain it."""

    def support(self, w: FloatArray) -> tuple[FloatArray, Any]:
        raise NotImplementedError

    def rounding(self, w: FloatArray) -> FloatArray:
        """How much the support function may differ when it is computed in another way."""
        raise NotImplementedError

    def best_threshold(
        self, w: FloatArray, y: BoolArray, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Least weighted error in this direction and the threshold that attains it."""
        return best_threshold(self.support(w)[0], weights * y, weights * ~y, self.rounding(w))

    def pull(self, coefficients: FloatArray, w: FloatArray, attained: Any) -> FloatArray:
        """Sum of coefficient times maximising point over the rows: the gradient in w."""
        raise NotImplementedError


class _BallSupport(_Support):
    def __init__(self, X: FloatArray, radius: FloatArray, dual: float) -> None:
        self.X, self.radius, self.dual = X, radius, dual

    def support(self, w: FloatArray) -> tuple[FloatArray, Any]:
        return self.X @ w + self.radius * np.linalg.norm(w, self.dual), None

    def rounding(self, w: FloatArray) -> FloatArray:
        gain = self.radius * np.linalg.norm(w, self.dual)
        bound: FloatArray = score_rounding(self.X, w) + 8 * np.finfo(np.float64).eps * gain
        return bound

    def pull(self, coefficients: FloatArray, w: FloatArray, attained: Any) -> FloatArray:
        step = _norm_gradient(w, self.dual)
        result: FloatArray = coefficients @ self.X + float(coefficients @ self.radius) * step
        return result


class _BagSupport(_Support):
    def __init__(self, points: FloatArray, pointers: NDArray[Any], position: NDArray[Any]) -> None:
        self.points, self.pointers, self.position = points, pointers, position

    def support(self, w: FloatArray) -> tuple[FloatArray, Any]:
        best, attained = _bag_maxima(self.points @ w, self.pointers, self.position)
        return best, attained

    def rounding(self, w: FloatArray) -> FloatArray:
        bound: FloatArray = np.maximum.reduceat(
            score_rounding(self.points, w)[self.position], self.pointers[:-1]
        )
        return bound

    def pull(self, coefficients: FloatArray, w: FloatArray, attained: Any) -> FloatArray:
        result: FloatArray = coefficients @ self.points[attained]
        return result


@njit(cache=True)
def _bag_maxima(scores, pointers, position):  # type: ignore[no-untyped-def]  # compiled by numba
    """Largest score of every bag and the first point that attains it."""
    n_bags = pointers.size - 1
    best, attained = np.empty(n_bags), np.empty(n_bags, np.int64)
    for t in range(n_bags):
        chosen = position[pointers[t]]
        top = scores[chosen]
        for i in range(pointers[t] + 1, pointers[t + 1]):
            if scores[position[i]] > top:
                chosen = position[i]
                top = scores[chosen]
        best[t], attained[t] = top, chosen
    return best, attained


def _norm_gradient(w: FloatArray, order: float) -> FloatArray:
    if order == 2:
        return w / max(float(np.linalg.norm(w)), _TINY)
    if order == 1:
        return np.sign(w)
    result = np.zeros_like(w)
    largest = int(np.abs(w).argmax())
    result[largest] = np.sign(w[largest])
    return result


def _minimise(
    reach: _Support,
    w: FloatArray,
    b: float,
    y: BoolArray,
    weights: FloatArray,
    C: float,
    max_iter: int,
) -> tuple[FloatArray, int]:
    """Weighted logistic loss of support - b, plus a ridge on w, by L-BFGS; and the iterations."""
    objective: Callable[[FloatArray], tuple[float, FloatArray]]
    if isinstance(reach, _BagSupport):
        objective = BagLogistic(reach.points, reach.pointers, reach.position, y, weights, C)
    else:
        objective = _smooth(reach, y, weights, C)
    shifted = b + float(np.average(reach.support(w)[0] - _centre_scores(reach, w), weights=weights))
    result = minimize(
        objective, np.append(w, shifted), jac=True, method="L-BFGS-B", options={"maxiter": max_iter}
    )
    best: FloatArray = result.x[:-1]
    usable = bool(np.isfinite(best).all()) and np.abs(best).sum() > 0
    return (best if usable else w), int(result.nit)


def _smooth(
    reach: _Support, y: BoolArray, weights: FloatArray, C: float
) -> Callable[[FloatArray], tuple[float, FloatArray]]:
    """The objective and its gradient from the support function."""
    signs = np.where(y, 1.0, -1.0)

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        direction = theta[:-1]
        scores, attained = reach.support(direction)
        margin = signs * (scores - theta[-1])
        value = C * float(weights @ np.logaddexp(0.0, -margin)) + 0.5 * float(direction @ direction)
        pull = -C * weights * signs * expit(-margin)
        slope = reach.pull(pull, direction, attained) + direction
        return value, np.append(slope, -pull.sum())

    return objective


def _centre_scores(reach: _Support, w: FloatArray) -> FloatArray:
    if isinstance(reach, _BallSupport):
        scores: FloatArray = reach.X @ w
        return scores
    assert isinstance(reach, _BagSupport)
    own: FloatArray = (reach.points @ w)[reach.position[reach.pointers[:-1]]]
    return own
