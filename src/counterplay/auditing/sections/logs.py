"""Logs that the config names: read by the door, checked for their columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from counterplay.auditing.context import Context
from counterplay.auditing.findings import Missing
from counterplay.errors import InvalidInputError
from counterplay.tables import read_table
from counterplay.tables.cells import nearest, shown


def log_missing(context: Context, name: str, what: str) -> list[Missing]:
    """Return what is missing for a section that reads a log: the name of its file."""
    if context.setting(name, "file") is None:
        return [Missing(sentence=f"No {what} was given.", key=f"[{name}] file")]
    return []


def read_log(context: Context, name: str, columns: Sequence[str]) -> pd.DataFrame:
    """Return the log of a section with the columns that it needs; read once."""
    if ("log", name) not in context.fits:
        context.fits["log", name] = read_table(Path(context.setting(name, "file"))).frame
    frame: pd.DataFrame = context.fits["log", name]
    for column in columns:
        if column not in frame.columns:
            near = nearest(column, map(str, frame.columns))
            raise InvalidInputError(f"the log of [{name}] has no column {shown(column, 40)}{near}")
    return frame
