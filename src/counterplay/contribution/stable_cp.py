"""CP 1 of the chapter, solved as printed: a convex program without interior.

Kept as the reference for the two-stage solver, which is faster and more exact.
Source: Theorem 4.5, see docs/theory/04-contribution.md. Needs the extra ``convex``.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.contribution.audit import allocation, natural_residual
from counterplay.contribution.linear import as_linear_game
from counterplay.contribution.reports import Allocation
from counterplay.contribution.stable_linear import _require_psd
from counterplay.errors import ConvergenceError, MissingDependencyError


def optimal_stable_linear_cp(W: Any, mu: ArrayLike | None = None) -> Allocation:
    """Return the cheapest stable plan of a symmetric game through the convex program CP 1.

    ``min cost'theta`` s.t. ``W theta >= mu``, ``theta >= 0``, ``theta'W theta - mu'theta <= 0``.
    Use :func:`optimal_stable_linear` instead unless you want the program itself.

    Parameters
    ----------
    W, mu:
        A :class:`LinearGame`, or matrix and targets; symmetric positive semidefinite (otherwise
        the program is not convex and is refused).

    Returns
    -------
    Allocation
        The certificate holds the natural ``residual``, about 1e-8: the program has no strictly
        feasible point, so interior-point accuracy is limited (the solver often says so).

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), CP 1.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("cvxpy")
    >>> from counterplay.contribution import instances
    >>> round(optimal_stable_linear_cp(instances.flower(3).linear()).total, 4)
    5.4
    """
    try:
        import cvxpy
    except ImportError:
        raise MissingDependencyError.for_extra("cvxpy", "convex") from None
    game = _require_psd(as_linear_game(W, mu), "optimal_stable_linear_cp")
    cp: Any = cvxpy  # its public functions carry no types
    matrix = game.dense()
    theta = cp.Variable(game.k, nonneg=True)
    constraints = [
        matrix @ theta >= game.mu,
        cp.quad_form(theta, cp.psd_wrap(matrix)) - game.mu @ theta <= 0,
    ]
    if game.upper is not None:
        constraints.append(theta <= game.upper)
    problem = cp.Problem(cp.Minimize(game.cost @ theta), constraints)
    with warnings.catch_warnings():  # accuracy is reported as the residual instead
        warnings.simplefilter("ignore", UserWarning)
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    if theta.value is None or problem.status not in ("optimal", "optimal_inaccurate"):
        raise ConvergenceError(
            f"CLARABEL stopped with status {problem.status}; use optimal_stable_linear"
        )
    plan = np.maximum(theta.value, 0.0)
    residual = natural_residual(game, plan)
    return allocation(game, plan, "stable", {"residual": residual, "status": problem.status})
