"""The time plan: what there is time for, in which order, and how far it got.

A short pilot measures the model; every stage gets the least that does not mislead, in order of
priority, and what time is left goes to the widest intervals. Rows are taken in one seeded order, so
that more time means a superset of rows. Every batch is stored at once: the same command goes on
where a killed one stopped, with the same numbers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from counterplay.auditing.allotment import Allotment, allot
from counterplay.auditing.clock import Clock, next_size
from counterplay.auditing.context import Context
from counterplay.auditing.findings import Missing, SectionResult
from counterplay.auditing.keys import hashed, section_keys
from counterplay.auditing.pilot import measure
from counterplay.auditing.section import Pilot, Section, Stage, load_sections
from counterplay.auditing.store import AuditStore
from counterplay.core.threads import one_thread
from counterplay.core.validation import IntArray
from counterplay.errors import CounterplayError, InvalidInputError, StoreError
from counterplay.tables.cells import shown

Progress = Callable[[str, int, int], None]
STOPPED = "stopped: its time was over"


@dataclass(frozen=True)
class StageLog:
    """What was planned for a stage, and how far it got."""

    section: str
    stage: str
    planned: int
    done: int
    wanted: int
    planned_s: float
    used_s: float
    note: str = ""


@dataclass(frozen=True)
class Run:
    """What a run of the plan found.

    Parameters
    ----------
    results
        Result of every section that ran.
    failed
        Sentence of every section that raised.
    skipped
        What the others need.
    stages
        Planned and used, stage by stage.
    plan
        Items of every stage that the results rest on: ``"section.stage"`` to a number.
    interrupted
        Whether it was stopped by Ctrl-C.
    estimate
        The plan in one line, as it was announced.
    titles
        Titles of all sections, also of those that did not run.
    """

    results: dict[str, SectionResult]
    failed: dict[str, str]
    skipped: dict[str, list[Missing]]
    stages: tuple[StageLog, ...]
    plan: dict[str, int]
    interrupted: bool
    estimate: str
    titles: dict[str, str] = field(default_factory=dict)


def run_plan(
    context: Context,
    *,
    sections: Sequence[str] | Sequence[Section] | None = None,
    time_budget: float = 300.0,
    store: str | os.PathLike[str] | None = None,
    plan: Mapping[str, int] | None = None,
    progress: Progress | None = None,
    spent: float = 0.0,
) -> Run:
    """Run the sections of an audit within a time budget, or an earlier plan without a clock.

    Parameters
    ----------
    context
        Model, table and settings.
    sections
        Names of sections, or sections; None for all.
    time_budget
        Seconds of wall time.
    store
        File for finished batches; None keeps them in memory.
    plan
        Items of every stage, from an earlier run: exactly these, whatever the time.
    progress
        Called with a text, the items done and all items.
    spent
        Seconds of the budget that reading took.
    """
    started = time.perf_counter() - spent
    chosen = _chosen(sections)
    with AuditStore(store) as kept:
        run = _Running(context, chosen, kept, progress or _silent, started, float(time_budget))
        with one_thread():  # sums must not depend on the number of workers
            return run.run(plan)


def _chosen(sections: Any) -> list[Section]:
    if sections is not None and all(not isinstance(s, str) for s in sections):
        return sorted(sections, key=lambda section: (section.order, section.name))
    return load_sections(sections)


def _silent(text: str, done: int, total: int) -> None:
    """Show nothing."""


class ProgressError(InvalidInputError):
    """The caller's own ``progress`` raised; the run stops, what is stored stays."""


def _guarded(progress: Progress) -> Progress:
    """Return the callback with its own errors named as such, so that no section is blamed."""

    def told(text: str, done: int, total: int) -> None:
        try:
            progress(text, done, total)
        except Exception as error:
            kind = type(error).__name__
            raise ProgressError(f"progress raised {kind}: {shown(error, 200)}") from error

    return told


class _Running:
    """One run: sections in order, stages in batches, a clock unless there is an earlier plan."""

    def __init__(
        self,
        context: Context,
        sections: list[Section],
        store: AuditStore,
        progress: Progress,
        started: float,
        budget: float,
    ) -> None:
        self.context, self.sections, self.store = context, sections, store
        self.progress, self.budget = _guarded(progress), budget
        self.clock = Clock(started, budget)
        self.results: dict[str, SectionResult] = {}
        self.failed: dict[str, str] = {}
        self.skipped: dict[str, list[Missing]] = {}
        self.logs: list[StageLog] = []
        self.reached: dict[str, int] = {}
        self.interrupted = False
        self.pilot: Pilot | None = None
        self.named: dict[str, Stage] = {}
        self.sizes: dict[str, int] = {}
        self.short: dict[str, float] = {}
        self.keys = section_keys(context, sections)

    def run(self, plan: Mapping[str, int] | None) -> Run:
        """Plan, announce, run section after section."""
        stages: dict[str, list[Stage]] = {}
        for section in self.sections:
            with self._caught(section):
                needs = section.needs(self.context)
                if needs:
                    self.skipped[section.name] = needs
                else:
                    stages[section.name] = section.stages(self.context)
        allotted, clock = self._allotted(stages, plan)
        estimate = allotted.sentence(self.budget) if clock else "An earlier plan, without a clock."
        self.short = dict(allotted.short)
        self.progress(estimate, 0, 0)
        try:
            for section in self.sections:
                if section.name in stages and section.name not in self.failed:
                    self._section(section, stages[section.name], allotted, clock)
        except KeyboardInterrupt:
            self.interrupted = True
        titles = {section.name: section.title for section in self.sections}
        return Run(
            self.results, self.failed, self.skipped, tuple(self.logs), self.reached,
            self.interrupted, estimate, titles,
        )  # fmt: skip

    def _allotted(
        self, stages: Mapping[str, list[Stage]], plan: Mapping[str, int] | None
    ) -> tuple[Allotment, bool]:
        """Return items and seconds of every stage, and whether there is a clock."""
        named = {f"{name}.{stage.name}": stage for name, parts in stages.items() for stage in parts}
        self.named = named
        if plan is not None:
            items = {key: min(int(plan.get(key, 0)), s.items) for key, s in named.items()}
            return Allotment(items, dict.fromkeys(items, 0.0), {}), False
        whole = hashed([sorted(self.keys.items()), sorted(named), self.budget])
        stored = self.store.noted(whole, "plan")
        if stored is not None and set(stored["items"]) == set(named):
            self.sizes = {key: int(size) for key, size in stored.get("sizes", {}).items()}
            return Allotment(stored["items"], stored["seconds"], stored["short"]), True
        pilot = self._measured(self.budget)
        left = self.clock.end - time.perf_counter()
        found = allot(named, pilot, left)
        self.store.note(whole, "plan", {"items": found.items, "seconds": found.seconds,
                                        "short": found.short, "sizes": self.sizes})  # fmt: skip
        return found, True

    def _measured(self, budget: float) -> Pilot:
        """Return the pilot, and set the batches that it decides."""
        sized = [name for name, stage in self.named.items() if stage.sized is not None]
        pilot = measure(self.context, budget, started=self.clock.started, moves=bool(sized))
        self.pilot = pilot
        for name in sized:
            stage = self.named[name]
            self.sizes[name] = stage.batch if stage.sized is None else stage.sized(pilot)
        return pilot

    def _size(self, name: str) -> int:
        """Return the items of a batch; without a clock the pilot is made when it is needed."""
        stage = self.named[name]
        if stage.sized is not None and name not in self.sizes:
            self._measured(np.inf)
        return self.sizes.get(name, stage.batch)

    def _section(
        self, section: Section, stages: list[Stage], allotted: Allotment, clock: bool
    ) -> None:
        """Run the stages of one section, then its result; Ctrl-C leaves what there is."""
        found: list[dict[str, Any]] = []
        for place, stage in enumerate(stages):
            name = f"{section.name}.{stage.name}"
            with self._caught(section):
                done = self._stage(section, stage, allotted, clock)
                if done < min(stage.n_min, stage.n_want):
                    if place == 0:
                        more = self.short.get(name, 0.0)
                        text = f"Not done: needs about {max(1.0, more):.0f} s more."
                        if self.interrupted:
                            text = "Not done: the run was interrupted."
                        self.skipped[section.name] = [Missing(sentence=text, key="--time")]
                        return
                    continue
                self.reached[name] = done
                records = self.store.records(self.keys[section.name], stage.name, done)
                found += [record | {"stage": stage.name} for record in records]
            if section.name in self.failed:
                return
        with self._caught(section):
            self.results[section.name] = section.result(self.context, pd.DataFrame(found))
        if self.interrupted:
            raise KeyboardInterrupt

    def _stage(self, section: Section, stage: Stage, allotted: Allotment, clock: bool) -> int:
        """Run the missing batches of a stage; return how many items there are in a row."""
        name, key = f"{section.name}.{stage.name}", self.keys[section.name]
        n, planned_s = allotted.items[name], allotted.seconds[name]
        if clock:
            n = self._given(name, key, n, allotted)
        given = n
        ended = self.store.noted(key, f"reached {stage.name} {given}") if clock else None
        n = n if ended is None else min(n, int(ended))
        started = time.perf_counter()
        done = self.store.done(key, stage.name)
        pending = np.array([i for i in range(n) if i not in done], dtype=np.int64)
        note, expected = "", 0.0 if self.pilot is None else stage.seconds(self.pilot, n)
        if len(pending) and not self.interrupted:
            limit = self.clock.limit(name, allotted) if clock else np.inf
            try:
                note = self._batches(section, stage, pending, n, limit)
            except KeyboardInterrupt:
                self.interrupted, note = True, "interrupted"
        done = self.store.done(key, stage.name)
        reached = next((i for i in range(n) if i not in done), n)
        if clock and not self.interrupted:
            self.store.note(key, f"reached {stage.name} {given}", reached)
        short = self.short.get(name) if reached < min(stage.n_min, stage.n_want) else None
        if not note and short:
            note = f"needs about {max(1.0, short):.0f} s more"
        used = time.perf_counter() - started
        if reached and len(pending):
            self.clock.told(expected * reached / n, used)
        self.logs.append(
            StageLog(
                section.name, stage.name, allotted.items[name], reached, stage.n_want, planned_s,
                used, note,
            )
        )  # fmt: skip
        return reached

    def _given(self, name: str, key: str, n: int, allotted: Allotment) -> int:
        """Return the items of a stage now that earlier ones are done; the same when it goes on."""
        stage, note = self.named[name], f"given {name} {n} {self.budget}"
        if (stored := self.store.noted(key, note)) is not None:
            return int(stored)
        if self.pilot is None:  # an earlier plan
            return n
        n = self.clock.given(name, self.named, self.pilot, allotted)
        if not n:
            self.short[name] = self.clock.missing(stage, self.pilot)
        if not self.logs:  # the first question is answered, however long the pilot took
            n = max(n, min(stage.n_min, stage.n_want))
        self.store.note(key, note, n)
        return n

    def _batches(
        self, section: Section, stage: Stage, pending: IntArray, n: int, limit: float
    ) -> str:
        """Run what batches share, then batches, each stored; stop in time. Return why it stopped.

        The first stage of all has one batch whatever the time.
        """
        first, took = not self.logs, 0.0
        for step in () if stage.prepare is None else stage.prepare(self.context):
            begun = time.perf_counter()
            if begun + took > limit and not first:
                return STOPPED
            step()
            took = time.perf_counter() - begun
        size, workers, at = self._size(f"{section.name}.{stage.name}"), self.context.jobs, 0
        took = 0.0
        while at < len(pending):
            begun = time.perf_counter()
            size = next_size(size, took, limit - begun) if at or not first else size
            if not size:
                return STOPPED
            wave = pending[at : at + size * max(1, workers)]
            part = [wave[a : a + size] for a in range(0, len(wave), size)]
            for items, records in zip(part, _run_batches(self.context, stage, part)):
                self._keep(section, stage, items, records)
                self.progress(f"{section.title} ({stage.name})", int(items[-1]) + 1, n)
            at += len(wave)
            took = time.perf_counter() - begun
        return ""

    def _keep(self, section: Section, stage: Stage, items: Any, records: Any) -> None:
        found: dict[int, list[dict[str, Any]]] = {int(item): [] for item in items}
        for record in records:
            found[int(record["item"])].append(record)
        self.store.add(self.keys[section.name], stage.name, found)

    def _caught(self, section: Section) -> _Caught:
        return _Caught(self, section)


class _Caught:
    """A section that raises becomes a sentence; a damaged store or the caller stops everything."""

    def __init__(self, run: _Running, section: Section) -> None:
        self.run, self.section = run, section

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, tb: Any) -> bool:
        stops = isinstance(error, StoreError | ProgressError)
        if error is None or stops or not isinstance(error, Exception):
            return False
        if isinstance(error, CounterplayError):
            sentence = str(error)
        else:
            sentence = f"{type(error).__name__}: {shown(error, 200)}"
        self.run.failed[self.section.name] = sentence
        return True


def _run_batches(context: Context, stage: Stage, batches: list[Any]) -> list[Any]:
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
