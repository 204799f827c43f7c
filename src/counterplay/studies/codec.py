"""Flat records as canonical JSON text, exact to the last bit.

Finite floats are written by ``repr``, which reads back as the same number; nan and infinities, for
which JSON has no word, as ``["float", "7ff8000000000000"]``, the sixteen hex digits of the double.
A text that :func:`encode` did not write is refused, whatever it is.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from counterplay.core.records import read_json, refusal
from counterplay.errors import InvalidInputError
from counterplay.studies.study import Value

_Double = tuple[Literal["float"], Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]]
_STORED = dict[str, bool | int | float | str | _Double | None]
_DIGITS = 4000  # Python reads no longer integers from text by default


def plain(values: Mapping[str, Any], what: str) -> dict[str, Value]:
    """Return ``values`` with NumPy scalars turned into Python ones; refuse anything not flat."""
    if not isinstance(values, Mapping):
        raise InvalidInputError(f"{what} must be a mapping, got {type(values).__name__}")
    result: dict[str, Value] = {}
    for key, value in values.items():
        if not isinstance(key, str):
            raise InvalidInputError(f"{what} has the key {key!r}; keys must be strings")
        result[key] = _plain_value(value, f"{what}, key {key!r}")
    return result


def encode(values: Mapping[str, Value]) -> str:
    """Return canonical JSON: sorted keys, no spaces, ASCII, valid for every JSON reader.

    Examples
    --------
    >>> encode({"b": 1, "a": float("nan")})
    '{"a":["float","7ff8000000000000"],"b":1}'
    """
    safe = {key: _to_json(value) for key, value in values.items()}
    return json.dumps(safe, sort_keys=True, separators=(",", ":"), allow_nan=False)


def decode(text: str) -> dict[str, Value]:
    """Return what :func:`encode` was given.

    Examples
    --------
    >>> decode(encode({"x": -0.0, "y": float("-inf"), "n": 2**70}))
    {'n': 1180591620717411303424, 'x': -0.0, 'y': -inf}
    """
    what = "a stored record"
    raw = read_json(text, what=what, depth=2, digits=_DIGITS)
    try:
        values: dict[str, Any] = msgspec.convert(raw, _STORED, strict=True)
    except msgspec.ValidationError as error:
        raise refusal(what, "", f"it is not flat: {error}") from None
    return {key: _from_json(value) for key, value in values.items()}


def _plain_value(value: Any, what: str) -> Value:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str) and not _is_text(value):
        raise InvalidInputError(f"{what}: half of a character pair cannot be stored")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        if abs(value) >= 10**_DIGITS:
            raise InvalidInputError(f"{what}: an integer of over {_DIGITS} digits cannot be stored")
        return int(value)
    if isinstance(value, float):
        return float(value)
    raise InvalidInputError(
        f"{what}: {type(value).__name__} cannot be stored; use a number, a string, a bool or None"
    )


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _to_json(value: Value) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return ["float", struct.pack(">d", value).hex()]
    return value


def _from_json(value: Any) -> Value:
    if isinstance(value, tuple):
        number: float = struct.unpack(">d", bytes.fromhex(value[1]))[0]
        return number
    plain_value: Value = value
    return plain_value
