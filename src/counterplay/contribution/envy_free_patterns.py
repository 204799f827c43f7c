"""Who is ordered and whose swap is unattractive: within such a pattern the best plan is an LP.

For each pair a pattern demands that i carries no more than j, or that the swap leaves i below its
target by a margin.
Source: Proposition 4.D, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from counterplay.contribution.audit import envy_report
from counterplay.contribution.equal import smallest_common_level
from counterplay.contribution.game import Tolerances
from counterplay.contribution.linear import LinearGame
from counterplay.contribution.social_optimum import _lift
from counterplay.core.validation import BoolArray, FloatArray

TIE = 1e-7
"""Contributions that differ by less are equal."""


def settled_plan(game: LinearGame, rough: FloatArray, eps: float) -> FloatArray | None:
    """Fix the pattern of a rough solution and solve it to full accuracy; None if that fails."""
    theta = np.where(rough < TIE, 0.0, rough)
    refined = pattern_program(game, *pattern(game, theta, eps / 2), eps / 2)
    candidates = [] if refined is None else [refined]
    candidates += [_lift(game, snap(theta)), np.full(game.k, smallest_common_level(game))]
    for candidate in candidates:
        near = game.total(candidate) <= game.total(rough) + 1e-4 * max(1.0, game.total(rough))
        if near and envy_report(game, candidate, Tolerances()).is_envy_free:
            return candidate
    return None


def pattern(game: LinearGame, theta: FloatArray, eps: float) -> tuple[BoolArray, BoolArray]:
    """Return pairs that must keep their order and pairs whose swap must stay unattractive."""
    margin = game.swap_utilities(theta) - game.mu[:, None]
    heavier = theta[:, None] > theta[None, :] + TIE
    unattractive = margin <= -eps
    strict = heavier | unattractive
    np.fill_diagonal(strict, False)
    order = ~strict
    np.fill_diagonal(order, False)
    return order, strict


def pattern_program(
    game: LinearGame, order: BoolArray, strict: BoolArray, eps: float
) -> FloatArray | None:
    """Return the cheapest plan of a pattern, or None if the pattern is impossible."""
    W, k = game.dense(), game.k
    keep, apart = np.argwhere(order), np.argwhere(strict)
    A = sparse.vstack([-sparse.csr_array(W), order_rows(keep, k), swap_rows(W, apart)])
    b = np.concatenate([-game.mu, np.zeros(len(keep)), (game.mu - eps)[apart[:, 0]]])
    upper = np.full(k, np.inf) if game.upper is None else game.upper
    bounds = np.column_stack([np.zeros(k), upper])
    result = linprog(game.cost, A_ub=A, b_ub=b, bounds=bounds, method="highs")
    return None if result.status != 0 else _lift(game, snap(np.maximum(result.x, 0.0)))


def order_rows(pairs: np.ndarray, k: int) -> Any:
    """Rows of ``theta_i - theta_j``."""
    n = len(pairs)
    rows = np.repeat(np.arange(n), 2)
    values = np.tile([1.0, -1.0], n)
    return sparse.csr_array((values, (rows, pairs.reshape(-1))), shape=(n, k))


def swap_rows(W: FloatArray, pairs: np.ndarray) -> Any:
    """Rows of ``u_i(theta swapped i, j)`` as a linear function of theta."""
    n, k = len(pairs), W.shape[0]
    rows = W[pairs[:, 0]].copy() if n else np.zeros((0, k))
    effect = W[pairs[:, 0], pairs[:, 1]] - W[pairs[:, 0], pairs[:, 0]]
    rows[np.arange(n), pairs[:, 0]] += effect
    rows[np.arange(n), pairs[:, 1]] -= effect
    return sparse.csr_array(rows)


def snap(theta: FloatArray) -> FloatArray:
    """Make contributions that differ by rounding error equal (to the largest of them)."""
    order = np.argsort(theta)
    values = theta[order]
    group = np.concatenate([[0], np.cumsum(np.diff(values) > TIE)])
    top = np.zeros(group[-1] + 1)
    np.maximum.at(top, group, values)
    snapped = np.empty_like(theta)
    snapped[order] = top[group]
    return snapped
