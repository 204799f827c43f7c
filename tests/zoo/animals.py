"""About fifty small tables and label codings that real people bring.

Each animal is a pair ``(X, y)`` made anew by a function without arguments, so that a door that
changes its input spoils nobody else's. The tame one is what every door must accept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

N = 24
Animal = Callable[[], tuple[Any, Any]]


def numbers(n: int = N) -> np.ndarray:
    """Three columns of numbers; the first decides the label."""
    rng = np.random.default_rng(7)
    return rng.normal(size=(n, 3)).round(3)


def labels(n: int = N) -> np.ndarray:
    """Zeros and ones, both common, that a line almost separates."""
    y = (numbers(n)[:, 0] > 0).astype(int)
    y[0] = 1 - y[0]
    return y


def frame() -> pd.DataFrame:
    """The numbers with names and an index of words."""
    index = [f"row-{i}" for i in range(N)]
    return pd.DataFrame(numbers(), columns=["income", "debt", "age"], index=index)


def with_column(name: str, values: Any) -> pd.DataFrame:
    """The frame with one more column."""
    table = frame()
    table[name] = values
    return table


def with_cell(value: Any) -> pd.DataFrame:
    """The frame with one odd cell."""
    table = frame().astype(object) if not isinstance(value, float) else frame()
    table.iloc[3, 1] = value
    return table


def _words(n: int = N) -> list[str]:
    return [
        ("win cash now" if label else "see you later") + f" {i}"
        for i, label in enumerate(labels(n))
    ]


def _dates() -> pd.DatetimeIndex:
    return pd.date_range("2024-01-01", periods=N, freq="h")


def _read_only() -> np.ndarray:
    X = numbers()
    X.setflags(write=False)
    return X


def _explicit_zeros() -> Any:
    X = sparse.csr_array(numbers())
    X.data[::2] = 0.0
    return X


def _two_levels() -> pd.DataFrame:
    return frame().set_axis(pd.MultiIndex.from_product([["a"], [1, 2, 3]]), axis=1)


def _two_level_rows() -> pd.DataFrame:
    return frame().set_axis(pd.MultiIndex.from_product([range(12), [0, 1]]))


def _categories() -> pd.DataFrame:
    return with_column(
        "city", pd.Categorical(["Bonn", "Ulm"] * (N // 2), categories=["Bonn", "Ulm", "Jena"])
    )


TABLES: dict[str, Callable[[], Any]] = {
    "tame array": numbers,
    "tame frame": frame,
    "columns in another order": lambda: frame()[["age", "income", "debt"]],
    "renamed column": lambda: frame().rename(columns={"debt": "loan"}),
    "duplicate column names": lambda: frame().set_axis(["a", "a", "b"], axis=1),
    "numbered columns": lambda: frame().set_axis([0, 1, 2], axis=1),
    "names of two kinds": lambda: frame().set_axis(["a", 1, "b"], axis=1),
    "two levels of names": _two_levels,
    "two levels of rows": _two_level_rows,
    "duplicate rows in the index": lambda: frame().set_axis([0] * N),
    "unicode names": lambda: frame().set_axis(["Größe", "收入", "🙂 " * 30], axis=1),
    "no rows": lambda: frame().iloc[:0],
    "one row": lambda: frame().iloc[:1],
    "two rows": lambda: frame().iloc[:2],
    "no columns": lambda: frame().iloc[:, :0],
    "one column": lambda: frame().iloc[:, :1],
    "constant columns": lambda: pd.DataFrame(np.ones((N, 3)), columns=list("abc")),
    "equal rows": lambda: np.repeat(numbers(1), N, axis=0),
    "missing value": lambda: with_cell(float("nan")),
    "missing column": lambda: with_column("empty", np.nan),
    "infinite value": lambda: with_cell(float("inf")),
    "nullable integers": lambda: frame().round().astype("Int64").mask(frame() > 2),
    "nullable flags": lambda: (frame() > 0).astype("boolean"),
    "arrow types": lambda: frame().convert_dtypes(dtype_backend="pyarrow"),
    "categories": _categories,
    "unseen category": lambda: _categories().replace({"city": {"Ulm": "Jena"}}),
    "texts in a column": lambda: with_column("job", ["clerk", "nurse"] * (N // 2)),
    "one text among numbers": lambda: with_cell("39 years"),
    "objects that are numbers": lambda: frame().astype(object),
    "cells that are lists": lambda: with_column("bag", pd.Series([[1]] * N, index=frame().index)),
    "dates": lambda: with_column("when", _dates()),
    "dates with a zone": lambda: with_column("when", _dates().tz_localize("Europe/Berlin")),
    "nanoseconds as integers": lambda: with_column("when", _dates().as_unit("ns").asi8),
    "huge scales": lambda: frame() * [1e300, 1e-300, 1.0],
    "beyond squares": lambda: frame() * 1e200,
    "tiny differences": lambda: 1e9 + frame() * 1e-8,
    "float16": lambda: numbers().astype(np.float16),
    "float32": lambda: numbers().astype(np.float32),
    "int8": lambda: numbers().round().astype(np.int8),
    "unsigned": lambda: np.abs(numbers()).round().astype(np.uint64),
    "booleans": lambda: numbers() > 0,
    "complex": lambda: numbers() + 1j,
    "read-only": _read_only,
    "not contiguous": lambda: np.repeat(numbers(), 2, axis=1)[:, ::2],
    "Fortran order": lambda: np.asfortranarray(numbers()),
    "swapped bytes": lambda: numbers().astype(">f8"),
    "sparse": lambda: sparse.csr_array(numbers()),
    "sparse with explicit zeros": _explicit_zeros,
    "sparse columns": lambda: sparse.csc_matrix(numbers()),
    "list of lists": lambda: numbers().tolist(),
    "ragged lists": lambda: [[1.0], [1.0, 2.0]] * (N // 2),
    "raw texts": _words,
    "array of texts": lambda: np.array(_words()),
    "images": lambda: np.random.default_rng(0).random((N, 4, 4, 1)).astype(np.float32),
    "one axis": lambda: numbers()[:, 0],
    "ten thousand columns": lambda: np.tile(numbers(), (1, 3334)),
    "a dict": lambda: {"income": [1.0] * N},
    "nothing": lambda: None,
}  # fmt: skip


def _length(X: Any) -> int:
    return X.shape[0] if hasattr(X, "shape") else len(X) if isinstance(X, list) else N


CODINGS: dict[str, Callable[[], Any]] = {
    "words": lambda: np.where(labels() == 1, "good", "bad"),
    "one and two": lambda: labels() + 1,
    "minus and plus": lambda: 2 * labels() - 1,
    "flags": lambda: labels() == 1,
    "floats": lambda: labels().astype(float),
    "objects": lambda: labels().astype(object),
    "nullable": lambda: pd.array(labels(), dtype="Int64"),
    "categories": lambda: pd.Categorical(np.where(labels() == 1, "yes", "no")),
    "series": lambda: pd.Series(labels(), index=frame().index),
    "one class": lambda: np.ones(N, dtype=int),
    "three classes": lambda: np.arange(N) % 3,
    "missing label": lambda: np.where(np.arange(N) == 4, np.nan, labels()),
    "no label": lambda: np.where(np.arange(N) == 4, None, labels()),
    "measurements": lambda: np.linspace(0, 1, N),
    "too short": lambda: labels()[:-1],
    "a column": lambda: labels().reshape(-1, 1),
    "a table": lambda: np.tile(labels().reshape(-1, 1), (1, 2)),
    "numbers and words": lambda: np.array([1, "a"] * (N // 2), dtype=object),
    "complex": lambda: labels() + 1j,
}


def _pair(make: Callable[[], Any]) -> Animal:
    def animal() -> tuple[Any, Any]:
        X = make()
        n = _length(X)
        return X, labels()[:n] if n <= N else labels()

    return animal


def _coded(make: Callable[[], Any]) -> Animal:
    return lambda: (frame(), make())


ANIMALS: dict[str, Animal] = {
    **{name: _pair(make) for name, make in TABLES.items()},
    **{f"labels: {name}": _coded(make) for name, make in CODINGS.items()},
}
TAME = ("tame array", "tame frame")
