"""SIGKILL at random moments of a sweep: the same command then ends as if nothing had happened."""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from counterplay.studies.registry import RegisteredStudy, select
from counterplay.studies.runner import run_studies
from counterplay.studies.store import Store

from .tally import Tried

SAMPLE = Path(__file__).parents[1] / "studies" / "sample"
PAUSE = 0.03  # seconds per cell
_FORK = multiprocessing.get_context("fork")


def run(n: int = 50, seed: int = 0) -> list[Tried]:
    """Kill ``n`` sweeps, continue each, and compare all columns but the wall time."""
    rng = random.Random(seed)
    walk = _study()
    with tempfile.TemporaryDirectory() as folder:
        undisturbed = Path(folder) / "undisturbed.sqlite"
        _sweep(walk, undisturbed)  # also reads the code for its fingerprint, once
        begun = time.monotonic()
        _sweep(walk, Path(folder) / "again.sqlite")
        longest = time.monotonic() - begun
        expected = _contents(undisturbed)
        return [
            _killed(walk, Path(folder) / f"{k}.sqlite", rng.uniform(0, longest), expected)
            for k in range(n)
        ]


def _killed(walk: RegisteredStudy, store: Path, moment: float, expected: list[Any]) -> Tried:
    """Kill a sweep at a moment, start it again, and look at the result."""
    process = _FORK.Process(target=_sweep, args=(walk, store))
    process.start()
    time.sleep(moment)
    process.kill()
    process.join()
    what, stored = f"after {moment:.3f} s", _count(store)
    second = _FORK.Process(target=_sweep, args=(walk, store))
    second.start()
    second.join(300)
    if second.exitcode != 0:
        return Tried("sweep", what, "undocumented", f"exit code {second.exitcode}")
    if _contents(store) != expected:
        return Tried("sweep", what, "changed", "other records than an undisturbed run")
    return Tried("sweep", what, "accepted", f"{stored} cells were stored")


def _study() -> RegisteredStudy:
    sys.path.insert(0, str(SAMPLE))
    try:
        return next(entry for entry in select(["sample"]) if entry.study.name == "walk")
    finally:
        sys.path.remove(str(SAMPLE))  # other tests count the areas that are installed


def _sweep(walk: RegisteredStudy, store: Path) -> None:
    os.environ["SAMPLE_PAUSE"] = str(PAUSE)
    with Store(store) as opened:
        run_studies([walk], opened, seed=7, jobs=1, progress=False)


def _count(store: Path) -> int:
    if not store.is_file():
        return 0
    with Store(store) as opened:
        return len(list(opened.rows()))


def _contents(store: Path) -> list[tuple[object, ...]]:
    with Store(store, create=False) as opened:
        return [
            tuple(value for name, value in vars(row).items() if name != "wall_time")
            for row in opened.rows()
        ]
