"""Event logs that prove themselves: a chain of hashes, receipts, and a file anybody can check.

An event is (stream, seq, kind, body, salt, body_hash, key, at, actor, hash). ``body_hash`` is
SHA-256 of the salt and the canonical body; ``hash`` is SHA-256 of the previous hash of the stream,
the canonical JSON of ``[stream, seq, kind]``, and ``body_hash``. So a body can be erased with its
salt and the chain still holds. An export is one line for the study and one per event;
``counterplay verify`` recomputes everything in it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

import counterplay
from counterplay.core.records import (
    Name,
    Positive,
    Record,
    Word,
    canonical,
    read_json,
    read_record,
    refusal,
    to_record,
    write_record,
)

Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Salt = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
Version = Annotated[int, Meta(ge=1, le=1_000_000)]
KINDS = ("elicitation", "labeling", "campaign", "guard", "audit")
START = "0" * 64
"""What the first event of a stream has for a previous hash."""
LARGEST = 2**28
"""Most bytes of an export."""
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32: no I, L, O, U


class Head(Record, frozen=True):
    """The last event of a stream."""

    stream: Word
    seq: Positive
    hash: Hash


class StudyLine(Record, frozen=True, omit_defaults=True):
    """First line of an export: what was studied, and how every stream ends.

    A study that was edited while it was open has answers under several versions, each in a file
    of its own: ``study_version`` is that of the file, ``other_versions`` are those of the others.
    """

    kind: Literal["counterplay-export"]
    version: Literal[1]
    study: Word
    study_kind: Literal["elicitation", "labeling", "campaign", "guard", "audit"]
    config: dict[str, Any]
    config_hash: Hash
    library_version: Name
    fold_version: Positive
    heads: Annotated[tuple[Head, ...], Meta(max_length=1_000_000)]
    study_version: Version | None = None
    other_versions: Annotated[tuple[Version, ...], Meta(max_length=10_000)] = ()


class Event(Record, frozen=True):
    """One line of an export; an erased event has neither body nor salt."""

    stream: Word
    seq: Positive
    kind: Word
    body: dict[str, Any] | None
    salt: Salt | None
    body_hash: Hash
    key: Word
    at: Word
    actor: Name
    hash: Hash


class Export(msgspec.Struct, frozen=True):
    """A study with its events, in the order of the file; hashes are not checked yet."""

    study: StudyLine
    events: tuple[Event, ...]


class EventChain:
    """Builds the events of one stream, each linked to the one before.

    Examples
    --------
    >>> chain = EventChain("person 1")
    >>> event = chain.add("elicit.stopped", {}, actor="person 1")
    >>> event.seq, chain.head.hash == event.hash
    (1, True)
    """

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.events: list[Event] = []

    def add(
        self,
        kind: str,
        body: Mapping[str, Any],
        *,
        actor: str,
        key: str | None = None,
        at: str | None = None,
        salt: bytes | None = None,
    ) -> Event:
        """Append an event; key, time and salt are made up where they are not given."""
        seq = len(self.events) + 1
        grain = (secrets.token_bytes(16) if salt is None else salt).hex()
        digest = body_hash(grain, body)
        previous = self.events[-1].hash if self.events else START
        event = Event(
            stream=self.stream,
            seq=seq,
            kind=kind,
            body=dict(body),
            salt=grain,
            body_hash=digest,
            key=f"{self.stream}:{seq}"[:200] if key is None else key,
            at=datetime.now(UTC).isoformat(timespec="seconds") if at is None else at,
            actor=actor,
            hash=event_hash(previous, self.stream, seq, kind, digest),
        )
        self.events.append(event)
        return event

    @property
    def head(self) -> Head:
        """The last event: what a receipt or a published list of heads fixes."""
        last = self.events[-1]
        return Head(stream=self.stream, seq=last.seq, hash=last.hash)


def body_hash(salt: str, body: Mapping[str, Any]) -> str:
    """Return SHA-256 of the salt and the canonical body, in hexadecimal."""
    return hashlib.sha256(bytes.fromhex(salt) + canonical(dict(body))).hexdigest()


def event_hash(previous: str, stream: str, seq: int, kind: str, digest: str) -> str:
    """Return the hash that links an event to the one before."""
    place = canonical([stream, seq, kind])
    return hashlib.sha256(bytes.fromhex(previous) + place + bytes.fromhex(digest)).hexdigest()


def config_hash(config: Mapping[str, Any]) -> str:
    """Return SHA-256 of the canonical configuration, in hexadecimal."""
    return hashlib.sha256(canonical(dict(config))).hexdigest()


def receipt(digest: str) -> str:
    """Return the first 80 bits of a hash as a code that people can note.

    Examples
    --------
    >>> receipt("ff" * 32)
    'ZZZZ-ZZZZ-ZZZZ-ZZZZ'
    """
    number = int(digest[:20], 16)
    letters = "".join(_ALPHABET[(number >> shift) & 31] for shift in range(75, -1, -5))
    return "-".join(letters[i : i + 4] for i in range(0, 16, 4))


def plain_receipt(code: str) -> str:
    """Return a receipt as typed by a person without dashes, spaces and look-alikes.

    Examples
    --------
    >>> plain_receipt("zzzz-zzzz-zzzz-ooli")
    'ZZZZZZZZZZZZ0011'
    """
    letters = code.upper().replace("-", "").replace(" ", "")
    return letters.translate(str.maketrans("OIL", "011"))


def write_export(
    study: str,
    study_kind: Literal["elicitation", "labeling", "campaign", "guard", "audit"],
    config: Mapping[str, Any],
    chains: Iterable[EventChain],
) -> str:
    """Return the text of an export: the study, then the events of all streams."""
    streams = [chain for chain in chains if chain.events]
    line = StudyLine(
        kind="counterplay-export",
        version=1,
        study=study,
        study_kind=study_kind,
        config=dict(config),
        config_hash=config_hash(config),
        library_version=counterplay.__version__,
        fold_version=1,
        heads=tuple(chain.head for chain in streams),
    )
    events = (event for chain in streams for event in chain.events)
    return "".join(f"{write_record(record)}\n" for record in (line, *events))


def read_export(data: bytes, *, what: str = "the export") -> Export:
    """Parse an export line by line; the sentence of an error says in which line.

    Raises
    ------
    InvalidStateError
        The text is not an export; hashes are checked by ``counterplay verify``, not here.
    """
    if len(data) > LARGEST:
        raise refusal(what, "", f"it is larger than {LARGEST:,} bytes")
    lines = data.split(b"\n")
    if lines[-1]:
        raise refusal(what, f"line {len(lines)}", "the last line is not complete")
    study = read_record(lines[0], StudyLine, what=f"{what}, line 1")
    events = []
    for number, line in enumerate(lines[1:-1], start=2):
        place = f"{what}, line {number}"
        events.append(to_record(read_json(line, what=place), Event, what=place))
    return Export(study, tuple(events))
