"""The most that another offer can be better, over all rising responses inside the band.

Source: Proposition 25.D, see docs/theory/25-offers.md.
"""

from __future__ import annotations

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    array_fault,
    check_float_array,
    check_same_shape,
)
from counterplay.errors import InvalidInputError


@checked
def worst_regrets(
    power: FloatArray,
    margin: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    *,
    ordered: bool = True,
) -> FloatArray:
    """Return, for every offer, the largest value of another offer minus its own.

    Sharp over all nondecreasing responses between the limits (any response without an order).

    Parameters
    ----------
    power:
        Power of each offer.
    margin:
        Our margin under each offer; positive, falling with the power.
    lower:
        Lower limits of the response, nondecreasing in the power.
    upper:
        Upper limits; infinite where unknown.
    ordered:
        Whether the response never falls with the power.

    Examples
    --------
    >>> import numpy as np
    >>> worst_regrets(np.array([0.2, 0.5]), np.array([0.8, 0.5]), np.array([50.0, 80.0]),
    ...               np.array([60.0, 120.0])).round(6).tolist()
    [20.0, 8.0]
    """
    s = check_float_array(power, "power", ndim=1)
    g = check_float_array(margin, "margin", ndim=1)
    low, high = check_float_array(lower, "lower", ndim=1), _limits(upper)
    for name, values in (("margin", g), ("lower", low), ("upper", high)):
        check_same_shape(s, values, ("power", name))
    here, there = (slice(None), None), (None, slice(None))
    apart = g[there] * high[there] - g[here] * low[here]
    if ordered:
        # a weaker offer cannot have the larger response: both at u' once u' reaches the limit l
        weaker = (s[there] < s[here]) & (high[there] >= low[here])
        gap = g[there] - g[here]
        apart = np.where(weaker, gap * np.where(weaker, high[there], 0.0), apart)
    np.fill_diagonal(apart, 0.0)
    return np.asarray(apart.max(axis=1, initial=0.0))


def _limits(upper: FloatArray) -> FloatArray:
    """Upper limits may be infinite, but they are numbers."""
    if fault := array_fault(upper, kinds="biuf"):
        raise InvalidInputError(f"upper must be an array of numbers: {fault}")
    high = np.asarray(upper, dtype=np.float64)
    if np.isnan(high).any() or (high == -np.inf).any():
        raise InvalidInputError("upper must hold numbers, infinite where nothing is known")
    return high
