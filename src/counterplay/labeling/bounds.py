"""Guarantees of joint labelling campaigns as functions.

Source: docs/theory/06-labeling.md, "Results".
"""

from __future__ import annotations

import math

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    check_int,
    check_open_fraction,
    check_positive_int,
    check_real,
)


@checked
def gbs_queries(optimum: float, smallest_prior: float) -> float:
    """Most expected queries of GBS: 4 Q* ln(1 / min prior) (Lemma 6.1; Dasgupta 2004).

    Examples
    --------
    >>> round(gbs_queries(3.0, 1 / 8), 2)
    24.95
    """
    smallest = check_real(smallest_prior, "smallest_prior", low=0.0, high=1.0, open_low=True)
    return 4.0 * check_real(optimum, "optimum", low=0.0) * math.log(1.0 / smallest)


@checked
def sir_total(ir_total: float, eps: float, m: int, largest_partial: float) -> float:
    """Expected total of the SIR mixture: at most (1 - eps/m) Q(IR) + eps/m * max Q(O_i).

    With ``largest_partial <= m`` it is at most Q(IR) + eps (Lemma 6.2).

    Examples
    --------
    >>> sir_total(ir_total=4.0, eps=0.5, m=10, largest_partial=10.0)
    4.3
    """
    share = check_real(eps, "eps", low=0.0, high=float(check_positive_int(m, "m"))) / m
    ir = check_real(ir_total, "ir_total", low=0.0)
    return (1.0 - share) * ir + share * check_real(largest_partial, "largest_partial", low=0.0)


@checked
def sir_slack(eps: float, k: int, m: int, gap: float) -> float:
    """What agent i gains at least in the SIR mixture: eps / (k m) times her gain under O_i.

    Examples
    --------
    >>> sir_slack(eps=1.0, k=2, m=9, gap=0.5)
    0.027777777777777776
    """
    share = check_real(eps, "eps", low=0.0) / (
        check_positive_int(k, "k") * check_positive_int(m, "m")
    )
    return share * check_real(gap, "gap", low=0.0)


@checked
def pruned_queries(alone: float, smallest_prior: float) -> float:
    """Most expected queries of the agent whom a pruned protocol favours: a_i - min prior.

    If the class is no full product across the cut; else exactly ``alone`` (Lemma 6.3, sharpened).

    Examples
    --------
    >>> pruned_queries(2.0, 1 / 8)
    1.875
    """
    smallest = check_real(smallest_prior, "smallest_prior", low=0.0, high=1.0, open_low=True)
    return check_real(alone, "alone", low=0.0) - smallest


@checked
def counterexample_joint(n: int, delta: float = 0.0) -> float:
    """Agent 1's expected queries under joint GBS on ``gbs_counterexample(n, delta)``.

    About n/4 + 11/8: every level adds a quarter of a query (Proposition 6.B).

    Examples
    --------
    >>> round(counterexample_joint(40), 4)
    11.375
    """
    n, delta = check_int(n, "n", low=3), _check_delta(delta)
    return n / 4 + 11 / 8 - 7 / 8 * 3.0 ** (1 - n) + 2 * delta * (n - 2)


@checked
def counterexample_alone(n: int, delta: float = 0.0) -> float:
    """Agent 1's expected queries alone on ``gbs_counterexample(n, delta)``; tends to 8/3 + 2 delta.

    Source: Proposition 6.B.

    Examples
    --------
    >>> round(counterexample_alone(40), 4)
    2.6667
    """
    n, delta = check_int(n, "n", low=3), _check_delta(delta)
    return 8 / 3 - 9 / 8 * 3.0 ** (1 - n) + 2 * delta


def _check_delta(delta: float) -> float:
    return check_real(delta, "delta", low=0.0, high=1 / 24, open_high=True)


@checked
def monte_carlo_width(pool_size: int, k: int, n_targets: int, delta: float) -> float:
    """Width of the one-sided bound of ``safe_violators_mc``: |X_i| sqrt(2 ln(k / delta) / M).

    Examples
    --------
    >>> round(monte_carlo_width(pool_size=5, k=2, n_targets=1000, delta=0.05), 4)
    0.4295
    """
    k = check_positive_int(k, "k")
    ratio = k / check_open_fraction(delta, "delta")
    targets = check_positive_int(n_targets, "n_targets")
    return check_positive_int(pool_size, "pool_size") * math.sqrt(2.0 * math.log(ratio) / targets)


@checked
def empirical_bernstein_width(
    pool_size: int, k: int, n_targets: int, delta: float, variance: float
) -> float:
    """Width of the other bound of ``safe_violators_mc``, for a sample of the given variance.

    ``sqrt(2 V ln(2 k / delta) / M) + 14 |X_i| ln(2 k / delta) / (3 (M - 1))``: Maurer and Pontil
    (2009) for differences in an interval of length 2 |X_i|; infinite for a single target.

    Examples
    --------
    >>> round(empirical_bernstein_width(5, k=2, n_targets=1000, delta=0.05, variance=1.0), 3)
    0.196
    """
    size, k = check_positive_int(pool_size, "pool_size"), check_positive_int(k, "k")
    log = math.log(2 * k / check_open_fraction(delta, "delta"))
    M = check_positive_int(n_targets, "n_targets")
    if M == 1:
        return math.inf
    spread = math.sqrt(2 * check_real(variance, "variance", low=0.0) * log / M)
    return spread + 14 * size * log / (3 * (M - 1))


@checked
def halfspace_labelings(m: int) -> int:
    """Labelings of m points in general position in the plane by halfspaces: m(m-1) + 2.

    Examples
    --------
    >>> halfspace_labelings(200)
    39802
    """
    m = check_positive_int(m, "m")
    return m * (m - 1) + 2


@checked
def adjudication_error(noise: float, first_to: int) -> float:
    """Chance that the wrong one of two labels is the first to get ``first_to`` answers.

    Each answer is wrong with chance ``noise``, independently; with more classes it is a bound.

    Examples
    --------
    >>> [round(adjudication_error(0.15, r), 4) for r in (1, 2, 3, 4)]
    [0.15, 0.0607, 0.0266, 0.0121]
    """
    check_real(noise, "noise", low=0.0, high=1.0)
    check_positive_int(first_to, "first_to")
    ways = sum(math.comb(first_to - 1 + j, j) * (1.0 - noise) ** j for j in range(first_to))
    return noise**first_to * ways
