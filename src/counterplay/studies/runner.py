"""Executes the missing cells of studies and stores each as soon as it is finished.

Only the parent process writes to the store. Which worker computed a cell, in which order, and
whether the run was killed in between leaves no trace in the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

from counterplay.core.progress import progress_bar
from counterplay.core.validation import check_choice, check_int
from counterplay.errors import CounterplayError, StoreError
from counterplay.studies.backends import Backend, outcomes
from counterplay.studies.execute import Failure, Task
from counterplay.studies.fingerprint import code_fingerprint
from counterplay.studies.plan import Cell, plan_cells
from counterplay.studies.provenance import current_provenance
from counterplay.studies.registry import RegisteredStudy
from counterplay.studies.store import Store, StoredCell
from counterplay.studies.study import Scale


class RunInterruptedError(CounterplayError):
    """The user stopped the run; what was finished is stored."""

    exit_code = 130


@dataclass(frozen=True)
class RunSummary:
    """How many cells of each study were computed now, and how many were already stored."""

    computed: dict[str, int] = field(default_factory=dict)
    reused: dict[str, int] = field(default_factory=dict)


class CellError(CounterplayError, RuntimeError):
    """Cells failed; ``failures`` maps each to the reason. All others are stored."""

    def __init__(self, failures: dict[str, Failure], summary: RunSummary) -> None:
        label, first = next(iter(failures.items()))
        others = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        super().__init__(f"cell {label} failed{others}: {first.message}; the others are kept")
        self.failures = failures
        self.summary = summary
        expected = all(failure.expected for failure in failures.values())
        self.exit_code = 2 if expected else 1
        self.trace = "" if expected else first.trace


def run_studies(
    entries: Sequence[RegisteredStudy],
    store: Store,
    *,
    scale: Scale = "quick",
    seed: int = 0,
    jobs: int | None = None,
    backend: Backend = "joblib",
    address: str | None = None,
    fresh: bool = False,
    refresh: bool = False,
    progress: bool = True,
) -> RunSummary:
    """Execute every cell of ``entries`` that is not in ``store`` yet.

    Parameters
    ----------
    entries:
        Studies from :func:`counterplay.studies.registry.select`.
    store:
        Where finished cells are read from and written to.
    scale:
        ``"quick"`` (seconds) or ``"full"`` (what a paper would print).
    seed:
        Base seed; the seed of a cell is derived from study, parameters and this.
    jobs:
        Worker processes; all cores when None.
    backend:
        ``"joblib"`` on this machine, or ``"ray"``.
    address:
        Address of a Ray cluster; None: start one here.
    fresh:
        Recompute: forget the stored cells of these studies at this scale, and stale ones.
    refresh:
        Compute again what an older version of the code stored or what is damaged, and keep the
        rest, instead of stopping with an error.
    progress:
        Whether to show a progress bar on standard error.

    Raises
    ------
    StoreError
        When the store holds cells that other code computed and ``fresh`` is False.
    CellError
        When cells failed, after all others were stored.
    RunInterruptedError
        On Ctrl-C; what was finished is stored.
    """
    check_choice(scale, "scale", ("quick", "full"))
    check_choice(backend, "backend", ("joblib", "ray"))
    check_int(seed, "seed", low=0, high=2**63 - 1)
    workers = worker_count(jobs)
    plans = [(entry, plan_cells(entry, scale, seed)) for entry in entries]
    if fresh or refresh:
        for entry in entries:
            store.forget_damaged(entry.id)
    if fresh:
        store.discard([cell for _, cells in plans for cell in cells])
    elif refresh:
        _discard_stale(store, [cells for _, cells in plans])
    summary = RunSummary()
    todo: list[tuple[RegisteredStudy, Cell]] = []
    stale: list[StoredCell] = []
    for entry, cells in plans:
        known = store.lookup(cells)
        stale += known.stale
        summary.computed[entry.id] = len(known.missing)
        summary.reused[entry.id] = len(known.found)
        todo += [(entry, cell) for cell in known.missing]
    if stale:
        raise stale_error(store, stale)
    if todo:
        failures = _execute(todo, store, workers, backend, address, progress)
        if failures:
            raise CellError(failures, summary)
    return summary


def _discard_stale(store: Store, plans: Sequence[Sequence[Cell]]) -> None:
    """Forget the stored cells that other code computed."""
    for cells in plans:
        stale = {row.params for row in store.lookup(cells).stale}
        if stale:
            store.discard([cell for cell in cells if cell.key in stale])


def _execute(
    todo: list[tuple[RegisteredStudy, Cell]],
    store: Store,
    jobs: int,
    backend: Backend,
    address: str | None,
    progress: bool,
) -> dict[str, Failure]:
    check = backend == "ray"
    tasks = [
        Task(
            index=index,
            label=str(cell),
            function=entry.study.cell,
            params=cell.params,
            seed=cell.seed,
            fingerprint=code_fingerprint(entry.study.cell) if check else None,
        )
        for index, (entry, cell) in enumerate(todo)
    ]
    origin = current_provenance()
    failures: dict[str, Failure] = {}
    stored = 0
    answers = outcomes(tasks, jobs=jobs, backend=backend, address=address)
    try:
        with closing(answers), progress_bar(progress) as bar:
            line = bar.add_task(todo[0][1].study, total=len(tasks))
            for outcome in answers:
                cell = todo[outcome.index][1]
                if outcome.failure is not None:
                    failures[str(cell)] = outcome.failure
                elif outcome.record is not None:
                    store.add(cell, outcome.record, outcome.wall_time, origin)
                    stored += 1
                bar.update(line, advance=1, description=cell.study)
    except KeyboardInterrupt:
        raise RunInterruptedError(
            f"interrupted: {stored} of {len(tasks)} cells are done and stored in {store.path}; "
            "the same command continues from there"
        ) from None
    return failures


def stale_error(store: Store, stale: Sequence[StoredCell]) -> StoreError:
    """Build the error for a store with stale cells."""
    row = stale[0]
    studies = sorted({other.study for other in stale})
    commit = f", commit {row.commit[:10]}" if row.commit else ""
    return StoreError(
        f"{store.path} holds {len(stale)} cells of {', '.join(studies)} computed by an earlier "
        f"version of the code ({row.library}{commit}); add --refresh to recompute them, "
        "or name another file with --store"
    )


def worker_count(jobs: int | None) -> int:
    """Return how many workers ``jobs`` means; None means one per core."""
    from joblib import cpu_count

    return int(cpu_count()) if jobs is None else check_int(jobs, "jobs", low=1)
