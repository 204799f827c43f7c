"""What runs at one site, or between sites whose tables stay where they are.

``site``: the site's own curve. ``models`` and ``score``: models travel, every site scores all of
them. ``describe`` and ``app``: a Flower app that measures mixtures without pooling rows.
Source: "The private variant", docs/theory/23-consortium.md.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from counterplay.errors import InvalidInputError
from counterplay.tables.cells import shown


@dataclass(frozen=True)
class Given:
    """What the command line said."""

    tables: Sequence[str]
    label: str | None
    peers: str | None
    models: str | None
    out: Path | None
    flower: Path | None
    rows: dict[str, float] | None
    drop: Sequence[str]
    model: str
    metric: str
    progress: bool
    force: bool
    seed: int

    def one_table(self, verb: str) -> tuple[str, str, Path]:
        """The table of a site, its label and where to write."""
        if len(self.tables) != 1 or self.label is None or self.out is None:
            raise InvalidInputError(
                f"{verb} needs one table, --label and --out: {verb} north.csv ..."
            )
        return self.tables[0], self.label, self.out


def _site(given: Given) -> None:
    """Measure one site's own curve and write its points: sizes and scores, no rows."""
    from counterplay.contribution.sites.own_curve import own_points

    table, label, out = given.one_table("site")
    names = [name.strip() for name in (given.peers or "").split(",") if name.strip()]
    points = own_points(
        table, label, names, drop=given.drop, model=given.model, metric=given.metric,
        progress=given.progress, random_state=given.seed,
    )  # fmt: skip
    points.to_json(out)
    typer.echo(f"wrote {len(points.site)} points to {out}; no row is in it")


def _models(given: Given) -> None:
    """Fit models on one site's rows and write them, to be sent to the others."""
    from counterplay.contribution.lab import fit_site_models

    table, label, out = given.one_table("models")
    found = fit_site_models(table, label, drop=given.drop, random_state=given.seed)
    found.to_json(out)
    typer.echo(
        f"wrote {len(found.models)} models to {out}; no row is in it, but models of few rows tell "
        "something about them"
    )


def _score(given: Given) -> None:
    """Score everybody's models on one site's rows and write its points."""
    from counterplay.contribution.lab import score_site_models

    table, label, out = given.one_table("score")
    if given.models is None:
        raise InvalidInputError('score needs the models of all sites: --models "*.models.json"')
    points = score_site_models(
        table, matching(given.models), label, metric=given.metric, drop=given.drop,
        progress=given.progress,
    )  # fmt: skip
    points.to_json(out)
    typer.echo(f"wrote {len(points.site)} points to {out}; no row is in it")


def _describe(given: Given) -> None:
    """Write what a site tells about its table so that all code rows alike."""
    from counterplay.contribution.lab import describe_site

    table, label, out = given.one_table("describe")
    found = describe_site(table, label, drop=given.drop)
    found.to_json(out)
    typer.echo(
        f"wrote {out}: {found.owned} rows, {len(found.numbers)} columns of numbers as sums, "
        f"{len(found.words)} of words (those of at least five rows); no row is in it"
    )


def _app(given: Given) -> None:
    """Write a Flower app of sites that described their tables: it measures, then trains."""
    from counterplay.contribution.lab import write_measuring_app

    if given.flower is None or not given.tables:
        raise InvalidInputError("app needs descriptions and --flower: app north.site.json ...")
    rows = None if given.rows is None else {name: int(n) for name, n in given.rows.items()}
    sites = [path for pattern in given.tables for path in matching(pattern)]
    written = write_measuring_app(
        sites, given.flower, rows=rows, seed=given.seed, force=given.force
    )
    typer.echo(
        f"wrote {len(written)} files; measure: flwr run {given.flower} --run-config measure=true"
    )


VERBS: dict[str, Callable[[Given], None]] = {
    "site": _site,
    "models": _models,
    "score": _score,
    "describe": _describe,
    "app": _app,
}


def matching(pattern: str) -> list[str]:
    """The files that a pattern names, in order."""
    found = sorted(glob.glob(pattern))
    if not found:
        raise InvalidInputError(f"no file matches {shown(pattern, 60)}")
    return found
