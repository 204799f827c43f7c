"""One cell, executed the same way everywhere: in this process, in a worker, on a cluster.

A cell runs with one thread per numerical library and with the global random generators seeded, so
that its record depends on parameters and seed only, even where code below it is careless.
"""

from __future__ import annotations

import multiprocessing
import platform
import random
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from counterplay.errors import CounterplayError, InvalidInputError
from counterplay.studies.codec import plain
from counterplay.studies.fingerprint import code_fingerprint
from counterplay.studies.study import Params, Record, Value
from counterplay.studies.threads import one_thread


@dataclass(frozen=True)
class Task:
    """What a worker needs to know about a cell."""

    index: int
    label: str
    function: Callable[[Params, int], Record]
    params: dict[str, Value]
    seed: int
    fingerprint: str | None = None
    """Set where workers may have other code than the parent; they refuse when it differs."""


@dataclass(frozen=True)
class Failure:
    """Why a cell has no record."""

    message: str
    trace: str
    expected: bool
    """Whether the library raised it on purpose (bad input, missing data), not by a defect."""


@dataclass(frozen=True)
class Outcome:
    """What came back for one task: a record or a failure."""

    index: int
    record: dict[str, Value] | None
    failure: Failure | None
    wall_time: float


def execute(task: Task) -> Outcome:
    """Run one cell; an exception becomes a :class:`Failure`, so that other cells go on."""
    _leave_interrupts_to_parent()
    start = time.perf_counter()
    try:
        _check_code(task)
        with one_thread(), _seeded_globals(task.seed):
            record = task.function(dict(task.params), task.seed)
        flat = plain(record, f"the record of {task.label}")
        _check_keys(task, flat)
    except Exception as error:
        failure = Failure(
            message=f"{type(error).__name__}: {error}",
            trace=traceback.format_exc(),
            expected=isinstance(error, CounterplayError),
        )
        return Outcome(task.index, None, failure, time.perf_counter() - start)
    return Outcome(task.index, flat, None, time.perf_counter() - start)


def _check_code(task: Task) -> None:
    if task.fingerprint is not None and code_fingerprint(task.function) != task.fingerprint:
        raise InvalidInputError(
            f"the worker on {platform.node()} runs other code than this program; "
            "install the same version of counterplay on every node"
        )


def _check_keys(task: Task, record: dict[str, Value]) -> None:
    both = sorted(record.keys() & task.params.keys())
    if both:
        raise InvalidInputError(f"the record of {task.label} repeats the parameter {both[0]!r}")


def _leave_interrupts_to_parent() -> None:
    """In a worker process, let Ctrl-C stop the parent only, which then stops the workers."""
    in_worker = multiprocessing.current_process().name != "MainProcess"
    if in_worker and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _seeded_globals(seed: int) -> Iterator[None]:
    """Seed the generators that careless code falls back to; give them back afterwards."""
    legacy = np.random.mtrand._rand  # the generator behind np.random.seed and np.random.rand
    python_state, numpy_state = random.getstate(), legacy.get_state()
    random.seed(seed)
    legacy.seed(seed % 2**32)
    try:
        yield
    finally:
        random.setstate(python_state)
        legacy.set_state(numpy_state)
