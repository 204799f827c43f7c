"""Where finished batches are kept: one SQLite file, one transaction per batch.

A killed run loses only what was being computed. Records are found by a key of everything they
depend on, so that other data, another model or other settings never meet them, and each carries a
digest of itself: a damaged one stops the run with a sentence, nothing is overwritten.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from counterplay.core.database import OwnedFile
from counterplay.errors import StoreError

FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS item (
    key     TEXT NOT NULL,     -- of everything the records depend on
    stage   TEXT NOT NULL,
    item    INTEGER NOT NULL,
    records TEXT NOT NULL,     -- JSON list of flat objects
    digest  TEXT NOT NULL,     -- of the columns above
    PRIMARY KEY (key, stage, item)
);
CREATE TABLE IF NOT EXISTS note (
    key     TEXT NOT NULL,
    name    TEXT NOT NULL,
    value   TEXT NOT NULL,     -- JSON
    digest  TEXT NOT NULL,
    PRIMARY KEY (key, name)
);
"""


class AuditStore(OwnedFile):
    """Records of finished batches and notes about plans; use it as a context manager.

    Parameters
    ----------
    path
        The SQLite file; None keeps everything in memory.

    Examples
    --------
    >>> with AuditStore(None) as store:
    ...     store.add("key", "moves", {3: [{"row": 7, "upper": 0.5}]})
    ...     store.done("key", "moves"), store.records("key", "moves")
    ({3}, [{'row': 7, 'upper': 0.5}])
    """

    owner = 0x61756469  # "audi"
    format = FORMAT
    schema = _SCHEMA
    kind = "a store of audits"
    cure = "name another folder with --out"
    durable = "NORMAL"

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        super().__init__(None if path is None else Path(path))

    def add(self, key: str, stage: str, found: Mapping[int, Sequence[Mapping[str, Any]]]) -> None:
        """Store the records of some items, all of them or none."""
        lines = []
        for item, records in found.items():
            text = json.dumps(list(records), separators=(",", ":"))
            lines.append((key, stage, item, text, digest(key, stage, item, text)))
        with self._explained("cannot be written"), self._transaction():
            self._db.executemany("INSERT OR REPLACE INTO item VALUES (?, ?, ?, ?, ?)", lines)

    def done(self, key: str, stage: str) -> set[int]:
        """Return the items whose records are stored."""
        with self._explained("cannot be read"):
            found = self._db.execute(
                "SELECT item FROM item WHERE key = ? AND stage = ?", (key, stage)
            ).fetchall()
        return {int(item) for (item,) in found}

    def records(self, key: str, stage: str, items: int | None = None) -> list[dict[str, Any]]:
        """Return the records of a stage in the order of its items, of the first items if told."""
        with self._explained("cannot be read"):
            found = self._db.execute(
                "SELECT item, records, digest FROM item WHERE key = ? AND stage = ? "
                "AND (?3 IS NULL OR item < ?3) ORDER BY item",
                (key, stage, items),
            ).fetchall()
        records: list[dict[str, Any]] = []
        for item, text, mark in found:
            if digest(key, stage, item, text) != mark:
                self._damaged(f"stage {stage}, item {item}")
            records += json.loads(text)
        return records

    def note(self, key: str, name: str, value: Any) -> None:
        """Store a plain value under a name."""
        text = json.dumps(value)
        with self._explained("cannot be written"):
            self._db.execute(
                "INSERT OR REPLACE INTO note VALUES (?, ?, ?, ?)",
                (key, name, text, digest(key, name, 0, text)),
            )

    def noted(self, key: str, name: str) -> Any:
        """Return the value under a name; None if there is none."""
        with self._explained("cannot be read"):
            row = self._db.execute(
                "SELECT value, digest FROM note WHERE key = ? AND name = ?", (key, name)
            ).fetchone()
        if row is None:
            return None
        if digest(key, name, 0, row[0]) != row[1]:
            self._damaged(f"note {name}")
        return json.loads(row[0])

    def _damaged(self, what: str) -> None:
        raise StoreError(
            f"{self.place} is damaged: {what} is not what was stored; move the file away, the same "
            "command computes everything again"
        )


def digest(*parts: Any) -> str:
    """Return the digest that a stored line must carry.

    Examples
    --------
    >>> digest("key", "moves", 0, "[]") == digest("key", "moves", 0, "[ ]")
    False
    """
    content = json.dumps(list(parts), ensure_ascii=True)
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
