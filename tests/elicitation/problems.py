"""Problems that several tests use."""

from __future__ import annotations

import numpy as np

from counterplay.elicitation import MultiObjectiveMDP


def front(n: int, k: int, seed: int) -> np.ndarray:
    """Items none of which dominates another."""
    items = np.abs(np.random.default_rng(seed).normal(size=(n, k)))
    return items / np.linalg.norm(items, axis=1, keepdims=True)


def unit(rng: np.random.Generator, k: int) -> np.ndarray:
    """Weights drawn uniformly from the simplex, scaled to length 1."""
    w = rng.dirichlet(np.ones(k))
    return w / np.linalg.norm(w)


def random_policy(mdp: MultiObjectiveMDP, seed: int) -> np.ndarray:
    """A stochastic policy that uses every available action, some of them rarely."""
    shape = (mdp.H, *mdp.action_mask.shape)
    policy = np.random.default_rng(seed).random(shape) ** 3 * mdp.action_mask
    return policy / policy.sum(axis=2, keepdims=True)
