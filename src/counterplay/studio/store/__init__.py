"""The store: an append-only log with one total order per stream, on SQLite or PostgreSQL.

``append`` answers after COMMIT; a retry with the same key has one effect; two writers of one stream
cannot both succeed; state is the replay of the log. Everything else here (studies, parties, links,
sessions, jobs, artifacts) are rows around that log.
Source: docs/theory/28-studio.md, "Append".
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import sqlalchemy as sa

from counterplay.core.exports import Event
from counterplay.studio.errors import CannotStart, Conflict, KeyReuse, Unavailable
from counterplay.studio.kinds import NewEvent, kind_of
from counterplay.studio.settings import Settings
from counterplay.studio.store.append import (
    Appended,
    Prepared,
    checked,
    find_key,
    prepare,
    same_event,
)
from counterplay.studio.store.base import StudyRow
from counterplay.studio.store.broadcast import Broadcast
from counterplay.studio.store.database import (
    FileLock,
    make_engine,
    make_folder,
    reading,
    take_server_lock,
)
from counterplay.studio.store.erasing import Erasing
from counterplay.studio.store.folds import (
    FoldCache,
    Folded,
    empty,
    read_events,
    read_followed,
    read_heads,
    replay,
)
from counterplay.studio.store.jobs import Jobs
from counterplay.studio.store.links import Links
from counterplay.studio.store.migrations import migrate
from counterplay.studio.store.records import Records
from counterplay.studio.store.sessions import Sessions
from counterplay.studio.store.writer import LOOK, DirectWriter, Moved, Writer

__all__ = ["Appended", "Folded", "NewEvent", "Store"]

R = TypeVar("R")
_RETRIES = 1_000
_STRIPES = 1_024
_THREADS = min(16, 4 + (os.cpu_count() or 4))  # more of them only wait for each other


class Store(Sessions, Links, Erasing, Jobs, Records):
    """One per process. Short methods are synchronous; a server awaits :meth:`run` with them.

    Use :meth:`open`. With ``server=True`` one thread commits for all (group commit), and a SQLite
    file belongs to this server until :meth:`close`; other processes may write beside it.
    """

    def __init__(self, settings: Settings, engine: sa.Engine, lock: FileLock | None) -> None:
        self.settings = settings
        self.engine = engine
        self.changed = Broadcast()
        self._lock = lock
        self._folds = FoldCache()
        self._streams = [threading.Lock() for _ in range(_STRIPES)]
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._studies: dict[int, StudyRow] = {}
        self._configs: OrderedDict[tuple[int, int], dict[str, Any]] = OrderedDict()
        self._found: dict[bytes, tuple[float, Any]] = {}
        self._seen: dict[str, int] = {}
        self._noted: dict[int, float] = {}
        self._data_version: int | None = None
        self._look_again = 0.0
        self._trusted = False
        self._pool: ThreadPoolExecutor | None = None
        self._writer: Writer | DirectWriter = DirectWriter(engine)

    @classmethod
    def open(cls, settings: Settings, *, server: bool = False) -> Store:
        """Open the database, and bring it to the present schema if it is older.

        Raises
        ------
        CannotStart
            The folder cannot be written, another server has it or it is not that of the
            database, the database is newer than the program or cannot be reached, or a migration
            failed.
        """
        make_folder(settings)
        lock = take_server_lock(settings) if server else None
        engine = make_engine(settings)
        try:
            migrate(engine, settings)
        except BaseException as error:
            engine.dispose()
            if lock is not None:
                lock.release()
            if isinstance(error, Unavailable):
                told = "the database cannot be used; look at --database, --data and the disk"
                raise CannotStart(f"{told} ({error.reason})") from error
            raise
        store = cls(settings, engine, lock)
        if server:
            try:
                store.claim_folder()
            except BaseException:
                store.close()
                raise
            store._serve()
        return store

    def _serve(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="studio")
        self._writer = Writer(self.engine, self._look)
        # Wait for the first look, so that what is cached from now on is watched.
        self._writer.submit(lambda connection: None).result()
        self._trusted = self.settings.sqlite_file is not None

    def close(self) -> None:
        """Commit what waits, stop the threads, give the file free."""
        self.changed.close()
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        self._writer.close()
        self.engine.dispose()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def run(self, work: Callable[..., R], *arguments: Any) -> R:
        """Await a blocking method in a thread of the store."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    async def at_hand(self, look: Callable[..., R], *arguments: Any) -> R:
        """Look something up: here where it is in memory or beside us, else in a thread.

        A database that is slow or away must not keep everybody waiting.
        """
        return look(*arguments) if self._trusted else await self.run(look, *arguments)

    # Appending

    async def append(self, stream: str, event: NewEvent, *, expected: int | None) -> Appended:
        """Append one event after number ``expected`` (None: after whatever is last)."""
        return (await self.append_all(stream, [event], expected=expected))[0]

    async def append_all(
        self, stream: str, events: Sequence[NewEvent], *, expected: int | None
    ) -> list[Appended]:
        """Append all events or none, in one transaction."""
        wanted = list(events)
        async with self._turn(stream):
            for tried in range(_RETRIES):
                begun = await self.run(self._begin, stream, wanted, expected, None, tried > 0)
                if isinstance(begun, list):
                    return begun
                try:
                    return await asyncio.shield(asyncio.wrap_future(begun))
                except (Moved, sa.exc.IntegrityError):
                    continue
        raise Unavailable("Too many others write to this study at the same time; try again.")

    def append_now(self, stream: str, event: NewEvent, *, expected: int | None) -> Appended:
        """Append one event and wait, without an event loop."""
        return self.append_all_now(stream, [event], expected=expected)[0]

    def append_all_now(
        self, stream: str, events: Sequence[NewEvent], *, expected: int | None
    ) -> list[Appended]:
        """Append all events or none and wait, without an event loop."""
        return self._append_with(stream, list(events), expected, None)

    def _append_with(
        self,
        stream: str,
        events: list[NewEvent],
        expected: int | None,
        also: Callable[[sa.Connection], None] | None,
    ) -> list[Appended]:
        for tried in range(_RETRIES):
            begun = self._begin(stream, events, expected, also, tried > 0)
            if isinstance(begun, list):
                return begun
            try:
                return begun.result()
            except (Moved, sa.exc.IntegrityError):
                continue
        raise Unavailable("Too many others write to this study at the same time; try again.")

    def _begin(
        self,
        stream: str,
        events: list[NewEvent],
        expected: int | None,
        also: Callable[[sa.Connection], None] | None,
        again: bool,
    ) -> list[Appended] | Future[list[Appended]]:
        """Prepare under the stream's lock and queue the write; the lock is free after COMMIT.

        Returns at once what was there already, under the same keys. A key is new if nothing was
        written since the page was made; if it is not, the table refuses it, and we look ``again``.
        """
        for event in events:
            checked(event)
        lock = self._lock_of(stream)
        lock.acquire()
        try:
            before = self._current(stream)
            known: list[Appended] = []
            new = events
            if again or before.seq != expected:
                known, new = self._split(stream, events)
            if not new:
                lock.release()
                return known
            if expected is not None and before.seq != expected:
                raise Conflict(before.seq)
            study = self.study_by_id(before.study)
            config = self.config(study, before.version)
            ready = prepare(
                kind_of(study.kind),
                config,
                study.state,
                before,
                new,
                touch=lambda: self._folds.drop(stream),  # it is not current until the commit
            )
            ready.also = also
        except BaseException:
            lock.release()
            raise
        done: Future[list[Appended]] = Future()
        written = self._writer.submit(ready.write)
        written.add_done_callback(lambda w: self._end(w, ready, known, done, lock))
        return done

    def _end(
        self,
        written: Future[Any],
        ready: Prepared,
        known: list[Appended],
        done: Future[list[Appended]],
        lock: threading.Lock,
    ) -> None:
        error = written.exception()
        if error is None:
            self._folds.put(ready.after)
        elif isinstance(error, Moved):
            self._studies = {}  # it may be closed by now
        lock.release()
        if error is not None:
            done.set_exception(error)
            return
        done.set_result(known + ready.own)
        self._publish(ready.after.stream, ready.after.seq, ready.after.study)

    def _split(self, stream: str, events: list[NewEvent]) -> tuple[list[Appended], list[NewEvent]]:
        """Which events are there already, in order, and which are new."""
        known, new = [], []
        with reading(self.engine) as connection:
            for event in events:
                row = find_key(connection, stream, event.key)
                if row is None:
                    new.append(event)
                elif same_event(row, event):
                    known.append(Appended(row.seq, row.hash, True))
                else:
                    raise KeyReuse
        return known, new

    # Reading

    async def fold(self, stream: str) -> Folded:
        """Return the current state of a stream; do not change it."""
        async with self._turn(stream):
            return await self.run(self.fold_now, stream)

    def fold_now(self, stream: str, *, fresh: bool = False) -> Folded:
        """Return the current state of a stream, without an event loop.

        Commits of other processes are noticed within a moment; ``fresh`` looks for them first.
        """
        with self._lock_of(stream):
            return self._current(stream, fresh=fresh)

    async def view(
        self,
        stream: str,
        look: Callable[[Folded], R],
        *,
        quick: bool = False,
        known: int | None = None,
    ) -> R:
        """Return ``look(folded)`` while nobody changes the state.

        It is called in a thread, unless it is ``quick`` and the state is at hand. A state that has
        come to the number ``known`` is taken as it is.
        """
        async with self._turn(stream):
            lock = self._lock_of(stream)
            if quick and self._trusted and lock.acquire(blocking=False):
                try:
                    cached = self._folds.get(stream)
                    if cached is not None:
                        return look(cached)
                finally:
                    lock.release()
            return await self.run(self.view_now, stream, look, known)

    def view_now(self, stream: str, look: Callable[[Folded], R], known: int | None = None) -> R:
        """Return ``look(folded)`` while nobody changes the state, without an event loop."""
        with self._lock_of(stream):
            return look(self._current(stream, known=known))

    def events(self, stream: str, after: int = 0) -> list[Event]:
        """Return the events of a stream, from number ``after`` + 1 on."""
        with reading(self.engine) as connection:
            return read_events(connection, stream, after)

    def listen(self, streams: Iterable[str | int]) -> AsyncIterator[tuple[str, int]]:
        """Yield (stream, seq) after each commit; the number of a study stands for all of its."""
        return self.changed.listen(streams)

    def _turn(self, stream: str) -> asyncio.Lock:
        """Return the lock of a stream for tasks: those who wait for it hold no thread."""
        return self._turns.setdefault(stream, asyncio.Lock())

    def _lock_of(self, stream: str) -> threading.Lock:
        return self._streams[hash(stream) % _STRIPES]

    def _current(self, stream: str, *, fresh: bool = False, known: int | None = None) -> Folded:
        """Return the fold of a stream as of its head; under the stream's lock."""
        cached, seen = self._folds.get(stream), self._data_version
        new = cached is not None and known is not None and cached.seq >= known
        if cached is not None and (self._trusted or new) and not fresh:
            return cached
        with reading(self.engine) as connection:
            head = empty(connection, stream)
            same = cached is not None and cached.version == head.version
            if same and cached and (cached.seq, cached.hash) == (head.seq, head.hash):
                return cached
            tail = same and cached is not None and cached.seq < head.seq
            events = read_events(connection, stream, cached.seq if tail and cached else 0)
        if tail and any(event.kind == "party.withdrawn" for event in events):
            events, tail = self.events(stream), False  # the past lost its content
        study = self.study_by_id(head.study)
        config = self.config(study, head.version)
        start = cached if tail else None
        self._folds.drop(stream)
        folded = replay(kind_of(study.kind), config, head, events, start)
        if seen == self._data_version:  # else others wrote meanwhile, perhaps to this stream
            self._folds.put(folded)
        return folded

    def _look(self, connection: sa.Connection) -> None:
        """Notice the commits of other processes; called by the writer between batches."""
        if self.settings.sqlite_file is not None:
            raw = connection.connection.dbapi_connection
            version = raw.execute("PRAGMA data_version").fetchone()[0]  # type: ignore[union-attr]
            if version == self._data_version:
                return
            self._data_version = version
            self._studies, self._found = {}, {}
            with reading(self.engine) as reader:
                self._folds.drop_stale(read_heads(reader, self._folds.names()))
        elif time.monotonic() < self._look_again:
            return  # a busy writer looks before every commit
        self._look_again = time.monotonic() + LOOK
        streams, studies = self.changed.followed()
        if streams or studies:
            with reading(self.engine) as reader:
                heads = read_followed(reader, streams, studies)
            for stream, seq, study in heads:
                self._publish(stream, seq, study)

    def _publish(self, stream: str, seq: int, study: int) -> None:
        """Tell listeners, once per number."""
        if self._seen.get(stream) != seq:
            self._seen[stream] = seq
            if len(self._seen) > 50_000:
                self._seen.clear()
            self.changed.publish(stream, seq, study)
