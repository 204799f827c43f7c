"""A linear classifier trained for people who move before they are judged.

Someone at x is accepted by w.z >= b after moving iff the support function max over reachable z of
w.z is at least b. Training on it instead of w.x is the whole difference. When everybody can move
equally far, it is a shift of the offset of ordinary logistic regression; otherwise a gradient
method finds the direction, and the offset is then set exactly.

Source: "Strategic empirical risk minimisation", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from counterplay.core.arguments import check_parameters
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_float_array,
    check_int,
    check_real,
)
from counterplay.errors import InvalidInputError
from counterplay.strategic.features import check_scale, named, read_rows, read_sample
from counterplay.strategic.graphs.bags import best_threshold, score_rounding
from counterplay.strategic.graphs.manipulation_graph import LocalGraph, ManipulationGraph
from counterplay.strategic.metrics import DUAL
from counterplay.tables.models import model_names

Objective: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray]]
_TINY = 1e-12
_SAFE = 0.999  # keeps rounding from skipping a search that is needed


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
    positive:
        The class people want; may be left out when the labels are 0 and 1 or True and False.

    Attributes
    ----------
    classes_:
        Both classes, the wanted one last.
    positive_:
        The wanted class.
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
        self,
        radius: ArrayLike = 0.0,
        *,
        norm: float = 2,
        C: float = 1.0,
        max_iter: int = 200,
        positive: Any = None,
    ) -> None:
        self.radius = radius
        self.norm = norm
        self.C = C
        self.max_iter = max_iter
        self.positive = positive

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        graph: ManipulationGraph | LocalGraph | None = None,
    ) -> StrategicLinearClassifier:
        """Fit to original features; ``graph`` replaces the radius where it is given."""
        check_parameters(self, nonfinite=["norm"])
        check_choice(self.norm, "norm", tuple(DUAL))
        check_real(self.C, "C", low=0.0, open_low=True, high=1e12)
        check_int(self.max_iter, "max_iter", low=1, high=1_000_000)
        rows, labels, weights = read_sample(self, X, y, sample_weight)
        check_scale(rows)
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
    ) -> tuple[FloatArray, _Balls | _Bags]:
        """Direction and everybody's reachable set."""
        start = LogisticRegression(C=float(self.C), max_iter=int(self.max_iter))
        w = start.fit(X, y, sample_weight=weights).coef_[0]
        self.n_iter_ = int(start.n_iter_[0])
        if graph is None:
            assert radius is not None
            reach: _Balls | _Bags = _Balls(X, radius, DUAL[self.norm])
            if np.ptp(radius) == 0:  # a common radius only shifts the offset
                return w, reach
        else:
            reach = _Bags(*graph.bag_points(named(X, model_names(self))))
        offset = -float(start.intercept_[0])
        loss = reach.objective(y, weights, self.C)
        found, steps = _minimise(reach, w, offset, weights, loss, self.max_iter)
        self.n_iter_ += steps
        losses = [float(_best_threshold(reach, v, y, weights)[0]) for v in (found, w)]
        return (w if losses[1] < losses[0] else found), reach

    def _set_rule(
        self, w: FloatArray, reach: _Balls | _Bags, y: BoolArray, weights: FloatArray
    ) -> None:
        loss, cut = _best_threshold(reach, w, y, weights)
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
        check_scale(radius, "radius")
        return np.broadcast_to(radius, (n,))

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Signed score of reported features; accepted from 0 on."""
        check_is_fitted(self)
        rows = read_rows(self, X)
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


class _Balls:
    """Everybody within a radius: support function of the reachable sets, and the surrogate loss."""

    def __init__(self, X: FloatArray, radius: FloatArray, dual: float) -> None:
        self.X, self.radius, self.dual = X, radius, dual

    def support(self, w: FloatArray) -> FloatArray:
        """Largest w.z that everybody can reach."""
        scores: FloatArray = self.X @ w + self.radius * np.linalg.norm(w, self.dual)
        return scores

    def own(self, w: FloatArray) -> FloatArray:
        """Everybody's score without a move."""
        scores: FloatArray = self.X @ w
        return scores

    def rounding(self, w: FloatArray) -> FloatArray:
        """How much the support function may differ when it is computed in another way."""
        gain = self.radius * np.linalg.norm(w, self.dual)
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
            slope = pull @ self.X + float(pull @ self.radius) * _norm_gradient(w, self.dual)
            return value, np.append(slope + w, -pull.sum())

        return value_and_slope


class _Bags:
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
        return _BagLogistic(self.points, self.pointers, self.position, y, C * weights)

    def _largest(self, scores: FloatArray) -> FloatArray:
        largest: FloatArray = np.maximum.reduceat(scores[self.position], self.pointers[:-1])
        return largest


def _best_threshold(
    reach: _Balls | _Bags, w: FloatArray, y: BoolArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Least weighted error in this direction and the threshold that attains it."""
    return best_threshold(reach.support(w), weights * y, weights * ~y, reach.rounding(w))


def _minimise(
    reach: _Balls | _Bags,
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


def _norm_gradient(w: FloatArray, order: float) -> FloatArray:
    if order == 2:
        return w / max(float(np.linalg.norm(w)), _TINY)
    if order == 1:
        return np.sign(w)
    result = np.zeros_like(w)
    largest = int(np.abs(w).argmax())
    result[largest] = np.sign(w[largest])
    return result


class _BagLogistic:
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
