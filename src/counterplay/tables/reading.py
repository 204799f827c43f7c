"""What container a user gave: frames of any library, arrays, sparse matrices, lists, texts.

Everything that cannot be a table is refused here, in one sentence. Some sentences use the words
that scikit-learn's checks of estimators look for.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.errors import InvalidInputError
from counterplay.tables.cells import listed, shown

Container = Literal["table", "matrix", "texts", "arrays"]

MOST_COLUMNS = 1_000_000


def read_rows(X: Any, what: str) -> tuple[Any, Container, tuple[str, ...] | None, pd.Index]:
    """Return rows, container, names and index of what the user gave."""
    if isinstance(X, pd.DataFrame):
        return X, "table", _names(X.columns, what), _rows(X.index, what)
    if isinstance(X, pd.Series):
        return (*_read_list(X.to_numpy(dtype=object), what)[:3], _rows(X.index, what))
    if type(X).__module__.split(".")[0] == "scipy" and hasattr(X, "tocsr"):
        return _read_sparse(X, what)
    if isinstance(X, np.ndarray):
        return _read_array(X, what)
    if _is_frame(X):
        names = _names(list(as_narwhals(X).columns), what)
        return X, "table", names, _rows(pd.RangeIndex(len(X)), what)
    if isinstance(X, list | tuple):
        return _read_list(X, what)
    if hasattr(X, "__array__") and not isinstance(X, type):  # tensors and the like
        try:
            return _read_array(np.asarray(X), what)
        except (TypeError, RuntimeError) as error:
            raise InvalidInputError(f"{what} cannot become an array: {shown(error)}") from None
    raise InvalidInputError(
        f"{what} must be a frame, an array, a sparse matrix or a list of rows or texts, "
        f"got {shown(X)}"
    )


def _read_sparse(X: Any, what: str) -> tuple[Any, Container, None, pd.Index]:
    if X.ndim != 2:
        raise InvalidInputError(f"{what} must have rows and columns, got shape {X.shape}")
    if X.dtype.kind not in "fiub":
        raise InvalidInputError(f"{what} is sparse with entries of type {X.dtype}; use numbers")
    rows = X.tocsr()
    index = rows.indices
    if index.size and (index.min() < 0 or index.max() >= X.shape[1]):
        raise InvalidInputError(f"{what} is a damaged sparse matrix: a column index is outside")
    return rows, "matrix", None, _rows(pd.RangeIndex(X.shape[0]), what)


def _read_array(X: NDArray[Any], what: str) -> tuple[Any, Container, None, pd.Index]:
    if X.dtype.kind == "c":
        raise InvalidInputError(f"Complex data not supported: {what} holds complex numbers")
    if X.dtype.kind == "V":
        raise InvalidInputError(f"{what} is a structured array; pass pandas.DataFrame({what})")
    if X.ndim == 1 and (X.dtype.kind == "U" or _all_texts(X)):
        return X, "texts", None, _rows(pd.RangeIndex(len(X)), what)
    if X.ndim < 2:
        raise InvalidInputError(
            f"{what} must have rows and columns, got shape {X.shape}. Reshape your data: one "
            f"column is {what}.reshape(-1, 1), one row {what}.reshape(1, -1)"
        )
    if 0 in X.shape[1:]:
        raise InvalidInputError(
            f"{what} has no columns: 0 feature(s) (shape={X.shape}) while a minimum of 1 is "
            "required."
        )
    index = _rows(pd.RangeIndex(len(X)), what)
    if X.dtype.kind in "fiub":
        return X, "matrix" if X.ndim == 2 else "arrays", None, index
    if X.ndim > 2 or X.dtype.kind not in "OUSMm":
        raise InvalidInputError(f"{what} has cells of type {X.dtype}; use numbers or texts")
    if X.shape[1] > MOST_COLUMNS:
        raise InvalidInputError(f"{what} has {X.shape[1]} columns, at most {MOST_COLUMNS}")
    return X, "table", None, index


def _read_list(X: Any, what: str) -> tuple[Any, Container, None, pd.Index]:
    values = list(X)
    if values and all(isinstance(value, str) for value in values):
        return values, "texts", None, _rows(pd.RangeIndex(len(values)), what)
    if not values:
        raise InvalidInputError(f"{what} has no rows")
    lengths = [len(v) if hasattr(v, "__len__") and not isinstance(v, str) else -1 for v in values]
    odd = next((i for i, n in enumerate(lengths) if n != lengths[0]), None)
    if odd is not None:
        raise InvalidInputError(
            f"{what} is ragged: row 0 and row {odd} differ in length or kind; rows must be alike"
        )
    try:
        array = np.asarray(values)
        if array.dtype.kind in "US":  # numbers beside texts must stay numbers
            array = np.asarray(values, dtype=object)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{what} is not a list of rows: {shown(error)}") from None
    return _read_array(array, what)


def _all_texts(X: NDArray[Any]) -> bool:
    return X.dtype.kind == "O" and len(X) > 0 and all(isinstance(value, str) for value in X)


def _names(columns: Any, what: str) -> tuple[str, ...] | None:
    """Return the names of columns; None if they are numbered; raise if they cannot be names."""
    if isinstance(columns, pd.MultiIndex):
        raise InvalidInputError(
            f"{what} has columns with {columns.nlevels} levels of names; flatten them to one"
        )
    labels = list(columns)
    if not labels:
        raise InvalidInputError(f"{what} has no columns")
    if len(labels) > MOST_COLUMNS:
        raise InvalidInputError(f"{what} has {len(labels)} columns, at most {MOST_COLUMNS}")
    texts = sum(isinstance(label, str) for label in labels)
    if texts == 0:
        return None
    if texts < len(labels):
        odd = next(label for label in labels if not isinstance(label, str))
        raise InvalidInputError(
            f"column names of {what} must all be texts, one is {shown(odd)}; "
            f"use {what}.columns.astype(str)"
        )
    if len(set(labels)) < len(labels):
        twice = [label for label, count in Counter(labels).items() if count > 1]
        raise InvalidInputError(f"{what} has more than one column named {listed(twice)}")
    return tuple(labels)


def _rows(index: pd.Index, what: str) -> pd.Index:
    if not len(index):
        raise InvalidInputError(f"{what} has no rows")
    return index


def _is_frame(X: Any) -> bool:
    """Whether a container is a frame that narwhals can read (polars, Arrow and others)."""
    if not (hasattr(X, "columns") or hasattr(X, "column_names")):
        return False
    import narwhals as nw

    return isinstance(nw.from_native(X, pass_through=True, eager_only=True), nw.DataFrame)


def as_narwhals(X: Any) -> Any:
    """Return a frame of any library behind one interface."""
    import narwhals as nw

    return nw.from_native(X, eager_only=True)


def as_pandas(X: Any) -> pd.DataFrame:
    """Return a frame of another library as a pandas frame."""
    frame = as_narwhals(X)
    try:
        return frame.to_pandas()
    except ImportError:  # polars hands over through pyarrow
        return pd.DataFrame({name: frame[name].to_list() for name in frame.columns})


def pick_columns(rows: Any, places: list[int]) -> Any:
    """Return some columns of a container, in this order."""
    if isinstance(rows, pd.DataFrame):
        return rows.iloc[:, places]
    if isinstance(rows, np.ndarray) or hasattr(rows, "tocsr"):
        return rows[:, places]
    frame = as_narwhals(rows)
    return frame.select([frame.columns[j] for j in places]).to_native()
