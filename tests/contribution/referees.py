"""Second, slower ways to the same answers: what the solvers are compared with."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from counterplay.contribution import LinearGame
from counterplay.contribution.envy_free import order_rows, settled_plan, swap_rows
from counterplay.contribution.equal import smallest_common_level
from counterplay.core.programs import minimize_integer
from counterplay.core.validation import FloatArray

# s, L, ceil, core-only real, petal theta EQ, EQ total, EF total, EQ/core-only, EF/core-only:
# the table of Proposition 4.A
FLOWER = [
    (2, 2.4094, 3, 2.4444, 0.70850, 2.8340, 2.7755, 1.159, 1.135),
    (3, 3.4425, 4, 3.4570, 0.62548, 5.6293, 5.3000, 1.628, 1.533),
    (4, 4.4575, 5, 4.4655, 0.58960, 9.4336, 8.8483, 2.113, 1.982),
    (5, 5.4663, 6, 5.4713, 0.56965, 14.2413, 13.4034, 2.603, 2.45),
    (7, 7.4760, 8, 7.4786, 0.54819, 26.8611, 25.5207, 3.592, 3.413),
    (10, 10.4833, 11, 10.4845, 0.53295, 53.2948, 51.2031, 5.083, 4.884),
    (16, 16.4896, 17, 16.4901, 0.52018, 133.1666, 129.5739, 8.076, 7.858),
    (32, 32.4948, 33, 32.4949, 0.50993, 522.1640, 514.5707, 16.069, 15.835),
]


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
