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

from counterplay.commands.consortium_private import VERBS, Given, matching
from counterplay.commands.options import Json, check_files, print_json
from counterplay.core.files import write_atomic
from counterplay.errors import InvalidInputError
from counterplay.tables import read_table
from counterplay.tables.cells import shown

if TYPE_CHECKING:
    from counterplay.contribution.lab import ConsortiumPlan
    from counterplay.contribution.sites.reading import Sites

app = typer.Typer(add_completion=False)

NO_PROMISE = 3
STYLE = (
    "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere}img{max-width:100%;height:auto}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85em}"
    "th,td{padding:.25em .6em;text-align:right;white-space:nowrap}"
)


@app.command(
    epilog="Examples: counterplay consortium north.csv south.csv east.csv --label y "
    "--target within=0.01 --out plan.html --flower out/; counterplay consortium all.csv "
    "--site-column ward --label y; counterplay consortium site north.csv --label y --peers "
    "south,east --out north.json; counterplay consortium models north.csv --label y --out "
    'north.models.json; counterplay consortium score north.csv --label y --models "*.models.json" '
    "--out north.json; counterplay consortium describe north.csv --label y --out north.site.json; "
    'counterplay consortium app "*.site.json" --flower out/; counterplay consortium --points '
    '"*.json"'
)
def consortium(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            help="One table per site; or a verb (site, models, score, describe, app) and its files."
        ),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column of the labels.")] = None,
    target: Annotated[
        str, typer.Option(help="within=0.01 (of pooling everything) or accuracy=0.85.")
    ] = "within=0.01",
    confidence: Annotated[float, typer.Option(help="Probability of each promise.")] = 0.9,
    model: Annotated[str, typer.Option(help="logistic or boosting.")] = "logistic",
    metric: Annotated[
        str, typer.Option(help="accuracy, balanced_accuracy, neg_log_loss or roc_auc.")
    ] = "accuracy",
    budget: Annotated[int | None, typer.Option(help="Number of fits; default about 176.")] = None,
    cost: Annotated[list[str] | None, typer.Option(help="Price of a row: north=2; repeat.")] = None,
    cap: Annotated[
        list[str] | None, typer.Option(help="Most rows of a site: north=500; repeat.")
    ] = None,
    site_column: Annotated[
        str | None, typer.Option(help="Column that names the site, if one table holds all.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out.")] = None,
    points: Annotated[
        str | None, typer.Option(help='Files of points in place of tables: "*.json".')
    ] = None,
    peers: Annotated[str | None, typer.Option(help="Names of the other sites (site).")] = None,
    models: Annotated[
        str | None, typer.Option(help='Models of all sites (score): "*.models.json".')
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write a page (or, for 'site', the points).")
    ] = None,
    flower: Annotated[Path | None, typer.Option(help="Write a Flower app here.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the folder.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Plan how many rows each site brings, so that the promise to every site is kept."""
    from counterplay.contribution import SitePoints, plan_consortium
    from counterplay.contribution.sites.flower_project import check_empty

    check_files(out)
    if flower is not None:
        check_empty(flower, force)
        check_files(flower / "app" / "plan.json")
    given = list(tables or [])
    measure: dict[str, Any] = {"model": model, "metric": metric, "budget": budget,
                               "progress": not as_json}  # fmt: skip
    if given and given[0] in VERBS:
        VERBS[given[0]](
            Given(
                tables=given[1:], label=label, peers=peers, models=models, out=out, flower=flower,
                rows=_numbers(cap, "cap"), drop=drop or [], model=model, metric=metric,
                progress=not as_json, force=force, seed=seed,
            )
        )  # fmt: skip
        return
    settings: dict[str, Any] = {
        "confidence": confidence,
        "costs": _numbers(cost, "cost"),
        "caps": _numbers(cap, "cap"),
        "random_state": seed,
    }
    if points is not None:
        if given:
            raise InvalidInputError("give tables or --points, not both")
        plan = plan_consortium(SitePoints.from_json(*matching(points)), target, **settings)
    else:
        sites = _read(given, label, site_column, drop or [])
        plan = plan_consortium(sites, target, **settings, **measure)
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
            raise InvalidInputError(f"two tables are called {shown(name, 60)}; rename one")
        files[name] = path
    return read_sites(files, label, drop=drop)


def _split(path: str, column: str) -> tuple[dict[str, Any], list[str]]:
    """The rows of every site, and what was left out; names are as they stand in the file."""
    frame, file = read_table(path, texts=[column]).frame, Path(path).name[:60]
    if column not in frame.columns:
        columns = ", ".join(str(c)[:30] for c in frame.columns[:5])
        raise InvalidInputError(
            f"{file} has no column {shown(column, 60)}; its columns are {columns}"
        )
    names = frame[column].map(_site_name, na_action="ignore")
    lost = int((names.isna() | (names == "")).sum())
    notes = [f"{lost} rows of {file} name no site and are left out"] if lost else []
    rows = frame.drop(columns=column)
    return {n: rows[names == n] for n in sorted(set(names.dropna()) - {""})}, notes


def _site_name(cell: Any) -> str:
    """A whole number as one writes it, a text without the spaces around it."""
    whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell) if whole else cell).strip()


def _numbers(values: Sequence[str] | None, what: str) -> dict[str, float] | None:
    pairs: dict[str, float] = {}
    for text in values or []:
        name, _, number = text.rpartition("=")
        try:
            pairs[name] = float(number)
        except ValueError:
            raise InvalidInputError(
                f"--{what} must be SITE=NUMBER, got {shown(text, 60)}"
            ) from None
    return pairs or None
