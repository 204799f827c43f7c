"""Catalogues: a data frame whose columns are benefits and costs, in one common scale.

Every chosen column runs from 0 (worst in the catalogue) to 1 (best), so weights are comparable and
"nothing" means an item that is worst in everything.
Source: docs/theory/08-elicitation.md, "Setting".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, IntArray, check_choice, check_float_array
from counterplay.elicitation.curves import check_curves, quantile_knots, value_names
from counterplay.elicitation.oracles import PointSetOracle, value_table
from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.tables import Table
from counterplay.tables.cells import shown
from counterplay.tables.table import column_kind

if TYPE_CHECKING:
    import pandas as pd

_BLOCK = 128  # rows compared at a time


@checked
class Catalogue:
    """Items of a data frame, described by benefits (more is better) and costs (less is better).

    Attributes of which nobody knows whether more is better (``either``) and attributes whose worth
    bends (``curves``) are for :class:`ReliableElicitor`.

    Parameters
    ----------
    frame:
        One row per item: a pandas, polars or Arrow frame. Columns of an array, or of a frame
        whose columns have no names, are counted from 0.
    benefits:
        Columns of numbers of which more is better.
    costs:
        Columns of numbers of which less is better.
    either:
        Columns of numbers of which some people want more and others less.
    curves:
        Number of straight segments of an attribute's worth, such as ``{"price": 3}``. The column
        becomes one value per segment between its quantiles, so that every rising curve with
        these knots is a weighting; each segment is one more dimension.
    name:
        Column that names the items; the index is used otherwise. A name that occurs twice gets a
        number.
    scale:
        ``"range"``: each column is mapped so that the worst item has 0 and the best 1.
        ``"max"``: benefits are divided by the largest, costs become ``1 - cost / largest``; the
        zero of every column stays where it was.
    on_missing:
        Rows with missing numbers: ``"raise"`` or ``"drop"``.

    Attributes
    ----------
    values : ndarray (n, k)
        Normalised values: benefits, costs, attributes of unknown sign.
    objective_names : tuple of str
        Name of each value.
    columns : tuple of str
        The chosen columns; the same as ``objective_names`` unless there are curves.
    index : pandas.Index
        Identity of the items: that of the frame.
    rows : ndarray (n,)
        Position of each item in the frame.

    Examples
    --------
    >>> import pandas as pd
    >>> cars = pd.DataFrame({"km": [300, 600, 450], "price": [20e3, 50e3, 30e3]})
    >>> Catalogue(cars, benefits=["km"], costs=["price"]).values.round(2).tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.5, 0.67]]

    References
    ----------
    "Setting", see docs/theory/08-elicitation.md.
    """

    def __init__(
        self,
        frame: Any,
        benefits: Sequence[str | int] = (),
        costs: Sequence[str | int] = (),
        *,
        either: Sequence[str | int] = (),
        curves: Mapping[str | int, int] | None = None,
        name: str | int | None = None,
        scale: Literal["range", "max"] = "range",
        on_missing: Literal["raise", "drop"] = "raise",
    ) -> None:
        check_choice(scale, "scale", ("range", "max"))
        check_choice(on_missing, "on_missing", ("raise", "drop"))
        table = Table.of(frame, what="the catalogue")
        self.benefits, self.costs, self.either = (
            tuple(_column_list(names, what))
            for names, what in ((benefits, "benefits"), (costs, "costs"), (either, "either"))
        )
        columns = [*self.benefits, *self.costs, *self.either]
        places = _places(table, columns, name)
        self.rows, raw = _numbers(table, columns, places[: len(columns)], on_missing == "drop")
        self.index = table.index[self.rows]
        self.columns = tuple(map(str, columns))
        self.name = name
        self.scale = scale
        labels = self.index if name is None else table.column(places[-1]).iloc[self.rows]
        self.names = _numbered([str(label) for label in labels])
        self.raw = raw
        last_cost = len(self.benefits) + len(self.costs)
        self._is_cost = tuple(len(self.benefits) <= j < last_cost for j in range(len(columns)))
        self.curves = check_curves(curves or {}, columns, self.either, scale)
        self._knots = {
            j: quantile_knots(raw[:, j], self.curves[column], column)
            for j, column in enumerate(columns) if column in self.curves
        }  # fmt: skip
        self.objective_names = value_names(self.columns, self._knots)
        self.values = self._valued(raw)
        self.values.setflags(write=False)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        more = f", either={list(self.either)}" if self.either else ""
        return (
            f"Catalogue({len(self)} items, benefits={list(self.benefits)}, "
            f"costs={list(self.costs)}{more})"
        )

    def normalise(self, raw: ArrayLike) -> FloatArray:
        """Return numbers in the units of the columns as values, as the items' own are.

        Examples
        --------
        >>> import pandas as pd
        >>> cars = pd.DataFrame({"km": [300, 600, 450], "price": [20e3, 50e3, 30e3]})
        >>> Catalogue(cars, ["km"], ["price"]).normalise([450, 35e3]).tolist()
        [0.5, 0.5]
        """
        numbers = check_float_array(raw, "raw")
        if numbers.ndim == 0 or numbers.shape[-1] != len(self.columns):
            raise InvalidInputError(
                f"give one number for each of {', '.join(self.columns)}, got shape {numbers.shape}"
            )
        with np.errstate(over="ignore"):
            values = self._valued(numbers.reshape(-1, len(self.columns)))
        if not np.isfinite(values).all():
            raise InvalidInputError("raw is too far away from all items of the catalogue")
        return values.reshape(*numbers.shape[:-1], values.shape[1])

    def _valued(self, numbers: FloatArray) -> FloatArray:
        """Values of rows in the units of the columns, one per segment where the worth bends."""
        plain = _normalise(numbers, self.raw, self.columns, self._is_cost, self.scale)
        parts = []
        for j in range(len(self.columns)):
            if j not in self._knots:
                parts.append(plain[:, j : j + 1])
                continue
            knots = self._knots[j]
            share = np.clip((numbers[:, j : j + 1] - knots[:-1]) / np.diff(knots), 0.0, 1.0)
            parts.append(1.0 - share if self._is_cost[j] else share)
        return np.hstack(parts)

    def weights_of(self, tastes: FloatArray) -> FloatArray:
        """Return tastes per unit of each column as weights of the values; they sum to 1.

        Rows that want less of a benefit or more of a cost are left out.
        """
        parts = []
        for j in range(len(self.columns)):
            ends = self._knots.get(j, np.array([self.raw[:, j].min(), self.raw[:, j].max()]))
            width = np.diff(ends) if self.scale == "range" else np.array([self.raw[:, j].max()])
            parts.append((-1.0 if self._is_cost[j] else 1.0) * tastes[:, j : j + 1] * width)
        weights = np.hstack(parts)
        signed = weights[:, : weights.shape[1] - len(self.either)]
        weights = weights[(signed >= 0).all(axis=1) & (weights != 0).any(axis=1)]
        return np.asarray(weights / np.abs(weights).sum(axis=1, keepdims=True))

    def oracle(self) -> CatalogueOracle:
        """Return the oracle of the items."""
        if self.either:
            raise InvalidInputError(
                f"nobody knows whether more or less of {shown(self.either[0], 40)} is better; "
                "ReliableElicitor can ask about it"
            )
        return CatalogueOracle(self)

    def describe(self, index: int) -> str:
        """Return an item in words: its name and its columns in original units."""
        if index < 0:
            return "nothing (worst of everything)"
        told = ", ".join(
            f"{column} {number:,.4g}" if abs(number) < 1e4 else f"{column} {number:,.0f}"
            for column, number in zip(self.columns, self.raw[index])
        )
        return f"{self.names[index]}: {told}"


class CatalogueOracle(PointSetOracle):
    """Best item of a catalogue; knows how to describe items."""

    def __init__(self, catalogue: Catalogue) -> None:
        super().__init__(catalogue.values, catalogue.names)
        self.index = catalogue.index
        self.catalogue = catalogue
        self.objective_names = catalogue.objective_names

    def describe(self, item: Any) -> str:
        """Return an item in words."""
        return self.catalogue.describe(int(item))


@checked
def undominated(values: ArrayLike) -> IntArray:
    """Return the positions of rows that no other row beats in every column (one of equal rows).

    Examples
    --------
    >>> undominated(np.array([[1.0, 0.0], [0.5, 0.5], [0.4, 0.4], [0.0, 1.0]])).tolist()
    [0, 1, 3]
    """
    values = value_table(values, "values").numbers()
    order = np.lexsort((np.arange(len(values)), -values.sum(axis=1)))
    return np.sort(order[_undominated(np.ascontiguousarray(values[order]))])


@njit(cache=True)
def _undominated(values):  # type: ignore[no-untyped-def]  # compiled by numba
    """Rows sorted by falling sum: a row can only be dominated by an earlier one that was kept.

    Kept rows are stored by column and compared in blocks, so that the loops vectorise.
    """
    n, k = values.shape
    kept = np.empty(n, np.int64)
    columns = np.empty((k, n))
    worse = np.empty(_BLOCK, np.bool_)
    count = 0
    for i in range(n):
        beaten = False
        # beaten if some kept row is at least as good in every column
        for start in range(0, count, _BLOCK):
            size = min(_BLOCK, count - start)
            worse[:] = True
            for j in range(k):
                x, column = values[i, j], columns[j, start : start + size]
                for position in range(size):
                    worse[position] &= column[position] >= x
            if worse[:size].any():
                beaten = True
                break
        if not beaten:
            kept[count] = i
            columns[:, count] = values[i]
            count += 1
    return kept[:count]


def _column_list(names: Sequence[str | int], what: str) -> list[str | int]:
    """Return names of columns as a list; one text is not a list of its letters."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InvalidInputError(f"{what} must be a list of columns, got {shown(names)}")
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int | np.integer):
            raise InvalidInputError(f"{what} must be names of columns, one is {shown(name)}")
    return list(names)


def _places(table: Table, columns: list[str | int], name: str | int | None) -> list[int]:
    """Return where the chosen columns stand, and the naming one after them."""
    if not columns:
        raise InvalidInputError("name at least one column as a benefit or a cost")
    if table.container not in ("table", "matrix"):
        raise InvalidInputError(f"the catalogue holds {table.container}; columns are needed")
    if len(set(columns)) < len(columns):
        twice = next(c for c in columns if columns.count(c) > 1)
        raise InvalidInputError(
            f"column {twice!r:.60} is named twice among benefits, costs and either"
        )
    known = _column_labels(table)
    places = {label: j for j, label in enumerate(known)}
    for column in [*columns, *([] if name is None else [name])]:
        if column not in places:
            raise UnknownNameError.among("column", str(column)[:60], [str(c)[:60] for c in known])
    return [places[column] for column in [*columns, *([] if name is None else [name])]]


def _column_labels(table: Table) -> list[Any]:
    """Names of the columns, their labels in a frame without names, positions in an array."""
    if table.names is not None:
        return list(table.names)
    return list(getattr(table.rows, "columns", range(table.width)))


def _numbers(
    table: Table, columns: Sequence[str | int], places: list[int], drop: bool
) -> tuple[IntArray, FloatArray]:
    """Return the kept rows and their columns as finite numbers that differ.

    The first cell that is none is named; rows that lack a number are left out on request.
    """
    import pandas as pd

    raw = np.empty((len(table), len(places)))
    for j, (column, place) in enumerate(zip(columns, places)):
        series = table.column(place)
        kind = column_kind(series)
        if kind == "category":
            series = series.astype(object)
        if kind == "time":
            raise InvalidInputError(
                f"column {shown(column, 40)} holds times; turn them into numbers, such as days"
            )
        cells = pd.to_numeric(series, errors="coerce")
        words = (series.notna() & cells.isna()).to_numpy(dtype=bool)
        if words.any():
            row = int(words.argmax())
            raise InvalidInputError(
                f"row {shown(table.index[row], 30)} has {shown(series.iloc[row], 40)} in column "
                f"{shown(column, 40)}, which is not a number; mend it or leave the column out"
            )
        raw[:, j] = cells.to_numpy(dtype=np.float64, na_value=np.nan)
    rows = np.arange(len(raw))
    if drop:
        rows = np.flatnonzero(~np.isnan(raw).any(axis=1))
        if not rows.size:
            raise InvalidInputError("no item has a number in every chosen column")
    for j, column in enumerate(columns):
        _check_column(raw[rows, j], column, table.index[rows])
    return rows, raw[rows]


def _numbered(names: list[str]) -> list[str]:
    """Return names that differ: the second of a kind gets " (2)"."""
    seen: dict[str, int] = {}
    taken, result = set(names), []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        told = name
        while seen[name] > 1 and told in taken:
            told = f"{name} ({seen[name]})"
            seen[name] += told in taken
        taken.add(told)
        result.append(told)
    return result


def _check_column(numbers: FloatArray, column: str | int, rows: pd.Index[Any]) -> None:
    if not np.isfinite(numbers).all():
        row = int((~np.isfinite(numbers)).argmax())
        raise InvalidInputError(
            f"row {shown(rows[row], 30)} has no finite number in column {shown(column, 40)}; "
            "drop such rows first, or set on_missing='drop'"
        )
    if numbers.max() == numbers.min() and len(numbers) > 1:
        raise InvalidInputError(
            f"column {shown(column, 40)} is the same for all items; leave it out"
        )


def _normalise(
    numbers: FloatArray,
    items: FloatArray,
    columns: Sequence[str],
    is_cost: Sequence[bool],
    scale: str,
) -> FloatArray:
    """Map numbers to values in which 0 is the worst of the items and 1 the best."""
    values = np.empty_like(numbers)
    for j, column in enumerate(columns):
        x = numbers[:, j]
        low, high = float(items[:, j].min()), float(items[:, j].max())
        if scale == "range":
            # the difference of two huge numbers must not overflow
            size = 1.0 if np.isfinite(high - low) else 0.5
            width = size * high - size * low
            share = (size * x - size * low) / width if high > low else np.ones_like(x)
            values[:, j] = 1.0 - share if is_cost[j] else share
        else:
            if low < 0 or high == 0:
                raise InvalidInputError(
                    f"column {shown(column, 40)} runs from {low:g} to {high:g}; scale='max' needs "
                    "non-negative numbers, use scale='range'"
                )
            values[:, j] = 1.0 - x / high if is_cost[j] else x / high
    return values
