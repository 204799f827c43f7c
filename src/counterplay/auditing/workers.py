"""Batches of a stage on one or several workers; the records are the same."""

from __future__ import annotations

from typing import Any

from counterplay.auditing.context import Context
from counterplay.auditing.section import Stage
from counterplay.core.threads import one_thread


def run_batches(context: Context, stage: Stage, batches: list[Any]) -> list[Any]:
    """Return the records of some batches, on several workers if the context has them."""
    if context.jobs == 1 or len(batches) == 1:
        return [stage.run(context, items) for items in batches]
    from joblib import Parallel, delayed

    workers = Parallel(n_jobs=context.jobs)
    return list(workers(delayed(_alone)(stage, context, items) for items in batches))


def _alone(stage: Stage, context: Context, items: Any) -> Any:
    """Run one batch in a worker, on one thread like everywhere."""
    with one_thread():
        return stage.run(context, items)
