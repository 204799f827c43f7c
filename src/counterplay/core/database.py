"""SQLite files with an owner: the one way in which the library opens them.

A file says whose it is and of which format, in SQLite's own header; one of somebody else or of
another version is refused and left alone. The write-ahead log makes every finished transaction
durable, so that a killed process loses only what it was computing. An empty file serves as a lock
that the system lifts when its holder dies.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from counterplay.errors import StoreError

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CORRUPT_INDEX, sqlite3.SQLITE_CORRUPT_VTAB)
_WAIT = 60.0


class BusyError(Exception):
    """Somebody else holds the lock."""


class OwnedFile:
    """An SQLite file of one owner and one format; use it as a context manager.

    Subclasses name their owner, format and schema, and what a person can do about trouble.

    Parameters
    ----------
    path
        The file; None keeps everything in memory.
    """

    owner: int
    format: int
    schema: str
    kind: str
    cure: str
    durable: Literal["NORMAL", "FULL"] = "FULL"

    def __init__(self, path: Path | None) -> None:
        self.place = ":memory:" if path is None else str(path)
        with self._explained("cannot be opened"):
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.place, timeout=_WAIT, isolation_level=None)
        try:
            with self._explained(f"is not {self.kind}"):
                self._prepare()
        except BaseException:
            self._db.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; everything stored is already safe."""
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of it or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _prepare(self) -> None:
        """Refuse what is not ours; make the tables of a new file."""
        (owner,) = self._db.execute("PRAGMA application_id").fetchone()
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if owner == self.owner and version != self.format:
            raise StoreError(
                f"{self.place} has store format {version}, this version reads format "
                f"{self.format}; {self.cure}"
            )
        if owner != self.owner and tables:
            raise StoreError(f"{self.place} is a database of something else; {self.cure}")
        self._db.execute(f"PRAGMA synchronous = {self.durable}")
        # A damaged text is read as it is: its digest says that it is damaged.
        self._db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        if owner == self.owner:
            return
        self._db.execute("PRAGMA journal_mode = WAL")
        with self._transaction():
            for statement in self.schema.split(";"):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA application_id = {self.owner}")
            self._db.execute(f"PRAGMA user_version = {self.format}")

    @contextmanager
    def _explained(self, problem: str) -> Iterator[None]:
        """Turn trouble with the file into one sentence that says what to do."""
        try:
            yield
        except (sqlite3.Error, OSError, OverflowError, UnicodeError) as error:
            told, cure = str(error), self.cure
            if getattr(error, "sqlite_errorcode", None) in _DAMAGED:
                told = f"the file is damaged: {error}"
                cure = f"move it away, the same command computes everything again, or {self.cure}"
            raise StoreError(f"{self.place} {problem} ({told}); {cure}") from error


@contextmanager
def locked(path: Path, *, shared: bool = False, wait: float = _WAIT) -> Iterator[None]:
    """Hold the lock that a file stands for; readers may share it.

    Where no such file can be, nobody writes, either, and there is nothing to hold.

    Parameters
    ----------
    path
        The file.
    shared
        Whether others may hold it, too, if they share it.
    wait
        Seconds to wait for others.

    Raises
    ------
    BusyError
        If somebody else holds it all that time.
    """
    lock = None
    try:
        where = f"{path.absolute().as_uri()}?mode={'rw' if shared else 'rwc'}"
        lock = sqlite3.connect(where, timeout=wait, isolation_level=None, uri=True)
        lock.execute("BEGIN" if shared else "BEGIN EXCLUSIVE")
        lock.execute("SELECT * FROM sqlite_master").fetchall()
    except (sqlite3.Error, ValueError) as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            if lock is not None:
                lock.close()
            raise BusyError from None
    try:
        yield
    finally:
        if lock is not None:
            lock.close()
