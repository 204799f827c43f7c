"""Upper bounds with a watchdog: regret while a model is allowed, harm above the budget.

The constants are worked out in docs/theory/09-tradeoff.md.
"""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    check_float_array,
    check_fraction,
    check_int,
    check_positive_int,
    check_real,
)
from counterplay.tradeoff.bounds.learners import DOUBLING, epochs_of, log_of


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
    return DOUBLING * math.sqrt(log_of(K) * rounds * length) + length


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
    return max(1, math.ceil(2 * log_of(K) / (1 - 1 / math.sqrt(2)) ** 2))


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
    length, log = check_positive_int(B, "B"), log_of(K)
    E = epochs_of(rounds, length)
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
    return fixed + 1 + 4 * math.sqrt(check_positive_int(E, "E") * log_of(K))


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
    E = epochs_of(rounds, length)
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
    E = epochs_of(rounds, length)
    late = check_int(late_segments, "late_segments", low=0)
    mine = math.ceil(check_int(active_rounds, "active_rounds", low=0) / length) + late
    log = log_of(K) + math.log(2.5 + 1.5 * math.log1p(E))
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
