"""Back a studio up while it runs, and restore only what is whole.

A backup is a tar file: the database (SQLite's online copy, or a dump of PostgreSQL at one moment),
the artifacts, and a manifest with the hash of every file and the head of every stream. Restoring
checks all of it, in a place of its own, before anything is replaced. A live SQLite file must never
be copied by hand: its newest pages are elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import sqlalchemy as sa
from msgspec import Meta

import counterplay
from counterplay.core.exports import Hash, Head
from counterplay.core.files import flush_folder
from counterplay.core.records import Name, Record, Word, read_record, write_record
from counterplay.studio.checks import check_database
from counterplay.studio.errors import CannotStart, Refused
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store
from counterplay.studio.store import tables as t
from counterplay.studio.store.database import make_engine, make_folder, take_server_lock

_MANIFEST = "manifest.json"
_LARGEST_MANIFEST = 2**28


class Manifest(Record, frozen=True):
    """What a backup holds."""

    kind: Literal["counterplay-backup"]
    version: Literal[1]
    made_at: Word
    library_version: Name
    database: Literal["sqlite", "postgresql"]
    files: Annotated[dict[Name, Hash], Meta(max_length=10_000_000)]
    heads: Annotated[tuple[Head, ...], Meta(max_length=10_000_000)]


def back_up(settings: Settings, target: Path, *, without_missing: bool = False) -> Manifest:
    """Write a backup of everything that was acknowledged before; the server may run.

    A file that the database names and the folder lacks is an error, unless the operator says that
    a backup ``without_missing`` files is better than none.
    """
    if settings.sqlite_file is not None and not settings.sqlite_file.exists():
        raise CannotStart(f"there is no studio in {settings.data}")
    make_folder(settings)
    partial = target.with_name(f".{target.name}.partial")
    try:
        return _back_up(settings, target, partial, without_missing)
    except OSError as error:
        raise CannotStart(f"the backup {target} cannot be written ({error.strerror})") from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _back_up(settings: Settings, target: Path, partial: Path, without_missing: bool) -> Manifest:
    with tempfile.TemporaryDirectory(dir=settings.data, prefix=".backup-") as folder:
        database = Path(folder) / _name(settings)
        heads, artifacts = _copy(settings, database)
        files = {database.name: _sha256(database)}
        lost = [path for path in artifacts if not (settings.data / path).is_file()]
        if lost and not without_missing:
            raise CannotStart(
                f"{len(lost)} files of audits are not in {settings.data} (such as {lost[0][:30]}): "
                "is it the folder of the server? --without-missing makes a backup without them"
            )
        for path in sorted(set(artifacts) - set(lost)):
            files[path] = _sha256(settings.data / path)
        manifest = Manifest(
            kind="counterplay-backup",
            version=1,
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            library_version=counterplay.__version__,
            database="postgresql" if settings.sqlite_file is None else "sqlite",
            files=files,
            heads=heads,
        )
        (Path(folder) / _MANIFEST).write_text(write_record(manifest), encoding="utf-8")
        with open(partial, "wb") as stream:
            os.chmod(partial, 0o600)
            with tarfile.open(fileobj=stream, mode="w") as tar:
                tar.add(Path(folder) / _MANIFEST, _MANIFEST)
                tar.add(database, database.name)
                for path in list(files)[1:]:
                    tar.add(settings.data / path, path)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, target)
        flush_folder(target.absolute().parent)
    return manifest


def restore(settings: Settings, source: Path) -> Manifest:
    """Replace the data by a backup, after everything in it was checked; no server may run."""
    if not source.is_file():
        raise Refused(f"{source} cannot be read as a backup: there is no such file")
    make_folder(settings)
    lock = take_server_lock(settings)
    try:
        with tempfile.TemporaryDirectory(dir=settings.data, prefix=".restore-") as folder:
            manifest = _unpack(source, Path(folder))
            if manifest.database != ("postgresql" if settings.sqlite_file is None else "sqlite"):
                raise Refused(
                    f"this is a backup of {manifest.database}; to change the database, export the "
                    "studies there and import them here"
                )
            if settings.sqlite_file is not None:
                _check_copy(f"sqlite:///{Path(folder) / _name(settings)}", manifest)
            for path in manifest.files:  # named by their content: they replace nothing
                if path.startswith("artifacts/"):
                    (settings.data / path).parent.mkdir(parents=True, exist_ok=True)
                    shutil.move(Path(folder) / path, settings.data / path)
            if settings.sqlite_file is None:
                _restore_postgresql(settings, Path(folder), manifest)
            else:
                _replace_file(settings, Path(folder) / _name(settings))
            with Store(settings, make_engine(settings), None) as store:
                store.mark_folder()
    finally:
        if lock is not None:
            lock.release()
    return manifest


def dump_database(settings: Settings, target: Path) -> None:
    """Write the database alone into a file: before a migration."""
    if settings.sqlite_file is None:
        _pg("pg_dump", settings, ["--format=custom", f"--file={target}"])
        return
    try:
        with (
            closing(sqlite3.connect(settings.sqlite_file)) as live,
            closing(sqlite3.connect(target)) as copy,
        ):
            live.backup(copy)
    except sqlite3.Error as error:
        raise CannotStart(f"{settings.sqlite_file} cannot be copied ({error})") from None
    _flush(target)


def _name(settings: Settings) -> str:
    return "database.dump" if settings.sqlite_file is None else "database.sqlite"


def _copy(settings: Settings, target: Path) -> tuple[tuple[Head, ...], list[str]]:
    """Copy the database at one moment; return the heads and files of that moment."""
    if settings.sqlite_file is not None:
        dump_database(settings, target)
        engine = sa.create_engine(f"sqlite:///{target}")
        with engine.connect() as connection:
            found = _moment(connection)
        engine.dispose()
        return found
    engine = make_engine(settings)
    try:
        with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
            snapshot = connection.execute(sa.select(sa.func.pg_export_snapshot())).scalar_one()
            found = _moment(connection)
            options = ["--format=custom", f"--snapshot={snapshot}", f"--file={target}"]
            _pg("pg_dump", settings, options)
    finally:
        engine.dispose()
    return found


def _moment(connection: sa.Connection) -> tuple[tuple[Head, ...], list[str]]:
    s = t.stream.c
    query = sa.select(s.id, s.seq, s.hash).where(s.seq > 0).order_by(s.id)
    heads = tuple(Head(stream=r.id, seq=r.seq, hash=r.hash) for r in connection.execute(query))
    paths = connection.execute(sa.select(t.artifact.c.path).distinct()).scalars()
    return heads, sorted(paths)


def _unpack(source: Path, folder: Path) -> Manifest:
    """Unpack what the manifest names, and nothing else; compare every hash."""
    try:
        with tarfile.open(source, "r:") as tar:
            first = tar.next()
            if first is None or first.name != _MANIFEST or first.size > _LARGEST_MANIFEST:
                raise Refused(f"{source} is not a backup of a studio")
            text = _member(tar, first).read()
            manifest = read_record(text, Manifest, what="the manifest", limit=_LARGEST_MANIFEST)
            for member in list(tar)[1:]:
                if member.name not in manifest.files or not member.isreg():
                    raise Refused(f"{source} holds a file that its manifest does not name")
                _extract(tar, member, folder)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise Refused(f"{source} cannot be read as a backup: {str(error)[:120]}") from None
    for name, digest in manifest.files.items():
        path = folder / name
        if not path.is_file() or _sha256(path) != digest:
            raise Refused(f"{name[:80]} of the backup is missing or changed; nothing was replaced")
    return manifest


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    stream = tar.extractfile(member)
    if stream is None:
        raise Refused("the backup has a part that is no file")
    return stream


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    plain = member.name in ("database.sqlite", "database.dump")
    parts = member.name.split("/")
    stored = parts[0] == "artifacts" and len(parts) == 3 and all(p.isalnum() for p in parts[1:])
    if not plain and not stored:
        raise Refused(f"the backup has a file with a strange name: {member.name[:80]!r}")
    path = folder / member.name
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as out:
        shutil.copyfileobj(_member(tar, member), out)
        out.flush()
        os.fsync(out.fileno())


def _check_copy(url: str, manifest: Manifest) -> None:
    """Check the restored database in its own place: its chains, and the heads of the manifest."""
    engine = sa.create_engine(url)
    try:
        with engine.connect() as connection:
            for finding in check_database(connection):
                if not finding.ok:
                    raise Refused(f"the backup is damaged ({finding}); nothing was replaced")
            if _moment(connection)[0] != manifest.heads:
                raise Refused("the streams do not end as the manifest says; nothing was replaced")
    except sa.exc.DBAPIError as error:
        raise Refused(f"the backup is damaged ({str(error.orig)[:100]})") from None
    finally:
        engine.dispose()


def _replace_file(settings: Settings, fresh: Path) -> None:
    """Put the checked file in place; the old one stays beside it under another name."""
    current = settings.sqlite_file
    assert current is not None
    if current.exists():
        kept = settings.data / "backups"
        kept.mkdir(exist_ok=True, mode=0o700)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        try:
            dump_database(settings, kept / f"replaced-{stamp}.sqlite")
        except CannotStart:  # it is damaged: perhaps why somebody restores
            shutil.copyfile(current, kept / f"replaced-{stamp}.sqlite")
        for ending in ("-wal", "-shm"):
            Path(f"{current}{ending}").unlink(missing_ok=True)
    os.replace(fresh, current)
    flush_folder(settings.data)


def _restore_postgresql(settings: Settings, folder: Path, manifest: Manifest) -> None:
    """Restore into a database of its own first; then, if all is well, into the real one."""
    dump = folder / "database.dump"
    with _scratch_database(settings) as url:
        _pg("pg_restore", settings, ["--no-owner", str(dump)], database=url)
        _check_copy(url, manifest)
    options = ["--clean", "--if-exists", "--single-transaction", "--no-owner", str(dump)]
    _pg("pg_restore", settings, options, database=settings.database_url)


@contextmanager
def _scratch_database(settings: Settings) -> Iterator[str]:
    url = sa.engine.make_url(settings.database_url)
    name = f"{url.database}_restore_{os.getpid()}"
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    quoted = engine.dialect.identifier_preparer.quote(name)
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {quoted}")
    except sa.exc.DBAPIError as error:
        engine.dispose()
        raise Refused(
            "restoring needs the right to create a database, in which the backup is checked "
            f"first ({str(error.orig)[:80]})"
        ) from None
    try:
        yield url.set(database=name).render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {quoted} WITH (FORCE)")
        engine.dispose()


def _pg(program: str, settings: Settings, options: list[str], database: str | None = None) -> None:
    """Run a program of PostgreSQL; the password goes by the environment, not by arguments."""
    url = sa.engine.make_url(database or settings.database_url)
    if shutil.which(program) is None:
        raise CannotStart(f"{program} is needed here; install the PostgreSQL client programs")
    flag = "--dbname"
    bare = url.set(drivername="postgresql", password=None).render_as_string(hide_password=False)
    environment: dict[str, Any] = dict(os.environ)
    if url.password:
        environment["PGPASSWORD"] = str(url.password)
    done = subprocess.run(
        [program, *options[:-1], f"{flag}={bare}", options[-1]],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Refused(f"{program} failed: {' '.join(done.stderr.split())[:200]}")


def _sha256(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _flush(path: Path) -> None:
    with open(path, "rb+") as stream:
        os.fsync(stream.fileno())


def manifest_summary(manifest: Manifest) -> dict[str, Any]:
    """Return what a backup holds, for people."""
    return {
        "made_at": manifest.made_at,
        "database": manifest.database,
        "streams": len(manifest.heads),
        "events": sum(head.seq for head in manifest.heads),
        "files": len(manifest.files),
    }
