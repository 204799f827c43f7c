"""Recompute what a session promised, from its events alone, with code of its own.

``counterplay verify FILE`` checks every hash, number and key of an export and then the stated
results: the certificate of an elicitation by linear programs over all weights that explain the
answers, the labels of a finite class by counting the labelings that are left, the certificates of
a campaign by a recount of its checks, the bound of a harm budget by a recount of every round.
Nothing here comes from the areas, so that a mistake there cannot hide itself.
Source: docs/theory/08-elicitation.md, 06-labeling.md and 09-tradeoff.md.
"""

from __future__ import annotations

import csv
import io
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from counterplay.core import export_bodies as lines
from counterplay.core.exports import (
    LARGEST,
    START,
    Event,
    Export,
    body_hash,
    config_hash,
    event_hash,
    plain_receipt,
    read_export,
    receipt,
)
from counterplay.core.files import read_limited
from counterplay.core.programs import minimize_linear
from counterplay.core.records import Record, require_state, to_record
from counterplay.core.report import Report
from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.verify_campaign import Recount
from counterplay.verify_reliable import USED, Answers

if TYPE_CHECKING:
    import pandas as pd

Status = Literal["ok", "failed", "erased"]
TOLERANCE = 1e-7
"""A stated certificate may be this much below the recomputed one: the solver's own accuracy."""
_USED = ("elicit.answered", "elicit.undone", "elicit.volunteered")
_MOST_SUBSETS = 3  # answers set aside for which every smaller choice is tried
R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Check:
    """One thing that was stated, and whether it is so."""

    name: str
    status: Status
    detail: str

    def __str__(self) -> str:
        return f"{self.status:<6} {self.name}: {self.detail}"


@dataclass(frozen=True)
class Verification(Report):
    """What became of everything an export states."""

    study: str
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing failed; what was erased can no longer be checked and does not count."""
        return all(check.status != "failed" for check in self.checks)

    def summary(self) -> str:
        """Return one line per check."""
        return "\n".join(str(check) for check in self.checks)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per check."""
        import pandas as pd

        return pd.DataFrame([vars(check) for check in self.checks])


def verify(
    export: str | os.PathLike[str] | bytes,
    *,
    table: str | os.PathLike[str] | None = None,
    receipts: Sequence[str] = (),
) -> Verification:
    """Check every hash of an export and recompute every result that it states.

    Parameters
    ----------
    export:
        Path of the file, or its bytes.
    table:
        The CSV file of the items of an elicitation, to check that the items are really its rows.
    receipts:
        Codes that people noted; each must be that of an event in the export.

    Raises
    ------
    InvalidStateError
        The file is not an export.

    Examples
    --------
    >>> from counterplay.core.exports import EventChain, write_export
    >>> config = {"items": [[1.0, 0.0], [0.0, 1.0]], "target": 0.01}
    >>> chain = EventChain("person 1")
    >>> shown = {"first": {"id": 0, "values": [1, 0]}, "second": {"id": 1, "values": [0, 1]}}
    >>> said = {"number": 0, "shown": shown, "answer": "first", "purpose": "compare"}
    >>> _ = chain.add("elicit.answered", said, actor="person 1")
    >>> stated = {"item": 0, "regret_certificate": 0.0, "set_aside": [], "questions": 1}
    >>> _ = chain.add("elicit.result", stated, actor="person 1")
    >>> print(verify(write_export("two", "elicitation", config, [chain]).encode()).checks[-1])
    ok     certificate of person 1: stated 0, recomputed 0 from 1 answers
    """
    if not isinstance(export, bytes):
        export = read_limited(export, what="the export", limit=LARGEST)
    read = read_export(export)
    checks = [*_chains(read), *_receipts(read, receipts)]
    if all(check.status == "ok" for check in checks):
        checks += _KINDS[read.study.study_kind](read, table)
    return Verification(read.study.study, tuple(checks))


def _chains(export: Export) -> Iterable[Check]:
    """Hashes, numbers, keys and heads of every stream; the configuration against its hash."""
    same = config_hash(export.study.config) == export.study.config_hash
    told = "matches its hash" if same else "was changed: its hash differs"
    yield Check("configuration", "ok" if same else "failed", told)
    heads = {head.stream: head for head in export.study.heads}
    streams: dict[str, list[Event]] = {name: [] for name in heads}
    for event in export.events:
        streams.setdefault(event.stream, []).append(event)
    for name, events in streams.items():
        problem = _broken(events)
        last = events[-1] if events else None
        if problem is None:
            head = heads.get(name)
            if head is None:
                problem = "its head is not in line 1"
            elif last is None or (last.seq, last.hash) != (head.seq, head.hash):
                problem = f"it does not end with the event {head.seq} that line 1 names"
        code = "" if last is None else receipt(last.hash)
        erased = sum(event.body is None for event in events)
        gone = f", {erased} erased" if erased else ""
        yield Check(
            f"chain of {name}",
            "ok" if problem is None else "failed",
            problem or f"{len(events)} events{gone}, receipt {code}",
        )


def _broken(events: Sequence[Event]) -> str | None:
    """The first thing that is wrong in a stream."""
    previous, keys = START, set()
    for number, event in enumerate(events, start=1):
        if event.seq != number:
            return f"event {number} is missing (found {event.seq})"
        if event.key in keys:
            return f"event {number} repeats the key of an earlier one"
        keys.add(event.key)
        if (event.body is None) != (event.salt is None):
            return f"event {number} has a body without a salt, or a salt without a body"
        whole = event.body is not None and event.salt is not None
        if whole and body_hash(event.salt or "", event.body or {}) != event.body_hash:
            return f"the content of event {number} was changed"
        linked = event_hash(previous, event.stream, event.seq, event.kind, event.body_hash)
        if linked != event.hash:
            return f"event {number} does not follow from the one before"
        previous = event.hash
    return None


def _receipts(export: Export, codes: Sequence[str]) -> Iterable[Check]:
    known = {plain_receipt(receipt(event.hash)): event for event in export.events}
    for code in codes:
        event = known.get(plain_receipt(code))
        told = f"event {event.seq} of {event.stream}" if event else "no event has this receipt"
        yield Check(f"receipt {code[:40]}", "ok" if event else "failed", told)


def _body(event: Event, kind: type[R]) -> R:
    return to_record(event.body, kind, what=f"event {event.seq} of {event.stream[:60]}")


def _agree(name: str, wrong: str | None, right: str) -> Check:
    return Check(name, "failed" if wrong else "ok", wrong or right)


def _elicitation(export: Export, table: str | os.PathLike[str] | None) -> Iterable[Check]:
    config: lines.ReliableConfig | lines.ElicitationConfig
    if export.study.config.get("promise") == "reliable":
        config = to_record(export.study.config, lines.ReliableConfig, what="the configuration")
    else:
        config = to_record(export.study.config, lines.ElicitationConfig, what="the configuration")
    width = len(config.items[0])
    same = all(len(row) == width for row in config.items)
    require_state(same, "the configuration", "items", "all items must have as many values")
    items = np.array(config.items)
    if table is not None:
        yield _table_check(config.columns, items, table)
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
            stated = _body(event, lines.ReliableStated)
            for what, wrong, right in answers.findings(stated):
                yield _agree(f"{what} of {name}", wrong, right)
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
    rows = _rows(given, answers.items)
    if _slack(rows) <= -TOLERANCE:
        return Check(title, "failed", "no preference explains every answer")
    regret = _largest_regret(stated.item, answers.items, rows)
    told = f"stated {said:.4g}, recomputed {regret:.4g}"
    return _agree(title, told if said < regret - TOLERANCE else None, told)


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
            answered = _body(event, lines.Answered)
            _check_shown(answered, event, items, len(log))
            log.append((event.seq, answered))
        elif event.kind == "elicit.undone":
            seq = _body(event, lines.Undone).seq
            fits = bool(log) and log[-1][0] == seq
            require_state(fits, f"event {event.seq}", "seq", "must be that of the last answer")
            log.pop()
        elif event.kind == "elicit.result":
            stated = _body(event, lines.ElicitationStated)
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
    rows = _rows(kept, items)
    if _slack(rows) <= -TOLERANCE:
        return Check(title, "failed", "no preference explains the answers that count")
    regret = _largest_regret(stated.item, items, rows)
    numbers = f"stated {stated.regret_certificate:.4g}, recomputed {regret:.4g}"
    dropped = f", {len(aside)} set aside" if aside else ""
    wrong = f"{numbers}" if stated.regret_certificate < regret - TOLERANCE else None
    return _agree(title, wrong, f"{numbers} from {len(kept)} answers{dropped}")


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
        if _slack(_rows([a for n, a in given.items() if n not in fewer], items)) > TOLERANCE:
            return f"{len(aside)} answers are set aside, {len(aside) - 1} would have been enough"
    return None


def _rows(answers: Iterable[tuple[FloatArray, lines.Said]], items: FloatArray) -> FloatArray:
    """Inequalities ``row @ (w, e) >= 0``: weights and the precision below which all looks equal."""
    k = items.shape[1]
    rows = [np.append(np.full(k, max(float(items.max()), 0.0)), -1.0)]  # e <= largest value * sum w
    for difference, said in answers:
        if said != "second":
            rows.append(np.append(difference, 1.0 if said == "same" else -1.0))
        if said != "first":
            rows.append(np.append(-difference, 1.0 if said == "same" else -1.0))
    return np.array(rows)


def _slack(rows: FloatArray) -> float:
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


def _largest_regret(item: int, items: FloatArray, rows: FloatArray) -> float:
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


def _table_check(
    columns: lines.Columns | None, items: FloatArray, table: str | os.PathLike[str]
) -> Check:
    """The items must be the stated rows and columns of the file, in the stated scale."""
    if columns is None:
        return Check("table", "failed", "the export does not say which columns were used")
    names = [*columns.benefits, *columns.costs, *columns.either]
    text = read_limited(table, what="the table", limit=LARGEST).decode("utf-8-sig", "replace")
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    missing = [name for name in names if not rows or name not in rows[0]]
    if missing:
        return Check("table", "failed", f"the table has no column {missing[0]!r:.60}")
    places = [rows[0].index(name) for name in names]
    try:
        raw = np.array([[float(rows[r + 1][p]) for p in places] for r in columns.rows])
    except (IndexError, ValueError):
        return Check("table", "failed", "a row of the items is not in the table, or no number")
    if raw.shape != (len(items), len(names)) or not len(raw):
        return Check("table", "failed", "the table has another number of rows or columns")
    values = np.hstack([_valued(raw[:, j], name, columns) for j, name in enumerate(names)])
    same = values.shape == items.shape and np.allclose(values, items, rtol=1e-9, atol=1e-9)
    return _agree("table", None if same else "the items are not the rows of the table",
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


def _labeling(export: Export, table: object) -> Iterable[Check]:
    config = to_record(export.study.config, lines.LabelingConfig, what="the configuration")
    labelings, weights, owns = _pool(config)
    answers: list[lines.Told] = []
    erased = False
    for event in export.events:
        if event.body is None or erased:
            erased = True
            if event.kind == "label.result":
                yield Check("labels", "erased", "what they rest on was erased")
        elif event.kind == "label.tell":
            told = _body(event, lines.Told)
            what = f"event {event.seq} of {event.stream[:60]}"
            inside = told.party < len(owns) and told.item < labelings.shape[1]
            require_state(inside, what, "", "there is no such party or point")
            require_state(owns[told.party, told.item], what, "party", "does not own the point")
            require_state(told.label < len(config.classes), what, "label", "is no class")
            answers.append(told)
        elif event.kind == "label.retract":
            item = _body(event, lines.Retracted).item
            answers = [answer for answer in answers if answer.item != item]
        elif event.kind == "label.result":
            stated = _body(event, lines.LabelingStated)
            yield from _labels(stated, answers, labelings, weights, len(owns))


def _pool(config: lines.LabelingConfig) -> tuple[IntArray, FloatArray, BoolArray]:
    """Labelings, their weights, and who owns what; all in range."""
    what, m = "the configuration", len(config.labelings[0])
    same = m > 0 and all(len(row) == m for row in config.labelings)
    require_state(same, what, "labelings", "all labelings must have as many points")
    labelings = np.array(config.labelings)
    fits = labelings.max() < len(config.classes)
    require_state(fits, what, "labelings", "a label is no class")
    weights = np.array(config.weights)
    fits = weights.shape == (len(labelings),) and weights.sum() > 0
    require_state(fits, what, "weights", "there must be one per labeling, not all 0")
    owns = np.zeros((len(config.owners), m), dtype=bool)
    for party, points in enumerate(config.owners):
        require_state(max(points, default=0) < m, what, f"owners[{party}]", "is no point")
        owns[party, list(points)] = True
    return labelings, weights / weights.sum(), owns


def _labels(
    stated: lines.LabelingStated,
    answers: Sequence[lines.Told],
    labelings: IntArray,
    weights: FloatArray,
    parties: int,
) -> Iterable[Check]:
    """Which labelings are left, how probable each stated label is, and who answered how much."""
    counts = [sum(answer.party == i for answer in answers) for i in range(parties)]
    wrong = None if list(stated.answers) == counts else f"there are {counts!s:.100}"
    yield _agree("answers of each party", wrong, f"{counts!s:.100}")
    errors = np.zeros(len(labelings), dtype=np.int64)
    for answer in answers:
        errors += labelings[:, answer.item] != answer.label
    left = int((errors == 0).sum())
    told = f"stated {stated.labelings_left}, recounted {left}"
    yield _agree("labelings left", None if left == stated.labelings_left else told, told)
    if left == 0:
        yield Check("labels", "failed", "no labeling agrees with all answers")
        return
    mass = weights * (errors == 0)
    mass /= mass.sum()
    labels = np.array(stated.labels)
    if labels.shape != (labelings.shape[1],) or len(stated.confidence) != labels.size:
        yield Check("labels", "failed", f"there are {labelings.shape[1]} points")
        return
    sure = ((labelings == labels) * mass[:, None]).sum(axis=0)
    over = np.flatnonzero(np.array(stated.confidence) > sure + TOLERANCE)
    wrong = None
    if over.size:
        x = int(over[0])
        wrong = f"point {x}: stated {stated.confidence[x]:.4g}, recomputed {sure[x]:.4g}"
    decided = int((sure > 1 - 1e-12).sum())
    yield _agree("labels", wrong, f"{decided} of {sure.size} follow from {len(answers)} answers")


def _guard(export: Export, table: object) -> Iterable[Check]:
    config = to_record(export.study.config, lines.GuardConfig, what="the configuration")
    recount = _Recount(config)
    erased = False
    for event in export.events:
        if event.body is None or erased:
            erased = True
            if event.kind == "guard.result":
                yield Check("harm bound", "erased", "what it rests on was erased")
        elif event.kind == "guard.decided":
            recount.decide(_body(event, lines.Decided), f"event {event.seq}")
        elif event.kind == "guard.outcome":
            recount.observe(_body(event, lines.Outcome), f"event {event.seq}")
        elif event.kind == "guard.result":
            yield from recount.compare(_body(event, lines.GuardStated))


def _campaign(export: Export, table: object) -> Iterable[Check]:
    config = to_record(export.study.config, lines.CampaignConfig, what="the configuration")
    recount = Recount(config)
    erased = False
    for event in export.events:
        what = f"event {event.seq} of {event.stream[:60]}"
        if event.body is None or erased:
            erased = True
            if event.kind == "campaign.result":
                yield Check("certificates", "erased", "what they rest on was erased")
        elif event.kind == "campaign.tell":
            recount.told(_body(event, lines.CampaignTold), what)
        elif event.kind == "campaign.launch":
            recount.launch(_body(event, lines.CampaignLaunched), what)
        elif event.kind == "campaign.certify":
            passed = _body(event, lines.CampaignCertified)
            recount.certified[passed.vector] = passed
        elif event.kind == "campaign.result":
            for name, wrong, right in recount.findings(_body(event, lines.CampaignStated)):
                yield _agree(name, wrong, right)


class _Recount:
    """The watchdog once more: one CUSUM per model, in plain steps."""

    def __init__(self, config: lines.GuardConfig) -> None:
        K = config.models
        self.config, self.round = config, 0
        self.limit = config.burst + 1e-9 * max(1.0, config.burst)
        self.reviews = {t for t in config.reviews if t < config.horizon}
        self.allowed = np.ones(K, dtype=bool)
        self.level, self.running, self.worst = np.zeros(K), np.zeros(K), np.zeros(K)
        self.harm, self.live_rounds = np.zeros(K), np.zeros(K, dtype=np.int64)
        self.played = np.zeros(2)
        self.live: int | None = None
        self.decided, self.switches, self.downs = -1, 0, 0
        self.excess = self.largest = 0.0
        self.void, self.refused = False, ""

    def decide(self, decided: lines.Decided, what: str) -> None:
        """Who is live in the coming round must be allowed."""
        fits = decided.round == self.round == self.decided + 1
        require_state(fits, what, "round", f"must be {self.decided + 1}")
        inside = decided.model < self.config.models
        require_state(inside, what, "model", "there is no such model")
        allowed = np.flatnonzero(self.allowed).tolist()
        if list(decided.allowed) != allowed or not self.allowed[decided.model]:
            self.refused = self.refused or (
                f"round {decided.round}: model {decided.model} of {list(decided.allowed)!s:.40}, "
                f"allowed were {allowed!s:.40}"
            )
        self.switches += self.live is not None and self.live != decided.model
        self.live, self.decided = decided.model, decided.round

    def observe(self, outcome: lines.Outcome, what: str) -> None:
        """One round of losses: sums, levels, who is taken down, who comes back."""
        K, c = self.config.models, self.config.rate
        fits = outcome.round == self.round == self.decided < self.config.horizon
        require_state(fits, what, "round", f"must be {self.round}, after its decision")
        fits = len(outcome.primary) == len(outcome.secondary) == K
        require_state(fits, what, "primary", f"must have {K} losses, like secondary")
        assert self.live is not None  # a decision came first
        second = np.array(outcome.secondary)
        self.harm += second
        self.played += (outcome.primary[self.live], second[self.live])
        self.live_rounds[self.live] += 1
        self.excess = max(self.excess, 0.0) + second[self.live] - c
        self.largest = max(self.largest, self.excess)
        self.running = np.maximum(self.running, 0.0) + second - c
        self.worst = np.maximum(self.worst, self.running)
        self.level = np.maximum(self.level, 0.0) + second - c
        self.round += 1
        if self.round in self.reviews:
            self.allowed[:], self.level[:] = True, 0.0
            return
        caught = self.allowed & (self.level > self.limit)
        if self.round < self.config.horizon and caught.any() and not (self.allowed & ~caught).any():
            self.void = True
            caught[np.flatnonzero(caught)[self.level[caught].argmin()]] = False
        self.allowed &= ~caught
        self.downs += bool(caught.any())

    def compare(self, stated: lines.GuardStated) -> Iterable[Check]:
        """Compare what was stated with the recount."""
        told = f"{self.decided + 1} decisions, each of an allowed model"
        yield _agree("live models", self.refused or None, told)
        tol = TOLERANCE * (1 + self.round)
        reviews = sum(t <= min(self.round, self.config.horizon - 1) for t in self.reviews)
        for name, said, found in (
            ("rounds", (stated.rounds,), (self.round,)),
            ("losses of the live models", stated.played, self.played),
            ("harm of each model", stated.harm, self.harm),
            ("burst each model needed", stated.needed_burst, self.worst),
            ("rounds of each model", stated.live_rounds, self.live_rounds),
            ("switches, reviews, take-downs", (stated.switches, stated.reviews, stated.take_downs),
             (self.switches, reviews, self.downs)),
        ):  # fmt: skip
            a, b = np.asarray(said, dtype=float), np.asarray(found, dtype=float)
            same = a.shape == b.shape and bool(np.allclose(a, b, rtol=0.0, atol=tol))
            shown = ", ".join(f"{x:.6g}" for x in b[:6]) + (", ..." if b.size > 6 else "")
            yield _agree(name, None if same else f"recounted {shown}", shown)
        yield self._bound(stated.harm_bound, reviews, tol)

    def _bound(self, stated: float | None, reviews: int, tol: float) -> Check:
        """Each stint between reviews keeps the burst, but for the round of the take-down."""
        c, stints, late = self.config.rate, self.switches + reviews + 1, self.downs + reviews
        bound = self.config.burst * stints + (1 - c) * late
        above = f"the largest excess was {self.largest:.6g}"
        if self.void or stated is None:
            wrong = "stated a bound, but once no model was within the budget"
            return _agree("harm bound", wrong if stated is not None else None, f"none; {above}")
        told = f"stated {stated:.6g}, recomputed {bound:.6g}; {above}"
        fails = stated < bound - tol or self.largest > bound + tol
        return _agree("harm bound", told if fails else None, told)


_KINDS: dict[str, Callable[[Export, str | os.PathLike[str] | None], Iterable[Check]]] = {
    "elicitation": _elicitation,
    "labeling": _labeling,
    "campaign": _campaign,
    "guard": _guard,
}
