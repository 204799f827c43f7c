"""SQLite files with an owner, and locks."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from counterplay.core.database import BusyError, OwnedFile, locked
from counterplay.errors import StoreError


class Notes(OwnedFile):
    """A file of notes."""

    owner, format, kind, cure = 77, 3, "a file of notes", "take another one"
    schema = "CREATE TABLE note (text TEXT)"


class Later(Notes):
    """The same in another version."""

    format = 4


def test_a_file_of_somebody_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "notes.sqlite"
    with Notes(path) as notes, notes._transaction():
        notes._db.execute("INSERT INTO note VALUES ('x')")
    with pytest.raises(StoreError, match="has store format 3, this version reads format 4; take"):
        Later(path)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE theirs (a)")
    before = other.read_bytes()
    with pytest.raises(StoreError, match="is a database of something else; take another one"):
        Notes(other)
    assert other.read_bytes() == before
    (tmp_path / "text").write_text("no database at all, but long enough to be looked at" * 9)
    with pytest.raises(StoreError, match="is not a file of notes"):
        Notes(tmp_path / "text")


def test_a_transaction_is_all_or_nothing() -> None:
    def half(notes: Notes) -> None:
        with notes._transaction():
            notes._db.execute("INSERT INTO note VALUES ('x')")
            raise KeyError

    with Notes(None) as notes:
        with pytest.raises(KeyError):
            half(notes)
        assert notes._db.execute("SELECT count(*) FROM note").fetchone() == (0,)


def test_a_lock_has_one_writer_or_many_readers(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with locked(path), pytest.raises(BusyError), locked(path, wait=0.0):
        pass
    with locked(path, shared=True), locked(path, shared=True, wait=0.0):
        pass
    with locked(tmp_path / "none" / ".lock"):  # nobody can write there
        assert not (tmp_path / "none").exists()
