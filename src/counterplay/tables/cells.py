"""Single cells of a table: what counts as missing, and how a value is shown in a message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

LONGEST = 60


def shown(value: Any, length: int = LONGEST) -> str:
    """Return a value as it stands in a message, cut after ``length`` characters.

    Examples
    --------
    >>> shown("a" * 100, 10)
    "'aaaaaa..."
    >>> shown(ValueError("no"))
    'no'
    """
    try:
        text = str(value) if isinstance(value, Exception) else repr(_simple(value))
    except Exception:  # a stranger's repr may raise anything
        text = f"a {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 3] + "..."


def listed(names: Sequence[Any], most: int = 5) -> str:
    """Return up to ``most`` values, quoted and cut, and how many more there are.

    Examples
    --------
    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    text = ", ".join(shown(name, 30) for name in list(names)[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most} more"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `` (nearest: 'x')`` for the known name that looks most like ``name``, else nothing."""
    near = difflib.get_close_matches(name, list(known)[:2000], n=1, cutoff=0.5)
    return f" (nearest: {shown(near[0], 40)})" if near else ""


def is_missing(value: Any) -> bool:
    """Whether a cell is None, NaN, NaT or pandas' NA."""
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    if isinstance(value, float | np.floating):
        return bool(value != value)
    return isinstance(value, np.datetime64 | np.timedelta64) and bool(np.isnat(value))


def first_missing(values: pd.Series) -> int | None:
    """Return the position of the first missing cell of a column, None if there is none."""
    missing = values.isna().to_numpy(dtype=bool)
    return int(np.argmax(missing)) if missing.any() else None


def _simple(value: Any) -> Any:
    """Return NumPy scalars as Python's, so that messages read 3 and not np.int64(3)."""
    return value.item() if isinstance(value, np.generic) else value
