"""``counterplay studio links ...``: the secret links by which people take part."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterplay.commands.completing import parties, parties_and_studies
from counterplay.commands.options import Json, print_json
from counterplay.commands.studio_options import (
    HERE,
    LOCAL,
    OPERATOR,
    Data,
    Database,
    Study,
    opened,
    party_of,
    study_of,
)
from counterplay.commands.words import Main, Words
from counterplay.core.files import write_atomic
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    from counterplay.studio.store import Store
    from counterplay.studio.store.base import PartyRow, StudyRow

app = typer.Typer(
    cls=Words,
    add_completion=False,
    help="Make, end and replace the links by which people take part.",
    epilog="Examples: counterplay studio links 6d3f0c2b9a41e857 --n 120 -o links.csv; "
    "counterplay studio links revoke 6d3f0c2b9a41e857; "
    "counterplay studio links reissue 41b08dd2c7e5f913",
)
Made = tuple[str, str, str]
"""A party, its token and its label."""

Party = Annotated[
    str, typer.Argument(metavar="PARTY", help="Id of the party.", autocompletion=parties)
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="CSV file to write; printed if it is left out."),
]
Days = Annotated[
    float | None, typer.Option(help="Days until a new link expires; by default it never does.")
]
BaseUrl = Annotated[
    str | None,
    typer.Option(help="Address with which the links begin; by default that of the server."),
]


@app.command(
    "STUDY",
    cls=Main,
    epilog="Example: counterplay studio links 6d3f0c2b9a41e857 --n 120 -o links.csv",
)
def make(
    study: Study,
    n: Annotated[int, typer.Option("--n", help="How many participants to make links for.")] = 1,
    out: Out = None,
    label: Annotated[str | None, typer.Option(help="What to call them; a number is added.")] = None,
    open_for: Annotated[
        int | None, typer.Option(help="Make one link that at most this many people can share.")
    ] = None,
    days: Days = None,
    base_url: BaseUrl = None,
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Make secret links for a study, as CSV (party, url, token, label). They are shown only once.

    A campaign gets one link for each of its parties.
    """
    if not 1 <= n <= 100_000:
        raise InvalidInputError(f"--n must be 1 to 100,000, got {n}")
    _check_days(days)
    with opened(data, database) as store:
        made = _new_links(store, study_of(store, study), n, label, open_for, _expiry(days))
        base = _base(store, base_url)
    _tell(made, base, out, as_json)


@app.command(epilog="Example: counterplay studio links revoke 41b08dd2c7e5f913")
def revoke(
    name: Annotated[
        str,
        typer.Argument(
            metavar="PARTY|STUDY",
            help="Id of a party, or of a study.",
            autocompletion=parties_and_studies,
        ),
    ],
    out: Out = None,
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """End the links of a party, or the open links of a study."""
    with opened(data, database) as store:
        study = next((row for row in store.studies() if row.public_id == name), None)
        if study is not None:
            count = store.revoke_open_links(study)
            store.audit(OPERATOR, "links.revoke", name, {"n": count})
            ended = [("open link", "", "")] * count
        else:
            row = party_of(store, name, "study or party")
            store.audit(OPERATOR, "links.revoke", name)
            store.revoke_links(row)
            ended = [(name, "", row.label)]
    _tell(ended, "", out, as_json)


@app.command(epilog="Example: counterplay studio links reissue 41b08dd2c7e5f913 --days 30")
def reissue(
    name: Party,
    out: Out = None,
    days: Days = None,
    base_url: BaseUrl = None,
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Make a new link for a party; the old ones end."""
    _check_days(days)
    with opened(data, database) as store:
        row = party_of(store, name)
        store.audit(OPERATOR, "links.reissue", name)
        made = [(name, store.reissue(row, expires=_expiry(days)), row.label)]
        base = _base(store, base_url)
    _tell(made, base, out, as_json)


def _check_days(days: float | None) -> None:
    if days is not None and not 0.0 < days <= 36_500.0:
        raise InvalidInputError(f"--days must be above 0 and at most 36,500, got {days:g}")


def _expiry(days: float | None) -> str | None:
    from counterplay.studio.store.database import later

    return None if days is None else later(86_400 * days)


def _base(store: Store, given: str | None) -> str:
    return (given or store.setting("base_url") or LOCAL).rstrip("/")


def _tell(made: list[Made], base: str, out: Path | None, as_json: bool) -> None:
    found = [
        {"party": p, "url": f"{base}/j/{t}" if t else "", "token": t, "label": label}
        for p, t, label in made
    ]
    if as_json:
        print_json(found)
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, ["party", "url", "token", "label"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "label": safe_cell(row["label"])} for row in found)
    if out is None:
        typer.echo(text.getvalue(), nl=False)
    else:
        write_atomic(out, text.getvalue(), private=True)


def safe_cell(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _new_links(
    store: Store,
    study: StudyRow,
    n: int,
    label: str | None,
    open_for: int | None,
    expires: str | None,
) -> list[Made]:
    if study.kind not in ("elicitation", "campaign"):
        raise InvalidInputError(
            f"links are for people; nobody answers in the {study.kind} {study.name[:60]!r}"
        )
    if open_for is not None:
        if study.kind != "elicitation":
            raise InvalidInputError("a campaign gets one link for each of its parties, no open one")
        made = [("open link", store.new_open_link(study, open_for, expires=expires), "")]
    else:
        parties = _new_parties(store, study, n, label)
        made = [(p.public_id, store.new_link(p, expires=expires), p.label) for p in parties]
    store.audit(OPERATOR, "links.new", study.public_id, {"n": len(made), "open_for": open_for})
    return made


def _new_parties(store: Store, study: StudyRow, n: int, label: str | None) -> list[PartyRow]:
    from counterplay.studio.kinds import kind_of

    kind: Any = kind_of(study.kind)
    if not hasattr(kind, "parties"):
        start = len(store.parties(study))
        called = label or "participant"
        return [
            store.new_party(study, role="participant", label=f"{called} {start + i + 1}")
            for i in range(n)
        ]
    known = {party.label for party in store.parties(study)}
    names = [name for name in kind.parties(store.config(study)) if name not in known]
    if not names:
        raise InvalidInputError("every party has its link; make new ones with: links reissue PARTY")
    return [store.new_party(study, role="labeller", label=name) for name in names]
