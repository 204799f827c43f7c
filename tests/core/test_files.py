"""Atomic writing leaves either the old or the new content."""

import os
import stat
from pathlib import Path

import pytest

from counterplay.core.files import read_limited, write_atomic
from counterplay.errors import InvalidInputError, InvalidStateError


def test_writes_text_and_bytes_into_new_folders(tmp_path: Path) -> None:
    path = write_atomic(tmp_path / "a" / "b.txt", "grün")
    assert path.read_bytes() == "grün".encode()
    write_atomic(path, b"\x00\x01")
    assert path.read_bytes() == b"\x00\x01"
    assert [p.name for p in path.parent.iterdir()] == ["b.txt"]


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        path = write_atomic(tmp_path / "x", "y")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_failure_keeps_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_atomic(tmp_path / "x", "old")

    def broken(source: str, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("counterplay.core.files.os.replace", broken)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write_atomic(tmp_path / "folder", "x")
    assert (caught.value.filename, caught.value.filename2) == (str(tmp_path / "folder"), None)
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_file_and_folder_are_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = []
    real = os.fsync

    def fsync(handle: int) -> None:
        flushed.append(stat.S_ISDIR(os.fstat(handle).st_mode))
        real(handle)

    monkeypatch.setattr("counterplay.core.files.os.fsync", fsync)
    write_atomic(tmp_path / "x", "y")
    assert flushed == [False, True]


def test_large_files_are_not_read(tmp_path: Path) -> None:
    path = write_atomic(tmp_path / "x", "0123456789")
    assert read_limited(path, what="the session", limit=10) == b"0123456789"
    with pytest.raises(InvalidStateError, match="larger than 9 bytes"):
        read_limited(path, what="the session", limit=9)
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_limited(tmp_path / "none", what="the session", limit=9)
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_limited(tmp_path, what="the session", limit=9)
