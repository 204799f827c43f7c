"""Audits of delivered labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from counterplay.errors import InvalidInputError, InvalidStateError, ProtocolError
from counterplay.labeling import LabelAudit
from counterplay.labeling.audit_file import continue_audit


def audited(truth: np.ndarray, delivered: np.ndarray, most: int = 10_000) -> LabelAudit:
    audit = LabelAudit(delivered, random_state=0)
    for _ in range(most):
        if (item := audit.ask()) is None:
            break
        audit.tell(item, truth[item])
    return audit


@pytest.mark.claim("24.06")
def test_a_bad_delivery_is_never_passed() -> None:
    truth = np.zeros(2000, dtype=int)
    delivered = (np.arange(2000) % 20 < 3).astype(int)  # 15 % wrong
    audit = audited(truth, delivered, 300)
    assert not audit.certificate.holds
    assert audit.verdict == "too many wrong labels"
    assert audit.certificate.bound > 0.05
    assert audit.ask() is not None  # it goes on, to find them all
    whole = audited(truth, delivered)
    assert whole.certificate.holds  # once nearly all are found and corrected
    assert (whole.labels != truth).mean() <= 0.05


@pytest.mark.claim("24.30")
def test_skips_certify_nothing() -> None:
    audit = LabelAudit(np.zeros(200, dtype=int), random_state=1)
    while (item := audit.ask()) is not None:
        audit.tell(item, "skip")
        assert not audit.certificate.holds
    assert audit.checked == 200
    assert "a skip counts as a wrong label" in audit.summary()


def test_corrections_bound_and_frame() -> None:
    truth = np.array(["a", "b"])[np.arange(500) % 2]
    delivered = truth.copy()
    delivered[::250] = "b"
    audit = audited(truth, delivered)
    assert audit.verdict == "at most 5 % wrong"
    frame = audit.to_frame()
    assert frame["bound"].is_monotonic_decreasing
    assert (audit.labels != truth).sum() <= (delivered != truth).sum()
    assert audit.plot().get_xlabel() == "items checked"
    assert "<pre>" in audit._repr_html_()


def test_order_and_protocol_are_checked() -> None:
    audit = LabelAudit([0, 1, 0, 1], order=[2, 0, 3, 1])
    assert audit.ask() == 2
    with pytest.raises(ProtocolError, match="item 0 was not asked; the open one is 2"):
        audit.tell(0, 1)
    with pytest.raises(InvalidInputError, match="order must have every position from 0 to 3"):
        LabelAudit([0, 1, 0, 1], order=[0, 0, 1, 2])
    audit.tell(2, 0)
    audit.tell(0)  # the open item's label
    assert audit.checked == 2


def test_an_audit_goes_on_from_its_file(tmp_path: Path) -> None:
    labels = pd.Series(np.array(["x", "y"])[np.arange(300) % 2], name="label")
    path = tmp_path / "audit.json"
    audit, rows = continue_audit(labels, path, n=20)
    while rows:
        told = pd.DataFrame({"row": rows[::-1], "label": labels[rows[::-1]].to_numpy()})
        audit, rows = continue_audit(labels, path, told, n=20)
    assert audit.certificate.holds
    assert audit.checked == 56
    with pytest.raises(InvalidStateError, match="not those of the audit"):
        continue_audit(labels[::-1].reset_index(drop=True).replace("x", "z"), path)
    other = tmp_path / "second.json"
    _, rows = continue_audit(labels, other)
    wrong = pd.DataFrame({"row": [next(r for r in range(300) if r != rows[0])], "label": ["x"]})
    with pytest.raises(InvalidInputError, match="is not the next to check; nothing taken"):
        continue_audit(labels, other, wrong)


@pytest.mark.parametrize("told", [str, float, lambda y: f" {y} ", lambda y: f"{y}.0", np.int8])
def test_numbers_and_their_texts_are_one_label(told: Any) -> None:
    delivered = np.random.default_rng(0).integers(0, 2, 300)
    audit = LabelAudit(delivered, random_state=0)
    while (item := audit.ask()) is not None:
        audit.tell(item, told(delivered[item]))
    assert audit.certificate.holds
    assert audit.certificate.wrong == 0
    assert np.array_equal(audit.labels, delivered)
    words = LabelAudit(np.where(delivered, "1", "0"), random_state=0)
    first = words.ask()
    words.tell(first, int(delivered[first or 0]))
    assert words.certificate.wrong == 0
    flags = LabelAudit(delivered == 1, random_state=0)
    flags.tell(first, "true" if delivered[first or 0] else "false")
    assert flags.certificate.wrong == 0


def test_a_skip_in_a_file_of_numbers_spoils_no_other_answer(tmp_path: Path) -> None:
    labels = pd.Series(np.random.default_rng(0).integers(0, 2, 300), name="label")
    path = tmp_path / "audit.json"
    _, rows = continue_audit(labels, path, n=60)
    answers = pd.DataFrame({"row": rows, "label": labels[rows].astype(str).to_numpy()})
    answers.loc[3, "label"] = "skip"
    audit, _ = continue_audit(labels, path, answers)
    assert audit.certificate.wrong == 1
    assert audit.verdict != "too many wrong labels"


def test_an_audit_keeps_what_was_agreed(tmp_path: Path) -> None:
    labels = pd.Series(["a", "b"] * 50, name="label")
    continue_audit(labels, tmp_path / "audit.json", max_error=0.1)
    continue_audit(labels, tmp_path / "audit.json")
    with pytest.raises(InvalidInputError, match=r"begun with max_error 0\.1; it cannot"):
        continue_audit(labels, tmp_path / "audit.json", max_error=0.2)
    with pytest.raises(InvalidInputError, match=r"begun with confidence 0\.95"):
        continue_audit(labels, tmp_path / "audit.json", confidence=0.99)
