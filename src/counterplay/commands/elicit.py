"""``counterplay elicit catalogue.csv``: a questionnaire in the terminal that can be resumed.

Options side by side in plain words, undo at any time, "why this question", progress, and at the end
the recommendation with its certificate. Every answer is saved before the next question.
Source: docs/theory/26-people.md, "Setting".
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from counterplay.commands.options import check_files

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples: counterplay elicit cars.csv --benefit comfort --cost price; "
    "counterplay elicit cars.csv --benefit comfort --cost price --errors 0.1 --show 3; "
    "counterplay elicit cars.csv --json"
)
def elicit(
    catalogue: Annotated[Path, typer.Argument(help="A table: .csv or .parquet, one row per item.")],
    benefit: Annotated[
        list[str] | None, typer.Option(help="Column where more is better; repeat the option.")
    ] = None,
    cost: Annotated[
        list[str] | None, typer.Option(help="Column where less is better; repeat the option.")
    ] = None,
    either: Annotated[
        list[str] | None,
        typer.Option(help="Column where some people want more, others less; repeat the option."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Column that names the items. By default the column 'name', else the first column "
            "of words in which all items differ."
        ),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(
            help="Stop once the recommendation is at most this share below the best item; "
            "by default 0.05, with --exact 0.01."
        ),
    ] = None,
    errors: Annotated[
        float | None,
        typer.Option(help="Largest share of answers that may be wrong; 0.1 by default."),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(help="Probability with which the certificate is true; 0.95 by default."),
    ] = None,
    show: Annotated[
        int | None, typer.Option(help="Items per question: 2, 3 or 4; 2 by default.")
    ] = None,
    exact: Annotated[
        bool | None,
        typer.Option("--exact", help="Trust every answer, which takes fewer questions."),
    ] = None,
    session: Annotated[
        Path | None,
        typer.Option(help="File that keeps the answers; CATALOGUE.elicit.json by default."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget the saved session and start over.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Seed of all random numbers; 0 by default.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(help="File to write answers and result to, for counterplay verify: .jsonl."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Find the item you want by comparing a few at a time; stop and resume whenever you like."""
    from counterplay.commands.elicit_session import hold

    check_files(session, export)
    hold(
        catalogue,
        {"benefit": benefit, "cost": cost, "either": either},
        {"target": target, "errors": errors, "confidence": confidence, "show": show,
         "exact": exact, "seed": seed, "name": name},
        path=session or catalogue.with_name(catalogue.name + ".elicit.json"),
        fresh=fresh,
        export=export,
        as_json=as_json,
    )  # fmt: skip
