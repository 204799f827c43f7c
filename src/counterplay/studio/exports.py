"""Export a study as a file that proves itself, and import one only if it does.

Everything in a file from outside is untrusted: it is parsed into typed records, every hash is
checked and every stated result recomputed, and all streams are replayed, before a row is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

import counterplay
from counterplay.core.exports import (
    START,
    Event,
    Export,
    Head,
    StudyLine,
    config_hash,
    read_export,
)
from counterplay.core.records import canonical, write_record
from counterplay.errors import CounterplayError
from counterplay.studio.errors import Refused
from counterplay.studio.kinds import NAMES, Kind, kind_of
from counterplay.studio.store import Store
from counterplay.studio.store import tables as t
from counterplay.studio.store.append import to_columns
from counterplay.studio.store.base import StudyRow, plain, public_id
from counterplay.studio.store.database import now, told
from counterplay.studio.store.folds import read_events
from counterplay.studio.store.studies import answered_versions

_WANTED = "what is wanted is a file of lines (.jsonl) that “Export with proof” gave."
_VERSIONS = ("study.created", "study.edited")
_UNREADABLE = (
    CounterplayError,
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What the replay of a hostile log may end in; all of it means: this file cannot be imported."""


def export_lines(store: Store, study: StudyRow, version: int | None = None) -> Iterator[str]:
    """Yield the lines of an export: the study, then every event of every stream.

    Answers belong to the version of the study under which they were given; an export holds those
    of one version, the present one by default, and its first line names the others that have
    answers. All lines are of one moment.
    """
    number = study.version if version is None else version
    kind = kind_of(study.kind)
    study_kind, config = kind.export(store.config(study, number))
    s = t.stream.c
    own = sa.case((s.id == study.public_id, 0), else_=1)
    mine = sa.and_(
        s.study == study.id, s.seq > 0, sa.or_(s.version == number, s.id == study.public_id)
    )
    with told(), store.engine.connect() as fresh:
        connection = fresh
        if connection.dialect.name != "sqlite":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin():
            rows = list(connection.execute(sa.select(t.stream).where(mine).order_by(own, s.party)))
            others = sorted(answered_versions(connection, study) - {number})
            line = StudyLine(
                kind="counterplay-export",
                version=1,
                study=study.public_id,
                study_kind=study_kind,  # type: ignore[arg-type]
                config=config,
                config_hash=config_hash(config),
                library_version=study.library_version,
                fold_version=study.fold_version,
                heads=tuple(Head(stream=r.id, seq=r.seq, hash=r.hash) for r in rows),
                study_version=number if others or number > 1 else None,
                other_versions=tuple(others),
            )
            yield write_record(line) + "\n"
            for row in rows:
                for event in read_events(connection, row.id):
                    yield write_record(event) + "\n"


def import_study(store: Store, data: bytes, *, actor: str) -> StudyRow:
    """Store the study of an export, all of it or nothing.

    Raises
    ------
    InvalidStateError, Refused
        The file is not an export, a hash or a result does not hold, the kind is not one of the
        studio's, or this version of the study or one of its streams is here already. Another
        version of the study is put beside those that are here.
    """
    from counterplay.verify import verify

    _check_form(data)
    export = read_export(data)
    if export.study.study_kind not in NAMES:
        raise Refused(
            f"The studio has no studies of the kind {export.study.study_kind!r}; "
            f"it knows {', '.join(NAMES)}."
        )
    broken = first_broken(export)
    if broken is not None:
        raise Refused(broken)
    for check in verify(data).checks:
        if check.status == "failed":
            raise Refused(f"{check.name}: {check.detail}; nothing was imported.")
    kind = kind_of(export.study.study_kind)
    streams: dict[str, list[Event]] = {}
    for event in export.events:
        streams.setdefault(event.stream, []).append(event)
    _replay_all(kind, export, streams)
    return _insert(store, kind, export, streams, actor)


def _check_form(data: bytes) -> None:
    """Say what a file is that cannot be an export: those begin with an object of JSON."""
    head = data[: 2**16].removeprefix(b"\xef\xbb\xbf").lstrip()
    if not data.strip():
        raise Refused("The file is empty.", "file")
    if head.startswith(b"{"):
        return
    if any(byte < 9 for byte in head):
        raise Refused("This is no text file; " + _WANTED, "file")
    if any(mark in head.partition(b"\n")[0] for mark in (b",", b";", b"\t")):
        raise Refused("This is a table; " + _WANTED, "file")
    raise Refused("This is no export; " + _WANTED, "file")


def first_broken(export: Export) -> str | None:
    """Return the sentence for the first event whose hash does not match; None if all do."""
    from counterplay.verify import broken_at

    streams: dict[str, list[Event]] = {}
    for event in export.events:
        streams.setdefault(event.stream, []).append(event)
    for name, events in streams.items():
        found = broken_at(events)
        if found is not None:
            return f"Event {found[0]} of stream {name[:12]}...: hash does not match ({found[1]})."
    return None


def _replay_all(kind: Kind, export: Export, streams: dict[str, list[Event]]) -> None:
    config, place = export.study.config, "The configuration"
    try:
        for events in streams.values():
            state = kind.begin(config)
            for event in events:
                place = f"Event {event.seq} of stream {event.stream[:12]}..."
                state = kind.apply(config, state, event)
    except _UNREADABLE as error:
        raise Refused(
            f"{place}: it cannot be replayed ({str(error)[:120]}); nothing was imported."
        ) from error


def _insert(
    store: Store, kind: Kind, export: Export, streams: dict[str, list[Event]], actor: str
) -> StudyRow:
    line = export.study
    fits = re.fullmatch(r"[A-Za-z0-9_-]{8,40}", line.study) is not None
    key = line.study if fits else public_id()
    longest = 40 if kind.name == "elicitation" else 80  # a participant is called as her stream
    if any(len(name) > longest or not name.isprintable() for name in streams):
        raise Refused(f"A stream of the export has a name of more than {longest} plain characters.")
    name, state = key, "closed"
    for event in streams.get(key, []):
        if event.kind in _VERSIONS and event.body is not None:
            name = str(event.body.get("name", name))
        words = {"study.opened": "open", "study.paused": "paused", "study.closed": "closed"}
        state = words.get(event.kind, state)

    version = line.study_version or 1

    def insert(connection: sa.Connection) -> None:
        number = _beside(connection, kind, key, version, line.config_hash, streams.get(key, []))
        fresh = number is None
        if number is None:
            values = {"public_id": key, "kind": kind.name, "name": plain(name, "name"),
                      "state": state, "version": version, "config_hash": line.config_hash,
                      "created_at": now(), "closed_at": now() if state == "closed" else None,
                      "fold_version": kind.fold_version,
                      "library_version": counterplay.__version__}  # fmt: skip
            made = connection.execute(sa.insert(t.study).values(values)).inserted_primary_key
            assert made is not None
            number = int(made[0])
        stored = {"study": number, "version": version, "config": canonical(line.config).decode(),
                  "config_hash": line.config_hash}  # fmt: skip
        connection.execute(sa.insert(t.study_version).values(stored))
        for stream, events in {key: [], **streams}.items():
            if fresh or stream != key:
                party = _insert_party(connection, kind, number, stream, events, own=stream == key)
                _insert_stream(connection, number, party, version, stream, events)

    try:
        store._write(insert)
        store._forget_studies()
    except sa.exc.IntegrityError:
        raise Refused(
            f"The study {key} or one of its streams is here already; nothing was imported."
        ) from None
    store.audit(actor, "study.import", key, {"events": len(export.events)})
    return store.study(key)


def _beside(
    connection: sa.Connection,
    kind: Kind,
    key: str,
    version: int,
    digest: str,
    own: list[Event],
) -> int | None:
    """Return the study to which another version of it can be added; None if there is no such study.

    Nothing that is here changes: the log of the study must name the version, and go at least as
    far as that of the file.
    """
    s, v = t.study.c, t.study_version.c
    row = connection.execute(sa.select(t.study).where(s.public_id == key)).first()
    if row is None:
        return None
    known = sa.select(v.version).where(v.study == row.id)
    here = read_events(connection, key)
    named = [(event.body.get("version"), event.body.get("config_hash"))
             for event in here if event.kind in _VERSIONS and event.body is not None]  # fmt: skip
    if row.kind != kind.name or version in connection.execute(known).scalars():
        raise Refused(
            f"The study {key} or one of its streams is here already; nothing was imported."
        )
    same = [event.hash for event in own] == [event.hash for event in here[: len(own)]]
    if not own or not same or (version, digest) not in named:
        raise Refused(
            f"The study {key} is here with an older log, or another one; nothing was imported. "
            "Import its newest export into a studio that does not have it, then the others."
        )
    if version > row.version:
        newest = {"version": version, "config_hash": digest}
        connection.execute(sa.update(t.study).where(s.id == row.id).values(newest))
    return int(row.id)


def _insert_party(
    connection: sa.Connection,
    kind: Kind,
    study: int,
    stream: str,
    events: list[Event],
    *,
    own: bool,
) -> int | None:
    """Add the participant of a stream; None for a stream that is not one person's."""
    if kind.name != "elicitation" or own:
        return None
    erased = any(event.kind == "party.withdrawn" for event in events)
    values: dict[str, Any] = {
        "study": study,
        "public_id": stream[:40],
        "role": "participant",
        "label": stream[:40],
        "created_at": now(),
        "erased_at": now() if erased else None,
    }
    made = connection.execute(sa.insert(t.party).values(values)).inserted_primary_key
    assert made is not None
    return int(made[0])


def _insert_stream(
    connection: sa.Connection,
    study: int,
    party: int | None,
    version: int,
    stream: str,
    events: list[Event],
) -> None:
    last = events[-1] if events else None
    head = {"id": stream, "study": study, "party": party, "version": version,
            "seq": 0 if last is None else last.seq,
            "hash": START if last is None else last.hash}  # fmt: skip
    connection.execute(sa.insert(t.stream).values(head))
    for start in range(0, len(events), 500):
        rows = [
            to_columns(event, None if event.body is None else canonical(event.body).decode())
            for event in events[start : start + 500]
        ]
        connection.execute(sa.insert(t.event), rows)
