"""``counterplay data``: the data sets, and where they come from."""

from __future__ import annotations

import typer

from counterplay.commands.options import Json, print_json, print_table

app = typer.Typer(add_completion=False)


@app.command(epilog="Examples: counterplay data; counterplay data --json")
def data(as_json: Json = False) -> None:
    """List the data sets, whether they are on this machine, and where they come from."""
    from counterplay.datasets import list_datasets

    rows = [vars(item) for item in list_datasets()]
    if as_json:
        print_json(rows)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("name", "kind", "rows", "here", "description", "where", box=None, pad_edge=False)
    table.columns[2].justify = "right"
    for row in rows:
        here = "[green]yes[/]" if row["available"] else "[dim]no[/]"
        words = (escape(row[field]) for field in ("description", "where"))
        table.add_row(row["name"], row["kind"], f"{row['rows']:,}", here, *words)
    print_table(Console(), table, (0,), room=50)
