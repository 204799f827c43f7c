"""Cheapest and dearest stable plan of any linear game, directed ones included, by a MILP.

Every stable plan lies below the stand-alone contributions, which gives valid big-M constants.
Source: Proposition 4.C, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse

from counterplay.contribution.audit import Allocation, allocation, natural_residual
from counterplay.contribution.linear import LinearGame, as_linear_game
from counterplay.contribution.stable_linear import NO_STABLE_PLAN
from counterplay.core.arguments import checked
from counterplay.core.programs import minimize_integer, minimize_linear
from counterplay.core.validation import BoolArray, FloatArray, check_choice
from counterplay.errors import InfeasibleError


@checked
def stable_linear_milp(
    W: Any,
    mu: ArrayLike | None = None,
    sense: Literal[1, -1] = 1,
    *,
    time_limit: float | None = None,
) -> Allocation:
    """Return the cheapest (``sense=-1``: dearest) stable plan of any linear game.

    Needs neither symmetry nor definiteness; practical up to about 50 parties.

    Parameters
    ----------
    W:
        A :class:`LinearGame`, or its matrix.
    mu:
        Targets, if ``W`` is a matrix.
    sense:
        1 for the least, -1 for the largest total.
    time_limit:
        Seconds; the best plan found so far is returned with its bound.

    Returns
    -------
    Allocation
        The certificate holds the proven ``bound`` on the total and the natural ``residual``.

    Notes
    -----
    A stable plan exists for every linear game (Theorem 4.2), unless caps are too tight.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Thm. 1.

    Examples
    --------
    >>> from counterplay.contribution import instances
    >>> game = instances.indefinite()  # equal targets, yet stable totals 1 and 2
    >>> [round(stable_linear_milp(game, sense=s).total, 6) for s in (1, -1)]
    [1.0, 2.0]
    """
    game = as_linear_game(W, mu)
    check_choice(sense, "sense", (1, -1))
    k, box = game.k, game.box
    matrix = sparse.csr_array(game.W)
    big = np.maximum(0.0, matrix @ game.standalone() - game.mu)
    eye, zero = sparse.identity(k), sparse.csr_array((k, k))
    rows = [
        sparse.hstack([eye, -sparse.diags(box)]),  # idle parties bring nothing
        sparse.hstack([matrix, zero]),  # everybody is satisfied
        sparse.hstack([matrix, sparse.diags(big)]),  # contributors exactly
    ]
    solved = minimize_integer(
        np.concatenate([sense * game.cost, np.zeros(k)]),
        rows=sparse.vstack(rows),
        low=np.concatenate([np.full(k, -np.inf), game.mu, np.full(k, -np.inf)]),
        high=np.concatenate([np.zeros(k), np.full(k, np.inf), game.mu + big]),
        integers=np.repeat([0, 1], k),
        bounds=(np.zeros(2 * k), np.concatenate([box, np.ones(k)])),
        time_limit=time_limit,
        gap=0.0,
        what="the program of the stable plan",
        allow=("limit", "infeasible"),
    )
    if solved.status == "infeasible":
        raise InfeasibleError(NO_STABLE_PLAN)
    theta = _on_support(game, solved.point[:k], solved.point[k:] > 0.5, sense)
    assert solved.bound is not None  # mixed-integer programs have one
    bound = sense * solved.bound
    total = game.total(theta)
    certificate = {
        "bound": bound,
        "proved": bool(abs(total - bound) <= 1e-6 * max(1.0, total)),
        "residual": natural_residual(game, theta),
    }
    return allocation(game, theta, "stable", certificate)


def _on_support(game: LinearGame, rough: FloatArray, active: BoolArray, sense: int) -> FloatArray:
    """Re-solve with the support fixed, so that the plan is exact rather than MILP-accurate."""
    rough = np.clip(rough, 0.0, None)
    support = active & (rough > 1e-7)
    dense = game.dense()
    candidates = [np.where(support, rough, 0.0)]
    index = np.flatnonzero(support)
    if index.size:
        block = dense[np.ix_(index, index)]
        solved = np.zeros(game.k)
        solved[index] = linalg.lstsq(block, game.mu[index], check_finite=False)[0]
        candidates.append(solved)
        rest = np.flatnonzero(~support)
        refined = minimize_linear(
            sense * game.cost[index],
            A_ub=-dense[np.ix_(rest, index)] if rest.size else None,
            b_ub=-game.mu[rest] if rest.size else None,
            A_eq=block,
            b_eq=game.mu[index],
            bounds=np.column_stack([np.zeros(index.size), game.box[index]]),
            allow=("infeasible",),
        )
        if refined.x is not None:
            vertex = np.zeros(game.k)
            vertex[index] = refined.x
            candidates.insert(0, vertex)
    scored = [(natural_residual(game, c), c) for c in candidates if (c >= 0).all()]
    exact = [c for residual, c in scored if residual <= 1e-9]
    if exact:
        return min(exact, key=lambda c: sense * game.total(c))
    return min(scored, key=lambda pair: pair[0])[1]
