"""Options that several commands share, and how results are printed."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", help="Number of worker processes; by default one per core."),
]
UseBackend = Annotated[
    Literal["joblib", "ray"], typer.Option("--backend", help="What runs the cells.")
]
Address = Annotated[
    str | None, typer.Option(help="Address of a Ray cluster; by default one is started here.")
]
Out = Annotated[Path, typer.Option(help="Folder for figures and the report.")]
StorePath = Annotated[
    Path | None,
    typer.Option("--store", help="File of stored results; OUT/studies.sqlite by default."),
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Compute everything again, also what is stored.")
]
Refresh = Annotated[
    bool,
    typer.Option(
        "--refresh",
        help="Compute again only what an earlier version of the code stored, or what is damaged.",
    ),
]
ScaleOption = Annotated[
    Literal["quick", "full"],
    typer.Option("--scale", help="quick takes seconds; full computes what a paper would show."),
]

OUT = Path("build")


def check_writable(out: Path) -> None:
    """Make the folder for results; refuse, before any work, one that cannot be written to."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise InvalidInputError(
            f"{str(out)[:150]} cannot be written to ({error.strerror}); name a folder with --out"
        ) from None


def check_files(*files: Path | None) -> None:
    """Refuse, before any work, files that could not be written; nothing is made."""
    for file in filter(None, files):
        if file.is_dir():
            raise InvalidInputError(f"{str(file)[:150]} is a folder; name a file in it")
        folder = next(parent for parent in file.absolute().parents if parent.exists())
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            why = "cannot be written to" if folder.is_dir() else "is a file"
            raise InvalidInputError(
                f"{str(file)[:150]} cannot be written: {str(folder)[:150]} {why}"
            )


def say_notes(file: Path, notes: Iterable[str]) -> None:
    """Say on standard error what was found out about a file while reading it."""
    for note in notes:
        typer.echo(f"{file.name}: {note}", err=True)


def store_path(store: Path | None, out: Path) -> Path:
    """Return the store to use: the named one, or the one in the output folder."""
    return store if store is not None else out / "studies.sqlite"


def print_json(content: Any) -> None:
    """Print ``content`` as JSON, in ASCII where standard output is not UTF-8."""
    plain = str(getattr(sys.stdout, "encoding", "")).lower() not in ("utf-8", "utf8")
    typer.echo(json.dumps(content, indent=2, ensure_ascii=plain, allow_nan=False))


def print_table(console: Console, table: Table, whole: tuple[int, ...], room: int = 20) -> None:
    """Print a table without cutting a word off.

    Parameters
    ----------
    console
        Where to print.
    table
        The table.
    whole
        Columns of names, which keep their width so that they can be copied.
    room
        Width that the other columns need; where there is less, one record stands below the other.
    """
    from rich.padding import Padding
    from rich.text import Text

    for column in table.columns:
        column.overflow = "fold"
    for place in whole:
        names = [Text.from_markup(str(cell)) for cell in table.columns[place].cells]
        table.columns[place].width = max((name.cell_len for name in names), default=1)
    wide = sum((table.columns[place].width or 0) + 2 for place in whole)
    if wide + room <= console.width:
        console.print(table)
        return
    heads = [f"{column.header}: " if column.header else "" for column in table.columns]
    for record in zip(*(list(column.cells) for column in table.columns)):
        told = [str(cell) for cell in record]
        console.print(" ".join(told[place] for place in whole), soft_wrap=True)
        for place in set(range(len(told))) - set(whole):
            console.print(Padding(heads[place] + told[place], (0, 0, 0, 4)))
