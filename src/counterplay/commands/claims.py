"""``counterplay claims``: every promise of the library, and where it is proved, tested, shown."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from counterplay.addresses import named, where
from counterplay.claims import Claim, load_claims, tests_of_claims
from counterplay.commands.completing import areas_with_claims
from counterplay.commands.options import Json, print_json, print_table
from counterplay.errors import UnknownNameError

app = typer.Typer(add_completion=False)

_ID = re.compile(r"(\d{1,2})\.(\d{1,2})([a-z]?)")
_NUMBER = re.compile(r"([a-z]|\d{1,2})\.([a-z]|\d{1,2})")  # of a statement: 2.1, 2.A, B.1
_KINDS = {
    "thm": "theorem", "prop": "proposition", "lem": "lemma", "cor": "corollary",
    "alg": "algorithm", "ex": "example",
}  # fmt: skip


@app.command(
    epilog="Examples: counterplay claims 2.1; counterplay claims theorem 2.1; "
    "counterplay claims halving; counterplay claims --area strategic --json"
)
def claims(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NUMBER | WORD]...", help="A number such as 2.1, or words to look for."
        ),
    ] = None,
    area: Annotated[
        str | None,
        typer.Option(help="Only the claims of this area.", autocompletion=areas_with_claims),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the promises of the library; those you name with theorem, tests and studies."""
    listed = load_claims()
    if area is not None:
        known = {claim.area for claim in listed}
        if area not in known:
            raise UnknownNameError.among("area with claims", area, known)
        listed = tuple(claim for claim in listed if claim.area == area)
    if wanted:
        listed = _matching(listed, wanted)
    found = _details(listed) if wanted else {}
    if as_json:
        print_json([{**vars(claim), **found.get(claim.id, {})} for claim in listed])
    elif wanted:
        told = [_told(claim, found[claim.id]) for claim in listed]
        typer.echo("\n\n".join(told + _where_tests_are()))
    else:
        _print_all(listed)


def _matching(listed: tuple[Claim, ...], wanted: list[str]) -> tuple[Claim, ...]:
    """Return the claims with this number, of this statement, or with all these words."""
    words = [_KINDS.get(word.rstrip("."), word) for word in " ".join(wanted).casefold().split()]
    if len(words) == 1 and (number := _ID.fullmatch(words[0])):
        named = f"{int(number[1]):02d}.{int(number[2]):02d}{number[3]}"
        found = [claim for claim in listed if claim.id == named]
        found += [c for c in listed if c.id != named and statement(c).endswith(f" {words[0]}")]
    elif words and _NUMBER.fullmatch(words[-1]) and len(words) <= 2:
        about = " ".join(words)
        found = [c for c in listed if f" {statement(c)}".casefold().endswith(f" {about}")]
    else:
        texts = {
            claim: f"{claim.id} {claim.area} {claim.statement} {claim.source}" for claim in listed
        }
        found = [c for c in listed if all(word in texts[c].casefold() for word in words)]
    if not found or not words:
        raise UnknownNameError(
            f"no claim is about {' '.join(wanted)!r}; 'counterplay claims' lists all of them"
        )
    return tuple(found)


def statement(claim: Claim) -> str:
    """Return the statement of the book that a claim rests on, such as ``Theorem 2.1``, if any.

    Examples
    --------
    >>> statement(Claim("02.02", "strategic", "", "docs/theory/02-strategic-finite.md#thm-2-1"))
    'Theorem 2.1'
    """
    kind, _, number = claim.source.partition("#")[2].partition("-")
    name = number.replace("-", ".")
    if kind not in _KINDS or not _NUMBER.fullmatch(name):
        return ""
    return f"{_KINDS[kind].capitalize()} {name.upper()}"


def _details(listed: tuple[Claim, ...]) -> dict[str, dict[str, list[str]]]:
    """Return the tests and studies of every claim, by id."""
    from counterplay.studies.outline import outlines

    studies = [study for area in outlines() for study in area.studies]
    tests = tests_of_claims()
    return {
        claim.id: {
            "tests": tests.get(claim.id, []),
            "studies": [study.id for study in studies if claim.id in study.claims],
        }
        for claim in listed
    }


def _told(claim: Claim, found: dict[str, list[str]]) -> str:
    theorem = f"{statement(claim)}, " if statement(claim) else ""
    proof = f"proof  {theorem}{where(claim.source)}"
    lines = [f"{claim.id}  {claim.area}", "", claim.statement, "", proof]
    lines += [f"test   {test}" for test in found["tests"]]
    lines += [f"study  counterplay run {study}" for study in found["studies"]]
    return "\n".join(lines)


def _where_tests_are() -> list[str]:
    """Return a line for those who have the package without its tests."""
    if where("tests/claims_plugin.py") == "tests/claims_plugin.py":
        return []
    return [f"The tests are files of {named().get('Source', 'the source archive')}."]


def _print_all(listed: tuple[Claim, ...]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("id", "area", "promise", "source", box=None, pad_edge=False)
    for claim in listed:
        where = statement(claim) or "#" + claim.source.partition("#")[2]
        table.add_row(claim.id, claim.area, escape(claim.statement), f"[dim]{escape(where)}[/]")
    console = Console()
    print_table(console, table, (0,), room=50)
    console.print(
        f"[dim]{len(listed)} claims, each checked by at least one test; "
        "counterplay claims NUMBER shows where it is proved, tested and studied[/]"
    )
