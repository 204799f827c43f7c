"""A saved plan: its settings, what the log had shown, and everything that happened since.

The file is untrusted. Types and ranges are checked, a digest guards against damage, and the state
is replayed from the events, never read.
Source: docs/theory/25-offers.md, "The planner".
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from counterplay.core.records import (
    Count,
    Digest,
    Fraction,
    Name,
    Nonnegative,
    Record,
    fingerprint,
    read_record,
    refusal,
    require_state,
)
from counterplay.principal.offer_terms import Kind, Terms

WHAT = "the saved plan"
MOST_ROUNDS = 10_000
"""Rounds of a plan: reading one replays them all."""
Offer = str | int | float
Arms = Annotated[tuple["SavedArm", ...], Meta(min_length=2, max_length=1000)]
Events = Annotated[tuple["SavedEvent", ...], Meta(max_length=3 * MOST_ROUNDS)]


class SavedArm(Record, frozen=True):
    """An offer of the log: rows, mean, sum of squared deviations, lower limit of the response."""

    offer: Offer
    rows: Count
    mean: float
    square: Nonnegative
    lower: float


class SavedEvent(Record, frozen=True):
    """One thing that happened: an offer was made, or its outcome was seen (None: missing)."""

    what: Literal["offered", "seen"]
    offer: Offer
    outcome: float | None = None


class SavedTerms(Record, frozen=True):
    """What an offer means."""

    kind: Kind
    unit_cost: float
    list_price: float | None
    unit_value: float | None


class PlanSettings(Record, frozen=True):
    """Everything a plan starts with."""

    terms: SavedTerms
    rounds: Annotated[int, Meta(ge=1, le=MOST_ROUNDS)]
    step: Nonnegative
    explore: bool
    shaped: bool
    at_least: Fraction | None
    lowest_power: float | None
    floor: float
    promise: float
    offer: Name
    outcome: Name
    currency: Name
    generator: dict[str, Any]
    arms: Arms


class SavedPlan(Record, frozen=True):
    """The file."""

    kind: Literal["offer plan"]
    version: Literal[1]
    settings: PlanSettings
    events: Events
    digest: Digest


def digest_of(settings: PlanSettings, events: tuple[SavedEvent, ...]) -> str:
    """Return the digest that guards a file against damage."""
    content = [msgspec.to_builtins(settings), msgspec.to_builtins(events)]
    return fingerprint({"plan": content})["plan"]


def read_plan(text: str | bytes, what: str) -> SavedPlan:
    """Parse and check a saved plan; whatever is wrong is one sentence with the item."""
    saved = read_record(text, SavedPlan, what=what)
    settings = saved.settings
    terms = terms_of(settings, what)
    for i, arm in enumerate(settings.arms):
        where = f"arms[{i}]"
        _check_offer(terms, arm.offer, where, what)
        for name in ("mean", "lower"):
            good = math.isfinite(getattr(arm, name)) and getattr(arm, name) >= settings.floor
            require_state(good, what, f"{where}.{name}", "is below the floor")
        require_state(arm.rows >= 1, what, f"{where}.rows", "must be at least 1")
    offers = [arm.offer for arm in settings.arms]
    require_state(len(set(offers)) == len(offers), what, "arms", "an offer occurs twice")
    for i, event in enumerate(saved.events):
        _check_offer(terms, event.offer, f"event {i}", what)
        low = event.outcome is None or event.outcome >= settings.floor
        require_state(low, what, f"event {i}", f"outcome {event.outcome} is below the floor")
    found = digest_of(settings, saved.events)
    require_state(found == saved.digest, what, "digest", "the file was changed after it was saved")
    return saved


def terms_of(settings: PlanSettings, what: str) -> Terms:
    """Return the terms of a saved plan."""
    kept = settings.terms
    try:
        return Terms(kept.kind, kept.unit_cost, kept.list_price, kept.unit_value)
    except ValueError as error:
        raise refusal(what, "terms", str(error)) from None


def _check_offer(terms: Terms, offer: Offer, where: str, what: str) -> None:
    if not terms.ordered:
        return
    number = not isinstance(offer, str | bool)
    require_state(number, what, where, f"offer {offer!r:.40} is not a number")
    fault = terms.fault(float(offer))
    require_state(not fault, what, where, f"offer {float(offer):g} {fault}")
