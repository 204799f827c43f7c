"""Checks of arguments that raise one clear sentence naming what is wrong.

Every function returns the checked value in canonical form, so that a constructor reads
``self.n = check_positive_int(n, "n")``. No sentence repeats more than 200 characters of the input.
"""

from __future__ import annotations

import math
import numbers
import reprlib
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.errors import InvalidInputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
T = TypeVar("T")

_LONGEST = 200  # characters of a value that a sentence repeats
_MOST_DIGITS = 50  # of an integer; a longer one is described
_DEEPEST = 32  # axes that every NumPy can make
_LARGEST = 2**1023  # the integers that a float can hold
_LISTS = {list, tuple}
_ONE_LINE = reprlib.Repr()
_ONE_LINE.maxlevel = 3
_ONE_LINE.maxlist = _ONE_LINE.maxtuple = _ONE_LINE.maxdict = _ONE_LINE.maxset = 6
_ONE_LINE.maxstring = _ONE_LINE.maxother = 120


def shorten(value: Any, limit: int = _LONGEST) -> str:
    """Return ``value`` as one line of at most ``limit`` characters, whatever it is.

    Examples
    --------
    >>> shorten("seven"), shorten(10**5000), shorten(np.zeros((300, 2)))
    ("'seven'", 'an integer of 5001 digits', 'an array of shape (300, 2)')
    >>> len(shorten("x" * 25_000))
    200
    """
    text = " ".join(_described(value).split())
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _described(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        digits = int(value.bit_length() * math.log10(2)) + 1
        return str(value) if digits <= _MOST_DIGITS else f"an integer of {digits} digits"
    if isinstance(value, str | bytes):
        return repr(value[: 2 * _LONGEST])
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and math.prod(shape) > 8:
        kind = "array" if isinstance(value, np.ndarray) else type(value).__name__
        return f"{'an' if kind == 'array' else 'a'} {kind} of shape {shape}"
    try:
        plain = type(value) in (list, tuple, set, frozenset, dict)
        return _ONE_LINE.repr(value) if plain else repr(value)
    except Exception:  # what cannot be printed is named by its kind
        return f"a {type(value).__name__}"


def check_size(count: float, limit: float, what: str) -> None:
    """Raise, before any work begins, if ``count`` is more than the algorithm can do.

    Examples
    --------
    >>> check_size(2**40, 10**6, "points")
    Traceback (most recent call last):
        ...
    counterplay.errors.InvalidInputError: 1,099,511,627,776 points are too many: at most 1,000,000
    """
    if not count <= limit:
        asked = f"{count:,}" if abs(count) < 1e15 else shorten(count)
        raise InvalidInputError(f"{asked} {what} are too many: at most {limit:,}")


def check_int(value: Any, name: str, *, low: int | None = None, high: int | None = None) -> int:
    """Return ``value`` as an int within ``[low, high]``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InvalidInputError(f"{name} must be an integer, got {shorten(value)}")
    number = int(value)
    if low is not None and number < low:
        raise InvalidInputError(f"{name} must be at least {low}, got {shorten(number)}")
    if high is not None and number > high:
        raise InvalidInputError(f"{name} must be at most {high}, got {shorten(number)}")
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
        raise InvalidInputError(f"{name} must be a number, got {shorten(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise InvalidInputError(f"{name} is too large, got {shorten(value)}") from None
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
    # Arrays and frames are compared entry by entry, so they are equal to nothing as a whole.
    table = hasattr(value, "__array__") or hasattr(value, "toarray")
    if (table and not isinstance(value, np.generic)) or value not in choices:
        known = ", ".join(map(shorten, choices))
        raise InvalidInputError(f"{name} must be one of {known}, got {shorten(value, 100)}")
    return value


def check_float_array(value: ArrayLike, name: str, *, ndim: int | None = None) -> FloatArray:
    """Return a finite, C-contiguous float64 array, with ``ndim`` axes if given.

    Text, dates, complex numbers and lists of different lengths are refused, never converted.
    """
    if fault := array_fault(value, kinds="biuf"):
        raise InvalidInputError(f"{name} must be an array of numbers: {fault}")
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        why = shorten(str(error), 120)[1:-1]
        raise InvalidInputError(f"{name} must be an array of numbers: {why}") from None
    if np.ndim(value) == 0:  # ascontiguousarray promotes scalars to one axis
        array = array.reshape(())
    if ndim is not None and array.ndim != ndim:
        raise InvalidInputError(f"{name} must have {ndim} axes, got shape {array.shape}")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InvalidInputError(f"{name} must be finite; entry {where} is {array[where]}")
    return array


def array_fault(value: Any, *, kinds: str = "biufU") -> str:
    """Say why NumPy cannot make ``value`` an array of the given kinds; "" if it can.

    ``kinds`` are letters of ``numpy.dtype.kind``. Nothing is converted: arrays and frames are
    judged by their types, lists by the types and lengths in them.

    Examples
    --------
    >>> array_fault([[1, 2], [3]]), array_fault([[1, 2], [3, 4.5]])
    ('its parts have different lengths', '')
    """
    return _fault(value, kinds, 0)


_KINDS = {
    bool: "b", int: "i", float: "f", str: "U", complex: "c",
    np.bool_: "b", np.int64: "i", np.float64: "f", np.str_: "U",
}  # fmt: skip
_NAMES = {
    "b": "booleans", "i": "integers", "u": "integers", "f": "numbers with decimals", "U": "text",
    "S": "bytes", "c": "complex numbers", "M": "dates", "m": "time spans", "V": "records",
    "O": "objects",
}  # fmt: skip


def _fault(value: Any, kinds: str, depth: int) -> str:
    if isinstance(value, np.ndarray):
        if value.dtype.kind != "O":
            return _kind_fault(value.dtype.kind, kinds)
        return _leaves_fault(value.ravel().tolist(), kinds)
    if isinstance(value, list | tuple):
        return _list_fault(value, kinds, depth)
    if isinstance(value, range):
        return ""
    if isinstance(value, str | bytes | numbers.Number | np.generic | Decimal | None):
        return _leaves_fault([value], kinds)
    return _foreign_fault(value, kinds, depth)


def _kind_fault(kind: str, kinds: str) -> str:
    return "" if kind in kinds else f"it contains {_NAMES.get(kind, 'objects')}"


def _list_fault(value: Sequence[Any], kinds: str, depth: int) -> str:
    level, types = value, set(map(type, value))
    while types and types <= _LISTS:  # one axis after the other, all parts of an axis at once
        depth += 1
        if depth > _DEEPEST:
            return "it is nested too deeply"
        if len(set(map(len, level))) > 1:
            return "its parts have different lengths"
        level = list(chain.from_iterable(level))
        types = set(map(type, level))
    if types <= _KINDS.keys():
        found = {_KINDS[kind] for kind in types}
        if "U" in found and len(found) > 1 and "O" not in kinds:
            return "it mixes text and numbers"
        fault = next((_kind_fault(kind, kinds) for kind in found if kind not in kinds), "")
        return fault or (_size_fault(level) if int in types else "")
    if not any(map(_is_nested, types)):
        return _leaves_fault(level, kinds)
    return _parts_fault(level, kinds, depth)


def _parts_fault(parts: Sequence[Any], kinds: str, depth: int) -> str:
    """Judge a list of arrays, ranges and lists."""
    if depth >= _DEEPEST:
        return "it is nested too deeply"
    if not all(_is_nested(type(part)) for part in parts):
        return "its parts have different lengths"
    fault = next(filter(None, (_fault(part, kinds, depth + 1) for part in parts)), "")
    uneven = not fault and len(set(map(_shape, parts))) > 1
    return "its parts have different lengths" if uneven else fault


def _is_nested(kind: type) -> bool:
    return issubclass(kind, list | tuple | range) or (
        hasattr(kind, "__array__") and not issubclass(kind, np.generic)
    )


def _shape(value: Any) -> tuple[int, ...]:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return shape
    return (len(value), *(_shape(value[0]) if len(value) and _is_nested(type(value[0])) else ()))


def _size_fault(value: Sequence[Any]) -> str:
    """Find Python integers that no float can hold."""
    whole = [int(item) for item in value if isinstance(item, numbers.Integral)]
    large = bool(whole) and (max(whole) >= _LARGEST or min(whole) <= -_LARGEST)
    return "it contains an integer that is too large" if large else ""


def _leaves_fault(leaves: Iterable[Any], kinds: str) -> str:
    for leaf in leaves:
        if isinstance(leaf, np.generic):
            fault = _kind_fault(leaf.dtype.kind, kinds)
        elif isinstance(leaf, str):
            fault = _kind_fault("U", kinds)
        elif isinstance(leaf, bool):
            fault = _kind_fault("b", kinds)
        elif isinstance(leaf, numbers.Integral):
            fault = _kind_fault("i", kinds) or _size_fault([leaf])
        elif isinstance(leaf, numbers.Real | Decimal):
            fault = _kind_fault("f", kinds)
        else:
            fault = "" if "O" in kinds else f"it contains {shorten(leaf, 80)}"
        if fault:
            return fault
    return ""


def _foreign_fault(value: Any, kinds: str, depth: int) -> str:
    """Judge frames, tensors and other objects that know how to become an array."""
    if isinstance(value, type) or not hasattr(value, "__array__"):
        sequence = isinstance(value, Sequence) and not isinstance(value, bytearray)
        if sequence or isinstance(value, memoryview):
            return _fault(list(value), kinds, depth + 1)
        return f"got {shorten(value, 120)}"
    columns = getattr(value, "dtypes", None)  # of a frame; a series has one
    types = list(columns) if isinstance(columns, Iterable) else [getattr(value, "dtype", None)]
    for dtype in types:
        kind = getattr(dtype, "kind", None)
        if kind in ("c", "M", "m", "S", "V"):
            return _kind_fault(kind, kinds)
    if any(getattr(dtype, "kind", None) == "O" for dtype in types):  # cells may be anything
        return _fault(np.asarray(value), kinds, depth)
    return ""


def check_same_shape(first: NDArray[Any], second: NDArray[Any], names: tuple[str, str]) -> None:
    """Raise unless both arrays have the same shape."""
    if first.shape != second.shape:
        raise InvalidInputError(
            f"{names[0]} and {names[1]} must have the same shape, "
            f"got {first.shape} and {second.shape}"
        )


def check_labels01(value: ArrayLike, name: str = "y") -> NDArray[np.int8]:
    """Return labels as int8 zeros and ones; says so when -1/+1 labels are given."""
    if fault := array_fault(value, kinds="biuf"):
        raise InvalidInputError(f"{name} must contain only 0 and 1: {fault}")
    array = np.asarray(value)
    if not ((array == 0) | (array == 1)).all():
        signs = ((array == -1) | (array == 1)).all()
        hint = "; use (y > 0).astype(int) for -1/+1 labels" if signs else ""
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
