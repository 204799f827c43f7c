"""Checks of a restored state before any of it is used: kinds, shapes, ranges, relations.

A text that comes back from a disk may be damaged or edited. What a fresh object with the same
parameters looks like tells the type, dtype and shape of every part; the classes add ranges and
relations, and what follows from other parts is compared with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.online.state import Stateful
from counterplay.core.validation import BoolArray, FloatArray
from counterplay.errors import InvalidStateError

_INDICES = ("_choice", "_last", "_current", "_committed")


def require(holds: bool | np.bool_, owner: Stateful, part: str, rule: str) -> None:
    """Raise unless a part of a stored object keeps its rule."""
    if not holds:
        raise InvalidStateError(
            f"{part!r} of the stored {type(owner).__name__} {rule}; the text is damaged"
        )


def fresh_twin(value: Stateful) -> Any:
    """Return a new object with the same parameters; draws nothing from a shared generator."""
    params = {
        name: item.clone() if isinstance(item, Stateful) else item
        for name, item in value.get_params().items()
    }
    if "random_state" in params:
        params["random_state"] = 0
    return type(value)(**params)


def same_kinds(value: Stateful, fresh: Stateful, skip: tuple[str, ...] = ()) -> None:
    """Raise unless every part of ``value`` has the type, dtype and shape it has in ``fresh``."""
    for name in value._state:
        require(hasattr(value, name) or not hasattr(fresh, name), value, name, "is missing")
        if name not in skip and hasattr(fresh, name):
            _same_kind(value, name, getattr(value, name), getattr(fresh, name))
    for name, item in fresh.get_params().items():
        if isinstance(item, Stateful) and item._state and name != "oracle":
            _same_kind(value, name, value.get_params()[name], item)


def _same_kind(owner: Stateful, name: str, mine: Any, other: Any) -> None:
    if isinstance(other, np.ndarray):
        same = isinstance(mine, np.ndarray) and (mine.dtype, mine.shape) == (
            other.dtype,
            other.shape,
        )
        require(same, owner, name, f"must be {other.dtype} numbers of shape {other.shape}")
        require(bool(np.isfinite(mine).all()), owner, name, "must be finite")
    elif isinstance(other, Stateful):
        require(type(mine) is type(other), owner, name, f"must be a {type(other).__name__}")
        same_kinds(mine, other)
    elif other is None:  # such as the probabilities before the first draw
        size = getattr(owner, "K", None)
        array = isinstance(mine, np.ndarray) and mine.dtype == np.float64 and mine.shape == (size,)
        fine = mine is None or type(mine) is int or (array and bool(np.isfinite(mine).all()))
        require(fine, owner, name, "has another kind of value")
    else:
        require(type(mine) is type(other), owner, name, f"must be of type {type(other).__name__}")
    if name in _INDICES:
        index_in(owner, name, mine, getattr(owner, "K", 0))


def index_in(owner: Stateful, name: str, value: Any, K: int, low: int = -1) -> None:
    """Raise unless ``value`` is an expert (or -1 where ``low`` is)."""
    require(type(value) is int and low <= value < K, owner, name, f"must be in [{low}, {K})")


def inside(
    owner: Stateful,
    name: str,
    values: NDArray[Any],
    low: float | FloatArray,
    high: float | FloatArray,
    tol: float,
) -> None:
    """Raise unless all values lie in [low, high], up to rounding."""
    fits: BoolArray = (values >= np.asarray(low) - tol) & (values <= np.asarray(high) + tol)
    require(bool(fits.all()), owner, name, "does not fit the other parts")


def same_params(owner: Stateful, part: str, mine: Stateful, other: Stateful) -> None:
    """Raise unless two objects have the same class and parameters, the seed aside."""
    require(type(mine) is type(other), owner, part, f"must be a {type(other).__name__}")
    expected = other.get_params()
    for name, value in mine.get_params().items():
        if name == "random_state":
            continue
        wanted = expected[name]
        if isinstance(wanted, Stateful) and isinstance(value, Stateful):
            same_params(owner, part, value, wanted)
        else:
            same = type(value) is type(wanted) and bool(value == wanted)
            require(same, owner, part, f"has {name}={value!r:.50}, expected {wanted!r:.50}")
