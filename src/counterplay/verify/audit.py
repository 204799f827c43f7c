"""Check the log of an audit: what was handed in, and that the stated content is the stored one.

``content_sha256`` is the hash of the audit's record without the circumstances of its making; it is
recomputed from the record in the log, so the findings and gates in it are those that were stated
when the audit ended. Running the audit again on the same inputs must give the same hash.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable
from typing import Any

from counterplay.core import export_bodies as lines
from counterplay.core.exports import Export
from counterplay.core.records import canonical, require_state
from counterplay.verify.checks import Check, agree, read_body

_CIRCUMSTANCES = ("making", "content_sha256")
_PLACES = ("file", "checked")


def audit_checks(export: Export) -> Iterable[Check]:
    """Check every request against the configuration, and every end against its record."""
    requested: lines.AuditRequested | None = None
    erased = ended = False
    for event in export.events:
        if event.body is None and event.kind.startswith("audit."):
            erased = True
        elif event.kind == "audit.requested":
            require_state(requested is None, "the audit", "", "was requested twice")
            requested = read_body(event, lines.AuditRequested)
            wrong = _other_inputs(export.study.config, requested)
            names = ", ".join(sorted(requested.inputs))
            yield agree("inputs", wrong, f"{names:.100}, as in the configuration")
        elif event.kind == "audit.finished":
            require_state(not ended, "the audit", "", "ended twice")
            ended = True
            if erased:
                yield Check("content", "erased", "what it rests on was erased")
            elif requested is None:
                yield Check("content", "failed", "the audit ended before it was requested")
            else:
                yield from _ended(read_body(event, lines.AuditFinished))


def _other_inputs(config: dict[str, Any], requested: lines.AuditRequested) -> str | None:
    """What was handed in must be what the configuration holds, file by file."""
    if config.get("inputs") != requested.inputs:
        return "they are not those of the configuration"
    files = config.get("files")
    if not isinstance(files, dict):
        return None
    if set(files) != set(requested.inputs):
        return "the files of the configuration are others"
    for name, stated in requested.inputs.items():
        if hashlib.sha256(_content(files[name])).hexdigest() != stated:
            return f"the {name} in the configuration is another one"
    if _content(files.get("config")).decode("utf-8", "replace") != requested.config:
        return "the settings are not those of the configuration"
    return None


def _content(file: Any) -> bytes:
    """The bytes of a file as a configuration holds it: a text, or a model."""
    held = file if isinstance(file, dict) else {}
    try:
        if "base64" in held:
            return base64.b64decode(str(held["base64"]), validate=True)
    except binascii.Error:
        return b""
    return str(held.get("text", "")).encode("utf-8", "surrogatepass")


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
