"""Hostile inputs: every public function, class, method and estimator, one bad argument each."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple, TypeVar

import numpy as np

from . import mutations
from .campaign import Options, Outcome, Verdict
from .isolation import BrokenSeedError, in_child, run_isolated
from .targets import contracts, targets

T = TypeVar("T")
SKIPPED = {"datasets"}  # they read files and ask the network


class Try(NamedTuple):
    """One hostile call, by names only."""

    target: str
    argument: str
    mutation: str
    shown: str


def run(options: Options) -> list[Outcome]:
    """Try the public objects of the areas and return every outcome."""
    areas = options.areas or tuple(a for a in contracts.AREAS if a not in SKIPPED)
    if options.jobs == 1 or len(areas) == 1:
        return [outcome for area in areas for outcome in run_area(area, options)]
    context = get_context("spawn")
    with ProcessPoolExecutor(options.jobs, context, max_tasks_per_child=1) as pool:
        parts = pool.map(run_area, areas, [options] * len(areas))
        return [outcome for part in parts for outcome in part]


def run_area(area: str, options: Options) -> list[Outcome]:
    """Try the public objects of one area."""
    home = os.getcwd()
    outcomes: list[Outcome] = []
    entries = [entry for entry in contracts.discover(area) if _is_asked(entry, options)]
    share = None
    if options.per_area is not None:  # about four calls each of objects spread over the area
        share, wanted = 4, max(options.per_area // 4, 1)
        entries = [e for e in entries if e.get("make") is not None or e.get("args") is not None]
        entries = _spread(entries, wanted)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # a hostile path writes here
        try:
            for place, entry in enumerate(entries):
                # typed records are built by msgspec and have few calls: others get those, too
                left = None if share is None else share * (place + 1) - len(outcomes)
                outcomes += _run_entry(entry, options, left)
        finally:
            os.chdir(home)
    return outcomes


def _spread(items: list[T], wanted: int) -> list[T]:
    """Return so many of the items, at equal distances."""
    places = np.linspace(0, len(items) - 1, min(wanted, len(items))).round().astype(int)
    return [items[i] for i in places]


def _is_asked(entry: contracts.Public, options: Options) -> bool:
    if entry.case is None:
        return False
    return (
        not options.only or options.only == entry.name or options.only.startswith(entry.name + ".")
    )


def _run_entry(entry: contracts.Public, options: Options, share: int | None) -> list[Outcome]:
    try:
        tries = in_child(lambda: list(plan(entry, options)))
        if share is not None and len(tries) > share:
            tries = _spread(tries, share)
        answers = run_isolated(len(tries), lambda: _prepared(entry, tries))
    except BrokenSeedError as error:
        text = str(error)
        return [Outcome(entry.area, entry.name, "", "", "crash", "the valid call fails", text)]
    return [
        Outcome(
            entry.area, one.target, one.argument, one.mutation, *answer,
            call=f"{entry.area}.{one.target}({one.argument}={one.shown})",
            reproduce=f"python -m tests.fuzz --area {entry.area} --only {one.target} "
            f'--argument {one.argument} --mutation "{one.mutation}"',
        )
        for one, answer in zip(tries, answers, strict=True)
    ]  # fmt: skip


def plan(entry: contracts.Public, options: Options) -> Iterator[Try]:
    """Choose the mutations of every argument; the same ones for the same seed."""
    for target in targets(entry):
        if options.only not in ("", entry.name, target.name):
            continue
        for argument, value in target.arguments.items():
            if options.argument in ("", argument):
                key = f"{entry.id} {target.name} {argument}"
                for name in _chosen(value, key, options):
                    shown = _shown(_mutant(value, name, key))
                    yield Try(target.name, argument, name, shown)


def _chosen(value: Any, key: str, options: Options) -> list[str]:
    if options.mutation:
        return [options.mutation]
    fitting = [name for name in mutations.fixed() if _fits(value, name)]
    rng = _stream(key, str(options.seed))
    known = [fitting[i] for i in rng.permutation(len(fitting))]
    n_random = options.per_argument // 4
    first = 1000 * options.seed
    return known[: options.per_argument - n_random] + [
        f"random-{first + i}" for i in range(n_random)
    ]


def _fits(value: Any, name: str) -> bool:
    if callable(value) and name in ("callable", "class"):  # its own errors are the caller's
        return False
    try:
        mutations.fixed()[name](value)
    except mutations.NotForThis:
        return False
    except Exception:  # such as the first entry of an empty array
        return False
    return True


def _mutant(value: Any, name: str, key: str) -> Any:
    if name.startswith("random-"):
        return mutations.at_random(value, _stream(key, name))
    return mutations.fixed()[name](value)


def _stream(*words: str) -> np.random.Generator:
    digest = hashlib.sha256("\n".join(words).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def _shown(value: Any) -> str:
    from counterplay.core.validation import shorten

    return shorten(value, 80)


def _prepared(entry: contracts.Public, tries: list[Try]) -> Any:
    """Return the function of an index that makes the hostile call and judges its result."""
    mutations.fixed()["frame"](None)  # libraries reserve memory at their first use
    known = {target.name: target for target in targets(entry)}
    usual: dict[str, bool] = {}

    def call(index: int) -> Verdict:
        one = tries[index]
        target = known[one.target]
        key = f"{entry.id} {one.target} {one.argument}"
        hostile: list[Any] = []

        def change(value: Any) -> Any:
            hostile.append(_mutant(value, one.mutation, key))
            return hostile[-1]

        result = target.call(one.argument, change)
        if not is_strange(result) or is_strange(hostile):
            return "ok"
        if one.target not in usual:  # a valid call may answer NaN, too
            usual[one.target] = is_strange(target.call(one.argument, lambda value: value))
        return "ok" if usual[one.target] else "nan"

    return call


def is_strange(value: Any, depth: int = 5) -> bool:
    """Return whether there is a NaN or a complex number in the value."""
    if isinstance(value, float | np.floating):
        return math.isnan(value)
    if isinstance(value, complex | np.complexfloating):
        return True
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return depth > 0 and any(is_strange(item, depth - 1) for item in value.flat)
        return value.dtype.kind == "c" or (value.dtype.kind == "f" and bool(np.isnan(value).any()))
    if depth == 0 or isinstance(value, str | bytes | int | None):
        return False
    return any(is_strange(part, depth - 1) for part in _parts(value))


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())[:1000]
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)[:1000]
    if type(value).__module__.startswith("pandas") and hasattr(value, "to_numpy"):
        return [value.to_numpy()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    if type(value).__module__.startswith("counterplay"):
        return list(getattr(value, "__dict__", {}).values())
    return []
