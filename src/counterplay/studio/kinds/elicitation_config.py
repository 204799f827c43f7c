"""A catalogue of strangers becomes the frozen configuration of an elicitation.

The file is checked before anything is stored: size, text, lines, columns, rows. Every item keeps
the row of the file it came from; rows that lack a number are left out and named; names that occur
twice get their row, so that nobody compares "Golf" with "Golf".
"""

from __future__ import annotations

import json
import re
import secrets
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pandas as pd
from msgspec import Meta

from counterplay.core import export_bodies as lines
from counterplay.core.records import canonical, require_state, to_record
from counterplay.elicitation.catalogue import Catalogue
from counterplay.errors import CounterplayError, InvalidInputError, InvalidStateError
from counterplay.studio.kinds import FileName
from counterplay.tables import read_table
from counterplay.tables.cells import shown

LARGEST_FILE = 20 * 2**20
MOST_ROWS = 200_000
MOST_COLUMNS = 500
_LARGEST, _SMALLEST = 1e15, 1e-5
"""Numbers on cards have at most 15 digits before and 6 after the point."""
_RAGGED = re.compile(r"line (\d+): (\d+) cells, but there are (\d+) columns")
_BINARY = (b"PK\x03\x04", b"\x80\x04", b"\x80\x05", b"\x80\x03", b"\x1f\x8b", b"PAR1", b"%PDF")


class Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an elicitation's TOML file may say; the wizard fills in the same fields."""

    kind: str
    name: str
    table: FileName
    benefits: list[str] = []
    costs: list[str] = []
    either: list[str] = []
    name_column: str | None = None
    target_regret: float = 0.05
    confidence: float = 0.95
    errors: float = 0.1
    jnd: float = 0.0
    units: dict[str, str] = {}
    asks: str = ""
    consent: str = ""
    locale: str = "en"
    max_questions: int = 60
    seed: int | None = None


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a column is shown; values are 0 at its worst and 1 at its best."""

    name: Annotated[str, Meta(min_length=1, max_length=500)]
    unit: Annotated[str, Meta(max_length=200)]
    direction: Literal["benefit", "cost", "either"]
    low: float
    high: float
    digits: Annotated[int, Meta(ge=0, le=6)]


class Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a study is shown: the part of its configuration that enters no certificate."""

    title: Annotated[str, Meta(max_length=200)]
    asks: Annotated[str, Meta(max_length=10_000)]
    consent: Annotated[str, Meta(max_length=100_000)]
    locale: Annotated[str, Meta(max_length=20)]
    names: list[Annotated[str, Meta(max_length=300)]]
    columns: list[Column]
    raw: list[list[float]]
    missing: list[tuple[int, str]]
    max_questions: Annotated[int, Meta(ge=1, le=200)]
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]


def check_page(config: lines.ReliableConfig) -> None:
    """Refuse a configuration from outside whose pages could not be shown."""
    what, rows = "the configuration", config.columns
    require_state(config.page is not None and rows is not None, what, "page", "is missing")
    page = to_record(config.page, Page, what=what, where="page")
    n, k = len(config.items), len(config.items[0])
    require_state(len(page.columns) == k, what, "page.columns", f"there must be {k}")
    require_state(len(page.names) == len(page.raw) == n, what, "page.names", f"must be {n}")
    require_state(
        all(len(row) == k for row in page.raw), what, "page.raw", f"must have {k} columns"
    )
    require_state(rows is not None and len(rows.rows) == n, what, "columns.rows", f"must be {n}")
    for j, column in enumerate(page.columns):
        place = f"page.columns[{j}]"
        require_state(column.low < column.high, what, place, "must run from low to high")
        known = (column.direction == "either") == (j in config.unknown)
        require_state(known, what, place, "its direction does not fit")


def read_config(raw: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the frozen configuration; ``raw`` may hold the file's bytes as ``table_bytes``."""
    given = dict(raw)
    content = given.pop("table_bytes", None)
    try:
        fields = to_record(given, Fields, what="the study")
    except InvalidStateError as error:
        raise InvalidInputError(str(error).replace("cannot be used", "is not complete")) from None
    if content is None:
        path = folder / fields.table
        if not path.is_file():
            raise InvalidInputError(f"there is no file {shown(fields.table)} beside the study")
        if path.stat().st_size > LARGEST_FILE:
            raise InvalidInputError("The file is larger than 20 MB.")
        content = path.read_bytes()
    return frozen(fields, read_catalogue(content))


def read_catalogue(content: bytes) -> pd.DataFrame:
    """Return the table of an uploaded CSV file, or say in one sentence what is wrong with it."""
    if len(content) > LARGEST_FILE:
        raise InvalidInputError("The file is larger than 20 MB.")
    if content.startswith(_BINARY) or b"\0" in content[: 1 << 16]:
        raise InvalidInputError("This is not a text file. Save the table as CSV (UTF-8).")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InvalidInputError(f"Line {line} is not UTF-8. Save the table as CSV UTF-8.") from None
    header = text.split("\n", 1)[0]
    if max(header.count(mark) for mark in ",;\t|") >= MOST_COLUMNS:
        raise InvalidInputError(f"The file has more than {MOST_COLUMNS} columns.")
    if text.count("\n") > MOST_ROWS + 1:
        raise InvalidInputError(f"The file has more than {MOST_ROWS:,} rows.")
    return _parsed(content)


def _parsed(content: bytes) -> pd.DataFrame:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_bytes(content)
        try:
            frame = read_table(path).frame
        except CounterplayError as error:
            told = str(error)
            if found := _RAGGED.search(told):
                line, fields, names = found.groups()
                told = f"Line {line} has {fields} fields, the header has {names}."
            raise InvalidInputError(told.replace("table.csv", "the file")) from None
    frame.columns = [str(column) for column in frame.columns]
    return frame


def frozen(fields: Fields, frame: pd.DataFrame) -> dict[str, Any]:
    """Return the configuration: items as values, and how they are shown."""
    frame = frame.reset_index(drop=True)
    columns = [*fields.benefits, *fields.costs, *fields.either]
    _check_fields(fields, frame, columns)
    missing = missing_rows(frame, columns)
    counted = frame.set_axis(pd.RangeIndex(1, len(frame) + 1))  # people count from 1
    catalogue = Catalogue(
        counted, fields.benefits, fields.costs, either=fields.either, on_missing="drop"
    )
    if len(catalogue) < 2:
        raise InvalidInputError("At least two rows with a number in every column are needed.")
    _check_readable(columns, catalogue.raw)
    directions = ["benefit"] * len(fields.benefits) + ["cost"] * len(fields.costs)
    directions += ["either"] * len(fields.either)
    k = len(columns)
    shape = [
        {
            "name": column,
            "unit": fields.units.get(column, ""),
            "direction": direction,
            "low": float(catalogue.raw[:, j].min()),
            "high": float(catalogue.raw[:, j].max()),
            "digits": decimals(catalogue.raw[:, j]),
        }
        for j, (column, direction) in enumerate(zip(columns, directions))
    ]
    page = {
        "title": fields.name,
        "asks": fields.asks,
        "consent": fields.consent,
        "locale": fields.locale,
        "names": item_names(frame, fields.name_column, catalogue.rows),
        "columns": shape,
        "raw": [[float(x) for x in row] for row in catalogue.raw],
        "missing": missing[:1000],
        "max_questions": fields.max_questions,
        "seed": secrets.randbits(48) if fields.seed is None else fields.seed,
    }
    config = lines.ReliableConfig(
        promise="reliable",
        items=tuple(map(tuple, np.asarray(catalogue.values).tolist())),
        unknown=tuple(range(k - len(fields.either), k)),
        target=fields.target_regret,
        confidence=fields.confidence,
        rates=(fields.errors,),
        jnd=fields.jnd,
        running=False,
        columns=lines.Columns(
            benefits=tuple(fields.benefits),
            costs=tuple(fields.costs),
            either=tuple(fields.either),
            scale="range",
            rows=tuple(map(int, catalogue.rows)),
        ),
        page=page,
    )
    built: dict[str, Any] = json.loads(canonical(msgspec.to_builtins(config)))
    to_record(built, lines.ReliableConfig, what="the study")
    return built


def _check_fields(fields: Fields, frame: pd.DataFrame, columns: list[str]) -> None:
    if not fields.name.strip():
        raise InvalidInputError("Give the study a name.")
    if not columns:
        raise InvalidInputError("Say of at least one column whether more or less of it is better.")
    if not 0.001 <= fields.target_regret < 1:
        raise InvalidInputError("target_regret must be from 0.001 to below 1")
    if not 0.5 <= fields.confidence < 1 or not 0 <= fields.errors < 0.5:
        raise InvalidInputError("confidence must be in [0.5, 1) and errors in [0, 0.5)")
    if not 1 <= fields.max_questions <= 200:
        raise InvalidInputError("max_questions must be from 1 to 200")
    if len(frame) < 2:
        raise InvalidInputError("At least two rows are needed: there is nothing to compare.")
    for column in [*columns, *([fields.name_column] if fields.name_column else [])]:
        if column not in frame.columns:
            known = ", ".join(map(str, frame.columns[:20]))
            raise InvalidInputError(f"There is no column {shown(column, 60)}; there are: {known}.")


def _check_readable(columns: list[str], raw: Any) -> None:
    """Refuse numbers that no card can show: people would answer about something else."""
    for column, numbers in zip(columns, raw.T):
        if np.abs(numbers).max() >= _LARGEST or np.ptp(numbers) < _SMALLEST:
            raise InvalidInputError(
                f"The numbers of column {shown(column, 60)} are too large or too close together "
                "to be read: give them in another unit."
            )


def missing_rows(frame: pd.DataFrame, columns: list[str]) -> list[list[Any]]:
    """Return [row of the file from 1, column] of every number that is missing."""
    found = []
    for column in columns:
        for row in np.flatnonzero(frame[column].isna().to_numpy()):
            found.append([int(row) + 1, column])
    return sorted(found)


def item_names(frame: pd.DataFrame, column: str | None, rows: Any) -> list[str]:
    """Return the name of every item; one that occurs twice gets its row of the file."""
    if not column:
        return [f"#{int(row) + 1}" for row in rows]
    cells = frame[column].iloc[rows]
    told = ["" if pd.isna(cell) else str(cell).strip()[:200] for cell in cells]
    often = Counter(told)
    return [
        name if name and often[name] == 1 else f"{name} (row {int(row) + 1})".strip()
        for name, row in zip(told, rows)
    ]


def decimals(numbers: Any) -> int:
    """Decimal places to show: all there are, but at most three significant ones of the spread."""
    spread = float(numbers.max() - numbers.min()) or 1.0
    most = int(min(6, max(0, 2 - int(np.floor(np.log10(spread))))))
    for digits in range(most):
        if np.allclose(np.round(numbers, digits), numbers, rtol=1e-12, atol=0.0):
            return digits
    return most
