"""``counterplay report``: one HTML page from the stored results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    Seed,
    StorePath,
    UseBackend,
    check_writable,
    print_json,
    store_path,
)
from counterplay.commands.run import can_run

if TYPE_CHECKING:
    from counterplay.report import Report
    from counterplay.report.content import StudySection
    from counterplay.studies.registry import RegisteredStudy
    from counterplay.studies.store import Store

app = typer.Typer(add_completion=False)


@app.command(epilog="Examples: counterplay report --run; counterplay report strategic --scale full")
def report(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[AREA | AREA/NAME]...",
            help="What to show; everything by default.",
            autocompletion=known_targets,
        ),
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="Compute missing cells first.")] = False,
    scale: Annotated[
        Literal["quick", "full"] | None,
        typer.Option("--scale", help="By default full where it is complete, else quick."),
    ] = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    backend: UseBackend = "joblib",
    address: Address = None,
    store: StorePath = None,
    out: Out = OUT,
    fresh: Fresh = False,
    refresh: Refresh = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write one self-contained HTML page, OUT/report.html, from the stored results."""
    from counterplay.studies.threads import limit_new_libraries

    limit_new_libraries()
    from counterplay.report import render_html
    from counterplay.studies.registry import load_areas, select, studies_of
    from counterplay.studies.runner import CellError, run_studies, worker_count
    from counterplay.studies.store import Store

    entries = select(targets) if targets else studies_of(load_areas())
    talk = not (quiet or as_json)
    failed: CellError | None = None
    if run:
        check_writable(out)
    with Store(store_path(store, out), create=run) as opened:
        check_writable(out)
        if run:
            try:
                run_studies(
                    can_run(entries, scale or "quick", talk),
                    opened,
                    scale=scale or "quick",
                    seed=seed,
                    jobs=jobs,
                    backend=backend,
                    address=address,
                    fresh=fresh,
                    refresh=refresh,
                    progress=talk,
                )
            except CellError as error:
                failed = error
        content = _collect(entries, opened, scale, seed, worker_count(jobs), talk)
    path = _write(content, render_html(content), out)
    if as_json:
        print_json(_as_json(content, path))
    elif talk:
        _print(content, path)
    if failed is not None:
        raise failed


def _collect(
    entries: list[RegisteredStudy],
    store: Store,
    scale: Literal["quick", "full"] | None,
    seed: int,
    jobs: int,
    talk: bool,
) -> Report:
    from counterplay.core.progress import progress_bar
    from counterplay.report import build_report

    with progress_bar(talk) as bar:
        line = bar.add_task("verdicts and figures", total=len(entries))
        return build_report(
            entries, store, scale=scale, seed=seed, jobs=jobs, on_study=lambda: bar.advance(line)
        )


def _write(content: Report, page: str, out: Path) -> Path:
    """Write the page, and its figures with their numbers as files beside it."""
    from counterplay.core.files import write_atomic
    from counterplay.studies.results import figure_folder

    for section in content.areas:
        for study in section.studies:
            folder = figure_folder(study.entry, out)
            for figure in study.figures:
                figure.files.write(folder, study.entry.study.name)
            if study.result is not None:
                study.result.write_numbers(folder)
    return write_atomic(out / "report.html", page)


def _print(content: Report, path: Path) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    console.print(f"report  {path}", markup=False)
    starts = [section.area for section in content.areas if section.area.start]
    if starts:
        console.print("\nWhat you can do with data of your own:")
    for area in starts:
        console.print(f"  {area.title}\n    {area.start}", markup=False)
    total = content.holds + content.fails
    color = "green" if not content.fails else "bold red"
    console.print(f"\n[{color}]{content.holds} of {total} comparisons with theory hold[/]")
    missing: dict[str, list[str]] = {}
    for study in content.missing:
        missing.setdefault(_why_missing(study), []).append(study.entry.id)
    for why, names in missing.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        console.print(f"left out ({why}): {', '.join(names[:3])}{more}", markup=False)


def _why_missing(study: StudySection) -> str:
    from counterplay.studies.registry import extra_is_installed

    if not extra_is_installed(study.entry.study.extra):
        return f"needs counterplay[{study.entry.study.extra}]"
    if study.incomplete is not None and study.incomplete.stale:
        return "computed by an earlier version of the code, add --run --refresh"
    return "not run yet, add --run"


def _as_json(content: Report, path: Path) -> dict[str, Any]:
    return {
        "report": str(path),
        "holds": content.holds,
        "fails": content.fails,
        "areas": [
            {
                "area": section.area.name,
                "claims": len(section.claims),
                "studies": len(section.studies),
                "complete": len(section.results),
                "holds": section.holds,
                "fails": section.fails,
            }
            for section in content.areas
        ],
        "missing": [study.entry.id for study in content.missing],
    }
