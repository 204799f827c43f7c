"""Runs hostile calls in a child process: five seconds and one gibibyte each, and it may crash.

Seconds are those of the processor, so that a busy machine gives the same verdicts.

The child works through the calls in order and reports each one. When it hangs it is killed, when it
dies it is replaced, and the next child goes on with the call after. Children are forks, so that
nothing is imported again.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from numba.core import event

import counterplay

from .campaign import BYTES, LONGEST_MESSAGE, SECONDS, Verdict

T = TypeVar("T")
LIBRARY = os.path.dirname(counterplay.__file__)
FORK = multiprocessing.get_context("fork")
PATIENCE = 60.0  # seconds of the clock until a call that sleeps is killed
PREPARATION = 120.0  # seconds to make the arguments and to compile


class Answer(NamedTuple):
    """How a call ended."""

    verdict: Verdict
    error: str = ""
    message: str = ""
    where: str = ""
    seconds: float = 0.0


class TooSlowError(BaseException):
    """The alarm of a call; no ``except Exception`` catches it."""


class BrokenSeedError(Exception):
    """The valid call itself fails."""


def run_isolated(
    calls: int,
    prepare: Callable[[], Callable[[int], Verdict]],
    *,
    seconds: float = SECONDS,
    memory: int = BYTES,
) -> list[Answer]:
    """Run ``prepare()(i)`` for every i below ``calls``, each within the limits.

    ``prepare`` runs once in every child and may take long. A call returns "ok" or another verdict
    about its result, or raises.
    """
    answers: list[Answer] = []
    while len(answers) < calls:
        work = partial(_work, len(answers), calls, prepare, seconds, memory)
        with _child(work) as (receiver, child):
            if not receiver.poll(PREPARATION):
                raise BrokenSeedError("it takes too long")
            _receive_preparation(receiver)
            while len(answers) < calls:
                answer = _receive(receiver, child, PATIENCE)
                answers.append(answer)
                if child.exitcode is not None:
                    break
    return answers


def in_child(function: Callable[[], T]) -> T:
    """Return ``function()`` from a child process, so that nothing of it stays in this one."""

    def work(sender: Connection) -> None:
        try:
            sender.send(("", function()))
        except BaseException as error:
            sender.send((f"{type(error).__name__}: {error}"[:400], None))

    with _child(work) as (receiver, _):
        if not receiver.poll(PREPARATION):
            raise BrokenSeedError("it takes too long")
        return cast(T, _receive_preparation(receiver))


@contextlib.contextmanager
def _child(work: Callable[[Connection], None]) -> Iterator[tuple[Connection, Any]]:
    """Fork a silent child that reports through a pipe; it is gone at the end."""
    receiver, sender = FORK.Pipe(duplex=False)

    def main() -> None:
        receiver.close()
        _be_silent()
        work(sender)
        os._exit(0)

    child = FORK.Process(target=main)
    child.start()
    sender.close()
    try:
        yield receiver, child
    finally:
        if child.exitcode is None:
            child.kill()
        child.join()
        receiver.close()


def _receive_preparation(receiver: Connection) -> Any:
    try:
        failure, value = receiver.recv()
    except EOFError:
        failure, value = "it crashes", None
    if failure:
        raise BrokenSeedError(failure)
    return value


def _receive(receiver: Connection, child: Any, patience: float) -> Answer:
    """Return the next answer; a child that hangs is killed, and one that died has crashed."""
    if not receiver.poll(patience):
        child.kill()
        child.join()
        return Answer("slow", "killed", seconds=patience)
    try:
        answer: Answer = receiver.recv()
    except EOFError:
        child.join()
        ran_out = child.exitcode == -signal.SIGXCPU  # compiled code does not hear the alarm
        return Answer("slow" if ran_out else "crash", f"exit code {child.exitcode}")
    return answer


def _work(
    first: int,
    calls: int,
    prepare: Callable[[], Callable[[int], Verdict]],
    seconds: float,
    memory: int,
    sender: Connection,
) -> None:
    try:
        call = prepare()
    except BaseException as error:
        sender.send((f"{type(error).__name__}: {error}"[:400], None))
        return
    budget = Budget(seconds)
    limit = _virtual_size() + memory
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    sender.send(("", None))
    for index in range(first, calls):
        sender.send(_answer(call, index, budget))


def _answer(call: Callable[[int], Verdict], index: int, budget: Budget) -> Answer:
    error: BaseException | None = None
    verdict: Verdict = "slow"
    try:
        try:
            budget.start()
            verdict = call(index)
        except BaseException as caught:
            error = caught
        spent = budget.stop()
    except TooSlowError:  # the alarm came just when the call was over
        return Answer("slow", seconds=budget.seconds)
    if error is None:
        return Answer("slow" if spent > budget.seconds else verdict, seconds=spent)
    name = type(error).__name__
    with contextlib.suppress(Exception):
        return Answer(judge_error(error), name, str(error)[:400], _where(error), spent)
    return Answer("undocumented", name, "its message cannot be read", seconds=spent)


class Budget(event.Listener):  # type: ignore[misc]
    """The seconds of one call on the processor, without those that compile it.

    Python code hears the alarm; compiled code that does not is ended two seconds later.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began = self.compiling_since = self.compiled = 0.0
        self.depth = 0
        self.running = False
        signal.signal(signal.SIGPROF, self._alarm)
        event.register("numba:compile", self)

    def start(self) -> None:
        """Begin a call."""
        self.began, self.compiled, self.depth = time.process_time(), 0.0, 0
        self.running = True
        self._arm(self.seconds)

    def stop(self) -> float:
        """End the call and return the seconds it took."""
        self.running = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        return round(self._spent(), 3)

    def on_start(self, event: Any) -> None:
        """Stop the clock while something is compiled."""
        self.depth += 1
        if self.depth == 1:
            self.compiling_since = time.process_time()
            self._arm(PATIENCE)

    def on_end(self, event: Any) -> None:
        """Let the clock go on."""
        self.depth -= 1
        if self.depth == 0:
            self.compiled += time.process_time() - self.compiling_since
            self._arm(max(self.seconds - self._spent(), 0.01))

    def _spent(self) -> float:
        return time.process_time() - self.began - self.compiled

    def _arm(self, seconds: float) -> None:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        most = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + 2, most))

    def _alarm(self, *_: Any) -> None:
        if self.running:
            raise TooSlowError


def judge_error(error: BaseException) -> Verdict:
    """Return whether the library promises this exception."""
    from sklearn.exceptions import NotFittedError

    from counterplay.errors import CounterplayError

    if isinstance(error, TooSlowError):
        return "slow"
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, CounterplayError | NotFittedError):
        return "documented" if len(str(error)) <= LONGEST_MESSAGE else "undocumented"
    if isinstance(error, TypeError) and _is_about_keywords(str(error)):
        return "documented"
    return "ok" if not _where(error) and not isinstance(error, RecursionError) else "undocumented"


def _is_about_keywords(message: str) -> bool:
    return "unexpected keyword argument" in message or (
        "missing" in message and "required" in message and "argument" in message
    )


def _where(error: BaseException) -> str:
    """Return the last line of the library in the traceback; empty if the library is not in it."""
    frames = [(f.f_code.co_filename, n) for f, n in traceback.walk_tb(error.__traceback__)]
    ours = [(name, line) for name, line in frames if is_ours(name)]
    return f"{os.path.relpath(ours[-1][0], LIBRARY)}:{ours[-1][1]}" if ours else ""


def is_ours(filename: str) -> bool:
    """Return whether a file belongs to the library."""
    return filename.startswith(LIBRARY + os.sep)


def _virtual_size() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


def _be_silent() -> None:
    """Send everything that is printed to nowhere."""
    faulthandler.disable()
    warnings.simplefilter("ignore")
    sys.stdout.flush()
    sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
