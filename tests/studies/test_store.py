from __future__ import annotations

import dataclasses
import math
import sqlite3
import struct
from pathlib import Path

import numpy as np
import pytest

from counterplay.errors import StoreError
from counterplay.studies.plan import Cell, plan_cells
from counterplay.studies.provenance import Provenance
from counterplay.studies.store import Store, StoredCell

ORIGIN = Provenance("0.1.0", "abc", "Python")


@pytest.fixture
def cells(sample) -> list[Cell]:
    return plan_cells(sample["walk"], "quick", 0)


def test_what_is_added_is_found_exactly(tmp_path: Path, cells: list[Cell]):
    record = {"x": 0.1 + 0.2, "nan": math.nan, "inf": math.inf, "n": 2**80, "s": "ü", "none": None}
    with Store(tmp_path / "new" / "s.sqlite") as store:
        store.add(cells[3], record, 1.5, ORIGIN)
    with Store(tmp_path / "new" / "s.sqlite", create=False) as store:
        known = store.lookup(cells)
    assert [cell.key for cell in known.missing] == [
        cell.key for i, cell in enumerate(cells) if i != 3
    ]
    (row,) = known.found.values()
    back = row.values()
    assert struct.pack(">d", back.pop("nan")) == struct.pack(">d", record.pop("nan"))
    assert back == record
    assert (row.seed, row.wall_time, row.provenance) == (cells[3].seed, 1.5, ORIGIN)


def test_it_writes_ahead(tmp_path: Path):
    with Store(tmp_path / "s.sqlite"):
        database = sqlite3.connect(tmp_path / "s.sqlite")
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        database.close()


@pytest.mark.parametrize("change", [{"fingerprint": "0" * 16}, {"version": 2}, {"seed": 1}])
def test_cells_of_other_code_are_stale_not_found(tmp_path: Path, cells: list[Cell], change):
    with Store(tmp_path / "s.sqlite") as store:
        store.add(dataclasses.replace(cells[0], **change), {"y": 1}, 0.1, ORIGIN)
        known = store.lookup(cells)
    assert not known.found
    assert [row.params for row in known.stale] == [cells[0].key]
    assert len(known.missing) == len(cells) - 1


def test_discard_forgets_the_cells_and_what_is_stale(tmp_path: Path, cells: list[Cell]):
    elsewhere = dataclasses.replace(cells[0], key='{"other":1}')
    old = dataclasses.replace(cells[0], key='{"old":1}', fingerprint="0" * 16)
    other_study = dataclasses.replace(cells[0], study="sample/other", fingerprint="1" * 16)
    other_seed = dataclasses.replace(cells[0], base_seed=5)
    with Store(tmp_path / "s.sqlite") as store:
        for cell in (cells[0], cells[1], elsewhere, old, other_study, other_seed):
            store.add(cell, {}, 0.0, ORIGIN)
        assert store.discard(cells) == 3
        left = {(row.study, row.params, row.base_seed) for row in store.rows()}
    assert left == {
        ("sample/walk", '{"other":1}', 0),
        ("sample/other", cells[0].key, 0),
        ("sample/walk", cells[0].key, 5),
    }


def test_missing_file_is_said_so(tmp_path: Path):
    with pytest.raises(StoreError, match=r"there is no study store at .*none\.sqlite; run"):
        Store(tmp_path / "none.sqlite", create=False)
    assert not (tmp_path / "none.sqlite").exists()


def test_other_files_are_left_alone(tmp_path: Path):
    text = tmp_path / "notes.txt"
    text.write_text("not a database, and long enough to be looked at " * 40)
    with pytest.raises(StoreError, match=r"notes\.txt is not a study store"):
        Store(text)
    other = tmp_path / "other.sqlite"
    database = sqlite3.connect(other)
    database.execute("CREATE TABLE mine (x)")
    database.close()
    before = other.read_bytes()
    with pytest.raises(StoreError, match="a database of something else"):
        Store(other)
    assert other.read_bytes() == before
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(tmp_path / "notes.txt" / "s.sqlite")


def test_format_of_a_later_version_is_refused(tmp_path: Path):
    Store(tmp_path / "s.sqlite").close()
    database = sqlite3.connect(tmp_path / "s.sqlite")
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreError, match="store format 99"):
        Store(tmp_path / "s.sqlite")


def _flip(path: Path, rng: np.random.Generator) -> None:
    """Flip one bit of the stored record, through the database so that the file stays valid."""
    database = sqlite3.connect(path)
    database.text_factory = bytes
    number, record = database.execute("SELECT rowid, record FROM cell").fetchall()[0]
    position = int(rng.integers(8 * len(record)))
    broken = bytearray(record)
    broken[position // 8] ^= 1 << position % 8
    database.execute(
        "UPDATE cell SET record = CAST(? AS TEXT) WHERE rowid = ?", (bytes(broken), number)
    )
    database.commit()
    database.close()


def test_no_flipped_bit_of_a_record_is_read_as_a_number(tmp_path: Path, cells: list[Cell]):
    rng = np.random.default_rng(0)
    for trial in range(200):
        path = tmp_path / f"{trial}.sqlite"
        with Store(path) as store:
            store.add(cells[0], {"y": 0.5, "name": "walk", "n": 12}, 0.1, ORIGIN)
        _flip(path, rng)
        with Store(path) as store:
            with pytest.raises(StoreError, match=r"record of sample/walk, cell .* add --refresh"):
                store.lookup(cells)
            assert store.forget_damaged("sample/walk") == 1
            assert len(store.lookup(cells).missing) == len(cells)


@pytest.mark.parametrize("column", ["params", "seed", "fingerprint", "wall_time", "digest"])
def test_every_column_is_covered(tmp_path: Path, cells: list[Cell], column: str):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.add(cells[0], {"y": 0.5}, 0.1, ORIGIN)
    database = sqlite3.connect(path)
    database.execute(f"UPDATE cell SET {column} = 7")
    database.commit()
    database.close()
    with Store(path) as store, pytest.raises(StoreError, match="is damaged"):
        list(store.rows())


def _forge(path: Path, **columns: object) -> None:
    """Write a row by hand, with the digest that belongs to it."""
    database = sqlite3.connect(path)
    names = [field.name for field in dataclasses.fields(StoredCell)]
    quoted = [f'"{name}"' for name in names]
    old = database.execute(f"SELECT {', '.join(quoted)} FROM cell").fetchone()
    row = StoredCell(**(dict(zip(names, old)) | columns))
    marks = ", ".join("?" * (len(names) + 1))
    database.execute("DELETE FROM cell")
    database.execute(
        f"INSERT INTO cell ({', '.join(quoted)}, digest) VALUES ({marks})",
        (*(getattr(row, name) for name in names), row.digest()),
    )
    database.commit()
    database.close()


@pytest.mark.parametrize(
    "columns",
    [
        {"record": "not JSON"},
        {"record": "[1, 2]"},
        {"record": '{"y": NaN}'},
        {"record": '{"y": 1, "y": 2}'},
        {"record": '{"y": {"deep": 1}}'},
        {"record": '{"y": ["float", "zz"]}'},
        {"record": "[" * 100_000},
        {"record": '{"y": ' + "9" * 5000 + "}"},
        {"record": b"\xff\xfe"},
        {"record": 7},
        {"seed": "many"},
        {"wall_time": "long"},
        {"version": 2.5},
        {"params": "?"},
    ],
)
def test_records_that_are_not_ours_are_named(tmp_path: Path, cells: list[Cell], columns):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.add(cells[0], {"y": 0.5}, 0.1, ORIGIN)
    _forge(path, **columns)
    with Store(path) as store:
        with pytest.raises(
            StoreError, match=r"record of sample/walk, cell .* add --refresh"
        ) as told:
            list(store.rows())
        assert str(told.value).isascii()
        assert len(str(told.value)) < 300 + len(str(path))
        assert store.forget_damaged("sample/walk") == 1


def test_a_damaged_file_says_what_to_do(tmp_path: Path, cells: list[Cell]):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        for cell in cells:
            store.add(cell, {"y": "x" * 500}, 0.1, ORIGIN)
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    path.write_bytes(data)
    told = r"damaged.* move it away, the same command computes"
    with pytest.raises(StoreError, match=told), Store(path) as store:
        list(store.rows())
