"""Local searches for games without an exact solver: cut what can be cut, keep what must hold.

Results are feasible (and envy-free where asked), never claimed optimal.
Source: "Plans of coverage games", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from counterplay.contribution.audit import envy_report
from counterplay.contribution.equal import smallest_common_level
from counterplay.contribution.game import TIE, CollabGame
from counterplay.core.validation import FloatArray


def satisfied(game: CollabGame, theta: FloatArray) -> bool:
    """Return whether everybody reaches its target, up to rounding errors."""
    return bool((game._utilities(theta[None, :])[0] >= game.mu - TIE).all())


def descend(game: CollabGame, start: FloatArray) -> FloatArray:
    """SLSQP on the true utilities from ``start``, then cutting; real contributions only."""
    top = game.caps
    first = make_feasible(game, np.minimum(start, top))
    result = minimize(
        game.total,
        first,
        jac=lambda theta: np.asarray(game.cost),
        bounds=list(zip(np.zeros(game.k), top)),
        constraints={
            "type": "ineq",
            "fun": lambda t: game._utilities(np.clip(t, 0.0, top)[None, :])[0] - game.mu,
            "jac": lambda t: game.jacobian(np.clip(t, 0.0, top)),
        },
        method="SLSQP",
        options={"maxiter": 100, "ftol": 1e-10},
    )
    moved = shrink(game, make_feasible(game, np.clip(result.x, 0.0, top)))
    kept = shrink(game, first)
    return min((moved, kept), key=game.total)


def make_feasible(game: CollabGame, theta: FloatArray) -> FloatArray:
    """Move from ``theta`` towards a feasible plan just until everybody is satisfied."""
    if satisfied(game, theta):
        return theta
    top = game.caps
    goal = np.maximum(np.minimum(smallest_common_level(game), top), theta)
    if not satisfied(game, goal):
        goal = top
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        reached = satisfied(game, theta + middle * (goal - theta))
        low, high = (low, middle) if reached else (middle, high)
    return theta + high * (goal - theta)


def shrink(game: CollabGame, theta: FloatArray) -> FloatArray:
    """Cut each contribution as far as everybody stays satisfied, the most expensive first."""
    theta = theta.copy()
    for i in np.argsort(-game.cost * theta, kind="stable"):
        low, high = -1.0 if game.integral else 0.0, float(theta[i])
        while high - low > (1.0 if game.integral else 1e-13 * max(1.0, high)):
            middle = (low + high) / 2
            theta[i] = np.floor(middle) if game.integral else middle
            low, high = (low, theta[i]) if satisfied(game, theta) else (theta[i], high)
        theta[i] = high
        if not game.integral and high < 1e-12:
            theta[i] = 0.0
            theta[i] = 0.0 if satisfied(game, theta) else high
    return theta


def trim_envy_free(game: CollabGame, theta: FloatArray, *, max_moves: int = 2000) -> FloatArray:
    """Lower an envy-free plan by single cuts and by cuts of all heaviest parties together."""
    theta = theta.copy()
    step = 1.0 if game.integral else max(float(theta.max(initial=0.0)) / 2, 1e-9)
    smallest = 1.0 if game.integral else step * 1e-6
    moves = 0
    while step >= smallest and moves < max_moves:
        candidate = _one_cut(game, theta, step)
        moves += 1
        if candidate is None:
            step /= 2
        else:
            theta = candidate
    return theta


def _one_cut(game: CollabGame, theta: FloatArray, step: float) -> FloatArray | None:
    heaviest = theta >= theta.max() - 1e-12
    masks = [heaviest, *np.eye(game.k, dtype=bool)[np.argsort(-theta, kind="stable")]]
    for mask in masks:
        candidate = np.where(mask, np.maximum(theta - step, 0.0), theta)
        if game.total(candidate) >= game.total(theta) - 1e-12 or not satisfied(game, candidate):
            continue
        if envy_report(game, candidate).is_envy_free:
            return candidate
    return None
