"""Compiled functions that release the interpreter, on several cores of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

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
