"""What runs at one site, or between sites whose tables stay where they are.

``site``: the site's own curve. ``models`` and ``score``: models travel, every site scores all of
them. ``describe`` and ``app``: a Flower app that measures mixtures without pooling rows.
Source: "The private variant", docs/theory/23-consortium.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from counterplay.commands.consortium_options import (
    Cap,
    Drop,
    Flower,
    Force,
    Metric,
    Model,
    Seed,
    matching,
    numbers,
)
from counterplay.commands.options import check_files

Table = Annotated[Path, typer.Argument(help="The table of this site.")]
Label = Annotated[str, typer.Option(help="Column of the labels.")]
Points = Annotated[Path, typer.Option(help="File to write the points to.")]


def site(
    table: Table,
    label: Label,
    out: Points,
    peers: Annotated[str, typer.Option(help="Names of the other sites, separated by commas.")] = "",
    drop: Drop = None,
    model: Model = "logistic",
    metric: Metric = "accuracy",
    seed: Seed = 0,
) -> None:
    """Measure how far a site gets with its own rows. Writes sizes and scores, no rows.

    Example: counterplay consortium site north.csv --label y --peers south,east --out north.json
    """
    from counterplay.contribution.sites.own_curve import own_points

    check_files(out)
    names = [name.strip() for name in peers.split(",") if name.strip()]
    points = own_points(
        table, label, names, drop=drop or (), model=model, metric=metric, random_state=seed
    )
    points.to_json(out)
    typer.echo(f"wrote {len(points.site)} points to {out}; no row is in it")


def models(
    table: Table,
    label: Label,
    out: Annotated[Path, typer.Option(help="File to write the models to.")],
    drop: Drop = None,
    seed: Seed = 0,
) -> None:
    """Fit models to the rows of a site, to be sent to the other sites.

    Example: counterplay consortium models north.csv --label y --out north.models.json
    """
    from counterplay.contribution.lab import fit_site_models

    check_files(out)
    found = fit_site_models(table, label, drop=drop or (), random_state=seed)
    found.to_json(out)
    typer.echo(
        f"wrote {len(found.models)} models to {out}; no row is in it, but models of few rows tell "
        "something about them"
    )


def score(
    table: Table,
    label: Label,
    models: Annotated[str, typer.Option(help='Models of all sites: "*.models.json".')],
    out: Points,
    drop: Drop = None,
    metric: Metric = "accuracy",
) -> None:
    """Score the models of all sites on the rows of a site. Writes sizes and scores, no rows.

    Example: counterplay consortium score north.csv --label y --models "*.models.json" --out
    north.json
    """
    from counterplay.contribution.lab import score_site_models

    check_files(out)
    points = score_site_models(table, matching(models), label, metric=metric, drop=drop or ())
    points.to_json(out)
    typer.echo(f"wrote {len(points.site)} points to {out}; no row is in it")


def describe(
    table: Table,
    label: Label,
    out: Annotated[Path, typer.Option(help="File to write the description to.")],
    drop: Drop = None,
) -> None:
    """Describe the columns of a site's table, so that all sites code their rows alike.

    Example: counterplay consortium describe north.csv --label y --out north.site.json
    """
    from counterplay.contribution.lab import describe_site

    check_files(out)
    found = describe_site(table, label, drop=drop or ())
    found.to_json(out)
    typer.echo(
        f"wrote {out}: {found.owned} rows, {len(found.numbers)} columns of numbers as sums, "
        f"{len(found.words)} of words (those of at least five rows); no row is in it"
    )


def app(
    sites: Annotated[list[str], typer.Argument(help='Descriptions of all sites: "*.site.json".')],
    flower: Flower,
    cap: Cap = None,
    force: Force = False,
    seed: Seed = 0,
) -> None:
    """Write a Flower app from the descriptions of all sites; it measures, then trains.

    Example: counterplay consortium app "*.site.json" --flower out/
    """
    from counterplay.contribution.lab import write_measuring_app

    most = numbers(cap, "cap")
    rows = None if most is None else {name: int(n) for name, n in most.items()}
    files = [path for pattern in sites for path in matching(pattern)]
    written = write_measuring_app(files, flower, rows=rows, seed=seed, force=force)
    typer.echo(f"wrote {len(written)} files; measure: flwr run {flower} --run-config measure=true")
