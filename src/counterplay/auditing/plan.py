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

from counterplay.auditing.allotment import SPARE, Allotment, allot
from counterplay.auditing.context import Context
from counterplay.auditing.findings import Missing, SectionResult
from counterplay.auditing.keys import hashed, section_keys
from counterplay.auditing.pilot import measure
from counterplay.auditing.section import Pilot, Section, Stage, load_sections
from counterplay.auditing.store import AuditStore
from counterplay.core.threads import one_thread
from counterplay.errors import CounterplayError, InvalidInputError, StoreError
from counterplay.tables.cells import shown

Progress = Callable[[str, int, int], None]
OVER, TOTAL = 2.0, 1.25  # a stage stops at twice its plan, everything at 1.25 of the budget


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
    """
    started = time.perf_counter()
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
        self.progress, self.started, self.budget = _guarded(progress), started, budget
        self.results: dict[str, SectionResult] = {}
        self.failed: dict[str, str] = {}
        self.skipped: dict[str, list[Missing]] = {}
        self.logs: list[StageLog] = []
        self.reached: dict[str, int] = {}
        self.interrupted = False
        self.pilot: Pilot | None = None
        self.named: dict[str, Stage] = {}
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
            return Allotment(stored["items"], stored["seconds"], stored["short"]), True
        moves = "gaming" in stages
        pilot = measure(self.context, self.budget, started=self.started, moves=moves)
        self.pilot = pilot
        left = self.budget - (time.perf_counter() - self.started)
        found = allot(named, pilot, left)
        self.store.note(whole, "plan", {"items": found.items, "seconds": found.seconds,
                                        "short": found.short})  # fmt: skip
        return found, True

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
                        more = allotted.short.get(name, 0.0)
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
        batches = [
            np.arange(a, min(a + stage.batch, n))
            for a in range(0, n, stage.batch)
            if not done.issuperset(range(a, min(a + stage.batch, n)))
        ]
        note = ""
        if batches and not self.interrupted:
            limit = self._limit(name, allotted) if clock else np.inf
            try:
                note = self._batches(section, stage, batches, n, limit)
            except KeyboardInterrupt:
                self.interrupted, note = True, "interrupted"
        done = self.store.done(key, stage.name)
        reached = next((i for i in range(n) if i not in done), n)
        if clock and not self.interrupted:
            self.store.note(key, f"reached {stage.name} {given}", reached)
        short = allotted.short.get(name) if reached < min(stage.n_min, stage.n_want) else None
        if not note and short:
            note = f"needs about {short:.0f} s more"
        self.logs.append(
            StageLog(
                section.name, stage.name, allotted.items[name], reached, stage.n_want, planned_s,
                time.perf_counter() - started, note,
            )
        )  # fmt: skip
        return reached

    def _given(self, name: str, key: str, n: int, allotted: Allotment) -> int:
        """Return the items of a stage: those planned, and more if earlier stages left time.

        A pilot on a busy machine expects too much. What is left when a stage begins goes to it,
        after the least that later stages need at the pace of the stages so far.
        """
        stage, note = self.named[name], f"given {name} {n} {self.budget}"
        if (stored := self.store.noted(key, note)) is not None:
            return int(stored)
        if not self.logs:  # the first question is answered, however long the pilot took
            n = max(n, min(stage.n_min, stage.n_want))
        pilot = self.pilot
        if pilot is None or n >= stage.n_want:  # an earlier plan, or all there is to do
            return n
        planned = sum(log.planned_s for log in self.logs)
        used = sum(log.used_s for log in self.logs if log.planned_s > 0)
        pace = min(1.0, max(0.02, used / planned)) if planned > 0 else 1.0
        names = list(self.named)
        later = 0.0
        for other in names[names.index(name) + 1 :]:
            least = min(self.named[other].n_min, self.named[other].n_want)
            later += max(allotted.seconds[other], self.named[other].seconds(pilot, least))
        left = SPARE * self.budget - (time.perf_counter() - self.started) - pace * later
        more = max(n, min(stage.n_min, stage.n_want))
        while (
            more < stage.n_want and pace * stage.seconds(pilot, min(2 * more, stage.n_want)) < left
        ):
            more = min(2 * more, stage.n_want)
        n = more if pace * stage.seconds(pilot, more) < left else n
        self.store.note(key, note, n)
        return n

    def _limit(self, name: str, allotted: Allotment) -> float:
        """Return when a stage must stop: at twice its plan, later if nobody else needs the time."""
        names = list(allotted.seconds)
        later = sum(allotted.seconds[other] for other in names[names.index(name) + 1 :])
        twice = time.perf_counter() + OVER * max(allotted.seconds[name], 1.0)
        spare = self.started + SPARE * self.budget - later
        return min(max(twice, spare), self.started + TOTAL * self.budget)

    def _batches(
        self, section: Section, stage: Stage, batches: list[Any], n: int, limit: float
    ) -> str:
        """Run batches and store each wave; stop at the limit. Return why it stopped."""
        if stage.prepare is not None:
            stage.prepare(self.context)
        wave = max(1, self.context.jobs)
        for start in range(0, len(batches), wave):
            if time.perf_counter() > limit and (start or self.logs):  # one batch there always is
                return "stopped at twice its plan"
            part = batches[start : start + wave]
            for items, records in zip(part, _run_batches(self.context, stage, part)):
                self._keep(section, stage, items, records)
                self.progress(f"{section.title} ({stage.name})", int(items[-1]) + 1, n)
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
