"""Every guarantee of the theory as a function that returns the number.

Upper bounds come with the constants worked out in docs/theory/09-tradeoff.md (the source states
orders only); lower bounds hold for every learner on the instance named in the docstring. ``ln`` is
the natural logarithm, ``T`` the number of rounds, ``E`` the number of epochs, ``threshold`` the
burst budget ``delta * T**alpha``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    check_float_array,
    check_fraction,
    check_int,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.errors import InvalidInputError

DOUBLING = 2 * math.sqrt(2) / (math.sqrt(2) - 1)
"""Constant of the doubling trick, about 6.83."""


_MOST_TERMS = 10_000_000  # of a sum that is computed term by term


@checked
def hedge_regret(rounds: int, K: int) -> float:
    """Regret of ``Hedge`` with its default step: ``sqrt(T ln K / 2)``.

    Examples
    --------
    >>> round(hedge_regret(1000, 10), 1)
    33.9
    """
    return math.sqrt(check_positive_int(rounds, "rounds") * _log(K) / 2)


@checked
def decreasing_hedge_regret(m: int, K: int) -> float:
    """Regret of ``Hedge("decreasing")`` after any number ``m`` of rounds.

    ``ln K / eta_m + sum_i eta_i / 8`` with ``eta_i = sqrt(2 ln K / i)``.

    Examples
    --------
    >>> round(decreasing_hedge_regret(1000, 10), 1)
    50.5
    """
    rounds, log = check_positive_int(m, "m"), _log(K)
    check_size(rounds, _MOST_TERMS, "rounds")
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
    return _log(K) - check_real(best, "best", low=0) * math.log1p(-rate)


@checked
def dartboard_regret(E: int, K: int) -> float:
    """Regret of ``ShrinkingDartboard`` with its default rate: ``2 sqrt(E ln K)``.

    Examples
    --------
    >>> round(dartboard_regret(100, 10), 2)
    30.35
    """
    return 2 * math.sqrt(check_positive_int(E, "E") * _log(K))


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
    check_size(check_positive_int(K, "K"), _MOST_TERMS, "experts")
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
    return length * dartboard_regret(_epochs(rounds, length), K)


@checked
def epoch_secondary(rounds: int, K: int, B: int, threshold: float) -> float:
    """Secondary regret of ``EpochLearner``: ``threshold * (2 sqrt(E ln K) + 1)`` (Theorem 9.4).

    Examples
    --------
    >>> round(epoch_secondary(rounds=10_000, K=10, B=100, threshold=100.0), 1)
    3134.9
    """
    budget = check_real(threshold, "threshold", low=0)
    return budget * (dartboard_switches(_epochs(rounds, check_positive_int(B, "B")), K) + 1)


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
    return min(0.5, math.sqrt(_log(K) / (budget * check_positive_int(rounds, "rounds"))))


@checked
def lazy_hedge_primary(rounds: int, K: int, threshold: float) -> float:
    """Primary regret of ``LazyHedge``: ``eta T + ln K / eta``.

    Examples
    --------
    >>> round(lazy_hedge_primary(rounds=10_000, K=10, threshold=100.0), 1)
    1532.6
    """
    eta = lazy_hedge_rate(rounds, K, threshold)
    return eta * rounds + (_log(K) / eta if eta else 0.0)


@checked
def lazy_hedge_secondary(rounds: int, K: int, threshold: float) -> float:
    """Secondary regret of ``LazyHedge``: ``threshold * (ln K + T (eta + eta**2) + 1)``.

    Examples
    --------
    >>> round(lazy_hedge_secondary(rounds=10_000, K=10, threshold=100.0), 1)
    1850.0
    """
    eta = lazy_hedge_rate(rounds, K, threshold)
    return threshold * (_log(K) + rounds * (eta + eta**2) + 1)


@checked
def doubling_regret(m: int, K: int) -> float:
    """Regret of ``Doubling(ShrinkingDartboard())`` after any ``m`` rounds.

    ``6.83 sqrt(m ln K)`` (Proposition 9.J).

    Examples
    --------
    >>> round(doubling_regret(100, 10), 1)
    103.6
    """
    return DOUBLING * math.sqrt(check_positive_int(m, "m") * _log(K))


@checked
def doubling_switches(m: int, K: int) -> float:
    """Expected switches of ``Doubling(ShrinkingDartboard())``: ``sum_j (2 sqrt(2**j ln K) + 1)``.

    Examples
    --------
    >>> round(doubling_switches(100, 10), 1)
    82.6
    """
    log = _log(K)
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


@checked
def deactivation_sleeping(active_rounds: int, K: int, B: int) -> float:
    """Sleeping regret of ``DeactivationLearner`` to an expert active in the first rounds.

    ``6.83 sqrt(ln K T_h B) + B`` (Equation 9.1, with the doubling learner; Theorem 9.6).

    Examples
    --------
    >>> round(deactivation_sleeping(active_rounds=10_000, K=10, B=100))
    10462
    """
    rounds, length = check_int(active_rounds, "active_rounds", low=0), check_positive_int(B, "B")
    return DOUBLING * math.sqrt(_log(K) * rounds * length) + length


@checked
def deactivation_secondary(
    threshold: float, switches: float, deactivations: int, c: float
) -> float:
    """Secondary regret of ``DeactivationLearner``: ``threshold (s + D + 1) + D (1 - c)``.

    ``switches`` are those of its own choice, ``deactivations`` the rounds in which somebody was
    switched off. The last term is the overshoot of the round in which it is noticed.

    Examples
    --------
    >>> deactivation_secondary(threshold=10.0, switches=4.0, deactivations=2, c=0.25)
    71.5
    """
    count = check_int(deactivations, "deactivations", low=0)
    stints = check_real(switches, "switches", low=0) + count + 1
    overshoot = count * (1 - check_fraction(c, "c"))
    return check_real(threshold, "threshold", low=0) * stints + overshoot


@checked
def restart_sleeping(active_rounds: ArrayLike, K: int, B: int) -> float:
    """Sleeping regret of ``RestartAtReset``, given the active rounds in every segment.

    Examples
    --------
    >>> round(restart_sleeping([5_000, 5_000], K=10, B=100))
    14854
    """
    rounds = check_float_array(active_rounds, "active_rounds", ndim=1)
    return sum(deactivation_sleeping(int(n), K, B) for n in rounds)


@checked
def reactivation_epochs(K: int) -> int:
    """Fewest epochs ``ReactivationLearner`` needs: ``2 ln K / (1 - 1/sqrt 2)**2``.

    Examples
    --------
    >>> reactivation_epochs(10)
    54
    """
    return max(1, math.ceil(2 * _log(K) / (1 - 1 / math.sqrt(2)) ** 2))


@checked
def reactivation_sleeping(
    rounds: int, K: int, B: int, active_rounds: int, late_segments: int = 0
) -> float:
    """Sleeping regret of ``ReactivationLearner`` (Theorem 9.8, with its constants).

    ``B (2 sqrt(E ln K) + 2 (T_h / B) sqrt(ln K / E))``, plus ``B`` per segment when experts are
    switched off inside epochs (``late_segments`` = N + 1 for round granularity, else 0).

    Examples
    --------
    >>> round(reactivation_sleeping(rounds=10_000, K=10, B=100, active_rounds=10_000), 1)
    6069.7
    """
    length, log = check_positive_int(B, "B"), _log(K)
    E = _epochs(rounds, length)
    alive = check_int(active_rounds, "active_rounds", low=0)
    extra = length * check_int(late_segments, "late_segments", low=0)
    return 2 * length * math.sqrt(E * log) + 2 * alive * math.sqrt(log / E) + extra


@checked
def reactivation_draws(E: int, K: int, deactivations: int, resets: int) -> float:
    """Expected fresh draws of ``ReactivationLearner``: ``(N + 1) + D + 4 sqrt(E ln K)``.

    Examples
    --------
    >>> round(reactivation_draws(E=100, K=10, deactivations=3, resets=1), 2)
    65.7
    """
    fixed = check_int(deactivations, "deactivations", low=0) + check_int(resets, "resets", low=0)
    return fixed + 1 + 4 * math.sqrt(check_positive_int(E, "E") * _log(K))


@checked
def reactivation_secondary(
    rounds: int, K: int, B: int, threshold: float, c: float, deactivations: int, resets: int
) -> float:
    """Secondary regret of ``ReactivationLearner`` (Theorem 9.8, corrected).

    ``4 threshold sqrt(E ln K) + (threshold + (1 - c) B) (D + N + 1)``: an expert that misbehaves
    is left at the end of an epoch only.

    Examples
    --------
    >>> round(reactivation_secondary(10_000, 10, 100, 50.0, 0.1, deactivations=3, resets=1), 1)
    3734.9
    """
    length, budget = check_positive_int(B, "B"), check_real(threshold, "threshold", low=0)
    E = _epochs(rounds, length)
    draws = reactivation_draws(E, K, deactivations, resets)
    overshoot = (1 - check_fraction(c, "c")) * length
    return budget * draws + overshoot * (deactivations + resets + 1)


@checked
def adanormalhedge_sleeping(
    rounds: int, K: int, B: int, active_rounds: int, late_segments: int = 0
) -> float:
    """Sleeping regret of ``AdaNormalHedge`` (Luo and Schapire 2015, Thm. 1).

    ``B sqrt(3 E_h ln(K (5/2 + 3/2 ln(1 + E))))`` with ``E_h`` epochs in which the expert is active;
    ``late_segments`` as in ``reactivation_sleeping``.

    Examples
    --------
    >>> round(adanormalhedge_sleeping(rounds=10_000, K=10, B=100, active_rounds=10_000), 1)
    3692.8
    """
    length = check_positive_int(B, "B")
    E = _epochs(rounds, length)
    late = check_int(late_segments, "late_segments", low=0)
    mine = math.ceil(check_int(active_rounds, "active_rounds", low=0) / length) + late
    log = _log(K) + math.log(2.5 + 1.5 * math.log1p(E))
    return length * (math.sqrt(3 * min(E, mine) * log) + late)


@checked
def stint_secondary(
    threshold: float, c: float, switches: int, resets: int, deactivations: int
) -> float:
    """Secondary loss above the rate on every single path under a round-by-round watchdog.

    ``threshold (S + N + 1) + (1 - c) (D + N)`` with ``S`` switches of the played expert, ``N``
    resets and ``D`` rounds in which somebody was switched off: between two resets each stint keeps
    the budget, but for the round in which the watchdog notices (or a reset comes first).

    Examples
    --------
    >>> stint_secondary(threshold=10.0, c=0.25, switches=4, resets=1, deactivations=2)
    62.25
    """
    cuts = check_int(resets, "resets", low=0)
    stints = check_int(switches, "switches", low=0) + cuts + 1
    late = check_int(deactivations, "deactivations", low=0) + cuts
    overshoot = (1 - check_fraction(c, "c")) * late
    return check_real(threshold, "threshold", low=0) * stints + overshoot


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
    check_size(coins, _MOST_TERMS, "coins")
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
    return share / (1 + share) * minimum_constant(E, K) * math.sqrt(_log(K) * E) * length


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


def _log(K: int) -> float:
    return math.log(check_positive_int(K, "K"))


def _epochs(rounds: int, B: int) -> int:
    return -(-check_positive_int(rounds, "rounds") // B)


@checked
def live_regret(rounds: int, K: int, B: int, delay: int = 0) -> float:
    """Expected regret of the live guard with a fixed learning rate: 2 sqrt(m T B (K-1) ln K).

    With delayed outcomes m = ceil(delay / B) + 1 learners take turns (``copies="guaranteed"``).

    Examples
    --------
    >>> round(live_regret(4000, 3, 16)), round(live_regret(4000, 3, 16, delay=20))
    (750, 1299)
    """
    T, n, b = (check_positive_int(v, name) for v, name in ((rounds, "rounds"), (K, "K"), (B, "B")))
    m = -(-check_int(delay, "delay", low=0) // b) + 1
    return 2 * math.sqrt(m * T * b * (n - 1) * math.log(n))


@checked
def selective_regret(rounds: int, K: int, acceptance: float, B: int = 1) -> float:
    """Expected regret when everybody is judged in accepted rounds only: sqrt(2 T B ln K / rho).

    Examples
    --------
    >>> round(selective_regret(4000, 3, 0.5))
    133
    """
    T, n, b = (check_positive_int(v, name) for v, name in ((rounds, "rounds"), (K, "K"), (B, "B")))
    rho = check_real(acceptance, "acceptance", low=0.0, high=1.0, open_low=True)
    return math.sqrt(2 * T * b * math.log(n) / rho)


@checked
def live_harm(K: int, returns: int, burst: float, rate: float, delay: int) -> float:
    """Harm above the rate of the live guard on every path, while somebody is allowed.

    Examples
    --------
    >>> live_harm(2, 0, 5.0, 0.1, 0)
    11.8
    """
    n, back = check_positive_int(K, "K"), check_int(returns, "returns", low=0)
    late = check_int(delay, "delay", low=0)
    c = check_fraction(rate, "rate")
    return (n + back) * (check_real(burst, "burst", low=0.0) + (1 - c) * (1 + late))


@checked
def purse_harm(purse: float, rate: float, delay: int, safe_burst: float = 0.0) -> float:
    """Harm above the rate with a purse, if the safe model exceeds it by at most ``safe_burst``.

    Examples
    --------
    >>> purse_harm(10.0, 0.1, 0)
    10.9
    """
    c, late = check_fraction(rate, "rate"), check_int(delay, "delay", low=0)
    own = check_real(safe_burst, "safe_burst", low=0.0)
    return max(check_real(purse, "purse", low=0.0), (1 - c) * late) + (1 - c) + own
