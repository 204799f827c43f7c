"""``counterplay run``: execute missing cells, print verdicts, write figures and their numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterplay.commands.completing import targets as known_targets
from counterplay.commands.options import (
    OUT,
    Address,
    Fresh,
    Jobs,
    Json,
    Out,
    Quiet,
    Refresh,
    ScaleOption,
    Seed,
    StorePath,
    UseBackend,
    check_writable,
    print_json,
    print_table,
    store_path,
)
from counterplay.errors import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    from counterplay.studies.registry import RegisteredStudy
    from counterplay.studies.results import StudyResult
    from counterplay.studies.runner import RunSummary
    from counterplay.studies.store import Store
    from counterplay.studies.study import Scale

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples: counterplay run strategic/gaming; counterplay run tradeoff --scale full; "
    "counterplay run --all --check"
)
def run(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[AREA | AREA/NAME]...", help="What to run.", autocompletion=known_targets
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run every study.")] = False,
    scale: ScaleOption = "quick",
    seed: Seed = 0,
    jobs: Jobs = None,
    backend: UseBackend = "joblib",
    address: Address = None,
    store: StorePath = None,
    out: Out = OUT,
    fresh: Fresh = False,
    refresh: Refresh = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with code 3 when a verdict fails.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run studies: compute the cells that are missing, print verdicts and write figures."""
    from counterplay.studies.threads import limit_new_libraries

    limit_new_libraries()
    from counterplay.studies.runner import CellError, run_studies, worker_count
    from counterplay.studies.store import Store

    talk = not (quiet or as_json)
    entries = can_run(_chosen(targets or [], everything), scale, talk)
    failed: CellError | None = None
    check_writable(out)
    with Store(store_path(store, out)) as opened:
        try:
            summary = run_studies(
                entries,
                opened,
                scale=scale,
                seed=seed,
                jobs=jobs,
                backend=backend,
                address=address,
                fresh=fresh,
                refresh=refresh,
                progress=talk,
            )
        except CellError as error:
            failed, summary = error, error.summary
        results = _complete(entries, opened, scale, seed)
    shown = _show(results, worker_count(jobs), out, talk)
    if as_json:
        print_json([_as_json(result, files, summary) for result, files in shown])
    if failed is not None:
        raise failed
    if check and not all(result.holds for result, _ in shown):
        raise typer.Exit(3)


def _chosen(targets: list[str], everything: bool) -> list[RegisteredStudy]:
    from counterplay.studies.registry import load_areas, select, studies_of

    if everything:
        if targets:
            raise InvalidInputError("name studies or give --all, not both")
        return studies_of(load_areas())
    if not targets:
        raise InvalidInputError(
            "name a study (AREA/NAME), an area, or --all; 'counterplay list' shows what there is"
        )
    return select(targets)


def can_run(entries: list[RegisteredStudy], scale: Scale, talk: bool) -> list[RegisteredStudy]:
    """Leave out studies that lack a package or data and say so; raise when none is left."""
    from counterplay.studies.registry import what_is_missing

    lacking = {entry.id: what_is_missing(entry.study, scale) for entry in entries}
    ready = [entry for entry in entries if lacking[entry.id] is None]
    waiting = [entry for entry in entries if lacking[entry.id] is not None]
    if waiting and not ready:
        raise MissingDependencyError(f"{waiting[0].id} needs {lacking[waiting[0].id]}")
    if talk:
        for entry in waiting:
            typer.echo(f"left out {entry.id}: needs {lacking[entry.id]}", err=True)
    return ready


def _complete(
    entries: list[RegisteredStudy], store: Store, scale: Scale, seed: int
) -> list[StudyResult]:
    from counterplay.studies.results import StudyResult, load_result

    found = (load_result(entry, store, scale=scale, seed=seed) for entry in entries)
    return [result for result in found if isinstance(result, StudyResult)]


def _show(
    results: list[StudyResult], jobs: int, out: Path, talk: bool
) -> list[tuple[StudyResult, list[Path]]]:
    """Print the verdicts, write figures and then numbers of every study that is complete."""
    from counterplay.studies.results import figure_folder, render_figures

    shown = []
    for result, figures in zip(results, render_figures(results, jobs)):
        folder, stem = figure_folder(result.entry, out), result.entry.study.name
        files = [path for figure in figures for path in figure.write(folder, stem)]
        files.append(result.write_numbers(folder))
        shown.append((result, files))
        if talk:
            _print(result, files)
    return shown


_MARKS = {True: "[green]holds[/]", False: "[bold red]FAILS[/]", None: "[dim]seen[/]"}


def _print(result: StudyResult, files: list[Path]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    table = Table("", "claim", "statement", "measured", "expected", box=None, pad_edge=False)
    for verdict in result.verdicts:
        mark = _MARKS[verdict.holds]
        texts = (verdict.claim, verdict.statement, verdict.measured, verdict.expected)
        table.add_row(mark, *map(escape, texts))
    console.print(
        f"\n[bold]{result.id}[/]  {escape(result.entry.study.title)}  "
        f"[dim]{len(result.frame)} cells, {result.wall_time:.1f} s[/]"
    )
    print_table(console, table, (0, 1), room=50)
    for path in files:
        if path.suffix == ".png":
            console.print(f"[dim]figure[/] {escape(str(path))}", soft_wrap=True, highlight=False)


def _as_json(result: StudyResult, files: list[Path], summary: RunSummary) -> dict[str, Any]:
    return {
        "study": result.id,
        "scale": result.scale,
        "seed": result.seed,
        "cells": len(result.frame),
        "computed": summary.computed[result.id],
        "wall_time": result.wall_time,
        "holds": result.holds,
        "verdicts": [vars(verdict) for verdict in result.verdicts],
        "figures": [str(path) for path in files[:-1]],
        "numbers": str(files[-1]),
    }
