"""Stable plans of symmetric linear games: best responses descend a convex potential.

For symmetric ``W`` the stable plans are the minimisers of ``1/2 theta'W theta - mu'theta`` over
``theta >= 0``, and one best response is one exact coordinate minimisation. On the set of minimisers
``W theta`` is constant, so the cheapest (or most expensive) stable plan is one linear program away.
CP 1 of the chapter, a convex program without interior, is kept as the reference.
Source: Theorem 4.5 and Proposition 4.B, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse

from counterplay.contribution.audit import Allocation, allocation, natural_residual
from counterplay.contribution.linear import LinearGame, as_linear_game
from counterplay.core.arguments import checked
from counterplay.core.programs import minimize_linear
from counterplay.core.validation import BoolArray, FloatArray, check_choice
from counterplay.errors import (
    ConvergenceError,
    InfeasibleError,
    InvalidInputError,
    MissingDependencyError,
)

SLACK_TOL = 1e-8
NO_STABLE_PLAN = "no stable plan respects the caps; raise them or lower the targets"


@checked
def stable_linear_dynamics(
    W: Any,
    mu: ArrayLike | None = None,
    theta0: ArrayLike | None = None,
    tol: float = 1e-12,
    *,
    max_sweeps: int = 100_000,
) -> Allocation:
    """Find one stable plan by letting the parties best-respond in turn, from ``theta0``.

    The default solver for a stable plan of a symmetric game: seconds for thousands of parties.

    Parameters
    ----------
    W:
        A :class:`LinearGame`, or its matrix; symmetric positive semidefinite.
    mu:
        Targets, if ``W`` is a matrix.
    theta0:
        Start, zero by default. Different starts may end in different stable plans.
    tol:
        Stop when no contribution moves more than this (times the largest stand-alone level) in
        a sweep.
    max_sweeps:
        Raise :class:`~counterplay.errors.ConvergenceError` after this many sweeps.

    Notes
    -----
    The potential decreases with every move and is bounded below on the orthant, so the sweeps
    converge (Proposition 4.B).

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Thm. 5.

    Examples
    --------
    >>> from counterplay.contribution import instances
    >>> plan = stable_linear_dynamics(instances.flower(10).linear())
    >>> round(plan.total, 6), float(plan.theta[0])
    (52.631579, 0.0)
    """
    game = _require_psd(as_linear_game(W, mu), "stable_linear_dynamics")
    start = np.zeros(game.k) if theta0 is None else game._vector(theta0).copy()
    theta, sweeps, change = _descend(game, start, tol, max_sweeps)
    if change >= tol * max(1.0, float(game.standalone().max())):
        raise ConvergenceError(
            f"best responses still move by {change:.2g} after {sweeps} sweeps; "
            "raise max_sweeps or tol"
        )
    theta = _polish(game, theta)
    _require_caps(game, theta, "the stable plan that was found breaks the caps")
    residual = natural_residual(game, theta)
    return allocation(game, theta, "stable", {"sweeps": sweeps, "residual": residual})


@checked
def optimal_stable_linear(
    W: Any, mu: ArrayLike | None = None, *, sense: Literal[1, -1] = 1, tol: float = 1e-12
) -> Allocation:
    """Return the cheapest stable plan of a symmetric game, exactly (``sense=-1``: the dearest).

    What CP 1 of the chapter asks for, without its numerical trouble: first one stable plan by best
    responses, then a linear program over the polyhedron of all stable plans.

    Parameters
    ----------
    W:
        A :class:`LinearGame`, or its matrix; symmetric positive semidefinite.
    mu:
        Targets, if ``W`` is a matrix.
    sense:
        ``1`` for the least total (price of stability), ``-1`` for the largest (price of anarchy).
    tol:
        Accuracy of the best responses, see :func:`stable_linear_dynamics`.

    Returns
    -------
    Allocation
        The certificate holds the natural ``residual`` (zero for a stable plan) and
        ``face_dimension``: the dimension of the set of all stable plans.

    Notes
    -----
    With equal targets (and prices) all stable plans cost the same, and no program is solved.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), CP 1 and Thm. 5.

    Examples
    --------
    >>> from counterplay.contribution import instances
    >>> game = instances.unequal_targets()  # two stable plans with different totals
    >>> round(optimal_stable_linear(game).total, 6), optimal_stable_linear(game, sense=-1).total
    (1.414214, 2.0)
    """
    game = _require_psd(as_linear_game(W, mu), "optimal_stable_linear")
    check_choice(sense, "sense", (1, -1))
    free = game if game.upper is None else game.with_upper(None)
    first = stable_linear_dynamics(free, tol=tol)
    face = _stable_face(free, first.theta)
    theta = first.theta
    capped = game.upper is not None
    if face.nullity > 0 and (capped or not (game.uniform_mu and game.uniform_cost)):
        theta = _best_on_face(game, face, sense)
    _require_caps(game, theta, "no stable plan respects the caps")
    certificate = {
        "residual": natural_residual(game, theta),
        "face_dimension": _face_dimension(game, face),
        "sweeps": first.certificate["sweeps"],
        "proved": True,
    }
    return allocation(game, theta, "stable", certificate)


@checked
def optimal_stable_linear_cp(W: Any, mu: ArrayLike | None = None) -> Allocation:
    """Return the cheapest stable plan of a symmetric game through the convex program CP 1.

    ``min cost'theta`` s.t. ``W theta >= mu``, ``theta >= 0``, ``theta'W theta - mu'theta <= 0``.
    The program as printed, without interior; needs the extra ``convex``. Use
    :func:`optimal_stable_linear`, which is faster and more exact, unless you want the program.

    Parameters
    ----------
    W:
        A :class:`LinearGame`, or its matrix; symmetric positive semidefinite (otherwise the program
        is not convex and is refused).
    mu:
        Targets, if ``W`` is a matrix.

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


@dataclass(frozen=True)
class _Face:
    """The set of all stable plans: ``theta >= 0``, ``W theta = u``, zero outside ``tight``."""

    tight: BoolArray
    utilities: FloatArray
    theta: FloatArray
    nullity: int


def _descend(
    game: LinearGame, theta: FloatArray, tol: float, limit: int
) -> tuple[FloatArray, int, float]:
    u = game._utilities(theta[None, :])[0]
    scaled = tol * max(1.0, float(game.standalone().max()))
    diag, mu = np.asarray(game.diagonal), np.asarray(game.mu)
    from counterplay.contribution import _kernels

    if game.is_sparse:
        columns = sparse.csc_array(game.W)
        sweeps, change = _kernels.sparse_linear_sweeps(
            columns.indptr.astype(np.int64),
            columns.indices.astype(np.int64),
            columns.data,
            diag,
            mu,
            theta,
            u,
            scaled,
            limit,
        )
    else:
        columns = np.ascontiguousarray(game.W.T)
        sweeps, change = _kernels.linear_sweeps(columns, diag, mu, theta, u, scaled, limit)
    return theta, int(sweeps), float(change)


def _polish(game: LinearGame, theta: FloatArray) -> FloatArray:
    """Solve the equations of the support exactly; keep the result only if it is better."""
    support = theta > 1e-9 * max(1.0, float(theta.max(initial=0.0)))
    if not support.any() or support.sum() > 4000:
        return theta
    block = game.W[support][:, support]
    dense = block.toarray() if game.is_sparse else block
    missing = game.mu[support] - (dense @ theta[support])
    step = _solve_psd(dense, missing)
    if step is None:
        return theta
    candidate = np.zeros(game.k)
    candidate[support] = theta[support] + step
    if (candidate < 0).any():
        return theta
    better = natural_residual(game, candidate) < natural_residual(game, theta)
    return candidate if better else theta


def _solve_psd(block: FloatArray, rhs: FloatArray) -> FloatArray | None:
    """Solve a positive semidefinite system; least squares if singular, None if that is too big."""
    try:
        return np.asarray(linalg.cho_solve(linalg.cho_factor(block, check_finite=False), rhs))
    except linalg.LinAlgError:
        if len(rhs) > 1000:
            return None
        return np.asarray(linalg.lstsq(block, rhs, check_finite=False)[0])


def _stable_face(game: LinearGame, theta: FloatArray) -> _Face:
    u = game._utilities(theta[None, :])[0]
    scale = max(1.0, float(abs(game.mu).max()))
    tight = u - game.mu <= SLACK_TOL * scale
    cleaned = np.where(tight, theta, 0.0)
    return _Face(tight, game._utilities(cleaned[None, :])[0], cleaned, _nullity(game, tight))


def _nullity(game: LinearGame, index: BoolArray) -> int:
    """Return the dimension of the kernel of ``W`` restricted to ``index`` (W is PSD)."""
    if not index.any():
        return 0
    block = game.W[index][:, index]
    dense = block.toarray() if game.is_sparse else np.array(block)
    try:
        factor = linalg.cholesky(dense, lower=True, check_finite=False)
        if factor.diagonal().min() ** 2 > 1e-9 * dense.diagonal().max():
            return 0
    except linalg.LinAlgError:
        pass
    values = linalg.eigvalsh(dense, check_finite=False)
    return int((values <= 1e-10 * values[-1]).sum())


def _best_on_face(game: LinearGame, face: _Face, sense: int) -> FloatArray:
    index = np.flatnonzero(face.tight)
    A = game.W[:, index]
    solved = minimize_linear(
        sense * game.cost[index],
        A_eq=A,
        b_eq=face.utilities,
        bounds=np.column_stack([np.zeros(index.size), game.caps[index]]),
        what="the program over all stable plans",
        infeasible=NO_STABLE_PLAN,
        allow=() if game.upper is not None else ("infeasible",),
    )
    if solved.x is None:  # no caps: then only rounding errors make it infeasible
        return face.theta
    theta = np.zeros(game.k)
    theta[index] = solved.x
    return _refine_vertex(game, face, theta)


def _refine_vertex(game: LinearGame, face: _Face, theta: FloatArray) -> FloatArray:
    """Recompute a vertex of the face from its support: residual at rounding level."""
    at_cap = theta >= game.caps - 1e-9
    support = (theta > 1e-9) & ~at_cap
    candidate = np.where(at_cap, game.caps, 0.0)
    block = game.W[:, np.flatnonzero(support)]
    dense = block.toarray() if game.is_sparse else block
    rest = face.utilities - game._utilities(candidate[None, :])[0]
    solved = linalg.lstsq(dense, rest, check_finite=False)[0]
    if (solved < -1e-9).any():
        return theta
    candidate[support] = np.maximum(solved, 0.0)
    if natural_residual(game, candidate) <= natural_residual(game, np.maximum(theta, 0.0)):
        return candidate
    return np.maximum(theta, 0.0)


def _face_dimension(game: LinearGame, face: _Face) -> int:
    """Dimension of the stable set: drop coordinates that are zero in every stable plan."""
    if face.nullity == 0:
        return 0
    index = np.flatnonzero(face.tight)
    n = index.size
    block = game.W[:, index]
    dense = block.toarray() if game.is_sparse else block
    # maximise sum of s with 0 <= s <= min(theta, small): s_j > 0 iff j can be positive
    small = 1e-4 * max(1.0, float(face.theta.max()))
    A_eq = np.hstack([dense, np.zeros((game.k, n))])
    A_ub = np.hstack([-np.eye(n), np.eye(n)])
    solved = minimize_linear(
        np.concatenate([np.zeros(n), -np.ones(n)]),
        A_ub=A_ub,
        b_ub=np.zeros(n),
        A_eq=A_eq,
        b_eq=face.utilities,
        bounds=[(0, None)] * n + [(0, small)] * n,
        allow=("infeasible",),
    )
    if solved.x is None:  # rounding errors: the kernel is at least as large
        return face.nullity
    positive = np.zeros(game.k, dtype=bool)
    positive[index] = solved.x[n:] > small / 10
    return _nullity(game, positive)


def _require_psd(game: LinearGame, name: str) -> LinearGame:
    if not game.is_symmetric:
        raise InvalidInputError(
            f"{name} needs a symmetric W; use stable_linear_milp for a directed game"
        )
    if not game.is_psd:
        raise InvalidInputError(
            f"{name} needs a positive semidefinite W (smallest eigenvalue {game.min_eig:.4g}); "
            "use stable_linear_milp"
        )
    return game


def _require_caps(game: LinearGame, theta: FloatArray, what: str) -> None:
    i = int(np.argmax(theta - game.caps))
    if theta[i] > game.caps[i] + 1e-9:
        raise InfeasibleError(
            f"{what}: {game.party(i)} needs {theta[i]:g} but may bring {game.caps[i]:g}"
        )
