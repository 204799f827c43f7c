"""Gates: three verdicts, what was found or certified, what is compared, exit codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplay.auditing.findings import RowValues
from counterplay.auditing.gates import (
    Evidence,
    at_level,
    check_gate,
    exit_code,
    judge,
    parse_gate,
)
from counterplay.auditing.quantity import Quantity
from counterplay.errors import InvalidInputError


def q(value: float, low: float, high: float, basis: Any = "measured", **more: Any) -> Quantity:
    return Quantity(value=value, low=low, high=high, unit="euro", basis=basis, n=100, **more)


NOW = {
    "money": q(50, 40, 60),
    "money at budget=2": q(80, 70, 90),
    "sure": q(50, 50, 50, "exact", level=1.0),
    "movers": q(20, 20, 20, "found", level=1.0),
    "gamed": q(20, 15, 25, "found", two_sided=True),
    "safe": q(0.7, 0.65, 0.75, "certified"),
}
PLAIN = {"money": q(30, 25, 35), "safe": q(0.5, 0.45, 0.55)}
LAST = {"money": q(45, 35, 55), "sure": q(50, 50, 50, "exact", level=1.0)}

# requirement, last audit: none, the same rows or other rows, verdict, exit code
TABLE = [
    ("money <= 60", None, "pass", 0),
    ("money <= 59", None, "undecided", 4),
    ("money <= 39", None, "fail", 3),
    ("money <= 40", None, "undecided", 4),
    ("money < 60", None, "undecided", 4),
    ("money < 40", None, "fail", 3),
    ("money >= 40", None, "pass", 0),
    ("money >= 61", None, "fail", 3),
    ("money > 40", None, "undecided", 4),
    ("money > 60", None, "fail", 3),
    ("money at budget=2 <= 90", None, "pass", 0),
    ("money at budget=2.0 >= 95", None, "fail", 3),
    ("sure <= 50", None, "pass", 0),
    ("sure < 50", None, "fail", 3),
    ("movers <= 19", None, "fail", 3),
    ("movers <= 30", None, "undecided", 4),
    ("gamed <= 30", None, "pass", 0),
    ("gamed <= 10", None, "fail", 3),
    ("safe >= 0.6", None, "pass", 0),
    ("safe >= 0.8", None, "undecided", 4),
    ("safe >= 0.7", None, "undecided", 4),
    ("money <= best_plain + 35", None, "pass", 0),
    ("money <= best_plain", None, "fail", 3),
    ("money <= best_plain + 20", None, "undecided", 4),
    ("safe >= best_plain + 0.05", None, "pass", 0),
    ("money <= last + 6", "same", "pass", 0),
    ("money <= last + 4", "same", "fail", 3),
    ("money <= last + 6", "other", "undecided", 4),
    ("money <= last + 30", "other", "pass", 0),
    ("sure <= last", "other", "pass", 0),
    ("money >= 20 - -10 + 5", None, "pass", 0),
]


def rows(shift: float) -> dict[str, RowValues]:
    base = np.linspace(-20, 20, 100)
    return {"money": RowValues(rows=np.arange(100), values=50 + base + shift)}


@pytest.mark.claim("27.15")
@pytest.mark.parametrize(("text", "last", "verdict", "code"), TABLE)
def test_a_gate_passes_fails_or_is_undecided(
    text: str, last: str | None, verdict: str, code: int
) -> None:
    former = None if last is None else Evidence(LAST, {}, rows(-5.0), {})
    evidence = Evidence(NOW, PLAIN, rows(0.0), {})
    (gate,) = judge([text], evidence, former, same_rows=last == "same")
    assert (gate.verdict, exit_code([gate])) == (verdict, code), gate.reason
    assert ("unpaired" in gate.reason) == (last == "other")


@pytest.mark.claim("27.15")
def test_rows_that_are_only_bracketed_are_not_paired() -> None:
    """The ends count unsure rows both ways; the values of rows would hide that."""
    same = {"gamed": RowValues(rows=np.arange(100), values=np.full(100, 20.0))}
    evidence = Evidence(NOW, {}, same, {})
    former = Evidence({"gamed": q(20, 15, 25, "found", two_sided=True)}, {}, same, {})
    verdicts = [
        judge([text], evidence, former, same_rows=True)[0].verdict
        for text in ("gamed <= last + 1", "gamed <= last + 11", "gamed <= last - 11")
    ]
    assert verdicts == ["undecided", "pass", "fail"]


@pytest.mark.claim("27.15")
def test_many_gates_share_the_error() -> None:
    evidence = Evidence(NOW, PLAIN, {}, {})
    (alone,) = judge(["money <= 60"], evidence)
    ten = judge(["money <= 60"] * 10, evidence)
    assert alone.verdict == "pass"
    assert {gate.verdict for gate in ten} == {"undecided"}  # 1 - 0.05/10 is a wider interval
    assert ten[0].quantity is not None
    assert ten[0].quantity.level == pytest.approx(0.995)
    assert at_level(NOW["money"], 0.995).high == pytest.approx(50 + 10 * 2.807 / 1.96, abs=0.01)


@pytest.mark.parametrize(("word", "code"), [("tell", 4), ("pass", 0), ("fail", 3)])
def test_undecided_counts_as_the_user_says(word: Any, code: int) -> None:
    gates = judge(["money <= 59"], Evidence(NOW, PLAIN, {}, {}))
    assert exit_code(gates, word) == code


def test_a_gate_on_a_section_that_did_not_run_is_undecided() -> None:
    absent = {"planted": "no refit possible for an ONNX model."}
    (gate,) = judge(["certified_accuracy at rows=5 >= 0.5"], Evidence(NOW, {}, {}, absent))
    assert gate.verdict == "undecided"
    assert gate.reason == (
        "Gate 'certified_accuracy at rows=5 >= 0.5' needs the section planted rows, which was not "
        "run: no refit possible for an ONNX model."
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mony <= 3", r"there is no quantity 'mony' \(nearest: money\)"),
        ("money at budget=3 <= 3", "is not known there; known: budget=2"),
        ("money <= last", "give --against audit.json"),
        ("money", "is not readable"),
        ("money <= 3 * 4", "is not a sum of numbers"),
        ("money <= 3 4", "is not a sum of numbers"),
        ("money at budget <= 3", "is not readable"),
        ("money <= ", "is not a sum"),
        ("money <= 1e999", "is not a sum"),
        ("money <= __import__('os')", "is not a sum"),
    ],
)
def test_mistakes_in_gates_are_told(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as told:
        judge([text], Evidence(NOW, PLAIN, {}, {}))
    assert len(str(told.value)) <= 300


def test_places_are_read_whatever_their_order() -> None:
    gate = parse_gate("a at rule='honest cut', budget = 1 >= .5")
    assert dict(gate.place) == {"rule": "honest cut", "budget": "1"}
    assert gate.number == 0.5


def test_a_name_that_is_nearly_known_is_told_before_the_run() -> None:
    with pytest.raises(InvalidInputError, match="nearest: gamed_money"):
        check_gate("gamed_mony at budget=1 <= 900")
    for text in ("gamed_money <= 900", "honest_accuracy_without_twins >= 0.5", "theirs <= 1"):
        assert check_gate(text) == parse_gate(text)
