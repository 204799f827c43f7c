"""``counterplay data``: the data sets, and where they come from."""

from __future__ import annotations

import importlib
import importlib.util

import typer

from counterplay.commands.options import Json, print_json
from counterplay.errors import DataUnavailableError

app = typer.Typer(add_completion=False)
FIELDS = ("name", "kind", "rows", "description", "available", "where")


@app.command()
def data(as_json: Json = False) -> None:
    """List the data sets, whether they are on this machine, and where they come from."""
    if importlib.util.find_spec("counterplay.datasets") is None:
        raise DataUnavailableError("this installation has no data sets; reinstall counterplay")
    found = importlib.import_module("counterplay.datasets").list_datasets()
    rows = [{field: getattr(item, field) for field in FIELDS} for item in found]
    if as_json:
        print_json(rows)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("name", "kind", "rows", "here", "description", "where", box=None, pad_edge=False)
    table.columns[2].justify = "right"
    table.columns[-1].overflow = "fold"
    for row in rows:
        here = "[green]yes[/]" if row["available"] else "[dim]no[/]"
        count = f"{row['rows']:,}" if isinstance(row["rows"], int) else str(row["rows"] or "")
        table.add_row(
            row["name"],
            row["kind"],
            count,
            here,
            escape(row["description"]),
            escape(str(row["where"])),
        )
    Console().print(table)
