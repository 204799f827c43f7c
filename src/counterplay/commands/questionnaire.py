"""A questionnaire in the terminal: options side by side, answers, undo, why, progress.

Every answer is saved before the next question.
Source: docs/theory/26-people.md, "Setting".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from counterplay.core.files import write_atomic
from counterplay.core.records import write_record
from counterplay.elicitation.catalogue import Catalogue
from counterplay.elicitation.choice_log import ChoiceQuery
from counterplay.elicitation.comparisons import Option, Query
from counterplay.elicitation.polytope_elicitor import PolytopeElicitor
from counterplay.elicitation.reliable_elicitor import ReliableElicitor
from counterplay.elicitation.reliable_result import ReliableResult
from counterplay.elicitation.results import ElicitationResult
from counterplay.elicitation.saved import SavedTerminal, Setup
from counterplay.errors import ContradictionError

if TYPE_CHECKING:
    from rich.console import Console

_COMMANDS = "u undo | w why | s stop now | q save and quit"


@dataclass
class Questionnaire:
    """Talks to a person until the elicitor is done or the person leaves."""

    elicitor: PolytopeElicitor | ReliableElicitor
    catalogue: Catalogue
    console: Console
    path: Path
    digest: str
    """Of the file the questionnaire is about."""
    setup: Setup

    def run(self) -> bool:
        """Ask until done; return False if the person left before."""
        criteria = ", ".join(self.catalogue.columns)
        self.console.print(
            f"{len(self.catalogue)} items, judged by {criteria}. Which would you rather have?",
            markup=False,
        )
        self.save()
        try:
            while True:
                while (query := self.elicitor.ask()) is not None:
                    if not self._one_question(query):
                        self._say_goodbye()
                        return False
                self.save()
                self.show_result(self.elicitor.result())
                if not self._wants_undo():
                    return True
        except (typer.Abort, KeyboardInterrupt, EOFError):
            self._say_goodbye()
            return False

    def _wants_undo(self) -> bool:
        """Ask on the result screen; the end of the input is an enter."""
        if not self.elicitor.events:
            return False
        try:
            word = typer.prompt(
                "u to undo, enter to finish", default="", show_default=False,
                prompt_suffix="\n> ", err=self.console.stderr,
            )  # fmt: skip
        except (typer.Abort, EOFError):
            return False
        return word.strip().lower() == "u" and self._undo()

    def save(self) -> None:
        """Write the session, completely or not at all."""
        record = SavedTerminal(
            kind="questionnaire",
            version=3,
            digest=self.digest,
            setup=self.setup,
            elicitor=json.loads(self.elicitor.to_json()),
        )
        write_atomic(self.path, write_record(record) + "\n")

    def show_question(self, query: Query | ChoiceQuery) -> None:
        """Print the options side by side."""
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("")
        options = _options(query)
        for number, option in enumerate(options, 1):
            table.add_column(f"[{number}] {escape(self._title(option))}", justify="right")
        for j, column in enumerate(self.catalogue.columns):
            cells = [self._cell(option, j) for option in options]
            better = self._better(options, j)
            if better is not None and cells.count(cells[better]) == 1:
                cells[better] = f"[bold]{cells[better]}[/]"
            table.add_row(f"{escape(column)} [dim]({self._direction(column)})[/]", *cells)
        self.console.print()
        self.console.print(f"[bold]Question {query.number + 1}[/]  {self._progress()}")
        if getattr(query, "purpose", "") == "confirm":
            self.console.print(query.reason, style="yellow", markup=False)
        self.console.print(table)
        for number, option in enumerate(options, 1):
            if option.chance < 1:
                self.console.print(
                    f"[{number}] is a lottery: {100 * option.chance:.3g} % chance of the item, "
                    "otherwise you get nothing",
                    markup=False,
                )

    def _direction(self, column: str) -> str:
        if column in self.catalogue.either:
            return "your taste"
        return "less is better" if column in self.catalogue.costs else "more is better"

    def _better(self, options: list[Option], j: int) -> int | None:
        """The option that is best in a column whose sign is known."""
        column = self.catalogue.columns[j]
        rows = [option.item for option in options]
        if column in self.catalogue.either or not all(isinstance(row, int) for row in rows):
            return None
        if any(row < 0 or option.chance < 1 for row, option in zip(rows, options)):
            return None
        numbers = [float(self.catalogue.raw[row, j]) for row in rows]
        best = min(numbers) if column in self.catalogue.costs else max(numbers)
        return numbers.index(best) if numbers.count(best) == 1 else None

    def show_result(self, result: ElicitationResult | ReliableResult) -> None:
        """Print the recommendation, its certificate and the runners-up."""
        from rich.markup import escape
        from rich.table import Table

        self.console.print()
        self.console.print(result.summary(), markup=False)
        if isinstance(self.elicitor, ReliableElicitor):
            table = Table("item", "expected loss", box=None, pad_edge=False, padding=(0, 2, 0, 0))
            for row in self.elicitor.ranking(5).itertuples(index=False):
                table.add_row(escape(str(row[0])), f"{100 * row[1]:.1f} %")
            self.console.print("\nthe leading items, if the model of errors is right:")
            self.console.print(table)
            return
        table = Table("item", "at least", "at most", box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for row in self.elicitor.ranking(5).itertuples(index=False):
            table.add_row(escape(str(row[0])), f"{100 * row[1]:.1f} %", f"{100 * row[2]:.1f} %")
        self.console.print("\nworth of the leading items, as a share of your best item:")
        self.console.print(table)

    def _one_question(self, query: Query | ChoiceQuery) -> bool:
        """Ask one question; return False if the person wants to leave."""
        self.show_question(query)
        numbers = [str(i) for i in range(1, len(_options(query)) + 1)]
        unsure = "cannot say" if isinstance(query, ChoiceQuery) else "same"
        told = " | ".join(numbers)
        told = f"{told} the one you want | 0 about the same, cannot say | {_COMMANDS}"
        while True:
            word = typer.prompt(told, prompt_suffix="\n> ", err=self.console.stderr)
            word = word.strip().lower()
            if word in numbers or word == "0":
                self._answer(unsure if word == "0" else word)
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
                self.console.print(f"'{word}' is none of: {told}", markup=False)

    def _answer(self, answer: str) -> None:
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
        goal = self.elicitor.target_regret
        if isinstance(self.elicitor, ReliableElicitor):
            state = self.elicitor._state
            now = state.credible_regret(state.recommended())
            where = "below your favourite"
            if self.catalogue.either:
                where = "of the way from your favourite to the worst"
            return (
                f"[dim]the best guess so far is probably at most {100 * now:.3g} % {where}; the "
                f"goal is {100 * goal:.3g} %, even if some answers are wrong[/]"
            )
        now = self.elicitor.certificate
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


def _options(query: Query | ChoiceQuery) -> list[Option]:
    return list(query.options) if isinstance(query, ChoiceQuery) else [query.first, query.second]
