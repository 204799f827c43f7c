"""Bit-for-bit comparison of arbitrary results: equal seeds must give equal answers."""

from __future__ import annotations

import io
import types
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd


def fingerprint(value: Any, _seen: tuple[int, ...] = ()) -> Any:
    """Return something comparable that is equal exactly when the values are equal."""
    if value is None or isinstance(value, bool | int | str | bytes):
        return value
    if isinstance(value, float):
        return ("float", repr(value))
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return ("array", value.shape, [fingerprint(v, _seen) for v in value.ravel().tolist()])
        return ("array", str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, np.generic):
        return ("scalar", str(value.dtype), value.tobytes())
    if id(value) in _seen:
        return "cycle"
    return _fingerprint_object(value, (*_seen, id(value)))


def _fingerprint_object(value: Any, seen: tuple[int, ...]) -> Any:
    if isinstance(value, np.random.Generator):
        return ("generator", repr(value.bit_generator.state))
    if isinstance(value, pd.Index):  # it keeps caches that are not part of its value
        return ("index", str(value.dtype), list(value.names), fingerprint(value.tolist(), seen))
    if isinstance(value, pd.DataFrame | pd.Series):
        buffer = io.StringIO()
        value.to_csv(buffer, float_format="%.17g")
        return (type(value).__name__, buffer.getvalue())
    if isinstance(value, Mapping):
        return ("map", [(fingerprint(k, seen), fingerprint(v, seen)) for k, v in value.items()])
    if isinstance(value, list | tuple):
        return (type(value).__name__, [fingerprint(v, seen) for v in value])
    if isinstance(value, Iterator):
        return ("iterator", [fingerprint(v, seen) for v in islice(value, 1000)])
    if isinstance(value, set | frozenset):
        return ("set", sorted(repr(fingerprint(v, seen)) for v in value))
    if isinstance(value, type | types.FunctionType | types.MethodType | types.BuiltinFunctionType):
        return ("callable", getattr(value, "__qualname__", repr(value)))
    told = getattr(getattr(value, "record", None), "content_sha256", None)
    if told is not None:  # an audit: its seconds differ, its content has a hash of its own
        return (type(value).__qualname__, told)
    state = _state(value)
    if state:
        return (type(value).__qualname__, fingerprint(state, seen))
    text = repr(value)
    return (type(value).__qualname__, "" if " at 0x" in text else text)


def _state(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, from ``__dict__`` and ``__slots__``."""
    state = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                state[name] = getattr(value, name)
    cached = (
        name for name in state if isinstance(getattr(type(value), name, None), cached_property)
    )
    for name in list(cached):  # computed from the rest, present or not
        del state[name]
    return state
