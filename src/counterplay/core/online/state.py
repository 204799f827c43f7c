"""Objects that can be stopped today and continued tomorrow: parameters and state as JSON text.

A class lists the attributes that make up its running state in ``_state``; parameters are the
arguments of ``__init__``, kept under the same names. Arrays, random generators and nested objects
survive the round trip exactly, so that a restored learner draws the very same experts.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from counterplay.errors import InvalidInputError, UnknownNameError

_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_KINDS = {"b": (bool,), "i": (int,), "u": (int,), "f": (float, int)}
_POSITIONS = {"pos": 624, "buffer_pos": 4}  # NumPy does not check them, and they index memory
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
        return json.dumps(pack(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Restore an object written by ``to_json``; it continues where the other stopped."""
        try:
            value = unpack(json.loads(text))
        except InvalidInputError:
            raise
        except _DAMAGED as error:
            raise InvalidInputError(
                f"the text is not a stored {cls.__name__}: {error}; pass what to_json returned"
            ) from None
        if not isinstance(value, cls):
            raise InvalidInputError(
                f"the text holds a {type(value).__name__}, not a {cls.__name__}; "
                f"use {type(value).__name__}.from_json"
            )
        return value


def pack(value: Any, seen: list[np.random.Generator] | None = None) -> Any:
    """Turn a value into plain JSON types; objects that cannot be stored raise.

    Generators that are shared between nested objects are stored once, so that they stay shared.
    """
    seen = [] if seen is None else seen
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return {"__array__": value.ravel().tolist(), "dtype": value.dtype.str, "shape": value.shape}
    if isinstance(value, np.random.Generator):
        return _pack_generator(value, seen)
    if isinstance(value, Stateful):
        params = pack(value._stored_params(), seen)
        state = {name: getattr(value, name) for name in value._state if hasattr(value, name)}
        return {"__object__": type(value).__name__, "params": params, "state": pack(state, seen)}
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
    return {"__generator__": len(seen) - 1, "state": pack(dict(value.bit_generator.state))}


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
        return tuple(unpack(item, seen) for item in value["__tuple__"])
    if "__generator__" in value:
        number = value["__generator__"]
        if "state" in value:
            seen[number] = _unpack_generator(unpack(value["state"]))
        return seen[number]
    if "__object__" in value:
        return _unpack_object(value, seen)
    return {key: unpack(item, seen) for key, item in value.items()}


def _unpack_array(value: dict[str, Any]) -> NDArray[Any]:
    dtype, items = np.dtype(value["dtype"]), value["__array__"]
    if dtype.kind not in _KINDS or not all(type(item) in _KINDS[dtype.kind] for item in items):
        raise InvalidInputError(
            f"a stored array of {dtype.str!r:.20} does not hold such numbers: {items!r:.100}"
        )
    return np.array(items, dtype=dtype).reshape(value["shape"])


def _unpack_generator(state: dict[str, Any]) -> np.random.Generator:
    name = state["bit_generator"]
    if name not in _BIT_GENERATORS:
        raise UnknownNameError.among("bit generator", name, _BIT_GENERATORS)
    for part in (state, state["state"]):
        for key, most in _POSITIONS.items():
            if key in part and not (type(part[key]) is int and 0 <= part[key] <= most):
                raise InvalidInputError(f"{key!r} of a stored generator must be in [0, {most}]")
    bits = getattr(np.random, name)()
    bits.state = state
    return np.random.Generator(bits)


def _unpack_object(value: dict[str, Any], seen: dict[int, np.random.Generator]) -> Stateful:
    name = value["__object__"]
    if name not in Stateful._known:
        raise UnknownNameError.among("storable object", name, Stateful._known)
    params = unpack(value["params"], seen)
    before = {number: rng.bit_generator.state for number, rng in seen.items()}
    result = Stateful._known[name]._revive(params)
    for number, bits in before.items():  # building the object may have drawn from them
        seen[number].bit_generator.state = bits
    for key in value["state"]:
        if key not in result._state:
            raise InvalidInputError(f"a stored {name} has no part named {key!r}")
    for key in result._state:
        if hasattr(result, key) and key not in value["state"]:
            raise InvalidInputError(f"{key!r} of the stored {name} is missing; the text is damaged")
    for key, item in value["state"].items():
        setattr(result, key, unpack(item, seen))
    result._check_state()
    return result


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (
        isinstance(value, bool | int | float | str | tuple) and bool(value == default)
    )
