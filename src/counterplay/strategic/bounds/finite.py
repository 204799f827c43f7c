"""Guarantees for finite catalogues, with explicit constants and resolved logarithms.

``n`` is the number of rules, ``rounds`` the T of the theorems. Where the theorem's constant can be
improved, the argument ``constant`` chooses between ``"thesis"`` and ``"refined"`` (ours, tested).

Source: "Results", "The mistake filter", Lemma A.1 for the bases of the logarithms, see
docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    check_choice,
    check_int,
    check_open_fraction,
    check_positive_int,
    check_size,
)
from counterplay.errors import InvalidInputError

Constant = Literal["thesis", "refined"]
_CONSTANTS: tuple[Constant, ...] = ("thesis", "refined")


def whole(number: float) -> int:
    """Return the next whole number; a bound that no float can hold is refused."""
    if not number < LARGEST:
        raise InvalidInputError("the bound is too large to be computed; use a larger eps or delta")
    return math.ceil(number)


LARGEST = 1e300


@checked
def halving_mistakes(n: int) -> int:
    """Most mistakes StrategicHalving makes on a realizable sequence: floor(log2 n).

    Theorem 2.1; no learner has a smaller worst case.

    Examples
    --------
    >>> halving_mistakes(500)
    8
    """
    return check_positive_int(n, "n").bit_length() - 1


@checked
def sequential_mistakes(n: int) -> int:
    """Most mistakes SequentialElimination makes on a realizable sequence: n - 1.

    Examples
    --------
    >>> sequential_mistakes(500)
    499
    """
    return check_positive_int(n, "n") - 1


@checked
def random_order_mistakes(n: int) -> float:
    """Expected mistakes of SequentialElimination in a secret random order: at most (n - 1)/2.

    It holds for every realizable sequence fixed in advance (Proposition 2.B).

    Examples
    --------
    >>> random_order_mistakes(500)
    249.5
    """
    return (check_positive_int(n, "n") - 1) / 2


@checked
def mwmr_mistakes(n: int, rounds: int, constant: Constant = "thesis") -> float:
    """Expected mistakes of MWMR in T rounds: min(sqrt(4 T ln n), n - 1).

    Theorem 2.4; the refined constant is 2 instead of 4 under the root (ours).

    Examples
    --------
    >>> round(mwmr_mistakes(64, 64), 2), round(mwmr_mistakes(64, 64, "refined"), 2)
    (32.63, 23.07)
    """
    check_positive_int(n, "n")
    check_int(rounds, "rounds", low=0)
    factor = 4 if check_choice(constant, "constant", _CONSTANTS) == "thesis" else 2
    return float(min(math.sqrt(factor * rounds * math.log(n)), n - 1))


@checked
def online_lower_bound(n: int, rounds: int, delta: float) -> int:
    """Mistakes that any learner who sees x afterwards makes with probability 1 - delta.

    Against an adversary who fixes the perfect rule last: min(floor(T/k), n - 1) with
    k = ceil(2(n+2) ln(n/delta)) (Theorem 2.3, repaired: whole mistakes are counted).

    Examples
    --------
    >>> [online_lower_bound(16, t, 0.05) for t in (1, 1000, 10**6)]
    [0, 4, 15]
    """
    check_int(n, "n", low=2)
    check_int(rounds, "rounds", low=0)
    k = whole(2 * (n + 2) * math.log(n / check_open_fraction(delta, "delta")))
    return min(rounds // k, n - 1)


@checked
def lazy_adversary_rounds(n: int) -> int:
    """Expected rounds in which the lazy adversary forces n - 1 mistakes on MWMR: n(n+1)/2 - 1.

    Examples
    --------
    >>> lazy_adversary_rounds(16)
    135
    """
    return check_positive_int(n, "n") * (n + 1) // 2 - 1


@checked
def survivor_length(mistakes: int, eps: float, delta: float) -> int:
    """Rounds a predictor must survive so that its error is at most eps: ceil(ln((B+1)/delta)/eps).

    B = ``mistakes``. Lemma A.2 with B + 1 predictors instead of B (Lemma A.2).

    Examples
    --------
    >>> survivor_length(8, eps=0.05, delta=0.1)
    90
    """
    b = check_int(mistakes, "mistakes", low=0)
    eps, delta = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    return whole(math.log((b + 1) / delta) / eps)


@checked
def survivor_rounds(mistakes: int, eps: float, delta: float) -> int:
    """Most rounds LongestSurvivor needs: (B + 1) times the length of a survival.

    Examples
    --------
    >>> survivor_rounds(8, eps=0.05, delta=0.1)
    810
    """
    return (mistakes + 1) * survivor_length(mistakes, eps, delta)


@checked
def halving_pac_rounds(n: int, eps: float, delta: float) -> int:
    """Most rounds until the median map has error at most eps with probability 1 - delta.

    Theorem 2.2, for the map of Theorem 2.2.

    Examples
    --------
    >>> halving_pac_rounds(256, eps=0.05, delta=0.1)
    810
    """
    return survivor_rounds(halving_mistakes(n), eps, delta)


@checked
def sequential_pac_rounds(n: int, eps: float, delta: float) -> int:
    """Most rounds until SequentialElimination has a rule with error at most eps.

    n ceil(ln(n/delta)/eps); valid in all settings and for any manipulation.

    Examples
    --------
    >>> sequential_pac_rounds(256, eps=0.05, delta=0.1)
    40192
    """
    return survivor_rounds(sequential_mistakes(n), eps, delta)


@checked
def union_sampling_error(n: int, rounds: int, constant: Constant = "thesis") -> float:
    """Expected error of UnionSamplingLearner after T rounds: 320 log2(n) ln(n) / T.

    Lemma 2.1; refined (ours): 5 floor(log2 n) ln(n) / T.

    Examples
    --------
    >>> union_sampling_error(1024, 20_000, "refined").__round__(4)
    0.0173
    """
    check_positive_int(n, "n")
    check_positive_int(rounds, "rounds")
    return _union_sampling_total(n, constant) / rounds


@checked
def union_sampling_rounds(n: int, eps: float, constant: Constant = "thesis") -> int:
    """Rounds after which the expected error of UnionSamplingLearner is at most eps.

    Examples
    --------
    >>> union_sampling_rounds(64, 0.025), union_sampling_rounds(64, 0.025, "refined")
    (319403, 4991)
    """
    check_positive_int(n, "n")
    total = _union_sampling_total(n, constant)
    return max(1, whole(total / check_open_fraction(eps, "eps")))


@checked
def union_sampling_constant(constant: Constant = "thesis") -> float:
    """Constant of union sampling: 320 in Lemma 2.1, 5 by exact evaluation (ours).

    Examples
    --------
    >>> union_sampling_constant(), union_sampling_constant("refined")
    (320.0, 5.0)
    """
    return 320.0 if check_choice(constant, "constant", _CONSTANTS) == "thesis" else 5.0


def _union_sampling_total(n: int, constant: Constant) -> float:
    levels = math.log2(n) if constant == "thesis" else math.floor(math.log2(n))
    return union_sampling_constant(constant) * levels * math.log(n)


@checked
def union_sampling_factor(m: int) -> float:
    """Exact constant of union sampling with m rules left: worst loss of the output per progress.

    The largest ratio, over all numbers of wrong rules and both labels, of the loss of a random pair
    to floor(log2 m) times the expected share of rules removed. It is at most 5, reached at m = 3;
    this is where the refined constant comes from (ours).

    Examples
    --------
    >>> union_sampling_factor(3).__round__(6), union_sampling_factor(64).__round__(3)
    (5.0, 2.349)
    """
    m = check_int(m, "m", low=2)
    check_size(m, 1_000_000, "rules")
    levels = 2 ** np.arange(m.bit_length() - 1)
    above = (1.0 - np.arange(m + 1) / m)[:, None] ** levels  # P(rank of the nearest draw >= j)
    rank = (above[:-1] - above[1:]).mean(axis=1)  # law of the rank, averaged over the levels
    kappa = np.arange(1, m)
    removed_negative = np.cumsum(rank * np.arange(1, m + 1))[:-1] / m
    removed_positive = np.cumsum((rank * np.arange(m, 0, -1))[::-1])[:-1] / m
    loss_negative, loss_positive = 1 - (1 - kappa / m) ** 2, (kappa / m) ** 2
    worst = max(
        float((loss_negative / removed_negative).max()),
        float((loss_positive / removed_positive).max()),
    )
    return worst / levels.size


@checked
def boost_repetitions(delta: float) -> int:
    """Runs that ConfidenceBoost needs at most: ceil(log2(2/delta)), so that 2^-R <= delta/2.

    Base 2: with the natural logarithm the guarantee fails (Lemma A.1).

    Examples
    --------
    >>> boost_repetitions(0.1), boost_repetitions(0.01)
    (5, 8)
    """
    return whole(math.log2(2 / check_open_fraction(delta, "delta")))


@checked
def boost_validation_size(eps: float, delta: float) -> int:
    """Fresh agents for each validation: ceil(3 ln(4R/delta) / (2 eps)).

    Examples
    --------
    >>> boost_validation_size(0.025, 0.1)
    318
    """
    r = boost_repetitions(delta)
    return whole(3 * math.log(4 * r / delta) / (2 * check_open_fraction(eps, "eps")))


@checked
def boost_rounds(rounds: int, eps: float, delta: float) -> int:
    """Most agents ConfidenceBoost uses: R (rounds + m0).

    Examples
    --------
    >>> boost_rounds(4991, 0.025, 0.1)
    26545
    """
    check_positive_int(rounds, "rounds")
    return boost_repetitions(delta) * (rounds + boost_validation_size(eps, delta))


@checked
def quantile_probe_error(n: int, rounds: int) -> float:
    """Expected error of QuantileProbe after T rounds: 4 (floor(log2 n) + 1) ln(n) / T (ours).

    Examples
    --------
    >>> round(quantile_probe_error(64, 10_000), 4)
    0.0116
    """
    return _quantile_probe_total(n) / check_positive_int(rounds, "rounds")


@checked
def quantile_probe_rounds(n: int, eps: float) -> int:
    """Rounds after which the expected error of QuantileProbe is at most eps.

    Examples
    --------
    >>> quantile_probe_rounds(64, 0.01)
    11645
    """
    return max(1, whole(_quantile_probe_total(n) / check_open_fraction(eps, "eps")))


def _quantile_probe_total(n: int) -> float:
    return 4 * (halving_mistakes(n) + 1) * math.log(n)


@checked
def proper_lower_bound(n: int, eps: float) -> float:
    """Agents that every learner with a single rule as output needs: (floor(n/2) - 1) / (6 eps).

    With x seen only afterwards, for confidence 7/8 (Theorem 2.5, "Errata" in
    docs/theory/02-strategic-finite.md).

    Examples
    --------
    >>> round(proper_lower_bound(256, 0.01))
    2117
    """
    check_int(n, "n", low=3)
    return (n // 2 - 1) / (6 * check_open_fraction(eps, "eps"))


@checked
def information_lower_bound(
    n: int, eps: float, case: Literal["conservative", "blind", "non_ball"] = "conservative"
) -> float:
    """Agents needed to identify the perfect rule with probability 3/4, with explicit constants.

    n / (192 eps (ln(16 n^2/eps) + 2)) for conservative learners who see only reported features
    (Theorem 2.7) and for unknown manipulation sets (Theorem 2.9), without the + 2 when
    nothing is seen (Theorem 2.8). Small for moderate n: look at the growth, not at the
    constant (Theorem 2.9 and corollary 2.1).

    Examples
    --------
    >>> round(information_lower_bound(256, 0.01), 1)
    6.5
    """
    check_int(n, "n", low=2)
    check_open_fraction(eps, "eps")
    check_choice(case, "case", ("conservative", "blind", "non_ball"))
    log = math.log(16 * n**2 / eps) + (0 if case == "blind" else 2)
    return n / (192 * eps * log)
