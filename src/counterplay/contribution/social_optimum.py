"""The cheapest feasible plan of a linear game, with the dual that proves it: a covering LP.
Source: LP 1 in "Plans of linear games", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.contribution.audit import Allocation, allocation
from counterplay.contribution.linear import LinearGame, as_linear_game
from counterplay.core.arguments import checked
from counterplay.core.programs import Highs, minimize_linear
from counterplay.core.validation import FloatArray

LARGE = 1000
"""From this many parties on the interior-point method of HiGHS is used: about twice as fast."""


@checked
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
    solver = Highs("highs" if game.k < LARGE else "highs-ipm")
    solved = minimize_linear(
        game.cost,
        A_ub=-game.W,
        b_ub=-game.mu,
        bounds=np.column_stack([np.zeros(game.k), game.caps]),
        solver=solver,
        what="the program of the cheapest plan",
        infeasible="no plan within the caps satisfies everybody; raise the caps",
    )
    assert solved.upper_duals is not None  # every solved linear program has them
    theta = lift(game, np.clip(solved.point, 0.0, game.caps))
    dual = np.maximum(-solved.upper_duals, 0.0)
    lower = dual_bound(game, dual)
    facts = {"dual": dual, "lower_bound": lower, "gap": game.total(theta) - lower}
    return allocation(game, theta, "optimal", facts | {"method": solver.method})


def dual_bound(game: LinearGame, y: FloatArray) -> float:
    """Return the lower bound on every feasible total that weights ``y >= 0`` prove.

    ``mu'y`` after scaling y to satisfy ``W'y <= cost``; with caps, the excess is paid for.
    """
    load = game.W.T @ y
    if np.isfinite(game.caps).all():
        return float(game.mu @ y - np.maximum(load - game.cost, 0.0) @ game.caps)
    positive = load > 0
    scale = float((game.cost[positive] / load[positive]).min(initial=1.0))
    return float(game.mu @ y) * min(1.0, scale)


def lift(game: LinearGame, theta: FloatArray) -> FloatArray:
    """Scale up by the solver's last rounding error, so that every target is truly met."""
    u = game._utilities(theta[None, :])[0]
    positive = (game.mu > 0) & (u > 0)
    factor = float((game.mu[positive] / u[positive]).max(initial=1.0))
    return np.minimum(theta * max(1.0, factor), game.caps)
