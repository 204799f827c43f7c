"""Kernels of exponential weights: fast, exact, and the same in streaming and in batch.

With a fixed step the weights are updated by a factor ``exp(-step * loss)`` per round. The factor
comes from a short polynomial (the argument is small) and every 256 rounds the weights are rebuilt
from the cumulative losses, so rounding errors cannot pile up and nothing under- or overflows.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from counterplay.core.validation import FloatArray

REBUILD = 256  # rounds between two rebuilds of the weights
_SMALL = 0.05  # up to here the polynomial of degree 8 is exact to the last bits
_FAST = {"reassoc", "contract", "arcp", "nsz"}


@njit(cache=True)
def all_inside(values: FloatArray, low: float, high: float) -> bool:
    """Whether all values lie in the range, without any tolerance."""
    outside = 0
    for h in range(values.size):  # counting compiles to vector instructions, searching does not
        value = values[h]
        if not (value >= low and value <= high):
            outside += 1
    return outside == 0


@njit(cache=True)
def first_outside(loss: FloatArray, low: float, high: float) -> int:
    """Return the index of the first loss outside the range (or not a number), else -1."""
    below, above = low - 1e-12, high + 1e-12
    if not all_inside(loss, below, above):
        for h in range(loss.size):
            if not (below <= loss[h] <= above):
                return h
    return -1


@njit(cache=True, fastmath=_FAST)
def rebuild(cumulative: FloatArray, weights: FloatArray, step: float) -> None:
    """Set ``weights`` to ``exp(-step * cumulative)``, scaled so that the largest is one."""
    best = cumulative[0]
    for h in range(cumulative.size):
        best = min(best, cumulative[h])
    for h in range(cumulative.size):
        weights[h] = math.exp(-step * (cumulative[h] - best))


@njit(cache=True, fastmath=_FAST)
def _exp_small(x: float) -> float:
    """The exponential by its Taylor polynomial of degree 8."""
    y = 1 / 5040 + x / 40320
    y = 1 / 24 + x * (1 / 120 + x * (1 / 720 + x * y))
    return 1 + x * (1 + x * (1 / 2 + x * (1 / 6 + x * y)))


@njit(cache=True, fastmath=_FAST)
def advance(
    cumulative: FloatArray, weights: FloatArray, loss: FloatArray, step: float, reach: float
) -> None:
    """Add one loss vector; ``reach`` bounds the absolute value of ``step * loss``."""
    # One factor per round: a polynomial for small steps, its 16th power (four squarings) for larger
    # ones, and from the cumulative losses for very large ones.
    if reach <= _SMALL:
        for h in range(loss.size):
            cumulative[h] += loss[h]
            weights[h] *= _exp_small(-step * loss[h])
    elif reach <= 16 * _SMALL:
        for h in range(loss.size):
            cumulative[h] += loss[h]
            y = _exp_small(-step * loss[h] / 16)
            y *= y
            y *= y
            y *= y
            weights[h] *= y * y
    else:
        for h in range(loss.size):
            cumulative[h] += loss[h]
        rebuild(cumulative, weights, step)


@njit(cache=True, fastmath=_FAST)
def fixed_step_marginals(
    losses: FloatArray, step: float, low: float, high: float, out: FloatArray
) -> bool:
    """Write ``softmax(-step * cumulative loss before the round)`` for every round.

    Losses are checked on the way, while they are in the cache; returns whether all of them lie in
    ``[low, high]``.
    """
    rounds, n_experts = losses.shape
    reach = step * max(abs(low), abs(high))
    below, above = low - 1e-12, high + 1e-12
    cumulative, weights = np.zeros(n_experts), np.ones(n_experts)
    outside = np.zeros(n_experts)
    for t in range(rounds):
        # Products of many factors drift; from time to time start again from the sums.
        if t % REBUILD == 0:
            rebuild(cumulative, weights, step)
        total = 0.0
        for h in range(n_experts):
            total += weights[h]
        scale = 1.0 / total
        for h in range(n_experts):
            out[t, h] = weights[h] * scale
            outside[h] += 0.0 if (losses[t, h] >= below) & (losses[t, h] <= above) else 1.0
        advance(cumulative, weights, losses[t], step, reach)
    return bool(outside.sum() == 0.0)


@njit(cache=True, fastmath=_FAST)
def varying_step_marginals(losses: FloatArray, steps: FloatArray, out: FloatArray) -> None:
    """Write ``softmax(-steps[i] * cumulative loss before round i)`` for every round."""
    rounds, n_experts = losses.shape
    cumulative, weights = np.zeros(n_experts), np.ones(n_experts)
    for t in range(rounds):
        rebuild(cumulative, weights, steps[t])
        total = 0.0
        for h in range(n_experts):
            total += weights[h]
        for h in range(n_experts):
            out[t, h] = weights[h] / total
            cumulative[h] += losses[t, h]
