"""``python -m tests.zoo``: how long every door keeps every animal; 1 if one keeps it too long.

Each door is opened twice with the tame table first, so that nothing is compiled on the clock. Kept
out of the tests, which never look at a clock.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
import time
import warnings
from pathlib import Path

from counterplay.errors import CounterplayError

from .animals import ANIMALS, TAME

SECONDS = 5.0


def main() -> int:
    """Time what the command line asks for and print the slowest."""
    areas = sorted(p.stem.removeprefix("doors_") for p in Path(__file__).parent.glob("doors_*.py"))
    parser = argparse.ArgumentParser(prog="python -m tests.zoo", description=__doc__)
    parser.add_argument("areas", nargs="*", default=areas, help="default: all")
    parser.add_argument("--slowest", type=int, default=10, help="lines to print")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    spent = [
        (_seconds(area, door, animal), area, door, animal)
        for area in given.areas
        for door in importlib.import_module(f"tests.zoo.doors_{area}").DOORS
        for animal in (*sorted(TAME)[:1], *ANIMALS)
    ]
    last = {(area, door, animal): seconds for seconds, area, door, animal in spent}
    slowest = sorted(((seconds, *key) for key, seconds in last.items()), reverse=True)
    for seconds, area, door, animal in slowest[: given.slowest]:
        print(f"{seconds:6.2f} s  {area}: {door}, {animal}")
    late = sum(seconds > SECONDS for seconds, *_ in slowest)
    print(f"{len(last):,} visits, {late} of them over {SECONDS:g} s")
    return 1 if late else 0


def _seconds(area: str, door: str, animal: str) -> float:
    X, y = ANIMALS[animal]()
    enter = importlib.import_module(f"tests.zoo.doors_{area}").DOORS[door]
    start = time.process_time()
    with contextlib.suppress(CounterplayError):
        enter(X, y)
    return time.process_time() - start


if __name__ == "__main__":
    sys.exit(main())
