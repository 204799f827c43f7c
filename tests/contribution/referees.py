"""Second, slower ways to the same answers: what the solvers are compared with."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from counterplay.contribution import LinearGame
from counterplay.contribution.envy_free import order_rows, settled_plan, swap_rows
from counterplay.contribution.equal import smallest_common_level
from counterplay.core.programs import minimize_integer
from counterplay.core.validation import FloatArray


def envy_free_milp(game: LinearGame, eps: float = 1e-4) -> tuple[FloatArray, float]:
    """Cheapest envy-free plan and its bound by one program with a binary variable per pair."""
    k, W = game.k, game.dense()
    budget = smallest_common_level(game) * float(game.cost.sum())
    spread = budget / float(game.cost.min())
    big = np.maximum(0.0, spread * W.max(axis=1) - game.mu + eps)
    pairs = np.array([(i, j) for i in range(k) for j in range(k) if i != j]).reshape(-1, 2)
    n = len(pairs)
    cost = np.concatenate([game.cost, np.zeros(n)])
    blocks = [
        sparse.hstack([sparse.csr_array(W), sparse.csr_array((k, n))]),
        sparse.hstack([order_rows(pairs, k), spread * sparse.identity(n)]),
        sparse.hstack([swap_rows(W, pairs), -sparse.diags(big[pairs[:, 0]])]),
    ]
    low = np.concatenate([game.mu, np.full(2 * n, -np.inf)])
    high = np.concatenate([np.full(k, np.inf), np.full(n, spread), (game.mu - eps)[pairs[:, 0]]])
    if game.upper is None:  # then the equal plan is possible, and nothing dearer is wanted
        blocks.append(sparse.csr_array(cost[None, :]))
        low, high = np.append(low, -np.inf), np.append(high, budget * (1 + 1e-9))
    top = np.concatenate([np.minimum(game.caps, spread), np.ones(n)])
    solved = minimize_integer(
        cost,
        rows=sparse.vstack(blocks),
        low=low,
        high=high,
        integers=np.repeat([0, 1], [k, n]),
        bounds=(np.zeros(k + n), top),
        gap=1e-9,
        what="the program of the cheapest envy-free plan",
    )
    theta = settled_plan(game, solved.point[:k], eps)
    assert theta is not None
    assert solved.bound is not None
    return theta, solved.bound
