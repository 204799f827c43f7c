"""One way to measure, to say and to keep a comparison, for all benchmarks.

``timed`` and ``in_turns`` measure; ``compare`` prints one line per comparison, ``growth`` one line
per curve of our own cost against size, ``skipped`` one line per comparison that is left out. When
the environment variable COUNTERPLAY_BENCH names a file, each line is appended to it as JSON,
together with the versions it was measured with; ``read`` reads such a file and refuses a damaged
one. COUNTERPLAY_TURNS=1 limits the turns, for a quick look.

A ratio says how many times better we are: their cost over ours, or our gain over theirs where more
is better. Below 1 somebody else wins; ``even`` means that the turns disagree, or that a
single turn differs by less than a tenth. The range goes from the smallest to the largest ratio over
the turns.
"""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean, median
from typing import Any

Record = dict[str, Any]
OURS = "counterplay"
BASIS = ("numpy", "scipy", "scikit-learn", "pandas", "numba")
WINNERS = ("ours", "theirs", "even")


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


def timed(
    call: Callable[[], Any], turns: int = 1, *, how: str = "best", cpu: bool = False
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
    note: str = "",
) -> Record:
    """Record one comparison and print its line.

    Parameters
    ----------
    area, what : str
        Where it belongs, and one sentence about what is compared.
    ours, theirs : Times, number or numbers
        What was measured; several numbers stand for their mean and have no range.
    against, package : str
        Who or what we are compared with, and the distribution whose version matters.
    unit : str
        Of both numbers: ``s``, ``questions``, ``accuracy``.
    more : bool
        Whether a larger number is better.
    bar : float, optional
        The smallest ratio that was promised.
    note : str
        What else the reader has to know, such as that both found the same.
    """
    mine, other = _value(ours), _value(theirs)
    ratio, low, high = _ratios(ours, theirs, more)
    record: Record = {
        "kind": "comparison", "area": area, "what": what,
        "ours": _side(OURS, OURS, mine), "theirs": _side(against, package, other), "unit": unit,
        "more": more, "ratio": ratio, "low": low, "high": high, "bar": bar, "note": note,
    }  # fmt: skip
    record["wins"] = _winner(record)
    span = "no ratio" if ratio is None else f"{short(ratio)}x"
    span += f" ({short(low)} to {short(high)})" if low is not None and low != high else ""
    promise = "" if bar is None else f", bar {short(bar)} {'met' if holds(record) else 'MISSED'}"
    better = {"ours": "ours wins", "theirs": "theirs wins", "even": "even"}[record["wins"]]
    _say(
        record, f"{area:12} {span:26} {better}{promise} | {what}: {amount(mine, unit)} against "
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


def holds(record: Record) -> bool:
    """Whether a record keeps its bar: a ratio at least, a cost at most."""
    if record["bar"] is None:
        return True
    if record["kind"] == "growth":
        return bool(record["points"][-1][1] <= record["bar"])
    if record["ratio"] is None:
        return bool(record["wins"] == "ours")
    return bool(record["ratio"] >= record["bar"])


def named(side: Record) -> str:
    """Return the name of a side with the package and version it was measured with."""
    if side["package"] is None or side["version"] is None:
        return str(side["name"])
    return f"{side['name']} ({side['package']} {side['version']})"


def _value(measured: Measured) -> float:
    if isinstance(measured, Times):
        return float(measured.value)
    return float(fmean(measured) if isinstance(measured, Sequence) else measured)


def _ratios(
    ours: Measured, theirs: Measured, more: bool
) -> tuple[float | None, float | None, float | None]:
    """Return the ratio with the smallest and the largest over the turns."""
    above, below = (ours, theirs) if more else (theirs, ours)
    tops = above.turns if isinstance(above, Times) else (_value(above),)
    feet = below.turns if isinstance(below, Times) else (_value(below),)
    if min(*tops, *feet, 1.0) < 0 or min(feet) == 0:
        return None, None, None
    if isinstance(ours, Times) and ours.how == "paired" and len(tops) == len(feet):
        found = [top / foot for top, foot in zip(tops, feet)]
        return median(found), min(found), max(found)
    return _value(above) / _value(below), min(tops) / max(feet), max(tops) / min(feet)


def _winner(record: Record) -> str:
    """Return who is better in every turn; the time of a single turn must differ by a tenth."""
    low, high = record["low"], record["high"]
    if low is None:
        gain = record["ours"]["value"] - record["theirs"]["value"]
        gain = gain if record["more"] else -gain
        return "ours" if gain > 0 else "theirs" if gain < 0 else "even"
    doubt = 1.1 if low == high and record["unit"] == "s" else 1.0
    return "ours" if low > doubt else "theirs" if high < 1 / doubt else "even"


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


def short(number: float | None) -> str:
    if number is None:
        return "-"
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def amount(number: float, unit: str) -> str:
    if unit != "s":
        return f"{short(number)} {unit}"
    scale, name = next((s, n) for s, n in ((1, "s"), (1e3, "ms"), (1e6, "us"), (1e9, "ns"))
                       if number * s >= 1 or s == 1e9)  # fmt: skip
    return f"{short(number * scale)} {name}"


COMMON: dict[str, type | tuple[type, ...]] = {"area": str, "what": str, "machine": dict}
NUMBER = (int, float)
MAYBE = (int, float, type(None))
FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "comparison": COMMON | {"ours": dict, "theirs": dict, "unit": str, "more": bool, "note": str,
                            "ratio": MAYBE, "low": MAYBE, "high": MAYBE, "bar": MAYBE,
                            "wins": str},
    "growth": COMMON | {"ours": dict, "size": str, "unit": str, "points": list, "bar": MAYBE,
                        "note": str},
    "skipped": COMMON | {"why": str},
    "setup": COMMON | {"peers": dict, "load": MAYBE},
}  # fmt: skip


def read(path: Path) -> list[Record]:
    """Return the records of a file; of two about the same comparison, the later one.

    A comparison that was left out once and made later is no longer called left out.

    Raises
    ------
    ValueError
        If a line is not a whole record: the message says which line and what is wrong.
    """
    found: dict[tuple[str, ...], Record] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            record = json.loads(line, parse_constant=_refuse)
            _check(record)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path.name}, line {number}: {error}") from error
        who = record["theirs"]["name"] if record["kind"] == "comparison" else record["kind"]
        found.pop((record["area"], record["what"], "skipped", ""), None)
        found[record["area"], record["what"], who, record.get("unit", "")] = record
    return list(found.values())


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a measured number")


def _check(record: Any) -> None:
    """Refuse a record whose fields are missing, of another kind, or contradict each other."""
    kind = record.get("kind") if isinstance(record, dict) else None
    if kind not in FIELDS:
        raise ValueError(f"the kind of a record is one of {', '.join(FIELDS)}")
    for name, kinds in FIELDS[kind].items():
        if name not in record:
            raise ValueError(f"{name} is missing")
        if not isinstance(record[name], kinds):
            raise ValueError(f"{name} is {record[name]!r}")
    if kind == "growth":
        for n, cost in record["points"]:
            if not (math.isfinite(n) and math.isfinite(cost)):
                raise ValueError("a point of a curve is not a number")
        if not record["points"]:
            raise ValueError("a curve has at least one point")
    if kind == "comparison":
        low, ratio, high = record["low"], record["ratio"], record["high"]
        if (low is None) != (ratio is None) or (high is None) != (ratio is None):
            raise ValueError("a ratio has a range, and a range a ratio")
        if ratio is not None and not 0 <= low <= ratio * (1 + 1e-9) <= high * (1 + 1e-6):
            raise ValueError(f"the ratio {ratio} is not between {low} and {high}")
        if record["wins"] != _winner(record):
            raise ValueError(f"{record['wins']!r} is not who wins by these numbers")
