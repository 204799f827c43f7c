"""Who leads after random head starts: exact probabilities, no simulation.

The chance that an expert leads is an integral of a product of K - 1 linear factors, piecewise a
polynomial, which Gauss quadrature with K/2 + 1 nodes integrates exactly.
Source: Proposition 9.E (ours), see docs/theory/09-tradeoff.md.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numba import njit

from counterplay.core.validation import FloatArray

_MOST_NODES = 64  # beyond K = 126 the quadrature is no longer exact, but precise to rounding


def exponential_leader_law(before: FloatArray, eps: float) -> FloatArray:
    """Probability that each expert leads after exponential head starts of mean ``1 / eps``.

    With ``b_j = exp(-eps (L_j - min L))`` expert ``h`` leads with probability
    ``b_h * integral over s in [0, 1] of prod_{j != h} (1 - s b_j)``.

    Examples
    --------
    >>> import numpy as np
    >>> exponential_leader_law(np.array([[0.0, 0.0], [0.0, np.log(4.0)]]), 0.5).round(6).tolist()
    [[0.5, 0.5], [0.75, 0.25]]
    """
    law = np.zeros_like(before)
    _exponential_law(before, eps, *_gauss(before.shape[1]), law)
    return law


def grid_leader_law(before: FloatArray, eps: float) -> FloatArray:
    """Probability that each expert leads when head starts are uniform in ``[0, 1 / eps)``.

    Examples
    --------
    >>> import numpy as np
    >>> grid_leader_law(np.array([[0.0, 0.0], [0.0, 1.0]]), 0.5).round(6).tolist()
    [[0.5, 0.5], [0.875, 0.125]]
    """
    law = np.zeros_like(before)
    _grid_law(before, eps, *_gauss(before.shape[1]), law)
    return law


def exponential_leader_switches(before: FloatArray, eps: float) -> FloatArray:
    """Probability that the leader of every round differs from the one before (first: zero).

    Examples
    --------
    >>> import numpy as np
    >>> exponential_leader_switches(np.array([[0.0, 0.0], [0.0, np.log(4.0)]]), 0.5).tolist()
    [0.0, 0.25]
    """
    change = np.zeros(len(before))
    _exponential_switches(before, eps, *_gauss(before.shape[1]), change)
    return change


@cache
def _gauss(K: int) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights on [0, 1], exact for polynomials of degree K."""
    nodes, weights = np.polynomial.legendre.leggauss(min(K // 2 + 1, _MOST_NODES))
    return (nodes + 1) / 2, weights / 2


@njit(cache=True)
def _add_leave_one_out(factors: FloatArray, weight: float, out: FloatArray) -> None:
    """Add ``weight * prod_{j != h} factors[j]`` to ``out[h]`` for every h."""
    # Products of all factors before h, then of all after h: no division by a factor near zero.
    left = np.empty(factors.size)
    running = weight
    for h in range(factors.size):
        left[h] = running
        running *= factors[h]
    running = 1.0
    for h in range(factors.size - 1, -1, -1):
        out[h] += left[h] * running
        running *= factors[h]


@njit(cache=True)
def _exponential_law(
    before: FloatArray, eps: float, nodes: FloatArray, weights: FloatArray, law: FloatArray
) -> None:
    for i in range(before.shape[0]):
        # Substituting s = exp(-eps t) turns the head starts into the polynomial of the docstring.
        share = np.exp(-eps * (before[i] - before[i].min()))
        for q in range(nodes.size):
            _add_leave_one_out(1.0 - nodes[q] * share, weights[q], law[i])
        law[i] *= share
        law[i] /= law[i].sum()


@njit(cache=True)
def _grid_law(
    before: FloatArray, eps: float, nodes: FloatArray, weights: FloatArray, law: FloatArray
) -> None:
    for i in range(before.shape[0]):
        order = np.argsort(before[i])
        start = eps * (before[i][order] - before[i].min())  # head starts have length one
        leads = np.zeros(start.size)
        for k in range(1, start.size + 1):  # the first k experts have started
            low = min(start[k - 1], 1.0)
            high = min(start[k], 1.0) if k < start.size else 1.0
            for q in range(nodes.size):
                y = low + (high - low) * nodes[q]
                _add_leave_one_out(1.0 - (y - start[:k]), (high - low) * weights[q], leads[:k])
        law[i][order] = leads / leads.sum()


@njit(cache=True)
def _exponential_switches(
    before: FloatArray, eps: float, nodes: FloatArray, weights: FloatArray, change: FloatArray
) -> None:
    rounds, K = before.shape
    for i in range(1, rounds):
        stay = 0.0
        for h in range(K):
            # h leads in both rounds when its head start exceeds every other by this much
            ahead = np.maximum(before[i - 1, h] - before[i - 1], before[i, h] - before[i])
            most = ahead.max()  # at least zero, attained by h itself
            share = np.exp(eps * (ahead - most))
            total = 0.0
            for q in range(nodes.size):
                product = weights[q]
                for j in range(K):
                    if j != h:
                        product *= 1.0 - nodes[q] * share[j]
                total += product
            stay += math.exp(-eps * most) * total
        change[i] = max(0.0, 1.0 - stay)
