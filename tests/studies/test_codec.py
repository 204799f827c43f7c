from __future__ import annotations

import json
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplay.errors import InvalidInputError
from counterplay.studies.codec import decode, encode, plain

values = st.none() | st.booleans() | st.integers() | st.text() | st.floats()
records = st.dictionaries(st.text(), values, max_size=8)


def bits(value: object) -> object:
    return (struct.pack(">d", value), float) if isinstance(value, float) else (value, type(value))


@given(records)
def test_every_value_comes_back_bit_for_bit(record: dict[str, bool | int | str | float | None]):
    text = encode(record)
    back = decode(text)
    assert {k: bits(v) for k, v in back.items()} == {k: bits(v) for k, v in record.items()}
    assert encode(back) == text
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def test_nan_payloads_and_negative_zero_survive():
    odd = struct.unpack(">d", bytes.fromhex("7ff800000000beef"))[0]
    back = decode(encode({"odd": odd, "zero": -0.0}))
    assert struct.pack(">d", back["odd"]).hex() == "7ff800000000beef"
    assert math.copysign(1, back["zero"]) == -1


def test_order_of_keys_does_not_matter():
    assert encode({"a": 1, "b": 2.0}) == encode({"b": 2.0, "a": 1})


def test_types_are_told_apart():
    assert len({encode({"x": x}) for x in (1, 1.0, True, "1")}) == 4


def test_numpy_scalars_become_python_ones():
    given_ = {"i": np.int64(3), "f": np.float32(0.1), "b": np.bool_(True), "s": np.str_("x")}
    flat = plain(given_, "the record")
    assert flat == {"i": 3, "f": float(np.float32(0.1)), "b": True, "s": "x"}
    assert [type(value) for value in flat.values()] == [int, float, bool, str]


@pytest.mark.parametrize("bad", [[1, 2], np.zeros(2), {"a": 1}, 1j, object()])
def test_anything_else_is_refused_by_name(bad: object):
    with pytest.raises(InvalidInputError, match=r"the record, key 'x': .* cannot be stored"):
        plain({"x": bad}, "the record")


def test_keys_must_be_strings():
    with pytest.raises(InvalidInputError, match="keys must be strings"):
        plain({1: 2}, "the record")
    with pytest.raises(InvalidInputError, match="must be a mapping, got list"):
        plain([1], "the record")
