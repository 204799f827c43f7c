"""Audits of delivered labels."""

from __future__ import annotations

from pathlib import Path

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
