"""``counterplay choices panel.csv``: how tastes are spread, from recorded choices.

Source: docs/theory/26-people.md, "Recorded choices".
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from counterplay.commands.options import Json, print_json, say_notes

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Example: counterplay choices panel.csv --person id --task chid --alternative alt "
    "--chosen choice"
)
def choices(
    panel: Annotated[Path, typer.Argument(help="A table: one row per alternative on offer.")],
    person: Annotated[str, typer.Option(help="Column that says who chose.")],
    task: Annotated[
        str, typer.Option(help="Column that names the task: one choice among alternatives.")
    ],
    alternative: Annotated[str, typer.Option(help="Column that names the alternative.")],
    chosen: Annotated[
        str, typer.Option(help="Column that is 1 for the chosen alternative, else 0.")
    ],
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            help="Column that describes the alternatives; all other columns of numbers by default."
        ),
    ] = None,
    reveal: Annotated[
        int,
        typer.Option(
            min=0, help="How many choices of a new person are seen before the others are predicted."
        ),
    ] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 0,
    as_json: Json = False,
) -> None:
    """Learn how much people's tastes differ, and how well the choices of new people are predicted.

    Tastes are learned from seven tenths of the people; the choices of the others are predicted.
    """
    import numpy as np

    from counterplay.elicitation.choice_panel import ChoicePanel
    from counterplay.tables import read_table

    table = read_table(panel)
    say_notes(panel, table.notes)
    frame = table.frame
    keys = {person, task, alternative, chosen}
    columns = attribute or [c for c in frame.select_dtypes("number").columns if c not in keys]
    read = ChoicePanel(
        frame, person=person, task=task, alternative=alternative, chosen=chosen, attributes=columns
    )
    teaches = np.random.default_rng(seed).permutation(read.n_people) < 0.7 * read.n_people
    population = read.subset(teaches[read.who]).fit_population(random_state=seed)
    score = None
    if np.bincount(read.who).max() > reveal and not teaches.all():
        score = population.score(read.subset(~teaches[read.who]), reveal=reveal, random_state=seed)
    if as_json:
        found = {"population": population.to_dict(), "score": score and score.to_dict()}
        print_json(found)
        return
    typer.echo(read.describe())
    typer.echo(population.summary())
    if score is not None:
        typer.echo(score.summary())
