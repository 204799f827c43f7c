"""``counterplay studio check``: whether everything that was to be kept is there and whole."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from counterplay.core.exports import START
from counterplay.core.records import to_record
from counterplay.errors import CounterplayError
from counterplay.studio.settings import Settings
from counterplay.studio.store import tables as t
from counterplay.studio.store.database import make_engine, reading
from counterplay.studio.store.folds import read_events
from counterplay.studio.store.migrations import HEAD, revision

LEAST_FREE = 0.05
"""Share of the disk that must be free."""
_AHEAD = timedelta(minutes=2)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str

    def __str__(self) -> str:
        return f"{'ok' if self.ok else 'failed':<6} {self.name}: {self.detail}"


def check_studio(settings: Settings) -> list[Finding]:
    """Look at the schema, the database's own check, every chain, every file, disk and clock."""
    engine = make_engine(settings)
    try:
        with reading(engine) as connection:
            found = revision(connection)
            told = f"revision {found}, the program has {HEAD}"
            findings = [Finding("schema", found == HEAD, told)]
            if found == HEAD:
                findings += check_database(connection)
                findings += [_artifacts(connection, settings), _jobs(connection)]
                findings.append(_clock(connection))
    finally:
        engine.dispose()
    return [*findings, _disk(settings)]


def check_database(connection: sa.Connection) -> Iterator[Finding]:
    """Check what lies in the database itself: also of a backup before it is restored."""
    if connection.dialect.name == "sqlite":
        said = connection.exec_driver_sql("PRAGMA integrity_check").scalar()
        yield Finding("integrity", said == "ok", str(said)[:200])
        orphans = len(list(connection.exec_driver_sql("PRAGMA foreign_key_check")))
        yield Finding("references", orphans == 0, f"{orphans} rows point to nothing")
    streams = events = erased = 0
    broken: list[str] = []
    for row in connection.execute(sa.select(t.stream).order_by(t.stream.c.id)):
        wrong, count, gone = _stream(connection, row)
        streams, events, erased = streams + 1, events + count, erased + gone
        if wrong:
            broken.append(wrong)
    kept = f"{events} events in {streams} streams, {erased} erased"
    yield Finding("chains", not broken, "; ".join(broken[:5]) if broken else kept)


def _stream(connection: sa.Connection, row: Any) -> tuple[str | None, int, int]:
    from counterplay.verify import broken_at

    try:
        events = read_events(connection, row.id)
        for event in events:  # what an export would have to hold
            to_record(event_fields(event), type(event), what=f"event {event.seq}")
    except (ValueError, CounterplayError) as error:
        return f"stream {row.id[:12]}...: {str(error)[:150]}", 0, 0
    found = broken_at(events)
    if found is not None:
        return f"stream {row.id[:12]}...: {found[1]}", len(events), 0
    last = (events[-1].seq, events[-1].hash) if events else (0, START)
    if last != (row.seq, row.hash):
        return f"stream {row.id[:12]}...: it ends at {last[0]}, its head says {row.seq}", 0, 0
    return None, len(events), sum(event.body is None for event in events)


def event_fields(event: Any) -> dict[str, Any]:
    """Return an event as parsed JSON would be."""
    return {name: getattr(event, name) for name in event.__struct_fields__}


def _artifacts(connection: sa.Connection, settings: Settings) -> Finding:
    bad, count = [], 0
    for row in connection.execute(sa.select(t.artifact)):
        count += 1
        path = settings.data / row.path
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != row.sha256:
            bad.append(row.name)
    told = f"missing or changed: {', '.join(bad[:5])}" if bad else f"{count} files"
    return Finding("artifacts", not bad, told)


def _jobs(connection: sa.Connection) -> Finding:
    rows = connection.execute(sa.select(t.job.c.state, sa.func.count()).group_by(t.job.c.state))
    counts = {row[0]: row[1] for row in rows}
    told = ", ".join(f"{number} {state}" for state, number in sorted(counts.items())) or "none"
    return Finding("jobs", not counts.get("failed"), told)


def _clock(connection: sa.Connection) -> Finding:
    last = connection.execute(sa.select(sa.func.max(t.event.c.at))).scalar()
    if last is None:
        return Finding("clock", True, "no events yet")
    ahead = datetime.fromisoformat(last) - datetime.now(UTC)
    told = "the clock runs after the newest event"
    if ahead > _AHEAD:
        told = f"the newest event is {ahead} in the future: the clock was set back"
    return Finding("clock", ahead <= _AHEAD, told)


def _disk(settings: Settings) -> Finding:
    folder = settings.data.absolute()  # a studio on PostgreSQL may not have one yet
    usage = shutil.disk_usage(next(p for p in (folder, *folder.parents) if p.exists()))
    free = usage.free / usage.total
    return Finding("disk", free > LEAST_FREE, f"{100 * free:.0f} % free")


def all_ok(findings: Iterable[Finding]) -> bool:
    """Whether nothing failed."""
    return all(finding.ok for finding in findings)
