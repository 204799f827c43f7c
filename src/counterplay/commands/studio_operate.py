"""What an operator of the studio needs: workers, backups, checks, migrations, jobs."""

from __future__ import annotations

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
    noted,
    opened,
    settings_of,
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]


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
    """Run the jobs of the studio, on this machine or on others with its database and folder.

    Files of audits are in the folder: another machine needs it as a network share, and a worker
    with a folder of its own is refused.

    Example: counterplay studio worker --data /srv/studio --database postgresql+psycopg://u@db/x
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


def backup(
    file: File,
    without_missing: Annotated[
        bool, typer.Option("--without-missing", help="Leave out files that are lost.")
    ] = False,
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Write a backup of everything, also while the server runs; "-" is standard output.

    Example: counterplay studio backup nightly.tar --data /var/lib/counterplay
    """
    settings = settings_of(data, database)
    from counterplay.studio.backup import back_up, manifest_summary

    if str(file) == "-":  # for a pipe, such as one that encrypts
        with tempfile.TemporaryDirectory(dir=data if data.is_dir() else None) as folder:
            made = back_up(settings, Path(folder) / "backup.tar", without_missing=without_missing)
            with open(Path(folder) / "backup.tar", "rb") as stream:
                shutil.copyfileobj(stream, sys.stdout.buffer)
        noted(settings, "backup", "-", manifest_summary(made))
        return
    told = manifest_summary(back_up(settings, file, without_missing=without_missing))
    noted(settings, "backup", file.name, told)
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
    noted(settings, "restore", file.name, told)
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
    noted(settings, "scrub", "database", {"done": done})
    if as_json:
        print_json(done)
    else:
        typer.echo("\n".join(done))


def migrate(data: Data = HERE, database: Database = None, as_json: Json = False) -> None:
    """Bring the database to the schema of this version; the server also does so when it starts.

    Example: counterplay studio migrate --data /var/lib/counterplay
    """
    with opened(data, database, new=True) as store:
        from counterplay.studio.store.migrations import HEAD

        store.audit(OPERATOR, "migrate", HEAD)
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
