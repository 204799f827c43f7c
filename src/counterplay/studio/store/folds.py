"""States of streams, kept in memory and always disposable: state is the replay of the log.

A fold is current if its number is that of the stream's head. A server with a SQLite file of its own
need not ask: its writer notices the commits of others (``drop_stale``). Correctness never rests on
this: the unique number of an event decides.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from counterplay.core.exports import START, Event
from counterplay.studio.errors import Missing
from counterplay.studio.kinds import Kind
from counterplay.studio.store import tables as t

MOST = 2_000
"""Most folds in memory."""


@dataclass
class Folded:
    """The state of one stream after its event ``seq``, which has this ``hash``."""

    stream: str
    study: int
    party: int | None
    version: int
    seq: int
    hash: str
    state: Any


class FoldCache:
    """The most recently used folds."""

    def __init__(self) -> None:
        self._folds: OrderedDict[str, Folded] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, stream: str) -> Folded | None:
        """Return the fold if it is here."""
        with self._lock:
            if stream in self._folds:
                self._folds.move_to_end(stream)
            return self._folds.get(stream)

    def put(self, folded: Folded) -> None:
        """Keep a fold; the least recently used goes."""
        with self._lock:
            self._folds[folded.stream] = folded
            self._folds.move_to_end(folded.stream)
            while len(self._folds) > MOST:
                self._folds.popitem(last=False)

    def drop(self, stream: str) -> None:
        """Forget a fold."""
        with self._lock:
            self._folds.pop(stream, None)

    def drop_study(self, study: int) -> None:
        """Forget the folds of a study: it has a new version."""
        with self._lock:
            for stream in [name for name, one in self._folds.items() if one.study == study]:
                del self._folds[stream]

    def names(self) -> list[str]:
        """Return the streams that are here."""
        with self._lock:
            return list(self._folds)

    def drop_stale(self, heads: dict[str, int]) -> None:
        """Forget the folds whose stream has gone on, or is gone."""
        with self._lock:
            for stream in list(self._folds):
                if heads.get(stream) != self._folds[stream].seq:
                    del self._folds[stream]


def read_heads(connection: sa.Connection, streams: Iterable[str]) -> dict[str, int]:
    """Return the last numbers of these streams."""
    wanted, heads = list(streams), {}
    for start in range(0, len(wanted), 500):
        chosen = t.stream.c.id.in_(wanted[start : start + 500])
        for row in connection.execute(sa.select(t.stream.c.id, t.stream.c.seq).where(chosen)):
            heads[row.id] = row.seq
    return heads


def read_followed(
    connection: sa.Connection, streams: list[str], studies: list[int]
) -> list[tuple[str, int, int]]:
    """Return id, last number and study of these streams and of all streams of these studies."""
    s = t.stream.c
    wanted = sa.or_(s.id.in_(streams), s.study.in_(studies))
    query = sa.select(s.id, s.seq, s.study).where(wanted)
    return [(row.id, row.seq, row.study) for row in connection.execute(query)]


def read_events(connection: sa.Connection, stream: str, after: int = 0) -> list[Event]:
    """Return the events of a stream in their order."""
    e = t.event.c
    query = sa.select(t.event).where(e.stream == stream, e.seq > after).order_by(e.seq)
    return [to_event(row) for row in connection.execute(query)]


def to_event(row: Any) -> Event:
    """Return a row of the table as an event."""
    return Event(
        stream=row.stream,
        seq=row.seq,
        kind=row.kind,
        body=None if row.body is None else json.loads(row.body),
        salt=row.salt,
        body_hash=row.body_hash,
        key=row.key,
        at=row.at,
        actor=row.actor,
        hash=row.hash,
    )


def empty(connection: sa.Connection, stream: str) -> Folded:
    """Return the head of a stream with no state yet; the state is None."""
    row = connection.execute(sa.select(t.stream).where(t.stream.c.id == stream)).first()
    if row is None:
        raise Missing("There is no such stream.")
    return Folded(stream, row.study, row.party, row.version, row.seq, row.hash, None)


def replay(
    kind: Kind,
    config: dict[str, Any],
    head: Folded,
    events: list[Event],
    start: Folded | None = None,
) -> Folded:
    """Fold events into the state at ``start``, from the beginning without it."""
    state = kind.begin(config) if start is None else start.state
    seq, last = (0, START) if start is None else (start.seq, start.hash)
    for event in events:
        state = kind.apply(config, state, event)
        seq, last = event.seq, event.hash
    return Folded(head.stream, head.study, head.party, head.version, seq, last, state)
