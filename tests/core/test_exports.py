"""Chains of events: what they fix, and how an export is read."""

from __future__ import annotations

import json

import pytest

from counterplay.core.exports import (
    START,
    EventChain,
    body_hash,
    config_hash,
    event_hash,
    plain_receipt,
    read_export,
    receipt,
    write_export,
)
from counterplay.errors import InvalidStateError


def chain(n: int = 3) -> EventChain:
    built = EventChain("person 1")
    for i in range(n):
        built.add("elicit.answered", {"answer": "first", "number": i}, actor="person 1")
    return built


def test_every_event_is_linked_to_the_one_before() -> None:
    events = chain().events
    previous = START
    for number, event in enumerate(events, start=1):
        assert event.seq == number
        assert event.salt is not None
        assert event.body is not None
        assert event.body_hash == body_hash(event.salt, event.body)
        linked = event_hash(previous, event.stream, event.seq, event.kind, event.body_hash)
        assert event.hash == linked
        previous = event.hash


def test_salts_hide_equal_bodies() -> None:
    built = EventChain("s")
    first = built.add("k", {"answer": "first"}, actor="a")
    second = built.add("k", {"answer": "first"}, actor="a")
    assert first.body_hash != second.body_hash


def test_fields_cannot_be_shifted_into_each_other() -> None:
    digest = "ab" * 32
    assert event_hash(START, "s1", 1, "k", digest) != event_hash(START, "s", 11, "k", digest)


def test_an_export_is_read_as_written() -> None:
    built = chain()
    text = write_export("cars", "elicitation", {"target": 0.01}, [built, EventChain("empty")])
    export = read_export(text.encode())
    assert list(export.events) == built.events
    assert export.study.heads == (built.head,)
    assert export.study.config_hash == config_hash({"target": 0.01})
    keys = " ".join(json.loads(text.splitlines()[1]))
    assert keys == "actor at body body_hash hash key kind salt seq stream"


def test_receipts_are_80_bits_without_look_alikes() -> None:
    code = receipt(chain().head.hash)
    assert len(code.replace("-", "")) == 16
    assert not set(code) & set("ILOU")
    assert plain_receipt(f" {code.lower()} ") == code.replace("-", "")
    assert receipt("00" * 9 + "01" + "ff" * 22) == "0000-0000-0000-0001"


def test_damage_is_named_by_its_line() -> None:
    lines = write_export("cars", "elicitation", {}, [chain()]).splitlines(keepends=True)
    with pytest.raises(InvalidStateError, match="line 3 cannot be used: seq: expected `int` >= 1"):
        read_export("".join([*lines[:2], lines[2].replace('"seq":2', '"seq":0')]).encode())
    with pytest.raises(InvalidStateError, match="line 4: the last line is not complete"):
        read_export("".join(lines).rstrip("\n").encode())
    with pytest.raises(InvalidStateError, match="line 1 cannot be used"):
        read_export("".join(lines[1:]).encode())
