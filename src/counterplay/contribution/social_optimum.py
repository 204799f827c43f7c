"""The cheapest feasible plan of a linear game, with the dual that proves it: a covering LP.
Source: LP 1 in "Plans of linear games", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import linprog

from counterplay.contribution.audit import allocation
from counterplay.contribution.linear import LinearGame, as_linear_game
from counterplay.contribution.reports import Allocation
from counterplay.core.validation import FloatArray
from counterplay.errors import ConvergenceError, InfeasibleError

LARGE = 1000
"""From this many parties on the interior-point method of HiGHS is used: about twice as fast."""


def socially_optimal_linear(W: Any, mu: ArrayLike | None = None) -> Allocation:
    """Return the cheapest plan that satisfies everybody, ignoring incentives.

    ``min cost'theta`` subject to ``W theta >= mu`` and ``0 <= theta <= upper``.

    Parameters
    ----------
    W:
        A :class:`LinearGame`, or its matrix.
    mu:
        Targets, if ``W`` is a matrix.

    Returns
    -------
    Allocation
        Its certificate holds the dual ``y >= 0`` with ``W'y <= cost`` and the duality ``gap``: no
        plan can cost less than the total minus this gap.

    Notes
    -----
    Up to 1,000 parties simplex, above it the interior-point method (dense ``k = 2000`` takes
    under a minute).

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), LP 1.

    Examples
    --------
    >>> from counterplay.contribution import instances
    >>> plan = socially_optimal_linear(instances.flower(3).linear())
    >>> round(plan.total, 9)
    3.0
    """
    game = as_linear_game(W, mu)
    method = "highs" if game.k < LARGE else "highs-ipm"
    upper = np.full(game.k, np.inf) if game.upper is None else game.upper
    A = -sparse.csr_array(game.W) if game.is_sparse else -game.W
    bounds = np.column_stack([np.zeros(game.k), upper])
    result = linprog(game.cost, A_ub=A, b_ub=-game.mu, bounds=bounds, method=method)
    if result.status == 2:
        raise InfeasibleError("no plan within the caps satisfies everybody; raise the caps")
    if result.status != 0:
        raise ConvergenceError(f"the linear program was not solved: {result.message}")
    theta = _lift(game, np.clip(result.x, 0.0, upper))
    dual = np.maximum(-result.ineqlin.marginals, 0.0)
    lower = dual_bound(game, dual, upper)
    return allocation(
        game,
        theta,
        "optimal",
        {
            "dual": dual,
            "lower_bound": lower,
            "gap": game.total(theta) - lower,
            "method": method,
        },
    )


def dual_bound(game: LinearGame, y: FloatArray, upper: FloatArray | None = None) -> float:
    """Return the lower bound on every feasible total that weights ``y >= 0`` prove.

    ``mu'y`` after scaling y to satisfy ``W'y <= cost``; with caps, the excess is paid for.
    """
    load = game.W.T @ y
    if upper is not None and np.isfinite(upper).all():
        return float(game.mu @ y - np.maximum(load - game.cost, 0.0) @ upper)
    positive = load > 0
    scale = float((game.cost[positive] / load[positive]).min(initial=1.0))
    return float(game.mu @ y) * min(1.0, scale)


def _lift(game: LinearGame, theta: FloatArray) -> FloatArray:
    """Scale up by the solver's last rounding error, so that every target is truly met."""
    u = game._utilities(theta[None, :])[0]
    positive = (game.mu > 0) & (u > 0)
    factor = float((game.mu[positive] / u[positive]).max(initial=1.0))
    lifted = theta * max(1.0, factor)
    return lifted if game.upper is None else np.minimum(lifted, game.upper)
