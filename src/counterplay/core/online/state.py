"""Objects that can be stopped today and continued tomorrow: parameters and state as JSON text.

A class lists the attributes that make up its running state in ``_state``; parameters are the
arguments of ``__init__``, kept under the same names. Arrays, random generators and nested objects
survive the round trip exactly, so that a restored learner draws the very same experts. The text is
read by :mod:`counterplay.core.records`, and every class checks what it gets (``_check_state``).
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from counterplay.core.records import (
    LIMIT,
    LONGEST,
    pack_generator,
    read_generator,
    read_json,
    refusal,
)
from counterplay.errors import InvalidInputError, InvalidStateError, UnknownNameError

KIND, VERSION = "stored object", 2
_DTYPES = {"|b1": (bool,), "<i8": (int,), "<i4": (int,), "<f8": (float, int)}
_DAMAGED = (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError,
            RecursionError)  # fmt: skip


class Stateful:
    """Mixin: parameters by name, ``repr``, copies, and state to and from JSON."""

    _state: ClassVar[tuple[str, ...]] = ()
    _known: ClassVar[dict[str, type[Stateful]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Stateful._known[cls.__name__] = cls

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        names = inspect.signature(type(self).__init__).parameters
        return {name: getattr(self, name) for name in names if name != "self"}

    def clone(self) -> Self:
        """Return a fresh object with the same parameters and no state."""
        return type(self)(
            **{
                name: value.clone() if isinstance(value, Stateful) else value
                for name, value in self.get_params().items()
            }
        )

    def __repr__(self) -> str:
        given = inspect.signature(type(self).__init__).parameters
        shown = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not _is_default(value, given[name].default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _stored_params(self) -> dict[str, Any]:
        """The parameters that go into the stored text; all of them by default."""
        return self.get_params()

    @classmethod
    def _revive(cls, params: dict[str, Any]) -> Self:
        """Build an object from its stored parameters, before its state is set."""
        return cls(**params)

    def _check_state(self) -> None:
        """Raise InvalidInputError if the restored parts do not fit; called before any use."""

    def to_json(self) -> str:
        """Return parameters and running state as JSON text; ``from_json`` restores them."""
        return json.dumps(pack(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Restore an object written by ``to_json``; it continues where the other stopped.

        Raises ``InvalidStateError`` where the text is damaged or not a state of this class.
        """
        what = f"the stored {cls.__name__}"
        value = cls._restored(read_json(text, what=what, limit=LIMIT), what)
        if not isinstance(value, cls):
            raise InvalidStateError(
                f"the text holds a {type(value).__name__}, not a {cls.__name__}; "
                f"use {type(value).__name__}.from_json"
            )
        return value

    @classmethod
    def _restored(cls, raw: Any, what: str) -> Any:
        """The object in parsed JSON; every way in which it can be wrong becomes one sentence."""
        if not isinstance(raw, dict):
            raise refusal(what, "", f"expected a JSON object, got {type(raw).__name__}")
        content = dict(raw)
        if content.pop("kind", None) != KIND:
            raise refusal(what, "kind", f"expected {KIND!r}; pass what to_json returned")
        if type(version := content.pop("version", None)) is not int or version != VERSION:
            told = f"it has format {version!r:.20}, this version reads format {VERSION}"
            raise refusal(what, "version", told)
        try:
            return unpack(content)
        except InvalidInputError as error:
            if isinstance(error, InvalidStateError) and len(str(error)) <= LONGEST:
                raise
            raise refusal(what, "", str(error)) from None
        except _DAMAGED as error:
            raise refusal(what, "", f"it is damaged ({error!s:.150})") from None


def pack(value: Any, seen: list[np.random.Generator] | None = None) -> Any:
    """Turn a value into plain JSON types; objects that cannot be stored raise.

    Generators that are shared between nested objects are stored once, so that they stay shared. The
    outermost object says the kind and the version of the format.
    """
    outermost, seen = seen is None, [] if seen is None else seen
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.dtype.str not in _DTYPES:
            raise InvalidInputError(f"an array of {value.dtype} cannot be stored as JSON")
        return {"__array__": value.ravel().tolist(), "dtype": value.dtype.str, "shape": value.shape}
    if isinstance(value, np.random.Generator):
        return _pack_generator(value, seen)
    if isinstance(value, Stateful):
        params = pack(value._stored_params(), seen)
        state = {name: getattr(value, name) for name in value._state if hasattr(value, name)}
        head = {"kind": KIND, "version": VERSION} if outermost else {}
        name = type(value).__name__
        return {**head, "__object__": name, "params": params, "state": pack(state, seen)}
    if isinstance(value, tuple):
        return {"__tuple__": [pack(item, seen) for item in value]}
    if isinstance(value, list):
        return [pack(item, seen) for item in value]
    if isinstance(value, Mapping):
        return {str(key): pack(item, seen) for key, item in value.items()}
    raise InvalidInputError(
        f"{value!r} cannot be stored as JSON; pass it again after restoring instead"
    )


def _pack_generator(value: np.random.Generator, seen: list[np.random.Generator]) -> dict[str, Any]:
    for number, other in enumerate(seen):
        if other is value:
            return {"__generator__": number}
    seen.append(value)
    return {"__generator__": len(seen) - 1, "state": pack_generator(value)}


def unpack(value: Any, seen: dict[int, np.random.Generator] | None = None) -> Any:
    """Undo ``pack``."""
    seen = {} if seen is None else seen
    if isinstance(value, list):
        return [unpack(item, seen) for item in value]
    if not isinstance(value, dict):
        return value
    if "__array__" in value:
        return _unpack_array(value)
    if "__tuple__" in value:
        return tuple(unpack(item, seen) for item in _only(value, "__tuple__")["__tuple__"])
    if "__generator__" in value:
        return _unpack_generator(value, seen)
    if "__object__" in value:
        return _unpack_object(_only(value, "__object__", "params", "state"), seen)
    return {key: unpack(item, seen) for key, item in value.items()}


def _only(value: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return ``value`` if it has exactly these keys."""
    if value.keys() != set(keys):
        found = ", ".join(map(repr, value))
        raise InvalidStateError(f"expected the keys {', '.join(keys)}, found {found:.100}")
    return value


def _unpack_array(value: dict[str, Any]) -> NDArray[Any]:
    _only(value, "__array__", "dtype", "shape")
    name, items, shape = value["dtype"], value["__array__"], value["shape"]
    kinds = _DTYPES.get(name) if isinstance(name, str) else None
    if kinds is None or not isinstance(items, list) or not all(type(i) in kinds for i in items):
        raise InvalidStateError(
            f"a stored array of {name!r:.20} does not hold such numbers: {items!r:.100}"
        )
    sizes = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    if not sizes or math.prod(shape) != len(items):
        raise InvalidStateError(f"{len(items)} stored numbers do not have shape {shape!r:.60}")
    return np.array(items, dtype=name).reshape(shape)


def _unpack_generator(
    value: dict[str, Any], seen: dict[int, np.random.Generator]
) -> np.random.Generator:
    number = value["__generator__"]
    if type(number) is not int:
        raise InvalidStateError(f"a stored generator has the number {number!r:.40}")
    if "state" in value:
        _only(value, "__generator__", "state")
        if number != len(seen):
            raise InvalidStateError(f"stored generator {number} comes out of turn")
        seen[number] = read_generator(value["state"], "a bit generator", what="the stored state")
    elif number not in seen:
        raise InvalidStateError(f"stored generator {number} is not there")
    return seen[number]


def _unpack_object(value: dict[str, Any], seen: dict[int, np.random.Generator]) -> Stateful:
    name = value["__object__"]
    if not isinstance(name, str) or name not in Stateful._known:
        raise UnknownNameError.among("storable object", str(name)[:60], Stateful._known)
    if not isinstance(value["params"], dict) or not isinstance(value["state"], dict):
        raise InvalidStateError(f"params and state of a stored {name} must be objects")
    params = unpack(value["params"], seen)
    before = {number: rng.bit_generator.state for number, rng in seen.items()}
    result = Stateful._known[name]._revive(params)
    for number, bits in before.items():  # building the object may have drawn from them
        seen[number].bit_generator.state = bits
    for key in value["state"]:
        if key not in result._state:
            raise InvalidStateError(f"a stored {name} has no part named {key!r:.60}")
    for key in result._state:
        if hasattr(result, key) and key not in value["state"]:
            raise InvalidStateError(f"{key!r} of the stored {name} is missing; the text is damaged")
    for key, item in value["state"].items():
        setattr(result, key, unpack(item, seen))
    result._check_state()
    return result


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (
        isinstance(value, bool | int | float | str | tuple) and bool(value == default)
    )
