"""Batches of a stage on one or several workers; the records are the same."""

from __future__ import annotations

from typing import Any

from counterplay.auditing.context import Context
from counterplay.auditing.section import Stage
from counterplay.core.threads import one_thread


def workers_of(context: Context) -> int:
    """Return how many workers there are: those asked for, at most one per core.

    The cores are those of joblib's backend: of this machine, or of a cluster.
    """
    if context.jobs in (0, 1):
        return 1
    from joblib import effective_n_jobs

    cores = int(effective_n_jobs(-1))
    return cores if context.jobs < 0 else min(context.jobs, cores)


def run_batches(context: Context, stage: Stage, batches: list[Any]) -> list[Any]:
    """Return the records of some batches, on several workers if the context has them."""
    if workers_of(context) == 1 or len(batches) == 1:
        return [stage.run(context, items) for items in batches]
    from joblib import Parallel, delayed

    workers = Parallel(n_jobs=workers_of(context))
    return list(workers(delayed(_alone)(stage, context, items) for items in batches))


def _alone(stage: Stage, context: Context, items: Any) -> Any:
    """Run one batch in a worker, on one thread like everywhere."""
    with one_thread():
        return stage.run(context, items)
