"""A linear rule fitted to the best scores that people can show under their moves.

The best shown score of a person is a maximum of linear functions of the weights: convex, which is
right for the unqualified and wrong for the qualified. For the qualified it is replaced by the score
of their present best destination, a minorant; the rest is convex. Solving and answering in turn
never raises the objective.

Source: "Training with moves", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from counterplay.core.validation import BoolArray, FloatArray
from counterplay.strategic.bag_logistic import BagLogistic
from counterplay.strategic.best_shown import best_shown
from counterplay.strategic.moves import Moves

MOST_STEPS = 30
MOST_PLANES = 8
ENOUGH = 1e-6
LEVELS = 25  # different budgets of single people; more are rounded down to these


class MoveOracle:
    """Where everybody goes to show a linear rule her best, in encoded features.

    Parameters
    ----------
    X
        People, as the preprocessor takes them.
    encode
        From people to rows of numbers.
    preprocessor
        The fitted steps before the linear rule; None if there are none.
    moves
        What people can do.
    budgets
        What each of them can spend.
    """

    def __init__(
        self,
        X: Any,
        encode: Callable[[Any], FloatArray],
        preprocessor: Any,
        moves: Moves,
        budgets: FloatArray,
    ) -> None:
        self.X, self.encode, self.preprocessor, self.moves = X, encode, preprocessor, moves
        self.budgets = rounded_down(budgets)
        self.own = encode(X)

    def __call__(self, w: FloatArray) -> FloatArray:
        """Return the encoded best destination of everybody."""
        model = linear_model(w, 0.0, self.preprocessor, self.X)
        goals = self.own.copy()
        for budget in np.unique(self.budgets).tolist():
            mine = np.flatnonzero(self.budgets == budget)
            if budget == 0:
                continue
            part = self.X.iloc[mine] if isinstance(self.X, pd.DataFrame) else self.X[mine]
            shown = best_shown(model, part, self.moves, budget, positive=1)
            there = shown.destination(0)
            rows = there if isinstance(self.X, pd.DataFrame) else there.to_numpy(dtype=np.float64)
            found = self.encode(rows)
            better = found @ w > self.own[mine] @ w
            goals[mine[better]] = found[better]
        return goals


def rounded_down(budgets: FloatArray) -> FloatArray:
    """Return budgets with at most 25 different values; more are rounded down to quantiles."""
    known = np.unique(budgets)
    if known.size <= LEVELS:
        return budgets
    levels = np.quantile(budgets, np.linspace(0, 1, LEVELS), method="lower")
    return np.asarray(levels[np.searchsorted(levels, budgets, "right") - 1])


def linear_model(w: FloatArray, offset: float, preprocessor: Any, X: Any) -> Any:
    """Return a fitted logistic regression with these weights, behind the preprocessor."""
    final = LogisticRegression()
    final.classes_ = np.array([0, 1])
    final.coef_, final.intercept_ = w[None, :].copy(), np.array([offset])
    final.n_features_in_, final.n_iter_ = w.size, np.array([1])
    if preprocessor is not None:
        return make_pipeline(preprocessor, final)
    if isinstance(X, pd.DataFrame):
        final.feature_names_in_ = np.asarray(X.columns, dtype=object)
    return final


@dataclass(frozen=True, eq=False)
class Trained:
    """A direction, where people go under it, and how the objective fell."""

    weights: FloatArray
    goals: FloatArray
    objective: tuple[float, ...]


def train(
    oracle: MoveOracle, y: BoolArray, weights: FloatArray, start: FloatArray, C: float, steps: int
) -> Trained:
    """Majorise and minimise from ``start`` = (w, threshold); the objective never rises."""
    theta = start.copy()
    goals = oracle(theta[:-1])
    theta[-1] += float(np.average((goals - oracle.own) @ theta[:-1], weights=weights))
    value = _objective(theta, goals, y, weights, C)
    path = [value]
    extra: list[FloatArray] = []
    for _ in range(MOST_STEPS):
        found = None
        for _ in range(MOST_PLANES):  # the unqualified may have answers that were not seen yet
            new = _solve(oracle.own, goals, extra, y, C * weights, theta, steps)
            answer = oracle(new[:-1])
            new_value = _objective(new, answer, y, weights, C)
            extra.append(answer)
            if new_value <= value:
                found = new, answer, new_value
                break
        if found is None:
            break
        gained = value - found[2]
        theta, goals, value = found
        path.append(value)
        if gained < ENOUGH * (1 + abs(value)):
            break
    return Trained(theta[:-1], goals, tuple(path))


def _objective(
    theta: FloatArray, goals: FloatArray, y: BoolArray, weights: FloatArray, C: float
) -> float:
    """Return the logistic loss of the best shown scores plus the ridge."""
    margin = np.where(y, 1.0, -1.0) * (goals @ theta[:-1] - theta[-1])
    return C * float(weights @ np.logaddexp(0.0, -margin)) + 0.5 * float(theta[:-1] @ theta[:-1])


def _solve(
    own: FloatArray,
    goals: FloatArray,
    extra: list[FloatArray],
    y: BoolArray,
    weights: FloatArray,
    theta: FloatArray,
    steps: int,
) -> FloatArray:
    """Minimise the convex problem: the qualified at ``goals``, the others at the best seen."""
    n = y.size
    layers = [goals, own, *extra]
    points = np.vstack(layers)
    counts = np.where(y, 1, len(layers))
    pointers = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    position = np.concatenate([np.arange(i, counts[i] * n, n, dtype=np.int64) for i in range(n)])
    result = minimize(
        BagLogistic(points, pointers, position, y, weights),
        theta,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps},
    )
    return np.asarray(result.x) if np.isfinite(result.x).all() else theta
