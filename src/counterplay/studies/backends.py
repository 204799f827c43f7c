"""Where cells are executed: this process, joblib workers, or a Ray cluster.

A backend is a generator: tasks in, outcomes out, in the order in which they finish.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Literal, TypeAlias

from counterplay.core.clusters import connected
from counterplay.errors import CounterplayError, InvalidInputError
from counterplay.studies.execute import Failure, Outcome, Task, execute

Backend: TypeAlias = Literal["joblib", "ray"]


class WorkerError(CounterplayError, RuntimeError):
    """A worker process died before it could answer, for example for lack of memory."""

    exit_code = 1


def outcomes(
    tasks: Sequence[Task], *, jobs: int, backend: Backend, address: str | None
) -> Generator[Outcome]:
    """Execute ``tasks`` and yield each outcome as soon as it is there; closing stops the rest."""
    if backend == "ray":
        return _on_ray(tasks, jobs, address)
    if address is not None:
        raise InvalidInputError("--address names a Ray cluster; add --backend ray")
    if jobs == 1 or len(tasks) <= 1:
        return _here(tasks)
    return _on_joblib(tasks, min(jobs, len(tasks)))


def _here(tasks: Sequence[Task]) -> Generator[Outcome]:
    yield from map(execute, tasks)


def _on_joblib(tasks: Sequence[Task], jobs: int) -> Generator[Outcome]:
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import BrokenProcessPool

    with parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")
        running = parallel(delayed(execute)(task) for task in tasks)
    try:
        yield from running
    except BrokenProcessPool as error:
        raise WorkerError(
            "a worker process died, perhaps for lack of memory; run again with fewer --jobs"
        ) from error
    finally:
        running.close()


def _on_ray(tasks: Sequence[Task], jobs: int, address: str | None) -> Generator[Outcome]:
    with connected(address, jobs) as ray:
        remote = ray.remote(num_cpus=1, max_retries=2)(execute)
        at_once = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        waiting = list(reversed(tasks))
        running: dict[Any, Task] = {}
        while waiting or running:
            while waiting and len(running) < at_once:
                task = waiting.pop()
                running[remote.remote(task)] = task
            for reference in ray.wait(list(running), num_returns=1)[0]:
                yield _ray_answer(ray, reference, running.pop(reference))


def _ray_answer(ray: Any, reference: Any, task: Task) -> Outcome:
    try:
        outcome: Outcome = ray.get(reference)
    except ray.exceptions.RayError as error:
        message = str(error).strip().splitlines()[0]
        return Outcome(task.index, None, Failure(message, str(error), expected=False), 0.0)
    return outcome
