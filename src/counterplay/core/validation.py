"""Checks of arguments that raise one clear sentence naming what is wrong.

Every function returns the checked value in canonical form, so that a constructor reads
``self.n = check_positive_int(n, "n")``.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.errors import InvalidInputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
T = TypeVar("T")


def check_int(value: Any, name: str, *, low: int | None = None, high: int | None = None) -> int:
    """Return ``value`` as an int within ``[low, high]``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InvalidInputError(f"{name} must be an integer, got {value!r}")
    number = int(value)
    if low is not None and number < low:
        raise InvalidInputError(f"{name} must be at least {low}, got {number}")
    if high is not None and number > high:
        raise InvalidInputError(f"{name} must be at most {high}, got {number}")
    return number


def check_positive_int(value: Any, name: str) -> int:
    """Return ``value`` as an int of at least one."""
    return check_int(value, name, low=1)


def check_real(
    value: Any,
    name: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """Return ``value`` as a finite float inside the interval; ``open_*`` exclude the ends."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidInputError(f"{name} must be a number, got {value!r}")
    number = float(value)
    below = number <= low if open_low else number < low
    above = number >= high if open_high else number > high
    if not math.isfinite(number) or below or above:
        left, right = "(" if open_low else "[", ")" if open_high else "]"
        raise InvalidInputError(f"{name} must be in {left}{low:g},{high:g}{right}, got {number:g}")
    return number


def check_fraction(value: Any, name: str) -> float:
    """Return ``value`` as a float in [0, 1]."""
    return check_real(value, name, low=0.0, high=1.0)


def check_open_fraction(value: Any, name: str) -> float:
    """Return ``value`` as a float strictly between 0 and 1."""
    return check_real(value, name, low=0.0, high=1.0, open_low=True, open_high=True)


def check_choice(value: T, name: str, choices: Sequence[T]) -> T:
    """Return ``value`` if it is one of ``choices``."""
    if value not in choices:
        raise InvalidInputError(
            f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}"
        )
    return value


def check_float_array(value: ArrayLike, name: str, *, ndim: int | None = None) -> FloatArray:
    """Return a finite, C-contiguous float64 array, with ``ndim`` axes if given."""
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} must be an array of numbers: {error}") from None
    if np.ndim(value) == 0:  # ascontiguousarray promotes scalars to one axis
        array = array.reshape(())
    if ndim is not None and array.ndim != ndim:
        raise InvalidInputError(f"{name} must have {ndim} axes, got shape {array.shape}")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InvalidInputError(f"{name} must be finite; entry {where} is {array[where]}")
    return array


def check_same_shape(first: NDArray[Any], second: NDArray[Any], names: tuple[str, str]) -> None:
    """Raise unless both arrays have the same shape."""
    if first.shape != second.shape:
        raise InvalidInputError(
            f"{names[0]} and {names[1]} must have the same shape, "
            f"got {first.shape} and {second.shape}"
        )


def check_labels01(value: ArrayLike, name: str = "y") -> NDArray[np.int8]:
    """Return labels as int8 zeros and ones; says so when -1/+1 labels are given."""
    array = np.asarray(value)
    if array.size and not np.isin(array, (0, 1)).all():
        hint = "; use (y > 0).astype(int) for -1/+1 labels" if np.isin(array, (-1, 1)).all() else ""
        raise InvalidInputError(f"{name} must contain only 0 and 1{hint}")
    return array.astype(np.int8)


def check_probabilities(value: ArrayLike, name: str, *, tol: float = 1e-9) -> FloatArray:
    """Return a float64 array whose last axis is a probability vector."""
    array = check_float_array(value, name)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise InvalidInputError(f"{name} must not be empty")
    if (array < -tol).any():
        raise InvalidInputError(f"{name} must not contain negative probabilities")
    if not np.allclose(array.sum(axis=-1), 1.0, rtol=0, atol=tol):
        raise InvalidInputError(f"{name} must sum to 1, got {float(array.sum(axis=-1).flat[0]):g}")
    return array
