"""Cheapest envy-free plan of a linear game: a mixed-integer program with strict inequalities.

Envy-freeness is an open condition: for every pair either i carries no more than j, or the swap
leaves i *strictly* below its target. Relaxing "strictly" returns plans that are not envy-free.
Source: spec 04 section 3.8 (the chapter gives no algorithm).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from counterplay.contribution.audit import allocation, envy_report
from counterplay.contribution.equal import smallest_common_level
from counterplay.contribution.game import Tolerances
from counterplay.contribution.linear import LinearGame, as_linear_game
from counterplay.contribution.reports import Allocation
from counterplay.contribution.social_optimum import _lift
from counterplay.core.validation import BoolArray, FloatArray, check_real
from counterplay.errors import ConvergenceError, InfeasibleError, InvalidInputError

MIN_EPS = 1e-5
_TIE = 1e-7


def optimal_envy_free_linear(
    W: Any, mu: ArrayLike | None = None, eps: float = 1e-4, *, time_limit: float | None = None
) -> Allocation:
    """Return the cheapest plan in which nobody would rather carry a lighter load.

    Practical up to about 12 parties; use :func:`improve_envy_free` above.

    Parameters
    ----------
    W, mu:
        A :class:`LinearGame`, or matrix and targets.
    eps:
        How far below its target a swap must leave an otherwise envious party; at least 1e-5,
        because zero would turn the strict condition into a weak one and give wrong plans.
    time_limit:
        Seconds; then the best plan so far is returned.

    Returns
    -------
    Allocation
        Checked with ``envy_report``. The certificate holds ``bound``: no plan that is envy-free
        with margin ``eps`` costs less.

    Notes
    -----
    ``OPT <= EF <= k t`` with the equal plan ``t``, and ``EF <= EQ`` if ``W_ij < W_ii``. Caps are
    respected, but a swap that would break a cap still counts as possible.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Sec. 3 (envy-free equilibria).

    Examples
    --------
    >>> from counterplay.contribution import instances
    >>> round(optimal_envy_free_linear(instances.flower(2).linear()).total, 3)
    2.5
    """
    game = as_linear_game(W, mu)
    check_real(eps, "eps", low=0.0)
    if eps < MIN_EPS:
        raise InvalidInputError(
            f"eps must be at least {MIN_EPS:g}, got {eps:g}: without a strict margin the program "
            "returns plans that are not envy-free"
        )
    if (game.cost <= 0).any():
        raise InvalidInputError("the cheapest envy-free plan needs positive prices")
    result, k = _solve(game, eps, time_limit)
    if result.status == 2:
        raise InfeasibleError("no envy-free plan respects the caps; raise them")
    if result.x is None:
        raise ConvergenceError(f"the mixed-integer program was not solved: {result.message}")
    theta = _exact(game, result.x[:k], eps)
    certificate = {"eps": eps, "bound": float(result.mip_dual_bound), "message": result.message}
    return allocation(game, theta, "envy-free", certificate)


def improve_envy_free(game: LinearGame, theta: ArrayLike, eps: float = 1e-4) -> Allocation:
    """Lower the total of an envy-free plan by linear programs that keep it envy-free.

    For each pair the plan either keeps its order or keeps the swap unattractive; within that
    pattern the cheapest plan is a linear program. Repeats until nothing improves. Polynomial, but
    only a local optimum.
    """
    best = game._vector(theta).copy()
    if not envy_report(game, best).is_envy_free:
        raise InvalidInputError("theta must be envy-free; start from equal_allocation(game)")
    rounds = 0
    while rounds < 50:
        rounds += 1
        candidate = _pattern_program(game, *_pattern(game, best, eps), eps)
        if candidate is None or game.total(candidate) > game.total(best) - 1e-9:
            break
        if not envy_report(game, candidate).is_envy_free:
            break
        best = candidate
    return allocation(game, best, "envy-free", {"eps": eps, "rounds": rounds, "local": True})


def _solve(game: LinearGame, eps: float, time_limit: float | None) -> tuple[Any, int]:
    k, W = game.k, game.dense()
    budget = smallest_common_level(game) * float(game.cost.sum())
    spread = budget / float(game.cost.min())
    big = np.maximum(0.0, spread * W.max(axis=1) - game.mu + eps)
    pairs = np.array([(i, j) for i in range(k) for j in range(k) if i != j]).reshape(-1, 2)
    n = len(pairs)
    order = sparse.hstack([_order_rows(pairs, k), spread * sparse.identity(n)])
    swap = sparse.hstack([_swap_rows(W, pairs), -sparse.diags(big[pairs[:, 0]])])
    upper = np.full(k, spread) if game.upper is None else np.minimum(game.upper, spread)
    pad = sparse.csr_array((k, n))
    constraints = [
        LinearConstraint(sparse.hstack([sparse.csr_array(W), pad]), game.mu, np.inf),
        LinearConstraint(order, -np.inf, spread),
        LinearConstraint(swap, -np.inf, (game.mu - eps)[pairs[:, 0]]),
    ]
    if game.upper is None:
        row = sparse.csr_array(np.concatenate([game.cost, np.zeros(n)])[None, :])
        constraints.append(LinearConstraint(row, -np.inf, budget * (1 + 1e-9)))
    options: dict[str, Any] = {"mip_rel_gap": 1e-9}
    if time_limit is not None:
        options["time_limit"] = time_limit
    result = milp(
        np.concatenate([game.cost, np.zeros(n)]),
        constraints=constraints,
        integrality=np.concatenate([np.zeros(k), np.ones(n)]),
        bounds=Bounds(np.zeros(k + n), np.concatenate([upper, np.ones(n)])),
        options=options,
    )
    return result, k


def _exact(game: LinearGame, rough: FloatArray, eps: float) -> FloatArray:
    """Fix the pattern of the MILP solution and solve it to full accuracy; check the result."""
    theta = np.where(rough < _TIE, 0.0, rough)
    refined = _pattern_program(game, *_pattern(game, theta, eps / 2), eps / 2)
    candidates = [] if refined is None else [refined]
    candidates += [_lift(game, _snap(theta)), np.full(game.k, smallest_common_level(game))]
    for candidate in candidates:
        near = game.total(candidate) <= game.total(rough) + 1e-4 * max(1.0, game.total(rough))
        if near and envy_report(game, candidate, Tolerances()).is_envy_free:
            return candidate
    raise ConvergenceError(
        "the plan found by the mixed-integer program is not envy-free to tolerance; raise eps"
    )


def _pattern(game: LinearGame, theta: FloatArray, eps: float) -> tuple[BoolArray, BoolArray]:
    """Return pairs that must keep their order and pairs whose swap must stay unattractive."""
    margin = game.swap_utilities(theta) - game.mu[:, None]
    heavier = theta[:, None] > theta[None, :] + _TIE
    unattractive = margin <= -eps
    strict = heavier | unattractive
    np.fill_diagonal(strict, False)
    order = ~strict
    np.fill_diagonal(order, False)
    return order, strict


def _pattern_program(
    game: LinearGame, order: BoolArray, strict: BoolArray, eps: float
) -> FloatArray | None:
    W, k = game.dense(), game.k
    keep, apart = np.argwhere(order), np.argwhere(strict)
    A = sparse.vstack([-sparse.csr_array(W), _order_rows(keep, k), _swap_rows(W, apart)])
    b = np.concatenate([-game.mu, np.zeros(len(keep)), (game.mu - eps)[apart[:, 0]]])
    upper = np.full(k, np.inf) if game.upper is None else game.upper
    bounds = np.column_stack([np.zeros(k), upper])
    result = linprog(game.cost, A_ub=A, b_ub=b, bounds=bounds, method="highs")
    return None if result.status != 0 else _lift(game, _snap(np.maximum(result.x, 0.0)))


def _order_rows(pairs: np.ndarray, k: int) -> Any:
    n = len(pairs)
    rows = np.repeat(np.arange(n), 2)
    values = np.tile([1.0, -1.0], n)
    return sparse.csr_array((values, (rows, pairs.reshape(-1))), shape=(n, k))


def _swap_rows(W: FloatArray, pairs: np.ndarray) -> Any:
    """Rows of ``u_i(theta swapped i, j)`` as a linear function of theta."""
    n, k = len(pairs), W.shape[0]
    rows = W[pairs[:, 0]].copy() if n else np.zeros((0, k))
    effect = W[pairs[:, 0], pairs[:, 1]] - W[pairs[:, 0], pairs[:, 0]]
    rows[np.arange(n), pairs[:, 0]] += effect
    rows[np.arange(n), pairs[:, 1]] -= effect
    return sparse.csr_array(rows)


def _snap(theta: FloatArray) -> FloatArray:
    """Make contributions that differ by rounding error equal (to the largest of them)."""
    order = np.argsort(theta)
    values = theta[order]
    group = np.concatenate([[0], np.cumsum(np.diff(values) > _TIE)])
    top = np.zeros(group[-1] + 1)
    np.maximum.at(top, group, values)
    snapped = np.empty_like(theta)
    snapped[order] = top[group]
    return snapped
