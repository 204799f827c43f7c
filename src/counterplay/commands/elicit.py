"""``counterplay elicit catalogue.csv``: a questionnaire in the terminal that can be resumed.

Two options side by side in plain words, three answers, undo, "why this question", progress, and at
the end the recommendation with its certificate. Every answer is saved before the next question.
Source: docs/theory/08-elicitation.md, "Sessions".
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterplay.core.files import write_atomic
from counterplay.elicitation.catalogue import Catalogue
from counterplay.elicitation.comparisons import Answer, Option, Query
from counterplay.elicitation.polytope_elicitor import PolytopeElicitor
from counterplay.elicitation.results import ElicitationResult
from counterplay.errors import ContradictionError, InvalidInputError
from counterplay.tables import read_table

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

app = typer.Typer(add_completion=False)

_ANSWERS = {"1": Answer.FIRST, "2": Answer.SECOND, "0": Answer.INDISTINGUISHABLE}
_HELP = "1 first | 2 second | 0 about the same | u undo | w why | s stop now | q save and quit"


@app.command()
def elicit(
    catalogue: Annotated[Path, typer.Argument(help="A table: .csv or .parquet, one row per item.")],
    benefit: Annotated[
        list[str] | None, typer.Option(help="Column where more is better; repeat the option.")
    ] = None,
    cost: Annotated[
        list[str] | None, typer.Option(help="Column where less is better; repeat the option.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Column that names the items; the first with distinct words by default."),
    ] = None,
    target: Annotated[
        float, typer.Option(help="Stop when at most this fraction below the best.")
    ] = 0.01,
    session: Annotated[
        Path | None, typer.Option(help="Where answers are kept; CATALOGUE.elicit.json by default.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget a saved session.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the choice of questions.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Find the item you want by comparing two at a time; stop and resume whenever you like."""
    from rich.console import Console

    console = Console(stderr=as_json, highlight=False)
    path = session or catalogue.with_name(catalogue.name + ".elicit.json")
    table = read_table(catalogue)
    for note in table.notes:
        console.print(f"{catalogue.name}: {note}", markup=False)
    frame, digest = _numbered(table.frame), table.sha256
    saved = None if fresh else _read_session(path, catalogue, digest)
    if saved is None:
        benefits, costs = benefit or [], cost or []
        if not benefits and not costs:
            benefits, costs = _ask_columns(frame, name, console)
        setup = {"benefits": benefits, "costs": costs, "name": name or _naming_column(frame)}
    else:
        setup = saved["setup"]
        _check_setup(setup, benefit, cost, path)
    items = _catalogue(frame, setup, console)
    elicitor = (
        PolytopeElicitor(items, target_regret=target, random_state=seed)
        if saved is None
        else PolytopeElicitor.from_json(json.dumps(saved.get("elicitor")), items)
    )
    talk = Questionnaire(elicitor, items, console, path, {"digest": digest, "setup": setup})
    if saved is not None:
        console.print(f"resumed after {len(elicitor.events)} answers from {path.name}")
    if talk.run():
        result = elicitor.result()
        talk.show_result(result)
        if as_json:
            typer.echo(json.dumps(_result_record(result, items)))


@dataclass
class Questionnaire:
    """Talks to a person until the elicitor is done or the person leaves."""

    elicitor: PolytopeElicitor
    catalogue: Catalogue
    console: Console
    path: Path
    header: dict[str, Any] = field(default_factory=dict)

    def run(self) -> bool:
        """Ask until done; return False if the person left before."""
        criteria = ", ".join(self.catalogue.objective_names)
        self.console.print(
            f"{len(self.catalogue)} items, judged by {criteria}. "
            "Which of two would you rather have?",
            markup=False,
        )
        self.save()
        try:
            while (query := self.elicitor.ask()) is not None:
                if not self._one_question(query):
                    self._say_goodbye()
                    return False
        except (typer.Abort, KeyboardInterrupt, EOFError):
            self._say_goodbye()
            return False
        self.save()
        return True

    def save(self) -> None:
        """Write the session, completely or not at all."""
        state = {
            "kind": "questionnaire",
            "version": 1,
            **self.header,
            "elicitor": json.loads(self.elicitor.to_json()),
        }
        write_atomic(self.path, json.dumps(state, indent=1))

    def show_question(self, query: Query) -> None:
        """Print both options side by side."""
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("")
        for number, option in ((1, query.first), (2, query.second)):
            table.add_column(f"[{number}] {escape(self._title(option))}", justify="right")
        for j, column in enumerate(self.catalogue.objective_names):
            cells = [self._cell(option, j) for option in (query.first, query.second)]
            better = _better(query.first.value[j], query.second.value[j])
            if better is not None and cells[better] != cells[1 - better]:
                cells[better] = f"[bold]{cells[better]}[/]"
            direction = "less is better" if column in self.catalogue.costs else "more is better"
            table.add_row(f"{escape(column)} [dim]({direction})[/]", *cells)
        self.console.print()
        self.console.print(f"[bold]Question {query.number + 1}[/]  {self._progress()}")
        if query.purpose == "confirm":
            self.console.print(query.reason, style="yellow", markup=False)
        self.console.print(table)
        for number, option in ((1, query.first), (2, query.second)):
            if option.chance < 1:
                self.console.print(
                    f"[{number}] is a lottery: {100 * option.chance:.3g} % chance of the item, "
                    "otherwise you get nothing",
                    markup=False,
                )

    def show_result(self, result: ElicitationResult) -> None:
        """Print the recommendation, its certificate and the runners-up."""
        from rich.markup import escape
        from rich.table import Table

        self.console.print()
        self.console.print(result.summary(), markup=False)
        table = Table("item", "at least", "at most", box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for row in self.elicitor.ranking(5).itertuples(index=False):
            table.add_row(escape(str(row[0])), f"{100 * row[1]:.1f} %", f"{100 * row[2]:.1f} %")
        self.console.print("\nworth of the leading items, as a share of your best item:")
        self.console.print(table)

    def _one_question(self, query: Query) -> bool:
        """Ask one question; return False if the person wants to leave."""
        self.show_question(query)
        while True:
            word = typer.prompt(_HELP, prompt_suffix="\n> ", err=self.console.stderr)
            word = word.strip().lower()
            if word in _ANSWERS:
                self._answer(_ANSWERS[word])
                return True
            if word == "w":
                self.console.print(f"Why: {query.reason}.", markup=False)
            elif word == "u":
                if self._undo():
                    return True
            elif word == "s":
                self.elicitor.stop()
                return True
            elif word == "q":
                return False
            else:
                self.console.print(f"'{word}' is none of: {_HELP}", markup=False)

    def _answer(self, answer: Answer) -> None:
        try:
            self.elicitor.tell(answer)
        except ContradictionError as error:
            self.console.print(f"{error}", style="yellow", markup=False)
            return
        self.save()

    def _undo(self) -> bool:
        if not self.elicitor.events:
            self.console.print("there is no answer to take back")
            return False
        self.elicitor.undo()
        self.save()
        self.console.print("took the last answer back")
        return True

    def _progress(self) -> str:
        now = self.elicitor.certificate
        goal = self.elicitor.target_regret
        return (
            f"[dim]the best guess so far is at most {100 * now:.3g} % below your favourite; "
            f"{100 * goal:.3g} % is the goal[/]"
        )

    def _title(self, option: Option) -> str:
        if option.chance <= 0 or not isinstance(option.item, int) or option.item < 0:
            return "nothing"
        name = self.catalogue.names[option.item]
        return name if option.chance >= 1 else f"{100 * option.chance:.3g} % chance of {name}"

    def _cell(self, option: Option, j: int) -> str:
        if option.chance <= 0 or not isinstance(option.item, int) or option.item < 0:
            return "-"
        number = float(self.catalogue.raw[option.item, j])
        return f"{number:,.0f}" if abs(number) >= 1e4 else f"{number:,.4g}"

    def _say_goodbye(self) -> None:
        self.console.print(
            f"\nsaved {len(self.elicitor.events)} answers in {self.path}; "
            "the same command continues",
            markup=False,
        )


def _better(first: float, second: float) -> int | None:
    return None if first == second else int(second > first)


def _numbered(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with its rows counted from 0; a named index becomes a column."""
    name = frame.index.name
    return frame.reset_index(drop=not isinstance(name, str) or name in frame.columns)


def _read_session(path: Path, catalogue: Path, digest: str) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError:
        saved = None
    parts = saved if isinstance(saved, dict) else {}
    if parts.get("kind") != "questionnaire" or not _is_setup(parts.get("setup")):
        raise InvalidInputError(f"{path} is not a saved questionnaire; start over with --fresh")
    if saved.get("digest") != digest:
        raise InvalidInputError(
            f"{catalogue.name} has changed since {path.name} was saved; start over with --fresh"
        )
    return parts


def _is_setup(setup: Any) -> bool:
    if not isinstance(setup, dict):
        return False
    lists = [setup.get("benefits"), setup.get("costs")]
    words = all(isinstance(part, list) and all(type(c) is str for c in part) for part in lists)
    return words and isinstance(setup.get("name", 0), str | None)


def _check_setup(
    setup: dict[str, Any], benefit: list[str] | None, cost: list[str] | None, path: Path
) -> None:
    for given, known in ((benefit, setup["benefits"]), (cost, setup["costs"])):
        if given is not None and list(given) != list(known):
            raise InvalidInputError(
                f"{path.name} was started with other columns ({', '.join(known) or 'none'}); "
                "start over with --fresh"
            )


def _ask_columns(
    frame: pd.DataFrame, name: str | None, console: Console
) -> tuple[list[str], list[str]]:
    """Ask for every numeric column whether more or less of it is better."""
    benefits: list[str] = []
    costs: list[str] = []
    console.print("For each column: m more is better, l less is better, i ignore.")
    for column in frame.select_dtypes("number").columns:
        if str(column) == name:
            continue
        low, high = frame[column].min(), frame[column].max()
        text = f"{column} ({low:g} to {high:g})"
        word = typer.prompt(text, default="i", err=console.stderr).strip().lower()
        if word.startswith("m"):
            benefits.append(str(column))
        elif word.startswith("l"):
            costs.append(str(column))
    if not benefits and not costs:
        raise InvalidInputError("no column was chosen; at least one benefit or cost is needed")
    return benefits, costs


def _catalogue(frame: pd.DataFrame, setup: dict[str, Any], console: Console) -> Catalogue:
    """Return the complete items; each keeps the number of its row in the file."""
    columns = [*setup["benefits"], *setup["costs"]]
    known = [column for column in columns if column in frame.columns]
    complete = frame[frame[known].notna().all(axis=1)]
    if len(complete) < len(frame):
        console.print(f"left out {len(frame) - len(complete)} items with missing numbers")
    if len(complete) < 2:
        found = "only one complete item" if len(complete) else "no complete item"
        raise InvalidInputError(f"the catalogue has {found}; a choice needs two")
    return Catalogue(complete, benefits=setup["benefits"], costs=setup["costs"], name=setup["name"])


def _naming_column(frame: pd.DataFrame) -> str | None:
    """The first column of words in which every item has a different one."""
    for column in frame.select_dtypes(exclude="number").columns:
        if frame[column].notna().all() and frame[column].is_unique:
            return str(column)
    return None


def _result_record(result: ElicitationResult, items: Catalogue) -> dict[str, Any]:
    """Return the result for programs; ``row`` counts the rows from 0, without the header."""
    return {
        "row": int(result.row),
        "name": items.names[result.index],
        "regret_certificate": result.regret_certificate,
        "questions": result.n_queries,
        "weights": dict(
            zip(result.objective_names, [] if result.weights is None else result.weights.tolist())
        ),
        "contradictions": [str(contradiction) for contradiction in result.contradictions],
        "notes": list(result.notes),
    }
