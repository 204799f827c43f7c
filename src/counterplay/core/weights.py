"""Weights of hypotheses: floating point, or exact Python ints and Fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.validation import check_float_array
from counterplay.errors import InvalidInputError

Weights = NDArray[Any]  # float64, or object with Python ints and Fractions in exact mode


def check_weights(value: ArrayLike, name: str = "weights", *, exact: bool = False) -> Weights:
    """Return non-negative weights with a positive sum; exact ones as an object array.

    Examples
    --------
    >>> check_weights([1, 3], exact=True)
    array([1, 3], dtype=object)
    """
    if exact:
        items = [_exact_number(item, name, i) for i, item in enumerate(np.asarray(value, object))]
        weights: Weights = np.empty(len(items), dtype=object)
        weights[:] = items
    else:
        weights = check_float_array(value, name, ndim=1).copy()
    negative = np.flatnonzero(weights < 0)
    if negative.size:
        raise InvalidInputError(f"{name}[{negative[0]}] is negative: {weights[negative[0]]}")
    if weights.size == 0 or not weights.sum() > 0:
        raise InvalidInputError(f"{name} must have a positive sum")
    return weights


def _exact_number(item: Any, name: str, index: int) -> int | Fraction:
    if isinstance(item, Fraction):
        return item
    if isinstance(item, int | np.integer) and not isinstance(item, bool):
        return int(item)
    raise InvalidInputError(f"{name}[{index}] must be an int or a Fraction, got {item!r}")
