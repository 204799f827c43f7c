"""Bring a database to the present schema: under a lock, after a backup, or not at all.

Revisions are scripts for Alembic in ``versions``; the first one holds the tables as SQL text for
both databases, frozen, so that later changes of ``tables.py`` cannot change history.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from counterplay.studio.errors import CannotStart
from counterplay.studio.settings import Settings
from counterplay.studio.store.database import FileLock, told, writing

HEAD = "0001"
"""The newest revision that this program knows."""
KNOWN = ("0001",)
_ADVISORY = 0x636F756E74657270  # "counterp"


def revision(connection: sa.Connection) -> str | None:
    """Return the revision of a database, None for an empty one."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def migrate(engine: sa.Engine, settings: Settings) -> bool:
    """Upgrade the schema if it is older than the program; True if something was done.

    Raises
    ------
    CannotStart
        The database is newer than the program, or the migration failed (it is undone, and the
        backup is named).
    """
    if _current(engine):
        return False
    with _alone(engine, settings):
        if _current(engine):  # another process did it while we waited
            return False
        with told(), engine.connect() as connection:
            before = revision(connection)
        saved = None if before is None else _backup(settings, before)
        try:
            with writing(engine) as connection:
                _upgrade(connection)
        except Exception as error:
            kept = f" The backup before it is {saved}." if saved else ""
            raise CannotStart(
                f"the database could not be brought from revision {before} to {HEAD} "
                f"({type(error).__name__}: {str(error)[:120]}); it is as it was before.{kept}"
            ) from error
    return True


def _current(engine: sa.Engine) -> bool:
    with told(), engine.connect() as connection:
        found = revision(connection)
    if found is not None and found not in KNOWN:
        raise CannotStart(
            f"the database has revision {found}, which is newer than this program ({HEAD}); "
            "install the newer counterplay, or restore a backup made with this one"
        )
    return found == HEAD


@contextmanager
def _alone(engine: sa.Engine, settings: Settings) -> Iterator[None]:
    """Hold the migration lock: a file for SQLite, an advisory lock for PostgreSQL."""
    if settings.sqlite_file is not None:
        lock = FileLock(settings.data / "migrate.lock")
        lock.take(wait=True)
        try:
            yield
        finally:
            lock.release()
        return
    with told(), engine.connect() as connection:
        connection.execute(sa.select(sa.func.pg_advisory_lock(_ADVISORY)))
        try:
            yield
        finally:
            connection.execute(sa.select(sa.func.pg_advisory_unlock(_ADVISORY)))


def _backup(settings: Settings, before: str) -> Path:
    from counterplay.studio.backup import dump_database

    folder = settings.data / "backups"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = folder / f"before-{HEAD}-from-{before}.dump"
    dump_database(settings, target)
    return target


def _upgrade(connection: sa.Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)
