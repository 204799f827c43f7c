"""Where finished cells are kept: one SQLite file, one transaction per cell.

The write-ahead log makes a finished cell durable at once, so a killed run loses only what was being
computed. A cell is stored with the fingerprint of the code that computed it; a store never hands
out cells of other code (see :meth:`Store.lookup`). Every row carries a digest of itself: a damaged
one is named, never used.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from counterplay.core.database import OwnedFile
from counterplay.errors import InvalidInputError, StoreError
from counterplay.studies.codec import decode, encode
from counterplay.studies.plan import Cell
from counterplay.studies.provenance import Provenance
from counterplay.studies.study import Record, Value

FORMAT = 2
_SCHEMA = """
CREATE TABLE IF NOT EXISTS cell (
    study        TEXT    NOT NULL,  -- AREA/NAME
    params       TEXT    NOT NULL,  -- canonical JSON
    base_seed    INTEGER NOT NULL,  -- what the user chose with --seed
    seed         INTEGER NOT NULL,  -- what the cell was given
    record       TEXT    NOT NULL,  -- canonical JSON
    version      INTEGER NOT NULL,  -- version of the study
    fingerprint  TEXT    NOT NULL,  -- of the code of the cell
    library      TEXT    NOT NULL,
    "commit"     TEXT,
    environment  TEXT    NOT NULL,
    wall_time    REAL    NOT NULL,  -- seconds
    digest       TEXT    NOT NULL,  -- of all the columns above
    PRIMARY KEY (study, params, base_seed)
)
"""
_COLUMNS = (
    'study, params, base_seed, seed, record, version, fingerprint, library, "commit", '
    "environment, wall_time"
)


@dataclass(frozen=True)
class StoredCell:
    """One row of the store."""

    study: str
    params: str
    base_seed: int
    seed: int
    record: str
    version: int
    fingerprint: str
    library: str
    commit: str | None
    environment: str
    wall_time: float

    def digest(self) -> str:
        """What the row must carry so that a flipped bit anywhere in it is seen."""
        content = json.dumps(list(vars(self).values()), default=repr, ensure_ascii=True)
        return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()

    def values(self) -> dict[str, Value]:
        """Return the record with exactly the numbers the cell returned."""
        try:
            return decode(self.record)
        except InvalidInputError as error:
            raise StoreError(f"the record of {self.label} is not ours: {error}") from None

    @property
    def label(self) -> str:
        """Study and cell as messages name them, whatever is in the row."""
        study, params = (str(text).encode("ascii", "backslashreplace").decode()
                         for text in (self.study, self.params))  # fmt: skip
        return f"{study[:60]}, cell {params[:120]}"

    def is_intact(self, digest: object) -> bool:
        """Whether the row is what was once stored: every type, its digest, and a flat record."""
        try:
            msgspec.convert(vars(self), StoredCell, strict=True)
            if self.digest() != digest:
                return False
            decode(self.params)
            decode(self.record)
        except (msgspec.ValidationError, InvalidInputError):
            return False
        return True

    @property
    def provenance(self) -> Provenance:
        """The code and the machine that computed the cell."""
        return Provenance(self.library, self.commit, self.environment)

    def is_of(self, cell: Cell) -> bool:
        """Whether the same code would be run for ``cell`` today."""
        mine = (self.version, self.fingerprint, self.seed)
        return mine == (cell.version, cell.fingerprint, cell.seed)


@dataclass(frozen=True)
class Lookup:
    """What a store knows about the cells of one study."""

    found: dict[str, StoredCell]
    """Usable rows by the key of their cell."""
    missing: list[Cell]
    stale: list[StoredCell]
    """Rows for wanted cells that other code computed."""


class Store(OwnedFile):
    """A study store; use it as a context manager.

    Parameters
    ----------
    path:
        The SQLite file.
    create:
        Create the file (and its folder) when it is not there; otherwise that is an error.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with Store(pathlib.Path(tempfile.mkdtemp()) / "studies.sqlite") as store:
    ...     len(list(store.rows()))
    0
    """

    owner = 0x636F756E  # "coun"
    format = FORMAT
    schema = _SCHEMA
    kind = "a study store"
    cure = "name another file with --store"

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True) -> None:
        self.path = Path(path)
        if not create and not self.path.is_file():
            raise StoreError(
                f"there is no study store at {self.path}; "
                "run 'counterplay run --all' first or name another one with --store"
            )
        super().__init__(self.path)

    def lookup(self, cells: Sequence[Cell]) -> Lookup:
        """Sort the ``cells`` of one study into found, missing, and stale."""
        result = Lookup({}, [], [])
        if not cells:
            return result
        rows = {row.params: row for row in self.rows(cells[0].study, cells[0].base_seed)}
        for cell in cells:
            row = rows.get(cell.key)
            if row is None:
                result.missing.append(cell)
            elif row.is_of(cell):
                result.found[cell.key] = row
            else:
                result.stale.append(row)
        return result

    def add(self, cell: Cell, record: Record, wall_time: float, origin: Provenance) -> StoredCell:
        """Store one finished cell in a transaction of its own."""
        row = StoredCell(
            study=cell.study,
            params=cell.key,
            base_seed=cell.base_seed,
            seed=cell.seed,
            record=encode(record),
            version=cell.version,
            fingerprint=cell.fingerprint,
            library=origin.library,
            commit=origin.commit,
            environment=origin.environment,
            wall_time=wall_time,
        )
        content = (*vars(row).values(), row.digest())
        marks = ", ".join("?" * len(content))
        with self._explained("cannot be written"):
            self._db.execute(
                f"INSERT OR REPLACE INTO cell ({_COLUMNS}, digest) VALUES ({marks})", content
            )
        return row

    def discard(self, cells: Iterable[Cell]) -> int:
        """Forget ``cells`` and every stale cell of their studies, all at once; return how many."""
        unique = {(cell.study, cell.key, cell.base_seed) for cell in cells}
        current = {(cell.version, cell.fingerprint, cell.study) for cell in cells}
        with self._explained("cannot be written"):
            before = self._db.total_changes
            with self._transaction():
                self._db.executemany(
                    "DELETE FROM cell WHERE study = ? AND params = ? AND base_seed = ?",
                    sorted(unique),
                )
                self._db.executemany(
                    "DELETE FROM cell WHERE NOT (version = ? AND fingerprint = ?) AND study = ?",
                    sorted(current),
                )
            return self._db.total_changes - before

    def rows(self, study: str | None = None, base_seed: int | None = None) -> Iterator[StoredCell]:
        """Yield the stored cells in the order of their keys; a damaged one is an error."""
        for _, row, intact in self._read(study, base_seed):
            if not intact:
                raise StoreError(
                    f"{self.path} is damaged: the record of {row.label} is not what was stored; "
                    "add --refresh to compute it again"
                )
            yield row

    def forget_damaged(self, study: str) -> int:
        """Delete the damaged rows of ``study``; return how many there were."""
        damaged = [(key,) for key, _, intact in self._read(study, None) if not intact]
        with self._explained("cannot be written"):
            self._db.executemany("DELETE FROM cell WHERE rowid = ?", damaged)
        return len(damaged)

    def _read(
        self, study: str | None, base_seed: int | None
    ) -> Iterator[tuple[int, StoredCell, bool]]:
        """Yield row number, row, and whether the row is what was once stored."""
        query = (
            f"SELECT rowid, {_COLUMNS}, digest FROM cell WHERE (?1 IS NULL OR study = ?1) "
            "AND (?2 IS NULL OR base_seed = ?2) ORDER BY study, base_seed, params"
        )
        with self._explained("cannot be read"):
            found = self._db.execute(query, (study, base_seed)).fetchall()
        for number, *content, digest in found:
            row = StoredCell(*content)
            yield number, row, row.is_intact(digest)
