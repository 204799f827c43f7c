"""Fallback for stable plans: semismooth Newton on the complementarity conditions.

A stable plan of a continuous game satisfies ``0 <= theta``, ``u(theta) >= mu`` and, party by
party, one of the two with equality.
Source: "Best-response dynamics", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterplay.contribution.audit import allocation, stability_report
from counterplay.contribution.game import CollabGame, Tolerances
from counterplay.contribution.reports import Allocation
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, check_positive_int
from counterplay.errors import ConvergenceError, InvalidInputError


def solve_ncp(
    game: CollabGame,
    theta0: ArrayLike | None = None,
    *,
    n_starts: int = 20,
    max_iter: int = 200,
    tol: float = 1e-10,
    random_state: RandomState = 0,
) -> Allocation:
    """Find a stable plan by Newton steps on ``min(theta_i, u_i(theta) - mu_i) = 0``.

    For games on which best responses cycle. Real contributions only.

    Parameters
    ----------
    game:
        Any real-valued game.
    theta0:
        First start; further starts are drawn from the box of stand-alone contributions.
    n_starts, max_iter:
        How many starts and Newton steps per start to try.
    tol:
        Largest natural residual of an accepted plan.

    Notes
    -----
    What is returned has been checked to be stable; nothing guarantees that a start converges.

    References
    ----------
    Facchinei, Pang (2003), *Finite-Dimensional Variational Inequalities and Complementarity
    Problems*, ch. 9.

    Examples
    --------
    >>> from counterplay.contribution import instances
    >>> solve_ncp(instances.directed_triangle()).theta.round(6).tolist()
    [0.5, 0.5, 0.5]
    """
    if game.integral:
        raise InvalidInputError("solve_ncp needs real contributions; whole numbers have no slope")
    check_positive_int(n_starts, "n_starts")
    rng, box = generator(random_state), np.asarray(game.box)
    best = np.inf
    for attempt in range(n_starts):
        if attempt == 0:
            start = 0.5 * box if theta0 is None else np.minimum(game._vector(theta0), box)
        else:
            start = rng.random(game.k) * box
        theta, residual = _newton(game, start, box, max_iter, tol)
        best = min(best, residual)
        if residual <= tol:
            cleaned = _clean(game, theta)
            if stability_report(game, cleaned, Tolerances(u=1e-9, theta=1e-8)).is_stable:
                certificate = {"starts": attempt + 1, "residual": residual}
                return allocation(game, cleaned, "stable", certificate)
    raise ConvergenceError(
        f"no start reached a stable plan; the smallest residual was {best:.2g}; raise n_starts"
    )


def _newton(
    game: CollabGame, theta: FloatArray, box: FloatArray, limit: int, tol: float
) -> tuple[FloatArray, float]:
    residual, value = _residual(game, theta)
    for _ in range(limit):
        if abs(residual).max() <= tol:
            break
        tight = theta > game._utilities(theta[None, :])[0] - game.mu
        slope = np.where(tight[:, None], game.jacobian(theta), np.eye(game.k))
        direction = np.asarray(np.linalg.lstsq(slope, -residual, rcond=1e-12)[0], np.float64)
        theta, residual, value, moved = _search(game, theta, direction, box, value)
        if not moved:
            theta, residual, value, moved = _search(game, theta, -residual, box, value)
        if not moved:
            break
    return theta, float(abs(residual).max())


def _search(
    game: CollabGame, theta: FloatArray, direction: FloatArray, box: FloatArray, value: float
) -> tuple[FloatArray, FloatArray, float, bool]:
    """Armijo search along a projected direction."""
    step = 1.0
    while step > 1e-10:
        candidate = np.clip(theta + step * direction, 0.0, box)
        residual, new = _residual(game, candidate)
        if new <= (1 - 1e-4 * step) * value:
            return candidate, residual, new, True
        step *= 0.5
    residual, _ = _residual(game, theta)
    return theta, residual, value, False


def _residual(game: CollabGame, theta: FloatArray) -> tuple[FloatArray, float]:
    slack = game._utilities(theta[None, :])[0] - game.mu
    residual = np.minimum(theta, slack)
    return residual, float(residual @ residual)


def _clean(game: CollabGame, theta: FloatArray) -> FloatArray:
    """One sweep of best responses, kept if it stays at the same plan."""
    swept = theta.copy()
    for i in range(game.k):
        swept[i] = game.best_response(i, swept)
    return swept if abs(swept - theta).max() <= 1e-6 else theta
