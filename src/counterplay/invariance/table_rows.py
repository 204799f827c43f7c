"""Rows of a table as numbers that columns can be exchanged in: categories become codes.

Columns with the same levels share their codes, so that a swap means something. Neighbours are found
in standardised numbers and one-hot categories.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError
from counterplay.tables import Table
from counterplay.tables.cells import shown

_MOST_LEVELS = 50


@dataclass(frozen=True)
class TableRows:
    """A table as numbers, with what each column is and how rows are compared.

    ``kinds`` are equal for columns that may be exchanged.
    """

    rows: FloatArray
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    allowed: tuple[int, ...]
    centre: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, X: Any, columns: Sequence[Any] | None = None) -> TableRows:
        """Read a table; ``columns`` are those that may be exchanged, by name or number."""
        table = Table.of(X)
        if table.container == "texts" or table.container == "arrays" or table.is_sparse:
            raise InvalidInputError(
                'kind="table" takes a dense table; texts and images have kinds of their own'
            )
        names = table.names or tuple(str(j) for j in range(table.width))
        numbers, kinds = [], []
        for j, sort in enumerate(table.kinds):
            column = table.column(j)
            if sort in ("category", "text"):
                levels = sorted(map(str, column.dropna().unique()))
                if len(levels) > _MOST_LEVELS:
                    raise InvalidInputError(
                        f"column {shown(names[j], 40)} has {len(levels)} levels; drop it"
                    )
                place = {level: float(i) for i, level in enumerate(levels)}
                numbers.append([np.nan if v is None or v != v else place[str(v)] for v in column])
                kinds.append("levels " + "|".join(levels))
            else:
                if sort == "time":
                    raise InvalidInputError(f"column {shown(names[j], 40)} holds times; drop it")
                values = column.to_numpy(dtype=np.float64, na_value=np.nan)
                if np.isinf(values).any():
                    raise InvalidInputError(f"column {shown(names[j], 40)} has infinite numbers")
                numbers.append(values.tolist())
                kinds.append(sort)
        rows = np.array(numbers, dtype=np.float64).T.reshape(len(table), len(kinds))
        allowed = _allowed(columns, names, kinds)
        known = np.where(np.isnan(rows).all(axis=0), 0.0, rows)
        centre, scale = np.nanmean(known, axis=0), np.nanstd(known, axis=0)
        return cls(rows, names, tuple(kinds), allowed, centre, np.where(scale > 0, scale, 1.0))

    def embed(self, X: Any) -> FloatArray:
        """Standardised numbers, one-hot categories, and marks of missing cells."""
        given = np.asarray(X, dtype=np.float64)
        parts = []
        for j, sort in enumerate(self.kinds):
            values, missing = given[:, j], np.isnan(given[:, j])
            if sort.startswith("levels "):
                count = sort.count("|") + 1
                hot = (values[:, None] == np.arange(count)) / np.sqrt(2)
                parts.append(hot)
            else:
                parts.append(
                    np.where(missing, 0.0, (values - self.centre[j]) / self.scale[j])[:, None]
                )
            if np.isnan(self.rows[:, j]).any():
                parts.append(missing[:, None].astype(np.float64))
        return np.column_stack(parts)


def _allowed(
    columns: Sequence[Any] | None, names: Sequence[str], kinds: Sequence[str]
) -> tuple[int, ...]:
    if columns is None:
        return tuple(range(len(names)))
    places = []
    for column in columns:
        if isinstance(column, str) and column in names:
            places.append(names.index(column))
        elif isinstance(column, int) and not isinstance(column, bool) and 0 <= column < len(names):
            places.append(column)
        else:
            raise InvalidInputError(f"X has no column {shown(column, 40)}; columns must name some")
    levelled = [j for j in places if kinds[j].startswith("levels ")]
    for a, b in zip(levelled, levelled[1:]):
        if kinds[a] != kinds[b]:
            raise InvalidInputError(
                f"columns {shown(names[a], 40)} and {shown(names[b], 40)} have different levels; "
                "they cannot be interchanged"
            )
    return tuple(places)
