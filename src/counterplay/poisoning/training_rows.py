"""Training rows of a vote: cast alone to a frozen schema, hashed, dealt to blocks.

What a block receives is a function of its own rows: their cells, in the order of their hashes.
Rows that do not fit are left out with one warning, never an exception, because an exception would
let one row stop the training. Source: docs/theory/21-sources.md, "Rows".
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
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
from counterplay.poisoning.units import Dealer, Digests, within_cap
from counterplay.tables import Schema, Table
from counterplay.tables.cells import listed, shown
from counterplay.tables.encoding import encode_cell, encode_rows, row_digests
from counterplay.tables.labels import as_labels, cast_labels
from counterplay.tables.schema import Cast, Rejected
from counterplay.tables.table import check_same_rows

_CHUNK = 50_000


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
        cells = {name: values[places] for name, values in self.cast.cells.items()}
        index = self.cast.index[places]
        return replace(self, cast=Cast(self.cast.schema, np.arange(len(index)), (), cells, index))

    def join(self, other: Rows) -> Rows:
        """Return both, the rows of the other one last."""
        cells = {}
        for name, values in self.cast.cells.items():
            more = other.cast.cells[name]
            if isinstance(values, np.ndarray) and isinstance(more, np.ndarray):
                cells[name] = np.concatenate([values, more])
            else:
                from scipy.sparse import vstack

                cells[name] = vstack([values, more], format="csr")
        n = len(self) + len(other)
        cast = Cast(self.cast.schema, np.arange(n), (), cells, pd.RangeIndex(n))
        return replace(self, cast=cast)

    def digests(self, key: bytes | str | None) -> Digests:
        """Return the keyed hash of each row, computed in pieces."""
        starts = range(0, len(self), _CHUNK)
        parts = [self.part(slice(i, i + _CHUNK)) for i in starts] if len(self) > _CHUNK else [self]
        return np.concatenate([row_digests(encode_rows(part.cast), key=key) for part in parts])


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


def accept(X: Any, y: Any, schema: Schema, classes: Sequence[Any] | None = None) -> Accepted:
    """Cast rows and labels one by one; list what does not fit."""
    check_same_rows(X, y, "X")
    labels, known = cast_labels(y)
    cast = schema.cast(X)
    n = len(cast) + len(cast.rejected)
    if len(labels) != n:
        raise InvalidInputError(f"X has {n} rows, y {len(labels)}")
    if classes is None:
        _refuse_measurements(labels[known])
    else:
        allowed = set(classes)
        known &= np.fromiter((value in allowed for value in labels), bool, n)
    fits = known[cast.kept]
    given = y.tolist() if hasattr(y, "tolist") else list(y)
    strange = [Rejected(int(i), "y", shown(given[int(i)], 200)) for i in cast.kept[~fits]]
    rejected = tuple(sorted((*cast.rejected, *strange), key=lambda item: item.row))
    places = cast.kept[fits]
    rows = Rows(cast)
    if not fits.all():
        rows = rows.part(np.flatnonzero(fits))
    return Accepted(rows, labels[places], places.astype(np.int64), rejected)


def _refuse_measurements(labels: NDArray[Any]) -> None:
    """Refuse labels that are mostly numbers with decimals; a few odd ones are classes."""
    floats = sum(isinstance(value, float) for value in labels)
    if 2 * floats > len(labels):
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
    return tuple(sorted(set(labels.tolist()), key=lambda c: (isinstance(c, str), c)))


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


@dataclass(frozen=True, eq=False)
class Held:
    """The rows a partition was fitted on, ready to be dealt again.

    Parameters
    ----------
    rows
        The rows.
    labels
        Their labels.
    marks
        Hash of each row's content.
    block
        Block of each row by its unit; -1 for rows that were dropped.
    owners
        Keyed hash of each row's source (zeros where there is none), if there are sources.
    ids
        Keyed hash of each row's id, if there are ids.
    """

    rows: Rows
    labels: NDArray[Any]
    marks: Digests
    block: IntArray
    owners: Digests | None = None
    ids: Digests | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def join(self, other: Held) -> Held:
        """Return both."""
        return Held(
            self.rows.join(other.rows),
            np.concatenate([self.labels, other.labels]),
            np.concatenate([self.marks, other.marks]),
            np.concatenate([self.block, other.block]),
            _joined(self.owners, other.owners),
            _joined(self.ids, other.ids),
        )

    def keep(self, which: BoolArray) -> Held:
        """Return some of the rows."""
        return Held(
            self.rows.part(np.flatnonzero(which)), self.labels[which], self.marks[which],
            self.block[which], None if self.owners is None else self.owners[which],
            None if self.ids is None else self.ids[which],
        )  # fmt: skip

    def ranks(self) -> IntArray:
        """Rank of each row's label among the encoded labels."""
        encoded = {label: encode_cell(label) for label in set(self.labels.tolist())}
        rank = {mark: j for j, mark in enumerate(sorted(set(encoded.values())))}
        return np.array([rank[encoded[label]] for label in self.labels.tolist()], dtype=np.int64)

    def members(self, n_blocks: int, cap: int | None) -> list[IntArray]:
        """Return the rows of each block, in the order of their hashes, then labels."""
        high, low = np.ascontiguousarray(self.marks).view(">u8").reshape(-1, 2).T
        ranks = self.ranks()
        order = np.lexsort((ranks, low, high))
        kept = self.block >= 0
        if cap is not None and self.owners is not None:
            kept &= within_cap(self.owners, kept & self.owners.any(axis=1), order, cap)
        order = order[kept[order]]
        order = order[np.argsort(self.block[order], kind="stable")]
        ends = np.searchsorted(self.block[order], np.arange(n_blocks + 1))
        return [order[a:b].astype(np.int64) for a, b in zip(ends[:-1], ends[1:])]

    def signature(self, places: IntArray) -> bytes:
        """Return a hash of the rows at these places with their labels."""
        state = hashlib.blake2b(self.marks[places].tobytes(), digest_size=16)
        for label in self.labels[places].tolist():
            state.update(encode_cell(label))
        return state.digest()

    def sorted(self, places: IntArray) -> IntArray:
        """Return places in the order of hashes, then labels."""
        high, low = np.ascontiguousarray(self.marks[places]).view(">u8").reshape(-1, 2).T
        return places[np.lexsort((self.ranks()[places], low, high))]


def _joined(first: Digests | None, second: Digests | None) -> Digests | None:
    return None if first is None or second is None else np.concatenate([first, second])


def block_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the labels of a block as an array whose type depends on this block alone."""
    return as_labels(tuple(labels.tolist()))


def check_classes(classes: Any) -> tuple[Any, ...]:
    """Return the given classes, in their order; raise unless they are different labels."""
    values, known = cast_labels(classes, "classes")
    if not known.all() or not len(values) or len(set(values.tolist())) < len(values):
        raise InvalidInputError(f"classes must be different labels, got {shown(classes)}")
    return tuple(values.tolist())


def check_duplicate_ids(held: Held, places: IntArray, row_ids: Sequence[Any]) -> None:
    """Refuse one id for rows of different content."""
    if held.ids is None:
        return
    seen: dict[bytes, int] = {}
    for i in range(len(held)):
        mark = held.ids[i].tobytes()
        j = seen.setdefault(mark, i)
        if j != i and held.marks[i].tobytes() != held.marks[j].tobytes():
            raise InvalidInputError(
                f"row id {listed([row_ids[places[i]]])} occurs twice (rows {int(places[j])} and "
                f"{int(places[i])}); ids must be unique"
            )


def deal(
    accepted: Accepted, dealer: Dealer, sources: list[bytes | None] | None,
    ids: list[bytes] | None,
) -> Held:  # fmt: skip
    """Hash the accepted rows and give each its block."""
    marks = accepted.rows.digests(dealer.key)
    owners = id_marks = None
    block = dealer.by_identity(marks)
    if ids is not None:
        mine = [ids[i] for i in accepted.places.tolist()]
        id_marks = row_digests(mine, key=dealer.key, domain="id")
        block = dealer.by_identity(id_marks)
    if sources is not None:
        own = [sources[i] for i in accepted.places.tolist()]
        block = dealer.by_source(own, marks)
        owners = owner_marks(own, dealer)
    return Held(accepted.rows, accepted.labels, marks, block, owners, id_marks)


def owner_marks(sources: Sequence[bytes | None], dealer: Dealer) -> Digests:
    """Return the keyed hash of each source; zeros for a row that is its own source."""
    pool = b"\x00" + bytes(8) if dealer.unknown == "pool" else None
    named = [pool if source is None else source for source in sources]
    unique = list({source for source in named if source is not None})
    marks = row_digests(unique, key=dealer.key, domain="source")
    table = {source: marks[j] for j, source in enumerate(unique)}
    nobody = np.zeros(16, dtype=np.uint8)
    return np.array(
        [nobody if source is None else table[source] for source in named], dtype=np.uint8
    ).reshape(-1, 16)
