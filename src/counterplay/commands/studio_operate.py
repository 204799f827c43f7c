"""What an operator of the studio needs: admins, workers, backups, checks, migrations, jobs."""

from __future__ import annotations

import getpass
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from counterplay.commands.options import Json, print_json
from counterplay.commands.studio_options import (
    HERE,
    OPERATOR,
    Data,
    Database,
    existing,
    opened,
    settings_of,
)
from counterplay.commands.words import Words
from counterplay.errors import InvalidInputError, UnknownNameError

admin = typer.Typer(
    cls=Words,
    add_completion=False,
    no_args_is_help=True,
    help="Manage the people who run the studio.",
    epilog="Example: counterplay studio admin list",
)
File = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]
_PASSWORD = "COUNTERPLAY_PASSWORD"


@admin.command("create", epilog="Example: counterplay studio admin create anna --role owner")
def create(
    name: Annotated[str, typer.Argument(help="The name of the admin; the log uses it, too.")],
    role: Annotated[str, typer.Option(help="owner, coordinator or viewer.")] = "owner",
    study: Annotated[
        str | None, typer.Option(help="The study that a coordinator looks after.")
    ] = None,
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Add an admin. Asks for a password, unless COUNTERPLAY_PASSWORD holds it."""
    with opened(data, database, new=True) as store:
        from counterplay.studio.passwords import hash_password

        row = store.new_admin(
            name,
            password=hash_password(_password()),
            role=role,
            study=None if study is None else store.study(study),
        )
        store.audit(OPERATOR, "admin.create", row.name, {"role": role})
    if as_json:
        print_json({"name": row.name, "role": row.role})
    else:
        typer.echo(f"{row.name} ({row.role}) can log in.")


@admin.command("reset", epilog="Example: counterplay studio admin reset anna")
def reset(
    name: Annotated[str, typer.Argument(help="The admin whose password is set.")],
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Set a new password; the admin is logged out everywhere."""
    with opened(data, database) as store:
        from counterplay.studio.passwords import hash_password

        row = store.admin(name)
        if row is None:
            raise UnknownNameError.among("admin", name, [one.name for one in store.admins()])
        store.change_admin(row, password=hash_password(_password()), disabled_at=None)
        store.audit(OPERATOR, "admin.reset", row.name)
    if as_json:
        print_json({"name": name})
    else:
        typer.echo(f"{name} has a new password.")


@admin.command("list", epilog="Example: counterplay studio admin list")
def show_admins(data: Data = HERE, database: Database = None, as_json: Json = False) -> None:
    """List the admins."""
    with opened(data, database) as store:
        rows = [
            {"name": row.name, "role": row.role, "password": row.password is not None,
             "disabled_at": row.disabled_at}
            for row in store.admins()
        ]  # fmt: skip
    if as_json:
        print_json(rows)
        return
    for row in rows:
        typer.echo(f"{row['name']:<20} {row['role']}")


def worker(
    data: Data = HERE,
    database: Database = None,
    ray: Annotated[
        str | None,
        typer.Option(help="Ray cluster that computes the batches of audits: HOST:6379 or auto."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop once no job is left.")] = False,
    as_json: Json = False,
) -> None:
    """Run the jobs of the studio, on this machine or on others that share its database.

    Example: counterplay studio worker --database postgresql+psycopg://studio@db/studio
    """
    settings = settings_of(data, database, ray=ray)
    from counterplay.core import clusters
    from counterplay.studio.worker import run_worker

    if ray is not None:  # now, not when the first job comes
        clusters.needed()
        clusters.check_reachable(ray)

    ended = run_worker(settings, once=once)
    if as_json:
        print_json({"ended": ended})


def backup(file: File, data: Data = HERE, database: Database = None, as_json: Json = False) -> None:
    """Write a backup of everything, also while the server runs; "-" is standard output.

    Example: counterplay studio backup nightly.tar --data /var/lib/counterplay
    """
    settings = settings_of(data, database)
    from counterplay.studio.backup import back_up, manifest_summary

    if str(file) == "-":  # for a pipe, such as one that encrypts
        with tempfile.TemporaryDirectory(dir=data if data.is_dir() else None) as folder:
            back_up(settings, Path(folder) / "backup.tar")
            with open(Path(folder) / "backup.tar", "rb") as stream:
                shutil.copyfileobj(stream, sys.stdout.buffer)
        return
    told = manifest_summary(back_up(settings, file))
    if as_json:
        print_json(told)
    else:
        typer.echo(f"{told['events']} events in {told['streams']} streams written to {file}")


def restore(
    file: File, data: Data = HERE, database: Database = None, as_json: Json = False
) -> None:
    """Replace the data with that of a backup, once everything in it has been checked.

    Example: counterplay studio restore nightly.tar --data /var/lib/counterplay
    """
    settings = settings_of(data, database)
    from counterplay.studio.backup import manifest_summary
    from counterplay.studio.backup import restore as put_back

    told = manifest_summary(put_back(settings, file))
    if as_json:
        print_json(told)
    else:
        typer.echo(f"{told['events']} events in {told['streams']} streams restored from {file}")


def check(data: Data = HERE, database: Database = None, as_json: Json = False) -> None:
    """Check schema, integrity, chains, files, jobs, disk and clock. Exit code 3: a check failed.

    Example: counterplay studio check --data /var/lib/counterplay
    """
    settings = existing(data, database)
    from counterplay.studio.checks import all_ok, check_studio

    found = check_studio(settings)
    if as_json:
        print_json([{"name": f.name, "ok": f.ok, "detail": f.detail} for f in found])
    else:
        for finding in found:
            typer.echo(str(finding))
    if not all_ok(found):
        raise typer.Exit(3)


def scrub(data: Data = HERE, database: Database = None, as_json: Json = False) -> None:
    """Overwrite on disk what people withdrew: free pages of the tables and the write-ahead log.

    Nobody can write meanwhile. Example: counterplay studio scrub --data ./studio
    """
    settings = existing(data, database)
    from counterplay.studio.scrubbing import scrub as overwrite

    done = overwrite(settings)
    if as_json:
        print_json(done)
    else:
        typer.echo("\n".join(done))


def migrate(data: Data = HERE, database: Database = None, as_json: Json = False) -> None:
    """Bring the database to the schema of this version; the server also does so when it starts.

    Example: counterplay studio migrate --data /var/lib/counterplay
    """
    with opened(data, database, new=True):
        from counterplay.studio.store.migrations import HEAD
    if as_json:
        print_json({"revision": HEAD})
    else:
        typer.echo(f"the database has revision {HEAD}")


def jobs(
    retry: Annotated[int | None, typer.Option(help="Start this failed job again.")] = None,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe", help="Add a job that does nothing, to see whether a worker takes it."
        ),
    ] = False,
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """List the jobs, newest first; --retry ID starts a failed one again.

    Example: counterplay studio jobs --retry 17
    """
    with opened(data, database) as store:
        if retry is not None:
            store.retry(retry)
            store.audit(OPERATOR, "job.retry", str(retry))
        if probe:
            store.enqueue("probe", {})
        rows = store.jobs()
    if as_json:
        print_json(
            [{"job": job.id, "kind": job.kind, "state": job.state, "attempt": job.attempt,
              "created_at": job.created_at, "done_at": job.done_at, "error": job.error}
             for job in rows]
        )  # fmt: skip
        return
    for job in rows:
        typer.echo(f"{job.id:>6}  {job.kind:<8} {job.state:<8} attempt {job.attempt}")


def _password() -> str:
    """Read a password from the environment, a terminal or the first line of standard input."""
    if given := os.environ.get(_PASSWORD):
        return given
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    first = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != first:
        raise InvalidInputError("the two passwords differ")
    return first
