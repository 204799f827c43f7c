"""What a saved questionnaire with people who slip holds: settings, a seed and every answer.

Nothing that follows from the answers is in the file; reading one is replaying it.
Source: docs/theory/26-people.md, "Setting".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from counterplay.core.records import (
    Count,
    Fingerprint,
    PackedArray,
    Record,
    check_fingerprint,
    float_array,
    read_record,
    refusal,
    require_state,
)
from counterplay.core.validation import FloatArray
from counterplay.elicitation.choice_log import ChoiceAnswer
from counterplay.elicitation.item_table import ItemTable
from counterplay.elicitation.saved import Values
from counterplay.elicitation.slips import AtMost, Unknown

WHAT = "the saved questionnaire"
Rate = Annotated[float, Meta(ge=0.0, lt=0.5)]


class SavedErrors(Record, frozen=True):
    """The assumption about wrong answers; no rates: the answer model."""

    rates: Annotated[tuple[Rate, ...], Meta(max_length=10)]
    jnd: Annotated[float, Meta(ge=0.0, le=1.0)]
    running: bool

    @classmethod
    def of(cls, errors: AtMost | Unknown) -> SavedErrors:
        """Return the record of an assumption."""
        if isinstance(errors, Unknown):
            return cls(rates=(), jnd=0.0, running=False)
        return cls(rates=tuple(map(float, errors.rates)), jnd=errors.jnd, running=errors.running)

    def errors(self) -> AtMost | Unknown:
        """Return the assumption."""
        if not self.rates:
            return Unknown()
        rate = self.rates[0] if len(self.rates) == 1 else self.rates
        return AtMost(rate, self.jnd, self.running)


class ReliableSettings(Record, frozen=True):
    """Parameters of :class:`ReliableElicitor`."""

    confidence: Annotated[float, Meta(gt=0.0, lt=1.0)]
    target_regret: Annotated[float, Meta(ge=1e-6, lt=1.0)]
    errors: SavedErrors
    show: Annotated[int, Meta(ge=2, le=4)] | Literal["rank"]
    check_every: Annotated[int, Meta(ge=0, le=10_000)]
    stop: Literal["reliable", "credible", "exact"]
    max_questions: Annotated[int, Meta(ge=1, le=10_000)]
    max_cells: Annotated[int, Meta(ge=1, le=100_000_000)] | None


class SavedChoice(Record, frozen=True):
    """One answered question."""

    kind: Literal["asked", "repeat", "volunteered"]
    said: Literal["choice", "same", "cannot say"]
    order: Annotated[tuple[Count, ...], Meta(max_length=4)]
    rows: Annotated[tuple[Count, ...], Meta(max_length=4)] = ()
    values: Annotated[tuple[Values, ...], Meta(max_length=4)] = ()
    repeats: Count | None = None

    @classmethod
    def of(cls, entry: ChoiceAnswer) -> SavedChoice:
        """Return the record of an answer."""
        values = () if entry.rows else tuple(map(tuple, entry.values.tolist()))
        return cls(
            kind=entry.kind, said=entry.said, order=entry.order, rows=entry.rows,
            values=values, repeats=entry.repeats,
        )  # fmt: skip

    def entry(self, number: int, items: ItemTable, before: list[ChoiceAnswer]) -> ChoiceAnswer:
        """Return the answer; rows, order and repeats must fit the items and earlier answers."""
        place = f"answers[{number}]"
        vectors = self.kind == "volunteered" and not self.rows
        m = len(self.values) if vectors else len(self.rows)
        _need(vectors or not self.values, place, "values", "belong to volunteered answers")
        _need(m >= 2, place, "rows", "must name at least two options")
        _need(all(row < len(items.values) for row in self.rows), place, "rows", "are not there")
        _need(len(set(self.rows)) == len(self.rows), place, "rows", "must differ")
        _need(all(len(v) == items.k for v in self.values), place, "values", f"must have {items.k}")
        lengths = (1, m) if self.said == "choice" else (0,)
        _need(len(self.order) in lengths, place, "order", "does not fit what was said")
        fits = all(i < m for i in self.order) and len(set(self.order)) == len(self.order)
        _need(fits, place, "order", "must name options that were shown, each once")
        _need((self.kind == "repeat") == (self.repeats is not None), place, "repeats", "is wrong")
        if self.repeats is not None:
            known = self.repeats < len(before) and before[self.repeats].kind == "asked"
            same = known and sorted(before[self.repeats].rows) == sorted(self.rows)
            _need(same, place, "repeats", "must be an earlier question about the same options")
        known_rows = np.array(self.values) if vectors else items.values[list(self.rows)]
        return ChoiceAnswer(self.kind, self.rows, self.said, self.order, known_rows, self.repeats)


class SavedReliable(Record, frozen=True):
    """State of :class:`ReliableElicitor`."""

    kind: Literal["ReliableElicitor"]
    version: Literal[1]
    problem: Fingerprint
    params: ReliableSettings
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    prior: PackedArray | None
    answers: Annotated[tuple[SavedChoice, ...], Meta(max_length=20_000)]
    stopped: bool
    asked: bool


def read_reliable(text: str | bytes, items: ItemTable) -> SavedReliable:
    """Parse a state about these items."""
    saved = read_record(text, SavedReliable, what=WHAT)
    check_fingerprint(saved.problem, items.fingerprint(), what=WHAT)
    return saved


def read_prior(saved: SavedReliable, k: int) -> FloatArray | None:
    """Return the particles of a saved prior."""
    if saved.prior is None:
        return None
    if len(saved.prior.shape) != 2 or saved.prior.shape[0] > 100_000:
        raise refusal(WHAT, "prior", "must be a table of weights")
    shape = (saved.prior.shape[0], k)
    return float_array(saved.prior, "prior", what=WHAT, shape=shape)


def entries_of(saved: SavedReliable, items: ItemTable) -> list[ChoiceAnswer]:
    """Return the answers of a saved questionnaire."""
    entries: list[ChoiceAnswer] = []
    for number, answer in enumerate(saved.answers):
        entries.append(answer.entry(number, items, entries))
    return entries


def _need(holds: Any, place: str, name: str, problem: str) -> None:
    require_state(bool(holds), WHAT, f"{place}.{name}", problem)
