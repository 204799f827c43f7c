"""Regret of items under many preferences at once.

Source: docs/theory/26-people.md, "Setting".
"""

from __future__ import annotations

import numpy as np
from numba import njit

from counterplay.core.validation import FloatArray

_BLOCK = 256  # preferences that are looked at together


def regrets(weights: FloatArray, items: FloatArray, *, ranged: bool) -> FloatArray:
    """Return the regret (N, n) of every item under every preference."""
    worth = weights @ items.T
    best = worth.max(axis=1, keepdims=True)
    if ranged:
        return np.asarray((best - worth) / np.maximum(best - worth.min(axis=1)[:, None], 1e-300))
    return np.asarray(1.0 - worth / np.maximum(best, 1e-300))


def item_regrets(
    weights: FloatArray, items: FloatArray, item: FloatArray, *, ranged: bool
) -> FloatArray:
    """Return the regret (N,) of one item under every preference; it may be none of the items."""
    own, best, worst = _worths(np.ascontiguousarray(weights), items, item, ranged)
    if ranged:
        return np.asarray((best - own) / np.maximum(best - worst, 1e-300))
    return np.asarray(1.0 - own / np.maximum(best, 1e-300))


@njit(cache=True, nogil=True)
def _worths(weights, items, item, ranged):  # type: ignore[no-untyped-def]  # compiled by numba
    """Worth of one item, and the largest and smallest worth of all, under every preference."""
    n, k = weights.shape
    own, best, worst = np.empty(n), np.empty(n), np.empty(n)
    side, u = np.empty((k, _BLOCK)), np.empty(_BLOCK)
    for start in range(0, n, _BLOCK):
        # a block of preferences side by side, so that several are computed at once
        size = min(_BLOCK, n - start)
        block, high, low = weights[start : start + size], best[start:], worst[start:]
        for i in range(size):
            for j in range(k):
                side[j, i] = block[i, j]
        _worth(item, side, size, u)
        for i in range(size):
            high[i] = low[i] = u[i]
        own[start : start + size] = u[:size]
        for x in range(len(items)):
            _worth(items[x], side, size, u)
            for i in range(size):
                high[i] = u[i] if u[i] > high[i] else high[i]
            if ranged:
                for i in range(size):
                    low[i] = u[i] if u[i] < low[i] else low[i]
    return own, best, worst


@njit(cache=True)
def _worth(item, side, size, u):  # type: ignore[no-untyped-def]  # compiled by numba
    """Write the worth of an item under a block of preferences."""
    for i in range(size):
        u[i] = item[0] * side[0, i]
    for j in range(1, item.size):
        for i in range(size):
            u[i] += item[j] * side[j, i]
