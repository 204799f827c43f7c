"""What an operator gets wrong, or the machine does: one sentence, exit code 2, nothing stored."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from store_fixtures import new_stream
from tally_kind import added

from counterplay import cli
from counterplay.errors import InvalidInputError
from counterplay.studio import backup, errors
from counterplay.studio.checks import check_studio
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store
from studio.guards import guard_config
from studio.web_house import Web, catalogue, fields

URLS = (
    "", "mysql://a:secret@b/c", "postgres://studio:secret@h/x", "postgresql+psycopg2://u:secret@h/x",
    "postgresql+asyncpg://u:secret@h/x", "postgresql+psycopg://u:secret@h:port/x",
    "postgresqlx://u:secret@h", "sqlite:x", "sqlite:///:memory:", "sqlite://",
)  # fmt: skip


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that must fail with a sentence; return it."""
    assert cli.run(["studio", *words]) == 2, words
    said = capsys.readouterr().err
    assert said.startswith("counterplay: "), said
    assert "Traceback" not in said
    assert said.count("\n") <= 3
    return said


@pytest.mark.parametrize("url", URLS)
def test_addresses_of_databases_that_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    said = refused(capsys, "study", "list", "--data", str(tmp_path / "d"), "--database", url)
    assert "the database must be a URL such as postgresql+psycopg://user@host/name" in said
    assert "secret" not in said
    assert list(tmp_path.iterdir()) == []


def test_addresses_of_databases_that_can_be_used() -> None:
    for url in ("postgresql://u@h/x", "postgresql+psycopg://u@h:5432/x?sslmode=require",
                "postgresql+psycopg://u@/x?host=/var/run/postgresql", "postgresql://"):  # fmt: skip
        assert Settings(database=url).database_url.startswith("postgresql+psycopg://")
    assert Settings(database="sqlite:////tmp/x.sqlite").sqlite_file == Path("/tmp/x.sqlite")
    with pytest.raises(InvalidInputError, match="the database must be a URL"):
        Settings(database="oracle://x")


def test_one_server_per_file_wherever_its_folder_is(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.sqlite'}"
    with (
        Store.open(Settings(data=tmp_path / "a", database=url), server=True),
        pytest.raises(errors.CannotStart, match="another server"),
    ):
        Store.open(Settings(data=tmp_path / "b", database=url), server=True)


def test_a_lock_file_that_cannot_be_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "studio.lock").mkdir()
    assert "studio.lock cannot be opened" in refused(capsys, "--data", str(tmp_path), "--port", "0")


@pytest.mark.parametrize("where", ["taken", "no such host", "not ours"])
def test_places_where_no_server_can_listen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        words = {
            "taken": ["--port", port],
            "no such host": ["--port", "0", "--host", "no.such.host.invalid", "--insecure-http"],
            "not ours": ["--port", "0", "--host", "192.0.2.1", "--insecure-http"],
        }[where]
        data = ["--data", str(tmp_path / "d"), "--workers", "0"]
        assert "the studio cannot listen at" in refused(capsys, *data, *words)
    with Store.open(Settings(data=tmp_path / "d"), server=True):
        pass  # the lock is free again


def test_a_ready_file_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x")
    words = ["--data", str(tmp_path / "d"), "--port", "0", "--workers", "0", "--ready-file"]
    assert "cannot be written" in refused(capsys, *words, str(tmp_path / "file" / "ready.json"))


def test_backups_that_cannot_be_written_or_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["--data", str(tmp_path / "d")]
    Store.open(Settings(data=tmp_path / "d")).close()
    said = refused(capsys, "backup", str(tmp_path / "no" / "folder" / "b.tar"), *data)
    assert "cannot be written (No such file or directory)" in said
    assert "cannot be written" in refused(capsys, "backup", str(tmp_path / "d"), *data)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d"]  # nothing half-written
    for file in ("-", str(tmp_path / "b.tar")):
        said = refused(capsys, "backup", file, "--data", str(tmp_path / "typo"))
        assert "there is no studio in" in said
    assert "there is no such file" in refused(
        capsys, "restore", "none.tar", "--data", str(tmp_path / "typo")
    )
    assert not (tmp_path / "typo").exists()
    (tmp_path / "d" / "studio.sqlite").write_bytes(b"no database " * 1_000)
    assert "cannot be copied" in refused(capsys, "backup", str(tmp_path / "b.tar"), *data)


def test_a_damaged_database_can_be_restored(tally: None, tmp_path: Path) -> None:
    """That is what backups are for; the damaged file is kept as it is."""
    settings = Settings(data=tmp_path / "d")
    with Store.open(settings) as store:
        stream = new_stream(store)
        store.append_now(stream, added(7, "k"), expected=0)
        backup.back_up(settings, tmp_path / "b.tar")
    (tmp_path / "d" / "studio.sqlite").write_bytes(b"no database " * 1_000)
    backup.restore(settings, tmp_path / "b.tar")
    with Store.open(settings) as store:
        assert [n for _, n in store.fold_now(stream).state["numbers"]] == [7]
    kept = list((tmp_path / "d" / "backups").iterdir())
    assert [path.read_bytes() for path in kept] == [b"no database " * 1_000]


def test_files_are_restored_before_the_database_that_names_them(
    tally: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, fresh = Settings(data=tmp_path / "d"), Settings(data=tmp_path / "e")
    with Store.open(settings) as store:
        store.add_artifact("page.html", "text/html", b"<p>kept</p>")
        backup.back_up(settings, tmp_path / "b.tar")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup.shutil, "move", full)
    with pytest.raises(OSError, match="No space left"):
        backup.restore(fresh, tmp_path / "b.tar")
    assert not (tmp_path / "e" / "studio.sqlite").exists()


def test_the_folder_of_a_studio_on_postgresql_may_be_missing(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    cluster = request.getfixturevalue("cluster")
    settings = Settings(data=tmp_path / "not" / "there", database=cluster.new_database())
    assert {finding.name: finding.ok for finding in check_studio(settings)}["chains"]


def test_links_are_for_people_expire_and_can_be_revoked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from counterplay.studio.kinds import kind_of

    settings, data = Settings(data=tmp_path / "d"), ["--data", str(tmp_path / "d")]
    config = kind_of("elicitation").read_config({**fields(), "table_bytes": catalogue()}, tmp_path)
    with Store.open(settings) as store:
        study = store.new_study("elicitation", "Things", config, actor="a", open_now=True)
        guard = store.new_study("guard", "Loans", guard_config(), actor="a", open_now=True)
    assert "links are for people" in refused(capsys, "links", guard.public_id, *data)
    for days in ("0", "-1", "nan", "40000"):
        refused(capsys, "links", study.public_id, "--days", days, *data)
    with Store.open(settings) as store:
        assert store.links(guard) == store.links(study) == []

    def run(*words: str) -> Any:
        assert cli.run(["studio", "links", *words, *data, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    out = tmp_path / "links.csv"
    assert cli.run(["studio", "links", study.public_id, "-o", str(out), *data]) == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    short = run(study.public_id, "--days", "0.00001")[0]["token"]  # a second
    long = run(study.public_id, "--days", "2")[0]["token"]
    anyone = run(study.public_id, "--open-for", "9", "--days", "2")[0]["token"]
    time.sleep(2.1)
    with Store.open(settings) as store:
        assert store.find_link(short) is None
        assert store.find_link(long) is not None
        assert store.find_link(anyone) is not None
    assert len(run("revoke", study.public_id)) == 1
    with Store.open(settings) as store:
        assert store.find_link(anyone) is None
        assert store.find_link(long) is not None


def serving(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "counterplay", "studio", *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def test_a_server_ends_at_once_while_pages_are_open(tmp_path: Path) -> None:
    """Its ready file is the owner's alone, and one of an earlier run is gone before it answers."""
    ready, data = tmp_path / "ready.json", str(tmp_path / "d")
    ready.write_text('{"url": "http://127.0.0.1:9"}')
    process = serving("--data", data, "--port", "0", "--workers", "0", "--ready-file", str(ready))
    try:
        until, told = time.monotonic() + 60, {"pid": None}
        while told.get("pid") != process.pid:
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.05)
            told = json.loads(ready.read_text()) if ready.exists() else told
        assert stat.S_IMODE(ready.stat().st_mode) == 0o600
        with Store.open(Settings(data=Path(data))) as store:
            study = store.new_study("guard", "Loans", guard_config(), actor="a", open_now=True)
            secret = store.new_session(admin=store.admins()[0])
            assert store.setting("base_url") == told["url"]  # for links of the command line
        live = f"{told['url']}/admin/studies/{study.public_id}/live"
        cookies = {"cp_admin": secret}
        with httpx.stream("GET", live, cookies=cookies, timeout=30) as answer:
            assert answer.status_code == 200
            lines = answer.iter_lines()
            assert next(lines) == "retry: 3000"
            process.send_signal(signal.SIGTERM)
            for _ in lines:  # it is ended, not cut off in the middle after 5 s
                pass
            assert process.wait(30) == 0
        assert "Traceback" not in (process.stderr.read() if process.stderr else "")
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(os.name != "posix", reason="addresses of version 6 are tried on Linux")
def test_links_at_an_address_of_version_6(web: Web) -> None:
    from starlette.requests import Request

    from counterplay.studio.web.studies import base_of

    house = web.app.state.house
    for server, url in (
        (("::1", 8700), "http://[::1]:8700"),
        (("10.0.0.1", 80), "http://10.0.0.1:80"),
    ):
        request = Request({"type": "http", "server": server, "headers": []})
        assert base_of(request, house) == url
