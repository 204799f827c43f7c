"""Every guarantee of the chapter as a function that returns the number.
Source: Theorems 4.3 and 4.4, Propositions 4.A and 4.G, Lemma 4.1, see
docs/theory/04-contribution.md.
"""

from __future__ import annotations

from math import log, sqrt

from scipy.optimize import brentq

from counterplay.core.arguments import checked
from counterplay.core.validation import check_int, check_positive_int, check_real


@checked
def flower_linear_opt(s: int) -> float:
    """Cheapest total of the linear flower: the core brings ``s``.

    Examples
    --------
    >>> flower_linear_opt(4)
    4.0
    """
    return float(_check(s))


@checked
def flower_petal(s: int) -> float:
    """What each petal brings in the stable plan of the linear flower: ``s/(2s-1)``.

    On the coverage flower it is a lower bound.

    Examples
    --------
    >>> round(flower_petal(4), 6)
    0.571429
    """
    return _check(s) / (2 * s - 1)


@checked
def flower_linear_stable(s: int) -> float:
    """Total of the stable plan of the linear flower: ``b s/(2s-1)``, all from petals.

    Examples
    --------
    >>> round(flower_linear_stable(4), 6)
    9.142857
    """
    return _check(s) ** 3 / (2 * s - 1)


@checked
def flower_linear_envy_free(s: int) -> float:
    """Cheapest envy-free total of the linear flower: everybody brings 1/2.

    Examples
    --------
    >>> flower_linear_envy_free(4)
    8.5
    """
    return (_check(s) ** 2 + 1) / 2


@checked
def flower_linear_pos(s: int) -> float:
    """Price of stability of the linear flower, ``b/(2s-1)``: about ``sqrt(k)/2``.

    Examples
    --------
    >>> round(flower_linear_pos(10), 6)
    5.263158
    """
    return _check(s) ** 2 / (2 * s - 1)


@checked
def flower_linear_pof(s: int) -> float:
    """Price of fairness of the linear flower, ``(b+1)/(2s)``: about ``sqrt(k)/2``.

    Examples
    --------
    >>> flower_linear_pof(10)
    5.05
    """
    return (_check(s) ** 2 + 1) / (2 * s)


@checked
def flower_coverage_relaxed_opt(s: int) -> float:
    """Value of the convex relaxation of the coverage flower: ``ln(1-1/s)/ln(1-1/b)``.

    Its ceiling is the whole-number optimum.

    Examples
    --------
    >>> round(flower_coverage_relaxed_opt(3), 4)
    3.4425
    """
    return log(1 - 1 / _check(s)) / log(1 - 1 / s**2)


@checked
def flower_coverage_core_only(s: int) -> float:
    """Samples of the core alone that satisfy everybody, the last one fractional.

    Examples
    --------
    >>> round(flower_coverage_core_only(3), 4)
    3.457
    """
    whole = int(flower_coverage_relaxed_opt(s))
    keep = (1 - 1 / s**2) ** whole
    return whole + s**2 * (1 - (1 - 1 / s) / keep)


@checked
def flower_coverage_stable(s: int) -> float:
    """Total of the stable plan of the coverage flower; the core brings nothing.

    All petals bring ``theta`` with ``(1/s) z^s + (1-1/s) z = 1 - 1/b``, ``z = 1 - theta/b``.

    Examples
    --------
    >>> round(flower_coverage_stable(3), 4)
    5.6293
    """
    return s**2 * _level(_check(s), s)


@checked
def flower_coverage_equal(s: int) -> float:
    """Cheapest total of the coverage flower if everybody brings the same.

    Examples
    --------
    >>> round(flower_coverage_equal(3), 4)
    5.3
    """
    return (s**2 + 1) * _level(_check(s), s + 1)


@checked
def flower_petal_lower_bound() -> float:
    """Constant of the proof: petals bring at least ``1/(3 ln 4)`` in every stable plan.

    Examples
    --------
    >>> round(flower_petal_lower_bound(), 3)
    0.24
    """
    return 1 / (3 * log(4))


@checked
def cycle_real_level(mu: float) -> float:
    """Stable contribution of the real cycle on [0, 1]: ``1 - sqrt(2(1-mu))`` for ``mu < 1``.

    Examples
    --------
    >>> round(cycle_real_level(0.9), 6)
    0.552786
    """
    return 1 - sqrt(2 * (1 - check_real(mu, "mu", low=0.5, high=1.0, open_high=True)))


@checked
def cycle_equilibria(m: int) -> int:
    """Number of whole-number stable plans of the cycle that needs ``m`` samples: 0 if m is odd.

    Examples
    --------
    >>> [cycle_equilibria(m) for m in range(1, 5)]
    [0, 1, 0, 1]
    """
    return 1 - check_positive_int(m, "m") % 2


@checked
def best_response_lipschitz(c1: float, c2: float) -> float:
    """How far a best response moves per unit that the others move: ``c1 / c2``.

    Examples
    --------
    >>> best_response_lipschitz(0.5, 0.25)
    2.0
    """
    return check_real(c1, "c1", low=0.0) / check_real(c2, "c2", low=0.0, open_low=True)


@checked
def pair_segment_utility(alpha: float) -> float:
    """Utility of two identical parties that share one sample: ``3/4 - alpha(1-alpha)/8``.

    Examples
    --------
    >>> pair_segment_utility(0.5)
    0.71875
    """
    a = check_real(alpha, "alpha", low=0.0, high=1.0)
    return 0.75 - a * (1 - a) / 8


def _level(s: int, copies: int) -> float:
    b = s**2

    def excess(z: float) -> float:
        return z**copies / s + (1 - 1 / s) * z - (1 - 1 / b)

    return b * (1 - float(brentq(excess, 1 - 1 / b, 1.0, xtol=1e-15, rtol=8.9e-16)))


def _check(s: int) -> int:
    return check_int(s, "s", low=2, high=10**9)
