"""``counterplay claims``: every promise of the library."""

from __future__ import annotations

from typing import Annotated

import typer

from counterplay.claims import load_claims
from counterplay.commands.options import Json, print_json
from counterplay.errors import UnknownNameError

app = typer.Typer(add_completion=False)


@app.command()
def claims(
    area: Annotated[str | None, typer.Option(help="Only the claims of this area.")] = None,
    as_json: Json = False,
) -> None:
    """Print every promise of the library: its id, its area, the sentence, the theorem."""
    listed = load_claims()
    if area is not None:
        known = {claim.area for claim in listed}
        if area not in known:
            raise UnknownNameError.among("area with claims", area, known)
        listed = tuple(claim for claim in listed if claim.area == area)
    if as_json:
        print_json([vars(claim) for claim in listed])
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("id", "area", "promise", "source", box=None, pad_edge=False)
    for claim in listed:
        table.add_row(
            claim.id, claim.area, escape(claim.statement), f"[dim]{escape(claim.source)}[/]"
        )
    console = Console()
    console.print(table)
    console.print(f"[dim]{len(listed)} claims, each checked by at least one test[/]")
