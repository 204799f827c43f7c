"""What is known about a table and a model before any section has run."""

from __future__ import annotations

import pandas as pd

from counterplay.auditing.config import Config
from counterplay.auditing.findings import Finding
from counterplay.auditing.guess import single_auc
from counterplay.auditing.models import AuditModel
from counterplay.auditing.outcome import Outcome
from counterplay.auditing.quantity import Quantity
from counterplay.auditing.record import ColumnRole, Subject
from counterplay.tables import fingerprint
from counterplay.tables.cells import listed
from counterplay.tables.table import column_kind

_LEAK = 0.99


def notes_of(
    left_out: int, outcome: Outcome, frame: pd.DataFrame, model: AuditModel, config: Config
) -> list[str]:
    """Return what was noticed while reading: rows and columns left out, holes."""
    notes = []
    if left_out:
        notes.append(f"{left_out:,} rows have no outcome and were left out.")
    named = {name for names in config.columns.named().values() for name in names}
    used = {outcome.label, *model.columns, *named, *config.movable}
    used |= {
        v for v in (config.costs.false_accept, config.costs.false_reject) if isinstance(v, str)
    }
    extra = [str(name) for name in frame.columns if name not in used]
    if extra:
        notes.append(f"Columns that the model does not use were left out: {listed(extra, 8)}.")
    holes = int(frame[list(model.columns)].isna().any(axis=1).sum())
    if holes:
        notes.append(
            f"{holes:,} rows have missing values; they are kept, the model deals with them itself."
        )
    return notes


def first_findings(
    frame: pd.DataFrame, outcome: Outcome, model: AuditModel, config: Config
) -> tuple[Finding, ...]:
    """Return what makes other numbers untrustworthy before any section has run."""
    found = []
    if not config.confirmed and any(g.startswith("positive:") for g in config.guesses):
        wanted = ", ".join(map(str, outcome.positive))
        found.append(
            Finding(
                name="wanted_not_confirmed",
                severity="blocking",
                sentence=f"Nobody has confirmed that {outcome.label} = {wanted} is what people "
                "want: the other way round every number changes its meaning.",
            )
        )
    for name in () if model.texts else model.columns:
        area = single_auc(frame[name], outcome.wanted)
        if area > _LEAK:
            found.append(
                Finding(
                    name="leak",
                    severity="blocking",
                    sentence=f"{name} alone gives the outcome: is it known before the decision?",
                    quantity=Quantity.certain(area, unit="AUC", n=len(frame)),
                )
            )
    return tuple(found[:20])


def subject_of(name: str, outcome: Outcome, model: AuditModel) -> Subject:
    """Return what the page calls table and model."""
    good = int(outcome.wanted.sum())
    return Subject(
        model=model.name,
        table=name,
        label=outcome.label[:400],
        wanted=", ".join(str(value)[:200] for value in outcome.positive[:20]),
        n=len(outcome.wanted),
        good=good,
        bad=len(outcome.wanted) - good,
        given=model.kind != "default",
    )


def roles_of(
    frame: pd.DataFrame, outcome: Outcome, model: AuditModel, config: Config
) -> tuple[ColumnRole, ...]:
    """Return every column with its role."""
    roles = {name: key for key, names in config.columns.named().items() for name in names}
    roles |= dict.fromkeys(config.movable, "movable") | {outcome.label: "outcome"}
    found = []
    for name in list(frame.columns)[:9_000]:
        role = roles.get(name, "fixed" if name in model.columns else "not used")
        missing = int(frame[name].isna().sum())
        kind = column_kind(frame[name])
        found.append(ColumnRole(name=str(name)[:400], role=role, kind=kind, missing=missing))
    return tuple(found)


def prints_of(
    frame: pd.DataFrame,
    outcome: Outcome,
    model: AuditModel,
    training: tuple[pd.DataFrame, Outcome] | None,
) -> dict[str, str]:
    """Return the fingerprints of the model and of the rows."""

    def of(rows: pd.DataFrame) -> str:
        return fingerprint(rows[[*model.columns, outcome.label]]).ordered

    prints = {"model": model.digest, "table": of(frame)}
    return prints | ({} if training is None else {"training rows": of(training[0])})
