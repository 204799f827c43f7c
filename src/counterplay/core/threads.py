"""Compiled functions that release the interpreter, on several cores of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import cache
from typing import TypeVar

_T = TypeVar("_T")


def in_threads(work: Callable[[_T], object], parts: Iterable[_T], most: int | None = None) -> None:
    """Call ``work`` with every part, on all cores or on at most ``most`` threads.

    The calling thread works along, so a few short parts cost one thread start at most. The first
    error of any thread is raised, after all threads have ended.

    Examples
    --------
    >>> seen = []
    >>> in_threads(seen.append, range(4))
    >>> sorted(seen)
    [0, 1, 2, 3]
    """
    queue = list(parts)
    total = max(1, min(cores(), len(queue), len(queue) if most is None else most))
    queue.reverse()
    errors: list[BaseException] = []

    def take() -> None:
        while queue and not errors:
            try:
                part = queue.pop()  # atomic; another thread may have emptied the list
            except IndexError:
                return
            try:
                work(part)
            except BaseException as error:
                errors.append(error)

    helpers = [threading.Thread(target=take, daemon=True) for _ in range(total - 1)]
    for helper in helpers:
        helper.start()
    take()
    for helper in helpers:
        helper.join()
    if errors:
        raise errors[0]


@cache
def cores() -> int:
    """Return the number of cores this process may use."""
    from joblib import cpu_count

    return int(cpu_count())
