"""Rows as numbers: a column per number, a column of 0 and 1 per word that occurs.

A coding learned at one table (or agreed on by sites that tell each other columns and words) can be
used on another; words that it does not know are no word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterplay.contribution.sites.reading import Sites
from counterplay.core.validation import FloatArray, check_size
from counterplay.errors import InvalidInputError
from counterplay.tables import Table
from counterplay.tables.cells import shown

MOST_CELLS = 1 << 27
MOST_WORDS = 2000
MISSING = "\x00missing"


@dataclass(frozen=True)
class Coding:
    """Columns that are numbers and columns that are words, with the words that occur."""

    numbers: tuple[str, ...]
    words: tuple[tuple[str, tuple[str, ...]], ...]


def coded(sites: Sites) -> tuple[Coding, FloatArray, FloatArray]:
    """Return the coding of the pool, its numbers (missing: NaN) and its words as 0/1 columns."""
    pool = sites.pool
    if pool.container == "texts":
        raise InvalidInputError(
            "the built-in models take tables and arrays; give model= a pipeline for texts"
        )
    if pool.container != "table":
        numbers = pool.numbers(missing=True).reshape(len(pool), -1)
        return Coding(_numbered(numbers), ()), numbers, np.zeros((len(pool), 0))
    numeric_names, words = [], []
    for j, (name, kind) in enumerate(zip(_columns(pool), pool.kinds)):
        if kind == "time":
            raise InvalidInputError(
                f"column {shown(name, 40)} holds times; turn them into numbers or drop the column"
            )
        if kind in ("category", "text"):
            levels = sorted(set(_text(pool.column(j))) - {MISSING})
            if len(levels) > MOST_WORDS:
                raise InvalidInputError(
                    f"column {shown(name, 40)} holds {len(levels)} different words; drop it, or "
                    "give model= a pipeline"
                )
            words.append((name, tuple(levels)))
        else:
            numeric_names.append(name)
    coding = Coding(tuple(numeric_names), tuple(words))
    return coding, *with_coding(pool, coding, "the table")


def with_coding(pool: Table, coding: Coding, what: str) -> tuple[FloatArray, FloatArray]:
    """Numbers (missing: NaN) and words as 0/1 columns of a table, by a coding made elsewhere."""
    width = len(coding.numbers) + sum(len(words) for _, words in coding.words)
    check_size(len(pool) * width, MOST_CELLS, "cells of coded columns")
    if pool.container != "table":
        numbers = pool.numbers(missing=True).reshape(len(pool), -1)
        if coding != Coding(_numbered(numbers), ()):
            raise InvalidInputError(f"{what[:60]} has other columns than the models")
        return numbers, np.zeros((len(pool), 0))
    place = {name: j for j, name in enumerate(_columns(pool))}
    wanted = (*coding.numbers, *(column for column, _ in coding.words))
    if missing := [column for column in wanted if column not in place]:
        raise InvalidInputError(f"{what[:60]} has no column {shown(missing[0], 60)}")
    empty = np.zeros((len(pool), 0))
    floats = [_floats(pool.column(place[name]), name)[:, None] for name in coding.numbers]
    dummies = [
        _text(pool.column(place[name]))[:, None] == np.array(levels, dtype=object)[None, :]
        for name, levels in coding.words
    ]
    return np.hstack([empty, *floats]), np.hstack([empty, *dummies]).astype(np.float64)


def scales(numeric: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of every column, 0 and 1 where it has no or one value."""
    known = np.isfinite(numeric)
    count = np.maximum(known.sum(axis=0), 1)
    filled = np.where(known, numeric, 0.0)
    centre = filled.sum(axis=0) / count
    spread = np.sqrt((np.where(known, numeric - centre, 0.0) ** 2).sum(axis=0) / count)
    return centre, np.where(spread > 1e-12 * np.maximum(1.0, abs(centre)), spread, 1.0)


def _columns(pool: Table) -> tuple[str, ...]:
    return tuple(map(str, pool.names or range(pool.width)))


def _numbered(numbers: FloatArray) -> tuple[str, ...]:
    return tuple(str(j) for j in range(numbers.shape[1]))


def _text(column: Any) -> Any:
    """Words of a column, a mark where one is missing."""
    text = column.reset_index(drop=True).astype(object)
    return text.where(text.notna(), MISSING).astype(str).to_numpy(dtype=object)


def _floats(column: Any, name: str) -> FloatArray:
    import pandas as pd

    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isinf(values).any():
        raise InvalidInputError(f"column {shown(name, 40)} holds an infinite number")
    return np.asarray(values)
