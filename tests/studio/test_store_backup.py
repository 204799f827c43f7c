"""Backups under load are whole; damaged ones replace nothing; full disks and odd clocks."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from store_fixtures import new_stream
from tally_kind import added
from web_house import Web

from counterplay.studio import errors
from counterplay.studio.backup import back_up, restore
from counterplay.studio.checks import all_ok, check_studio
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store, append


@pytest.mark.claim("28.19")
def test_a_backup_under_load_is_whole(
    settings: Settings, tally: None, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    archive, acknowledged, stop = tmp_path / "backup.tar", [], threading.Event()
    with Store.open(settings, server=True) as store:
        stream = new_stream(store)
        kept = store.add_artifact("page.html", "text/html", b"<p>kept</p>")

        def load() -> None:
            number = 0
            while not stop.is_set():
                store.append_now(stream, added(number, f"k{number}"), expected=None)
                acknowledged.append(number)
                number += 1

        thread = threading.Thread(target=load)
        thread.start()
        while len(acknowledged) < 20:
            time.sleep(0.01)
        before = len(acknowledged)
        manifest = back_up(settings, archive)
        stop.set()
        thread.join()
    elsewhere = Settings(data=tmp_path / "elsewhere")
    if settings.sqlite_file is None:
        cluster = request.getfixturevalue("cluster")
        elsewhere = Settings(data=tmp_path / "elsewhere", database=cluster.new_database())
    assert restore(elsewhere, archive) == manifest
    assert all_ok(check_studio(elsewhere))
    with Store.open(elsewhere) as store:
        numbers = [n for _, n in store.fold_now(stream).state["numbers"]]
        assert numbers[:before] == list(range(before))
        heads = {head.stream: head for head in manifest.heads}
        assert store.fold_now(stream).hash == heads[stream].hash
        assert store.read_artifact(kept) == b"<p>kept</p>"


def changed(archive: Path, target: Path, change: Any) -> Path:
    """Write the archive with each of its files changed by a function."""
    with tarfile.open(archive) as old, tarfile.open(target, "w") as new:
        for member in old:
            stream = old.extractfile(member)
            assert stream is not None
            name, content = change(member.name, stream.read())
            info = tarfile.TarInfo(name)
            info.size = len(content)
            new.addfile(info, io.BytesIO(content))
    return target


@pytest.mark.claim("28.19")
def test_a_damaged_backup_replaces_nothing(tally: None, tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "studio")
    with Store.open(settings) as store:
        stream = new_stream(store)
        store.append_now(stream, added(1, "a"), expected=0)
        archive = tmp_path / "backup.tar"
        back_up(settings, archive)
        store.append_now(stream, added(2, "b"), expected=None)

    def flipped(name: str, content: bytes) -> tuple[str, bytes]:
        half = len(content) // 2
        return name, content if name == "manifest.json" else (
            content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]
        )

    def heads(name: str, content: bytes) -> tuple[str, bytes]:
        return name, content.replace(b'"seq":2', b'"seq":1') if "json" in name else content

    def outside(name: str, content: bytes) -> tuple[str, bytes]:
        return ("../../evil", content) if name == "database.sqlite" else (name, content)

    for change in (flipped, heads, outside):
        bad = changed(archive, tmp_path / f"{change.__name__}.tar", change)
        with pytest.raises(errors.Refused):
            restore(settings, bad)
    (tmp_path / "text.tar").write_text("no archive")
    with pytest.raises(errors.Refused, match="cannot be read as a backup"):
        restore(settings, tmp_path / "text.tar")
    assert not (tmp_path.parent / "evil").exists()
    with Store.open(settings, server=True) as store:
        assert [n for _, n in store.fold_now(stream).state["numbers"]] == [1, 2]
        with pytest.raises(errors.CannotStart, match="another server"):
            restore(settings, archive)
    restore(settings, archive)
    with Store.open(settings) as store:
        assert [n for _, n in store.fold_now(stream).state["numbers"]] == [1]
    assert len(list((settings.data / "backups").glob("replaced-*"))) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MB; needs the right to mount."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    ) if os.geteuid() == 0 else None  # fmt: skip
    if done is None or done.returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)


@pytest.mark.claim("28.24")
def test_a_full_disk_refuses_whole_answers(small_disk: Path, tally: None) -> None:
    settings = Settings(data=small_disk / "studio")
    with Store.open(settings, server=True) as store:
        study = store.new_study("elicitation", "Numbers", {}, actor="test", open_now=True)
        party = store.new_party(study, role="participant", label="a")
        stream, number = party.public_id, 0
        said = None
        while said is None:
            body = {"n": number, "text": "x" * 20_000}
            event = append.NewEvent("tally.added", body, f"k{number}", "me")
            try:
                store.append_now(stream, event, expected=None)
                number += 1
            except errors.Unavailable as error:
                said = str(error)
        assert "acknowledged is safe" in said
        assert number > 3
        assert len(store.fold_now(stream).state["numbers"]) == number
        subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
        done = [store.append_now(stream, event, expected=None) for _ in range(2)]
        assert [one.repeated for one in done] == [False, True]
        assert len(store.fold_now(stream).state["numbers"]) == number + 1
    assert all(f.ok for f in check_studio(settings) if f.name in ("integrity", "chains"))


@pytest.mark.claim("28.24")
def test_a_browser_is_told_that_the_disk_is_full_and_goes_on(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=12m", str(small_disk)], check=True)
    house = Web(small_disk)
    try:
        person = house.person()
        filler = small_disk / "filler"
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as out:
            while True:
                out.write(b"x" * 4096)
        for _ in range(400):  # the log still has space for some
            form = {**person.hidden, "answer": "first"}
            said = person.client.post(f"{person.home}/{WORDS[person.name]}", data=form)
            if said.status_code == 503:
                break
            person.page = said
        assert said.status_code == 503
        assert "could not be stored" in said.text
        before = len(house.store.events(person.party.public_id))
        filler.unlink()
        path = f"{person.home}/{WORDS[person.name]}"
        assert person.client.post(path, data=form).status_code == 200
        assert len(house.store.events(person.party.public_id)) > before
    finally:
        house.close()


WORDS = {"question": "answer", "result": "undo"}


def test_a_write_that_breaks_half_way_leaves_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a full disk, where no small disk can be mounted."""
    stream = new_stream(store)
    store.append_now(stream, added(1, "a"), expected=0)
    whole = append.Prepared.write

    def half(self: append.Prepared, connection: Any) -> None:
        whole(self, connection)
        raise errors.Unavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(append.Prepared, "write", half)
        with pytest.raises(errors.Unavailable):
            store.append_now(stream, added(2, "b"), expected=2)
    assert [event.seq for event in store.events(stream)] == [1, 2]
    assert not store.append_now(stream, added(2, "b"), expected=2).repeated


@pytest.mark.claim("28.24")
def test_a_clock_set_back_keeps_the_order(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = new_stream(store)
    store.append_now(stream, added(1, "a"), expected=0)
    monkeypatch.setattr(append, "now", lambda: "2020-01-01T00:00:00+00:00")
    store.append_now(stream, added(2, "b"), expected=2)
    events = store.events(stream)
    assert events[0].at > events[2].at
    assert [n for _, n in store.fold_now(stream).state["numbers"]] == [1, 2]
    assert [event.seq for event in events] == [1, 2, 3, 4]


def test_check_finds_what_was_changed_behind_our_back(tmp_path: Path, tally: None) -> None:
    import sqlite3

    settings = Settings(data=tmp_path / "studio")
    with Store.open(settings) as store:
        stream = new_stream(store)
        store.append_now(stream, added(1, "a"), expected=0)
        artifact = store.add_artifact("a", "text/plain", b"a")
    (settings.data / artifact.path).write_bytes(b"b")
    with sqlite3.connect(settings.data / "studio.sqlite") as raw:
        raw.execute("DROP TRIGGER event_unchanged")
        raw.execute("UPDATE event SET body = '{\"n\":2}' WHERE key = 'a'")
    found = {finding.name: finding for finding in check_studio(settings)}
    assert not found["chains"].ok
    assert "the content of event 1 was changed" in found["chains"].detail
    assert not found["artifacts"].ok
    assert found["integrity"].ok
