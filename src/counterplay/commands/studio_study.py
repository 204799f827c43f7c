"""``counterplay studio study ...`` and ``links``: the life of studies at the command line."""

from __future__ import annotations

import csv
import io
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterplay.commands.options import Json, print_json
from counterplay.commands.studio_options import HERE, LOCAL, OPERATOR, Data, Database, opened
from counterplay.core.exports import LARGEST
from counterplay.core.files import read_limited, write_atomic
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    from counterplay.studio.store import Store
    from counterplay.studio.store.base import PartyRow, StudyRow

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Make and run studies.",
    epilog="Example: counterplay studio study list",
)
Study = Annotated[str, typer.Argument(metavar="STUDY", help="Id of the study.")]
_LARGEST_TOML = 2**20


@app.command("new", epilog="Example: counterplay studio study new cars.toml --open-now")
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="Kind, name and settings.")],
    open_now: Annotated[bool, typer.Option("--open-now", help="Open it at once.")] = False,
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Make a study from a file; paths in it are relative to the file."""
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
    """Let people answer."""
    _change(study, "open", data, database, as_json)


@app.command(epilog="Example: counterplay studio study pause 6d3f0c2b9a41e857")
def pause(
    study: Study, data: Data = HERE, database: Database = None, as_json: Json = False
) -> None:
    """Take no answers for a while."""
    _change(study, "paused", data, database, as_json)


@app.command(epilog="Example: counterplay studio study close 6d3f0c2b9a41e857")
def close(
    study: Study, data: Data = HERE, database: Database = None, as_json: Json = False
) -> None:
    """Take no answers any more; what was answered stays."""
    _change(study, "closed", data, database, as_json)


@app.command(
    "export", epilog="Example: counterplay studio study export 6d3f0c2b9a41e857 -o export.jsonl"
)
def export(
    study: Study,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
    version: Annotated[
        int | None, typer.Option(help="Version of the study; the present one by default.")
    ] = None,
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Write all events of a study as a file that ``counterplay verify`` recomputes.

    A study that was edited while it was open has one file per version under which people answered.
    """
    with opened(data, database) as store:
        from counterplay.studio.exports import export_lines

        row = store.study(study)
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
    file: Annotated[Path, typer.Argument(metavar="EXPORT", help="An export.")],
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Store the study of an export, if every hash and every result of it holds."""
    content = read_limited(file, what="the export", limit=LARGEST)
    with opened(data, database, new=True) as store:
        from counterplay.studio.exports import import_study

        study = import_study(store, content, actor=OPERATOR)
    _show(study, as_json)


def links(
    words: Annotated[
        list[str],
        typer.Argument(metavar="STUDY | revoke PARTY or STUDY | reissue PARTY", help="What to do."),
    ],
    n: Annotated[int, typer.Option("--n", help="How many new parties.")] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The CSV file to write; else printed.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Name of the parties.")] = None,
    open_for: Annotated[
        int | None, typer.Option(help="One link for everybody, for this many people.")
    ] = None,
    days: Annotated[
        float | None, typer.Option(help="Days after which new links expire; never by default.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Address that people use; that of the server by default.")
    ] = None,
    data: Data = HERE,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Make secret links, as CSV (party, url, token, label): they are shown this once only.

    A campaign gets one link for each of its parties. ``links revoke PARTY`` ends the links of a
    party, ``links revoke STUDY`` its open links, ``links reissue PARTY`` makes a new one.

    Example: counterplay studio links 6d3f0c2b9a41e857 --n 120 -o links.csv
    """
    if not 1 <= n <= 100_000:
        raise InvalidInputError(f"--n must be 1 to 100,000, got {n}")
    if days is not None and not 0.0 < days <= 36_500.0:
        raise InvalidInputError(f"--days must be above 0 and at most 36,500, got {days:g}")
    with opened(data, database) as store:
        from counterplay.studio.store.database import later

        expires = None if days is None else later(86_400 * days)
        if words[0] in ("revoke", "reissue") and len(words) == 2:
            rows = _again(store, words[0], words[1], expires)
        elif len(words) == 1:
            rows = _new_links(store, store.study(words[0]), n, label, open_for, expires)
        else:
            raise InvalidInputError("say links STUDY, links revoke PARTY or links reissue PARTY")
        base = (base_url or store.setting("base_url") or LOCAL).rstrip("/")
    found = [
        {"party": p, "url": f"{base}/j/{t}" if t else "", "token": t, "label": label}
        for p, t, label in rows
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


def _again(store: Store, word: str, name: str, expires: str | None) -> list[tuple[str, str, str]]:
    study = next((row for row in store.studies() if row.public_id == name), None)
    if study is not None and word == "revoke":
        count = store.revoke_open_links(study)
        store.audit(OPERATOR, "links.revoke", name, {"n": count})
        return [("open link", "", "")] * count
    row = store.party(name)
    store.audit(OPERATOR, f"links.{word}", name)
    if word == "reissue":
        return [(name, store.reissue(row, expires=expires), row.label)]
    store.revoke_links(row)
    return [(name, "", row.label)]


def _new_links(
    store: Store,
    study: StudyRow,
    n: int,
    label: str | None,
    open_for: int | None,
    expires: str | None,
) -> list[tuple[str, str, str]]:
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


def read_toml(file: Path) -> dict[str, Any]:
    """Return the content of a small TOML file."""
    content = read_limited(file, what="the file", limit=_LARGEST_TOML)
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{file} is not TOML: {str(error)[:150]}") from None


def _change(study: str, state: str, data: Path, database: str | None, as_json: bool) -> None:
    with opened(data, database) as store:
        row = store.set_state(study, state, actor=OPERATOR)
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
