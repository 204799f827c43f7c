"""A user's table, read once at the entry of a public function.

Frames with named columns in any order, strings, categories, missing values, sparse matrices, raw
texts and images all become one object that keeps what the user gave: models are called with what
they were fitted on, columns are matched by name, rows keep their identity into every result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError
from counterplay.tables.cells import first_missing, listed, nearest, shown
from counterplay.tables.labels import Labels, label_values
from counterplay.tables.reading import Container, as_narwhals, as_pandas, pick_columns, read_rows

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Kind = Literal["number", "integer", "flag", "category", "text", "time"]

MOST_CELLS = 1 << 27  # one GiB as float64


@checked
@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a user's data with their names, kinds, index, labels, weights and groups.

    Made by `Table.of`. Nothing is converted: ``rows`` is what the user gave, with its columns in
    the order that was asked for; numbers are computed on request by `numbers`, which refuses what
    is not a number.

    Parameters
    ----------
    rows
        The container as the user gave it, columns in order.
    container
        ``table`` (frames, arrays of objects), ``matrix`` (numbers, dense or sparse), ``texts``,
        ``arrays`` (images and the like: three axes or more).
    names
        Names of the columns; None where there are none.
    index
        Identity of the rows: that of a frame, otherwise 0, 1, 2, ...
    labels
        Labels of the rows, if given.
    weights
        Weight of each row, if given.
    groups
        Group of each row, if given.
    what
        How messages call the table.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"debt": [1, 2], "city": ["Bonn", None]}, index=["ann", "bob"])
    >>> table = Table.of(frame, ["no", "yes"])
    >>> dict(zip(table.names, table.kinds)), table.missing["city"], list(table.index)
    ({'debt': 'integer', 'city': 'text'}, 1, ['ann', 'bob'])
    >>> table.numbers()
    Traceback (most recent call last):
    ...
    counterplay.errors.InvalidInputError: column 'city' of X holds text ('Bonn', ...); numbers are \
needed: drop it, or put an encoder into the model's pipeline

    References
    ----------
    docs/tables.md.
    """

    rows: Any
    container: Container
    names: tuple[str, ...] | None
    index: pd.Index
    labels: Labels | None = None
    weights: FloatArray | None = None
    groups: NDArray[Any] | None = None
    what: str = "X"

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together."""
        shape = (
            (len(self.rows),) if isinstance(self.rows, list) else getattr(self.rows, "shape", None)
        )
        axes = {"texts": (1,), "arrays": range(3, 65)}.get(self.container, (2,))
        if not (
            isinstance(shape, tuple)
            and len(shape) in axes
            and shape[0] == len(self.index)
            and (self.names is None or len(self.names) == shape[1])
        ):
            raise InvalidInputError(
                f"these are not the parts of one table ({self.container} of shape "
                f"{shown(shape)}, {len(self.index)} rows named); use Table.of(X)"
            )

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any = None,
        *,
        columns: Sequence[str] | None = None,
        extra: Literal["refuse", "drop"] = "refuse",
        sample_weight: Any = None,
        groups: Any = None,
        what: str = "X",
    ) -> Table:
        """Read a user's data.

        Parameters
        ----------
        X
            A frame (pandas, polars, Arrow), an array, a sparse matrix, a list of rows, a list of
            texts, or images as an array with three axes or more.
        y
            One label per row, in any coding.
        columns
            Names and order that the columns must have, such as ``feature_names_in_`` of a model.
        extra
            What to do with columns that are not among ``columns``.
        sample_weight
            One weight per row, not negative.
        groups
            One group per row.
        what
            How messages call the table.
        """
        if isinstance(X, Table):
            table = X
        else:
            rows, container, names, index = read_rows(X, what)
            table = cls(rows, container, names, index, what=what)
        if columns is not None:
            table = table.select(columns, extra=extra)
        n = len(table)
        changes: dict[str, Any] = {}
        if y is not None:
            check_same_rows(X, y, what)
            changes["labels"] = Labels.of(y, rows=n)
        if sample_weight is not None:
            check_same_rows(X, sample_weight, what, "sample_weight")
            changes["weights"] = check_weights(sample_weight, n)
        if groups is not None:
            check_same_rows(X, groups, what, "groups")
            changes["groups"] = check_groups(groups, n)
        return replace(table, **changes) if changes else table

    def __len__(self) -> int:
        return len(self.index)

    @property
    def width(self) -> int:
        """Number of columns; 1 for texts, cells of one item for arrays."""
        if self.container == "texts":
            return 1
        shape = self.rows.shape
        return int(np.prod(shape[1:])) if self.container == "arrays" else int(shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are a sparse matrix."""
        return self.container == "matrix" and not isinstance(self.rows, np.ndarray)

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """Kind of each column: number, integer, flag, category, text or time."""
        if self.container == "texts":
            return ("text",)
        if self.container == "table":
            return tuple(column_kind(self.column(j)) for j in range(self.width))
        kind: Kind = {"b": "flag", "i": "integer", "u": "integer"}.get(  # type: ignore[assignment]
            self.rows.dtype.kind, "number"
        )
        return (kind,) * self.width

    @cached_property
    def missing(self) -> dict[Any, int]:
        """Number of missing cells of each column that has some."""
        counts = {}
        for j, name in enumerate(self._labels_of_columns()):
            column = self.column(j)
            count = int(column.isna().sum())
            if count:
                counts[name] = count
        return counts

    def column(self, j: int) -> pd.Series:
        """Return one column as a series with the index of the rows."""
        if isinstance(self.rows, pd.DataFrame):
            return self.rows.iloc[:, j]
        if self.container == "texts":
            return pd.Series(list(self.rows), index=self.index, dtype=object)
        if self.container == "arrays":
            return pd.Series(self.rows.reshape(len(self), -1)[:, j], index=self.index)
        if self.is_sparse:
            values = np.asarray(self.rows[:, [j]].todense()).ravel()
            return pd.Series(values, index=self.index)
        if isinstance(self.rows, np.ndarray):
            return pd.Series(self.rows[:, j], index=self.index).infer_objects()
        return as_pandas(self.rows).iloc[:, j].set_axis(self.index)

    def frame(self) -> pd.DataFrame:
        """Return the rows as a pandas frame with the index of the rows (a copy if it must be)."""
        if isinstance(self.rows, pd.DataFrame):
            return self.rows
        if self.container == "table" and not isinstance(self.rows, np.ndarray):
            return as_pandas(self.rows).set_axis(self.index, axis=0)
        if self.is_sparse:
            return pd.DataFrame.sparse.from_spmatrix(self.rows, index=self.index)
        if self.container == "arrays":
            return pd.DataFrame(self.rows.reshape(len(self), -1), index=self.index)
        if self.container == "texts":
            return pd.DataFrame({"text": list(self.rows)}, index=self.index)
        return pd.DataFrame(self.rows, index=self.index, columns=self.names).infer_objects()

    def select(
        self, columns: Sequence[str], *, extra: Literal["refuse", "drop"] = "refuse"
    ) -> Table:
        """Return the table with these columns, in this order; names that differ are an error.

        Examples
        --------
        >>> import pandas as pd
        >>> table = Table.of(pd.DataFrame({"debt": [1.0], "income": [2.0]}))
        >>> table.select(["income", "debt"]).numbers()
        array([[2., 1.]])
        >>> table.select(["incme", "debt"])
        Traceback (most recent call last):
        ...
        counterplay.errors.InvalidInputError: X has no column 'incme' (nearest: 'income'), which \
is needed
        """
        wanted = tuple(map(str, columns))
        if self.names is None:
            if self.container in ("texts", "arrays") or self.width == len(wanted):
                return self
            raise InvalidInputError(
                f"{self.what} has {self.width} columns, needed are {len(wanted)}: {listed(wanted)}"
            )
        places = match_columns(self.names, wanted, self.what, extra=extra)
        if places == list(range(self.width)):
            return self
        return replace(self, rows=pick_columns(self.rows, places), names=wanted)

    def take(self, rows: Any) -> Any:
        """Return some rows in the container that the user gave (a slice, mask or positions)."""
        if isinstance(self.rows, pd.DataFrame):
            return self.rows.iloc[rows]
        if isinstance(self.rows, np.ndarray) or self.is_sparse:
            return self.rows[rows]
        places = np.arange(len(self))[rows]
        if self.container == "texts":
            return [self.rows[i] for i in places.tolist()]
        return as_narwhals(self.rows)[places.tolist()].to_native()

    def part(self, rows: Any) -> Table:
        """Return some rows as a table, with their labels, weights and groups."""
        return replace(
            self,
            rows=self.take(rows),
            index=self.index[rows],
            labels=None if self.labels is None else self.labels.take(rows),
            weights=None if self.weights is None else self.weights[rows],
            groups=None if self.groups is None else self.groups[rows],
        )

    def numbers(self, *, missing: bool = False) -> FloatArray:
        """Return the rows as a dense array of finite floats, one line per row.

        Texts, categories and times are refused, naming the column; so are missing values unless
        ``missing`` is True (then they are NaN), infinite ones, and sparse matrices: nothing is
        made dense silently.
        """
        if self.container == "texts":
            raise InvalidInputError(
                f"{self.what} holds texts; numbers are needed: put a vectoriser into the pipeline"
            )
        if self.is_sparse:
            raise InvalidInputError(
                f"{self.what} is sparse and a dense array of numbers is needed; pass "
                f"{self.what}.toarray() if {self._size()} fit into memory"
            )
        if self.width * len(self) > MOST_CELLS:
            raise InvalidInputError(
                f"{self.what} has {self._size()}; at most {MOST_CELLS} cells are taken here"
            )
        array = self._dense()
        if not missing and np.isnan(array).any():
            self._raise_missing()
        if np.isinf(array).any():
            i, j = (int(k) for k in np.argwhere(np.isinf(array.reshape(len(self), -1)))[0])
            raise InvalidInputError(f"{self._place(i, j)} is infinite; numbers must be finite")
        return array

    def matrix(self) -> FloatArray | csr_array:
        """Return the rows as finite numbers, sparse if they are sparse."""
        if not self.is_sparse:
            return self.numbers()
        from scipy.sparse import csr_array

        matrix = csr_array(self.rows, dtype=np.float64)
        if not np.isfinite(matrix.data).all():
            raise InvalidInputError(f"{self.what} has entries that are missing or infinite")
        return matrix

    def like(self, values: FloatArray) -> Any:
        """Return other numbers in the container of this table, for a model that was fitted on it.

        Examples
        --------
        >>> import pandas as pd
        >>> table = Table.of(pd.DataFrame({"debt": [1.0]}))
        >>> table.like(np.array([[5.0]])).columns.tolist()
        ['debt']
        """
        if self.container == "arrays":
            return values.reshape(len(values), *self.rows.shape[1:])
        if self.is_sparse:
            return type(self.rows)(values)
        if self.names is None:
            return values
        frame = pd.DataFrame(values, columns=list(self.names))
        if len(values) == len(self):
            frame.index = self.index
        if isinstance(self.rows, pd.DataFrame | np.ndarray):
            return frame
        import narwhals as nw

        columns = {name: frame[name].to_numpy() for name in self.names}
        backend = as_narwhals(self.rows).implementation
        return nw.from_dict(columns, backend=backend).to_native()

    def _labels_of_columns(self) -> Sequence[Any]:
        return self.names if self.names is not None else range(self.width)

    def _size(self) -> str:
        return f"{len(self)} rows of {self.width} columns"

    def _dense(self) -> FloatArray:
        if isinstance(self.rows, np.ndarray) and self.rows.dtype.kind in "fiub":
            return np.ascontiguousarray(self.rows, dtype=np.float64)
        columns = []
        for j, kind in enumerate(self.kinds):
            column = self.column(j)
            if kind in ("category", "text", "time"):
                self._raise_not_numbers(j, kind, column)
            columns.append(column.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.ascontiguousarray(np.column_stack(columns))

    def _raise_not_numbers(self, j: int, kind: Kind, column: pd.Series) -> None:
        words = {"category": "categories", "text": "text", "time": "times"}[kind]
        known = column.dropna()
        example = f" ({shown(known.iloc[0], 30)}, ...)" if len(known) else ""
        raise InvalidInputError(
            f"column {shown(self._labels_of_columns()[j], 40)} of {self.what} holds {words}"
            f"{example}; numbers are needed: drop it, or put an encoder into the model's pipeline"
        )

    def _raise_missing(self) -> None:
        j, name = next(
            (j, name)
            for j, name in enumerate(self._labels_of_columns())
            if self.column(j).isna().any()
        )
        column = self.column(j)
        first = self.index[first_missing(column)]
        raise InvalidInputError(
            f"column {shown(name, 40)} of {self.what} has {int(column.isna().sum())} missing values"
            f" (NaN; first in row {shown(first, 30)}); impute or drop them"
        )

    def _place(self, i: int, j: int) -> str:
        name = shown(self._labels_of_columns()[j], 40)
        return f"row {shown(self.index[i], 30)} of {self.what} in column {name}"


def match_columns(
    given: Sequence[str],
    wanted: Sequence[str],
    what: str = "X",
    *,
    extra: Literal["refuse", "drop"] = "refuse",
) -> list[int]:
    """Return where each wanted column stands among the given ones; raise if names differ.

    Examples
    --------
    >>> match_columns(["debt", "income"], ["income", "debt"])
    [1, 0]
    """
    place = {name: j for j, name in enumerate(given)}
    missing = [name for name in wanted if name not in place]
    unknown = [] if extra == "drop" else [name for name in given if name not in set(wanted)]
    if missing:
        near = nearest(missing[0], (name for name in given if name not in set(wanted)))
        more = f" and {len(missing) - 1} more that are" if len(missing) > 1 else ", which is"
        raise InvalidInputError(f"{what} has no column {shown(missing[0], 40)}{near}{more} needed")
    if unknown:
        raise InvalidInputError(
            f"{what} has {'columns' if len(unknown) > 1 else 'a column'} that nothing was fitted "
            f"on: {listed(unknown)}; leave out what is not among {listed(wanted)}"
        )
    return [place[name] for name in wanted]


def column_kind(column: pd.Series) -> Kind:
    """Return the kind of a column: number, integer, flag, category, text or time.

    Examples
    --------
    >>> import pandas as pd
    >>> column_kind(pd.Series([1, 2])), column_kind(pd.Series([True, None], dtype="boolean"))
    ('integer', 'flag')
    """
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if pd.api.types.is_bool_dtype(dtype):
        return "flag"
    if pd.api.types.is_integer_dtype(dtype):
        return "integer"
    if pd.api.types.is_complex_dtype(dtype):
        raise InvalidInputError(f"column {shown(column.name, 40)} holds complex numbers")
    if pd.api.types.is_numeric_dtype(dtype):
        return "number"
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return "time"
    if isinstance(dtype, pd.StringDtype):
        return "text"
    return _kind_of_objects(column)


def check_weights(sample_weight: Any, rows: int, what: str = "sample_weight") -> FloatArray:
    """Return weights of rows: finite, not negative, not all zero."""
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"{what} must be one number per row, got {shown(sample_weight)}"
        ) from None
    if weights.shape != (rows,):
        raise InvalidInputError(f"{what} must have one number for each of {rows} rows")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise InvalidInputError(f"{what} must be finite and not negative")
    if not weights.sum() > 0:
        raise InvalidInputError(f"{what} is zero for every row")
    return weights


def check_groups(groups: Any, rows: int, what: str = "groups") -> NDArray[Any]:
    """Return the group of each row; a missing one is an error that names the row."""
    values = label_values(groups, what)
    if len(values) != rows:
        raise InvalidInputError(f"{what} has {len(values)} entries for {rows} rows")
    return values


def check_same_rows(X: Any, values: Any, what: str = "X", name: str = "y") -> None:
    """Refuse a series of values whose index has the rows of the frame in another order."""
    if not (isinstance(X, pd.DataFrame) and isinstance(values, pd.Series)):
        return
    if len(X) != len(values) or X.index.equals(values.index):
        return
    if isinstance(X.index, pd.RangeIndex) or isinstance(values.index, pd.RangeIndex):
        return
    if set(X.index) == set(values.index):
        raise InvalidInputError(
            f"{name} has the rows of {what} in another order; use {name}.loc[{what}.index]"
        )


def _kind_of_objects(column: pd.Series) -> Kind:
    """Kind of a column of Python objects, by all cells that are not missing."""
    inferred = pd.api.types.infer_dtype(column, skipna=True)
    kinds: dict[str, Kind] = {
        "boolean": "flag",
        "integer": "integer",
        "floating": "number",
        "mixed-integer-float": "number",
        "decimal": "number",
        "datetime64": "time",
        "datetime": "time",
        "date": "time",
        "string": "text",
        "categorical": "category",
        "empty": "number",
        "mixed-integer": "text",
        "mixed": "text",
    }
    if inferred in ("mixed", "mixed-integer"):
        for value in column.dropna():
            if not isinstance(value, str | int | float | bool | np.number | np.bool_):
                raise InvalidInputError(
                    f"column {shown(column.name, 40)} holds {shown(value)}; "
                    "cells are numbers, texts, categories, flags or times"
                )
    if inferred not in kinds:
        raise InvalidInputError(
            f"column {shown(column.name, 40)} holds {inferred} values; "
            "cells are numbers, texts, categories, flags or times"
        )
    return kinds[inferred]
