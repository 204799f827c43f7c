"""Text from outside becomes a checked record or one sentence, never another exception."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import pytest
from msgspec import Meta

from counterplay.core.records import (
    LONGEST,
    Count,
    Fraction,
    Record,
    check_fingerprint,
    fingerprint,
    float_array,
    index_array,
    pack_array,
    pack_generator,
    read_generator,
    read_json,
    read_record,
    write_record,
)
from counterplay.errors import InvalidInputError, InvalidStateError


class Said(Record, frozen=True):
    label: Annotated[int, Meta(ge=0, le=5)]
    weight: Fraction = 1.0


class Log(Record, frozen=True):
    kind: Literal["log"]
    version: Literal[2]
    answers: Annotated[tuple[Said, ...], Meta(max_length=3)]
    seed: Count = 0


GOOD = '{"kind":"log","version":2,"answers":[{"label":1},{"label":5,"weight":0.5}],"seed":7}'


def refused(text: str | bytes, **options: Any) -> str:
    with pytest.raises(InvalidStateError) as caught:
        read_record(text, Log, what="the log", **options)
    told = str(caught.value)
    assert len(told) <= LONGEST
    assert told.startswith("the log cannot be used: ")
    return told.removeprefix("the log cannot be used: ")


def test_a_good_text_and_back() -> None:
    log = read_record(GOOD, Log, what="the log")
    assert [said.label for said in log.answers] == [1, 5]
    assert read_record(write_record(log), Log, what="the log") == log
    assert read_record(GOOD.encode(), Log, what="the log") == log
    with pytest.raises(AttributeError):
        log.seed = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"label":5', '"label":6', "answers[1].label: expected `int` <= 5"),
        ('"label":5', '"label":"5"', "answers[1].label: expected `int`, got `str`"),
        ('"label":5', '"label":true', "answers[1].label: expected `int`, got `bool`"),
        ('"label":5', '"label":5.0', "answers[1].label: expected `int`, got `float`"),
        ('"label":5,', "", "answers[1]: object missing required field `label`"),
        ('"seed"', '"sead"', "object contains unknown field `sead`"),
        ('"seed":7', '"seed":-7', "seed: expected `int` >= 0"),
        ('"seed":7', '"seed":7,"seed":8', "the key 'seed' occurs twice"),
        ("0.5", "NaN", "it contains NaN, which is no number"),
        ("0.5", "-Infinity", "it contains -Infinity, which is no number"),
        ("0.5", "1e999", "the number 1e999 is too large"),
        ('"seed":7', '"seed":' + "9" * 20, "an integer has more than 19 digits: " + "9" * 20),
        ('"seed":7', '"seed":' + "9" * 5000, "an integer has more than 19 digits: " + "9" * 30),
        ('"log"', '"diary"', "kind: expected 'log', got 'diary'"),
        ('"version":2', '"version":1', "version: it has format 1, this version reads format 2"),
        ('"version":2', '"version":true', "version: it has format True, this version reads"),
        ('{"label":1},', '{"label":1},' * 3, "answers: expected `array` of length <= 3"),
        ('"seed":7', '"seed":"\\ud800"', "a text in it is half of a character pair"),
        ("}", "", "it is not JSON ("),
    ],
)
def test_what_is_wrong_is_said_with_its_place(old: str, new: str, told: str) -> None:
    assert refused(GOOD.replace(old, new)).startswith(told)


def test_size_is_checked_before_anything_is_parsed() -> None:
    assert refused('"' + "x" * 200, limit=100) == "it is larger than 100 bytes"
    assert refused("ü" * 60, limit=100) == "it is larger than 100 bytes"
    assert refused("\ufeff" + GOOD).startswith("it is not JSON")
    assert refused(b"{\x00}\x00").startswith("it is not JSON")
    assert refused(b"\xff\xfe") == "it is not valid UTF-8"
    assert refused("\ud800") == "it is not valid UTF-8"
    assert refused(7) == "it must be text, got int"  # type: ignore[arg-type]
    assert refused("[]") == "expected a JSON object, got list"


def test_nesting_is_counted_outside_strings_only() -> None:
    assert refused("[" * 100_000).startswith("it is nested 100000 deep")
    assert refused('{"a":' * 100_000).startswith("it is nested 100000 deep")
    brackets = '"' + "[" * 1000 + '\\"' + "{" * 1000 + '"'
    assert read_json(brackets, what="it") == "[" * 1000 + '"' + "{" * 1000
    refused('\\"' * 300_000 + "[")  # no quadratic search for the end of a string


def test_long_names_do_not_make_long_messages() -> None:
    refused(GOOD.replace('"seed"', '"' + "s" * 100_000 + '"'))
    refused(GOOD.replace('"log"', '"' + "s" * 100_000 + '"'))


def test_writing_refuses_what_json_cannot_say() -> None:
    with pytest.raises(InvalidInputError, match="cannot be written"):
        write_record(Said(label=1, weight=float("nan")))


def test_fingerprints_differ_where_values_differ() -> None:
    values: list[Any] = [
        None, 1, "1", 1.0, 1.5, True, [], [1], [[1]], [1, 2], {"a": 1}, {"a": 2}, "x" * 40,
        np.zeros(2), np.zeros((1, 2)), np.zeros(2, dtype=int), np.array([0.0, -0.0]), ["ab", "c"],
        ["a", "bc"], np.array(["ab", "c"]),
    ]  # fmt: skip
    found = [fingerprint({"part": value, "again": [value]})["again"] for value in values]
    same = {"['ab', 'c']"}  # an array of text is the list of its words
    assert len(set(found)) == len(values) - len(same)
    assert fingerprint({"n": np.int64(3)}) == fingerprint({"n": np.int64(3)})


def test_the_first_difference_is_named() -> None:
    here = fingerprint({"points": 7, "owners": np.eye(2), "classes": ["a"]})
    check_fingerprint(dict(here), here, what="the state")
    for change, told in (
        ({"points": "8"}, "points was 8 and is 7 here"),
        ({"owners": "0" * 32}, "its owners differ"),
        ({"more": "1"}, "nothing here has a more"),
    ):
        with pytest.raises(InvalidStateError, match=told):
            check_fingerprint(here | change, here, what="the state")
    with pytest.raises(InvalidStateError, match="no owners"):
        check_fingerprint({"points": "7"}, here, what="the state")


def test_arrays_are_checked_before_use() -> None:
    def floats(values: Any, shape: tuple[int | None, ...] = (2,)) -> Any:
        return float_array(values, "x", what="the state", shape=shape, low=0.0, high=1.0)

    assert floats([0, 1]).dtype == np.float64
    assert floats(pack_array(np.array([0.25, 1.0]))).tolist() == [0.25, 1.0]
    assert floats([], (0, 3)).shape == (0, 3)
    for bad, told in (
        ([0.0, 1.5], r"x\[1\]: must be in \[0, 1\], got 1.5"),
        ([0.0, float("nan")], "must be finite"),
        ([0.0], "must have the shape 2"),
        ([[0.0, 1.0]], "must have the shape 2"),
        ([0.0, "1"], "must hold numbers"),
        ([0.0, None], "must hold numbers"),
        ([True, False], "must hold numbers"),
        ([[0.0], [0.0, 1.0]], "full table"),
        ([10**400, 0], "must hold numbers"),
        (pack_array(np.array([0, 1])), "must hold numbers"),
    ):
        with pytest.raises(InvalidStateError, match=told):
            floats(bad)
    with pytest.raises(InvalidStateError, match=r"i\[0\]: must be in \[0, 3\), got 1000000"):
        index_array([10**6, 1], "i", what="the state", shape=(2,), size=3)
    with pytest.raises(InvalidStateError, match="must hold integers"):
        index_array([0.0, 1.0], "i", what="the state", shape=(2,), size=3)


@pytest.mark.parametrize(
    "packed",
    [
        {"shape": (3,)},
        {"shape": (2**53, 2**53)},
        {"data": "AAAA"},
        {"data": "not base64!!"},
        {"data": "ü"},
    ],
)
def test_packed_arrays_with_a_wrong_shape_or_text(packed: dict[str, Any]) -> None:
    import msgspec

    array = msgspec.structs.replace(pack_array(np.zeros(2)), **packed)
    with pytest.raises(InvalidStateError, match="packed numbers"):
        float_array(array, "x", what="the state", shape=(2,))


@pytest.mark.parametrize("name", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_generators_come_back_exactly(name: str) -> None:
    rng = np.random.Generator(getattr(np.random, name)(5))
    rng.integers(0, 10, size=3, dtype=np.int32)
    twin = read_generator(pack_generator(rng), "rng", what="the state")
    assert rng.random(5).tolist() == twin.random(5).tolist()


@pytest.mark.parametrize(
    "change",
    [
        {"bit_generator": "Evil"},
        {"bit_generator": ["PCG64"]},
        {"has_uint32": "5"},
        {"has_uint32": 1},
        {"state": {"state": "1"}},
        {"state": {"state": "1", "inc": "2"}},
        {"state": {"state": "f" * 33, "inc": "1"}},
        {"state": {"state": "-1", "inc": "1"}},
        {"extra": "1"},
    ],
)
def test_generator_states_are_checked(change: dict[str, Any]) -> None:
    saved = pack_generator(np.random.default_rng(0)) | change
    with pytest.raises(InvalidStateError, match="rng"):
        read_generator(saved, "rng", what="the state")


def test_generator_positions_stay_inside_memory() -> None:
    saved = pack_generator(np.random.Generator(np.random.MT19937(0)))
    saved["state"]["pos"] = "fffff"
    with pytest.raises(InvalidStateError, match=r"rng\.state\.pos"):
        read_generator(saved, "rng", what="the state")
