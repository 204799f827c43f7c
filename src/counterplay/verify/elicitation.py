"""Recompute the certificates of an elicitation by linear programs over all possible weights.

The answers, with the values that were shown, leave a set of weights; the certificate is the
largest regret of the recommended item over that set. Where people may slip, the bets of
:mod:`counterplay.verify.reliable` come first and this is the number beside them, "if every answer
is right".
Source: docs/theory/08-elicitation.md and 26-people.md.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np

from counterplay.core import export_bodies as lines
from counterplay.core.exports import Event, Export
from counterplay.core.programs import minimize_linear
from counterplay.core.records import require_state, to_record
from counterplay.core.validation import FloatArray, IntArray
from counterplay.tables import read_table
from counterplay.verify.checks import TOLERANCE, Check, agree, read_body
from counterplay.verify.reliable import USED, Answers

_USED = ("elicit.answered", "elicit.undone", "elicit.volunteered")
_MOST_SUBSETS = 3  # answers set aside for which every smaller choice is tried


class _Column(msgspec.Struct, frozen=True):
    """How a column was shown: in its own units, from low to high."""

    direction: Literal["benefit", "cost", "either"]
    low: float
    high: float


class _Page(msgspec.Struct, frozen=True):
    """What people read of the items, where a configuration says it."""

    columns: Annotated[tuple[_Column, ...], msgspec.Meta(min_length=1, max_length=10_000)]
    raw: tuple[tuple[float, ...], ...]


def elicitation_checks(export: Export, table: str | os.PathLike[str] | None) -> Iterable[Check]:
    """Check every result of every person."""
    config: lines.ReliableConfig | lines.ElicitationConfig
    if export.study.config.get("promise") == "reliable":
        config = to_record(export.study.config, lines.ReliableConfig, what="the configuration")
    else:
        config = to_record(export.study.config, lines.ElicitationConfig, what="the configuration")
    width = len(config.items[0])
    same = all(len(row) == width for row in config.items)
    require_state(same, "the configuration", "items", "all items must have as many values")
    items = np.array(config.items)
    page = getattr(config, "page", None)
    read = to_record(page, _Page, what="the configuration", where="page") if page else None
    if read is not None:
        yield _read_check(read, items)
    if table is not None:
        yield _table_check(config.columns, items, table, read)
    by_stream: dict[str, list[Event]] = {}
    for event in export.events:
        by_stream.setdefault(event.stream, []).append(event)
    for name, events in by_stream.items():
        if isinstance(config, lines.ReliableConfig):
            yield from _slipping(name, events, config)
        else:
            yield from _person(name, events, items)


def _slipping(name: str, events: Sequence[Event], config: lines.ReliableConfig) -> Iterable[Check]:
    """Fold the answers of one person who may slip; check every result against those before."""
    answers, erased = Answers(config), False
    for event in events:
        erased = erased or (event.body is None and event.kind in USED)
        if event.kind != "elicit.result":
            if not erased:
                answers.take(event)
        elif event.body is None or erased:
            yield Check(f"certificate of {name}", "erased", "what it rests on was erased")
        else:
            stated = read_body(event, lines.ReliableStated)
            for what, wrong, right in answers.findings(stated):
                yield agree(f"{what} of {name}", wrong, right)
            if stated.if_every_answer_is_right is not None:
                yield _if_all_right(name, stated, answers)


def _if_all_right(name: str, stated: lines.ReliableStated, answers: Answers) -> Check:
    """The exact number beside the reliable one: the weights that explain every answer."""
    title, said = f"if every answer of {name} is right", stated.if_every_answer_is_right or 0.0
    if answers.config.unknown or stated.item >= len(answers.items):
        return Check(title, "failed", "there is no such number for items of unknown signs")
    given: list[tuple[FloatArray, lines.Said]] = [
        (difference, "first") for choice in answers.choices() for difference in choice.differences
    ]
    rows = inequalities(given, answers.items)
    if slack(rows) <= -TOLERANCE:
        return Check(title, "failed", "no preference explains every answer")
    regret = largest_regret(stated.item, answers.items, rows)
    told = f"stated {said:.4g}, recomputed {regret:.4g}"
    return agree(title, told if said < regret - TOLERANCE else None, told)


def _person(name: str, events: Sequence[Event], items: FloatArray) -> Iterable[Check]:
    """Fold the answers of one person; check every result against the answers before it."""
    log: list[tuple[int, lines.Answered]] = []
    erased = False
    for event in events:
        erased = erased or (event.body is None and event.kind in _USED)
        if event.body is None or erased:
            if event.kind == "elicit.result":
                yield Check(f"certificate of {name}", "erased", "what it rests on was erased")
        elif event.kind == "elicit.answered":
            answered = read_body(event, lines.Answered)
            _check_shown(answered, event, items, len(log))
            log.append((event.seq, answered))
        elif event.kind == "elicit.undone":
            seq = read_body(event, lines.Undone).seq
            fits = bool(log) and log[-1][0] == seq
            require_state(fits, f"event {event.seq}", "seq", "must be that of the last answer")
            log.pop()
        elif event.kind == "elicit.result":
            stated = read_body(event, lines.ElicitationStated)
            yield _certificate(name, stated, [answer for _, answer in log], items)


def _check_shown(answered: lines.Answered, event: Event, items: FloatArray, count: int) -> None:
    """The values that were shown must be those of the items."""
    what = f"event {event.seq} of {event.stream[:60]}"
    require_state(answered.number == count, what, "number", f"must be {count}")
    fits = answered.about is None or answered.about < count
    require_state(fits, what, "about", "must be an earlier answer")
    for side, option in (("first", answered.shown.first), ("second", answered.shown.second)):
        where, width = f"shown.{side}", items.shape[1]
        require_state(len(option.values) == width, what, where, f"must have {width} values")
        if option.id is not None:
            require_state(option.id < len(items), what, where, "is no item of the configuration")
            same = np.allclose(option.values, items[option.id], rtol=1e-9, atol=1e-12)
            require_state(same, what, where, f"does not show the values of item {option.id}")


def _certificate(
    name: str,
    stated: lines.ElicitationStated,
    log: Sequence[lines.Answered],
    items: FloatArray,
) -> Check:
    """Largest regret of the recommended item over all weights that explain the answers."""
    title = f"certificate of {name}"
    if stated.item >= len(items):
        return Check(title, "failed", f"there is no item {stated.item}")
    if stated.questions != len(log):
        return Check(title, "failed", f"stated {stated.questions} questions, there are {len(log)}")
    given = _given(log)
    aside = set(stated.set_aside)
    if wrong := _wrongly_aside(aside, given, items):
        return Check(title, "failed", wrong)
    kept = [answer for number, answer in given.items() if number not in aside]
    rows = inequalities(kept, items)
    if slack(rows) <= -TOLERANCE:
        return Check(title, "failed", "no preference explains the answers that count")
    regret = largest_regret(stated.item, items, rows)
    numbers = f"stated {stated.regret_certificate:.4g}, recomputed {regret:.4g}"
    dropped = f", {len(aside)} set aside" if aside else ""
    wrong = f"{numbers}" if stated.regret_certificate < regret - TOLERANCE else None
    return agree(title, wrong, f"{numbers} from {len(kept)} answers{dropped}")


def _given(log: Sequence[lines.Answered]) -> dict[int, tuple[FloatArray, lines.Said]]:
    """Difference and answer of every question; a question that was put again has the last one."""
    given: dict[int, tuple[FloatArray, lines.Said]] = {}
    for number, answered in enumerate(log):
        shown = answered.shown
        difference = np.subtract(shown.first.values, shown.second.values)
        if answered.about is None:
            given[number] = (difference, answered.answer)
        elif answered.about in given:
            given[answered.about] = (given[answered.about][0], answered.answer)
    return given


def _wrongly_aside(
    aside: set[int],
    given: dict[int, tuple[FloatArray, lines.Said]],
    items: FloatArray,
) -> str | None:
    """Answers may be set aside only if fewer would not do; returns what is wrong."""
    if not aside <= given.keys():
        return "an answer that was set aside does not exist"
    if not aside or len(aside) > _MOST_SUBSETS:
        return None
    for fewer in itertools.combinations(given, len(aside) - 1):
        if slack(inequalities([a for n, a in given.items() if n not in fewer], items)) > TOLERANCE:
            return f"{len(aside)} answers are set aside, {len(aside) - 1} would have been enough"
    return None


def inequalities(answers: Iterable[tuple[FloatArray, lines.Said]], items: FloatArray) -> FloatArray:
    """Inequalities ``row @ (w, e) >= 0``: weights and the precision below which all looks equal."""
    k = items.shape[1]
    rows = [np.append(np.full(k, max(float(items.max()), 0.0)), -1.0)]  # e <= largest value * sum w
    for difference, said in answers:
        if said != "second":
            rows.append(np.append(difference, 1.0 if said == "same" else -1.0))
        if said != "first":
            rows.append(np.append(-difference, 1.0 if said == "same" else -1.0))
    return np.array(rows)


def slack(rows: FloatArray) -> float:
    """How strictly all preferences can hold at once: at most 0 means that they exclude each other.

    A row ends with -1 if it stands for a preference, with 1 if both looked the same.
    """
    k = rows.shape[1] - 1
    strict = (rows[:, -1] < 0).astype(np.float64)
    strict[0] = 0.0  # the bound of the precision is no answer
    variables = np.hstack([-rows, strict[:, None]])  # slack t <= row @ (w, e)
    found = minimize_linear(
        np.append(np.zeros(k + 1), -1.0), A_ub=variables, b_ub=np.zeros(len(rows)),
        A_eq=np.append(np.ones(k), [0.0, 0.0])[None], b_eq=[1.0],
        bounds=[(0, None)] * (k + 1) + [(-1.0, 1.0)], allow=("infeasible",),
        what="the weights that explain the answers",
    )  # fmt: skip
    return -found.value if found.status == "optimal" else -np.inf


def largest_regret(item: int, items: FloatArray, rows: FloatArray) -> float:
    """Charnes-Cooper: with ``v_j w = 1`` the share of the best is ``v_r w``; minimise it."""
    best = items[_undominated(items)]
    rivals = best[(best > items[item]).any(axis=1)]
    lowest = 1.0
    for rival in rivals:
        found = minimize_linear(
            np.append(items[item], 0.0), A_ub=-rows, b_ub=np.zeros(len(rows)),
            A_eq=np.append(rival, 0.0)[None], b_eq=[1.0], allow=("infeasible",),
            what="the regret of the recommended item",
        )  # fmt: skip
        if found.status == "optimal":  # otherwise every possible preference gives the rival 0
            lowest = min(lowest, found.value)
    return max(0.0, 1.0 - lowest)


def _undominated(items: FloatArray) -> IntArray:
    """Rows that no other row beats everywhere; the first of equal ones."""
    order = np.argsort(-items.sum(axis=1), kind="stable")
    kept: list[int] = []
    for i in order:
        if not kept or not (items[kept] >= items[i]).all(axis=1).any():
            kept.append(int(i))
    return np.array(kept)


def _read_check(page: _Page, items: FloatArray) -> Check:
    """The numbers that people read must be those that the answers count for."""
    name, k = "numbers on the cards", len(page.columns)
    if len(page.raw) != len(items) or any(len(row) != k for row in page.raw) or k != len(items[0]):
        return Check(name, "failed", "there must be one for every value of an item")
    raw, low, high = (
        np.array(part)
        for part in (page.raw, [c.low for c in page.columns], [c.high for c in page.columns])
    )
    if not (low < high).all():
        return Check(name, "failed", "a column must run from low to high")
    share = (raw - low) / (high - low)
    costs = [column.direction == "cost" for column in page.columns]
    wrong = ~np.isclose(np.where(costs, 1.0 - share, share), items, rtol=1e-9, atol=1e-9)
    told = (
        f"those of item {np.flatnonzero(wrong.any(axis=1))[0]} are not its values"
        if (wrong.any())
        else None
    )
    return agree(name, told, f"{len(items)} items, as they count")


def _table_check(
    columns: lines.Columns | None,
    items: FloatArray,
    table: str | os.PathLike[str],
    page: _Page | None,
) -> Check:
    """The items must be the stated rows and columns of the file, in the stated scale."""
    if columns is None:
        return Check("table", "failed", "the export does not say which columns were used")
    names = [*columns.benefits, *columns.costs, *columns.either]
    frame = read_table(Path(table)).frame
    missing = [name for name in names if name not in frame.columns]
    if missing:
        return Check("table", "failed", f"the table has no column {missing[0]!r:.60}")
    try:
        raw = frame[names].iloc[list(columns.rows)].to_numpy(dtype=np.float64)
    except (IndexError, ValueError, TypeError):
        return Check("table", "failed", "a row of the items is not in the table, or no number")
    if raw.shape != (len(items), len(names)) or not len(raw):
        return Check("table", "failed", "the table has another number of rows or columns")
    if page is not None and not np.allclose(raw, page.raw, rtol=1e-9, atol=0.0):
        return Check("table", "failed", "the numbers that people read are not those of the table")
    values = np.hstack([_valued(raw[:, j], name, columns) for j, name in enumerate(names)])
    same = values.shape == items.shape and np.allclose(values, items, rtol=1e-9, atol=1e-9)
    return agree("table", None if same else "the items are not the rows of the table",
                  f"{len(items)} items are rows of it")  # fmt: skip


def _valued(raw: FloatArray, name: str, columns: lines.Columns) -> FloatArray:
    """A column as shares of its range, one per segment where the worth bends."""
    ends = np.array([raw.min() if columns.scale == "range" else 0.0, raw.max()])
    if name in columns.curves:
        ends = np.quantile(raw, np.linspace(0.0, 1.0, columns.curves[name] + 1))
    width = np.diff(ends)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(width > 0, (raw[:, None] - ends[:-1]) / width, 1.0)
    share = np.clip(share, 0.0, 1.0) if name in columns.curves else share
    return np.asarray(1.0 - share if name in columns.costs else share)
