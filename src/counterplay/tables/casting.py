"""Cells cast to the kind of their column, each alone: what one cell holds moves no other.

Numbers accept texts that parse, because one odd cell makes a reader return the whole column as
text and the honest rows must keep their values.
"""

from __future__ import annotations

import datetime
import decimal
import math
import numbers
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.validation import BoolArray
from counterplay.tables.cells import is_missing

FrozenKind = Literal["number", "flag", "category", "text", "time"]
CategoryValues = Literal["numbers", "texts"]


@dataclass(frozen=True)
class Column:
    """One column of a schema.

    Parameters
    ----------
    name
        Name of the column.
    kind
        ``number``, ``flag``, ``category``, ``text`` or ``time``.
    values
        For a category: whether its values are numbers or texts.
    order
        For an ordered category: its values from low to high.
    """

    name: str
    kind: FrozenKind
    values: CategoryValues | None = None
    order: tuple[Any, ...] | None = None


def cast_column(column: Column, series: pd.Series) -> tuple[NDArray[Any], BoolArray]:
    """Return the cells of a column cast one by one, and which of them do not fit."""
    dtype = series.dtype
    numeric = pd.api.types.is_numeric_dtype(dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        series = series.astype(object)
    elif numeric and (column.kind in ("number", "flag") or column.values == "numbers"):
        values = series.to_numpy(dtype=np.float64, na_value=np.nan) + 0.0  # no negative zero
        return values, np.zeros(len(values), dtype=bool)
    elif column.kind == "time" and pd.api.types.is_datetime64_any_dtype(dtype):
        stamps = series.dt.tz_localize("UTC") if series.dt.tz is None else series
        inside = stamps.dt.tz_convert("UTC").dt.tz_localize(None)
        if dtype != "datetime64[ns]":
            series = inside.astype(object)
        else:
            return inside.to_numpy(dtype="datetime64[ns]"), np.zeros(len(series), dtype=bool)
    caster = _CASTERS[column.values or column.kind]
    cells = [caster(value) for value in series.tolist()]
    bad = np.array([cell is _BAD for cell in cells], dtype=bool)
    if column.kind == "time":
        empty: Any = np.datetime64("NaT", "ns")
        filled = [empty if cell is _BAD or cell is None else cell for cell in cells]
        return np.array(filled, dtype="datetime64[ns]"), bad
    if column.kind in ("number", "flag") or column.values == "numbers":
        filled = [math.nan if cell is _BAD or cell is None else cell for cell in cells]
        return np.array(filled, dtype=np.float64) + 0.0, bad
    array = np.empty(len(cells), dtype=object)
    array[:] = [None if cell is _BAD else cell for cell in cells]
    return array, bad


_BAD: Any = object()


def _as_number(value: Any) -> Any:
    if is_missing(value):
        return None
    if isinstance(value, str):
        number = parse_float(value.strip(), None)
        return _BAD if number is None else number
    if isinstance(value, numbers.Real | decimal.Decimal | np.bool_):
        try:
            return float(value)
        except (OverflowError, ValueError):
            return _BAD
    return _BAD


def _as_flag(value: Any) -> Any:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return float(value.strip().lower() == "true")
    return _as_number(value)


def _as_time(value: Any) -> Any:
    if is_missing(value):
        return None
    if isinstance(value, str):
        parsed = parse_time(value.strip())
        return _BAD if parsed is None else parsed
    if isinstance(value, np.datetime64):
        return _nanoseconds(value)
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        nanos = getattr(value, "nanosecond", 0)
        stamp = _nanoseconds(np.datetime64(value.isoformat()[:26], "us"))
        return stamp if stamp is _BAD else stamp + np.timedelta64(nanos, "ns")
    if isinstance(value, datetime.date):
        return _nanoseconds(np.datetime64(value, "D"))
    return _BAD


def _as_text(value: Any) -> Any:
    if is_missing(value):
        return None
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real | decimal.Decimal):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
    return _BAD


_CASTERS: dict[str, Callable[[Any], Any]] = {
    "number": _as_number,
    "numbers": _as_number,
    "flag": _as_flag,
    "time": _as_time,
    "text": _as_text,
    "texts": _as_text,
}

_ISO = re.compile(
    r"(\d{4}-\d{2}-\d{2})"
    r"(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)(Z|[+-]\d{2}(?::?\d{2})?)?)?"
)
_YEARS = (np.datetime64("1678-01-01", "s"), np.datetime64("2262-01-01", "s"))


def parse_float(text: str, default: Any) -> Any:
    """Return the number that a text spells, ``default`` if it spells none."""
    try:
        return float(text)
    except ValueError:
        return default


def parse_time(text: str) -> Any:
    """Return an ISO 8601 time in nanoseconds UTC, None if the text is none, ``_BAD`` if outside."""
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    day, clock, zone = found.groups()
    try:
        stamp = np.datetime64(f"{day}T{clock or '00:00'}")
        base = _nanoseconds(stamp)
        if base is not _BAD and clock:
            base = np.datetime64(f"{day}T{clock}", "ns")
    except ValueError:
        return None
    if base is _BAD or zone in (None, "Z"):
        return base
    digits = zone[1:].replace(":", "").ljust(4, "0")
    minutes = (int(digits[:2]) * 60 + int(digits[2:])) * (-1 if zone[0] == "-" else 1)
    return base - np.timedelta64(minutes, "m")


def _nanoseconds(stamp: np.datetime64) -> Any:
    seconds = stamp.astype("datetime64[s]")
    if not _YEARS[0] <= seconds < _YEARS[1]:
        return _BAD
    return stamp.astype("datetime64[ns]")
