"""A frozen schema: what each column is, decided once, so that one odd row changes no other row.

The container leaks: one text in a numeric column turns the whole column into texts, one missing
value turns integers into floats. A schema is therefore fixed first and each row is cast to it
alone. Inferred kinds are a majority vote of the rows (or of their sources), and the number of
voters that could overturn it is known.
"""

from __future__ import annotations

import datetime
import decimal
import math
import numbers
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.errors import InvalidInputError
from counterplay.tables.casting import (
    CategoryValues,
    Column,
    FrozenKind,
    cast_column,
    parse_float,
    parse_time,
)
from counterplay.tables.cells import is_missing, listed, shown
from counterplay.tables.reading import Container
from counterplay.tables.table import Table, match_columns

_CHUNK = 50_000


@checked
@dataclass(frozen=True)
class Schema:
    """The kinds of a table's columns, frozen: later rows are cast to it one by one.

    Parameters
    ----------
    container
        ``table``, ``matrix``, ``texts`` or ``arrays``.
    columns
        The columns of a table.
    dtype
        For matrices and arrays: ``float64`` or ``float32``, the type that is handed on.
    shape
        For matrices ``(width,)``; for arrays the shape of one item.
    margin
        Fewest voters that could change the kind of a column by changing all their cells, if the
        schema was inferred; None if nothing was voted on.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [39, 50, "51 years"], "city": ["Bonn", "Ulm", "Bonn"]})
    >>> schema = Schema.infer(frame)
    >>> [(column.name, column.kind) for column in schema.columns], schema.margin
    ([('age', 'number'), ('city', 'text')], 1)
    >>> cast = schema.cast(frame)
    >>> cast.rejected
    (Rejected(row=2, column='age', value="'51 years'"),)
    >>> cast.frame()["age"].tolist()
    [39.0, 50.0]

    References
    ----------
    docs/tables.md; "Rows", see docs/theory/21-sources.md.
    """

    container: Container
    columns: tuple[Column, ...] = ()
    dtype: Literal["float64", "float32"] = "float64"
    shape: tuple[int, ...] = ()
    margin: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.columns, tuple) or not isinstance(self.shape, tuple):
            raise InvalidInputError("columns and shape of a schema are tuples")
        if self.container not in get_args(Container):
            raise InvalidInputError(f"there is no container {shown(self.container)}")
        if self.dtype not in ("float64", "float32"):
            raise InvalidInputError(f"dtype must be float64 or float32, got {shown(self.dtype)}")
        if (self.container == "table") != bool(self.columns):
            raise InvalidInputError("a schema has columns exactly when it describes a table")
        names = [unicodedata.normalize("NFC", column.name) for column in self.columns]
        if len(set(names)) < len(names):  # an encoded row would depend on their order
            twice = [name for name, count in Counter(names).items() if count > 1]
            raise InvalidInputError(f"the schema names {listed(twice)} more than once")

    @classmethod
    def infer(cls, X: Any, sources: Any = None) -> Schema:
        """Freeze the kinds of a user's data by a majority of its rows.

        Parameters
        ----------
        X
            The data, in any container.
        sources
            Who sent each row; then each source has one vote, that of most of its cells.
        """
        if _is_list(X) and (lead := _lead_of_texts(list(X), sources)) > 0:
            return cls("texts", margin=-(-lead // 2))
        table = Table.of(X)
        if table.container != "table":
            dtype: Literal["float64", "float32"] = (
                "float32" if table.rows.dtype == np.float32 else "float64"
            )
            return cls(table.container, dtype=dtype, shape=tuple(table.rows.shape[1:]))
        units = _units(sources, len(table))
        names = _names(table)
        columns, margins = [], []
        for j, name in enumerate(names):
            column, margin = _vote(name, table.column(j), units)
            columns.append(column)
            margins.append(margin)
        return cls("table", tuple(columns), margin=min(margins))

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Schema:
        """Rebuild a schema from `to_dict`; anything else is refused."""
        try:
            columns = tuple(
                Column(
                    str(item["name"]),
                    _one_of(item["kind"], get_args(FrozenKind)),
                    None
                    if item.get("values") is None
                    else _one_of(item["values"], get_args(CategoryValues)),
                    None if item.get("order") is None else tuple(item["order"]),
                )
                for item in record.get("columns", ())
            )
            shape = tuple(int(size) for size in record.get("shape", ()))
            container = _one_of(record["container"], get_args(Container))
            dtype = _one_of(record.get("dtype", "float64"), ("float64", "float32"))
        except InvalidInputError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInputError(f"not a schema: {shown(error)}") from None
        return cls(container, columns, dtype, shape)

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain values for JSON."""
        columns = []
        for column in self.columns:
            item: dict[str, Any] = {"name": column.name, "kind": column.kind}
            if column.values is not None:
                item["values"] = column.values
            if column.order is not None:
                item["order"] = list(column.order)
            columns.append(item)
        return {
            "container": self.container,
            "columns": columns,
            "dtype": self.dtype,
            "shape": list(self.shape),
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    def summary(self) -> str:
        """Say in words what is frozen."""
        if self.container == "texts":
            return "raw texts, one per row"
        if self.container != "table":
            size = " x ".join(map(str, self.shape))
            word = "columns" if self.container == "matrix" else "cells"
            return f"{self.container} of {size} {word} as {self.dtype}"
        kinds = Counter(column.kind for column in self.columns)
        text = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        note = (
            ""
            if self.margin is None
            else (
                "; columns taken from the training rows, pass schema= to fix them; "
                f"{self.margin} voters could change a kind"
            )
        )
        return f"table of {len(self.columns)} columns ({text}){note}"

    def cast(self, X: Any, *, what: str = "X", plain: bool = True) -> Cast:
        """Cast each row alone to the schema; rows that cannot be cast are listed, never raised.

        Columns are matched by name; a missing one is an error, because no row could be cast. With
        ``plain=False`` a matrix may be the user's own, not a copy, and negative zeros are left to
        the caller's :func:`plain_numbers`: large ones are then in memory once.
        """
        if self.container == "texts" and _is_list(X):
            return self._cast_texts(X, what)
        table = Table.of(X, what=what)
        if self.container == "table" and table.container == "matrix" and not table.is_sparse:
            table = Table.of(pd.DataFrame(table.rows), what=what)
        if table.container != self.container:
            raise InvalidInputError(
                f"{what} is of kind {table.container}, the schema says {self.container}"
            )
        if self.container == "texts":
            return Cast(self, np.arange(len(table)), (), {"text": _texts(table.rows)}, table.index)
        if self.container != "table":
            return self._cast_numbers(table, plain)
        places = match_columns(_names(table), self.names, what)
        cells: dict[str, NDArray[Any]] = {}
        bad = np.zeros(len(table), dtype=bool)
        rejected: list[Rejected] = []
        for column, j in zip(self.columns, places):
            series = table.column(j)
            cells[column.name], wrong = cast_column(column, series)
            rejected += [
                Rejected(int(i), column.name, shown(series.iloc[int(i)], 200))
                for i in np.flatnonzero(wrong & ~bad)
            ]
            bad |= wrong
        kept = np.flatnonzero(~bad)
        rejected.sort(key=lambda item: item.row)
        return Cast(
            self,
            kept,
            tuple(rejected),
            {name: values[kept] for name, values in cells.items()},
            table.index[kept],
        )

    def _cast_texts(self, X: Any, what: str) -> Cast:
        """Cast texts one by one; what is no text is rejected."""
        values = list(X)
        if not values:
            raise InvalidInputError(f"{what} has no rows")
        bad = [not isinstance(value, str) for value in values]
        rejected = tuple(
            Rejected(i, "text", shown(values[i], 200)) for i in np.flatnonzero(bad).tolist()
        )
        kept = np.flatnonzero(~np.array(bad))
        index = X.index if isinstance(X, pd.Series) else pd.RangeIndex(len(values))
        texts = _texts([values[i] for i in kept.tolist()])
        return Cast(self, kept, rejected, {"text": texts}, index[kept])

    def _cast_numbers(self, table: Table, plain: bool) -> Cast:
        """Cast a matrix or array: the width and the type of the schema."""
        if tuple(table.rows.shape[1:]) != self.shape:
            raise InvalidInputError(
                f"{table.what} has items of shape {tuple(table.rows.shape[1:])}, "
                f"the schema says {self.shape}"
            )
        if table.is_sparse:
            rows = table.rows.astype(np.dtype(self.dtype))
            rows.sum_duplicates()
            rows.eliminate_zeros()
            rows.data = plain_numbers(rows.data)
        else:
            rows = table.rows.astype(np.dtype(self.dtype), copy=False)
            rows = plain_numbers(rows) if plain else rows
        return Cast(self, np.arange(len(table)), (), {"rows": rows}, table.index)


@dataclass(frozen=True)
class Rejected:
    """A row that does not fit the schema.

    Parameters
    ----------
    row
        Its position.
    column
        The first column that does not fit.
    value
        The cell, as it prints.
    """

    row: int
    column: str
    value: str


@dataclass(frozen=True, eq=False)
class Cast:
    """Rows cast to a schema, one by one.

    Parameters
    ----------
    schema
        The schema.
    kept
        Positions of the rows that fit.
    rejected
        The others, with the cell that does not fit.
    cells
        Values of the rows that fit, by column (``text`` for texts, ``rows`` for matrices).
    index
        Identity of the rows that fit.
    """

    schema: Schema
    kept: NDArray[np.int64]
    rejected: tuple[Rejected, ...]
    cells: dict[str, Any]
    index: pd.Index

    def __len__(self) -> int:
        return len(self.kept)

    def raise_rejected(self, what: str = "test row") -> None:
        """Raise for the first row that does not fit: it is the user's own."""
        if self.rejected:
            first = self.rejected[0]
            kinds = {column.name: column.kind for column in self.schema.columns}
            kind = kinds.get(first.column, "text")
            raise InvalidInputError(
                f"column {shown(first.column, 40)} of {what} {first.row} is "
                f"{shown_text(first.value)}, the schema says {kind}"
            )

    def rows(self, places: Any = slice(None), categories: Mapping[str, Any] | None = None) -> Any:
        """Return rows in the container of the schema, normalised and nothing else.

        Parameters
        ----------
        places
            Which of the rows that fit: a slice, mask or positions.
        categories
            Values of each category column; by default those that occur in these rows. Other values
            become missing.
        """
        if self.schema.container == "texts":
            return list(self.cells["text"][places])
        if self.schema.container != "table":
            return self.cells["rows"][places]
        return self.frame(places, categories)

    def frame(
        self, places: Any = slice(None), categories: Mapping[str, Any] | None = None
    ) -> pd.DataFrame:
        """Return rows of a table as a frame with the types of the schema."""
        known = {} if categories is None else categories
        columns = {
            column.name: _as_series(column, self.cells[column.name][places], known)
            for column in self.schema.columns
        }
        frame = pd.DataFrame(columns)
        frame.index = self.index[places]
        return frame


def _is_list(X: Any) -> bool:
    """Whether a container is a list of cells; one row among them is an odd cell."""
    if isinstance(X, list | tuple):
        return not all(isinstance(value, list | tuple | np.ndarray) for value in X)
    return len(getattr(X, "shape", ())) == 1


def _lead_of_texts(cells: list[Any], sources: Any) -> int:
    """Voters who sent texts minus voters who sent something else; a missing cell is no vote."""
    texts = np.fromiter((isinstance(cell, str) for cell in cells), dtype=bool, count=len(cells))
    if not texts.any():
        return 0
    units = _units(sources, len(cells))
    if texts.all():
        return len(np.unique(units))
    ballots = np.where(texts, "text", np.where([is_missing(cell) for cell in cells], "", "number"))
    tally = _tally(ballots, units)
    return tally["text"] - tally["number"]


def shown_text(text: str) -> str:
    """Return a text that is already a representation, cut for a message."""
    return text if len(text) <= 60 else text[:57] + "..."


def _names(table: Table) -> tuple[str, ...]:
    return table.names or tuple(map(str, range(table.width)))


def _one_of(value: Any, known: Sequence[Any]) -> Any:
    if value not in known:
        raise InvalidInputError(f"not a schema: {shown(value)} is none of {listed(known)}")
    return value


def _units(sources: Any, n: int) -> NDArray[np.int64]:
    """Return the voter of each row: its source, or the row itself."""
    if sources is None:
        return np.arange(n)
    values = list(sources)
    if len(values) != n:
        raise InvalidInputError(f"sources has {len(values)} entries for {n} rows")
    place: dict[Any, int] = {}
    units = np.empty(n, dtype=np.int64)
    for i, value in enumerate(values):  # a row without a source is its own voter
        key = ("row", i) if is_missing(value) else ("source", value)
        units[i] = place.setdefault(key, len(place))
    return units


def _vote(name: str, column: pd.Series, units: NDArray[np.int64]) -> tuple[Column, int]:
    """Return the column that the voters choose, and how many of them could change that."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        tally = _tally(_ballots(column.astype(object)), units)
        numeric = 2 * tally["number"] > tally.total()
        margin = _overturn(tally, "number" if numeric else None, ("number",))
        values: CategoryValues = "numbers" if numeric else "texts"
        order = tuple(column.cat.categories.tolist()) if column.cat.ordered else None
        return Column(name, "category", values, order), margin
    tally = _tally(_ballots(column), units)
    winner = _majority(tally)
    kind: FrozenKind = winner or ("number" if not tally.total() else "text")
    return Column(name, kind), _overturn(tally, winner, ("number", "flag", "time"))


def _majority(tally: Counter[str]) -> Literal["number", "flag", "time"] | None:
    kinds: tuple[Literal["number", "flag", "time"], ...] = ("number", "flag", "time")
    return next((kind for kind in kinds if 2 * tally[kind] > tally.total()), None)


def _overturn(tally: Counter[str], winner: str | None, kinds: Sequence[str]) -> int:
    """Return the fewest voters whose change of mind changes the winner.

    A winner leads by ``2 v - n > 0``; a voter who leaves it for another kind takes two from the
    lead, every other change takes at most one. Without a winner, a kind lacks ``n - 2 v + 1`` for a
    majority and a voter who joins it gives two.
    """
    n = tally.total()
    if winner is not None:
        return -(-(2 * tally[winner] - n) // 2)
    return min(max(1, -(-(n - 2 * tally[kind] + 1) // 2)) for kind in kinds)


def _tally(ballots: NDArray[Any], units: NDArray[np.int64]) -> Counter[str]:
    """Count one vote per voter: the kind of most of its cells (ties: the first of the list)."""
    order = ("number", "flag", "time", "text")
    codes = np.array([order.index(b) if b else -1 for b in ballots], dtype=np.int64)
    cast = codes >= 0
    if not cast.any():
        return Counter()
    n = int(units.max()) + 1
    counts = np.zeros((n, len(order)), dtype=np.int64)
    np.add.at(counts, (units[cast], codes[cast]), 1)
    votes = counts.argmax(axis=1)[counts.any(axis=1)]
    return Counter({kind: int((votes == j).sum()) for j, kind in enumerate(order)})


def _ballots(column: pd.Series) -> NDArray[Any]:
    """Return the kind each cell votes for; an empty text for a missing cell."""
    dtype = column.dtype
    uniform = None
    if pd.api.types.is_bool_dtype(dtype) and not pd.api.types.is_object_dtype(dtype):
        uniform = "flag"
    elif pd.api.types.is_numeric_dtype(dtype):
        uniform = "number"
    elif pd.api.types.is_datetime64_any_dtype(dtype):
        uniform = "time"
    if uniform is not None:
        return np.where(column.isna().to_numpy(dtype=bool), "", uniform).astype(object)
    return np.array([_ballot(value) for value in column.tolist()], dtype=object)


def _ballot(value: Any) -> str:
    if is_missing(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return "flag"
    if isinstance(value, numbers.Number | decimal.Decimal):
        return "number"
    if isinstance(value, datetime.date | np.datetime64):
        return "time"
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in ("true", "false"):
            return "flag"
        if not math.isnan(parse_float(text, math.nan)):
            return "number"
        return "text" if parse_time(text) is None else "time"
    return "text"


def plain_numbers(cells: NDArray[Any]) -> NDArray[Any]:
    """Return numbers without negative zeros and with one payload for every NaN.

    They are copied only if one of them has to change.
    """
    starts = range(0, len(cells), _CHUNK)
    if not any(_odd_numbers(cells[i : i + _CHUNK]) for i in starts):
        return cells
    plain: NDArray[Any] = cells + cells.dtype.type(0)
    plain[np.isnan(plain)] = np.nan
    return plain


def _odd_numbers(cells: NDArray[Any]) -> bool:
    return bool(np.isnan(cells).any() or (np.signbit(cells) & (cells == 0)).any())


def _texts(rows: Any) -> NDArray[Any]:
    array = np.empty(len(rows), dtype=object)
    array[:] = [unicodedata.normalize("NFC", str(text)) for text in rows]
    return array


def _as_series(column: Column, values: NDArray[Any], categories: Mapping[str, Any]) -> Any:
    if column.kind == "time":
        return pd.DatetimeIndex(values, tz="UTC")
    if column.kind == "text":
        return pd.Series(values, dtype=object)  # pandas' own texts cannot hold half a character
    if column.kind != "category":
        return values
    known: Any = categories.get(column.name, column.order)
    if known is None:
        known = sorted({value for value in values.tolist() if not is_missing(value)})
    place = {value: j for j, value in enumerate(known)}
    codes = [place.get(value, -1) for value in values.tolist()]
    return pd.Categorical.from_codes(codes, list(known), ordered=column.order is not None)
