"""Columns of people's tables as plain cells: floats with NaN for what is missing, or objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from counterplay.core.validation import BoolArray, FloatArray
from counterplay.errors import InvalidInputError
from counterplay.tables import Table
from counterplay.tables.cells import is_missing, shown


def frame_of(X: Any, what: str = "X") -> pd.DataFrame:
    """Return a user's data as a frame that pandas can compute with."""
    return native(Table.of(X, what=what).frame())


def native(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose numbers have this machine's order of bytes."""
    types = {
        name: dtype.newbyteorder("=")
        for name, dtype in frame.dtypes.items()
        if isinstance(dtype, np.dtype) and not dtype.isnative
    }
    if not types:
        return frame
    columns = {
        name: column.to_numpy().astype(types[name]) if name in types else column
        for name, column in frame.items()
    }
    return pd.DataFrame(columns, index=frame.index)


def as_floats(values: Any, name: Any) -> FloatArray:
    """Return cells as floats with NaN where missing; refuse text."""
    array = np.asarray(values)
    if array.dtype.kind in "fiub":
        return array.astype(np.float64)
    try:
        flat = [np.nan if is_missing(v) else _plain(v) for v in array.ravel().tolist()]
        return np.array(flat, dtype=np.float64).reshape(array.shape)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"{shown(name, 40)} holds text; use Switch(...), or give an encoded column"
        ) from None


def _plain(value: Any) -> float:
    if isinstance(value, str | bytes):
        raise TypeError
    return float(value)


def is_whole(values: FloatArray) -> bool:
    """Return whether all values that are present are whole numbers."""
    known = values[np.isfinite(values)]
    return bool((known == np.round(known)).all())


def cells(column: pd.Series) -> Any:
    """Return a column as an array: numbers as they are, the rest as objects."""
    array = column.to_numpy()
    return array if array.dtype.kind in "fiub" else np.asarray(column.astype(object), dtype=object)


def same_cells(a: Any, b: Any) -> BoolArray:
    """Return where cells are equal, or both missing; shapes are broadcast."""
    a, b = np.broadcast_arrays(a, b)
    if a.dtype.kind in "fiub" and b.dtype.kind in "fiub":
        return np.asarray((a == b) | ((a != a) & (b != b)), dtype=bool)
    pairs = zip(a.ravel().tolist(), b.ravel().tolist())
    same = [(is_missing(u) and is_missing(v)) or _equal(u, v) for u, v in pairs]
    return np.array(same, dtype=bool).reshape(a.shape)


def _equal(u: Any, v: Any) -> bool:
    return False if is_missing(u) or is_missing(v) else bool(u == v)
