"""Workers: processes that take jobs, one at a time, under limits of memory and time.

Each job runs in a child process; its worker prolongs the lease while the child lives and ends it
when the job was given to another. A child ends with its worker. Nothing here can write a result
twice: the fence of the job decides (:mod:`counterplay.studio.store.jobs`).
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from counterplay.errors import InvalidInputError
from counterplay.studio.errors import Refused, StudioError
from counterplay.studio.kinds import kind_of
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store
from counterplay.studio.store.base import JobRow
from counterplay.studio.store.jobs import Watch

Beat = Callable[[dict[str, Any]], bool]
_POLL = 0.5
_BAD_INPUT = 3  # exit status of a child that was given something it cannot use
_LOG = 100_000  # bytes of a job's output that are read for its log


def run_worker(settings: Settings, *, parent: int | None = None, once: bool = False) -> int:
    """Take jobs until stopped, or until the process ``parent`` is gone; return how many ended.

    Parameters
    ----------
    settings:
        The data; workers on other machines use the same PostgreSQL database and the same folder.
    parent:
        Process id of the server that started us.
    once:
        Stop as soon as there is nothing to do.

    Raises
    ------
    CannotStart
        The data folder is not the one of the servers of this database.
    """
    name = f"{socket.gethostname()[:40]}:{os.getpid()}"
    watch, ended = Watch(), 0
    with Store.open(settings) as store:
        if parent is None:  # a server's own workers have its folder
            store.check_folder()
        while parent is None or os.getppid() == parent:
            try:
                job = store.claim(name, watch)
                if job is not None:
                    ended += _run_child(store, job)
                    continue
            except StudioError:  # the database is away: it comes back, or we are stopped
                job = None
            if once:
                break
            time.sleep(_POLL)
    return ended


def _run_child(store: Store, job: JobRow) -> bool:
    """Run one job in a child; prolong its lease while the child lives."""
    settings = store.settings
    methods = multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
    with tempfile.TemporaryDirectory(prefix="counterplay-job-") as folder:
        log = Path(folder) / "log"
        child = context.Process(target=_child, args=(asdict(settings), asdict(job), str(log)))
        store.engine.dispose()  # a child must not share our connections
        child.start()
        begun = beaten = time.monotonic()
        held, late = True, False
        while child.is_alive() and held and not late:
            child.join(min(_POLL, settings.lease / 8))
            moment = time.monotonic()
            late = moment - begun > settings.job_seconds
            if moment - beaten > settings.lease / 4:
                with contextlib.suppress(StudioError):
                    held = store.beat(job)
                    beaten = moment
        if child.is_alive():
            child.kill()
        child.join()
        if not held or child.exitcode == 0:
            return bool(child.exitcode == 0)
        told = _tail(log)
        if child.exitcode == _BAD_INPUT:  # it would be refused again: said once, in one sentence
            store.fail(job, told.rstrip().rpartition("\n")[2], final=True)
            return False
        if late:
            told += f"\nended after {settings.job_seconds:g} s, the most a job may take"
        elif child.exitcode is not None and child.exitcode < 0:
            told += f"\nended by signal {-child.exitcode}"
        store.fail(job, told)
    return False


def _child(raw: dict[str, Any], fields: dict[str, Any], log: str) -> None:
    """Body of the child process: limits, output into the log, the work, the result."""
    with open(log, "ab", buffering=0) as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    parent = os.getppid()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    settings, job = Settings(**raw), JobRow(**fields)
    # what Ray shares between processes is mapped, but not the job's own
    limit_memory(settings.job_memory, shared=settings.ray is not None)
    try:
        with Store.open(settings) as store:
            result = work(store, job)
            store.finish(job, result)
    except BaseException as error:
        if isinstance(error, InvalidInputError) and not isinstance(error, StudioError):
            print("\n" + " ".join(str(error).split()), file=sys.stderr, flush=True)
            os._exit(_BAD_INPUT)
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)


def work(store: Store, job: JobRow) -> dict[str, Any]:
    """Do what a job says; pure but for artifacts, so a second run continues or repeats."""

    def beat(progress: dict[str, Any]) -> bool:
        return store.beat(job, progress)

    if job.kind == "probe":
        return _probe(job)
    kind: Any = kind_of(job.kind)
    if not hasattr(kind, "work"):
        raise Refused(f"Nothing is done by workers for studies of the kind {job.kind!r}.")
    result: dict[str, Any] = kind.work(store, job, beat)
    return result


def _probe(job: JobRow) -> dict[str, Any]:
    """A job that only waits, or fails: to see that workers work."""
    time.sleep(min(float(job.args.get("seconds", 0.0)), 60.0))
    if job.args.get("fails"):
        raise Refused("This job was asked to fail.")
    if size := int(job.args.get("bytes", 0)):
        return {"bytes": len(bytearray(size))}
    return {"attempt": job.attempt}


def limit_memory(most: int, *, shared: bool = False) -> None:
    """Let this process have at most so many bytes; ``shared``: what is mapped does not count."""
    try:
        import resource
    except ImportError:  # pragma: no cover
        return  # Windows has no such limits
    what = resource.RLIMIT_DATA if shared else resource.RLIMIT_AS
    soft, hard = resource.getrlimit(what)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    if soft == resource.RLIM_INFINITY or soft > most:
        resource.setrlimit(what, (most, hard))


def _end_with(parent: int) -> None:
    """End this process when its parent is gone, however it went."""
    while os.getppid() == parent:
        time.sleep(_POLL)
    os._exit(2)


def _tail(log: Path) -> str:
    if not log.exists():
        return ""
    with open(log, "rb") as stream:
        stream.seek(max(0, log.stat().st_size - _LOG))
        return stream.read().decode("utf-8", "replace")


class Workers:
    """The worker processes beside a server: started with it, started again when one dies."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._environment = dict(os.environ)  # before the server limits its own threads
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="studio-workers", daemon=True)

    def __enter__(self) -> Workers:
        if self._settings.workers:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)

    def _keep(self) -> None:
        while not self._stopped.wait(1.0):
            self._processes = [p for p in self._processes if p.poll() is None]
            while len(self._processes) < self._settings.workers:
                self._processes.append(self._start())

    def _start(self) -> subprocess.Popen[bytes]:
        raw = {**asdict(self._settings), "data": str(self._settings.data.absolute())}
        process = subprocess.Popen(
            [sys.executable, "-m", "counterplay.studio.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=self._environment,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps({"parent": os.getpid(), "settings": raw}).encode())
        process.stdin.close()  # by a pipe, not by arguments that everybody on the machine can read
        return process


def main() -> None:
    """Entry of a worker process that a server started."""
    given = json.load(sys.stdin)
    with contextlib.suppress(KeyboardInterrupt):
        run_worker(Settings(**given["settings"]), parent=int(given["parent"]))


if __name__ == "__main__":
    main()
