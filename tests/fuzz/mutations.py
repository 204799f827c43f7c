"""The fixed list of hostile values, and random mutations with a fixed seed.

A mutation is a function of the valid value. It returns the hostile one, or raises ``NotForThis``
where it has no meaning. The names are part of the reproducer: never reuse one for something else.
"""

from __future__ import annotations

import copy
import datetime
import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

Mutation = Callable[[Any], Any]


class NotForThis(Exception):
    """The mutation has no meaning for this value."""


class Stranger:
    """An object of a class that nobody knows."""


def fixed() -> dict[str, Mutation]:
    """Return the documented list."""
    return {**_VALUES, **_NUMBERS, **_ARRAYS}


def is_number(value: Any) -> bool:
    """Return whether the value is one real number."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _always(value: Any) -> Mutation:
    return lambda _: copy.deepcopy(value)


def _nest(depth: int) -> list[Any]:
    nest: list[Any] = [0.5]
    for _ in range(depth):
        nest = [nest]
    return nest


def _generator(_: Any) -> Iterator[int]:
    return (i for i in range(3))


# Wrong kinds and wild values, whatever the argument is.
_VALUES: dict[str, Mutation] = {
    "none": _always(None),
    "true": _always(True),
    "text": _always("seven"),
    "empty text": _always(""),
    "long text": _always("x" * 25_000),
    "bytes": _always(b"seven"),
    "zero": _always(0),
    "one": _always(1),
    "minus one": _always(-1),
    "half": _always(0.5),
    "nan": _always(math.nan),
    "inf": _always(math.inf),
    "minus inf": _always(-math.inf),
    "1e308": _always(1e308),
    "tiny": _always(5e-324),
    "2**31": _always(2**31),
    "2**63": _always(2**63),
    "5,000 digits": _always(10**4999),
    "complex": _always(1 + 2j),
    "fraction": _always(Fraction(1, 3)),
    "numpy integer": _always(np.int8(3)),
    "float16": _always(np.float16(0.5)),
    "date": _always(datetime.date(2020, 2, 29)),
    "timestamps": _always(np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[ns]")),
    "empty list": _always([]),
    "empty dict": _always({}),
    "one element": _always([0.5]),
    "ragged": _always([[1.0, 2.0], [3.0]]),
    "deep nest": lambda _: _nest(5_000),
    "set": _always({1, 2}),
    "dict": _always({"a": 1}),
    "generator": _generator,
    "callable": _always(len),
    "class": _always(Stranger),
    "stranger": lambda _: Stranger(),
    "object array": lambda _: np.array([Stranger(), None, "a"], dtype=object),
    "complex array": _always(np.array([1 + 1j, 2.0])),
    "nan array": _always(np.full(3, math.nan)),
    "text array": _always(np.array(["a", "b"])),
    "empty array": _always(np.zeros((0,))),
    "three axes": _always(np.zeros((2, 2, 2))),
    "scalar array": _always(np.array(1.0)),
    "large array": lambda _: np.zeros((10**6, 1)),
    "sparse": lambda _: _sparse(),
    "frame": lambda _: _frame(),
}


def _sparse() -> Any:
    return scipy.sparse.csr_matrix(np.eye(3))


def _frame() -> Any:
    return pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["x", None, "z"]})


def _scaled(factor: float) -> Mutation:
    def mutation(value: Any) -> Any:
        if not is_number(value):
            raise NotForThis
        return int(value * factor) if isinstance(value, int | np.integer) else value * factor

    return mutation


def _number(change: Callable[[Any], Any]) -> Mutation:
    def mutation(value: Any) -> Any:
        if not is_number(value):
            raise NotForThis
        return change(value)

    return mutation


# What is near the valid number, or a million times it.
_NUMBERS: dict[str, Mutation] = {
    "times 1,000": _scaled(1e3),
    "times 10**6": _scaled(1e6),
    "negative": _scaled(-1),
    "plus one": _number(lambda value: value + 1),
    "minus one more": _number(lambda value: value - 1),
    "as a float": _number(float),
    "as text": _number(str),
    "in a list": _number(lambda value: [value]),
}


def _array(change: Callable[[Any], Any]) -> Mutation:
    def mutation(value: Any) -> Any:
        if isinstance(value, list | tuple):
            try:
                value = np.asarray(value)
            except ValueError:
                raise NotForThis from None
        if not isinstance(value, np.ndarray) or value.ndim == 0 or value.dtype.kind not in "biuf":
            raise NotForThis
        return change(np.array(value))

    return mutation


def _with(entry: Any) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        if array.size == 0:
            raise NotForThis
        array = array.astype(np.result_type(array.dtype, type(entry)))
        array.flat[array.size // 2] = entry
        return array

    return change


def _read_only(array: Any) -> Any:
    array.setflags(write=False)
    return array


def _strided(array: Any) -> Any:
    return np.repeat(array, 2, axis=0)[::2]


def _as_sparse(array: Any) -> Any:
    if array.ndim != 2:
        raise NotForThis
    return scipy.sparse.csr_matrix(array)


def _as_frame(array: Any) -> Any:
    return pd.Series(array) if array.ndim == 1 else _matrix_frame(array)


def _matrix_frame(array: Any) -> Any:
    if array.ndim != 2:
        raise NotForThis
    return pd.DataFrame(array, columns=[f"c{j}" for j in range(array.shape[1])])


# The valid array, damaged or in another form.
_ARRAYS: dict[str, Mutation] = {
    "with nan": _array(_with(math.nan)),
    "with inf": _array(_with(math.inf)),
    "with 1e308": _array(_with(1e308)),
    "with minus one": _array(_with(-1)),
    "with 2": _array(_with(2)),
    "with complex": _array(_with(1j)),
    "negated": _array(lambda array: -array.astype(float)),
    "all zero": _array(np.zeros_like),
    "all equal": _array(np.ones_like),
    "as float": _array(lambda array: array.astype(float)),
    "as float16": _array(lambda array: array.astype(np.float16)),
    "as int8": _array(lambda array: array.astype(np.int8)),
    "as objects": _array(lambda array: array.astype(object)),
    "as strings": _array(lambda array: array.astype(str)),
    "as list": _array(lambda array: array.tolist()),
    "as sparse": _array(_as_sparse),
    "as frame": _array(_as_frame),
    "as matrix frame": _array(_matrix_frame),
    "first only": _array(lambda array: array[:1]),
    "none left": _array(lambda array: array[:0]),
    "one less": _array(lambda array: array[:-1]),
    "doubled": _array(lambda array: np.concatenate([array, array])),
    "transposed": _array(lambda array: array.T),
    "flat": _array(lambda array: array.ravel()),
    "new axis": _array(lambda array: array[None]),
    "read-only": _array(_read_only),
    "strided": _array(_strided),
    "last axis gone": _array(lambda array: array[..., 0]),
}

_WILD = (
    None,
    True,
    "a",
    "",
    b"b",
    0,
    -1,
    2,
    1e308,
    math.nan,
    math.inf,
    2**63,
    1j,
    [],
    {},
    [[1], 2],
)


def at_random(value: Any, rng: np.random.Generator, depth: int = 0) -> Any:
    """Return the value with one random place changed, as deep as it goes."""
    if depth < 4 and isinstance(value, np.ndarray) and value.size and value.dtype.kind in "biuf":
        return _random_array(value, rng)
    if depth < 4 and isinstance(value, Mapping) and value:
        keys = list(value)
        key = keys[rng.integers(len(keys))]
        rest = {k: v for k, v in value.items() if k is not key}
        return rest if rng.random() < 0.2 else {**rest, key: at_random(value[key], rng, depth + 1)}
    if depth < 4 and isinstance(value, list | tuple) and value:
        items = list(value)
        place = int(rng.integers(len(items)))
        if rng.random() < 0.15:
            del items[place]
        elif rng.random() < 0.15:
            items.insert(place, items[place])
        else:
            items[place] = at_random(items[place], rng, depth + 1)
        return items if isinstance(value, list) else tuple(items)
    if is_number(value) and rng.random() < 0.7:
        return _random_number(value, rng)
    if isinstance(value, str) and value and rng.random() < 0.7:
        place = int(rng.integers(len(value)))
        return value[:place] + str(rng.choice(["", "\0", "é", "𝔘", " ", "'"])) + value[place + 1 :]
    return copy.deepcopy(_WILD[rng.integers(len(_WILD))])


def _random_number(value: Any, rng: np.random.Generator) -> Any:
    factor = float(rng.choice([-1e9, -2, -1, -1e-9, 0, 1e-300, 1e-9, 0.5, 3, 1e3, 1e9, 1e300]))
    if isinstance(value, int | np.integer):
        product = int(value) * factor
        near = int(product) if math.isfinite(product) else 10**308
        return near + int(rng.integers(-2, 3))
    return float(value) * factor + float(rng.integers(-2, 3))


def _random_array(value: Any, rng: np.random.Generator) -> Any:
    array = np.array(value)
    if rng.random() < 0.2:
        return np.delete(array, int(rng.integers(array.shape[0])), axis=0) if array.ndim else array
    if rng.random() < 0.2:
        return rng.permutation(array.ravel()).reshape(array.shape[::-1])
    array = array.astype(float) if rng.random() < 0.5 else array
    place = int(rng.integers(array.size))
    entry = _random_number(array.flat[place].item() * 1, rng)
    with np.errstate(all="ignore"):
        array = array.astype(np.result_type(array.dtype, np.min_scalar_type(entry)))
        array.flat[place] = entry
    return array
