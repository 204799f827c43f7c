"""``counterplay verify``: recompute what a session promised from its events alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from counterplay.commands.options import Json, print_json

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples: counterplay elicit cars.csv --export cars.jsonl; "
    "counterplay verify cars.jsonl --table cars.csv"
)
def verify(
    export: Annotated[Path, typer.Argument(metavar="FILE", help="An export, such as cars.jsonl.")],
    table: Annotated[
        Path | None,
        typer.Option(help="The CSV file of the items, to check that they come from it."),
    ] = None,
    receipt: Annotated[
        list[str] | None, typer.Option(help="A code that a participant kept; repeat the option.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check every hash of an export and recompute every result that it states.

    Prints one line each: ok, failed or erased. Exit code 3 when something failed.
    """
    from counterplay.verify import verify as recompute

    found = recompute(export, table=table, receipts=receipt or ())
    if as_json:
        print_json({"study": found.study, "holds": found.holds,
                    "checks": [vars(check) for check in found.checks]})  # fmt: skip
    else:
        typer.echo(found.summary())
    if not found.holds:
        raise typer.Exit(3)
