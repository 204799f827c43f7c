"""Packing is exact and reversible, for every length around the word size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplay.core import bits
from counterplay.errors import InvalidInputError


@pytest.mark.parametrize("length", [0, 1, 7, 8, 63, 64, 65, 130])
def test_pack_unpack_and_popcount(length: int) -> None:
    rows = np.random.default_rng(length).integers(2, size=(5, length)).astype(bool)
    words = bits.pack_rows(rows)
    assert words.shape == (5, (length + 63) // 64)
    assert words.dtype == np.uint64
    np.testing.assert_array_equal(bits.unpack_rows(words, length), rows)
    np.testing.assert_array_equal(bits.popcount(words), rows.sum(1))
    np.testing.assert_array_equal(bits.transpose_words(words, length), bits.pack_rows(rows.T))
    np.testing.assert_array_equal(bits.pack_columns(rows), bits.pack_rows(rows.T))
    np.testing.assert_array_equal(bits.pack_columns(rows.T), words)
    assert bits.words_to_int(words[0]) == bits.mask_to_int(rows[0])
    np.testing.assert_array_equal(bits.int_to_words(bits.mask_to_int(rows[1]), length), words[1])


def test_popcount_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    words = np.random.default_rng(0).integers(2**63, size=(4, 3)).astype(np.uint64)
    expected = bits.popcount(words)
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    np.testing.assert_array_equal(bits.popcount(words), expected)


@given(st.lists(st.booleans(), max_size=200))
def test_int_sets(mask: list[bool]) -> None:
    value = bits.mask_to_int(mask)
    assert value == sum(1 << i for i, bit in enumerate(mask) if bit)
    assert bits.int_to_mask(value, len(mask)).tolist() == mask


@given(st.integers(0, 3), st.lists(st.integers(0, 2), max_size=30))
def test_unique_rows_matches_a_dictionary(width: int, values: list[int]) -> None:
    rows = np.array([[v] * width for v in values], dtype=np.uint64).reshape(len(values), width)
    first, inverse, counts = bits.unique_rows(rows)
    seen: dict[tuple[int, ...], int] = {}
    expected = [seen.setdefault(tuple(row), len(seen)) for row in rows.tolist()]
    assert inverse.tolist() == expected
    assert first.tolist() == [expected.index(k) for k in range(len(seen))]
    assert counts.tolist() == [expected.count(k) for k in range(len(seen))]


def test_as_indices_names_what_is_wrong() -> None:
    assert bits.as_indices([True, False, True], 3, "points").tolist() == [0, 2]
    assert bits.as_indices(slice(1, None), 3, "points").tolist() == [1, 2]
    assert bits.as_indices(2, 3, "points").tolist() == [2]
    assert bits.as_indices([], 3, "points").tolist() == []
    for bad in ([3], [-1], [0.5], [[0]], [True]):
        with pytest.raises(InvalidInputError, match="points"):
            bits.as_indices(bad, 3, "points")
