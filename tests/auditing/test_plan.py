"""The time plan: same numbers for any workers, after any interruption, for more or less time."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from auditing.bench_tables import context_of, people, run
from auditing.toy_section import Toy, toy_context
from counterplay.auditing.allotment import allot
from counterplay.auditing.keys import section_keys
from counterplay.auditing.pilot import measure
from counterplay.auditing.plan import run_plan
from counterplay.auditing.section import Pilot, Stage, load_sections
from counterplay.auditing.sections import GamingSection, HonestSection
from counterplay.errors import InvalidInputError, UnknownNameError

ROOT = Path(__file__).parents[2]


def numbers(found) -> dict[str, float]:
    return {
        f"{name} {key}": getattr(quantity, part)
        for name, result in found.results.items()
        for key, quantity in result.quantities.items()
        for part in ("value", "low", "high")
    }


@pytest.mark.claim("27.02")
@pytest.mark.parametrize(
    ("after", "sig"),
    [(1, "SIGKILL"), (9, "SIGKILL"), (15, "SIGKILL"), (4, "SIGINT"), (20, "SIGINT")],
)
def test_a_killed_run_goes_on_with_the_same_numbers(tmp_path, after: int, sig: str) -> None:
    store = tmp_path / "audit.sqlite"
    words = [
        sys.executable,
        str(ROOT / "tests/auditing/toy_section.py"),
        str(store),
        str(after),
        sig,
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=os.environ)
    assert done.returncode == (-9 if sig == "SIGKILL" else 0), done.stderr
    assert sig == "SIGKILL" or "interrupted" in done.stdout
    steps: list[int] = []
    again = run_plan(
        toy_context(), sections=[Toy()], store=store, progress=lambda t, d, n: steps.append(n)
    )
    whole = run_plan(toy_context(), sections=[Toy()])
    assert numbers(again) == numbers(whole)
    assert again.plan == whole.plan == {"toy.one": 100, "toy.two": 100}
    assert len(steps) - 1 == 30 - after  # finished batches are not computed again


@pytest.mark.claim("27.02")
def test_numbers_do_not_depend_on_workers(tmp_path) -> None:
    frame, y = people(120)
    few = {"effort": {"budgets": [1]}}
    sections = HonestSection(), GamingSection()
    one, two, again = (
        run(context_of(frame, y, rows="unknown", settings=few, jobs=jobs), *sections, store=store)
        for jobs, store in ((1, tmp_path / "1.sqlite"), (2, None), (2, tmp_path / "1.sqlite"))
    )
    assert numbers(one) == numbers(two) == numbers(again)


def test_an_earlier_plan_is_repeated_without_a_clock() -> None:
    plan = {"toy.one": 30, "toy.two": 100}
    found = run_plan(toy_context(), sections=[Toy()], plan=plan, time_budget=0.001)
    assert found.plan == plan
    assert found.results["toy"].quantities["toy"].n == 30


def test_ctrl_c_keeps_what_there_is() -> None:
    def stop(text: str, done: int, total: int) -> None:
        if done >= 70:
            raise KeyboardInterrupt

    found = run_plan(toy_context(), sections=[Toy()], progress=stop)
    assert found.interrupted
    assert found.plan["toy.one"] == 70
    assert "toy" in found.results


@pytest.mark.claim("27.16")
def test_more_time_takes_a_superset_of_rows_and_lists_what_was_cut() -> None:
    def rows(n: int) -> set[int]:
        context = toy_context()
        return set(context.order[np.arange(n)].tolist())

    pilot = Pilot()
    stages = {
        name: Stage(
            name=name, items=100, n_min=10, n_want=100, seconds=lambda p, n: n / 10,
            run=lambda c, i: [],
        )
        for name in ("a", "b", "c")
    }  # fmt: skip
    short, long = allot(stages, pilot, 3.0), allot(stages, pilot, 12.0)
    assert min(short.items["a"], short.items["b"]) >= 10
    assert short.items["c"] == 0
    assert set(short.short) == {"c"}
    assert "not done: c" in short.sentence(3.0)
    assert all(long.items[name] >= short.items[name] for name in stages)
    assert rows(short.items["a"]) <= rows(long.items["a"])
    whole = allot(stages, pilot, 1000.0)
    assert whole.items == dict.fromkeys(stages, 100)
    assert not whole.short
    for budget in np.linspace(1, 40, 30):
        found = allot(stages, pilot, float(budget))
        assert sum(found.seconds.values()) <= 0.9 * budget + 1e-9


@pytest.mark.claim("27.16")
def test_a_stage_that_does_not_fit_is_said_and_the_rest_runs() -> None:
    class Other(Toy):
        name, order = "other", 6

    long = 1e4  # seconds of an item: too many however quick the machine turns out to be
    sections = [Toy(n_min=90, each=1.0, then=long), Other(n_min=90, each=long)]
    found = run_plan(toy_context(), sections=sections, time_budget=150)
    log = {f"{entry.section}.{entry.stage}": entry for entry in found.stages}
    assert log["toy.one"].done >= 90
    assert log["toy.two"].planned == log["toy.two"].done == 0
    assert "needs about" in log["toy.two"].note
    assert "not done: toy.two" in found.estimate
    assert "needs about" in log["other.one"].note
    (missing,) = found.skipped["other"]
    assert (missing.sentence, missing.key) == ("Not done: there was no time for it.", "--time")
    again = run_plan(toy_context(), sections=sections, plan=found.plan)  # without a clock
    assert again.skipped == found.skipped  # no seconds: the content of the page is the same


class Hours:
    """A clock for tests: every look at it, and every second that is worked, is counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        for module in ("plan", "clock"):
            monkeypatch.setattr(f"counterplay.auditing.{module}.time", self)
        monkeypatch.setattr("counterplay.auditing.plan.measure", lambda *a, **k: Pilot())

    def perf_counter(self) -> float:
        return self.now


class Slow(Toy):
    """Takes so many times the seconds it says, and prepares in steps."""

    def __init__(self, hours: Hours, *, times: float, each: float, steps: int = 0, **more) -> None:
        super().__init__(each=each, **more)
        self.hours, self.times, self.steps = hours, times, steps

    def _work(self, seconds: float) -> None:
        self.hours.now += seconds

    def stages(self, context):
        def slowed(stage: Stage, each: float) -> Stage:
            def run(context, items):
                self._work(self.times * each * len(items))
                return stage.run(context, items)

            def prepare(context):
                return [lambda: self._work(self.times * each)] * self.steps

            return dataclasses.replace(stage, run=run, prepare=prepare)

        return [slowed(*pair) for pair in zip(super().stages(context), self.each)]


@pytest.mark.claim("27.16")
@pytest.mark.parametrize("times", [0.1, 1.0, 3.0, 10.0, 100.0])
@pytest.mark.parametrize("steps", [0, 50])
def test_a_run_ends_in_time_however_wrong_the_pilot_was(
    monkeypatch: pytest.MonkeyPatch, times: float, steps: int
) -> None:
    hours = Hours(monkeypatch)

    class Third(Slow):
        name, order = "third", 7

    slow = Slow(hours, times=times, each=0.2, steps=steps, n_min=20)
    more = Third(hours, times=times, each=0.2, steps=steps, n_min=20)
    found = run_plan(toy_context(), sections=[slow, more], time_budget=60.0)
    batch, prepared = times * 0.2 * 7, times * 0.2 * steps
    assert hours.now <= max(60.0 + batch, prepared + batch)  # the first one is always run
    if times <= 1:
        assert set(found.results) == {"toy", "third"}
    if times == 10 and not steps:
        assert hours.now <= 60.0 + batch
        assert any("stopped" in log.note or "needs" in log.note for log in found.stages)


@pytest.mark.claim("27.16")
@pytest.mark.parametrize("times", [0.5, 1.0, 1.5, 2.5])
@pytest.mark.parametrize("slow", ["toy", "third", "both"])
def test_a_long_stage_leaves_later_ones_their_share(
    monkeypatch: pytest.MonkeyPatch, times: float, slow: str
) -> None:
    """Whoever is slower than the pilot said stops early; nobody else is left out for it."""
    hours = Hours(monkeypatch)

    class Third(Slow):
        name, order = "third", 7

    first = Slow(hours, times=times if slow != "third" else 1.0, each=0.25, n_min=10)
    then = Third(hours, times=times if slow != "toy" else 1.0, each=0.25, n_min=10)
    found = run_plan(toy_context(), sections=[first, then], time_budget=60.0)
    assert hours.now <= 60.0
    assert set(found.results) == {"toy", "third"}
    log = {f"{entry.section}.{entry.stage}": entry for entry in found.stages}
    assert all(entry.done >= 10 for entry in log.values())
    least, most = min(e.used_s for e in log.values()), max(e.used_s for e in log.values())
    assert most <= 60.0 - 3 * min(least, 7 * 0.25)


def test_batches_are_as_long_as_the_pilot_says(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []

    class Sized(Toy):
        def stages(self, context):
            return [dataclasses.replace(s, sized=lambda p: 33) for s in super().stages(context)]

    monkeypatch.setattr("counterplay.auditing.plan.measure", lambda *a, **k: Pilot())
    for plan in (None, {"toy.one": 100, "toy.two": 100}):
        told.clear()
        run_plan(
            toy_context(), sections=[Sized()], plan=plan, progress=lambda t, d, n: told.append(d)
        )
        assert told == [0, 33, 66, 99, 100, 33, 66, 99, 100]


def test_refits_of_many_rows_are_timed_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boosted trees on 200 and 2,000 rows say nothing about 30,000."""
    frame, y = people(1000)
    context = context_of(frame, y)
    found = measure(context, 1e4, started=time.perf_counter(), moves=False)
    assert [rows for rows, _ in found.fits] == [200, 800, 1000]
    short = measure(context, 1e4, started=time.perf_counter(), moves=True)
    assert short.moves > 0 or short.moves_base > 0
    assert short.shown > 0 or short.shown_base > 0
    assert Pilot(fits=()).fit(10) == 0
    assert Pilot(fits=((10, 1.0),)).fit(20) == 2.0


def test_a_stage_that_does_not_fit_is_doubted_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two refits of few rows said far too much; more rows are timed before it is left out."""
    frame, y = people(1000)
    few = Pilot(fits=((50, 1e-4), (60, 10.0)))

    class Fitting(Toy):
        def stages(self, context):
            return [
                dataclasses.replace(stage, seconds=lambda pilot, n: pilot.fit(1000))
                for stage in super().stages(context)
            ]

    monkeypatch.setattr("counterplay.auditing.plan.measure", lambda *a, **k: few)
    monkeypatch.setattr("counterplay.auditing.plan.DOUBT", 10.0)
    found = run_plan(context_of(frame, y), sections=[Fitting()], time_budget=60.0)
    assert "not done: toy.one" in found.estimate
    assert set(found.plan) == {"toy.one", "toy.two"}
    assert not found.skipped


def test_a_section_that_raises_leaves_the_others_alone() -> None:
    class Other(Toy):
        name = "other"

    found = run_plan(toy_context(), sections=[Toy(), Other(fail="result")])
    alone = run_plan(toy_context(), sections=[Toy()])
    assert "toy broke" in found.failed["other"]
    assert found.results["toy"].quantities == alone.results["toy"].quantities


def test_keys_depend_on_what_a_section_reads_and_nothing_else() -> None:
    def key(**more) -> str:
        return section_keys(toy_context(**more), [Toy()])["toy"]

    first = key(settings={"toy": {"a": 1}, "gates": {"require": []}})
    assert first == key(settings={"toy": {"a": 1}, "gates": {"require": ["x >= 1"]}})
    assert first != key(settings={"toy": {"a": 2}})
    assert first != key(settings={"toy": {"a": 1}}, seed=1)
    assert first != key(settings={"toy": {"a": 1}}, model_key="other")
    assert first != section_keys(toy_context(101, settings={"toy": {"a": 1}}), [Toy()])["toy"]


def test_a_time_below_the_pilot_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="too short"):
        run_plan(toy_context(), sections=[Toy()], time_budget=1e-9)


def test_sections_by_name() -> None:
    names = [section.name for section in load_sections()]
    assert names[:3] == ["honest", "gaming", "planted"]
    assert [s.name for s in load_sections(["planted"])] == ["honest", "planted"]
    with pytest.raises(UnknownNameError, match="gaming"):
        load_sections(["gamng"])


def test_an_interrupted_cell_of_a_study_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    from counterplay.studies.auditing import people as study

    found = study.run_plan(toy_context(), sections=[Toy()])
    stopped = dataclasses.replace(found, interrupted=True)
    monkeypatch.setattr(study, "run_plan", lambda *args, **more: stopped)
    with pytest.raises(KeyboardInterrupt):
        study.whole_run(toy_context(), Toy())


def test_a_callback_that_raises_stops_the_run_and_blames_nobody_else() -> None:
    told = []

    def progress(text: str, done: int, total: int) -> None:
        told.append(text)
        if total:
            raise ZeroDivisionError("my own mistake")

    with pytest.raises(InvalidInputError, match="progress raised ZeroDivisionError") as error:
        run_plan(toy_context(), sections=[Toy()], progress=progress)
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    assert len(told) == 2


def test_time_that_earlier_stages_left_goes_to_later_ones() -> None:
    """A pilot on a busy machine expects too much: nothing is left out that there is time for."""
    slow = Toy(each=0.3, n_min=100)  # thirty seconds a stage, it says
    found = run_plan(toy_context(), sections=[slow], time_budget=40.0)
    assert "not done: toy.two" in found.estimate
    assert found.plan == {"toy.one": 100, "toy.two": 100}
    assert [log.note for log in found.stages] == ["", ""]


def test_a_pilot_that_took_all_the_time_leaves_the_first_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("counterplay.auditing.plan.measure", lambda *a, **k: Pilot())
    found = run_plan(toy_context(), sections=[Toy(each=1.0, n_min=7)], time_budget=1e-9)
    assert found.plan == {"toy.one": 7}  # one batch, and what follows from it
    assert "toy" in found.results
