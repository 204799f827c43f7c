"""Training rows of a vote: cast alone to a frozen schema, hashed, dealt to blocks.

What a block receives is a function of its own rows: their cells, in the order of their hashes.
Rows that do not fit are left out with one warning, never an exception, because an exception would
let one row stop the training. Source: docs/theory/21-sources.md, "Rows".
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning

from counterplay.core.validation import BoolArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.poisoning.errors import RowsRejectedWarning
from counterplay.poisoning.model import as_points
from counterplay.poisoning.units import Digests
from counterplay.tables import Schema, Table
from counterplay.tables.cells import shown
from counterplay.tables.encoding import encode_rows, row_digests
from counterplay.tables.labels import as_labels, cast_labels
from counterplay.tables.schema import Cast, Rejected, plain_numbers
from counterplay.tables.table import check_same_rows

_CHUNK = 20_000


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows cast to a schema, handed to models in the user's container.

    Parameters
    ----------
    cast
        The rows.
    positions
        Whether the rows are positions in a finite domain, which learners take as a vector.
    """

    cast: Cast
    positions: bool = False

    def __len__(self) -> int:
        return len(self.cast)

    def take(self, places: Any = slice(None), categories: Any = None) -> Any:
        """Return some rows; nothing but their cells is handed on."""
        rows = self.cast.rows(places, categories)
        if isinstance(rows, pd.DataFrame):
            return rows.set_axis(pd.RangeIndex(len(rows)), axis=0)
        return rows[:, 0].astype(np.int64) if self.positions else rows

    def part(self, places: Any) -> Rows:
        """Return some rows as rows."""
        cells = {name: _plain(values[places]) for name, values in self.cast.cells.items()}
        n = int(next(iter(cells.values())).shape[0])
        cast = Cast(self.cast.schema, np.arange(n), (), cells, pd.RangeIndex(n))
        return replace(self, cast=cast)

    def stack(self, others: Sequence[Rows]) -> Rows:
        """Return these rows and those of the others below them."""
        cells: dict[str, Any] = {}
        for name, values in self.cast.cells.items():
            more = [values, *(other.cast.cells[name] for other in others)]
            if all(isinstance(part, np.ndarray) for part in more):
                cells[name] = np.concatenate(more)
            else:
                from scipy.sparse import vstack

                cells[name] = vstack(more, format="csr")
        n = len(self) + sum(map(len, others))
        cast = Cast(self.cast.schema, np.arange(n), (), cells, pd.RangeIndex(n))
        return replace(self, cast=cast)

    def digests(self, key: bytes | str | None) -> Digests:
        """Return the keyed hash of each row, computed in pieces."""
        starts = range(0, len(self), _CHUNK)
        parts = [self.part(slice(i, i + _CHUNK)) for i in starts] if len(self) > _CHUNK else [self]
        return np.concatenate([row_digests(encode_rows(part.cast), key=key) for part in parts])


def _plain(values: Any) -> Any:
    dense = isinstance(values, np.ndarray) and values.dtype.kind == "f"
    return plain_numbers(values) if dense else values


def points_of(X: Any, positions: bool | None = None) -> Rows:
    """Return rows for a learner of this area: numbers, or positions in a finite domain."""
    array = X if isinstance(X, np.ndarray | list | tuple) else Table.of(X).numbers()
    points = as_points(array)
    flat = points.ndim == 1
    if positions is not None and flat != positions and points.size:
        raise InvalidInputError("X must be of the kind the learner was fitted on")
    table = points.reshape(len(points), -1).astype(np.float64)
    cells = {"rows": table + 0.0}
    schema = Schema("matrix", shape=(table.shape[1],))
    return Rows(Cast(schema, np.arange(len(table)), (), cells, pd.RangeIndex(len(table))), flat)


def entry(X: Any) -> Any:
    """Return what a user gave as a container that can be read; complaints as in scikit-learn."""
    known = isinstance(X, np.ndarray | list | tuple | pd.DataFrame | pd.Series)
    if not known and type(X).__module__.startswith("sklearn.") and hasattr(X, "__array__"):
        X = np.asarray(X)
    if isinstance(X, np.ndarray):
        if X.dtype.kind == "c":
            raise InvalidInputError("Complex data not supported: X holds complex numbers")
        if X.ndim == 1 and X.dtype.kind in "biuf":
            raise InvalidInputError(
                "Expected 2D array, got 1D array instead. Reshape your data: one column is "
                "X.reshape(-1, 1), one row X.reshape(1, -1)"
            )
        if X.ndim == 2 and X.shape[1] == 0:
            raise InvalidInputError(
                f"X has 0 feature(s) (shape={X.shape}) while a minimum of 1 is required."
            )
    return X


def column_of(y: Any) -> Any:
    """Return labels as one axis; a column is read with scikit-learn's warning."""
    if y is None:
        raise InvalidInputError("this requires y to be passed, but the target y is None")
    if type(y).__module__.startswith("sklearn.") and hasattr(y, "__array__"):
        y = np.asarray(y)
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected",
            DataConversionWarning,
            stacklevel=4,
        )
        return y[:, 0]
    return y


@dataclass(frozen=True, eq=False)
class Accepted:
    """Training rows that fit, their labels, and those that do not.

    Parameters
    ----------
    rows
        The rows that fit.
    labels
        Their labels, plain values.
    places
        Where they stood among the given rows.
    rejected
        The others, with the cell that does not fit.
    """

    rows: Rows
    labels: NDArray[Any]
    places: IntArray
    rejected: tuple[Rejected, ...]


def accept(
    X: Any, y: Any, schema: Schema, classes: Sequence[Any] | None = None, *, plain: bool = True
) -> Accepted:
    """Cast rows and labels one by one; list what does not fit.

    With ``plain=False`` rows must be taken by `Rows.part` before a model sees them.
    """
    check_same_rows(X, y, "X")
    labels, known = cast_labels(y)
    cast = schema.cast(X, plain=plain)
    n = len(cast) + len(cast.rejected)
    if len(labels) != n:
        raise InvalidInputError(f"X has {n} rows, y {len(labels)}")
    if classes is None:
        _refuse_measurements(labels, known)
    else:
        allowed = set(classes)
        known &= np.fromiter((value in allowed for value in labels), bool, n)
    fits = known[cast.kept]
    odd = cast.kept[~fits]
    given = (y.tolist() if hasattr(y, "tolist") else list(y)) if len(odd) else []
    strange = [Rejected(int(i), "y", shown(given[int(i)], 200)) for i in odd]
    rejected = tuple(sorted((*cast.rejected, *strange), key=lambda item: item.row))
    places = cast.kept[fits]
    rows = Rows(cast)
    if not fits.all():
        rows = rows.part(np.flatnonzero(fits))
    return Accepted(rows, labels[places], places.astype(np.int64), rejected)


def _refuse_measurements(labels: NDArray[Any], known: BoolArray) -> None:
    """Refuse labels that are mostly numbers with decimals; a few odd ones are classes."""
    floats = sum(type(value) is float for value in labels.tolist())
    if 2 * floats > known.sum():
        raise InvalidInputError(
            "Unknown label type: continuous. y looks like a measurement; labels are classes"
        )


def warn_rejected(rejected: Sequence[Rejected], n: int, stacklevel: int = 4) -> None:
    """Give the one warning about rows that were left out; raise if none is left."""
    if not rejected:
        return
    first = [f"row {r.row}, column {shown(r.column, 40)}: {r.value}"[:200] for r in rejected[:5]]
    if len(rejected) >= n:
        raise InvalidInputError(f"no row fits the schema and the classes; first: {first[0]}")
    warnings.warn(
        f"{len(rejected)} of {n} rows do not fit the schema or the classes and were left out; "
        + "; ".join(first),
        RowsRejectedWarning,
        stacklevel=stacklevel,
    )


def distinct(labels: NDArray[Any]) -> tuple[Any, ...]:
    """Return the classes, numbers before texts."""
    return in_class_order(set(labels.tolist()))


def in_class_order(classes: Iterable[Any]) -> tuple[Any, ...]:
    """Return different labels, numbers before texts."""
    return tuple(sorted(classes, key=lambda c: (isinstance(c, str), c)))


def positions_of(answers: Any, classes: NDArray[Any]) -> IntArray:
    """Places of labels among the classes; -1 for what is no class."""
    given = np.asarray(answers).reshape(-1)
    kinds = {array.dtype.kind for array in (given, classes)}
    if kinds <= set("biuf") or kinds == {"U"}:
        order = np.argsort(classes, kind="stable")
        place = np.searchsorted(classes, given, sorter=order)
        place = order[np.minimum(place, len(classes) - 1)]
        return np.where(classes[place] == given, place, -1).astype(np.int64)
    known = {label: j for j, label in enumerate(classes.tolist())}
    found = [known.get(value, -1) if _hashable(value) else -1 for value in given.tolist()]
    return np.array(found, dtype=np.int64)


def _hashable(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def block_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the labels of a block as an array whose type depends on this block alone."""
    return as_labels(tuple(labels.tolist()))


def check_classes(classes: Any) -> tuple[Any, ...]:
    """Return the given classes, in their order; raise unless they are different labels."""
    values, known = cast_labels(classes, "classes")
    if not known.all() or not len(values) or len(set(values.tolist())) < len(values):
        raise InvalidInputError(f"classes must be different labels, got {shown(classes)}")
    return tuple(values.tolist())
