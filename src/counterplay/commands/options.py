"""Options that several commands share, and how results are printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Seed = Annotated[int, typer.Option(help="Base seed of all random numbers.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Worker processes; default: all.")]
UseBackend = Annotated[
    Literal["joblib", "ray"], typer.Option("--backend", help="Where cells are executed.")
]
Address = Annotated[
    str | None, typer.Option(help="Address of a Ray cluster; default: start one here.")
]
Out = Annotated[Path, typer.Option(help="Folder for figures and the report.")]
StorePath = Annotated[
    Path | None, typer.Option("--store", help="Study store; default: OUT/studies.sqlite.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Recompute what is already stored.")]
Refresh = Annotated[
    bool,
    typer.Option(
        "--refresh",
        help="Compute again what an older version of the code stored, or what is damaged.",
    ),
]
ScaleOption = Annotated[
    Literal["quick", "full"], typer.Option("--scale", help="Seconds, or what a paper prints.")
]

OUT = Path("build")


def store_path(store: Path | None, out: Path) -> Path:
    """Return the store to use: the named one, or the one in the output folder."""
    return store if store is not None else out / "studies.sqlite"


def print_json(content: Any) -> None:
    """Print ``content`` as JSON."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
