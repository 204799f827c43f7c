"""One line of what ``counterplay verify`` finds, shared by the checks of every kind of study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

from counterplay.core.exports import Event
from counterplay.core.records import Record, to_record

Status = Literal["ok", "failed", "erased"]
TOLERANCE = 1e-7
"""A stated certificate may be this much below the recomputed one: the solver's own accuracy."""
R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Check:
    """One thing that was stated, and whether it is so."""

    name: str
    status: Status
    detail: str

    def __str__(self) -> str:
        return f"{self.status:<6} {self.name}: {self.detail}"


def read_body(event: Event, kind: type[R]) -> R:
    """Return the body of an event as a typed record."""
    return to_record(event.body, kind, what=f"event {event.seq} of {event.stream[:60]}")


def agree(name: str, wrong: str | None, right: str) -> Check:
    """Return the check of something that is right, or what is wrong with it."""
    return Check(name, "failed" if wrong else "ok", wrong or right)
