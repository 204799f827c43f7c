"""Cheapest envy-free plan of a linear game: branch and bound, or a mixed-integer program.

Envy-freeness is an open condition: for every pair either i carries no more than j, or the swap
leaves i *strictly* below its target. Relaxing "strictly" returns plans that are not envy-free.
Source: Proposition 4.D (the chapter gives no algorithm), see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from counterplay.contribution.audit import allocation, envy_report
from counterplay.contribution.envy_free_branch import EnvyFreeSearch
from counterplay.contribution.envy_free_patterns import (
    order_rows,
    pattern,
    pattern_program,
    settled_plan,
    swap_rows,
)
from counterplay.contribution.equal import smallest_common_level
from counterplay.contribution.linear import LinearGame, as_linear_game
from counterplay.contribution.reports import Allocation
from counterplay.contribution.stable_linear import optimal_stable_linear
from counterplay.core.validation import FloatArray, check_choice, check_real
from counterplay.errors import ConvergenceError, InfeasibleError, InvalidInputError

MIN_EPS = 1e-5


def optimal_envy_free_linear(
    W: Any,
    mu: ArrayLike | None = None,
    eps: float = 1e-4,
    *,
    method: Literal["branch", "milp"] = "branch",
    time_limit: float | None = None,
) -> Allocation:
    """Return the cheapest plan in which nobody would rather carry a lighter load.

    Exact in seconds up to about 30 parties; above, give a ``time_limit`` and read the proven gap.

    Parameters
    ----------
    W, mu:
        A :class:`LinearGame`, or matrix and targets.
    eps:
        How far below its target a swap must leave an otherwise envious party; at least 1e-5,
        because zero would turn the strict condition into a weak one and give wrong plans.
    method:
        ``"branch"`` splits on envious pairs; ``"milp"`` is one mixed-integer program with a binary
        variable per pair, practical up to about 12 parties.
    time_limit:
        Seconds; then the best plan so far is returned.

    Returns
    -------
    Allocation
        Checked with ``envy_report``. The certificate holds ``bound``: no plan that is envy-free
        with margin ``eps`` costs less; ``proved`` says whether the plan meets it.

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
    >>> round(optimal_envy_free_linear(instances.flower(5).linear()).total, 3)
    13.0
    """
    game = as_linear_game(W, mu)
    check_real(eps, "eps", low=0.0)
    check_choice(method, "method", ("branch", "milp"))
    if eps < MIN_EPS:
        raise InvalidInputError(
            f"eps must be at least {MIN_EPS:g}, got {eps:g}: without a strict margin the program "
            "returns plans that are not envy-free"
        )
    if (game.cost <= 0).any():
        raise InvalidInputError("the cheapest envy-free plan needs positive prices")
    theta, facts = (_branch if method == "branch" else _milp)(game, eps, time_limit)
    total = game.total(theta)
    facts["proved"] = bool(total <= facts["bound"] + 1e-4 * max(1.0, total))
    return allocation(game, theta, "envy-free", {"eps": eps, "method": method} | facts)


def _branch(
    game: LinearGame, eps: float, time_limit: float | None
) -> tuple[FloatArray, dict[str, Any]]:
    plans = [improve_envy_free(game, theta, eps) for theta in _starts(game)]
    start = min(plans, key=lambda plan: plan.total).theta if plans else None
    result = EnvyFreeSearch(game, eps, start).run(time_limit)
    if result.theta is None:
        if np.isfinite(result.bound):
            raise ConvergenceError("no envy-free plan was found in time; raise time_limit")
        raise InfeasibleError("no envy-free plan respects the caps; raise them")
    return result.theta, {"bound": result.bound, "nodes": result.nodes}


def _starts(game: LinearGame) -> list[FloatArray]:
    """Envy-free plans that are easy to find: equal loads, and a stable plan if it is one."""
    plans = [np.full(game.k, smallest_common_level(game))]
    if game.is_psd:
        with suppress(InfeasibleError):  # no stable plan may respect the caps
            plans.append(np.asarray(optimal_stable_linear(game).theta))
    inside = [p for p in plans if game.upper is None or (p <= game.upper).all()]
    return [plan for plan in inside if envy_report(game, plan).is_envy_free]


def _milp(
    game: LinearGame, eps: float, time_limit: float | None
) -> tuple[FloatArray, dict[str, Any]]:
    result, k = _solve(game, eps, time_limit)
    if result.status == 2:
        raise InfeasibleError("no envy-free plan respects the caps; raise them")
    if result.x is None:
        raise ConvergenceError(f"the mixed-integer program was not solved: {result.message}")
    theta = settled_plan(game, result.x[:k], eps)
    if theta is None:
        raise ConvergenceError(
            "the plan found by the mixed-integer program is not envy-free to tolerance; raise eps"
        )
    return theta, {"bound": float(result.mip_dual_bound), "message": result.message}


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
        candidate = pattern_program(game, *pattern(game, best, eps), eps)
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
    order = sparse.hstack([order_rows(pairs, k), spread * sparse.identity(n)])
    swap = sparse.hstack([swap_rows(W, pairs), -sparse.diags(big[pairs[:, 0]])])
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
