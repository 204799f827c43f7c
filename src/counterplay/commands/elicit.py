"""``counterplay elicit catalogue.csv``: a questionnaire in the terminal that can be resumed.

Two options side by side in plain words, three answers, undo, "why this question", progress, and at
the end the recommendation with its certificate. Every answer is saved before the next question.
Source: docs/theory/08-elicitation.md, "Sessions".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from counterplay.core import export_bodies as lines
from counterplay.core.exports import EventChain, write_export
from counterplay.core.files import read_limited, write_atomic
from counterplay.core.records import LIMIT, read_record, write_record
from counterplay.elicitation.catalogue import Catalogue
from counterplay.elicitation.comparisons import Answer, Option, Query
from counterplay.elicitation.polytope_elicitor import PolytopeElicitor
from counterplay.elicitation.results import ElicitationResult
from counterplay.elicitation.saved import SavedTerminal, Setup
from counterplay.errors import ContradictionError, InvalidInputError, InvalidStateError
from counterplay.tables import read_table

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

app = typer.Typer(add_completion=False)

_ANSWERS = {"1": Answer.FIRST, "2": Answer.SECOND, "0": Answer.INDISTINGUISHABLE}
_HELP = "1 first | 2 second | 0 about the same | u undo | w why | s stop now | q save and quit"


@app.command(
    epilog="Examples: counterplay elicit cars.csv --benefit comfort --cost price; "
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
    export: Annotated[
        Path | None,
        typer.Option(help="Write answers and result as .jsonl for 'counterplay verify'."),
    ] = None,
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
        naming = name or _naming_column(frame)
        setup = Setup(benefits=tuple(benefits), costs=tuple(costs), name=naming)
    else:
        setup = saved.setup
        _check_setup(setup, benefit, cost, path)
    items = _catalogue(frame, setup, console)
    if saved is None:
        elicitor = PolytopeElicitor(items, target_regret=target, random_state=seed)
    else:
        with _or_start_over():
            elicitor = PolytopeElicitor.from_json(json.dumps(saved.elicitor), items)
    talk = Questionnaire(elicitor, items, console, path, digest, setup)
    if saved is not None:
        console.print(f"resumed after {len(elicitor.events)} answers from {path.name}")
    if talk.run():
        result = elicitor.result()
        talk.show_result(result)
        if export is not None:
            write_atomic(export, export_text(catalogue.name, elicitor, items))
            console.print(f"wrote {export}; check it with: counterplay verify {export}")
        if as_json:
            typer.echo(json.dumps(_result_record(result, items)))


@dataclass
class Questionnaire:
    """Talks to a person until the elicitor is done or the person leaves."""

    elicitor: PolytopeElicitor
    catalogue: Catalogue
    console: Console
    path: Path
    digest: str
    """Of the file the questionnaire is about."""
    setup: Setup

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
        record = SavedTerminal(
            kind="questionnaire",
            version=2,
            digest=self.digest,
            setup=self.setup,
            elicitor=json.loads(self.elicitor.to_json()),
        )
        write_atomic(self.path, write_record(record) + "\n")

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


@contextmanager
def _or_start_over() -> Iterator[None]:
    """A damaged session says what to do about it."""
    try:
        yield
    except InvalidStateError as error:
        raise InvalidStateError(f"{error!s:.270}; start over with --fresh") from None


def _read_session(path: Path, catalogue: Path, digest: str) -> SavedTerminal | None:
    if not path.exists():
        return None
    what = f"the saved questionnaire {path.name[:80]}"
    data = read_limited(path, what="the saved questionnaire", limit=LIMIT)
    with _or_start_over():
        saved = read_record(data, SavedTerminal, what=what)
    if saved.digest != digest:
        raise InvalidInputError(
            f"{catalogue.name} has changed since {path.name} was saved; start over with --fresh"
        )
    return saved


def _check_setup(
    setup: Setup, benefit: list[str] | None, cost: list[str] | None, path: Path
) -> None:
    for given, known in ((benefit, setup.benefits), (cost, setup.costs)):
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


def _catalogue(frame: pd.DataFrame, setup: Setup, console: Console) -> Catalogue:
    """Return the complete items; each keeps the number of its row in the file."""
    columns = [*setup.benefits, *setup.costs]
    known = [column for column in columns if column in frame.columns]
    complete = frame[frame[known].notna().all(axis=1)]
    if len(complete) < len(frame):
        console.print(f"left out {len(frame) - len(complete)} items with missing numbers")
    if len(complete) < 2:
        found = "only one complete item" if len(complete) else "no complete item"
        raise InvalidInputError(f"the catalogue has {found}; a choice needs two")
    return Catalogue(complete, benefits=setup.benefits, costs=setup.costs, name=setup.name)


def _naming_column(frame: pd.DataFrame) -> str | None:
    """The first column of words in which every item has a different one."""
    for column in frame.select_dtypes(exclude="number").columns:
        if frame[column].notna().all() and frame[column].is_unique:
            return str(column)
    return None


def export_text(study: str, elicitor: PolytopeElicitor, items: Catalogue) -> str:
    """Answers and result as an export: a chain of events that ``counterplay verify`` recomputes."""
    chain, who = EventChain("person"), "person"
    pool = elicitor._state_or_new().pool
    for number, entry in enumerate(elicitor.events):
        ids = (None, None) if entry.options is None else [pool.items[i] for i in entry.options]
        first, second = (
            lines.Shown(id=i, values=tuple(values.tolist()))
            for i, values in zip(ids, (entry.first, entry.second))
        )
        body = lines.Answered(
            number=number,
            shown=lines.Pair(first=first, second=second),
            answer=entry.answer.value,
            purpose=entry.purpose,
            about=entry.about,
        )
        chain.add("elicit.answered", msgspec.to_builtins(body), actor=who)
    result = elicitor.result()
    stated = lines.ElicitationStated(
        item=result.index,
        regret_certificate=result.regret_certificate,
        set_aside=tuple(sorted(elicitor._state_or_new().aside)),
        questions=len(elicitor.events),
    )
    chain.add("elicit.result", msgspec.to_builtins(stated), actor=who)
    config = lines.ElicitationConfig(
        items=tuple(map(tuple, items.values.tolist())),
        target=elicitor.target_regret,
        wrong_answers=elicitor.wrong_answers,
        columns=lines.Columns(
            benefits=tuple(map(str, items.benefits)),
            costs=tuple(map(str, items.costs)),
            scale=items.scale,
            rows=tuple(map(int, items.index)),
        ),
    )
    return write_export(study, "elicitation", msgspec.to_builtins(config), [chain])


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
