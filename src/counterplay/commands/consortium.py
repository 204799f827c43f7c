"""``counterplay consortium north.csv south.csv --label y``: from site tables to a plan that holds.

Measures with about 176 fits how well every site is served by mixtures of everybody's rows, plans
with confidence, says who would hold back, and writes a Flower app that trains by the plan.
Where rows may not be pooled: ``consortium site`` (own curve), ``models`` and ``score`` (models are
exchanged), ``describe`` and ``app`` (measured in a federation), then ``--points``.
Exit code 3: measured, but no promise can be given. Source: docs/theory/23-consortium.md.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterplay.commands.consortium_options import (
    Cap,
    Drop,
    Force,
    Metric,
    Model,
    Seed,
    matching,
    numbers,
)
from counterplay.commands.consortium_private import app as write_app
from counterplay.commands.consortium_private import describe, models, score, site
from counterplay.commands.options import Json, check_files, print_json
from counterplay.commands.words import Main, Words
from counterplay.core.files import write_atomic
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    from counterplay.contribution.lab import ConsortiumPlan
    from counterplay.contribution.sites.reading import Sites

app = typer.Typer(
    cls=Words,
    add_completion=False,
    help="Plan how many rows each site brings. With all tables at hand: counterplay consortium "
    "TABLES. All options: counterplay consortium TABLES --help. The other commands are for sites "
    "that keep their rows to themselves. Exit codes: 0 there is a plan that holds, 3 no site can "
    "be promised anything, 2 a mistake in what you gave.",
    epilog="Examples: counterplay consortium north.csv south.csv east.csv --label y; "
    "counterplay consortium site north.csv --label y --out north.json; "
    'counterplay consortium --points "*.json"',
)

NO_PROMISE = 3
STYLE = (
    "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere}img{max-width:100%;height:auto}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85em}"
    "th,td{padding:.25em .6em;text-align:right;white-space:nowrap}"
)


@app.command(
    "TABLES",
    cls=Main,
    epilog="Examples: counterplay consortium north.csv south.csv east.csv --label y "
    "--target within=0.01 --out plan.html --flower out/; counterplay consortium all.csv "
    '--site-column ward --label y; counterplay consortium --points "*.json"',
)
def consortium(
    tables: Annotated[
        list[str] | None, typer.Argument(help="Tables of the sites: one for each, or one for all.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column of the labels.")] = None,
    target: Annotated[
        str, typer.Option(help="within=0.01 (of pooling all rows) or accuracy=0.85.")
    ] = "within=0.01",
    confidence: Annotated[
        float, typer.Option(help="Probability with which each promise is kept.")
    ] = 0.9,
    model: Model = "logistic",
    metric: Metric = "accuracy",
    budget: Annotated[
        int | None, typer.Option(help="How many models to fit; about 176 by default.")
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(help="What a row of a site costs, such as north=2; repeat the option."),
    ] = None,
    cap: Cap = None,
    site_column: Annotated[
        str | None, typer.Option(help="Column that names the site, if one table holds all.")
    ] = None,
    drop: Drop = None,
    points: Annotated[
        str | None, typer.Option(help='Files of points in place of tables: "*.json".')
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Page to write.")] = None,
    flower: Annotated[Path | None, typer.Option(help="Folder to write a Flower app to.")] = None,
    force: Force = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Plan how many rows each site brings, so that the promise to every site is kept.

    Exit code 3: the sites were measured, but no site can be promised anything.
    """
    from counterplay.contribution import SitePoints, plan_consortium
    from counterplay.contribution.sites.flower_project import check_empty

    check_files(out)
    if flower is not None:
        check_empty(flower, force)
        check_files(flower / "app" / "plan.json")
    given = list(tables or [])
    settings: dict[str, Any] = {
        "confidence": confidence,
        "costs": numbers(cost, "cost"),
        "caps": numbers(cap, "cap"),
        "random_state": seed,
    }
    if points is not None:
        if given:
            raise InvalidInputError("give tables or --points, not both")
        plan = plan_consortium(SitePoints.from_json(*matching(points)), target, **settings)
    else:
        sites = _read(given, label, site_column, drop or [])
        plan = plan_consortium(
            sites, target, model=model, metric=metric, budget=budget, progress=not as_json,
            **settings,
        )  # fmt: skip
    if out is not None:
        write_atomic(out, page(plan))
    written = [] if flower is None else plan.write_flower(flower, force=force)
    if as_json:
        print_json(plan.to_dict())
    else:
        typer.echo(plan.summary())
        if out is not None:
            typer.echo(f"wrote {out}")
        if written:
            typer.echo(f"wrote {len(written)} files; rehearse: python {flower}/rehearse.py")
    if plan.recommended is None or not plan.promised.any():
        raise typer.Exit(NO_PROMISE)


def page(plan: ConsortiumPlan) -> str:
    """One self-contained page, also for a phone; every name is escaped."""
    title = html.escape(f"{plan.points.k} sites, {plan.request.targets.text}")
    rows = plan.to_frame().round(3).to_html(border=0)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>"
        f"<pre>{html.escape(plan.summary())}</pre>{plan._picture()}"
        f'<div class="wide">{rows}</div></body></html>\n'
    )


def _read(
    tables: Sequence[str], label: str | None, site_column: str | None, drop: Sequence[str]
) -> Sites:
    from counterplay.contribution.sites.reading import read_sites

    if label is None:
        raise InvalidInputError("say which column holds the labels: --label NAME")
    if site_column is not None:
        if len(tables) != 1:
            raise InvalidInputError(f"--site-column splits one table, got {len(tables)}")
        parts, notes = _split(tables[0], site_column)
        sites = read_sites(parts, label, drop=drop)
        return replace(sites, warnings=(*notes, *sites.warnings))
    files: dict[str, Any] = {}
    for path in tables:
        name = Path(path).stem
        if name in files:
            raise InvalidInputError(f"two tables are called {name[:60]!r}; rename one")
        files[name] = path
    return read_sites(files, label, drop=drop)


def _split(path: str, column: str) -> tuple[dict[str, Any], list[str]]:
    """The rows of every site, and what was left out; names are as they stand in the file."""
    from counterplay.tables import read_table

    frame, file = read_table(path, texts=[column]).frame, Path(path).name[:60]
    if column not in frame.columns:
        columns = ", ".join(str(c)[:30] for c in frame.columns[:5])
        raise InvalidInputError(f"{file} has no column {column[:60]!r}; its columns are {columns}")
    names = frame[column].map(_site_name, na_action="ignore")
    lost = int((names.isna() | (names == "")).sum())
    notes = [f"{lost} rows of {file} name no site and are left out"] if lost else []
    rows = frame.drop(columns=column)
    return {n: rows[names == n] for n in sorted(set(names.dropna()) - {""})}, notes


def _site_name(cell: Any) -> str:
    """A whole number as one writes it, a text without the spaces around it."""
    whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell) if whole else cell).strip()


for way in (site, models, score, describe):
    app.command()(way)
app.command("app")(write_app)
