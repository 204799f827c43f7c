"""Every guarantee of learning under transformations as a function that returns the number.

Sample sizes are sufficient and far from tight: real curves need about a thousand times fewer
points. Exact curves of the constructions are exact. log is base 2, ln is natural.
Source: docs/theory/11-invariance.md (statements and proofs).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import stats

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    check_fraction,
    check_int,
    check_open_fraction,
    check_positive_int,
    check_real,
)
from counterplay.errors import InvalidInputError
from counterplay.invariance.errors import SampleTooSmallError

_LARGEST_D = 256  # a power of a (d + 1) x (d + 1) matrix is taken


@checked
def expected_error(dimension: float, n: int) -> float:
    """Expected error of a one-inclusion learner after n samples: dimension / (n + 1), at most 1.

    The dimension is VCo (invariant setting), VCao (relaxed) or mu (orbit-only learners).

    Examples
    --------
    >>> expected_error(2, 19)
    0.1
    """
    d = check_real(dimension, "dimension", low=0.0)
    return min(1.0, d / (check_int(n, "n", low=0) + 1))


@checked
def booster_sizes(d: float, eps: float, delta: float) -> tuple[int, int, int]:
    """Runs, points per run and validation points of the confidence booster.

    Examples
    --------
    >>> runs, size, validation = booster_sizes(5, 0.1, 0.05)
    >>> runs * size + validation
    3004
    """
    dimension = check_real(d, "d", low=0.0)
    eps, delta = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    runs = _runs(delta)
    size = _whole(4 * dimension / eps - 1e-9)
    validation = _whole((32 / eps) * (math.log(2 / delta) + math.log(runs + 1)))
    return runs, size, validation


@checked
def m_oig(d: float, eps: float, delta: float) -> int:
    """Samples that suffice for a boosted one-inclusion learner of dimension d.

    Examples
    --------
    >>> m_oig(1, 0.1, 0.05), m_oig(5, 0.01, 0.05)
    (2044, 30032)
    """
    runs, size, validation = booster_sizes(d, eps, delta)
    return runs * size + validation


@checked
def m_da(d: int, eps: float, delta: float) -> int:
    """Samples that suffice for data augmentation (invariant setting) or ErmInv (relaxed), d = VCao.

    The least m with m >= (8/eps)(d log^2 m log(2em/d) + log(4/delta) + e) + 4 beyond which it
    always holds (Theorem 11.1). Sufficient, far from tight.

    Examples
    --------
    >>> m_da(1, 0.1, 0.05), m_da(5, 0.1, 0.05)
    (649516, 4305315)
    """
    dimension = check_int(d, "d", low=0)
    eps, delta = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")

    def right_side(m: float) -> float:
        growth = 0.0
        if dimension:
            growth = dimension * math.log2(m) ** 2 * math.log2(2 * math.e * m / dimension)
        return (8 / eps) * (growth + math.log2(4 / delta) + math.e) + 4

    return _fixed_point(right_side, max(2.0, float(dimension)))


@checked
def m_erminv_agnostic(d: int, eps: float, delta: float, constant: float = 64.0) -> int:
    """Samples that suffice for ErmInv in the agnostic setting: error at most best + 3 eps / 2.

    The source has the constant 32; its proof needs 64 (Theorem 11.8), the default here.

    Examples
    --------
    >>> m_erminv_agnostic(1, 0.1, 0.05, constant=32.0) < m_erminv_agnostic(1, 0.1, 0.05)
    True
    """
    dimension = check_int(d, "d", low=0)
    eps, delta = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    factor = check_real(constant, "constant", low=0.0, open_low=True)

    def right_side(m: float) -> float:
        growth = 0.0
        if dimension:
            growth = dimension * math.log2(m) ** 2 * math.log(2 * math.e * m / dimension)
        return (factor / eps**2) * (growth + math.log(8 / delta) + 1) + (8 / eps) * math.log2(
            8 / delta
        )

    return _fixed_point(right_side, max(2.0, float(dimension)))


@checked
def m_orbit_only(k: int, eps: float, delta: float, c: float = 1.0) -> int:
    """Rate of the boosted orbit-only learner: c / eps (k log^2(k / eps) + log(1 / delta)).

    k = t - 1 for a t with 1/6 <= mu(t)/t <= 1/3 (Theorem 11.5, second part). The theory does not
    give the constant c; the value is a rate.

    Examples
    --------
    >>> m_orbit_only(5, 0.1, 0.05)
    1636
    """
    size = check_int(k, "k", low=1)
    eps, delta = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    factor = check_real(c, "c", low=0.0, open_low=True)
    return _whole(factor / eps * (size * math.log2(size / eps) ** 2 + math.log2(1 / delta)))


@checked
def known_eta_sizes(m: int, delta: float) -> tuple[int, int, int]:
    """Block size n, number of blocks and validation points that m samples allow.

    Examples
    --------
    >>> [known_eta_sizes(m, 0.1) for m in (500, 1000, 5000)]
    [(10, 5, 422), (22, 5, 881), (114, 5, 4405)]
    """
    total = check_int(m, "m", low=0)
    runs = _runs(check_open_fraction(delta, "delta"))
    factor = math.log(2 / delta) + math.log(runs + 1)

    def needed(n: int) -> int:
        return n * runs + math.ceil(8 * (n + 1) * factor)

    if total < needed(0):
        raise SampleTooSmallError(
            f"at least {needed(0)} samples are needed, got {total}; collect more, or use "
            "practical=True",
            needed=needed(0),
        )
    n = int((total - 8 * factor) / (runs + 8 * factor))
    while needed(n + 1) <= total:
        n += 1
    while needed(n) > total:
        n -= 1
    return n, runs, math.ceil(8 * (n + 1) * factor)


@checked
def invariance_slack(n: int) -> float:
    """Smallest slack Delta = sqrt(ln(n + 1) / (2 (n + 1))) for blocks of n points; 1 for n = 0.

    Examples
    --------
    >>> round(invariance_slack(20), 4)
    0.2692
    """
    size = check_int(n, "n", low=0)
    return math.sqrt(math.log(size + 1) / (2 * (size + 1))) if size else 1.0


@checked
def known_eta_error(dimension: float, n: int) -> float:
    """Error of KnownEta with probability 1 - delta: 4 (VCo^(eta + Delta) + 1) / (n + 1).

    Examples
    --------
    >>> known_eta_error(1.0, 99)
    0.08
    """
    d = check_real(dimension, "dimension", low=0.0)
    return min(1.0, 4 * (d + 1) / (check_int(n, "n", low=0) + 1))


@checked
def alpha_boost_rounds(n: int) -> int:
    """Rounds after which the vote is right on n points: max(1, ceil(17 ln n)).

    Examples
    --------
    >>> alpha_boost_rounds(50)
    67
    """
    return max(1, math.ceil(17 * math.log(check_positive_int(n, "n"))))


@checked
def agnostic_compression_bound(
    opt: float, d: int, m: int, delta: float, n_kept: int | None = None, c: float = 1.0
) -> float:
    """Error of AgnosticCompression: opt + c sqrt((opt + sqrt(log(2/delta)/m)) B) + c B.

    B = (3 d ceil(17 ln n_kept) log m + log(1/delta)) / m. The constant c is not given by the
    theory; the value is a rate, capped at 1.

    Examples
    --------
    >>> agnostic_compression_bound(0.1, 1, 10**6, 0.05) < 0.2
    True
    """
    best = check_fraction(opt, "opt")
    dimension, size = check_int(d, "d", low=0), check_positive_int(m, "m")
    delta = check_open_fraction(delta, "delta")
    factor = check_real(c, "c", low=0.0)
    rounds = alpha_boost_rounds(size if n_kept is None else check_positive_int(n_kept, "n_kept"))
    B = (3 * dimension * rounds * math.log2(size) + math.log2(1 / delta)) / size
    noise = best + math.sqrt(math.log2(2 / delta) / size)
    return min(1.0, best + factor * math.sqrt(noise * B) + factor * B)


@checked
def proper_error(d: int, eps: float, m: int) -> float:
    """Exact expected error of every proper consistent learner on ``da_lower_bound`` after m points.

    Examples
    --------
    >>> round(proper_error(6, 1 / 64, 24), 4)
    0.0628
    """
    seen = _seen_law(d, eps, m)
    k = np.arange(d + 1)
    return float(seen @ (16 * eps * (d - k) / (2 * d - k)))


@checked
def proper_tail(d: int, eps: float, m: int) -> float:
    """Exact probability that a proper learner (random ties) has error above eps there.

    Examples
    --------
    >>> proper_tail(8, 1 / 64, 8) > 0.99
    True
    """
    seen = _seen_law(d, eps, m)
    total = 0.0
    for k in range(d + 1):
        # Of the d - k points still to be guessed among 2d - k, this many are hit.
        missed = d - k - np.arange(d - k + 1)
        law = stats.hypergeom(2 * d - k, d - k, d - k).pmf(np.arange(d - k + 1))
        total += float(seen[k] * law[16 * missed > d + 1e-9].sum())
    return total


@checked
def proper_least_m(d: int, eps: float) -> int:
    """Least m with expected error at most eps there; m eps / d tends to ln(15)/16 = 0.1693.

    Examples
    --------
    >>> round(proper_least_m(8, 1 / 64) / 64 / 8, 4)
    0.1621
    """
    low, high = 0, 1
    while proper_error(d, eps, high) > eps:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if proper_error(d, eps, middle) > eps:
            low = middle
        else:
            high = middle
    return high if proper_error(d, eps, low) > eps else low


@checked
def proper_limit(d: int, eps: float) -> float:
    """What ``proper_least_m`` tends to for large d: ln(15)/16 d / eps samples.

    Examples
    --------
    >>> round(proper_limit(8, 1 / 64), 1)
    86.7
    """
    return math.log(15) / 16 * check_positive_int(d, "d") / check_open_fraction(eps, "eps")


@checked
def proper_fails_below(d: int, eps: float) -> float:
    """Samples d / (64 eps) below which a proper learner fails with probability 1/9 (Theorem 11.2).

    Examples
    --------
    >>> proper_fails_below(8, 1 / 64)
    8.0
    """
    return check_positive_int(d, "d") / (64 * check_open_fraction(eps, "eps"))


@checked
def blind_error(d: int, eps: float, m: int) -> float:
    """Exact expected error of ERM on ``da_helps``: 8 eps (1 - 16 eps / (d - 1))^m.

    Examples
    --------
    >>> round(blind_error(21, 1 / 64, 20), 4)
    0.0972
    """
    n = check_int(d, "d", low=2)
    e = check_real(eps, "eps", low=0.0, high=1 / 16, open_low=True)
    return 8 * e * (1 - 16 * e / (n - 1)) ** check_int(m, "m", low=0)


@checked
def blind_heavy_error(eps: float, m: int) -> float:
    """What random ties of ERM add to ``blind_error``: (1 - 16 eps) / 2 (16 eps)^m.

    The heavy point of ``da_helps`` is unseen with probability (16 eps)^m and is guessed then; a
    learner that predicts 0 there does not pay this.

    Examples
    --------
    >>> round(blind_heavy_error(1 / 64, 2), 4)
    0.0234
    """
    e = check_real(eps, "eps", low=0.0, high=1 / 16, open_low=True)
    return float((1 - 16 * e) / 2 * (16 * e) ** check_int(m, "m", low=0))


@checked
def birds_error(K: int, n: int) -> float:
    """Exact expected error of the best orbit-only learner on K birds: (1 - 1/K)^n / 2.

    Examples
    --------
    >>> birds_error(5, 4)
    0.2048
    """
    orbits = check_positive_int(K, "K")
    return float(round(0.5 * (1 - 1 / orbits) ** check_int(n, "n", low=0), 15))


@checked
def agnostic_excess(d: int, gamma: float, m: int) -> float:
    """Exact mean excess error of ERM on ``agnostic_lower_bound`` with large blocks.

    Examples
    --------
    >>> round(agnostic_excess(4, 0.2, 20) / 0.1, 3)   # gamma = 2 eps, m = 0.05 d / eps^2
    0.737
    """
    blocks = check_positive_int(d, "d")
    bias = check_real(gamma, "gamma", low=0.0, high=0.5)
    size = check_int(m, "m", low=0, high=10**7)
    n = np.arange(size + 1)
    law = stats.binom(size, 1 / blocks).pmf(n)
    half = np.where(n % 2 == 0, n // 2, -1)
    below = stats.binom.cdf(np.ceil(n / 2) - 1, n, 0.5 + bias)
    equal = np.where(half >= 0, stats.binom.pmf(np.maximum(half, 0), n, 0.5 + bias), 0.0)
    below[0], equal[0] = 0.0, 1.0
    return float(2 * bias * (law @ (below + equal / 2)))


def _seen_law(d: int, eps: float, m: int) -> FloatArray:
    """Distribution of the number of distinct points of u* among m samples."""
    n = check_int(d, "d", low=1, high=_LARGEST_D)
    e = check_real(eps, "eps", low=0.0, high=1 / 16, open_low=True)
    steps = check_int(m, "m", low=0, high=1 << 62)
    p = 16 * e / n
    k = np.arange(n + 1)
    matrix = np.diag(1 - (n - k) * p) + np.diag((n - k[:-1]) * p, 1)
    law: FloatArray = np.linalg.matrix_power(matrix, steps)[0]
    return law


def _runs(delta: float) -> int:
    return math.ceil(math.log2(2 / delta) - 1e-12)


def _whole(value: float) -> int:
    """Return the next whole number; refuse sizes beyond those that floats tell apart."""
    if not value < 1 << 53:
        raise InvalidInputError(
            "more than 2^53 samples: eps or delta is too small, or the dimension too large"
        )
    return math.ceil(value)


def _fixed_point(right_side: Callable[[float], float], start: float) -> int:
    m = right_side(start)
    for _ in range(200):
        _whole(m)
        following = right_side(m)
        if abs(following - m) < 1e-9 * m:
            break
        m = following
    value = _whole(m - 1e-6)
    while right_side(value) > value:
        value += 1
    return value
