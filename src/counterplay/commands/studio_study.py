"""``counterplay studio study ...``: the life of studies at the command line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterplay.commands.options import Json, print_json
from counterplay.commands.studio_options import (
    HERE,
    OPERATOR,
    Data,
    Database,
    Study,
    opened,
    study_of,
)
from counterplay.commands.words import Words
from counterplay.core.files import read_limited, write_atomic
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    from counterplay.studio.store.base import StudyRow

app = typer.Typer(
    cls=Words,
    add_completion=False,
    no_args_is_help=True,
    help="Make studies, open and close them, and export them.",
    epilog="Example: counterplay studio study list",
)
_LARGEST_TOML = 2**20


@app.command("new", epilog="Example: counterplay studio study new cars.toml --open-now")
def new(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.toml", help="File with the kind, the name and the settings of the study."
        ),
    ],
    open_now: Annotated[bool, typer.Option("--open-now", help="Open the study at once.")] = False,
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Make a study from a file; paths in the file are relative to it."""
    raw = read_toml(file)
    kind, name = raw.get("kind"), raw.setdefault("name", file.stem)
    if not isinstance(kind, str) or not isinstance(name, str):
        raise InvalidInputError(f'{file} must say what it is: kind = "elicitation", name = "..."')
    with opened(data, database, new=True) as store:
        from counterplay.studio.kinds import kind_of

        config = kind_of(kind).read_config(raw, file.parent)
        study = store.new_study(kind, name, config, actor=OPERATOR, open_now=open_now)
        store.audit(OPERATOR, "study.new", study.public_id, {"kind": kind})
    _show(study, as_json)


@app.command("list", epilog="Example: counterplay studio study list --data ./studio")
def show(data: Data = HERE, database: Database = None, as_json: Json = False) -> None:
    """List the studies, newest first."""
    with opened(data, database) as store:
        studies = store.studies()
    if as_json:
        print_json([_facts(study) for study in studies])
        return
    for study in studies:
        typer.echo(f"{study.public_id}  {study.kind:<12} {study.state:<7} {study.name}")


@app.command("open", epilog="Example: counterplay studio study open 6d3f0c2b9a41e857")
def open_(
    study: Study, data: Data = HERE, database: Database = None, as_json: Json = False
) -> None:
    """Open a study, so that people can answer."""
    _change(study, "open", data, database, as_json)


@app.command(epilog="Example: counterplay studio study pause 6d3f0c2b9a41e857")
def pause(
    study: Study, data: Data = HERE, database: Database = None, as_json: Json = False
) -> None:
    """Pause a study: it takes no answers until it is opened again."""
    _change(study, "paused", data, database, as_json)


@app.command(epilog="Example: counterplay studio study close 6d3f0c2b9a41e857")
def close(
    study: Study, data: Data = HERE, database: Database = None, as_json: Json = False
) -> None:
    """Close a study for good: it takes no more answers and keeps those it has."""
    _change(study, "closed", data, database, as_json)


@app.command(
    "export", epilog="Example: counterplay studio study export 6d3f0c2b9a41e857 -o export.jsonl"
)
def export(
    study: Study,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
    version: Annotated[
        int | None, typer.Option(help="Version of the study; the latest by default.")
    ] = None,
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Write all events of a study to a file that counterplay verify can check.

    A study that was edited while it was open has one file per version under which people answered.
    """
    with opened(data, database) as store:
        from counterplay.studio.exports import export_lines

        row = study_of(store, study)
        lines = list(export_lines(store, row, version))
        write_atomic(out, "".join(lines))
        others = [n for n in store.versions(row) if n != (version or row.version)]
        store.audit(OPERATOR, "study.export", study, {"events": len(lines) - 1})
    if as_json:
        print_json({"study": study, "file": str(out), "events": len(lines) - 1})
        return
    typer.echo(f"{len(lines) - 1} events written to {out}; check it: counterplay verify {out}")
    for number in others:
        told = f"answers under version {number} are in a file of their own: --version {number}"
        typer.echo(told)


@app.command("import", epilog="Example: counterplay studio study import export.jsonl")
def import_(
    file: Annotated[
        Path, typer.Argument(metavar="EXPORT", help="The export, such as export.jsonl.")
    ],
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Add the study of an export, if all its hashes and results hold."""
    from counterplay.core.exports import LARGEST

    content = read_limited(file, what="the export", limit=LARGEST)
    with opened(data, database, new=True) as store:
        from counterplay.studio.exports import import_study

        study = import_study(store, content, actor=OPERATOR)
    _show(study, as_json)


def read_toml(file: Path) -> dict[str, Any]:
    """Return the content of a small TOML file."""
    content = read_limited(file, what="the file", limit=_LARGEST_TOML)
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{file} is not TOML: {str(error)[:150]}") from None


def _change(study: str, state: str, data: Path, database: str | None, as_json: bool) -> None:
    with opened(data, database) as store:
        row = store.set_state(study_of(store, study).public_id, state, actor=OPERATOR)
        store.audit(OPERATOR, f"study.{state}", study)
    _show(row, as_json)


def _show(study: StudyRow, as_json: bool) -> None:
    if as_json:
        print_json(_facts(study))
    else:
        typer.echo(f"{study.public_id}  {study.kind}, {study.state}: {study.name}")


def _facts(study: StudyRow) -> dict[str, Any]:
    return {
        "study": study.public_id,
        "kind": study.kind,
        "name": study.name,
        "state": study.state,
        "version": study.version,
        "created_at": study.created_at,
    }
