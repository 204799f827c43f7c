"""A questionnaire that ``counterplay elicit`` begins or resumes, from the catalogue to the result.

Source: docs/theory/26-people.md, "Setting".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from counterplay.commands.questionnaire import Questionnaire
from counterplay.core import export_bodies as lines
from counterplay.core.exports import EventChain, write_export
from counterplay.core.files import read_limited, write_atomic
from counterplay.core.records import LIMIT, read_record
from counterplay.elicitation.catalogue import Catalogue
from counterplay.elicitation.polytope_elicitor import PolytopeElicitor
from counterplay.elicitation.reliable_elicitor import ReliableElicitor
from counterplay.elicitation.reliable_result import ReliableResult
from counterplay.elicitation.results import ElicitationResult
from counterplay.elicitation.saved import SavedTerminal, Setup
from counterplay.elicitation.slips import AtMost
from counterplay.errors import (
    InvalidInputError,
    InvalidStateError,
    UnknownNameError,
)
from counterplay.tables import read_table

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

_TARGET, _EXACT_TARGET = 0.05, 0.01


def hold(
    catalogue: Path,
    columns: dict[str, list[str] | None],
    given: dict[str, Any],
    *,
    path: Path,
    fresh: bool,
    export: Path | None,
    as_json: bool,
) -> None:
    """Ask until the person is done or leaves; ``columns`` and ``given`` say what was asked for."""
    from rich.console import Console

    console = Console(stderr=as_json, highlight=False)
    table = read_table(catalogue)
    for note in table.notes:
        console.print(f"{catalogue.name}: {note}", markup=False)
    frame, digest = _numbered(table.frame), table.sha256
    name = given["name"]
    benefit, cost, either = (columns[kind] or [] for kind in ("benefit", "cost", "either"))
    _check_columns(frame, [*benefit, *cost, *either, *([] if name is None else [name])])
    saved = None if fresh else _read_session(path, catalogue, digest)
    if saved is None:
        if not benefit and not cost and not either:
            benefit, cost = _ask_columns(frame, name, console)
        setup = Setup(
            benefits=tuple(benefit), costs=tuple(cost), name=name or _naming_column(frame),
            either=tuple(either), exact=bool(given["exact"]), seed=given["seed"] or 0,
        )  # fmt: skip
    else:
        setup = saved.setup
        _check_setup(setup, columns, path)
    items = _catalogue(frame, setup, console)
    if saved is None:
        elicitor = _new_elicitor(items, setup, given)
    else:
        kind = PolytopeElicitor if setup.exact else ReliableElicitor
        with _or_start_over():
            elicitor = kind.from_json(json.dumps(saved.elicitor), items)
        _check_options(elicitor, setup, given, path)
    talk = Questionnaire(elicitor, items, console, path, digest, setup)
    if saved is not None:
        console.print(f"resumed after {len(elicitor.events)} answers from {path.name}")
    finished = talk.run()
    if finished and export is not None:
        told = (
            export_text(catalogue.name, elicitor, items)
            if isinstance(elicitor, PolytopeElicitor)
            else elicitor.export(catalogue.name)
        )
        write_atomic(export, told)
        console.print(f"wrote {export}; check it with: counterplay verify {export}")
    if as_json:
        result = elicitor.result()
        typer.echo(json.dumps({**_result_record(result, items), "finished": finished}))


def _new_elicitor(
    items: Catalogue, setup: Setup, given: dict[str, Any]
) -> PolytopeElicitor | ReliableElicitor:
    """Start the questionnaire that was asked for."""
    target = given["target"]
    if setup.exact:
        for option in ("errors", "confidence", "show"):
            if given[option] is not None:
                raise InvalidInputError(f"--{option} does not go with --exact")
        regret = _EXACT_TARGET if target is None else target
        return PolytopeElicitor(items, target_regret=regret, random_state=setup.seed)
    errors, confidence, show = (given[name] for name in ("errors", "confidence", "show"))
    return ReliableElicitor(
        items,
        target_regret=_TARGET if target is None else target,
        errors=AtMost(0.1 if errors is None else errors),
        confidence=0.95 if confidence is None else confidence,
        show=2 if show is None else show,
        random_state=setup.seed,
    )


def _check_options(
    elicitor: PolytopeElicitor | ReliableElicitor, setup: Setup, given: dict[str, Any], path: Path
) -> None:
    """Refuse an option that differs from the saved session, by its name."""
    known: dict[str, Any] = {
        "target": elicitor.target_regret, "seed": setup.seed, "name": setup.name,
        "exact": setup.exact,
    }  # fmt: skip
    if isinstance(elicitor, ReliableElicitor):
        known |= {
            "errors": getattr(elicitor.errors, "rate", None),
            "confidence": elicitor.confidence,
            "show": elicitor.show,
        }
    for option, value in given.items():
        if value is not None and value != known.get(option):
            raise InvalidInputError(
                f"{path.name} was started with --{option} {known.get(option)}, not {value}; leave "
                "it out or start over with --fresh"
            )


def _check_columns(frame: pd.DataFrame, columns: list[str]) -> None:
    """An unknown column is named before any session is read."""
    known = [str(column) for column in frame.columns]
    for column in columns:
        if column not in known:
            raise UnknownNameError.among("column", column[:60], [c[:60] for c in known])


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


def _check_setup(setup: Setup, columns: dict[str, list[str] | None], path: Path) -> None:
    kept = (setup.benefits, setup.costs, setup.either)
    for given, known in zip(columns.values(), kept):
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
    columns = [*setup.benefits, *setup.costs, *setup.either]
    known = [column for column in columns if column in frame.columns]
    complete = frame[frame[known].notna().all(axis=1)]
    if len(complete) < len(frame):
        gaps = len(frame) - len(complete)
        console.print(f"left out {gaps} item{'' if gaps == 1 else 's'} with missing numbers")
    if len(complete) < 2:
        found = "only one complete item" if len(complete) else "no complete item"
        raise InvalidInputError(f"the catalogue has {found}; a choice needs two")
    return Catalogue(
        complete, benefits=setup.benefits, costs=setup.costs, either=setup.either, name=setup.name
    )


def _naming_column(frame: pd.DataFrame) -> str | None:
    """A column of words called "name", or the first in which every item has a different one."""
    words = frame.select_dtypes(exclude="number").columns
    for column in words:
        if str(column).strip().lower() == "name" and frame[column].notna().all():
            return str(column)
    for column in words:
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
        columns=lines.Columns(
            benefits=tuple(map(str, items.benefits)),
            costs=tuple(map(str, items.costs)),
            scale=items.scale,
            rows=tuple(map(int, items.index)),
        ),
    )
    return write_export(study, "elicitation", msgspec.to_builtins(config), [chain])


def _result_record(result: ElicitationResult | ReliableResult, items: Catalogue) -> dict[str, Any]:
    """Return the result for programs; ``row`` counts the rows from 0, without the header."""
    if isinstance(result, ReliableResult):
        row = int(items.index[result.index])
        return {**result.to_dict(), "row": row, "line": row + 2, "name": items.names[result.index]}
    return {
        "row": int(result.row),
        "line": int(result.row) + 2,
        "name": items.names[result.index],
        "regret_certificate": result.regret_certificate,
        "questions": result.n_queries,
        "weights": dict(
            zip(result.objective_names, [] if result.weights is None else result.weights.tolist())
        ),
        "contradictions": [str(contradiction) for contradiction in result.contradictions],
        "notes": list(result.notes),
    }
