"""What a record of the benchmarks is: who won, against whom, and how it is read back.

One rule says who wins, for times and for quality alike: ``RULE``. Whom we are compared with follows
from the package (``rival``): peers are the packages of ``peers.txt`` and those with an environment
of their own.
"""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

import peers

Record = dict[str, Any]
OURS = "counterplay"
WINNERS = ("ours", "theirs", "even", "undecided")
RIVALS = ("peer", "plain code", "own variant", "target")
TARGET = "the bar of "  # a name that begins so is a number that we promised
RULE = (
    "A side wins where it is better over the whole range: of the ratio over the turns for a time, "
    "of the 95 % interval of the gain over people, rows or splits for quality. Where the range "
    "contains both sides, they are even. What was measured in one turn, or counted once, is not "
    "decided, however large the ratio is."
)


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


def named(side: Record) -> str:
    """Return the name of a side with the package and version, where it is not ours."""
    if side["package"] in (None, OURS) or side["version"] is None:
        return str(side["name"])
    return f"{side['name']} ({side['package']} {side['version']})"


def holds(record: Record) -> bool:
    """Whether a record keeps its bar: a ratio at least, a cost at most."""
    if record["bar"] is None:
        return True
    if record["kind"] == "growth":
        return bool(record["points"][-1][1] <= record["bar"])
    if record["ratio"] is None:
        better = record["ours"]["value"] - record["theirs"]["value"]
        return bool((better if record["more"] else -better) > 0)
    return bool(record["ratio"] >= record["bar"])


def rival(record: Record) -> str:
    """Return whom a comparison is with: a peer, plain code, our own variant or our own target."""
    side = record["theirs"]
    if side["name"].startswith(TARGET):
        return "target"
    if side["package"] == OURS:
        return "own variant"
    return "peer" if side["package"] in peer_names() else "plain code"


@functools.cache
def peer_names() -> frozenset[str]:
    """Return the names of all packages that we call peers."""
    listed = [*peers.requirements(), *peers.APART.values()]
    return frozenset(requirement.partition("==")[0] for requirement in listed)


def ranged(record: Record) -> str:
    """Return the range that decides who wins, in words."""
    if record["gain"] is not None:
        low, high = (f"{'+' if end > 0 else ''}{short(end)}" for end in record["gain"])
        return f"gain {low} to {high}"
    if record["low"] is None or record["low"] == record["high"]:
        return "one turn"
    return f"{short(record['low'])} to {short(record['high'])}"


def winner(record: Record) -> str:
    """Return who is better over the whole range, as ``RULE`` says."""
    if record["gain"] is not None:
        low, high = record["gain"]
        return "ours" if low > 0 else "theirs" if high < 0 else "even"
    low, high = record["low"], record["high"]
    if low is None or low == high:
        return "undecided"
    return "ours" if low > 1 else "theirs" if high < 1 else "even"


COMMON: dict[str, type | tuple[type, ...]] = {"area": str, "what": str, "machine": dict}
NUMBER = (int, float)
MAYBE = (int, float, type(None))
FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "comparison": COMMON | {"ours": dict, "theirs": dict, "unit": str, "more": bool, "note": str,
                            "ratio": MAYBE, "low": MAYBE, "high": MAYBE, "bar": MAYBE,
                            "gain": (list, type(None)), "wins": str},
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
        if record["gain"] is not None:
            low, high = record["gain"]
            if not low <= high:
                raise ValueError(f"the gain from {low} to {high} is no interval")
        if record["wins"] != winner(record):
            raise ValueError(f"{record['wins']!r} is not who wins by these numbers")
