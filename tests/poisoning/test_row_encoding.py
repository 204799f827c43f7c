"""The block of a row: a function of the row and the key, whatever the container does."""

from __future__ import annotations

import io
import itertools
import json
import os
import random
import struct
import subprocess
import sys
import unicodedata

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeClassifier

from counterplay.poisoning import PartitionClassifier, Schema
from counterplay.poisoning.model_rows import ModelRows
from counterplay.tables import hash_blocks
from counterplay.tables.encoding import encode_cell

KEY = b"the key of this test"
BLOCKS = 97


def people(n: int = 500) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "count": rng.integers(-5, 10**6, n),
            "ratio": rng.normal(size=n).astype(np.float32),
            "note": [f"café {i % 37} é" for i in range(n)],
            "since": pd.Timestamp("2020-02-29") + pd.to_timedelta(rng.integers(0, 10**6, n), "s"),
            "member": rng.random(n) < 0.3,
            "code": pd.Categorical(rng.integers(0, 9, n)),
        }
    )


def blocks(X, schema) -> list[int]:
    return hash_blocks(X, BLOCKS, schema=schema, key=KEY).block.tolist()


FRAME = people()
SCHEMA = Schema.infer(FRAME)
HOME = blocks(FRAME, SCHEMA)
NOTE = FRAME["note"].map(lambda text: unicodedata.normalize("NFD", text))
SAME = {
    "columns in another order": FRAME[FRAME.columns[::-1]],
    "nullable types": FRAME.convert_dtypes(),
    "arrow types": FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "objects": FRAME.astype(object),
    "a category for texts": FRAME.astype({"note": "category"}),
    "other lists of categories": FRAME.assign(
        code=FRAME["code"].cat.add_categories([77, 99]).cat.reorder_categories([99, *range(9), 77])
    ),
    "texts in NFD": FRAME.assign(note=NOTE),
    "times in seconds": FRAME.assign(since=FRAME["since"].astype("datetime64[s]")),
    "times with a zone": FRAME.assign(since=FRAME["since"].dt.tz_localize("UTC")),
    "another index": FRAME.set_axis([f"row {i}" for i in range(500)], axis=0),
}


@pytest.mark.claim("21.01")
@pytest.mark.parametrize("change", SAME)
def test_no_row_moves_when_the_container_changes(change: str) -> None:
    assert blocks(SAME[change], SCHEMA) == HOME


@pytest.mark.claim("21.01")
def test_no_row_moves_when_rows_come_or_are_shuffled() -> None:
    order = np.random.default_rng(1).permutation(500)
    assert blocks(FRAME.iloc[order], SCHEMA) == [HOME[i] for i in order]
    empty = pd.DataFrame([dict.fromkeys(FRAME.columns)])
    more = pd.concat([FRAME, empty], ignore_index=True)  # integers become floats, flags objects
    assert more["count"].dtype.kind in "fO"
    assert blocks(more, SCHEMA)[:500] == HOME


@pytest.mark.claim("21.01")
@pytest.mark.parametrize("column", ["ratio", "member", "since", "code"])
def test_one_odd_cell_in_a_csv_moves_no_other_row(column: str) -> None:
    """The reader returns the whole column as text; each cell is cast back alone."""
    clean = FRAME.astype({"ratio": np.float64})
    schema = Schema.infer(clean)
    home = blocks(clean, schema)
    text = clean.to_csv(index=False)
    odd = clean.iloc[:1].astype(object)
    odd[column] = "odd one out"
    read = pd.read_csv(io.StringIO(text + odd.to_csv(index=False, header=False)))
    assert not pd.api.types.is_numeric_dtype(read[column])
    cast = schema.cast(read)
    assert [item.row for item in cast.rejected] == [500]
    assert blocks(cast.frame(), schema) == home


@pytest.mark.claim("21.01")
def test_dense_sparse_and_odd_numbers_are_one() -> None:
    rng = np.random.default_rng(2)
    dense = rng.normal(size=(500, 6)) * (rng.random((500, 6)) < 0.4)
    dense[3, 2] = np.nan
    schema = Schema.infer(dense)
    home = blocks(dense, schema)
    explicit = sparse.csr_array(dense)
    explicit.data[5] = 0.0
    zeroed = dense.copy()
    zeroed[np.nonzero(dense)[0][5], np.nonzero(dense)[1][5]] = 0.0
    payload = dense.copy()
    payload[3, 2] = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000123))[0]
    signed = np.where(dense == 0, -0.0, dense)
    for other in (sparse.csr_array(dense), sparse.csc_array(dense), payload, signed,
                  np.asfortranarray(dense)):  # fmt: skip
        assert blocks(other, schema) == home
    assert blocks(explicit, schema) == blocks(zeroed, schema)


@pytest.mark.claim("21.01")
def test_models_get_equal_rows_for_equal_hashes() -> None:
    """No negative zero and no odd NaN reaches a block."""
    X = np.column_stack([np.full(40, -0.0), np.arange(40.0)])
    given = X.copy()
    guard = PartitionClassifier(DecisionTreeClassifier(), 3, check=False).fit(X, np.arange(40) % 2)
    rows = ModelRows(guard._parts, guard._dealer, None)
    for block in range(3):
        held = rows[block].rows.take()
        assert not np.signbit(held[held == 0]).any()
    assert np.array_equal(np.signbit(X), np.signbit(given))


@pytest.mark.claim("21.02")
def test_one_odd_row_of_eight_thousand_changes_no_kind() -> None:
    n = 8000
    frame = pd.concat([FRAME] * (n // 500), ignore_index=True)
    odd = frame.astype(object)
    odd.iloc[4321] = ["many", "half", 7, "soon", "perhaps", "x"]
    kinds = {c.name: (c.kind, c.values) for c in Schema.infer(frame).columns}
    found = Schema.infer(odd.assign(code=pd.Categorical(odd["code"])))
    assert {c.name: (c.kind, c.values) for c in found.columns} == kinds


KINDS = ("number", "flag", "time", "text", None)
CELL = {"number": 1.5, "flag": True, "time": pd.Timestamp("2020-01-01"), "text": "x", None: None}


def kind_of(counts: tuple[int, ...]) -> str:
    """The rule once more, from how many rows vote for what."""
    voters = sum(counts[:4])
    for kind, count in zip(KINDS[:3], counts):
        if 2 * count > voters:
            return str(kind)
    return "text" if voters else "number"


@pytest.mark.claim("21.02")
@pytest.mark.parametrize("seed", range(12))
def test_the_margin_equals_brute_force_on_nine_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    start = rng.multinomial(9, rng.dirichlet(np.ones(5) * 0.7))
    cells = [CELL[kind] for kind, count in zip(KINDS, start) for _ in range(count)]
    schema = Schema.infer(pd.DataFrame({"c": cells}, dtype=object))
    kind = kind_of(tuple(start))
    assert schema.columns[0].kind == kind
    splits = (c for c in itertools.product(range(10), repeat=5) if sum(c) == 9)
    fewest = min(
        int(np.maximum(np.array(c) - start, 0).sum()) for c in splits if kind_of(c) != kind
    )
    assert schema.margin == fewest


@pytest.mark.claim("21.02")
def test_no_two_lists_of_cells_share_bytes() -> None:
    rng = random.Random(0)
    pieces = ["", "a", "b", "ab", "abc", "c", "bc", "0", "1", 0, 1, -1, 0.5, None, b"", b"a",
              np.datetime64(0, "ns"), np.datetime64(1, "ns")]  # fmt: skip
    lists: set[tuple[object, ...]] = {("ab", "c"), ("a", "bc"), (None,), ("",), (0,), ("0",), ()}
    while len(lists) < 800:  # 319,600 pairs
        lists.add(tuple(rng.choice(pieces) for _ in range(rng.randrange(5))))
    assert len({b"".join(map(encode_cell, cells)) for cells in lists}) == 800


PROGRAM = """
import json, sys
import pandas as pd
from counterplay.tables import Schema, hash_blocks
frame = pd.DataFrame({"age": [39.0], "name": ["caf\\u00e9"], "city": [None]}, dtype=object)
columns = [{"name": "age", "kind": "number"}, {"name": "name", "kind": "text"},
           {"name": "city", "kind": "text"}]
schema = Schema.from_dict({"container": "table", "columns": columns})
found = [int(hash_blocks(frame, k, schema=schema, key=key).block[0])
         for k in (7, 1000, 9_999_991) for key in (None, "k" * 64, bytes(range(1, 20)))]
print(json.dumps(found))
"""
STORED = [3, 1, 2, 763, 570, 997, 1742532, 7303768, 216947]


@pytest.mark.claim("21.03")
def test_blocks_are_those_of_every_other_process() -> None:
    """Stored numbers: another version, machine or hash seed must give the same blocks."""
    for seed in ("0", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert json.loads(done.stdout) == STORED


def aimed(guard: PartitionClassifier, point: np.ndarray, wanted: list[int], k: int) -> np.ndarray:
    """Copies of a point, moved by less than anybody measures, that land in the wanted blocks."""
    found: dict[int, np.ndarray] = {}
    step = 0
    while len(found) < len(wanted):
        tries = np.repeat(point[None], 200, axis=0)
        tries[:, 0] *= 1 + 1e-12 * np.arange(step, step + 200)
        for row, block in zip(tries, hash_blocks(tries, k, schema=guard.schema_).block.tolist()):
            if block in wanted:
                found.setdefault(block, row)
        step += 200
    return np.array([found[block] for block in wanted])


@pytest.mark.claim("21.08")
def test_radii_are_tight_against_an_attacker_who_knows_the_key() -> None:
    """One row more than the radius flips every decision, as many as the radius flip none."""
    X, y = load_breast_cancer(return_X_y=True)
    train, test = np.arange(569) % 3 != 0, np.flatnonzero(np.arange(569) % 3 == 0)[:60]
    guard = PartitionClassifier(None, 25, classes=(0, 1), check=False).fit(X[train], y[train])
    votes, winner = guard.votes(X[test]), guard.predict(X[test])
    flips = {0: 0, 1: 0}
    for j, radius in enumerate(guard.certify(X[test]).tolist()):
        own = np.flatnonzero(votes[:, j] == winner[j]).tolist()
        point = X[test[j]]
        for more in (0, 1):
            chosen = own[: radius + more]
            if not chosen:
                continue
            poison = aimed(guard, point, chosen, 25)
            labels = np.full(len(poison), 1 - winner[j])
            guard.update(poison, labels)
            flips[more] += int(guard.predict(point[None])[0] != winner[j])
            guard.update(remove=(poison, labels))
    assert flips == {0: 0, 1: 60}
