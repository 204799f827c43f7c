"""One way to measure, to say and to keep a comparison, for all benchmarks.

``timed`` and ``in_turns`` measure; ``compare`` prints one line per comparison, ``growth`` one line
per curve of our own cost against size, ``skipped`` one line per comparison that is left out. When
the environment variable COUNTERPLAY_BENCH names a file, each line is appended to it as JSON,
together with the versions it was measured with; ``records.py`` reads such a file.
COUNTERPLAY_TURNS=1 limits the turns, for a quick look.

A ratio says how many times better we are: their cost over ours, or our gain over theirs where more
is better. Below 1 somebody else wins. Times have the range from the smallest to the largest ratio
over the turns, quality a 95 % interval of the difference, over people, rows or splits; what was
measured once has no range, and nobody wins (``records.RULE``).
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from records import OURS, Record, amount, holds, named, ranged, short, winner

LEAST = 3  # turns of both sides, or pairs, that make a range
BASIS = ("numpy", "scipy", "scikit-learn", "pandas", "numba")


@dataclass(frozen=True)
class Times:
    """Seconds of every turn, the number that stands for them, and the last result."""

    turns: tuple[float, ...]
    how: str = "best"  # best, median, mean or paired
    result: Any = None

    @property
    def value(self) -> float:
        """The fastest turn, or the median or mean of the turns."""
        if self.how == "best":
            return min(self.turns)
        return fmean(self.turns) if self.how == "mean" else median(self.turns)

    def each(self, count: float) -> Times:
        """Return the times of one of ``count`` equal pieces of work."""
        return Times(tuple(turn / count for turn in self.turns), self.how, self.result)


Measured = Times | float | Sequence[float]  # plain numbers stand for themselves, or their mean
Range = tuple[float, float]


def timed(
    call: Callable[[], Any], turns: int = 3, *, how: str = "best", cpu: bool = False
) -> Times:
    """Return the time of some calls; with ``cpu`` of this process alone, on a busy machine."""
    found, result = [], None
    for _ in range(_limited(turns)):
        spent, result = _once(call, cpu)
        found.append(spent)
    return Times(tuple(found), how, result)


def in_turns(
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    turns: int,
    *,
    cpu: bool = True,
    how: str = "paired",
) -> tuple[Times, Times]:
    """Return the times of two calls that take turns: their ratio is the median over the turns."""
    pairs = [(_once(ours, cpu), _once(theirs, cpu)) for _ in range(_limited(turns))]
    first, second = zip(*pairs)
    return (
        Times(tuple(spent for spent, _ in first), how, first[-1][1]),
        Times(tuple(spent for spent, _ in second), how, second[-1][1]),
    )


def _once(call: Callable[[], Any], cpu: bool) -> tuple[float, Any]:
    clock = time.process_time if cpu else time.perf_counter
    start = clock()
    result = call()
    return max(clock() - start, 1e-9), result


def _limited(turns: int) -> int:
    return min(turns, int(os.environ.get("COUNTERPLAY_TURNS", turns)))


def compare(
    area: str,
    what: str,
    ours: Measured,
    theirs: Measured,
    *,
    against: str,
    package: str | None = None,
    unit: str = "s",
    more: bool = False,
    bar: float | None = None,
    gain: Range | None = None,
    note: str = "",
) -> Record:
    """Record one comparison and print its line.

    Parameters
    ----------
    area, what : str
        Where it belongs, and one sentence about what is compared.
    ours, theirs : Times, number or numbers
        What was measured. Several numbers stand for their mean; three or more on both sides belong
        together pair by pair (the same people, rows or splits) and give the interval of the gain.
    against, package : str
        Who or what we are compared with, and the distribution whose version matters: ``OURS`` for
        another way of this library.
    unit : str
        Of both numbers: ``s``, ``questions``, ``accuracy``.
    more : bool
        Whether a larger number is better.
    bar : float, optional
        The smallest ratio that was promised.
    gain : (float, float), optional
        The 95 % interval of how much better we are, in the unit, where it is no mean of pairs.
    note : str
        What else the reader has to know, such as that both found the same.
    """
    mine, other = _value(ours), _value(theirs)
    ratio, low, high = _ratios(ours, theirs, more)
    gain = _paired(ours, theirs, more) if gain is None else gain
    record: Record = {
        "kind": "comparison", "area": area, "what": what,
        "ours": _side(OURS, OURS, mine), "theirs": _side(against, package, other), "unit": unit,
        "more": more, "ratio": ratio, "low": low, "high": high, "bar": bar, "note": note,
        "gain": None if gain is None else [float(end) for end in gain],
    }  # fmt: skip
    record["wins"] = winner(record)
    span = "no ratio" if ratio is None else f"{short(ratio)}x"
    span += f" ({ranged(record)})"
    promise = "" if bar is None else f", bar {short(bar)} {'met' if holds(record) else 'MISSED'}"
    better = {"ours": "ours wins", "theirs": "theirs wins", "even": "even",
              "undecided": "not decided"}[record["wins"]]  # fmt: skip
    _say(
        record, f"{area:12} {span:30} {better}{promise} | {what}: {amount(mine, unit)} against "
        f"{amount(other, unit)}, {named(record['theirs'])}{'; ' + note if note else ''}",
    )  # fmt: skip
    return record


def growth(
    area: str,
    what: str,
    points: Mapping[float, Measured],
    *,
    size: str,
    unit: str = "s",
    bar: float | None = None,
    note: str = "",
) -> Record:
    """Record our own cost against size, with the largest cost promised at the last point."""
    curve = [[float(n), _value(cost)] for n, cost in points.items()]
    record: Record = {
        "kind": "growth", "area": area, "what": what, "ours": _side(OURS, OURS, curve[-1][1]),
        "size": size, "unit": unit, "points": curve, "bar": bar, "note": note,
    }  # fmt: skip
    shown = ", ".join(f"{short(n)}: {amount(cost, unit)}" for n, cost in curve)
    promise = "" if bar is None else f", bar {amount(bar, unit)} "
    promise += "" if bar is None else "met" if holds(record) else "MISSED"
    _say(record, f"{area:12} growth by {size}{promise} | {what}: {shown}"
         f"{'; ' + note if note else ''}")  # fmt: skip
    return record


def skipped(area: str, what: str, why: str) -> Record:
    """Record that a comparison was not made, and why."""
    record = {"kind": "skipped", "area": area, "what": what, "why": why}
    _say(record, f"{area:12} skipped | {what}: {why}")
    return record


def setup(peers: Mapping[str, str], load: float | None) -> Record:
    """Record the version of each peer, or that it is not there, and how busy others kept cores."""
    record: Record = {
        "kind": "setup", "area": "setup", "what": "peers", "peers": dict(peers), "load": load,
    }  # fmt: skip
    told = ", ".join(f"{name} {state}" for name, state in peers.items())
    _say(record, f"{'setup':12} peers | {told}; cores used by others: {short(load)}")
    return record


def median_gain(
    ours: Sequence[float], theirs: Sequence[float], *, more: bool = False, draws: int = 2000
) -> Range:
    """Return the 95 % bootstrap interval of how much better our median is, for any two groups."""
    rng = np.random.default_rng(0)
    first, second = (
        np.median(rng.choice(np.asarray(side, dtype=float), (draws, len(side))), axis=1)
        for side in (ours, theirs)
    )
    low, high = np.quantile(first - second if more else second - first, [0.025, 0.975])
    return float(low), float(high)


def _value(measured: Measured) -> float:
    if isinstance(measured, Times):
        return float(measured.value)
    return float(np.mean(measured))


def _paired(ours: Measured, theirs: Measured, more: bool) -> Range | None:
    """Return the 95 % interval of the mean gain over pairs, or None where there are no pairs."""
    if isinstance(ours, Times) or isinstance(theirs, Times):
        return None
    first, second = np.atleast_1d(ours).astype(float), np.atleast_1d(theirs).astype(float)
    if first.shape != second.shape or first.size < LEAST:
        return None
    from counterplay.core.stats import mean_interval

    found = mean_interval(first - second if more else second - first)
    return found.low, found.high


def _ratios(
    ours: Measured, theirs: Measured, more: bool
) -> tuple[float | None, float | None, float | None]:
    """Return the ratio with the smallest and the largest over the turns, if there are enough."""
    above, below = (ours, theirs) if more else (theirs, ours)
    tops = above.turns if isinstance(above, Times) else (_value(above),)
    feet = below.turns if isinstance(below, Times) else (_value(below),)
    if min(*tops, *feet, 1.0) < 0 or min(feet) == 0:
        return None, None, None
    if isinstance(ours, Times) and ours.how == "paired" and len(tops) == len(feet):
        found = [top / foot for top, foot in zip(tops, feet)]
        ratio, low, high = median(found), min(found), max(found)
    else:
        ratio = _value(above) / _value(below)
        low, high = min(tops) / max(feet), max(tops) / min(feet)
    return (ratio, low, high) if min(len(tops), len(feet)) >= LEAST else (ratio, ratio, ratio)


def _side(name: str, package: str | None, value: float) -> Record:
    return {"name": name, "package": package, "version": _version(package), "value": value}


def _version(package: str | None) -> str | None:
    if package is None:
        return None
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _say(record: Record, line: str) -> None:
    print(line, flush=True)
    if target := os.environ.get("COUNTERPLAY_BENCH"):
        packages = {name: _version(name) for name in (OURS, *BASIS)}
        machine = {
            "python": platform.python_version(), "system": platform.system(),
            "cores": os.cpu_count(), "packages": packages,
        }  # fmt: skip
        with Path(target).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record | {"machine": machine}, allow_nan=False) + "\n")
