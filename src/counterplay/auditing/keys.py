"""Keys of stored records: a digest of everything that the records of a section depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import counterplay
from counterplay.auditing.context import Context
from counterplay.auditing.section import Section
from counterplay.tables import fingerprint


def section_keys(context: Context, sections: Sequence[Section]) -> dict[str, str]:
    """Return a key per section of everything its records depend on."""
    whole = context.frame.assign(**{"(outcome)": context.labels.astype(object)})
    marks = [fingerprint(whole).ordered, list(map(str, context.table.names or ()))]
    if context.train is not None:
        table, labels = context.train
        marks += [fingerprint(table.rows).ordered, hashed([str(v) for v in labels.tolist()])]
    common = [
        counterplay.__version__, context.model_key, marks, str(context.positive), context.seed,
        context.rows, context.given, context.template is None,
    ]  # fmt: skip
    keys = {}
    for section in sections:
        mine = {name: context.settings.get(name) for name in section.reads}
        mine["files"] = [_file_digest(part) for part in mine.values()]
        keys[section.name] = hashed([section.name, section.version, mine, common])
    return keys


def _file_digest(part: Any) -> str:
    """Return a digest of the files that a table of the config names; empty if none."""
    if not isinstance(part, Mapping):
        return ""
    names = [part.get(key) for key in ("file", "before", "after")]
    found = [Path(name).read_bytes() for name in names if name and Path(name).is_file()]
    return hashlib.sha256(b"\0".join(found)).hexdigest() if found else ""


def hashed(value: Any) -> str:
    """Return a digest of plain values."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
