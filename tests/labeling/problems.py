"""Random campaigns and embeddings shared by the tests."""

from __future__ import annotations

import numpy as np

from counterplay.labeling import PoolProblem


def random_problem(rng: np.random.Generator, *, k: int = 2, skew: int = 9) -> PoolProblem:
    """A small exact problem with overlapping pools and skewed integer weights."""
    m = int(rng.integers(k, k + 5))
    n = int(rng.integers(2, min(2**m, 10) + 1))
    labels = rng.integers(0, 2, size=(n, m))
    weights = rng.integers(1, skew + 1, size=n)
    owners = rng.integers(0, k, size=m)
    owners[:k] = rng.permutation(k)
    agents = [np.flatnonzero((owners == i) | (rng.random(m) < 0.2)) for i in range(k)]
    return PoolProblem.from_labelings(labels, weights.tolist(), agents, exact=True)


def embedded(problem: PoolProblem, rng: np.random.Generator) -> PoolProblem:
    """The same problem with permuted points, flipped columns and an independent extra agent."""
    order = rng.permutation(problem.m)
    flips = rng.integers(0, 2, size=problem.m, dtype=np.uint8)
    H = (problem.H ^ flips)[:, order]
    position = np.argsort(order)
    doubled = np.vstack([np.hstack([H, np.full((problem.N, 1), y)]) for y in (0, 1)])
    agents = [position[pool] for pool in problem.agents] + [np.array([problem.m])]
    weights = [int(w) for w in problem.weights] * 2
    return PoolProblem.from_labelings(doubled, weights, agents, exact=True)
