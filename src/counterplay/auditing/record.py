"""``audit.json``: everything the page shows, as typed records, so that it can be shown again.

The file may come back edited or from somebody else: it is read into these records, which have types
and limits, and the page escapes every text of them. Times and the environment stand beside the
content and are not part of its hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from counterplay.auditing.findings import (
    Action,
    Chart,
    Figure,
    Finding,
    Grid,
    RowValues,
    SectionResult,
)
from counterplay.auditing.gates import Evidence, Gate
from counterplay.auditing.quantity import Quantity, Text, Texts
from counterplay.core.records import (
    Count,
    Nonnegative,
    PackedArray,
    Record,
    canonical,
    float_array,
    index_array,
    pack_array,
    read_record,
    to_record,
)

LARGEST_RECORD = 2**27
Many = Meta(max_length=10_000)
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Quantities = Annotated[dict[Text, Quantity], Many]


class FigureRecord(Record, frozen=True):
    """A figure as data."""

    title: Text
    alt: Text
    chart: Chart | None = None
    table: Grid | None = None


class SectionRecord(Record, frozen=True):
    """A section of the page."""

    name: Text
    title: Text
    lead: Texts = ()
    findings: Annotated[tuple[Finding, ...], Many] = ()
    tables: Annotated[tuple[Grid, ...], Many] = ()
    figures: Annotated[tuple[FigureRecord, ...], Many] = ()
    quantities: Quantities = msgspec.field(default_factory=dict)
    plain: Quantities = msgspec.field(default_factory=dict)
    assumptions: Texts = ()


class AbsentSection(Record, frozen=True):
    """A section that did not run, and why; failed if it raised."""

    name: Text
    title: Text
    reason: Text
    key: Text = ""
    failed: bool = False


class VariantRecord(Record, frozen=True):
    """A model to deploy instead, and the file it was written to."""

    name: Text
    sentence: Text
    accepted: Count
    action: Text = ""
    file: Text = ""
    checked: bool = False


class ColumnRole(Record, frozen=True):
    """A column of the table."""

    name: Text
    role: Text
    kind: Text
    missing: Count = 0


class Subject(Record, frozen=True):
    """What was audited."""

    model: Text
    table: Text
    label: Text
    wanted: Text
    n: Count
    good: Count
    bad: Count
    given: bool = True


class StageTime(Record, frozen=True):
    """What a stage was planned to do and did."""

    section: Text
    stage: Text
    planned: Count
    done: Count
    wanted: Count
    planned_s: Nonnegative = 0.0
    used_s: Nonnegative = 0.0
    note: Text = ""


class StoredRows(Record, frozen=True):
    """The rows behind a quantity, packed."""

    rows: PackedArray
    values: PackedArray
    scale: float


class Making(Record, frozen=True):
    """How the page was made: the environment, which is not part of the content."""

    command: Text = ""
    library: Text = ""
    versions: Annotated[dict[Text, Text], Many] = msgspec.field(default_factory=dict)
    budget_s: Nonnegative = 0.0
    used_s: Nonnegative = 0.0
    stages: Annotated[tuple[StageTime, ...], Many] = ()
    notes: Texts = ()
    columns: Annotated[tuple[ColumnRole, ...], Many] = ()
    interrupted: bool = False


class AuditRecord(Record, frozen=True):
    """An audit on disk."""

    kind: Literal["counterplay audit"]
    version: Literal[1]
    subject: Subject
    unit: Text
    seed: Count
    confirmed: bool
    config: Annotated[str, Meta(max_length=1 << 21)]
    prints: Annotated[dict[Text, Text], Many]
    guesses: Texts = ()
    findings: Annotated[tuple[Finding, ...], Many] = ()
    sections: Annotated[tuple[SectionRecord, ...], Meta(max_length=100)] = ()
    absent: Annotated[tuple[AbsentSection, ...], Meta(max_length=100)] = ()
    actions: Annotated[tuple[Action, ...], Many] = ()
    gates: Annotated[tuple[Gate, ...], Many] = ()
    variants: Annotated[tuple[VariantRecord, ...], Meta(max_length=20)] = ()
    plan: Annotated[dict[Text, Count], Many] = msgspec.field(default_factory=dict)
    rows: Annotated[dict[Text, StoredRows], Many] = msgspec.field(default_factory=dict)
    making: Making = Making()
    content_sha256: Hash | Literal[""] = ""

    def lacks(self, section: AbsentSection) -> str:
        """Why a section or a stage is absent, with the seconds it needs where time was short."""
        notes = {
            name: stage.note
            for stage in reversed(self.making.stages)
            for name in (stage.section, f"{stage.section}.{stage.stage}")
        }
        note = notes.get(section.name, "") if section.key == "--time" else ""
        return f"{section.reason.removesuffix('.')}: {note}." if note else section.reason

    @property
    def remaining(self) -> Quantity | None:
        """What decisions still cost after the advised cuts."""
        found = (section.quantities.get("remaining_money") for section in self.sections)
        return next((quantity for quantity in found if quantity is not None), None)


def section_record(result: SectionResult) -> SectionRecord:
    """Return what a section said as plain data; whatever is not plain data is refused."""
    raw = {
        "name": result.name,
        "title": result.title,
        "lead": list(result.lead),
        "findings": result.findings,
        "tables": result.tables,
        "figures": [_figure(figure) for figure in result.figures],
        "quantities": dict(result.quantities),
        "plain": dict(result.plain),
        "assumptions": list(result.assumptions),
    }
    what = f"the result of the section {str(result.name)[:60]}"
    return to_record(msgspec.to_builtins(raw), SectionRecord, what=what)


def _figure(figure: Figure) -> dict[str, Any]:
    return {"title": figure.title, "alt": figure.alt, "chart": figure.chart, "table": figure.table}


def stored_rows(values: RowValues) -> StoredRows:
    """Pack the rows behind a quantity."""
    return StoredRows(
        rows=pack_array(np.asarray(values.rows, dtype=np.int64)),
        values=pack_array(np.asarray(values.values, dtype=np.float64)),
        scale=float(values.scale),
    )


def with_hash(record: AuditRecord) -> AuditRecord:
    """Return the record with the hash of its content."""
    return msgspec.structs.replace(record, content_sha256=content_hash(record))


def content_hash(record: AuditRecord) -> str:
    """Return SHA-256 of the content: everything but times, versions and the hash itself."""
    raw = msgspec.to_builtins(record)
    for name in ("making", "content_sha256"):
        raw.pop(name, None)
    for variant in raw["variants"]:  # where a file lies is not content
        variant.pop("file", None)
        variant.pop("checked", None)
    return hashlib.sha256(canonical(raw)).hexdigest()


def write_audit(record: AuditRecord) -> str:
    """Return the text of ``audit.json``."""
    return canonical(msgspec.to_builtins(record)).decode() + "\n"


def read_audit(text: str | bytes, *, what: str) -> AuditRecord:
    """Read ``audit.json``: typed, limited, and nothing in it is believed."""
    return read_record(text, AuditRecord, what=what, limit=LARGEST_RECORD)


def evidence_of(record: AuditRecord, *, what: str) -> Evidence:
    """Return what gates need from a stored audit; arrays are checked here."""
    quantities: dict[str, Quantity] = {}
    plain: dict[str, Quantity] = {}
    for section in record.sections:
        quantities.update(section.quantities)
        plain.update(section.plain)
    return Evidence(quantities, plain, _unpacked(record.rows, record.subject.n, what), {})


def _unpacked(stored: Mapping[str, StoredRows], n: int, what: str) -> dict[str, RowValues]:
    found = {}
    for key, item in stored.items():
        values = float_array(item.values, f"rows.{key}", what=what, shape=(None,))
        rows = index_array(
            item.rows, f"rows.{key}", what=what, shape=(len(values),), size=max(n, 1)
        )
        found[key] = RowValues(rows=rows, values=values, scale=item.scale)
    return found
