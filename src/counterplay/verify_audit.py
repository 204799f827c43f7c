"""Check the log of an audit: what was handed in, and that the stated content is the stored one.

``content_sha256`` is the hash of the audit's record without the circumstances of its making; it is
recomputed from the record in the log, so the findings and gates in it are those that were stated
when the audit ended. Running the audit again on the same inputs must give the same hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from counterplay.core import export_bodies as lines
from counterplay.core.exports import Export
from counterplay.core.records import canonical
from counterplay.verify_checks import Check, agree, read_body

_CIRCUMSTANCES = ("making", "content_sha256")
_PLACES = ("file", "checked")


def audit_checks(export: Export) -> Iterable[Check]:
    """Check every request against the configuration, and every end against its record."""
    requested: lines.AuditRequested | None = None
    erased = False
    for event in export.events:
        if event.body is None and event.kind.startswith("audit."):
            erased = True
        elif event.kind == "audit.requested":
            requested = read_body(event, lines.AuditRequested)
            wrong = None
            if export.study.config.get("inputs") != requested.inputs:
                wrong = "they are not those of the configuration"
            names = ", ".join(sorted(requested.inputs))
            yield agree("inputs", wrong, f"{names:.100}, as in the configuration")
        elif event.kind == "audit.finished":
            if erased:
                yield Check("content", "erased", "what it rests on was erased")
            elif requested is None:
                yield Check("content", "failed", "the audit ended before it was requested")
            else:
                yield from _ended(read_body(event, lines.AuditFinished))


def _ended(finished: lines.AuditFinished) -> Iterable[Check]:
    found = record_hash(finished.record)
    wrong = None if found == finished.content_sha256 else f"stated {finished.content_sha256[:16]}"
    yield agree("content", wrong and f"{wrong}, recomputed {found[:16]}", f"sha256 {found}")
    gates = finished.record.get("gates", [])
    same = list(finished.gates) == gates
    told = f"{len(finished.gates)} stated, as in the record"
    yield agree("gates", None if same else "they are not those of the record", told)


def record_hash(record: dict[str, Any]) -> str:
    """Return SHA-256 of an audit's content: everything but times, versions and places of files."""
    content = {name: value for name, value in record.items() if name not in _CIRCUMSTANCES}
    variants = content.get("variants")
    if isinstance(variants, list | tuple):
        content["variants"] = [
            {key: value for key, value in variant.items() if key not in _PLACES}
            if isinstance(variant, dict)
            else variant
            for variant in variants
        ]
    return hashlib.sha256(canonical(content)).hexdigest()
