"""``counterplay help``: explain a command."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command(epilog="Examples: counterplay help run")
def show_help(
    command: Annotated[str | None, typer.Argument(metavar="[COMMAND]")] = None,
) -> None:
    """Explain a command, or list all of them."""
    from counterplay.cli import run

    raise typer.Exit(run([command, "--help"] if command else ["--help"]))
