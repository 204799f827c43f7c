"""Tables on disk: CSV and Parquet files of strangers, read with their defects named.

The delimiter, the encoding and the decimal comma are found and *said*; a broken row is named by its
line; nothing is renamed or dropped silently.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import io
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from counterplay.errors import DataUnavailableError, InvalidInputError, MissingDependencyError
from counterplay.tables.cells import listed, shown

LARGEST_FILE = 2 * 1024**3
LARGEST_RATIO = 200
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_SAMPLE = 1 << 20
# From version 3 on pandas reads floats exactly by default, and says so when asked for it.
_EXACT_FLOATS: dict[str, Any] = (
    {} if int(pd.__version__.split(".")[0]) >= 3 else {"float_precision": "round_trip"}
)


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table that was read from a file.

    What :func:`read_table` returns.

    Parameters
    ----------
    frame
        The table.
    notes
        What was found out about the file: delimiter, encoding, decimal comma.
    sha256
        Checksum of the file.

    Examples
    --------
    >>> TableFile(pd.DataFrame({"debt": [1.5]}), ("columns are separated by tabs",), "").notes
    ('columns are separated by tabs',)

    References
    ----------
    docs/tables.md.
    """

    frame: pd.DataFrame
    notes: tuple[str, ...]
    sha256: str


def read_table(path: str | Path, *, texts: Sequence[str] = ()) -> TableFile:
    """Read a table from a CSV file (also ``.gz``) or a Parquet file.

    Columns named in ``texts`` are names, not numbers: in a CSV file ``007`` stays ``007``.

    Raises an error of one sentence that names the file and the line for what cannot be read: a
    broken row, two columns of one name, an archive that unpacks to too much.

    Parameters
    ----------
    path:
        The file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.csv")
    ...     _ = path.write_text("name;debt\\nann;1,5\\nbob;2,0\\n")
    ...     table = read_table(path)
    >>> table.notes
    ('columns are separated by semicolons', 'numbers are written with a decimal comma')
    >>> table.frame["debt"].tolist()
    [1.5, 2.0]

    References
    ----------
    docs/tables.md.
    """
    file = Path(path)
    if file.is_dir():
        raise DataUnavailableError(f"{shown(str(path))} is a folder; name a file in it")
    if not file.is_file():
        raise DataUnavailableError(f"there is no file {shown(str(path))}")
    if file.stat().st_size > LARGEST_FILE:
        raise InvalidInputError(f"{file.name} is larger than 2 GB; take a part of it")
    raw = file.read_bytes()
    checksum = hashlib.sha256(raw).hexdigest()
    if file.suffix.lower() in (".parquet", ".pq"):
        return TableFile(_read_parquet(raw, file.name), (), checksum)
    if raw[:4] == b"PAR1":
        raise InvalidInputError(f"{file.name} is a Parquet file; give it the ending .parquet")
    if file.suffix.lower() == ".gz" or raw[:2] == b"\x1f\x8b":
        raw = _unpack(raw, file.name)
    frame, notes = _read_csv(raw, file.name, texts)
    return TableFile(frame, notes, checksum)


def _read_parquet(raw: bytes, name: str) -> pd.DataFrame:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingDependencyError.for_extra("pyarrow", "data") from None
    if raw[:4] != b"PAR1":
        raise InvalidInputError(f"{name} is not a Parquet file")
    try:
        frame = pd.read_parquet(io.BytesIO(raw))
    except Exception as error:
        raise InvalidInputError(f"{name} cannot be read as Parquet: {shown(error, 120)}") from None
    _check_names([str(column) for column in frame.columns], name)
    return frame


def _unpack(raw: bytes, name: str) -> bytes:
    """Unpack gzip with a limit on size and on ratio."""
    limit = min(LARGEST_FILE, max(LARGEST_RATIO * len(raw), 1 << 20))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
            text = stream.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInputError(f"{name} is a damaged archive: {shown(error)}") from None
    if len(text) > limit:
        raise InvalidInputError(f"{name} unpacks to more than {limit >> 20} MB; refused")
    return text


def _read_csv(
    raw: bytes, name: str, texts: Sequence[str] = ()
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    text, notes = _decode(raw, name)
    if not text.strip():
        raise InvalidInputError(f"{name} is empty")
    delimiter = _delimiter(text[:_SAMPLE])
    if delimiter != ",":
        notes.append(f"columns are separated by {_DELIMITERS[delimiter]}")
    _check_lines(text, delimiter, name)
    comma = delimiter != "," and _decimal_comma(text[:_SAMPLE], delimiter)
    if comma:
        notes.append("numbers are written with a decimal comma")
    try:
        frame = pd.read_csv(
            io.StringIO(text),
            sep=delimiter,
            decimal="," if comma else ".",
            dtype=dict.fromkeys(texts, str),
            **_EXACT_FLOATS,
            low_memory=False,
            index_col=False,
        )
    except (ValueError, pd.errors.ParserError, OverflowError) as error:
        raise InvalidInputError(f"{name} cannot be read: {shown(error, 120)}") from None
    if frame.empty:
        raise InvalidInputError(f"{name} has column names, but no rows")
    return frame, tuple(notes)


def _decode(raw: bytes, name: str) -> tuple[str, list[str]]:
    """Return the text of a file and, if it is not UTF-8, a note about its encoding."""
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if raw.startswith(mark):
            try:
                return raw.decode(encoding), ["the file is written in UTF-16"]
            except UnicodeDecodeError as error:
                raise InvalidInputError(f"{name} is damaged UTF-16: {shown(error)}") from None
    if b"\0" in raw[:_SAMPLE]:
        raise InvalidInputError(f"{name} is not a text file")
    try:
        return raw.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        note = f"the file is not UTF-8 (line {line}): read as Windows-1252"
        return raw.decode("cp1252", "replace"), [note]


def _delimiter(sample: str) -> str:
    """Return the delimiter that cuts the first lines into the same number of cells, the most.

    One that cuts the names of the columns alike goes first: 1,5;2,5 has decimal commas.
    """
    best, most = ",", (False, 1)
    for delimiter in _DELIMITERS:
        try:
            lines = [line for line in csv.reader(io.StringIO(sample), delimiter=delimiter) if line]
        except csv.Error:  # a cell that is too large; the check of the lines says where
            continue
        widths = Counter(len(line) for line in lines[: max(1, min(50, len(lines) - 1))])
        if not widths:
            continue
        width, count = widths.most_common(1)[0]
        fit = (len(lines[0]) == width, width)
        if width > 1 and fit > most and 2 * count > widths.total():
            best, most = delimiter, fit
    return best


def _check_lines(text: str, delimiter: str, name: str) -> None:
    """Raise for the first line that has more or fewer cells than there are columns."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        header = next(line for line in reader if line)
        _check_names(header, name)
        for line in reader:
            if line and len(line) != len(header):
                raise InvalidInputError(
                    f"{name} line {reader.line_num}: {len(line)} cells, but there are "
                    f"{len(header)} columns"
                )
    except csv.Error as error:
        raise InvalidInputError(f"{name} line {reader.line_num}: {shown(error)}") from None


def _check_names(header: list[str], name: str) -> None:
    counts = Counter(header)
    twice = [column for column, count in counts.items() if count > 1 and column.strip()]
    if twice:
        raise InvalidInputError(f"{name} has more than one column named {listed(twice)}")
    if not all(column.strip() for column in header):
        place = next(j for j, column in enumerate(header) if not column.strip()) + 1
        raise InvalidInputError(
            f"{name}: column {place} has no name in the first line; give it one, or leave it out "
            "(pandas: to_csv(..., index=False))"
        )


def _decimal_comma(sample: str, delimiter: str) -> bool:
    """Whether cells look like 1,5 and none like 1.5."""
    cells = [cell for line in csv.reader(io.StringIO(sample), delimiter=delimiter) for cell in line]
    comma = sum(re.fullmatch(r"\s*-?\d+,\d+\s*", cell) is not None for cell in cells)
    point = sum(re.fullmatch(r"\s*-?\d+\.\d+\s*", cell) is not None for cell in cells)
    return comma > 0 and point == 0
