"""Problems that several tests use."""

from __future__ import annotations

import numpy as np


def front(n: int, k: int, seed: int) -> np.ndarray:
    """Items none of which dominates another."""
    items = np.abs(np.random.default_rng(seed).normal(size=(n, k)))
    return items / np.linalg.norm(items, axis=1, keepdims=True)
