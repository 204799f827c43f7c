"""Bit flips in study stores: a changed number is never read as a result.

One bit of the file is flipped at a random place: in a record, a key, an index or the header of
SQLite. Reading may then say that the store is damaged (which study, which cell), or find less than
was there; whatever it does find must be exactly what was stored.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

from counterplay.studies.plan import Cell
from counterplay.studies.provenance import Provenance
from counterplay.studies.store import Store

from .tally import Tried, in_child, judged

ORIGIN = Provenance("0.1.0", "abc", "Python")
CELLS = [
    Cell("sample/walk", {"n": n}, f'{{"n":{n}}}', 0, 100 + n, 1, "0123456789abcdef")
    for n in range(20)
]
RECORDS = [{"y": 0.1 + n, "name": f"walk {n}", "count": 10**n, "none": None} for n in range(20)]


def run(n: int = 500, seed: int = 0) -> list[Tried]:
    """Flip ``n`` bits, one at a time, in a store with twenty cells."""
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder) / "original.sqlite"
        with Store(original) as store:
            for cell, record in zip(CELLS, RECORDS):
                store.add(cell, record, 0.5, ORIGIN)
        size = original.stat().st_size

        def one(number: int) -> Tried:
            rng = random.Random(f"{seed}/{number}")
            bit = rng.randrange(8 * size)
            path = Path(folder) / "flipped.sqlite"
            for old in Path(folder).glob("flipped.sqlite*"):
                old.unlink()
            shutil.copyfile(original, path)
            data = bytearray(path.read_bytes())
            data[bit // 8] ^= 1 << bit % 8
            path.write_bytes(data)
            row = judged("store", f"bit {bit}", lambda: _read(path), lambda _: None)
            return row if row.verdict != "accepted" else _compared(path, row)

        return in_child("store", n, one)


def _read(path: Path) -> dict[str, dict[str, object]]:
    with Store(path, create=False) as store:
        found = store.lookup(CELLS).found
        return {key: dict(row.values()) for key, row in found.items()}


def _compared(path: Path, row: Tried) -> Tried:
    """What was found must be what was stored."""
    stored = {cell.key: record for cell, record in zip(CELLS, RECORDS)}
    for key, values in _read(path).items():
        if values != stored[key]:
            return Tried(row.group, row.what, "changed", f"cell {key}: {values!r:.200}")
    return row
