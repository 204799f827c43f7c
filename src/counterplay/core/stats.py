"""Intervals and tests for measured numbers: exact where an exact method exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    check_float_array,
    check_fraction,
    check_int,
    check_open_fraction,
)
from counterplay.errors import InvalidInputError


@checked
@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval.

    Examples
    --------
    >>> 0.5 in Interval(0.42, 0.31, 0.53)
    True
    """

    estimate: float
    low: float
    high: float
    confidence: float = 0.95

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"


@checked
def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """Exact two-sided binomial interval for a success probability.

    Examples
    --------
    >>> print(clopper_pearson(0, 10))
    0 [0, 0.3085]
    """
    n = check_int(trials, "trials", low=1)
    k = check_int(successes, "successes", low=0, high=n)
    tail = (1 - check_open_fraction(confidence, "confidence")) / 2
    low = 0.0 if k == 0 else float(scipy.stats.beta.ppf(tail, k, n - k + 1))
    high = 1.0 if k == n else float(scipy.stats.beta.ppf(1 - tail, k + 1, n - k))
    return Interval(k / n, low, high, confidence)


@checked
def binomial_p_value(
    successes: int,
    trials: int,
    probability: float,
    alternative: Literal["two-sided", "less", "greater"] = "two-sided",
) -> float:
    """Exact p-value of ``successes`` out of ``trials`` under the given success probability.

    Examples
    --------
    >>> binomial_p_value(0, 4, 0.5)
    0.125
    """
    n = check_int(trials, "trials", low=1)
    k = check_int(successes, "successes", low=0, high=n)
    p = check_fraction(probability, "probability")
    result = scipy.stats.binomtest(k, n, p, alternative=alternative)
    return float(result.pvalue)


@checked
def mean_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Student interval for the mean of independent values.

    Examples
    --------
    >>> print(mean_interval([0.0, 1.0]))
    0.5 [-5.853, 6.853]
    """
    x = check_float_array(values, "values", ndim=1)
    check_open_fraction(confidence, "confidence")
    if x.size < 2:
        raise InvalidInputError("values must contain at least two numbers for an interval")
    half = scipy.stats.t.ppf(0.5 + confidence / 2, x.size - 1) * x.std(ddof=1) / np.sqrt(x.size)
    mean = float(x.mean())
    return Interval(mean, mean - float(half), mean + float(half), confidence)


@checked
def loglog_slope(x: ArrayLike, y: ArrayLike, confidence: float = 0.95) -> Interval:
    """Least-squares slope of log y against log x, with its interval.

    Examples
    --------
    >>> round(loglog_slope([1, 2, 4, 8], [3, 12, 48, 192]).estimate, 6)
    2.0
    """
    check_open_fraction(confidence, "confidence")
    a, b = check_float_array(x, "x", ndim=1), check_float_array(y, "y", ndim=1)
    if a.shape != b.shape or a.size < 3:
        raise InvalidInputError("x and y must have the same length, at least 3")
    if (a <= 0).any() or (b <= 0).any():
        raise InvalidInputError("a log-log slope needs positive values")
    if np.ptp(a) == 0:
        raise InvalidInputError("a log-log slope needs two different values of x")
    fit = scipy.stats.linregress(np.log(a), np.log(b))
    error = 0.0 if np.ptp(b) == 0 else float(fit.stderr)  # a level line has no residuals
    half = float(scipy.stats.t.ppf(0.5 + confidence / 2, a.size - 2)) * error
    return Interval(float(fit.slope), float(fit.slope) - half, float(fit.slope) + half, confidence)
