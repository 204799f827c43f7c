"""``counterplay list``: the areas and their studies."""

from __future__ import annotations

from dataclasses import asdict

import typer

from counterplay.commands.options import Json, print_json, print_table

app = typer.Typer(add_completion=False)


@app.command(epilog="Examples: counterplay list; counterplay list --json")
def list_studies(as_json: Json = False) -> None:
    """List the areas and their studies."""
    from counterplay.studies.outline import outlines

    areas = outlines()
    if as_json:
        print_json(
            [
                {
                    "area": area.name,
                    "title": area.title,
                    "studies": [asdict(study) for study in area.studies],
                }
                for area in areas
            ]
        )
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    for area in areas:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        for study in area.studies:
            needs = (
                f" [dim](full scale needs {escape(study.full_needs)})[/]"
                if study.full_needs
                else ""
            )
            table.add_row(f"  {study.id}", escape(study.title) + needs)
        console.print(f"[bold]{area.name}[/]  {escape(area.title)}")
        print_table(console, table, (0,))
    if not areas:
        console.print("no area is installed")
