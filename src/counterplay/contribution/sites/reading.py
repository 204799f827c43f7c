"""The tables of the sites come in: names, columns, labels and the sentences for what is wrong.

Rows of all sites are one pool in the container the user gave, so that a pipeline meets what it
expects; a row is known by its number in the pool.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from counterplay.contribution.parties import read_parties
from counterplay.core.validation import IntArray, shorten
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.tables import Labels, Table, read_table
from counterplay.tables.cells import listed, shown
from counterplay.tables.labels import cast_labels
from counterplay.tables.reading import as_pandas

LEAST_ROWS = 20
MOST_SITES = 60
LONGEST_NAME = 100


@dataclass(frozen=True)
class Sites:
    """The rows of all sites as one pool, their labels, and who owns which rows.

    ``scored`` are the sites whose score is measured; the others contribute rows only. ``dropped``
    counts rows without a label. ``files`` are the paths of sites that came as files.
    """

    names: tuple[str, ...]
    pool: Table
    labels: Labels
    sizes: IntArray
    scored: tuple[int, ...]
    dropped: tuple[int, ...]
    files: tuple[str | None, ...]
    label: str | None
    warnings: tuple[str, ...] = ()

    @property
    def k(self) -> int:
        """Number of sites."""
        return len(self.names)

    @property
    def starts(self) -> IntArray:
        """Number of the first row of each site."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    def own(self, i: int) -> IntArray:
        """Numbers of the rows of site ``i``."""
        start = int(self.starts[i])
        return np.arange(start, start + int(self.sizes[i]))


def read_sites(
    sites: Any,
    label: str | None = None,
    *,
    contribute_only: Sequence[str] = (),
    drop: Sequence[str] = (),
    least: int = 2,
) -> Sites:
    """Read a dictionary from names to frames, pairs ``(X, y)`` or files; check everything at once.

    Parameters
    ----------
    sites
        Name to ``DataFrame``, ``(X, y)``, or path of a CSV or Parquet file.
    label
        Column of the labels, for frames and files.
    contribute_only
        Sites that bring rows but whose own score is not measured.
    drop
        Columns to leave out everywhere.
    least
        Fewest sites: 1 to measure a site alone.
    """
    given = _named(sites, least)
    tables: list[Any] = []
    labels: list[Any] = []
    dropped, files = [], []
    frames: dict[str, Sequence[str]] = {}
    for name, value in given.items():
        X, y, source, file = _split(name, value, label, drop)
        values, known = cast_labels(y, f"the labels of {source}")
        table = Table.of(X, what=source)
        if len(values) != len(table):
            raise InvalidInputError(f"{source[:60]} has {len(table)} rows, {len(values)} labels")
        if not known.all():
            X, values = table.take(np.flatnonzero(known)), values[known]
        dropped.append(int((~known).sum()))
        files.append(file)
        if table.names is not None:
            frames[source] = table.names
        tables.append(X)
        labels.append(values)
    if len(frames) == len(tables):
        _check_columns(frames)
    measured = _check_labels(list(given), labels, contribute_only)
    pool, sizes = read_parties(tables, "the sites")
    _check_common_labels(list(given), labels, measured)
    joint = Labels.of(np.concatenate(labels), what="the labels")
    found = Sites(tuple(given), pool, joint, sizes, measured, tuple(dropped), tuple(files), label)
    notes = _label_notes(found) if found.k > 1 else ()
    for note in notes:
        warnings.warn(note, AssumptionWarning, stacklevel=4)
    lost = [f"{n} rows of {name[:60]} have no label and are left out"
            for name, n in zip(given, dropped) if n]  # fmt: skip
    return Sites(**(vars(found) | {"warnings": (*lost, *notes)}))


def check_name(name: Any) -> str:
    """Return the name of a site if it is one: short, and of one line."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError(f"the name of a site must be a text, got {shorten(name, 60)}")
    if len(name) > LONGEST_NAME:
        raise InvalidInputError(
            f"the name of a site is {len(name)} characters long, at most {LONGEST_NAME} are "
            f"allowed: {shown(name, 60)}"
        )
    if any(ord(c) < 32 or ord(c) == 127 or c in "\x85\u2028\u2029" for c in name):
        raise InvalidInputError(f"the name of a site holds a control character: {shown(name, 60)}")
    return name


def _named(sites: Any, least: int) -> dict[str, Any]:
    if not isinstance(sites, Mapping):
        raise InvalidInputError(
            f"sites must be a dictionary from names to tables, got {shorten(sites, 60)}"
        )
    given = {check_name(name): value for name, value in sites.items()}
    if len(given) < least:
        raise InvalidInputError(
            f"a consortium needs at least two sites, got {len(given)}: "
            f"{shown(next(iter(given), 'none'), 60)}"
        )
    if len(given) > MOST_SITES:
        raise InvalidInputError(f"at most {MOST_SITES} sites can be planned, got {len(given)}")
    return given


def _split(
    name: str, value: Any, label: str | None, drop: Sequence[str]
) -> tuple[Any, Any, str, str | None]:
    """Return rows, labels, how messages call the site, and its file."""
    if isinstance(value, tuple) and len(value) == 2:
        X, y = value
        if hasattr(X, "columns") and drop:
            X = as_pandas(X).drop(columns=[c for c in drop if c in X.columns])
        return X, y, name, None
    source, file = name, None
    if isinstance(value, str | Path):
        file, source = str(value), Path(value).name
        value = read_table(value).frame
        if not len(value):
            raise InvalidInputError(f"{shown(source, 60)} has no rows")
    if not hasattr(value, "columns"):
        raise InvalidInputError(
            f"{name[:60]} must be a table, (X, y) or the path of a file, got {shorten(value, 60)}"
        )
    frame = as_pandas(value)
    if label is None:
        raise InvalidInputError("say which column holds the labels: label='...'")
    if label not in frame.columns:
        raise InvalidInputError(
            f"{source[:60]} has no column {shown(label, 60)}; its columns are "
            f"{listed([str(c)[:30] for c in frame.columns])}"
        )
    gone = [column for column in drop if column in frame.columns]
    return frame.drop(columns=[label, *gone]), frame[label], source, file


def _check_columns(frames: Mapping[str, Sequence[str]]) -> None:
    """All sites have the same columns, in any order."""
    every = list(dict.fromkeys(column for names in frames.values() for column in names))
    for column in every:
        lacking = [source for source, names in frames.items() if column not in names]
        if not lacking:
            continue
        named = shown(column, 40)
        if len(lacking) == len(frames) - 1 and len(frames) > 2:
            only = next(source for source in frames if source not in lacking)
            start = f"only {only[:60]} has {named}"
        else:
            start = f"{lacking[0][:60]} lacks {named}, which the other sites have"
        raise InvalidInputError(
            f"{start}; drop it everywhere with --drop {column[:40]} or fill it in"
        )


def _check_labels(
    names: list[str], labels: list[Any], contribute_only: Sequence[str]
) -> tuple[int, ...]:
    unknown = [name for name in contribute_only if name not in names]
    if unknown:
        raise InvalidInputError(
            f"contribute_only names {shown(unknown[0], 60)}; the sites are {listed(names)}"
        )
    measured = []
    for i, (name, values) in enumerate(zip(names, labels)):
        if name in contribute_only:
            if not len(values):
                raise InvalidInputError(f"{name[:60]} has no rows")
            continue
        if len(values) < LEAST_ROWS:
            raise InvalidInputError(
                f"{name[:60]} has {len(values)} rows: too few to hold some out ({LEAST_ROWS} "
                "needed); join it with another site"
            )
        if len(set(values.tolist())) < 2:
            raise InvalidInputError(
                f"{name[:60]} has only label {shown(values[0], 40)}: its accuracy cannot be "
                "measured; name it in contribute_only, or leave it out"
            )
        measured.append(i)
    if not measured:
        raise InvalidInputError("no site is measured: contribute_only names all of them")
    return tuple(measured)


def _check_common_labels(names: list[str], labels: list[Any], measured: tuple[int, ...]) -> None:
    """A site that shares no label with any other codes them in another way."""
    own = [set(values.tolist()) for values in labels]
    for i in measured if len(names) > 1 else ():
        others = set[Any]().union(*(some for j, some in enumerate(own) if j != i))
        if not own[i] & others:
            raise InvalidInputError(
                f"{names[i][:60]} has none of the labels of the other sites "
                f"({_some(own[i])} against {_some(others)}); code them alike everywhere"
            )


def _some(labels: set[Any]) -> str:
    return listed(sorted(labels, key=str), most=4)


def _label_notes(sites: Sites) -> tuple[str, ...]:
    site = np.repeat(np.arange(sites.k), sites.sizes)
    notes = []
    for code, value in enumerate(sites.labels.classes):
        at = np.unique(site[sites.labels.codes == code])
        if len(at) == 1:
            notes.append(
                f"label {shown(value, 40)} occurs only at {sites.names[int(at[0])][:60]}; the "
                "others can neither learn nor test it"
            )
    return tuple(notes)
