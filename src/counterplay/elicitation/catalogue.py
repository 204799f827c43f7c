"""Catalogues: a data frame whose columns are benefits and costs, in one common scale.

Every chosen column runs from 0 (worst in the catalogue) to 1 (best), so weights are comparable and
"nothing" means an item that is worst in everything.
Source: docs/theory/08-elicitation.md, "Setting".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from counterplay.core.validation import FloatArray, IntArray, check_choice, check_float_array
from counterplay.elicitation.oracles import PointSetOracle
from counterplay.errors import InvalidInputError, UnknownNameError

if TYPE_CHECKING:
    import pandas as pd

_BLOCK = 128  # rows compared at a time


class Catalogue:
    """Items of a data frame, described by benefits (more is better) and costs (less is better).

    Parameters
    ----------
    frame:
        One row per item.
    benefits:
        Numeric columns of which more is better. Rows with missing values must be dropped before.
    costs:
        Numeric columns of which less is better, likewise.
    name:
        Column that names the items; the index is used otherwise.
    scale:
        ``"range"``: each column is mapped so that the worst item has 0 and the best 1.
        ``"max"``: benefits are divided by the largest, costs become ``1 - cost / largest``; the
        zero of every column stays where it was.

    Attributes
    ----------
    values : ndarray (n, k)
        Normalised values, benefits first.
    objective_names : tuple of str

    Examples
    --------
    >>> import pandas as pd
    >>> cars = pd.DataFrame({"km": [300, 600, 450], "price": [20e3, 50e3, 30e3]})
    >>> Catalogue(cars, benefits=["km"], costs=["price"]).values.round(2).tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.5, 0.67]]
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        benefits: Sequence[str] = (),
        costs: Sequence[str] = (),
        *,
        name: str | None = None,
        scale: Literal["range", "max"] = "range",
    ) -> None:
        check_choice(scale, "scale", ("range", "max"))
        columns = [*benefits, *costs]
        _check_columns(frame, columns, name)
        raw = _numbers(frame, columns)
        _check_numbers(raw, columns, frame.index)
        self.frame = frame.reset_index(drop=True)
        self.objective_names = tuple(columns)
        self.costs = tuple(costs)
        self.benefits = tuple(benefits)
        self.name = name
        self.scale = scale
        labels = frame.index if name is None else frame[name]
        self.names = [str(label) for label in labels]
        self.raw = raw
        self.values = _normalise(raw, raw, columns, set(costs), scale)
        self.values.setflags(write=False)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return (
            f"Catalogue({len(self)} items, benefits={list(self.benefits)}, "
            f"costs={list(self.costs)})"
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
        if numbers.ndim == 0 or numbers.shape[-1] != len(self.objective_names):
            raise InvalidInputError(
                f"give one number for each of {', '.join(self.objective_names)}, "
                f"got shape {numbers.shape}"
            )
        rows = np.atleast_2d(numbers)
        values = _normalise(rows, self.raw, self.objective_names, set(self.costs), self.scale)
        return values.reshape(numbers.shape)

    def oracle(self) -> CatalogueOracle:
        """Return the oracle of the items."""
        return CatalogueOracle(self)

    def describe(self, index: int) -> str:
        """Return an item in words: its name and its columns in original units."""
        if index < 0:
            return "nothing (worst of everything)"
        told = ", ".join(
            f"{column} {number:,.4g}" if abs(number) < 1e4 else f"{column} {number:,.0f}"
            for column, number in zip(self.objective_names, self.raw[index])
        )
        return f"{self.names[index]}: {told}"


class CatalogueOracle(PointSetOracle):
    """Best item of a catalogue; knows how to describe items."""

    def __init__(self, catalogue: Catalogue) -> None:
        super().__init__(catalogue.values, catalogue.names)
        self.catalogue = catalogue
        self.objective_names = catalogue.objective_names

    def describe(self, item: Any) -> str:
        """Return an item in words."""
        return self.catalogue.describe(int(item))


def undominated(values: ArrayLike) -> IntArray:
    """Return the indices of rows that no other row beats in every column (one of equal rows).

    Examples
    --------
    >>> undominated(np.array([[1.0, 0.0], [0.5, 0.5], [0.4, 0.4], [0.0, 1.0]])).tolist()
    [0, 1, 3]
    """
    values = check_float_array(values, "values", ndim=2)
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


def _check_columns(frame: pd.DataFrame, columns: list[str], name: str | None) -> None:
    if not columns:
        raise InvalidInputError("name at least one column as a benefit or a cost")
    if len(frame) == 0:
        raise InvalidInputError("the catalogue has no items")
    for column in [*columns, *([] if name is None else [name])]:
        if column not in frame.columns:
            raise UnknownNameError.among("column", str(column), map(str, frame.columns))
    if len(set(columns)) < len(columns):
        twice = next(c for c in columns if columns.count(c) > 1)
        raise InvalidInputError(f"column {twice!r} is named twice among benefits and costs")


def _numbers(frame: pd.DataFrame, columns: Sequence[str]) -> FloatArray:
    """The columns as numbers; a cell that is none is named."""
    import pandas as pd

    numbers = frame[columns].apply(pd.to_numeric, errors="coerce")
    words = frame[columns].notna() & numbers.isna()
    if words.to_numpy().any():
        row, j = (int(i) for i in np.argwhere(words.to_numpy())[0])
        raise InvalidInputError(
            f"row {frame.index[row]} has {frame[columns[j]].iloc[row]!r} in column "
            f"{columns[j]!r}, which is not a number; mend it or leave the column out"
        )
    return np.asarray(numbers.to_numpy(dtype=np.float64))


def _check_numbers(raw: FloatArray, columns: list[str], labels: pd.Index[Any]) -> None:
    bad = np.argwhere(~np.isfinite(raw))
    if bad.size:
        row, column = (int(i) for i in bad[0])
        raise InvalidInputError(
            f"row {labels[row]} has no finite number in column {columns[column]!r}; "
            "drop such rows first"
        )
    for j, column_name in enumerate(columns):
        if np.ptp(raw[:, j]) == 0 and len(raw) > 1:
            raise InvalidInputError(
                f"column {column_name!r} is the same for all items; leave it out"
            )


def _normalise(
    numbers: FloatArray, items: FloatArray, columns: Sequence[str], costs: set[str], scale: str
) -> FloatArray:
    """Map numbers to values in which 0 is the worst of the items and 1 the best."""
    values = np.empty_like(numbers)
    for j, column in enumerate(columns):
        x = numbers[:, j]
        low, high = float(items[:, j].min()), float(items[:, j].max())
        if scale == "range":
            share = (x - low) / (high - low) if high > low else np.ones_like(x)
            values[:, j] = 1.0 - share if column in costs else share
        else:
            if low < 0 or high == 0:
                raise InvalidInputError(
                    f"column {column!r} runs from {low:g} to {high:g}; scale='max' needs "
                    "non-negative numbers, use scale='range'"
                )
            values[:, j] = 1.0 - x / high if column in costs else x / high
    return values
