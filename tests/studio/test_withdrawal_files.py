"""After a withdrawal and a scrub, what was said is in no file of a real PostgreSQL cluster."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from counterplay.commands.studio import app
from counterplay.studio import scrubbing
from counterplay.studio.kinds import NewEvent
from counterplay.studio.scrubbing import scrub
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store, erasing

if TYPE_CHECKING:
    from postgres import Cluster


def holding(folder: Path, marker: str) -> list[str]:
    """The files below a folder in which a text stands."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and marker.encode() in path.read_bytes():
            found.append(str(path.relative_to(folder)))
    return found


def said_and_withdrawn(settings: Settings, marker: str) -> None:
    """Somebody says something short and something long, and leaves."""
    with Store.open(settings) as store:
        study = store.new_study("elicitation", "Numbers", {}, actor="test", open_now=True)
        party = store.new_party(study, role="participant", label=marker)
        long = [secrets.token_hex(32) + marker for _ in range(200)]  # stored out of line
        for number, note in enumerate([marker, *long[:1], long]):
            event = NewEvent("tally.added", {"n": 1, "note": note}, f"k{number}", party.public_id)
            store.append_now(party.public_id, event, expected=None)
        store.withdraw_party(party)


@pytest.mark.claim("28.21")
@pytest.mark.skipif(os.geteuid() != 0, reason="reads the files of the cluster")
def test_nothing_is_left_in_the_files_of_postgresql(
    cluster: Cluster, tally: None, tmp_path: Path
) -> None:
    settings = Settings(data=tmp_path / "studio", database=cluster.new_database())
    marker = f"said{secrets.token_hex(8)}"
    said_and_withdrawn(settings, marker)
    engine = sa.create_engine(settings.database_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("CHECKPOINT")
    files = cluster.folder / "data"
    assert any(name.startswith("pg_wal") for name in holding(files, marker))  # it is looked for
    done = scrub(settings)
    assert done[1].startswith("write-ahead log overwritten")
    assert holding(files, marker) == []
    assert holding(settings.data, marker) == []
    engine.dispose()


def test_without_the_right_to_it_the_log_is_named(
    cluster: Cluster, tally: None, tmp_path: Path
) -> None:
    url = cluster.new_database()
    Store.open(Settings(data=tmp_path / "first", database=url)).close()
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    role = f"plain_{secrets.token_hex(4)}"
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN")
        tables = sa.inspect(connection).get_table_names()
        for table in tables:
            connection.exec_driver_sql(f'ALTER TABLE "{table}" OWNER TO {role}')
        connection.exec_driver_sql(f"GRANT ALL ON SCHEMA public TO {role}")
    engine.dispose()
    settings = Settings(data=tmp_path / "second", database=url.replace("postgres@", f"{role}@"))
    done = scrub(settings)
    assert done[0] == "tables rewritten"
    assert "was not overwritten" in done[1]
    assert "superuser" in done[1]


def test_the_command_overwrites_a_file(tmp_path: Path, tally: None) -> None:
    marker = f"said{secrets.token_hex(8)}"
    settings = Settings(data=tmp_path / "studio")
    said_and_withdrawn(settings, marker)
    done = CliRunner().invoke(app, ["scrub", "--data", str(settings.data), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)[0] == "tables rewritten"
    assert holding(settings.data, marker) == []


def test_a_log_that_somebody_reads_is_said_to_hold_what_was_erased(
    tally: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings, marker = Settings(data=tmp_path / "studio"), f"said{secrets.token_hex(8)}"
    monkeypatch.setattr(erasing, "PATIENCE", 0.05)
    monkeypatch.setattr(scrubbing, "PATIENCE", 0.05)
    with Store.open(settings) as store:
        store.new_admin("reader", password=None, role="owner")
        with closing(sqlite3.connect(settings.data / "studio.sqlite")) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM admin").fetchone()
            said_and_withdrawn(settings, marker)
            assert "counterplay studio scrub" in caplog.text
            assert holding(settings.data, marker) == ["studio.sqlite-wal"]
            assert "run this again" in scrub(settings)[1]
        assert scrub(settings)[1].startswith("write-ahead log overwritten")
        assert holding(settings.data, marker) == []
        caplog.clear()
        said_and_withdrawn(settings, marker)  # nobody reads: nothing to say
        assert caplog.text == ""
        assert holding(settings.data, marker) == []
