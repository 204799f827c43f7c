"""Canonical bytes of rows: equal for equal rows, different for different ones."""

from __future__ import annotations

import hashlib
import struct
import unicodedata

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from counterplay.errors import InvalidInputError
from counterplay.tables import Schema, fingerprint, hash_blocks
from counterplay.tables.encoding import (
    blocks_of,
    encode_cell,
    encode_identity,
    encode_rows,
    row_digests,
)


def payloads(X: object, schema: Schema | None = None) -> list[bytes]:
    frozen = Schema.infer(X) if schema is None else schema
    return encode_rows(frozen.cast(X))


def test_cells_follow_the_format() -> None:
    assert encode_cell(5) == b"\x01" + struct.pack("<q", 8) + struct.pack("<d", 5.0)
    assert encode_cell("ä") == b"\x02" + struct.pack("<q", 2) + "ä".encode()
    assert encode_cell(None) == b"\x00" + struct.pack("<q", 0)
    stamp = np.datetime64("1970-01-01T00:00:01", "ns")
    assert encode_cell(stamp) == b"\x06" + struct.pack("<qq", 8, 10**9)
    assert encode_identity(7) == b"\x07" + struct.pack("<q", 1) + b"7"


def test_equal_values_share_bytes() -> None:
    assert len({encode_cell(v) for v in (1, 1.0, True, np.int8(1), np.float32(1))}) == 1
    assert encode_cell(-0.0) == encode_cell(0)
    odd_nan = np.frombuffer(struct.pack("<Q", 0x7FF8000000000123), dtype=np.float64)[0]
    assert len({encode_cell(v) for v in (None, np.nan, odd_nan, pd.NA, pd.NaT)}) == 1
    assert encode_cell("e\u0301") == encode_cell("\u00e9")


cells = st.one_of(st.none(), st.text(max_size=3), st.floats(allow_nan=False), st.integers(-9, 9))


@given(st.lists(cells, max_size=4), st.lists(cells, max_size=4))
def test_different_lists_of_cells_never_share_bytes(a: list[object], b: list[object]) -> None:
    def plain(row: list[object]) -> list[object]:
        return [float(v) + 0.0 if isinstance(v, int | float) else v for v in row]

    def composed(row: list[object]) -> list[object]:
        return [unicodedata.normalize("NFC", v) if isinstance(v, str) else v for v in plain(row)]

    same = composed(a) == composed(b)
    together = b"".join(map(encode_cell, a)) == b"".join(map(encode_cell, b))
    assert together == same


def test_the_container_does_not_matter(people: pd.DataFrame) -> None:
    schema = Schema.infer(people)
    expected = payloads(people, schema)
    assert payloads(people[people.columns[::-1]], schema) == expected
    assert payloads(people.astype(object), schema) == expected
    assert payloads(people.astype({"children": "Int64", "income": "Float64"}), schema) == expected
    assert payloads(people.iloc[::-1], schema) == expected[::-1]


def test_dense_sparse_and_explicit_zeros_are_one() -> None:
    dense = np.array([[0.0, 2.0, -0.0], [np.nan, 0.0, 1.0]])
    expected = payloads(dense)
    explicit = sparse.csr_array(
        (np.array([0.0, 2.0, np.nan, 1.0]), ([0, 0, 1, 1], [0, 1, 0, 2])), shape=(2, 3)
    )
    assert payloads(explicit) == expected
    assert payloads(sparse.csc_array(dense)) == expected
    twice = sparse.coo_array(
        (np.array([1.0, 1.0, np.nan, 1.0]), ([0, 0, 1, 1], [1, 1, 0, 2])), shape=(2, 3)
    )
    assert payloads(twice) == expected
    assert payloads(np.asfortranarray(dense)) == expected


def test_digests_are_keyed_and_separate_domains() -> None:
    first = hashlib.blake2b(b"rowabc", key=b"k", digest_size=16, person=b"counterplay-21").digest()
    assert row_digests([b"abc"], key=b"k").tobytes() == first
    assert row_digests([b"abc"], key="k").tobytes() == first
    others = {row_digests([b"abc"], key=b"k", domain=d).tobytes() for d in ("row", "id", "source")}
    assert len(others) == 3
    assert row_digests([b"abc"]).tobytes() != first


@given(st.binary(min_size=16, max_size=16), st.integers(1, 2**31 - 1))
def test_the_block_is_the_number_modulo_the_blocks(digest: bytes, n: int) -> None:
    array = np.frombuffer(digest, dtype=np.uint8).reshape(1, 16)
    assert blocks_of(array, n)[0] == int.from_bytes(digest, "little") % n


@pytest.mark.parametrize("key", [b"", b"x" * 65, 5, "x" * 65])
def test_a_bad_key_is_refused_without_showing_it(key: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        row_digests([b"a"], key=key)  # type: ignore[arg-type]
    assert "xxx" not in str(caught.value)


def test_identities_are_never_rounded() -> None:
    ids = [2**60 + j for j in range(1000)]
    assert len({encode_identity(i) for i in ids}) == 1000
    assert encode_identity(4.0) == encode_identity(4) != encode_identity("4")
    with pytest.raises(InvalidInputError, match="beyond 2\\^53 were read as floats"):
        encode_identity(float(2**60))
    for bad in (1.5, None, float("nan"), [1], True):
        with pytest.raises(InvalidInputError):
            encode_identity(bad)


def test_blocks_depend_on_the_row_alone(people: pd.DataFrame) -> None:
    schema = Schema.infer(people)
    blocks = hash_blocks(people, 7, schema=schema).block
    for i in range(len(people)):
        assert hash_blocks(people.iloc[[i]], 7, schema=schema).block[0] == blocks[i]


def test_fingerprints_name_the_first_difference(people: pd.DataFrame) -> None:
    mark = fingerprint(people)
    assert mark == fingerprint(people[people.columns[::-1]])
    assert mark.difference(mark) is None
    assert mark.difference(fingerprint(people.iloc[:3])) == "it has 4 rows, here are 3"
    renamed = people.rename(columns={"city": "town"})
    assert "columns differ: 'city'" in str(mark.difference(fingerprint(renamed)))
    assert "another order" in str(mark.difference(fingerprint(people.iloc[[1, 0, 2, 3]])))
    changed = people.assign(children=[0, 2, 1, 4])
    assert mark.difference(fingerprint(changed)) == "at least one row differs"
