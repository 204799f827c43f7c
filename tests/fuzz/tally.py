"""Hostile calls in a child process of their own, and the table of how they ended."""

from __future__ import annotations

import multiprocessing
import resource
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from counterplay.errors import CounterplayError, CounterplayWarning

FAILURES = ("undocumented", "long", "later", "forged", "changed", "slow", "crash")
"""Another exception; a message over 300 characters; accepted and failed in use; accepted with a
guarantee that its events do not give; another result; over the time; the process died."""
SECONDS = 20
MEMORY = 3 * 2**30
LONGEST = 300
_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Tried:
    """How one hostile call ended: ``refused``, ``accepted`` or one of the failures."""

    group: str
    what: str
    verdict: str
    message: str = ""


class ForgedError(Exception):
    """Something was accepted that changes a guarantee."""


class TooSlowError(BaseException):
    """The alarm of a call; no ``except Exception`` catches it."""


def table(rows: Sequence[Tried]) -> str:
    """One line per group: how many were tried, refused, accepted, and failed in which way."""
    groups = list(dict.fromkeys(row.group for row in rows))
    counts = {group: Counter(r.verdict for r in rows if r.group == group) for group in groups}
    counts["all"] = Counter(row.verdict for row in rows)
    columns = ("refused", "accepted", *FAILURES)
    head = f"{'':24} {'tried':>6} " + " ".join(f"{name:>12}" for name in columns)
    lines = [
        f"{group:24} {sum(count.values()):6,} " + " ".join(f"{count[c]:12,}" for c in columns)
        for group, count in counts.items()
    ]
    return "\n".join([head, *lines])


def failures(rows: Iterable[Tried]) -> list[Tried]:
    """What must not happen."""
    return [row for row in rows if row.verdict in FAILURES]


def judged(group: str, what: str, read: Callable[[], Any], use: Callable[[Any], None]) -> Tried:
    """Read something hostile; if it is accepted, use it. Both may only end as documented."""
    try:
        value = read()
    except CounterplayError as error:
        told = str(error)
        verdict = "refused" if len(told) <= LONGEST else "long"
        return Tried(group, what, verdict, told[:400])
    except Exception as error:
        return Tried(group, what, "undocumented", f"{type(error).__name__}: {error}"[:400])
    try:
        use(value)
    except ForgedError as error:
        return Tried(group, what, "forged", str(error)[:400])
    except CounterplayError as error:
        return Tried(group, what, "accepted", str(error)[:400])
    except Exception as error:
        return Tried(group, what, "later", f"{type(error).__name__}: {error}"[:400])
    return Tried(group, what, "accepted")


def in_child(group: str, n: int, one: Callable[[int], Tried]) -> list[Tried]:
    """Judge ``one(0)`` to ``one(n - 1)`` in child processes; one that dies is replaced."""
    rows: list[Tried] = []
    while len(rows) < n:
        mine, theirs = _FORK.Pipe(duplex=False)
        child = _FORK.Process(target=_work, args=(theirs, group, len(rows), n, one), daemon=True)
        child.start()
        theirs.close()
        try:
            while len(rows) < n and mine.poll(SECONDS + 60):
                rows.append(mine.recv())
        except EOFError:
            pass
        if len(rows) < n:
            rows.append(Tried(group, str(len(rows)), "crash", f"exit code {child.exitcode}"))
        child.kill()
        child.join()
    return rows


def _work(pipe: Any, group: str, start: int, n: int, one: Callable[[int], Tried]) -> None:
    def alarm(*_: Any) -> None:
        raise TooSlowError

    signal.signal(signal.SIGALRM, alarm)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY, resource.RLIM_INFINITY))
    warnings.simplefilter("ignore", CounterplayWarning)
    for number in range(start, n):
        begun = time.monotonic()
        signal.alarm(SECONDS)
        try:
            row = one(number)
        except TooSlowError:
            row = Tried(group, str(number), "slow", f"{time.monotonic() - begun:.0f} s")
        signal.alarm(0)
        pipe.send(row)


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[0]) * resource.getpagesize()
