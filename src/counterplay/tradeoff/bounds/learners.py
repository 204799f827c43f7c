"""Upper bounds for learners without a watchdog: regret and switches, in rounds and in epochs.

The constants are worked out in docs/theory/09-tradeoff.md.
"""

from __future__ import annotations

import math

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    check_positive_int,
    check_real,
    check_size,
)

DOUBLING = 2 * math.sqrt(2) / (math.sqrt(2) - 1)
"""Constant of the doubling trick, about 6.83."""
MOST_TERMS = 10_000_000
"""Of a sum that is computed term by term."""


@checked
def hedge_regret(rounds: int, K: int) -> float:
    """Regret of ``Hedge`` with its default step: ``sqrt(T ln K / 2)``.

    Examples
    --------
    >>> round(hedge_regret(1000, 10), 1)
    33.9
    """
    return math.sqrt(check_positive_int(rounds, "rounds") * log_of(K) / 2)


@checked
def decreasing_hedge_regret(m: int, K: int) -> float:
    """Regret of ``Hedge("decreasing")`` after any number ``m`` of rounds.

    ``ln K / eta_m + sum_i eta_i / 8`` with ``eta_i = sqrt(2 ln K / i)``.

    Examples
    --------
    >>> round(decreasing_hedge_regret(1000, 10), 1)
    50.5
    """
    rounds, log = check_positive_int(m, "m"), log_of(K)
    check_size(rounds, MOST_TERMS, "rounds")
    steps = np.sqrt(2 * log / np.arange(1, rounds + 1))
    return math.sqrt(rounds * log / 2) + float(steps.sum()) / 8


@checked
def dartboard_loss(best: float, K: int, eta: float) -> float:
    """Expected loss of ``ShrinkingDartboard``: ``(ln K + L* ln(1/(1-eta))) / eta``.

    Examples
    --------
    >>> round(dartboard_loss(best=50, K=10, eta=0.1), 2)
    75.71
    """
    rate = check_real(eta, "eta", low=0, high=1, open_low=True, open_high=True)
    return dartboard_redraws(best, K, eta) / rate


@checked
def dartboard_redraws(best: float, K: int, eta: float) -> float:
    """Expected fresh draws of ``ShrinkingDartboard``: ``ln K + L* ln(1/(1-eta))``.

    Examples
    --------
    >>> round(dartboard_redraws(best=50, K=10, eta=0.1), 2)
    7.57
    """
    rate = check_real(eta, "eta", low=0, high=1, open_high=True)
    return log_of(K) - check_real(best, "best", low=0) * math.log1p(-rate)


@checked
def dartboard_regret(E: int, K: int) -> float:
    """Regret of ``ShrinkingDartboard`` with its default rate: ``2 sqrt(E ln K)``.

    Examples
    --------
    >>> round(dartboard_regret(100, 10), 2)
    30.35
    """
    return 2 * math.sqrt(check_positive_int(E, "E") * log_of(K))


@checked
def dartboard_switches(E: int, K: int) -> float:
    """Expected switches of ``ShrinkingDartboard`` with its default rate: ``2 sqrt(E ln K)``.

    Examples
    --------
    >>> round(dartboard_switches(100, 10), 2)
    30.35
    """
    return dartboard_regret(E, K)


@checked
def lazy_leader_loss(best: float, K: int, eps: float) -> float:
    """Expected loss of ``FollowLazyLeader``: ``e**eps (L* + (H_K - 1) / eps)``.

    Examples
    --------
    >>> round(lazy_leader_loss(best=50, K=10, eps=0.1), 2)
    76.58
    """
    scale = check_real(eps, "eps", low=0, open_low=True)
    check_size(check_positive_int(K, "K"), MOST_TERMS, "experts")
    harmonic = float((1 / np.arange(2, K + 1)).sum())
    factor = math.exp(scale) if scale < 700 else math.inf
    return factor * (check_real(best, "best", low=0) + harmonic / scale)


@checked
def lazy_leader_switches(loss: float, eps: float) -> float:
    """Expected switches of ``FollowLazyLeader``: ``eps`` times its expected loss.

    Examples
    --------
    >>> lazy_leader_switches(loss=80, eps=0.125)
    10.0
    """
    return check_real(eps, "eps", low=0) * check_real(loss, "loss", low=0)


@checked
def epoch_primary(rounds: int, K: int, B: int) -> float:
    """Primary regret of ``EpochLearner``: ``B * 2 sqrt(E ln K)`` (Theorem 9.4).

    Examples
    --------
    >>> round(epoch_primary(rounds=10_000, K=10, B=100), 1)
    3034.9
    """
    length = check_positive_int(B, "B")
    return length * dartboard_regret(epochs_of(rounds, length), K)


@checked
def epoch_secondary(rounds: int, K: int, B: int, threshold: float) -> float:
    """Secondary regret of ``EpochLearner``: ``threshold * (2 sqrt(E ln K) + 1)`` (Theorem 9.4).

    Examples
    --------
    >>> round(epoch_secondary(rounds=10_000, K=10, B=100, threshold=100.0), 1)
    3134.9
    """
    budget = check_real(threshold, "threshold", low=0)
    return budget * (dartboard_switches(epochs_of(rounds, check_positive_int(B, "B")), K) + 1)


@checked
def balanced_epochs(rounds: int, K: int, threshold: float) -> float:
    """The larger of both bounds of ``EpochLearner`` with ``B="balanced"``.

    Examples
    --------
    >>> round(balanced_epochs(rounds=10_000, K=10, threshold=25.0), 1)
    1542.4
    """
    budget = check_real(threshold, "threshold", low=0)
    B = min(check_positive_int(rounds, "rounds"), max(1, round(budget)))
    return max(epoch_primary(rounds, K, B), epoch_secondary(rounds, K, B, budget))


@checked
def lazy_hedge_rate(rounds: int, K: int, threshold: float) -> float:
    """Default rate of ``LazyHedge``: ``min(1/2, sqrt(ln K / (max(threshold, 1) T)))``.

    Examples
    --------
    >>> round(lazy_hedge_rate(rounds=10_000, K=10, threshold=100.0), 6)
    0.001517
    """
    budget = max(1.0, check_real(threshold, "threshold", low=0))
    return min(0.5, math.sqrt(log_of(K) / (budget * check_positive_int(rounds, "rounds"))))


@checked
def lazy_hedge_primary(rounds: int, K: int, threshold: float) -> float:
    """Primary regret of ``LazyHedge``: ``eta T + ln K / eta``.

    Examples
    --------
    >>> round(lazy_hedge_primary(rounds=10_000, K=10, threshold=100.0), 1)
    1532.6
    """
    eta = lazy_hedge_rate(rounds, K, threshold)
    return eta * rounds + (log_of(K) / eta if eta else 0.0)


@checked
def lazy_hedge_secondary(rounds: int, K: int, threshold: float) -> float:
    """Secondary regret of ``LazyHedge``: ``threshold * (ln K + T (eta + eta**2) + 1)``.

    Examples
    --------
    >>> round(lazy_hedge_secondary(rounds=10_000, K=10, threshold=100.0), 1)
    1850.0
    """
    eta = lazy_hedge_rate(rounds, K, threshold)
    return threshold * (log_of(K) + rounds * (eta + eta**2) + 1)


@checked
def doubling_regret(m: int, K: int) -> float:
    """Regret of ``Doubling(ShrinkingDartboard())`` after any ``m`` rounds.

    ``6.83 sqrt(m ln K)`` (Proposition 9.J).

    Examples
    --------
    >>> round(doubling_regret(100, 10), 1)
    103.6
    """
    return DOUBLING * math.sqrt(check_positive_int(m, "m") * log_of(K))


@checked
def doubling_switches(m: int, K: int) -> float:
    """Expected switches of ``Doubling(ShrinkingDartboard())``: ``sum_j (2 sqrt(2**j ln K) + 1)``.

    Examples
    --------
    >>> round(doubling_switches(100, 10), 1)
    82.6
    """
    log = log_of(K)
    blocks = check_positive_int(m, "m").bit_length()
    return sum(2 * math.sqrt(2**j * log) + 1 for j in range(blocks))


@checked
def coupling_secondary(threshold: float, total_variation: float) -> float:
    """Secondary regret of any learner sampled by maximal coupling, for fixed losses.

    ``threshold * (1 + sum of total variation distances of consecutive distributions)``.

    Examples
    --------
    >>> coupling_secondary(threshold=10.0, total_variation=2.5)
    35.0
    """
    path = check_real(total_variation, "total_variation", low=0)
    return check_real(threshold, "threshold", low=0) * (1 + path)


def log_of(K: int) -> float:
    """Return the natural logarithm of the number of models."""
    return math.log(check_positive_int(K, "K"))


def epochs_of(rounds: int, B: int) -> int:
    """Return the number of epochs of ``B`` rounds."""
    return -(-check_positive_int(rounds, "rounds") // B)
