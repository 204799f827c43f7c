"""How many of N labels are wrong, from a random sample that may be looked at after every answer.

Items are checked in uniformly random order. The evidence against "m of the N labels are wrong" is
the ratio of a Beta mixture and the true likelihood of what was seen; for the true m it is a
martingale with mean 1, so it exceeds 1/alpha with probability at most alpha, however often one
looks (Waudby-Smith & Ramdas 2020).
Source: docs/theory/24-campaign.md, "The audit".
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betaln, gammaln

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, IntArray, check_int, check_open_fraction

_SHAPE = 0.5
"""First parameter of the Beta mixture; the second is 5 / (2 max_error)."""


@checked
def allowed_wrong(n: int, max_error: float) -> int:
    """Most wrong labels among ``n`` that are a share of at most ``max_error``.

    Examples
    --------
    >>> allowed_wrong(100, 0.29), allowed_wrong(189, 0.05)
    (29, 9)
    """
    share = check_open_fraction(max_error, "max_error")
    return math.floor(share * check_int(n, "n", low=0) + 1e-9)


def log_evidence(
    m: IntArray | int,
    population: int,
    checked_items: IntArray | int,
    wrong: IntArray | int,
    max_error: float,
) -> FloatArray:
    """Logarithm of the evidence against exactly ``m`` wrong labels in the population.

    Parameters
    ----------
    m:
        Numbers of wrong labels, each between ``wrong`` and ``population - checked_items + wrong``.
    population:
        Number of labels.
    checked_items:
        How many were checked, in random order.
    wrong:
        How many of these were wrong.
    max_error:
        The share that is to be shown; it shapes the mixture.

    Examples
    --------
    >>> float(np.exp(log_evidence(10, 200, 0, 0, 0.05)))
    1.0
    """
    t, k, b = checked_items, wrong, 2.5 / max_error
    m = np.asarray(m, dtype=np.int64)
    mixture = betaln(_SHAPE + k, b + t - k) - betaln(_SHAPE, b)
    result: FloatArray = mixture - (_log_choose(population - t, m - k) - _log_choose(population, m))
    return result


def is_rejected(
    m: int, population: int, checked_items: int, wrong: int, max_error: float, alpha: float
) -> bool:
    """Whether "at least ``m`` wrong labels" is refuted at level ``alpha``.

    ``m`` must exceed the estimate N K / t: a smaller number is refuted for being too small.

    Examples
    --------
    >>> is_rejected(101, 2000, 65, 0, 0.05, 0.05), is_rejected(101, 2000, 300, 45, 0.05, 0.05)
    (True, False)
    """
    t, k = checked_items, wrong
    if m > population - (t - k):  # more wrong labels than are left
        return True
    if t == 0 or m * t <= k * population:
        return False
    return bool(log_evidence(m, population, t, k, max_error) >= -math.log(alpha))


def most_wrong(
    population: int, checked_items: int, wrong: int, max_error: float, alpha: float
) -> int:
    """Largest number of wrong labels in the population that is not refuted at level ``alpha``.

    Examples
    --------
    >>> most_wrong(2000, 65, 0, 0.05, 0.05)
    100
    """
    t, k = checked_items, wrong
    # below N K / t nothing is refuted, above it the evidence increases: bisection
    low = max(k, -(-k * population // t) - 1 if t else population)
    high = population - (t - k)
    if low >= high:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if is_rejected(middle, population, t, k, max_error, alpha):
            high = middle - 1
        else:
            low = middle
    return low


def is_too_bad(
    allowed: int, population: int, checked_items: int, wrong: int, max_error: float, alpha: float
) -> bool:
    """Whether "at most ``allowed`` wrong labels" is refuted at level ``alpha``.

    Examples
    --------
    >>> is_too_bad(100, 2000, 60, 20, 0.05, 0.05)
    True
    """
    t, k = checked_items, wrong
    if allowed < k:
        return True
    if t == 0 or allowed * t >= k * population:
        return False
    return bool(log_evidence(allowed, population, t, k, max_error) >= -math.log(alpha))


@checked
def fewest_checks(
    population: int, *, max_error: float = 0.05, alpha: float = 0.05, wrong: int = 0
) -> int:
    """Smallest number of checks that can show the share ``max_error``, with ``wrong`` found.

    Wrong labels that are found are corrected, so each raises the number to refute by one.

    Examples
    --------
    >>> [fewest_checks(n) for n in (200, 600, 2000, 10**6)]
    [52, 61, 65, 67]
    >>> fewest_checks(189, alpha=0.025, wrong=1)
    94
    """
    n, k = check_int(population, "population", low=1), check_int(wrong, "wrong", low=0)
    m = allowed_wrong(n, max_error) + k + 1
    level = check_open_fraction(alpha, "alpha")
    low, high = min(k, n), n
    while low < high:  # the evidence grows with every further right label
        middle = (low + high) // 2
        if is_rejected(m, n, middle, k, max_error, level):
            high = middle
        else:
            low = middle + 1
    return low


def _log_choose(n: IntArray | int, k: IntArray) -> FloatArray:
    result: FloatArray = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return result
