"""``counterplay claims``: every promise of the library, and where it is proved, tested, shown."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from counterplay.claims import Claim, load_claims, tests_of_claims
from counterplay.commands.options import Json, print_json
from counterplay.errors import UnknownNameError

app = typer.Typer(add_completion=False)

_ID = re.compile(r"(\d{1,2})\.(\d{1,2})([a-z]?)")


@app.command(
    epilog="Examples: counterplay claims halving; counterplay claims 2.1; "
    "counterplay claims --area strategic --json"
)
def claims(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID | WORD]...", help="An id such as 2.1, or words to look for."),
    ] = None,
    area: Annotated[str | None, typer.Option(help="Only the claims of this area.")] = None,
    as_json: Json = False,
) -> None:
    """Print the promises of the library; a single one with its page, its tests and its studies."""
    listed = load_claims()
    if area is not None:
        known = {claim.area for claim in listed}
        if area not in known:
            raise UnknownNameError.among("area with claims", area, known)
        listed = tuple(claim for claim in listed if claim.area == area)
    if wanted:
        listed = _matching(listed, wanted)
    single = _details(listed[0]) if wanted and len(listed) == 1 else None
    if as_json:
        print_json([{**vars(claim), **(single or {})} for claim in listed])
    elif single is not None:
        _print_one(listed[0], single)
    else:
        _print_all(listed)


def _matching(listed: tuple[Claim, ...], wanted: list[str]) -> tuple[Claim, ...]:
    """Return the claim with this id, or those whose words contain all the words."""
    if len(wanted) == 1 and (number := _ID.fullmatch(wanted[0])):
        named = f"{int(number[1]):02d}.{int(number[2]):02d}{number[3]}"
        found = tuple(claim for claim in listed if claim.id == named)
    else:
        words = [word.casefold() for word in wanted]
        texts = {
            claim: f"{claim.id} {claim.area} {claim.statement} {claim.source}" for claim in listed
        }
        found = tuple(c for c in listed if all(word in texts[c].casefold() for word in words))
    if not found:
        raise UnknownNameError(
            f"no claim is about {' '.join(wanted)!r}; 'counterplay claims' lists all of them"
        )
    return found


def _details(claim: Claim) -> dict[str, list[str]]:
    from counterplay.studies.outline import outlines

    studies = [s.id for area in outlines() for s in area.studies if claim.id in s.claims]
    return {"tests": tests_of_claims().get(claim.id, []), "studies": studies}


def _print_one(claim: Claim, found: dict[str, list[str]]) -> None:
    typer.echo(f"{claim.id}  {claim.area}\n\n{claim.statement}\n")
    typer.echo(f"proof  {claim.source}")
    for test in found["tests"]:
        typer.echo(f"test   {test}")
    for study in found["studies"]:
        typer.echo(f"study  counterplay run {study}")


def _print_all(listed: tuple[Claim, ...]) -> None:
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
