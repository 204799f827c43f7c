"""An audit of delivered labels that goes on from call to call: its order and answers in a file."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from msgspec import Meta

from counterplay.core.files import read_limited, write_atomic
from counterplay.core.records import (
    LIMIT,
    Count,
    Digest,
    Record,
    read_record,
    require_state,
    write_record,
)
from counterplay.core.validation import check_int
from counterplay.errors import InvalidInputError
from counterplay.labeling.audit import LabelAudit
from counterplay.tables import fingerprint
from counterplay.tables.cells import shown

Label = str | int | float | bool


class SavedAudit(Record, frozen=True):
    """The labels' fingerprint, the secret seed, the rule, and what was said."""

    kind: Literal["LabelAudit"]
    version: Literal[1]
    labels: Digest
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    max_error: Annotated[float, Meta(gt=0.0, lt=1.0)]
    confidence: Annotated[float, Meta(gt=0.0, lt=1.0)]
    answers: Annotated[tuple[tuple[Count, Label], ...], Meta(max_length=10_000_000)]


def continue_audit(
    labels: pd.Series,
    path: Path,
    answers: pd.DataFrame | None = None,
    *,
    n: int = 20,
    max_error: float | None = None,
    confidence: float | None = None,
) -> tuple[LabelAudit, list[int]]:
    """Begin or continue an audit; return it and the rows to check next.

    Parameters
    ----------
    labels:
        The delivered labels.
    path:
        File that keeps the order and the answers; it must stay secret.
    answers:
        What was checked since: columns ``row`` and ``label``.
    n:
        Rows to check next, at most.
    max_error:
        Share of wrong labels that is tolerated: 0.05 unless it is given when the audit begins.
    confidence:
        One minus the probability of a false certificate: 0.95 unless it is given at the beginning.
    """
    what, mark = "the saved audit", fingerprint(labels.to_frame()).ordered
    if path.exists():
        text = read_limited(path, what=what, limit=LIMIT)
        saved = read_record(text, SavedAudit, what=what)
        require_state(saved.labels == mark, what, "labels", "the labels are not those of the audit")
        _refuse_other("max_error", max_error, saved.max_error)
        _refuse_other("confidence", confidence, saved.confidence)
    else:
        saved = SavedAudit(
            kind="LabelAudit", version=1, labels=mark, seed=secrets.randbits(63),
            max_error=0.05 if max_error is None else max_error,
            confidence=0.95 if confidence is None else confidence, answers=(),
        )  # fmt: skip
    audit = LabelAudit(
        labels, max_error=saved.max_error, confidence=saved.confidence, random_state=saved.seed
    )
    told: dict[int, Any] = dict(saved.answers)
    told.update(_read(answers, len(labels)) if answers is not None else {})
    while (item := audit.ask()) is not None and item in told:
        audit.tell(item, told.pop(item))
    if told and audit.ask() is not None:
        raise InvalidInputError(f"row {next(iter(told))} is not the next to check; nothing taken")
    kept = tuple((item, _plain(label)) for item, label in audit.events)
    record = SavedAudit(
        kind="LabelAudit", version=1, labels=mark, seed=saved.seed, max_error=saved.max_error,
        confidence=saved.confidence, answers=kept,
    )  # fmt: skip
    write_atomic(path, write_record(record))
    return audit, audit.ahead(check_int(n, "n", low=1))


def _refuse_other(name: str, given: float | None, agreed: float) -> None:
    if given is not None and given != agreed:
        raise InvalidInputError(
            f"the audit was begun with {name} {agreed:g}; it cannot go on with {given:g}"
        )


def _read(answers: pd.DataFrame, n: int) -> dict[int, Any]:
    for name in ("row", "label"):
        if name not in answers.columns:
            raise InvalidInputError(f"the answers have no column {name!r}")
    found = {}
    for row, label in zip(answers["row"], answers["label"]):
        whole = isinstance(row, int | np.integer) and 0 <= row < n
        if not whole or pd.isna(label):
            raise InvalidInputError(f"the answer for row {shown(row)} is no label of a row")
        found[int(row)] = label
    return found


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
