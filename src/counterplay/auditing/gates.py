"""Gates: requirements with three verdicts, because an interval cannot always tell.

``gamed_money at budget=1 <= best_plain + 20``: a quantity, a place, a comparison, and a sum of
numbers, ``best_plain`` and ``last``. It passes if every point of the interval satisfies it, fails
if none does, and is undecided otherwise. What a search found can fail a gate and never pass it; a
certified bound can pass and never fail it. With g gates each interval has the level 1 - 0.05/g.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri

from counterplay.auditing.findings import RowValues
from counterplay.auditing.quantity import Quantity, Text, quantity_key
from counterplay.core.records import Record
from counterplay.errors import InvalidInputError
from counterplay.tables.cells import shown

Verdict = Literal["pass", "fail", "undecided"]
ALPHA = 0.05

SECTION_OF = {
    **dict.fromkeys(
        (
            "honest_accuracy", "honest_auc", "honest_money", "honest_false_accepts_per_1000",
            "honest_false_rejects_per_1000",
        ),
        "honest",
    ),
    **dict.fromkeys(
        (
            "gamed_accuracy", "gamed_money", "false_accepts_per_1000", "false_rejects_per_1000",
            "movers_per_1000",
        ),
        "gaming",
    ),
    **dict.fromkeys(
        (
            "certified_accuracy", "certified_money", "certified_recall_accepted",
            "certified_recall_rejected", "changed_by_one_row", "copies_to_flip",
        ),
        "planted",
    ),
    "symmetry_changed": "symmetry",
}  # fmt: skip
"""Quantities of the library's own sections, so that a gate on one that did not run says so."""


class Gate(Record, frozen=True):
    """A requirement and its verdict.

    Parameters
    ----------
    text
        The requirement as the config states it.
    verdict
        Whether it holds.
    quantity
        The number that it is about, with its interval at the level of the gates.
    limit
        What it is compared with.
    reason
        Why the verdict is what it is.

    Examples
    --------
    >>> gate = Gate(text="gamed_money <= 900", verdict="undecided", reason="[801, 950] holds 900")
    >>> exit_code([gate])
    4

    References
    ----------
    "Gates", see docs/theory/27-audit.md.
    """

    text: Text
    verdict: Verdict
    reason: Text
    quantity: Quantity | None = None
    limit: float | None = None


@dataclass(frozen=True)
class Requirement:
    """A gate, parsed: ``name at place op number + plain * best_plain + last * last``."""

    text: str
    name: str
    place: Mapping[str, str]
    op: str
    number: float
    plain: int
    last: int


@dataclass(frozen=True)
class Evidence:
    """What gates are judged by: quantities, plain rules, rows, and the sections that did not run.

    Parameters
    ----------
    quantities
        By `quantity_key`.
    plain
        The best plain rule for each name.
    rows
        The rows behind quantities.
    absent
        Section to the reason why it did not run.
    """

    quantities: Mapping[str, Quantity]
    plain: Mapping[str, Quantity]
    rows: Mapping[str, RowValues]
    absent: Mapping[str, str]


def parse_gate(text: str) -> Requirement:
    """Read a requirement.

    Examples
    --------
    >>> gate = parse_gate("certified_accuracy at rows=5 >= best_plain + 0.05")
    >>> gate.name, dict(gate.place), gate.op, gate.number, gate.plain
    ('certified_accuracy', {'rows': '5'}, '>=', 0.05, 1)
    """
    match = re.fullmatch(
        r"\s*([A-Za-z_]\w*)(?:\s+at\s+([^<>=]+=[^<>]*?))?\s*(<=|>=|<|>)\s*([^<>=]+)", text
    )
    if match is None:
        raise InvalidInputError(
            f"Gate {shown(text, 100)} is not readable: write "
            "'quantity at key=value <= number', with best_plain or last if needed."
        )
    name, place, op, right = match.groups()
    number, plain, last = _sum(right, text)
    return Requirement(text, name, _place(place, text), op, number, plain, last)


def check_gate(text: str) -> Requirement:
    """Read a requirement before anything is computed; a name that is nearly known is a mistake.

    Names of sections from elsewhere are known only after the run.

    Examples
    --------
    >>> check_gate("gamed_mony <= 900")
    Traceback (most recent call last):
    ...
    counterplay.errors.InvalidInputError: Gate 'gamed_mony <= 900': there is no quantity \
'gamed_mony' (nearest: gamed_money).
    """
    gate = parse_gate(text)
    if gate.name not in SECTION_OF:
        near = difflib.get_close_matches(gate.name, SECTION_OF, n=1, cutoff=0.9)
        if near:
            raise _unknown(gate, f"nearest: {near[0]}")
    return gate


def _unknown(gate: Requirement, hint: str) -> InvalidInputError:
    return InvalidInputError(
        f"Gate {shown(gate.text, 80)}: there is no quantity {shown(gate.name, 40)} ({hint})."
    )


def judge(
    requirements: Sequence[str],
    evidence: Evidence,
    last: Evidence | None = None,
    *,
    same_rows: bool = False,
) -> tuple[Gate, ...]:
    """Return the verdict on each requirement.

    Parameters
    ----------
    requirements
        The gates of the config.
    evidence
        What this audit found.
    last
        What the audit to compare with found.
    same_rows
        Whether the two audits saw the same rows: then differences are paired.
    """
    parsed = [parse_gate(text) for text in requirements]
    level = 1 - ALPHA / max(1, len(parsed))
    return tuple(_judged(gate, evidence, last, same_rows, level) for gate in parsed)


def exit_code(gates: Iterable[Gate], undecided: Literal["pass", "fail", "tell"] = "tell") -> int:
    """Return 0 if all pass, 3 if one fails, 4 if none fails and one is undecided.

    Examples
    --------
    >>> exit_code([Gate(text="x <= 1", verdict="undecided", reason="")])
    4
    """
    verdicts = {gate.verdict for gate in gates}
    if "fail" in verdicts or (undecided == "fail" and "undecided" in verdicts):
        return 3
    return 4 if undecided == "tell" and "undecided" in verdicts else 0


def at_level(quantity: Quantity, level: float) -> Quantity:
    """Return a sampled quantity with its interval widened to another level."""
    if quantity.level >= 1 or quantity.low == quantity.high:
        return quantity
    ratio = float(ndtri((1 + level) / 2) / ndtri((1 + quantity.level) / 2))
    low = quantity.value - ratio * (quantity.value - quantity.low)
    high = quantity.value + ratio * (quantity.high - quantity.value)
    if quantity.unit == "share":
        low, high = max(low, min(0.0, quantity.low)), min(high, max(1.0, quantity.high))
    return _with(quantity, low=low, high=high, level=level)


def _with(quantity: Quantity, **changes: float) -> Quantity:
    import msgspec

    return msgspec.structs.replace(quantity, **changes)


def _sum(right: str, text: str) -> tuple[float, int, int]:
    """Read a sum of numbers, best_plain and last."""
    tokens = re.findall(r"[+-]|best_plain|last|\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+|\S", right)
    number, plain, last, sign, open_ = 0.0, 0, 0, 1, True
    for token in tokens:
        if token in "+-":
            sign = (-sign if token == "-" else sign) if open_ else (-1 if token == "-" else 1)
            open_ = True
            continue
        if not open_ or not re.fullmatch(r"best_plain|last|[\d.].*", token):
            raise _unreadable(token, text)
        if token == "best_plain":
            plain += sign
        elif token == "last":
            last += sign
        else:
            number += sign * float(token)
        sign, open_ = 1, False
    if open_ or abs(plain) > 1 or abs(last) > 1 or not math.isfinite(number):
        raise _unreadable(right, text)
    return number, plain, last


def _unreadable(token: str, text: str) -> InvalidInputError:
    return InvalidInputError(
        f"Gate {shown(text, 100)}: {shown(token.strip(), 40)} is not a sum of numbers, best_plain "
        "and last."
    )


def _place(place: str | None, text: str) -> dict[str, str]:
    found = {}
    for part in (place or "").split(","):
        if not part.strip():
            continue
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise InvalidInputError(
                f"Gate {shown(text, 100)}: {shown(part.strip(), 40)} is not key=value."
            )
        found[key.strip()] = value.strip().strip("'\"")
    return found


def _judged(
    gate: Requirement,
    evidence: Evidence,
    last: Evidence | None,
    same_rows: bool,
    level: float,
) -> Gate:
    key = quantity_key(gate.name, {k: _number(v) for k, v in gate.place.items()})
    found = evidence.quantities.get(key)
    if found is None:
        return _absent(gate, key, evidence)
    if gate.last and last is None:
        raise InvalidInputError(
            f"Gate {shown(gate.text, 120)} compares with the last audit: give --against audit.json."
        )
    quantity = at_level(found, level)
    if gate.plain and gate.name not in evidence.plain:
        return Gate(
            text=gate.text, verdict="undecided", quantity=quantity,
            reason=f"{gate.name} has no plain rule to compare with.",
        )  # fmt: skip
    if gate.last and last is not None and key not in last.quantities:
        return Gate(
            text=gate.text, verdict="undecided", quantity=quantity,
            reason="The last audit does not have this quantity.",
        )  # fmt: skip
    low, high, limit, note = _difference(gate, key, quantity, evidence, last, same_rows)
    verdict = _verdict(gate.op, low, high)
    reason = _reason(gate, quantity, low, high, limit) + note
    if quantity.basis == "found" and not quantity.two_sided and verdict == "pass":
        verdict, reason = "undecided", reason + " A search found it; the other side may do more."
    if quantity.basis == "certified" and not quantity.two_sided and verdict == "fail":
        verdict, reason = "undecided", reason + " A certified bound can pass, it cannot fail."
    return Gate(text=gate.text, verdict=verdict, reason=reason, quantity=quantity, limit=limit)


def _absent(gate: Requirement, key: str, evidence: Evidence) -> Gate:
    """Undecided if the section did not run; a mistake if there is no such quantity."""
    section = SECTION_OF.get(gate.name)
    names = {name.partition(" at ")[0] for name in evidence.quantities}
    if section in evidence.absent and gate.name not in names:
        words = {"planted": "planted rows"}.get(str(section), str(section))
        reason = (
            f"Gate {shown(gate.text, 80)} needs the section {words}, which was not run: "
            f"{evidence.absent[str(section)]}"
        )
        return Gate(text=gate.text, verdict="undecided", reason=reason)
    if gate.name not in names and gate.name not in SECTION_OF:
        near = difflib.get_close_matches(gate.name, [*names, *SECTION_OF], n=1, cutoff=0.4)
        hint = f"nearest: {near[0]}" if near else f"known: {', '.join(sorted(names))[:120]}"
        raise _unknown(gate, hint)
    places = [k.partition(" at ")[2] for k in evidence.quantities if k.startswith(f"{gate.name} ")]
    if not places and gate.name not in names:
        return Gate(
            text=gate.text, verdict="undecided",
            reason=f"{gate.name} was not computed in this run.",
        )  # fmt: skip
    raise InvalidInputError(
        f"Gate {shown(gate.text, 80)}: {gate.name} is not known there; known: "
        f"{'; '.join(places[:6]) or 'only without a place'}."[:280]
    )


def _difference(
    gate: Requirement,
    key: str,
    quantity: Quantity,
    evidence: Evidence,
    last: Evidence | None,
    same_rows: bool,
) -> tuple[float, float, float, str]:
    """Return the interval of quantity minus limit, the limit, and a note on how they compare."""
    limit, note = gate.number, ""
    low, high = quantity.low - gate.number, quantity.high - gate.number
    # Rows whose moves are only bracketed count both ways in the ends, not in the values of rows.
    own = None if quantity.two_sided else evidence.rows.get(key)
    if gate.plain:
        other = at_level(evidence.plain[gate.name], quantity.level)
        mine, theirs = own, evidence.rows.get(f"best_plain {gate.name}")
        low, high = _less(quantity, other, mine, theirs, gate.plain, (low, high))
        limit += gate.plain * other.value
    if gate.last and last is not None:
        other = at_level(last.quantities[key], quantity.level)
        theirs = last.rows.get(key) if same_rows and not other.two_sided else None
        low, high = _less(quantity, other, own, theirs, gate.last, (low, high))
        limit += gate.last * other.value
        note = "" if same_rows else " The last audit saw other rows: the difference is unpaired."
    return low, high, limit, note


def _less(
    quantity: Quantity,
    other: Quantity,
    mine: RowValues | None,
    theirs: RowValues | None,
    sign: int,
    ends: tuple[float, float],
) -> tuple[float, float]:
    """Subtract another quantity: paired on common rows where both are known, else widths add."""
    shift = sign * other.value
    if mine is not None and theirs is not None and sign == 1:
        _, i, j = np.intersect1d(mine.rows, theirs.rows, return_indices=True)
        if len(i) > 1:
            gaps = mine.scale * mine.values[i] - theirs.scale * theirs.values[j]
            z = float(ndtri((1 + min(quantity.level, 1 - 1e-12)) / 2))
            width = z * float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
            offset = ends[0] - quantity.low  # what was subtracted before
            middle = float(gaps.mean()) + offset
            return middle - width, middle + width
    if mine is None or theirs is None:  # independent samples, or nothing known: the safe sum
        down = shift + (other.high - other.value if sign > 0 else other.value - other.low)
        up = shift - (other.value - other.low if sign > 0 else other.high - other.value)
        return ends[0] - down, ends[1] - up
    return ends[0] - shift, ends[1] - shift


def _verdict(op: str, low: float, high: float) -> Verdict:
    """Whether all, none or some points of [low, high] compare with 0 as asked."""
    inside = {
        "<=": (high <= 0, low > 0),
        "<": (high < 0, low >= 0),
        ">=": (low >= 0, high < 0),
        ">": (low > 0, high <= 0),
    }[op]
    return "pass" if inside[0] else "fail" if inside[1] else "undecided"


def _reason(gate: Requirement, quantity: Quantity, low: float, high: float, limit: float) -> str:
    told = f"{quantity} against {limit:.6g}"
    if gate.plain or gate.last:
        told += f"; the difference lies in [{low:.4g}, {high:.4g}]"
    return f"{told}; {quantity.basis}."


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
