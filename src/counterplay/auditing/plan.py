"""The time plan: what there is time for, in which order, and how far it got.

A short pilot measures the model; every stage gets the least that does not mislead, in order of
priority, and what time is left goes to the widest intervals. Rows are taken in one seeded order, so
that more time means a superset of rows. Every batch is stored at once: the same command goes on
where a killed one stopped, with the same numbers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from counterplay.auditing.allotment import Allotment, allot
from counterplay.auditing.clock import Clock, Limits, next_size
from counterplay.auditing.context import Context
from counterplay.auditing.findings import Missing, SectionResult
from counterplay.auditing.keys import hashed, section_keys
from counterplay.auditing.pilot import measure, refined
from counterplay.auditing.progress import Progress, ProgressError, guarded, silent
from counterplay.auditing.runs import Run, StageLog
from counterplay.auditing.section import Pilot, Section, Stage, load_sections
from counterplay.auditing.store import AuditStore
from counterplay.auditing.workers import run_batches, workers_of
from counterplay.core.threads import one_thread
from counterplay.core.validation import IntArray
from counterplay.errors import CounterplayError, StoreError
from counterplay.tables.cells import shown

STOPPED = "stopped: its time was over"
NO_TIME = Missing(sentence="Not done: there was no time for it.", key="--time")
DOUBT = 0.15  # share of what is left that another look at a stage that does not fit may take


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
        run = _Running(context, chosen, kept, progress or silent, started, float(time_budget))
        with one_thread():  # sums must not depend on the number of workers
            return run.run(plan)


def _chosen(sections: Any) -> list[Section]:
    if sections is not None and all(not isinstance(s, str) for s in sections):
        return sorted(sections, key=lambda section: (section.order, section.name))
    return load_sections(sections)


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
        self.progress, self.budget = guarded(progress), budget
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
        self.whole = ""

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
        self.whole = hashed([sorted(self.keys.items()), sorted(named), self.budget])
        stored = self.store.noted(self.whole, "plan")
        if stored is not None and set(stored["items"]) == set(named):
            self.sizes = {key: int(size) for key, size in stored.get("sizes", {}).items()}
            return Allotment(stored["items"], stored["seconds"], stored["short"]), True
        pilot = self._measured(self.budget)
        left = self.clock.end - time.perf_counter()
        found = allot(named, pilot, left)
        self.store.note(self.whole, "plan", {
            "items": dict(found.items), "seconds": dict(found.seconds), "short": found.short,
            "sizes": self.sizes,
        })  # fmt: skip
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
                    if place == 0 and not stage.optional:
                        self.skipped[section.name] = [NO_TIME]  # seconds are in the log
                        return
                    continue
                self.reached[name] = done
                records = self.store.records(self.keys[section.name], stage.name, done)
                found += [record | {"stage": stage.name} for record in records]
            if section.name in self.failed:
                return
        if stages and not any(f"{section.name}.{s.name}" in self.reached for s in stages):
            self.skipped[section.name] = [NO_TIME]
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
            n = self._given(name, n, allotted)
            planned_s = allotted.seconds[name]
        given = n
        ended = self.store.noted(key, f"reached {stage.name} {given}") if clock else None
        n = n if ended is None else min(n, int(ended))
        started = time.perf_counter()
        done = self.store.done(key, stage.name)
        pending = np.array([i for i in range(n) if i not in done], dtype=np.int64)
        note, expected = "", 0.0 if self.pilot is None else stage.seconds(self.pilot, n)
        if len(pending) and not self.interrupted:
            limits = Limits(np.inf, np.inf)
            if clock:
                limits = self.clock.limits(name, self.named, self.pilot, allotted)
            try:
                note = self._batches(section, stage, pending, n, limits)
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

    def _given(self, name: str, n: int, allotted: Allotment) -> int:
        """Return the items of a stage now that earlier ones are done; the same when it goes on."""
        stage, note = self.named[name], f"given {name}"
        if (stored := self.store.noted(self.whole, note)) is not None:
            return int(stored)
        if self.pilot is None:  # an earlier plan
            return n
        n = self.clock.given(name, self.named, self.pilot, allotted)
        while not n and self._doubted(name, allotted):
            n = self.clock.given(name, self.named, self.pilot, allotted)
        if not n:
            self.short[name] = self.clock.missing(stage, self.pilot)
        if not self.logs:  # the first question is answered, however long the pilot took
            n = max(n, min(stage.n_min, stage.n_want))
        self.store.note(self.whole, note, n)
        return n

    def _doubted(self, name: str, allotted: Allotment) -> bool:
        """Look again at how long a stage takes that does not fit, and share out what is left."""
        assert self.pilot is not None
        left = self.clock.end - time.perf_counter()
        better = refined(self.context, self.pilot, DOUBT * left)
        if better is None:
            return False
        self.pilot = better
        names = list(self.named)
        rest = {key: self.named[key] for key in names[names.index(name) :]}
        found = allot(rest, better, self.clock.end - time.perf_counter())
        allotted.items.update(found.items)
        allotted.seconds.update(found.seconds)
        self.short.update(found.short)
        return True

    def _batches(
        self, section: Section, stage: Stage, pending: IntArray, n: int, limits: Limits
    ) -> str:
        """Run what batches share, then batches, each stored; stop in time. Return why it stopped.

        The first stage of all has one batch whatever the time.
        """
        name, first = f"{section.name}.{stage.name}", not self.logs
        if not self._prepared(stage, limits.least, first):
            return STOPPED
        size, workers, at = self._size(name), workers_of(self.context), 0
        least = min(stage.n_min, stage.n_want)
        took = self._expected(stage, size) if np.isfinite(limits.least) else 0.0
        wave = pending[:size]
        while at < len(pending):
            begun, reached = time.perf_counter(), int(pending[at])
            limit = limits.least if reached < least else limits.more
            if at or not first:
                # Below its least a stage is worth nothing: it stops when it cannot get there.
                missing = begun + took * (least - reached) / len(wave) - limit
                if at and reached < least and missing > 0:
                    self.short[name] = missing
                    return ""
                size = next_size(size, took, limit - begun)
            if not size:
                return STOPPED
            wave = pending[at : at + size * workers]
            part = [wave[a : a + size] for a in range(0, len(wave), size)]
            for items, records in zip(part, run_batches(self.context, stage, part)):
                self._keep(section, stage, items, records)
                self.progress(f"{section.title} ({stage.name})", int(items[-1]) + 1, n)
            at += len(wave)
            took = time.perf_counter() - begun
        return ""

    def _prepared(self, stage: Stage, limit: float, first: bool) -> bool:
        """Run the fits that batches share; False if there is no time for them."""
        steps = [] if stage.prepare is None else list(stage.prepare(self.context))
        took = 0.0
        for k, step in enumerate(steps):
            begun = time.perf_counter()
            if begun + took * (len(steps) - k) > limit and not first:
                return False
            step()
            took = time.perf_counter() - begun
        return True

    def _expected(self, stage: Stage, size: int) -> float:
        """Return the seconds of a batch at the pace so far; 0 without a pilot."""
        if self.pilot is None:
            return 0.0
        return self.clock.pace * stage.seconds(self.pilot, min(size, stage.n_want))

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
