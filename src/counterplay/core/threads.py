"""Threads of this process: compiled functions on several cores, libraries on one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

_T = TypeVar("_T")


def in_threads(work: Callable[[_T], object], parts: Iterable[_T], most: int | None = None) -> None:
    """Call ``work`` with every part, on all cores or on at most ``most`` threads.

    The error of the earliest bad part is raised after all threads have ended; parts that nobody has
    begun by then are left out.

    Examples
    --------
    >>> seen = []
    >>> in_threads(seen.append, range(4))
    >>> sorted(seen)
    [0, 1, 2, 3]
    """
    queue = list(parts)
    total = min(cores(), len(queue), len(queue) if most is None else most)
    if total < 2:  # a single thread is this one
        for part in queue:
            work(part)
        return
    with ThreadPoolExecutor(total) as pool:
        for _ in pool.map(work, queue):
            pass


@cache
def cores() -> int:
    """Return the number of cores this process may use."""
    from joblib import cpu_count

    return int(cpu_count())


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit the libraries that are loaded to one thread inside the block."""
    limits: Any = import_module("threadpoolctl").threadpool_limits
    numba: Any = sys.modules.get("numba")
    before = numba.get_num_threads() if numba else 1
    with limits(limits=1):
        if before > 1:
            numba.set_num_threads(1)
        try:
            yield
        finally:
            if before > 1:
                numba.set_num_threads(before)
