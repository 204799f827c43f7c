"""The slice of the campaign that runs with every test, and the campaign's own eyes.

Areas that are not yet clean are not in the slice: see ``CLEAN_AREAS``.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import counterplay.core.stats as home
from counterplay.errors import InvalidInputError
from fuzz import CLEAN_AREAS, mutations
from fuzz.campaign import Options, Outcome, Verdict, failures, table
from fuzz.inputs import is_strange, plan, run_area
from fuzz.isolation import BrokenSeedError, in_child, run_isolated
from fuzz.targets import contracts, targets


@pytest.mark.parametrize("area", CLEAN_AREAS)
def test_hostile_inputs_of_clean_areas(area: str) -> None:
    outcomes = run_area(area, Options(per_area=40, per_argument=8, seed=1))
    assert len(outcomes) >= 25
    assert not failures(outcomes), "\n".join(map(str, failures(outcomes)))


def answers_of(*calls: Callable[[], Any], **limits: Any) -> list[Any]:
    def prepare() -> Callable[[int], Verdict]:
        return lambda index: calls[index]() or "ok"

    return run_isolated(len(calls), prepare, **limits)


def in_library(statement: str, **names: Any) -> Callable[[], Any]:
    """Return a call that runs the statement as if it stood in the library."""
    space: dict[str, Any] = {"np": np, "math": math, "time": time, **names}
    exec(compile(f"def call():\n    {statement}", home.__file__, "exec"), space)
    return space["call"]


def raiser(error: BaseException) -> Callable[[], Any]:
    return in_library("raise error", error=error)


def test_every_kind_of_end_is_recognised() -> None:
    crash = in_library("read(0)", read=ctypes.string_at)
    calls = {
        "ok": in_library("return None"),
        "documented": raiser(InvalidInputError("n must be positive")),
        "undocumented": raiser(KeyError("n")),
        "memory": in_library("np.ones(2**40)"),
        "crash": crash,
        "slow": in_library("while True: pass"),
    }
    answers = answers_of(*calls.values(), seconds=0.5)
    assert [answer.verdict for answer in answers] == list(calls)
    assert answers[2].where.startswith("core/stats.py:")


def test_compiled_code_that_never_returns_is_ended() -> None:
    endless = in_library("sum(iter(int, 1))")  # a loop in C: the alarm is heard after it
    assert [a.verdict for a in answers_of(endless, lambda: None, seconds=0.5)] == ["slow", "ok"]


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (InvalidInputError("x" * 301), "undocumented"),
        (TypeError("f() got an unexpected keyword argument 'n'"), "documented"),
        (TypeError("f() missing 1 required positional argument: 'n'"), "documented"),
        (TypeError("unhashable type: 'list'"), "undocumented"),
        (RecursionError(), "undocumented"),
    ],
)
def test_what_is_documented(error: BaseException, verdict: str) -> None:
    assert answers_of(raiser(error))[0].verdict == verdict


def test_errors_of_the_case_itself_do_not_count() -> None:
    def outside() -> None:
        raise KeyError("the test's own mistake")

    assert answers_of(outside)[0].verdict == "ok"


def test_a_broken_seed_is_reported() -> None:
    with pytest.raises(BrokenSeedError, match="ZeroDivisionError"):
        run_isolated(1, lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    with pytest.raises(BrokenSeedError, match="ZeroDivisionError"):
        in_child(lambda: 1 / 0)
    assert in_child(lambda: 7) == 7


class Sloppy:
    """A learner that checks nothing; its file pretends to be of the library."""

    def __init__(self, n: int) -> None:
        self.n = n

    def step(self, loss: float) -> float:
        return self.n * math.sqrt(loss)


Sloppy.__module__ = "counterplay.core.sloppy"


def sloppy_entry() -> contracts.Public:
    case = {"make": lambda: Sloppy(3), "run": lambda made: [made.step(0.25), made.step(0.5)]}
    return contracts.Public("core", "Sloppy", Sloppy, case)


def test_constructor_and_method_arguments_are_recorded_and_replaced() -> None:
    found = {target.name: target for target in targets(sloppy_entry())}
    assert {name: target.arguments for name, target in found.items()} == {
        "Sloppy": {"n": 3},
        "Sloppy.step": {"loss": 0.25},
    }
    assert found["Sloppy.step"].call("loss", lambda loss: 4 * loss) == 3.0
    assert found["Sloppy"].call("n", lambda n: 2 * n)[1] == [3.0, 6 * math.sqrt(0.5)]
    assert found["Sloppy.step"].call("loss", lambda loss: loss) == 1.5  # nothing stays replaced


@dataclass(frozen=True)
class Holder:
    inside: Any


def test_nan_and_complex_results_are_seen() -> None:
    for strange in (math.nan, 1j, np.array([0.0, math.nan]), Holder([{"a": np.complex64(1)}])):
        assert is_strange(strange)
    for fine in (0.0, math.inf, "nan", np.array([1.0]), Holder([1, None, {"a": 2.0}])):
        assert not is_strange(fine)


def test_the_plan_is_fixed_by_its_seed() -> None:
    entry = next(e for e in contracts.discover("core") if e.name == "stats.clopper_pearson")
    first, again, other = (list(plan(entry, Options(seed=seed))) for seed in (0, 0, 1))
    assert [t[:3] for t in first] == [t[:3] for t in again] != [t[:3] for t in other]
    assert len(first) == 2 * Options().per_argument


def test_every_mutation_works_on_its_kind() -> None:
    seeds = [3, 0.5, "a", np.eye(3), [1.0, 2.0], None, {"a": [1, 2]}]
    used = set()
    for name, mutation in mutations.fixed().items():
        for seed in seeds:
            try:
                mutation(seed)
            except mutations.NotForThis:
                continue
            used.add(name)
    assert used == set(mutations.fixed())
    rng = np.random.default_rng(0)
    changed = [mutations.at_random(np.eye(3), rng) for _ in range(20)]
    assert sum(a.shape != (3, 3) or (a != np.eye(3)).any() for a in changed) >= 10


def test_the_table_counts_by_group() -> None:
    outcomes = [
        Outcome("labeling", "f", "n", "nan", "ok"),
        Outcome("labeling", "f", "n", "text", "undocumented", "KeyError"),
        Outcome("core", "g", "n", "inf", "slow"),
    ]
    rows = [line.split() for line in table(outcomes).splitlines()]
    assert rows[0] == ["tried", "undocumented", "nan", "slow", "memory", "crash", "forged"]
    assert rows[1] == ["labeling", "2", "1", "0", "0", "0", "0", "0"]
    assert rows[3] == ["all", "3", "1", "0", "1", "0", "0", "0"]
