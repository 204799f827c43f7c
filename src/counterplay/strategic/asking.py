"""Rows of people with changed cells, and scores of one person with single columns set elsewhere.

Changes are kept per column as (places of people, new values), so that the types of a table
survive: a column keeps its type where the new values fit it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.strategic.fold import Asked, OpenModel
from counterplay.strategic.move_blocks import NumberBlock
from counterplay.tables.cells import is_missing

Changes = dict[Any, tuple[IntArray, list[Any]]]

MOST_DECADES = 12


class Asking:
    """Scores of one reference person with single columns set to other values."""

    def __init__(self, asked: Asked, opened: OpenModel) -> None:
        self.asked, self.opened = asked, opened
        self.person = asked.frame.iloc[[0]]
        self.base = float(opened.score(asked.given(self.person))[0])

    def __call__(self, requests: Mapping[Any, Sequence[Any]]) -> dict[Any, FloatArray]:
        """Return, per column, the gain of each value over the reference person's own."""
        sizes = {name: len(values) for name, values in requests.items()}
        total = sum(sizes.values())
        if total == 0:
            return {name: np.zeros(0) for name in requests}
        frame = self.person.iloc[np.zeros(total, dtype=np.int64)].reset_index(drop=True)
        at, columns = 0, {}
        for name, values in requests.items():
            places = np.arange(at, at + len(values))
            columns[name] = replaced(frame[name], places, list(values))
            at += len(values)
        frame = frame.assign(**columns) if _texts(columns) else _assigned(frame, columns)
        gains = self.opened.score(self.asked.given(frame)) - self.base
        parts = np.split(gains, np.cumsum(list(sizes.values()))[:-1])
        return dict(zip(requests, parts))


def far_out(
    points: FloatArray, block: NumberBlock, decades: int = MOST_DECADES
) -> tuple[FloatArray, FloatArray]:
    """Return values far below and far above some rising ones, where a column has no bound.

    People may go there, so what the model does there matters, whatever values they have today.

    Examples
    --------
    >>> block = NumberBlock("income", 1.0, 1.0, 1.0, low=0.0, high=np.inf)
    >>> far_out(np.array([1.0, 9.0]), block, decades=3)
    (array([], dtype=float64), array([  119.,  1109., 11009.]))
    """
    low, high = float(points[0]), float(points[-1])
    away: FloatArray = (1.0 + abs(low) + abs(high)) * 10.0 ** np.arange(1.0, decades + 1)
    nowhere: FloatArray = np.zeros(0)
    below = low - away[::-1] if np.isinf(block.low) else nowhere
    above = high + away if np.isinf(block.high) else nowhere
    return below, above


def _texts(columns: Mapping[Any, Any]) -> bool:
    return all(isinstance(name, str) for name in columns)


def _assigned(frame: pd.DataFrame, columns: Mapping[Any, Any]) -> pd.DataFrame:
    return pd.DataFrame({name: columns.get(name, frame[name]) for name in frame.columns})


def replaced(column: pd.Series, places: IntArray, values: Sequence[Any]) -> pd.Series:
    """Return a column with other cells at some places, in its own type where they fit it."""
    if not len(places):
        return column
    dtype = column.dtype
    if dtype == np.float64:
        cells = column.to_numpy(copy=True)
        cells[places] = np.asarray(values, dtype=np.float64)
        return pd.Series(cells, index=column.index, name=column.name)
    if isinstance(dtype, np.dtype) and dtype.kind in "fiu":
        wide = column.to_numpy(dtype=np.float64, copy=True)
        wide[places] = np.asarray(values, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            narrow = wide.astype(dtype)
        same = np.array_equal(narrow.astype(np.float64), wide, equal_nan=dtype.kind == "f")
        return pd.Series(narrow if same else wide, index=column.index, name=column.name)
    objects = np.asarray(column.astype(object), dtype=object).copy()
    for place, value in zip(places.tolist(), values):
        objects[place] = pd.NA if is_missing(value) else value
    if not pd.api.types.is_object_dtype(dtype):
        try:
            return pd.Series(objects, index=column.index, name=column.name).astype(dtype)
        except (TypeError, ValueError):  # a fraction in a column of nullable integers
            plain = [np.nan if is_missing(v) else float(v) for v in objects]
            return pd.Series(plain, index=column.index, name=column.name).astype("Float64")
    for place, value in zip(places.tolist(), values):
        objects[place] = np.nan if is_missing(value) else value
    return pd.Series(objects, index=column.index, name=column.name)


def destinations(
    frame: pd.DataFrame, who: IntArray | None, changes: Mapping[Any, tuple[IntArray, list[Any]]]
) -> pd.DataFrame:
    """Return the rows of some people (None: of all) with their changed cells."""
    part = frame if who is None else frame.iloc[who]
    columns = {
        name: replaced(part[name], places, values)
        for name, (places, values) in changes.items()
        if len(places)
    }
    if not columns:
        return part
    if not part.columns.is_unique:
        return _assigned(part, columns).set_axis(part.index, axis=0)
    cells = {name: columns[name].array if name in columns else part[name].array for name in part}
    return pd.DataFrame(cells, index=part.index).set_axis(part.columns, axis=1)


def no_changes(names: Iterable[Any]) -> Changes:
    """Return the changes of nobody."""
    return {name: (np.zeros(0, dtype=np.int64), []) for name in names}


def keep_changes(
    kept: Changes,
    new: Mapping[Any, tuple[IntArray, list[Any]]],
    pending: IntArray,
    done: BoolArray,
) -> None:
    """Add the changes of the people who are done to those that are kept."""
    for name, (places, values) in new.items():
        if not len(places):
            continue
        mine = done[places]
        old_places, old_values = kept[name]
        chosen = [v for v, m in zip(values, mine.tolist()) if m]
        kept[name] = (
            np.concatenate((old_places, pending[places[mine]])),
            [*old_values, *chosen],
        )
