"""One writer per process: everything that waits goes into one transaction.

A commit costs a flush of the disk, however many events it holds; so the writer takes all that is
waiting (at most 256), commits once, and then wakes those who asked. A batch that fails is repeated
one by one, so that a bad write fails alone. Between batches, and every 250 ms, the writer looks
whether another process has committed something.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import sqlalchemy as sa

from counterplay.studio.errors import StudioError, Unavailable
from counterplay.studio.store.database import unavailable, writing

Operation = Callable[[sa.Connection], Any]
MOST = 256
"""Most writes in one transaction."""
LOOK = 0.25
"""Seconds between two looks for the commits of other processes."""


class Moved(StudioError):
    """The stream is not where the writer of an event thought; nothing was written."""


class Writer:
    """The thread that commits; ``look`` is called with its connection between batches."""

    def __init__(self, engine: sa.Engine, look: Callable[[sa.Connection], None]) -> None:
        self._engine = engine
        self._look = look
        self._waiting: queue.SimpleQueue[tuple[Operation, Future[Any]] | None] = queue.SimpleQueue()
        self._connection: sa.Connection | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="studio-writer", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation) -> Future[Any]:
        """Queue a write; the future ends after COMMIT, or with what went wrong.

        An operation may be called more than once, each time in a new transaction; one that raises
        :class:`Moved` must not have written anything.
        """
        done: Future[Any] = Future()
        if self._closed:
            done.set_exception(Unavailable("The studio is shutting down; try again."))
        else:
            self._waiting.put((operation, done))
        return done

    def close(self) -> None:
        """Commit what is waiting, then stop."""
        self._closed = True
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        running = True
        while running:
            try:
                first = self._waiting.get(timeout=LOOK)
            except queue.Empty:
                self._try_look()
                continue
            batch = [] if first is None else [first]
            running = first is not None
            while len(batch) < MOST and not self._waiting.empty():
                item = self._waiting.get()
                if item is None:
                    running = False
                else:
                    batch.append(item)
            if batch:
                self._try_look()
                self._commit(batch)
        if self._connection is not None:
            self._connection.close()

    def _commit(self, batch: list[tuple[Operation, Future[Any]]]) -> None:
        try:
            results = self._transaction([operation for operation, _ in batch])
        except Exception as error:
            if len(batch) == 1:
                batch[0][1].set_exception(_named(error))
                return
            for item in batch:
                self._commit([item])
            return
        for (_, done), result in zip(batch, results):
            if isinstance(result, Moved):
                done.set_exception(result)
            else:
                done.set_result(result)

    def _transaction(self, operations: list[Operation], *, fresh: bool = False) -> list[Any]:
        """Run operations and commit; a connection that died before COMMIT is replaced once."""
        connection, committing = self._connected(), False
        try:
            with connection.begin() as transaction:
                results = [_result(operation, connection) for operation in operations]
                committing = True
                transaction.commit()
        except sa.exc.DBAPIError as error:
            self._drop(connection)
            if error.connection_invalidated and not committing and not fresh:
                return self._transaction(operations, fresh=True)
            raise
        return results

    def _connected(self) -> sa.Connection:
        if self._connection is None:
            self._connection = self._engine.connect().execution_options(writes=True)
        return self._connection

    def _drop(self, connection: sa.Connection) -> None:
        """Give a connection up: after an error nobody knows what state it is in."""
        self._connection = None
        with contextlib.suppress(sa.exc.SQLAlchemyError):
            connection.invalidate()
            connection.close()

    def _try_look(self) -> None:
        try:
            self._look(self._connected())
        except (sa.exc.SQLAlchemyError, StudioError):
            if self._connection is not None:
                self._drop(self._connection)


def _result(operation: Operation, connection: sa.Connection) -> Any:
    try:
        return operation(connection)
    except Moved as moved:
        return moved


class DirectWriter:
    """Writes at once in the caller's thread: for commands, workers and tests."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def submit(self, operation: Operation) -> Future[Any]:
        """Run a write in a transaction of its own."""
        done: Future[Any] = Future()
        try:
            with writing(self._engine) as connection:
                result = operation(connection)
            done.set_result(result)
        except Exception as error:
            done.set_exception(_named(error))
        return done

    def close(self) -> None:
        """Nothing waits."""


def _named(error: Exception) -> Exception:
    """A broken database is ``Unavailable``; what breaks a rule of the tables stays as it is."""
    if isinstance(error, sa.exc.DBAPIError | sa.exc.TimeoutError) and not isinstance(
        error, sa.exc.IntegrityError
    ):
        return unavailable(error)
    return error
