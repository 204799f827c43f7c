"""What no learner can do: lower bounds on the instances named in the docstrings.

Source: docs/theory/09-tradeoff.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    check_float_array,
    check_fraction,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.errors import InvalidInputError
from counterplay.tradeoff.bounds.learners import MOST_TERMS, log_of


@checked
def impossibility_average(rounds: int) -> float:
    """Least average over both worlds of ``max(R1, R2)`` on ``impossibility_worlds``: ``T / 144``.

    Examples
    --------
    >>> impossibility_average(144_000)
    1000.0
    """
    return check_positive_int(rounds, "rounds") / 144


@checked
def impossibility_worst(rounds: int) -> float:
    """Least ``max(R1, R2)`` of the worse world of ``impossibility_worlds``: ``T / 120``.

    Examples
    --------
    >>> impossibility_worst(120_000)
    1000.0
    """
    return check_positive_int(rounds, "rounds") / 120


@checked
def impossibility_leader(rounds: int) -> float:
    """What Follow the Leader has instead of ``impossibility_average``: ``T / 96``.

    Examples
    --------
    >>> impossibility_leader(96_000)
    1000.0
    """
    return check_positive_int(rounds, "rounds") / 96


@checked
def burst_pair_minimax(m: float) -> float:
    """Least ``max(R1, R2)`` on ``burst_pair`` with bursts of ``m`` rounds: ``m / 6``.

    Examples
    --------
    >>> burst_pair_minimax(600)
    100.0
    """
    return check_real(m, "m", low=0) / 6


@checked
def binomial_minimum(E: int, K: int) -> float:
    """Expected minimum of ``K`` independent binomials with ``E`` fair coins each.

    Examples
    --------
    >>> binomial_minimum(1, 2)
    0.25
    """
    from scipy import stats

    coins, copies = check_positive_int(E, "E"), check_positive_int(K, "K")
    check_size(coins, MOST_TERMS, "coins")
    tails = stats.binom.sf(np.arange(coins), coins, 0.5)  # P(X >= k), k = 1..E
    return float((tails**copies).sum())


@checked
def minimum_constant(E: int, K: int) -> float:
    """The constant ``a`` in ``E[min of K binomials] = E/2 - a sqrt(E ln K)``.

    Examples
    --------
    >>> round(minimum_constant(10_000, 4), 4)
    0.4371
    """
    if check_positive_int(K, "K") < 2:
        raise InvalidInputError(f"K must be at least 2, got {K}")
    return (E / 2 - binomial_minimum(E, K)) / math.sqrt(E * math.log(K))


@checked
def switch_tax(rounds: int, K: int, B: int, delta: float) -> float:
    """Least ``max(E R1, E R2)`` of any learner on ``adaptive_switch_tax`` (Theorem 9.3).

    ``delta / (1 + delta) * a * sqrt(ln K) * B * sqrt(E)`` with the exact ``a(E, K)``; smaller than
    the thesis' constant, whose proof loses a factor (docs/theory/09-tradeoff.md, "Errata").

    Examples
    --------
    >>> round(switch_tax(rounds=16_384, K=4, B=128, delta=0.5), 1)
    248.2
    """
    share, length = check_fraction(delta, "delta"), check_positive_int(B, "B")
    E = check_positive_int(rounds, "rounds") // length
    return share / (1 + share) * minimum_constant(E, K) * math.sqrt(log_of(K) * E) * length


@checked
def cumulative_trap(rounds: int, alpha: float) -> float:
    """Least ``E max(R1, R2)`` on ``cumulative_trap`` for learners of cumulative losses only.

    ``T**((1 + alpha)/2) / 16 - sqrt(T ln T)`` (Theorem 9.5); negative for small ``T``.

    Examples
    --------
    >>> round(cumulative_trap(10**6, 0.8))
    11982
    """
    rounds = check_positive_int(rounds, "rounds")
    power = float(rounds) ** ((1 + check_fraction(alpha, "alpha")) / 2)
    return float(power / 16 - math.sqrt(rounds * math.log(rounds)))


@checked
def ladder_secondary(lengths: ArrayLike, excess: ArrayLike, sleeping: ArrayLike) -> float:
    """Least secondary regret on ``deactivation_ladder`` of a learner with given sleeping regrets.

    ``sum_k x_k max(0, n_k - T_{k-1} - s_k)`` with phase lengths ``n_k``, excess ``x_k`` per round
    and unclipped sleeping regrets ``s_k`` (which may be negative).

    Examples
    --------
    >>> ladder_secondary(lengths=[10, 90], excess=[0.5, 0.1], sleeping=[5.0, 10.0])
    9.5
    """
    n = check_float_array(lengths, "lengths", ndim=1)
    x, s = check_float_array(excess, "excess", ndim=1), check_float_array(sleeping, "sleeping")
    if not n.shape == x.shape == s.shape:
        raise InvalidInputError("lengths, excess and sleeping must have the same length")
    before = np.concatenate([[0.0], np.cumsum(n)[:-1]])
    return float((x * np.maximum(0.0, n - before - s)).sum())


@checked
def ladder_target(K: int, ratio: float) -> float:
    """Limit of ``R2 / threshold`` on ``deactivation_ladder``: ``1 + (K-1)(r-2)/(r-1)``.

    Examples
    --------
    >>> ladder_target(K=5, ratio=4.0)
    3.6666666666666665
    """
    r = check_real(ratio, "ratio", low=2, open_low=True)
    return 1 + (check_positive_int(K, "K") - 1) * (r - 2) / (r - 1)
