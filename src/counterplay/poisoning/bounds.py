"""Every guarantee of the chapter as a function that returns the number.

``log`` is base 2 and ``ln`` natural, as in the source; sample sizes are rounded up.
Source: docs/theory/10-poisoning.md (statements and proofs).
"""

from __future__ import annotations

from collections.abc import Callable
from math import asin, ceil, e, exp, floor, log, log2, pi, sin, sqrt

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    check_fraction,
    check_int,
    check_open_fraction,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.errors import InvalidInputError


@checked
def closed_interval_error(p: float, m: int) -> float:
    """Expected error of MinClosedInterval for a target interval of mass p (uniform data).

    Examples
    --------
    >>> round(closed_interval_error(0.6, 50), 4)
    0.0392
    """
    mass, n = check_fraction(p, "p"), check_int(m, "m", low=0)
    return 2 * (1 - (1 - mass) ** (n + 1)) / (n + 1) - mass * (1 - mass) ** n


@checked
def open_interval_error(margin: float, m: int) -> float:
    """Expected error of MaxOpenInterval for a target with positives (uniform data).

    ``margin`` is the mass on either side of the target; the answer ends at the next negative on
    each side, or at the end of the range.

    Examples
    --------
    >>> round(open_interval_error(0.2, 50), 4)
    0.0392
    """
    side, n = check_fraction(margin, "margin"), check_int(m, "m", low=0)
    return 2 * (1 - (1 - side) ** (n + 1)) / (n + 1)


@checked
def largest_gap_error(m: int) -> float:
    """Expected error of MaxOpenInterval when nothing is positive (uniform data): H_{m+1}/(m+1).

    Examples
    --------
    >>> round(largest_gap_error(100), 4)
    0.0515
    """
    n = check_int(m, "m", low=0)
    check_size(n, 10_000_000, "rows")
    return float(np.sum(1.0 / np.arange(1, n + 2))) / (n + 1)


@checked
def tree_order_sample_size(eps: float, delta: float, *, paper: bool = True) -> int:
    """Rows after which TreeOrderLearner has attackable rate at most eps, up to delta.

    ``paper=False`` drops the factor 2, which the proof of the tail does not need.

    Examples
    --------
    >>> tree_order_sample_size(0.1, 0.05), tree_order_sample_size(0.1, 0.05, paper=False)
    (60, 30)
    """
    a, d = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    return ceil((2 if paper else 1) * log(1 / d) / a)


@checked
def closure_sample_size(d: int, eps: float, delta: float) -> int:
    """Rows after which ClosureLearner has attackable rate at most eps: (21 d + 16 ln(3/delta))/eps.

    Examples
    --------
    >>> closure_sample_size(4, 0.1, 0.05)
    1496
    """
    a, c = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    return ceil((21 * check_int(d, "d", low=0) + 16 * log(3 / c)) / a)


@checked
def star_sample_size(s: int, eps: float, delta: float) -> int:
    """Rows after which every ERM is robust when the star number is s.

    Examples
    --------
    >>> star_sample_size(2, 0.1, 0.05)
    1076
    """
    return closure_sample_size(check_int(s, "s", low=0), eps, delta)


@checked
def union_of_intervals_sample_size(k: int, eps: float, delta: float) -> int:
    """Rows after which UnionOfIntervals has attackable rate at most eps for k intervals.

    Examples
    --------
    >>> union_of_intervals_sample_size(3, 0.1, 0.05)
    8128
    """
    n = check_positive_int(k, "k")
    a, c = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    return ceil(8 / a * log2(2 / c) + 32 * n / a * log2(26 / a))


@checked
def grid_cells(n: int, rho: float) -> int:
    """Upper bound on the cells of diameter rho that meet the unit ball in R^n.

    Examples
    --------
    >>> grid_cells(2, 0.5)
    49
    """
    dim = check_positive_int(n, "n")
    diameter = check_real(rho, "rho", low=0, open_low=True)
    check_size(2 * sqrt(dim) / diameter, 1e15, "cells on an axis")
    check_size(dim, 1000, "dimensions")
    return int((ceil(2 * sqrt(dim) / diameter) + 1) ** dim)


@checked
def cover_sample_size(cells: int, eps: float, delta: float) -> int:
    """Rows after which CoverLearner has attackable rate at most eps: V ln(V/delta)/eps.

    Examples
    --------
    >>> cover_sample_size(49, 0.1, 0.05)
    3375
    """
    v = check_positive_int(cells, "cells")
    a, c = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    return ceil(v * log(v / c) / a)


@checked
def linear2d_sample_size(eps: float, delta: float) -> int:
    """Rows after which every consistent half-plane has error at most eps (VC dimension 3).

    Examples
    --------
    >>> linear2d_sample_size(0.1, 0.05)
    1899
    """
    a, c = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    return ceil(24 / a * log2(13 / a) + 4 / a * log2(2 / c))


@checked
def dyadic_rate(eps1: float, eps2: float, f: float) -> float:
    """Attackable rate of DyadicDirectionLearner: 2 e' log(32 / min(f, 2)) + 2 e''.

    ``f`` is the width f(e'') of the strip around the boundary that has mass at most e''.

    Examples
    --------
    >>> round(dyadic_rate(0.005, 0.0, 0.05), 4)
    0.0932
    """
    a, b = check_fraction(eps1, "eps1"), check_fraction(eps2, "eps2")
    width = check_real(f, "f", low=0, open_low=True)
    return 2 * a * log2(32 / min(width, 2.0)) + 2 * b


@checked
def dyadic_margin_sample_size(gamma: float, eps: float, delta: float) -> int:
    """Rows after which DyadicDirectionLearner has attackable rate at most eps, margin gamma.

    Examples
    --------
    >>> dyadic_margin_sample_size(0.1, 0.1, 0.05)
    54276
    """
    g = check_real(gamma, "gamma", low=0, high=2, open_low=True)
    a, c = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    width = log2(64 / g)
    return ceil(48 * width / a * log2(26 * width / a) + 8 * width / a * log2(2 / c))


@checked
def block_majority_sample_size(t: int, d: int, eps: float, delta: float) -> int:
    """Rows after which BlockMajority has t-point attackable rate at most eps.

    Examples
    --------
    >>> block_majority_sample_size(1, 1, 0.1, 0.05)
    1186999
    """
    n, dim = check_positive_int(t, "t"), check_positive_int(d, "d")
    a, c = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    block = 960 * dim / a * log(2640 * e * n * dim / a) + 19 * dim * log(1 / c) / (a * n) + 1
    return ceil((10 * n + 1) * block)


@checked
def projected_majority_sample_size(t: int, d: int, k_p: int, eps: float, delta: float) -> int:
    """Rows after which ProjectedMajority has t-point attackable rate at most eps.

    Examples
    --------
    >>> projected_majority_sample_size(1, 1, 3, 0.1, 0.05)
    11961862
    """
    n, dim, k = check_positive_int(t, "t"), check_positive_int(d, "d"), check_int(k_p, "k_p", low=2)
    a, c = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    first = 960 * dim * k / a * log(2640 * e * n * dim * k**2 / a)
    return ceil((10 * k * n + 1) * (first + 19 * dim * log(1 / c) / (a * n) + 1))


@checked
def subsample_sample_size(t: int, d: int, eps: float, delta: float) -> int:
    """Rows after which SubsampleERM has t-point attackable rate at most eps.

    Examples
    --------
    >>> subsample_sample_size(1, 1, 0.1, 0.05)
    3242357
    """
    n, dim = check_positive_int(t, "t"), check_positive_int(d, "d")
    a, c = check_open_fraction(eps, "eps"), check_open_fraction(delta, "delta")
    return ceil(
        3 * n / a * (1120 * dim / a * log(560 * e * dim / a) + 72 * dim * log(1 / c) / n + 1)
    )


@checked
def optimal_pac_constant(rate: Callable[[int], float], *, limit: int = 10_000_000) -> float:
    """Constant c with ``atk <= (c/m) log(2/delta)`` for a learner of median attackable rate R.

    Use it to turn a measured rate into a tail bound, or to show that a learner whose error falls
    like log(m)/m cannot be robust.

    Parameters
    ----------
    rate:
        Non-increasing function R from sample sizes to [0, 1] that tends to 0.
    limit:
        Largest sample size at which R is evaluated.

    Examples
    --------
    >>> round(optimal_pac_constant(lambda m: 1 / m), 1)
    33.6
    >>> round(optimal_pac_constant(lambda m: 10 / m), 1)
    132.0
    """
    smallest = max(3.0, 16 * log(3 * e))
    cap = check_int(limit, "limit", low=3)
    best, previous, k = 0.0, 1.0, 0
    while k < cap:
        k += 1
        value = min(1.0, float(rate(k)))
        if not 0.0 <= value <= previous + 1e-12:
            raise InvalidInputError(f"rate must be non-increasing within [0, 1], see rate({k})")
        previous = value
        # On a in [k, k+1) the supremum of a' R(floor a') is max(best, a R(k)); R'(a) decreases
        # in a while best dominates, so the smallest a with R'(a) <= 1/9 is max(k, 9 best).
        if k + 1 > 0.75 * smallest and value <= 1 / 9:
            a = max(float(k), 9 * best, 0.75 * smallest)
            if a < k + 1:
                return max(smallest, 4 * a / 3)
        best = max(best, (k + 1) * value)
    raise InvalidInputError(f"the rate does not fall fast enough below m = {cap}; raise limit")


@checked
def amplified_size(m: int, delta: float) -> int:
    """Sample size m / ceil(log(1/delta)) whose median rate holds with probability 1 - delta.

    Examples
    --------
    >>> amplified_size(1000, 0.01)
    142
    """
    n, c = check_positive_int(m, "m"), check_open_fraction(delta, "delta")
    return n // ceil(-log2(c))


@checked
def expectation_to_tail(c: float) -> tuple[float, float]:
    """If the mean attackable rate over targets is 2c, some target has mean c and a heavy tail.

    Returns the level c/2 and the least probability c/(2 - c) of exceeding it.

    Examples
    --------
    >>> expectation_to_tail(0.25)
    (0.125, 0.14285714285714285)
    """
    value = check_open_fraction(c, "c")
    return value / 2, value / (2 - value)


@checked
def hollow_star_rate(k: int, m: int) -> float:
    """Mean attackable rate of the lowest-index learner on singletons: (1/2)(1 - 1/(k-1))^m.

    Examples
    --------
    >>> round(hollow_star_rate(11, 5), 4)
    0.2952
    """
    return 0.5 * (1 - 1 / (check_int(k, "k", low=2) - 1)) ** check_int(m, "m", low=0)


@checked
def sphere_reflection_rate(eta: float, m: int) -> float:
    """Probability that the two-circle attack is possible: (1 - phi/pi)^m.

    Every learner has expected attackable rate at least half of it.

    Examples
    --------
    >>> round(sphere_reflection_rate(sphere_reflection_eta(0.01, 30), 30), 4)
    0.98
    """
    n = check_int(m, "m", low=0)
    width = check_real(eta, "eta", low=0, high=1 / 6, open_low=True, open_high=True)
    return float((1 - 2 * asin(sqrt(width / 2)) / pi) ** n)


@checked
def sphere_reflection_eta(tol: float, m: int) -> float:
    """Width eta with which every learner has rate at least 1/2 - tol on two tangent circles.

    Examples
    --------
    >>> f"{sphere_reflection_eta(0.01, 30):.3g}"
    '2.24e-06'
    """
    n = check_positive_int(m, "m")
    slack = check_real(tol, "tol", low=0, high=0.5, open_low=True, open_high=True)
    phi = pi * (1 - (1 - 2 * slack) ** (1 / n))
    return 2 * sin(phi / 2) ** 2


@checked
def chain_rate(m: int) -> float:
    """Rate every learner has on the chain with 2m points, without the edge effect.

    Examples
    --------
    >>> [round(chain_rate(m), 4) for m in (1, 2, 3, 4)]
    [0.25, 0.2812, 0.2894, 0.2931]
    """
    n = check_positive_int(m, "m")
    return 0.5 * (1 - 1 / (2 * n)) ** n


@checked
def one_point_svm_size(n: int, eps: float) -> float:
    """Sample size below which one clean point breaks the SVM: max(e^{n/128}/768, 1/8)/eps.

    Examples
    --------
    >>> one_point_svm_size(50, 0.01)
    12.5
    """
    dim = check_positive_int(n, "n")
    return max(exp(min(dim / 128, 700.0)) / 768, 1 / 8) / check_open_fraction(eps, "eps")


@checked
def circle_rate(m: int, t: int, d: int, *, paper: bool = True) -> float:
    """Rate every learner has against t clean points on d spheres: min(3 t d/(64 m), 3/8).

    ``paper=False`` takes the constant that the proof gives (Theorem 10.10), 7/16 instead of 3/8.

    Examples
    --------
    >>> round(circle_rate(200, 4, 1), 5), round(circle_rate(200, 4, 1, paper=False), 5)
    (0.00094, 0.00109)
    """
    rows, budget = check_positive_int(m, "m"), check_int(t, "t", low=0)
    share = 3 if paper else 3.5  # eighths of the mass min(t d / (8 m), 1) of all circles
    return min(share * budget * check_positive_int(d, "d") / (64 * rows), share / 8)


@checked
def subsample_size(m: int, t: int, eps: float) -> int:
    """Rows SubsampleERM draws: floor(m eps / (3 t)).

    Examples
    --------
    >>> subsample_size(3000, 1, 0.1)
    100
    """
    rows, budget = check_int(m, "m", low=0), check_positive_int(t, "t")
    # floor of a float product errs by one at exact multiples; nudge by a relative 1e-12
    return floor(rows * check_open_fraction(eps, "eps") / (3 * budget) * (1 + 1e-12))
