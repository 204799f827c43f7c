"""The parties' tables as one pool: the same columns for all, matched by name.

Frames stay frames, sparse matrices stay sparse and texts stay texts, so that a model is trained on
what the parties have. Rows of a party are known by their numbers in the pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray, IntArray, check_size, shorten
from counterplay.errors import InvalidInputError
from counterplay.tables import Table
from counterplay.tables.cells import shown

LARGEST = 1e100  # squares of sums of such numbers are still finite
MOST_CELLS = 1 << 26  # half a GiB of numbers
_BROAD = {"category": "words", "text": "words", "time": "times"}


def read_parties(tables: Any, what: str = "tables") -> tuple[Table, IntArray]:
    """Return the rows of all parties as one table, and how many rows each party has.

    Columns stand in the order of the first party; another name, kind of column or container is
    refused by naming the party.

    Examples
    --------
    >>> import pandas as pd
    >>> north = pd.DataFrame({"age": [30, 41], "ward": ["A", "B"]})
    >>> pool, sizes = read_parties([north, north[["ward", "age"]].iloc[:1]])
    >>> pool.names, sizes.tolist()
    (('age', 'ward'), [2, 1])
    """
    given = _listed(tables, what)
    first = Table.of(given[0], what=f"{what}[0]")
    read = [first]
    for i, X in enumerate(given[1:], start=1):
        table = Table.of(X, columns=first.names, what=f"{what}[{i}]")
        _check_alike(first, table)
        read.append(table)
    sizes = np.array([len(table) for table in read], dtype=np.int64)
    return Table.of(_stacked(read), what=what), sizes


def coded_numbers(pool: Table) -> FloatArray:
    """Return the rows as numbers: words are one-hot coded, behind the columns that are numbers."""
    if pool.container != "table":
        rows = pool.numbers().reshape(len(pool), -1)
    else:
        rows = _one_hot(pool)
    if np.abs(rows).max() > LARGEST:
        raise InvalidInputError(f"{pool.what} has numbers beyond {LARGEST:g}; use other units")
    return rows


def _one_hot(pool: Table) -> FloatArray:
    import pandas as pd

    names = pool.names or tuple(map(str, range(pool.width)))
    for name, kind, missing in zip(names, pool.kinds, map(pool.missing.get, names)):
        if missing:
            raise InvalidInputError(
                f"column {shown(name, 40)} of {pool.what} has missing values; fill them first"
            )
        if kind == "time":
            raise InvalidInputError(
                f"column {shown(name, 40)} of {pool.what} holds times; turn them into numbers first"
            )
    words = [j for j, kind in enumerate(pool.kinds) if kind in ("category", "text")]
    numbers = [j for j in range(pool.width) if j not in words]
    texts = {j: pool.column(j).astype(str).reset_index(drop=True) for j in words}
    width = len(numbers) + sum(column.nunique() for column in texts.values())
    check_size(len(pool) * width, MOST_CELLS, "cells of one-hot coded words")
    blocks = [pool.column(j).to_numpy(dtype=np.float64)[:, None] for j in numbers]
    blocks += [pd.get_dummies(column, dtype=float).to_numpy() for column in texts.values()]
    rows = np.concatenate(blocks, axis=1)
    if not np.isfinite(rows).all():
        raise InvalidInputError(f"{pool.what} has an infinite value; numbers must be finite")
    return rows


def _listed(tables: Any, what: str) -> list[Any]:
    whole = isinstance(tables, str | bytes | Mapping) or hasattr(tables, "columns")
    if whole or not hasattr(tables, "__iter__") or getattr(tables, "ndim", 1) == 0:
        raise InvalidInputError(
            f"{what} must be a list with one table per party, got {shorten(tables, 100)}"
        )
    given = list(tables)
    if not given:
        raise InvalidInputError(f"{what} must contain at least one party")
    return given


def _check_alike(first: Table, table: Table) -> None:
    if _form(first) != _form(table):
        raise InvalidInputError(
            f"{first.what} is {_form(first)} and {table.what} is {_form(table)}; "
            "bring all parties' tables in one form"
        )
    shapes = [tuple(getattr(part.rows, "shape", (0,)))[1:] for part in (first, table)]
    if first.container != "texts" and shapes[0] != shapes[1]:
        raise InvalidInputError(
            f"all parties must have the same number of columns: {first.what} has {first.width}, "
            f"{table.what} has {table.width}"
        )
    if first.container != "table":
        return
    names = first.names or tuple(map(str, range(first.width)))
    for j, (name, one, two) in enumerate(zip(names, first.kinds, table.kinds)):
        broad = _BROAD.get(one, "numbers"), _BROAD.get(two, "numbers")
        known = not (first.column(j).isna().all() or table.column(j).isna().all())
        if broad[0] != broad[1] and known:
            raise InvalidInputError(
                f"column {shown(name, 40)} holds {broad[0]} in {first.what} and {broad[1]} in "
                f"{table.what}"
            )


def _form(table: Table) -> str:
    if table.container == "table":
        return "a table without names" if table.names is None else "a table with names"
    names = {"texts": "a list of texts", "arrays": "an array of images"}
    return names.get(table.container, "a sparse matrix" if table.is_sparse else "an array")


def _stacked(tables: Sequence[Table]) -> Any:
    if tables[0].container == "texts":
        return [text for table in tables for text in table.rows]
    if tables[0].is_sparse:
        from scipy import sparse

        return sparse.vstack([table.rows for table in tables], format="csr")
    if all(isinstance(table.rows, np.ndarray) for table in tables):
        return np.concatenate([table.rows for table in tables])
    import pandas as pd

    return pd.concat([table.frame() for table in tables], ignore_index=True)
