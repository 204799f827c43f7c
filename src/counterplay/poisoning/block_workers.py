"""Where blocks are fitted: here, in threads, in processes, on Ray; a dead worker costs its block.

Tasks go out and answers come back in the order of the blocks, so that the result is the same for
any number of workers and any backend. If a worker process dies, the blocks without an answer are
fitted one per process: what dies again has no answer, the rest is there.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Literal

from joblib import Parallel, cpu_count, delayed

from counterplay.core.progress import progress_bar
from counterplay.errors import MissingDependencyError

Backend = Literal["loky", "threading", "ray"]
Progress = bool | Callable[[int, int], object]


@dataclass(frozen=True)
class Dead:
    """Stands for the answer of a worker that gave none."""

    kind: str
    message: str


@dataclass(frozen=True)
class Workers:
    """How blocks are fitted.

    Parameters
    ----------
    n_jobs
        Number of workers; None for one.
    backend
        Processes of joblib, threads, or tasks on Ray.
    timeout
        Seconds after which a block is given up; None for never.
    progress
        Show a bar, or a function that is called with the blocks done and all blocks.
    """

    n_jobs: int | None = None
    backend: Backend | None = None
    timeout: float | None = None
    progress: Progress = False

    @property
    def count(self) -> int:
        """Number of workers."""
        n = 1 if self.n_jobs is None else self.n_jobs
        return max(1, cpu_count() + 1 + n) if n < 0 else n

    def run(self, call: Callable[..., Any], tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        """Return ``call(*task())`` for each task; :class:`Dead` where there is no answer.

        A task is a function that returns the arguments, so that only the data of the blocks that
        are at work are there twice.
        """
        answers: list[Any] = []
        with self._shown(len(tasks)) as tell:
            for answer in self._answers(call, tasks):
                answers.append(answer)
                tell(len(answers))
        return answers

    def _answers(self, call: Callable[..., Any], tasks: Sequence[Callable[[], Any]]) -> Any:
        if self.backend == "ray":
            return _on_ray(call, tasks, self.count, self.timeout)
        if self.timeout is not None:
            return _one_each(call, tasks, self.count, self.timeout)
        if self.count == 1 or len(tasks) < 2:
            return (call(*task()) for task in tasks)
        if self.backend == "threading":
            given = (delayed(call)(*task()) for task in tasks)
            return Parallel(self.count, backend="threading", return_as="generator")(given)
        return _on_loky(call, tasks, self.count)

    @contextlib.contextmanager
    def _shown(self, total: int) -> Iterator[Callable[[int], None]]:
        if callable(self.progress):
            told = self.progress
            yield lambda done: (told(done, total), None)[1]
            return
        with progress_bar(bool(self.progress)) as bar:
            line = bar.add_task("blocks", total=total)
            yield lambda done: bar.update(line, completed=done)


def _on_loky(
    call: Callable[..., Any], tasks: Sequence[Callable[[], Any]], count: int
) -> Iterator[Any]:
    given = (delayed(call)(*task()) for task in tasks)
    done = 0
    try:
        for answer in Parallel(count, backend="loky", return_as="generator")(given):
            done += 1
            yield answer
    except BrokenExecutor:  # a worker died: find the block that kills it
        yield from _one_each(call, tasks[done:], count, None)


def _one_each(
    call: Callable[..., Any], tasks: Sequence[Callable[[], Any]], count: int, timeout: float | None
) -> Iterator[Any]:
    """Run each task in a process that has no other; a process that dies is replaced."""
    free: SimpleQueue[_Process] = SimpleQueue()
    processes = [_Process() for _ in range(min(count, 1 + len(tasks) // 8))]  # dear to start
    for process in processes:
        free.put(process)

    def one(task: Callable[[], Any]) -> Any:
        process = free.get()
        try:
            return process.answer(call, task(), timeout)
        finally:
            free.put(process)

    try:
        with ThreadPoolExecutor(len(processes)) as threads:
            yield from threads.map(one, tasks)
    finally:
        for process in processes:
            process.close()


class _Process:
    """A worker process that can be killed and replaced."""

    def __init__(self) -> None:
        self._pool: Any = None

    def answer(self, call: Callable[..., Any], task: Sequence[Any], timeout: float | None) -> Any:
        """Return what the process answers, or that it does not."""
        if self._pool is None:
            from joblib.externals.loky import ProcessPoolExecutor

            self._pool = ProcessPoolExecutor(max_workers=1)
            self._start(task[0])
        try:
            return self._pool.submit(call, *task).result(timeout)
        except FutureTimeout:
            self.close()
            return Dead("TimeoutError", f"not fitted within {timeout:g} s")
        except BrokenExecutor:
            self.close()
            return Dead("BrokenExecutor", "the process died while fitting")

    def _start(self, base: Any) -> None:
        """Wait until the process has imported what it needs: that is not the block's time."""
        with contextlib.suppress(BrokenExecutor):
            self._pool.submit(_ready, base).result()

    def close(self) -> None:
        """End the process."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=True)
            self._pool = None


def _ready(base: Any) -> None:
    """Import what a block needs; the estimator brings its own modules."""
    import counterplay.poisoning.block_fits  # noqa: F401


def _on_ray(
    call: Callable[..., Any], tasks: Sequence[Callable[[], Any]], count: int, timeout: float | None
) -> Iterator[Any]:
    """Run tasks on a Ray cluster, twice as many as it has processors at a time."""
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise MissingDependencyError.for_extra("ray", "ray") from None
    started = not ray.is_initialized()
    if started:
        _connect(ray, count)
    try:
        remote = ray.remote(num_cpus=1, max_retries=0)(_timed)
        at_once = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        sent: list[Any] = []
        for i in range(len(tasks)):
            while len(sent) < min(len(tasks), i + at_once):
                sent.append(remote.remote(call, timeout, *tasks[len(sent)]()))
            answer = _ray_answer(ray, sent[i], timeout)
            sent[i] = None  # the object store may forget it
            if isinstance(answer, Dead) and timeout is None:  # perhaps another one's fault
                answer = _ray_answer(ray, remote.remote(call, timeout, *tasks[i]()), timeout)
            yield answer
    finally:
        if started:
            ray.shutdown()


def _connect(ray: Any, count: int) -> None:
    """Join the cluster that RAY_ADDRESS names, or start one on this machine."""
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if not os.environ.get("RAY_ADDRESS"):
        options |= {"num_cpus": count, "include_dashboard": False}
    ray.init(**options)


def _ray_answer(ray: Any, reference: Any, timeout: float | None) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError:  # a mistake of ours: a failing fit is an answer
        raise
    except ray.exceptions.RayError:
        if timeout is None:
            return Dead("BrokenExecutor", "the process died while fitting")
        return Dead("TimeoutError", f"not fitted within {timeout:g} s, or the process died")


def _timed(call: Callable[..., Any], timeout: float | None, *task: Any) -> Any:
    """Call in a Ray worker; past the time the system ends the process, whatever it is doing."""
    if timeout is None or not hasattr(signal, "setitimer"):
        return call(*task)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    try:
        return call(*task)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
