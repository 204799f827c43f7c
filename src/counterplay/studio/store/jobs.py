"""Durable jobs: leases that expire, and a fence that only the newest holder can pass.

A job is claimed for a time; its worker prolongs the lease while it lives. A job whose lease has
expired, by the clock of the database or because nobody prolonged it while a waiting worker watched
its own monotone clock (so a clock that was set back delays nothing), is claimed again with a
higher fence. ``finish`` writes only where the fence matches, so there is at most one result.
Source: docs/theory/28-studio.md, "Durable jobs".
"""

from __future__ import annotations

import json
import time
from typing import Any

import sqlalchemy as sa

from counterplay.core.records import canonical
from counterplay.studio.errors import Missing, Refused
from counterplay.studio.store import tables as t
from counterplay.studio.store.base import JobRow, Rows
from counterplay.studio.store.database import now, reading

ATTEMPTS = 4
"""A job that was begun this often without an end has failed."""
_LOG_LINES = 40


class Jobs(Rows):
    """The queue of work for workers."""

    def enqueue(self, kind: str, args: dict[str, Any]) -> int:
        """Add a job; return its number."""
        return int(self._write(lambda connection: insert_job(connection, kind, args)))

    def job(self, number: int) -> JobRow:
        """Return a job."""
        found = self._jobs(sa.select(t.job).where(t.job.c.id == number))
        if not found:
            raise Missing("There is no such job.")
        return found[0]

    def jobs(self, limit: int = 1_000) -> list[JobRow]:
        """Return the newest jobs, newest first."""
        return self._jobs(sa.select(t.job).order_by(t.job.c.id.desc()).limit(limit))

    def _jobs(self, query: sa.Select[Any]) -> list[JobRow]:
        with reading(self.engine) as connection:
            return [_to_job(row) for row in connection.execute(query)]

    def claim(self, worker: str, watch: Watch) -> JobRow | None:
        """Take the oldest job that is ready or abandoned; None if there is none."""

        def take(connection: sa.Connection) -> int | None:
            c, clock = t.job.c, _clock(connection)
            abandoned = c.lease < clock
            silent = watch.silent(connection, self.settings.lease)
            if silent:
                abandoned = sa.or_(abandoned, c.id.in_(silent))
            query = (
                sa.select(c.id, c.fence, c.attempt)
                .where(sa.or_(c.state == "ready", sa.and_(c.state == "running", abandoned)))
                .order_by(c.id)
                .limit(1)
                .with_for_update(skip_locked=True)
            )
            row = connection.execute(query).first()
            if row is None:
                return None
            if row.attempt >= ATTEMPTS:
                told = f"given up after {ATTEMPTS} attempts, of which none came to an end"
                error = sa.func.coalesce(c.error, "") + told
                values: dict[str, Any] = {"state": "failed", "error": error, "done_at": now()}
                connection.execute(sa.update(t.job).where(c.id == row.id).values(values))
                return 0
            values = {"state": "running", "worker": worker[:80], "attempt": row.attempt + 1,
                      "fence": row.fence + 1, "beat": c.beat + 1,
                      "lease": clock + self.settings.lease}  # fmt: skip
            connection.execute(sa.update(t.job).where(c.id == row.id).values(values))
            return int(row.id)

        while True:
            number = self._write(take)
            if number != 0:  # zero: a job was given up, look at the next
                return None if number is None else self.job(number)

    def beat(self, job: JobRow, progress: dict[str, Any] | None = None) -> bool:
        """Prolong the lease; False if the job belongs to another worker by now."""

        def prolong(connection: sa.Connection) -> int:
            c = t.job.c
            values: dict[str, Any] = {
                "lease": _clock(connection) + self.settings.lease,
                "beat": c.beat + 1,
            }
            if progress is not None:
                values["progress"] = canonical(progress).decode()
            return connection.execute(_held(job).values(values)).rowcount

        return int(self._write(prolong)) == 1

    def finish(self, job: JobRow, result: dict[str, Any], also: Any = None) -> bool:
        """Write the result, once; False (and nothing written) if another worker has the job.

        ``also`` is called with the connection in the same transaction.
        """

        def end(connection: sa.Connection) -> bool:
            values = {"state": "done", "result": canonical(result).decode(), "done_at": now(),
                      "worker": None}  # fmt: skip
            if connection.execute(_held(job).values(values)).rowcount != 1:
                return False
            if also is not None:
                also(connection)
            return True

        return bool(self._write(end))

    def fail(self, job: JobRow, log: str, *, final: bool = False) -> bool:
        """Give a job back after an error; after the last attempt it has failed, with its log."""
        over = final or job.attempt >= ATTEMPTS
        tail = "\n".join(log.replace("\x00", "").splitlines()[-_LOG_LINES:])[-20_000:]
        values: dict[str, Any] = {
            "state": "failed" if over else "ready",
            "error": tail,
            "worker": None,
            "done_at": now() if over else None,
        }
        return self._do(_held(job).values(values)) == 1

    def retry(self, number: int) -> JobRow:
        """Let a failed job begin again."""
        c = t.job.c
        values = {"state": "ready", "attempt": 0, "error": None, "done_at": None}
        change = sa.update(t.job).where(c.id == number, c.state == "failed").values(values)
        if self._do(change) != 1:
            state = self.job(number).state
            raise Refused(f"Job {number} is {state}; only failed jobs can be tried again.")
        return self.job(number)


def insert_job(connection: sa.Connection, kind: str, args: dict[str, Any]) -> int:
    """Insert a job into a transaction; return its number."""
    values = {"kind": kind, "args": canonical(args).decode(), "state": "ready",
              "created_at": now(), "beat": 0, "attempt": 0, "fence": 0}  # fmt: skip
    key = connection.execute(sa.insert(t.job).values(values)).inserted_primary_key
    assert key is not None
    return int(key[0])


class Watch:
    """What a worker remembers of running jobs: since when, by its own clock, each is silent."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, int, float]] = {}

    def silent(self, connection: sa.Connection, seconds: float) -> list[int]:
        """Return the running jobs that showed no sign of life for this long."""
        c, moment = t.job.c, time.monotonic()
        query = sa.select(c.id, c.fence, c.beat).where(c.state == "running")
        seen = {}
        for row in connection.execute(query):
            known = self._seen.get(row.id)
            same = known is not None and known[:2] == (row.fence, row.beat)
            seen[row.id] = (row.fence, row.beat, known[2] if same and known else moment)
        self._seen = seen
        return [job for job, (_, _, since) in seen.items() if moment - since > seconds]


def _held(job: JobRow) -> Any:
    c = t.job.c
    return sa.update(t.job).where(c.id == job.id, c.fence == job.fence, c.state == "running")


def _clock(connection: sa.Connection) -> Any:
    """Seconds of the database's clock, so that workers on several machines agree."""
    if connection.dialect.name == "sqlite":
        seconds = (sa.func.julianday("now") - 2440587.5) * 86_400.0
    else:
        seconds = sa.cast(sa.extract("epoch", sa.func.clock_timestamp()), sa.Float)
    return float(connection.execute(sa.select(seconds)).scalar_one())


def _to_job(row: Any) -> JobRow:
    return JobRow(
        id=row.id,
        kind=row.kind,
        args=json.loads(row.args),
        state=row.state,
        worker=row.worker,
        attempt=row.attempt,
        fence=row.fence,
        progress=None if row.progress is None else json.loads(row.progress),
        result=None if row.result is None else json.loads(row.result),
        error=row.error,
        created_at=row.created_at,
        done_at=row.done_at,
    )
