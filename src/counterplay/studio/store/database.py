"""The connection to SQLite or PostgreSQL: durable commits, locks, and errors in one language.

SQLite: WAL with ``synchronous=FULL`` (a commit that returned survives a power cut), deleted content
overwritten, and every write starts with ``BEGIN IMMEDIATE``, so that it never fails half-way for
want of the lock. PostgreSQL: ``synchronous_commit=on``.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import sqlalchemy as sa

from counterplay.studio.errors import CannotStart, Missing, Unavailable
from counterplay.studio.settings import Settings

_BUSY_MS = 20_000


def make_engine(settings: Settings) -> sa.Engine:
    """Return an engine that is set up for durable writes."""
    if settings.sqlite_file is None:
        return sa.create_engine(
            settings.database_url,
            pool_size=20,
            max_overflow=20,
            pool_pre_ping=True,
            hide_parameters=True,  # what people said belongs into no log
            connect_args={"options": "-c synchronous_commit=on", "connect_timeout": 10},
        )
    engine = sa.create_engine(
        f"sqlite:///{settings.sqlite_file.absolute()}", pool_size=20, max_overflow=20,
        hide_parameters=True,
    )  # fmt: skip

    @sa.event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # the driver's own transactions begin too late
        for pragma in (
            f"busy_timeout={_BUSY_MS}",
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            "secure_delete=ON",
        ):
            connection.execute(f"PRAGMA {pragma}").close()

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Run a write transaction; it is committed at the end."""
    with told(), engine.connect().execution_options(writes=True) as connection, connection.begin():
        yield connection


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Read; in PostgreSQL without a transaction, which would only cost two more messages."""
    level = "AUTOCOMMIT" if engine.dialect.name == "postgresql" else None
    chosen = {} if level is None else {"isolation_level": level}
    with told(), engine.connect().execution_options(**chosen) as connection, connection.begin():
        yield connection


@contextmanager
def told() -> Iterator[None]:
    """Turn what a database says about itself into a sentence; mistakes of ours pass."""
    try:
        yield
    except (sa.exc.OperationalError, sa.exc.InternalError, sa.exc.TimeoutError) as error:
        raise unavailable(error) from error
    except (sa.exc.DataError, UnicodeEncodeError):  # a name that no database can even look for
        raise Missing("There is nothing with such a name.") from None
    except sa.exc.DatabaseError as error:
        if type(error) is sa.exc.DatabaseError:  # the file is damaged, or no database
            raise unavailable(error) from error
        raise


def unavailable(error: BaseException) -> Unavailable:
    """Return the sentence for a database that cannot be used now."""
    reason = " ".join(str(getattr(error, "orig", error)).split())[:120]
    return Unavailable(
        "The database cannot be used now. Everything that was acknowledged is safe; try again in "
        "a moment.",
        reason,
    )


def empty_log(connection: sa.Connection, seconds: float) -> bool:
    """Empty SQLite's write-ahead log; False if others read or write all the while."""
    raw: Any = connection.connection.dbapi_connection
    raw.execute(f"PRAGMA busy_timeout={round(1000 * seconds)}").close()
    try:
        busy, _, _ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        raw.execute(f"PRAGMA busy_timeout={_BUSY_MS}").close()
    return not busy


def now() -> str:
    """Return the time as it is stored: UTC, whole seconds, sorts as text."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def later(seconds: float) -> str:
    """Return a time from now as it is stored."""
    moment = datetime.fromtimestamp(time.time() + seconds, UTC)
    return moment.isoformat(timespec="seconds")


def digest(secret: str) -> bytes:
    """Return what is stored of a secret of 256 bits: no slow hash is needed."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


class FileLock:
    """A lock of the operating system on a file; it ends with the process, however it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def take(self, *, wait: bool) -> bool:
        """Lock the file and write our process id into it; False if another process has it."""
        try:
            file = open(self.path, "a+", encoding="ascii")  # noqa: SIM115
        except OSError as error:  # of another user, perhaps
            raise CannotStart(f"{self.path} cannot be opened ({error.strerror})") from None
        try:
            _lock(file, wait)
        except OSError:
            file.close()
            return False
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        self._file = file
        return True

    def holder(self) -> str:
        """Return the process id in the file."""
        try:
            return self.path.read_text(encoding="ascii")[:20].strip() or "unknown"
        except OSError:
            return "unknown"

    def release(self) -> None:
        """Unlock; the file stays."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _lock(file: IO[str], wait: bool) -> None:
    try:
        import fcntl
    except ImportError:  # pragma: no cover
        import msvcrt  # Windows

        mode = "LK_LOCK" if wait else "LK_NBLCK"
        msvcrt.locking(file.fileno(), getattr(msvcrt, mode), 1)  # type: ignore[attr-defined]
        return
    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


@contextmanager
def only_server(settings: Settings) -> Iterator[None]:
    """Hold the lock that lets one server use a SQLite file."""
    lock = take_server_lock(settings)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def take_server_lock(settings: Settings) -> FileLock | None:
    """Lock the data folder for a server; PostgreSQL needs none."""
    if settings.sqlite_file is None:
        return None
    lock = FileLock(settings.sqlite_file.with_name("studio.lock"))
    if not lock.take(wait=False):
        raise CannotStart(
            f"another server (process {lock.holder()}) uses {settings.data}; stop it first, or "
            "use PostgreSQL (--database) for several servers"
        )
    return lock


def make_folder(settings: Settings) -> None:
    """Make the data folder, readable by its owner only."""
    try:
        settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = settings.data / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise CannotStart(
            f"the folder {settings.data} cannot be written ({error.strerror}); choose another "
            "one with --data, or free space"
        ) from None
