"""Guarantees on manipulation graphs with explicit constants.

Source: "Results", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, logsumexp

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_int,
    check_open_fraction,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.strategic.bounds.finite import whole

MOST_DIMENSIONS = 100_000
MOST_TERMS = 20_000_000
MOST_POINTS = 2**53


@checked
def red2online_fi_mistakes(M: float, k: int) -> float:
    """Most mistakes of ``Red2OnlineFI``: M ln(2(k+1)) / ln(4/3) (Theorem B.3).

    Examples
    --------
    >>> round(red2online_fi_mistakes(1, 4), 2)
    8.0
    """
    k = check_int(k, "k", low=0)
    return check_real(M, "M", low=0.0) * math.log(2 * (k + 1)) / math.log(4 / 3)


@checked
def red2online_pmf_mistakes(M: float, k: int) -> float:
    """Most mistakes of ``Red2OnlinePMF``: M ln(2(k+1)) / -ln(1 - 1/(4(k+1))) (Theorem 3.4).

    Examples
    --------
    >>> round(red2online_pmf_mistakes(1, 4), 2)
    44.89
    """
    k = check_int(k, "k", low=0)
    rate = -math.log1p(-1 / (4 * (k + 1)))
    return check_real(M, "M", low=0.0) * math.log(2 * (k + 1)) / rate


@checked
def unknown_graph_online_mistakes(M: float, k: int, log_G: float) -> float:
    """Most mistakes of ``UnknownGraphOnline``: log2|G| plus those of the reduction at 2k.

    Examples
    --------
    >>> round(unknown_graph_online_mistakes(1, 1, math.log(8)), 2)
    23.59
    """
    k = check_int(k, "k", low=0)
    log_G = check_real(log_G, "log_G", low=0.0)
    return log_G / math.log(2) + red2online_pmf_mistakes(M, 2 * k)


@checked
def biased_majority_mistakes(n: int, k: int) -> float:
    """Most mistakes of ``BiasedMajorityVote``: ln|H| / -ln(1 - 1/(k+2)).

    Examples
    --------
    >>> round(biased_majority_mistakes(9885, 4), 1)
    50.5
    """
    n, k = check_positive_int(n, "n"), check_int(k, "k", low=0)
    return math.log(n) / -math.log1p(-1 / (k + 2))


@checked
def vc_induced_upper(d: int, k: int, log_G: float = 0.0) -> int:
    """Largest n with n ln 2 <= ln Phi_d(n(k+1)) + log_G: bounds the VC dimension after moving.

    Examples
    --------
    >>> [vc_induced_upper(1, k) for k in (1, 2, 4, 8, 16, 64)]
    [2, 3, 4, 5, 6, 9]
    """
    d, k = check_int(d, "d", low=0), check_int(k, "k", low=0)
    log_G = check_real(log_G, "log_G", low=0.0)
    last, limit = 0, 0
    while limit < 4 * last + 64 * (d + 1) + 4 * log_G:
        limit = int(4 * last + 64 * (d + 1) + 4 * log_G) + 1
        check_size((d + 1) * limit, MOST_TERMS, "terms of a sum of binomials")
        check_size(limit * (k + 1), MOST_POINTS, "points")
        n = np.arange(1, limit + 1)
        fits = np.flatnonzero(n * math.log(2) <= _log_sauer_many(d, n * (k + 1)) + log_G + 1e-12)
        last = int(n[fits[-1]]) if fits.size else 0
    return last


@checked
def code_error(bits: int, labels: float) -> float:
    """Expected error of a rule that fits so many labels of ``binary_code_instance``.

    Each of its bits is known if its centre was seen, else guessed: (1 - 1/bits)^labels / 2.

    Examples
    --------
    >>> code_error(4, 8).__round__(4)
    0.0501
    """
    bits = check_positive_int(bits, "bits")
    return float(0.5 * (1 - 1 / bits) ** check_real(labels, "labels", low=0.0))


@checked
def pac_T_realizable(
    d: int, k: int, eps: float = 0.1, delta: float = 0.05, log_G: float = 0.0
) -> int:
    """Smallest T >= 8/eps with 2 |G| Phi_d(2T(k+1)) 2^(-eps T / 2) <= delta.

    Examples
    --------
    >>> pac_T_realizable(1, 1), pac_T_realizable(3, 64)
    (313, 1081)
    """
    d, k = check_int(d, "d", low=0), check_int(k, "k", low=0)
    eps, delta = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    log_G = check_real(log_G, "log_G", low=0.0)

    def enough(T: int) -> bool:
        left = math.log(2) + log_G + log_sauer(d, 2 * T * (k + 1)) - eps * T / 2 * math.log(2)
        return 8 / eps <= T and left <= math.log(delta)

    return _smallest(enough)


@checked
def pac_T_agnostic(d: int, k: int, eps: float = 0.1, delta: float = 0.05) -> int:
    """Smallest T with 4 Phi_d(2T(k+1)) exp(-(eps/2)^2 T / 8) <= delta.

    Examples
    --------
    >>> pac_T_agnostic(1, 1), pac_T_agnostic(3, 16)
    (53286, 156997)
    """
    d, k = check_int(d, "d", low=0), check_int(k, "k", low=0)
    eps, delta = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")

    def enough(T: int) -> bool:
        left = math.log(4) + log_sauer(d, 2 * T * (k + 1)) - (eps / 2) ** 2 * T / 8
        return left <= math.log(delta)

    return _smallest(enough)


@checked
def graph_T_realizable(k: int, log_G: float, eps: float = 0.1, delta: float = 0.05) -> int:
    """Examples after which the smallest consistent graph has loss at most eps.

    Examples
    --------
    >>> graph_T_realizable(6, math.log(64))
    1884
    """
    k = check_int(k, "k", low=0)
    eps, delta = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    log_G = check_real(log_G, "log_G", low=0.0)
    return whole(max(4 * k, 8) * (math.log(2 / delta) + log_G) / eps)


@checked
def graph_certificate(k: int, log_G: float, samples: int, delta: float = 0.05) -> float:
    """Graph loss of the smallest consistent graph after so many moves: 2 k ln(|G|/delta) / T.

    Examples
    --------
    >>> round(graph_certificate(6, math.log(64), 160), 3)
    0.537
    """
    k, samples = check_positive_int(k, "k"), check_positive_int(samples, "samples")
    log_G = check_real(log_G, "log_G", low=0.0)
    return 2 * k * (log_G + math.log(1 / check_open_fraction(delta, "delta"))) / samples


@checked
def graph_T_agnostic(k: int, log_G: float, eps: float = 0.1, delta: float = 0.05) -> int:
    """Examples after which the proxy graph has loss at most 3 k Delta_G + eps.

    Examples
    --------
    >>> graph_T_agnostic(1, math.log(100))
    14930
    """
    k = check_positive_int(k, "k")
    eps, delta = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    log_G = check_real(log_G, "log_G", low=0.0)
    return whole(18 * k**2 * (math.log(2 / delta) + log_G) / eps**2)


@checked
def unknown_graph_T1(k: int, log_G: float, eps: float = 0.1, delta: float = 0.05) -> int:
    """Size of the first sample of ``UnknownGraphPACAgnostic``: 288 k^2 ln(4|G|/delta) / eps^2.

    Examples
    --------
    >>> unknown_graph_T1(1, math.log(100)), unknown_graph_T1(4, math.log(100))
    (258832, 4141301)
    """
    k = check_positive_int(k, "k")
    eps, delta = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    log_G = check_real(log_G, "log_G", low=0.0)
    return whole(288 * k**2 * (math.log(4 / delta) + log_G) / eps**2)


@checked
def unknown_graph_T2(d: int, k: int, eps: float = 0.1, delta: float = 0.05) -> int:
    """Size of the second sample of ``UnknownGraphPACAgnostic``: deviations below eps / 4.

    Examples
    --------
    >>> unknown_graph_T2(1, 1)
    241351
    """
    eps, delta = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    return pac_T_agnostic(d, k, eps / 2, delta / 2)


@checked
def unknown_graph_slack(
    k: int, log_G: float, log_H: float, T1: int, T2: int, delta: float = 0.05
) -> float:
    """Slack of ``UnknownGraphPACAgnostic`` with |H| rules: error <= 6 k Delta_G + Delta_H + this.

    Half of delta each: the proxy of every graph is within ``3 sqrt(ln(4|G|/delta) / (2 T1))`` and
    the error of every rule within ``sqrt(ln(4|H|/delta) / (2 T2))`` of its mean.

    Examples
    --------
    >>> round(unknown_graph_slack(1, math.log(100), math.log(50), 100_000, 100_000), 3)
    0.093
    """
    k, delta = check_positive_int(k, "k"), check_open_fraction(delta, "delta")
    log_G, log_H = check_real(log_G, "log_G", low=0.0), check_real(log_H, "log_H", low=0.0)
    T1, T2 = check_positive_int(T1, "T1"), check_positive_int(T2, "T2")
    proxy = 3 * math.sqrt((math.log(4 / delta) + log_G) / (2 * T1))
    rules = math.sqrt((math.log(4 / delta) + log_H) / (2 * T2))
    return 2 * (2 * k * proxy) + 2 * rules


@checked
def unknown_graph_T_realizable(
    d: int, k: int, log_G: float, eps: float = 0.1, delta: float = 0.05
) -> int:
    """Examples after which ``UnknownGraphPACRealizable`` has error eps: half for each term.

    Examples
    --------
    >>> unknown_graph_T_realizable(1, 4, math.log(64))
    2734
    """
    eps, delta = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    graph = graph_T_realizable(k, log_G, eps / 2, delta / 2)
    return max(graph, pac_T_realizable(d, k, eps / 2, delta / 2, log_G))


@checked
def cover_hedge_doubling_regret(rounds: int, M: int) -> float:
    """Regret of ``AgnosticCoverHedge`` without a horizon: epochs of 1, 2, 4, ... rounds.

    Examples
    --------
    >>> round(cover_hedge_doubling_regret(127, 12) / cover_hedge_regret(127, 12), 2)
    1.36
    """
    rounds, M = check_positive_int(rounds, "rounds"), check_int(M, "M", low=0)
    return math.fsum(cover_hedge_regret(2**i, M) for i in range(rounds.bit_length()))


@checked
def cover_hedge_regret(rounds: int, M: int) -> float:
    """Regret of ``AgnosticCoverHedge``: sqrt(T/2 ln N), N = sum of C(T, L) for L <= M.

    Examples
    --------
    >>> round(cover_hedge_regret(100, 12), 1)
    41.7
    """
    rounds, M = check_positive_int(rounds, "rounds"), check_int(M, "M", low=0)
    return math.sqrt(rounds / 2 * log_sauer(min(M, rounds), rounds))


@checked
def log_sauer(d: int, m: int) -> float:
    """ln of Phi_d(m), the number of subsets of at most d of m points.

    Examples
    --------
    >>> round(math.exp(log_sauer(2, 5)))
    16
    """
    d, m = check_int(d, "d", low=0), check_int(m, "m", low=0)
    return float(_log_sauer_many(d, np.array([min(m, MOST_POINTS + 1)], dtype=np.int64))[0])


def _log_sauer_many(d: int, m: IntArray) -> FloatArray:
    check_size(d, MOST_DIMENSIONS, "dimensions")
    check_size((d + 1) * m.size, MOST_TERMS, "terms of a sum of binomials")
    check_size(int(m.max(initial=0)), MOST_POINTS, "points")
    i = np.arange(d + 1)[:, None]
    with np.errstate(invalid="ignore"):
        terms = gammaln(m + 1) - gammaln(i + 1) - gammaln(np.maximum(m - i, 0) + 1)
    few: FloatArray = logsumexp(np.where(i <= m, terms, -np.inf), axis=0)
    return np.where(d >= m, m * math.log(2), few)


def _smallest(enough) -> int:  # type: ignore[no-untyped-def]  # a predicate of one int
    high = 1
    while not enough(high):
        high *= 2
    low = high // 2
    while low + 1 < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high
