"""The store of batches: nothing half written, nothing damaged is used."""

from __future__ import annotations

import math
import sqlite3

import pytest

from counterplay.auditing.store import AuditStore
from counterplay.errors import StoreError


def test_records_come_back_with_exactly_their_numbers(tmp_path) -> None:
    numbers = [0.1, 1 / 3, math.inf, -0.0, 5e-324]
    with AuditStore(tmp_path / "a.sqlite") as store:
        store.add("k", "s", {2: [{"row": 1, "x": x} for x in numbers], 0: []})
    with AuditStore(tmp_path / "a.sqlite") as store:
        assert store.done("k", "s") == {0, 2}
        assert [record["x"] for record in store.records("k", "s")] == numbers
        assert store.records("other", "s") == []
        assert store.records("k", "s", 1) == []


@pytest.mark.parametrize("column", ["records", "stage", "key"])
def test_a_changed_line_is_never_used(tmp_path, column: str) -> None:
    path = tmp_path / "a.sqlite"
    with AuditStore(path) as store:
        store.add("k", "s", {0: [{"row": 1, "x": 0.25}]})
        store.note("k", "plan", {"s": 3})
    db = sqlite3.connect(path)
    value = '[{"row":1,"x":0.75}]' if column == "records" else "z"
    db.execute(f"UPDATE item SET {column} = ?", (value,))
    db.execute("UPDATE note SET value = '{\"s\": 4}'")
    db.commit()
    db.close()
    key, stage = ("z", "s") if column == "key" else ("k", "z" if column == "stage" else "s")
    before = path.read_bytes()
    with AuditStore(path) as store:
        with pytest.raises(StoreError, match="damaged"):
            store.records(key, stage)
        with pytest.raises(StoreError, match="damaged"):
            store.noted("k", "plan")
    assert path.read_bytes() == before


def test_other_files_are_refused(tmp_path) -> None:
    (tmp_path / "text.sqlite").write_text("no database " * 100)
    with pytest.raises(StoreError, match="store of audits"):
        AuditStore(tmp_path / "text.sqlite")
    db = sqlite3.connect(tmp_path / "other.sqlite")
    db.execute("CREATE TABLE x (y)")
    db.commit()
    db.close()
    with pytest.raises(StoreError, match="something else"):
        AuditStore(tmp_path / "other.sqlite")
