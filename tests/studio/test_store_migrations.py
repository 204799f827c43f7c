"""Migrations: with the data, under a lock, after a backup; a failed one changes nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from store_fixtures import new_stream
from tally_kind import added

from counterplay.studio import errors
from counterplay.studio.checks import all_ok, check_studio
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store, migrations
from counterplay.studio.store import tables as t
from counterplay.studio.store.database import make_engine, reading

NEXT = '''
"""A migration for tests."""
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.execute("ALTER TABLE study ADD COLUMN motto TEXT")
    op.execute({last!r})
'''


def test_the_first_revision_makes_the_tables_of_the_program(store: Store) -> None:
    with reading(store.engine) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": False})
        differences = compare_metadata(context, t.metadata)
    assert [d for d in differences if d[0] != "remove_index"] == []


class Next:
    """A second revision, whose last statement is the test's."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.patch = folder / "migrations", pytest.MonkeyPatch()

    def add(self, last: str) -> None:
        """Let the program know the revision."""
        home = Path(migrations.__file__).parent
        (self.folder / "versions").mkdir(parents=True)
        (self.folder / "env.py").write_text((home / "env.py").read_text())
        for file in (home / "versions").glob("*0001*"):
            (self.folder / "versions" / file.name).write_text(file.read_text())
        (self.folder / "versions" / "r0002.py").write_text(NEXT.format(last=last))
        self.patch.setattr(migrations, "__file__", str(self.folder / "__init__.py"))
        self.patch.setattr(migrations, "HEAD", "0002")
        self.patch.setattr(migrations, "KNOWN", ("0001", "0002"))

    def remove(self) -> None:
        """Let the program forget it."""
        self.patch.undo()


@pytest.fixture
def following(tmp_path: Path) -> Iterator[Next]:
    made = Next(tmp_path)
    yield made
    made.remove()


@pytest.mark.claim("28.18")
def test_an_older_database_is_brought_up_with_its_data(
    settings: Settings, tally: None, following: Next
) -> None:
    with Store.open(settings) as store:
        stream = new_stream(store)
        store.append_now(stream, added(5, "a"), expected=0)
    following.add("UPDATE study SET motto = 'new'")
    with Store.open(settings) as store:
        assert [n for _, n in store.fold_now(stream).state["numbers"]] == [5]
        store.append_now(stream, added(6, "b"), expected=None)
        with reading(store.engine) as connection:
            assert connection.execute(sa.text("SELECT motto FROM study")).scalar() == "new"
            assert migrations.revision(connection) == "0002"
    assert [p.name for p in (settings.data / "backups").iterdir()] == ["before-0002-from-0001.dump"]


@pytest.mark.claim("28.18")
def test_a_migration_that_fails_changes_nothing(
    settings: Settings, tally: None, following: Next
) -> None:
    with Store.open(settings) as store:
        stream = new_stream(store)
        store.append_now(stream, added(5, "a"), expected=0)
    following.add("UPDATE no_such_table SET x = 1")
    with pytest.raises(errors.CannotStart, match=r"as it was before.* The backup .*\.dump"):
        Store.open(settings)
    engine = make_engine(settings)
    with reading(engine) as connection:
        assert migrations.revision(connection) == "0001"
        columns = {c["name"] for c in sa.inspect(connection).get_columns("study")}
    engine.dispose()
    assert "motto" not in columns
    assert (settings.data / "backups" / "before-0002-from-0001.dump").stat().st_size > 1000
    following.remove()
    with Store.open(settings) as store:
        assert [n for _, n in store.fold_now(stream).state["numbers"]] == [5]
    assert all_ok(check_studio(settings))


STARTED = """
import sys, pathlib
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store, migrations
from counterplay.studio.store.database import make_engine
settings = Settings(data=pathlib.Path(sys.argv[1]), database=sys.argv[2] or None)
print("ready", flush=True)
for line in sys.stdin:
    migrations.HEAD, migrations.__file__ = line.split()
    migrations.KNOWN = ("0001", migrations.HEAD)
    engine = make_engine(settings)
    print(migrations.migrate(engine, settings), flush=True)
    engine.dispose()
"""


class Two:
    """Two processes that bring a database up at the same moment."""

    def __init__(self, settings: Settings) -> None:
        command = [sys.executable, "-c", STARTED, str(settings.data), settings.database or ""]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.processes: list[Any] = [subprocess.Popen(command, **pipes) for _ in range(2)]
        assert self.said() == ["ready", "ready"]

    def said(self) -> list[str]:
        """The next line of each."""
        return sorted(one.stdout.readline().strip() for one in self.processes)

    def migrate(self, head: str, module: str) -> list[str]:
        """Whether each of them did something."""
        for one in self.processes:
            one.stdin.write(f"{head} {module}\n")
            one.stdin.flush()
        return self.said()

    def end(self) -> None:
        """Close their input, and wait."""
        for one in self.processes:
            one.communicate(timeout=60)


@pytest.mark.claim("28.18")
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_two_processes_that_start_together_migrate_once(
    database: str,
    tmp_path: Path,
    tally: None,
    following: Next,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    settings = Settings(data=tmp_path / "studio")
    if database == "postgresql":
        cluster = request.getfixturevalue("cluster")
        monkeypatch.setattr(cluster, "template", "template0")  # without our tables
        settings = Settings(data=tmp_path / "studio", database=cluster.new_database())
    settings.data.mkdir()
    two = Two(settings)
    try:
        assert two.migrate("0001", str(migrations.__file__)) == ["False", "True"]
        with Store.open(settings) as store:
            stream = new_stream(store)
            store.append_now(stream, added(5, "a"), expected=0)
        following.add("UPDATE study SET motto = 'new'")
        assert two.migrate("0002", str(migrations.__file__)) == ["False", "True"]
    finally:
        two.end()
    with Store.open(settings) as store:
        assert [n for _, n in store.fold_now(stream).state["numbers"]] == [5]
        with reading(store.engine) as connection:
            assert connection.execute(sa.text("SELECT motto FROM study")).scalar() == "new"
    assert len(list((settings.data / "backups").iterdir())) == 1


@pytest.mark.claim("28.18")
def test_a_newer_database_is_refused(settings: Settings) -> None:
    Store.open(settings).close()
    engine = make_engine(settings)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(errors.CannotStart, match="newer than this program"):
        Store.open(settings)


def test_places_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.CannotStart, match="cannot be written"):
        Store.open(Settings(data=tmp_path / "file" / "studio"))
    away = "postgresql+psycopg://nobody@127.0.0.1:9/none"
    with pytest.raises(errors.CannotStart, match="the database cannot be used"):
        Store.open(Settings(data=tmp_path / "s", database=away))
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "studio.sqlite").write_bytes(b"not a database" * 1000)
    with pytest.raises(errors.CannotStart, match="not a database"):
        Store.open(Settings(data=tmp_path / "t"))
