"""Limits for the mean of a bounded quantity that hold at every time: bets that cannot win.

If the mean were m, betting on values above or below m would be a fair game; a capital that has
grown twentyfold refutes m at the 5 % level, whenever one looks and however the number of values was
chosen. Source: Waudby-Smith and Ramdas (2024), hedged capital; docs/theory/25-offers.md, "Audits".
"""

from __future__ import annotations

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    check_float_array,
    check_open_fraction,
    check_real,
)
from counterplay.errors import InvalidInputError

_GRID = 401
_MOST = 0.5  # largest share of the capital that is bet


@checked
def betting_limits(
    values: FloatArray, low: float, high: float, *, level: float = 0.95
) -> tuple[float, float]:
    """Limits of the mean of values in [low, high], valid at every time and for any stopping.

    Parameters
    ----------
    values:
        Values in the order in which they came.
    low:
        Smallest possible value.
    high:
        Largest possible value.
    level:
        Confidence.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = betting_limits(np.tile([0.0, 1.0], 200), 0.0, 1.0)
    >>> bool(low < 0.5 < high), bool(high - low < 0.25)
    (True, True)
    """
    z, a, b = _in_unit(values, low, high, level)
    if z.size == 0:
        return a, b
    left = _refuted_below(z, 1.0 - level)
    right = 1.0 - _refuted_below(1.0 - z, 1.0 - level)
    return a + (b - a) * left, a + (b - a) * max(right, left)


def _refuted_below(z: FloatArray, alpha: float) -> float:
    """Largest mean of the grid that bets on larger values refute, at alpha/2."""
    n = np.arange(1, z.size + 1)
    # predictable plug-ins: mean and variance of the values before, shrunk to 1/2 and 1/4
    mean = (0.5 + np.concatenate([[0.0], np.cumsum(z)[:-1]])) / n
    spread = np.concatenate([[0.0], np.cumsum((z - mean) ** 2)[:-1]])
    variance = (0.25 + spread) / n
    rate = np.sqrt(2.0 * np.log(2.0 / alpha) / (variance * n * np.log(n + 1.0)))
    grid = np.linspace(0.0, 1.0, _GRID)[1:]
    best, threshold = 0.0, np.log(2.0 / alpha)
    low, high = 0, grid.size  # refuted means are an initial part of the grid
    while low < high:
        middle = (low + high) // 2
        m = grid[middle]
        bet = np.minimum(rate, _MOST / m)
        if np.cumsum(np.log1p(bet * (z - m))).max() >= threshold:
            best, low = float(m), middle + 1
        else:
            high = middle
    return best


@checked
def running_mean_limits(
    values: FloatArray, low: float, high: float, *, level: float = 0.95
) -> tuple[float, float]:
    """Limits of the running mean of conditional expectations, at every time: means may change.

    Empirical Bernstein: for 0 < lam < 1 and values in [0, 1] the process ``exp(lam S + (log(1 -
    lam) + lam) V)`` is a supermartingale, S the sum of values minus their conditional means and V
    the sum of squared distances from a predictable guess (Fan, Grama, Liu 2015). The smallest of
    the bounds of a few lam is taken, sharing the error.

    Parameters
    ----------
    values:
        Values in the order in which they came.
    low:
        Smallest possible value.
    high:
        Largest possible value.
    level:
        Confidence.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = running_mean_limits(np.tile([0.0, 1.0], 500), 0.0, 1.0)
    >>> bool(low < 0.5 < high), bool(high - low < 0.2)
    (True, True)
    """
    z, a, b = _in_unit(values, low, high, level)
    if z.size == 0:
        return a, b
    n = np.arange(1, z.size + 1)
    guess = (0.5 + np.concatenate([[0.0], np.cumsum(z)[:-1]])) / n
    variance = float(((z - guess) ** 2).sum())
    price = -np.log1p(-_RATES) - _RATES
    wide = np.log(2.0 * _RATES.size / (1.0 - level)) + price * variance
    half = float((wide / _RATES).min()) / z.size
    mean = float(z.mean())
    return a + (b - a) * max(mean - half, 0.0), a + (b - a) * min(mean + half, 1.0)


_RATES = np.array([0.8, 0.6, 0.4, 0.25, 0.15, 0.08, 0.04, 0.02])


def _in_unit(
    values: FloatArray, low: float, high: float, level: float
) -> tuple[FloatArray, float, float]:
    """Values moved to [0, 1], none if the range is a point, and the range; refuse any outside."""
    x = check_float_array(values, "values", ndim=1)
    a, b = check_real(low, "low"), check_real(high, "high", low=low)
    check_open_fraction(level, "level")
    room = 1e-9 * max(abs(a), abs(b), 1e-300)
    if x.size and (x.min() < a - room or x.max() > b + room):
        raise InvalidInputError(f"values must be in [{a:g}, {b:g}]")
    if b - a <= room:
        return x[:0], a, b
    return np.clip((x - a) / (b - a), 0.0, 1.0), a, b
