"""Append: check an event against the state, let the kind add its own, link them, write once.

The work is done before the transaction, on the fold of the stream; the transaction moves the head
of the stream from where the fold stood (or finds that it moved, and writes nothing) and inserts
the rows. Two writers of one stream cannot both succeed: the head is compared, and (stream, seq)
and (stream, key) are unique.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from counterplay.core.exports import Event, body_hash, event_hash
from counterplay.core.records import canonical
from counterplay.errors import InvalidInputError
from counterplay.studio.errors import Closed, Refused
from counterplay.studio.kinds import Kind, NewEvent
from counterplay.studio.store import tables as t
from counterplay.studio.store.database import now
from counterplay.studio.store.folds import Folded
from counterplay.studio.store.writer import Moved

LARGEST = 2**24
"""Most bytes of the body of an event."""
_ALWAYS = ("study.", "party.withdrawn", "label.party")
"""What needs no open study: people may leave, and take their answers along, at any time."""
_MOST_FOLLOWING = 20_000


@dataclass(frozen=True)
class Appended:
    """Where an event stands; ``repeated``: it was there already, under the same key."""

    seq: int
    hash: str
    repeated: bool


@dataclass
class Prepared:
    """Events that are ready to be written, and the fold after them."""

    before: Folded
    after: Folded
    events: list[Event]
    texts: list[str]
    own: list[Appended]
    needs_open: bool = False
    also: Callable[[sa.Connection], None] | None = None

    def write(self, connection: sa.Connection) -> None:
        """Move the head and insert the rows; raises :class:`Moved` before writing anything.

        An answer moves the head only while the study is open: closed means closed.
        """
        moved = connection.execute(
            _MOVE_OPEN if self.needs_open else _MOVE,
            {"b_id": self.before.stream, "b_seq": self.before.seq, "b_hash": self.before.hash,
             "b_version": self.before.version, "seq": self.after.seq, "hash": self.after.hash},
        )  # fmt: skip
        if moved.rowcount != 1:
            raise Moved(f"the stream {self.before.stream} has moved")
        connection.execute(
            _INSERT, [to_columns(e, text) for e, text in zip(self.events, self.texts)]
        )
        if self.also is not None:
            self.also(connection)


_MOVE = (
    sa.update(t.stream)
    .where(
        t.stream.c.id == sa.bindparam("b_id"),
        t.stream.c.seq == sa.bindparam("b_seq"),
        t.stream.c.hash == sa.bindparam("b_hash"),
        t.stream.c.version == sa.bindparam("b_version"),
    )
    .values(seq=sa.bindparam("seq"), hash=sa.bindparam("hash"))
)
_MOVE_OPEN = _MOVE.where(
    sa.exists().where(t.study.c.id == t.stream.c.study, t.study.c.state == "open")
)
_INSERT = sa.insert(t.event)


def prepare(
    kind: Kind,
    config: dict[str, Any],
    study_state: str,
    before: Folded,
    wanted: Sequence[NewEvent],
    touch: Callable[[], None] = lambda: None,
) -> Prepared:
    """Check events one after the other and link them, with what follows from each.

    ``touch`` is called before the state of ``before`` is changed in place: from then on it must
    not be used again unless this is committed.
    """
    ready = Prepared(before, before, [], [], [])
    seq, last, state = before.seq, before.hash, before.state
    for first in wanted:
        waiting, own = [first], True
        while waiting:
            new = waiting.pop(0)
            checked(new)
            if own:
                if not new.kind.startswith(_ALWAYS):
                    ready.needs_open = True
                    if study_state != "open":
                        raise Closed(study_state)
                kind.check(config, state, new)
            seq += 1
            event, text = link(before.stream, seq, last, new)
            last = event.hash
            ready.events.append(event)
            ready.texts.append(text)
            if own:
                ready.own.append(Appended(seq, last, False))
            touch()
            state = kind.apply(config, state, event)
            waiting[:0] = kind.follow(config, state, event)
            own = False
            if len(ready.events) > _MOST_FOLLOWING + len(wanted):
                raise Refused("This makes too many events follow.")
    ready.after = Folded(
        before.stream, before.study, before.party, before.version, seq, last, state
    )
    return ready


def link(stream: str, seq: int, previous: str, new: NewEvent) -> tuple[Event, str]:
    """Return an event with its hashes, and the text of its body."""
    text = canonical(new.body).decode()
    if len(text) > LARGEST:
        raise Refused(f"The content of an event has more than {LARGEST:,} bytes.")
    body = json.loads(text)  # what replay will see
    salt = secrets.token_hex(16)
    digest = body_hash(salt, body)
    event = Event(
        stream=stream,
        seq=seq,
        kind=new.kind,
        body=body,
        salt=salt,
        body_hash=digest,
        key=new.key,
        at=now(),
        actor=new.actor,
        hash=event_hash(previous, stream, seq, new.kind, digest),
    )
    return event, text


def checked(new: NewEvent) -> None:
    """Refuse keys, kinds and actors that no table or page should hold."""
    for field, value, most in (
        ("kind", new.kind, 60),
        ("key", new.key, 200),
        ("actor", new.actor, 200),
    ):
        if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable():
            raise Refused(f"The {field} of an event must be 1 to {most} plain characters.", field)
    if not isinstance(new.body, dict):
        raise InvalidInputError("the body of an event must be a dictionary")


def find_key(connection: sa.Connection, stream: str, key: str) -> Any:
    """Return the row with this key, None if there is none."""
    e = t.event.c
    query = sa.select(e.seq, e.kind, e.body, e.hash).where(e.stream == stream, e.key == key)
    return connection.execute(query).first()


def same_event(row: Any, new: NewEvent) -> bool:
    """Whether a stored row is this event; the content of an erased one cannot be compared."""
    if row.kind != new.kind:
        return False
    return row.body is None or bool(row.body == canonical(new.body).decode())


def to_columns(event: Event, text: str | None) -> dict[str, Any]:
    """Return the columns of an event's row."""
    return {
        "stream": event.stream,
        "seq": event.seq,
        "kind": event.kind,
        "body": text,
        "salt": event.salt,
        "body_hash": event.body_hash,
        "key": event.key,
        "actor": event.actor,
        "at": event.at,
        "hash": event.hash,
    }
