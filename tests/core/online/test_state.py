"""State to and from JSON: a restored learner continues exactly."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from counterplay.core.online import Doubling, Hedge, ScalarLearner, ShrinkingDartboard
from counterplay.core.online.state import pack, unpack
from counterplay.errors import InvalidInputError


@pytest.mark.claim("09.32")
def test_restored_learner_continues_exactly(make_learner: Any) -> None:
    losses = np.random.default_rng(0).random((120, 4))
    original = make_learner().reset(4, 120, 5)
    if "lambda" in repr(original):
        with pytest.raises(InvalidInputError, match="cannot be stored"):
            original.to_json()
        return
    for row in losses[:37]:
        original.act()
        original.observe(row)
    original.act()
    restored = ScalarLearner.from_json(original.to_json())
    assert type(restored) is type(original)
    for row in losses[37:]:
        assert restored.act() == original.act()
        original.observe(row)
        restored.observe(row)
    assert restored.to_json() == original.to_json()


def test_shared_generators_stay_shared() -> None:
    learner = Doubling().reset(3, 100, 0)
    copy = Doubling.from_json(learner.to_json())
    assert copy._rng is copy.base._rng


def test_arrays_numbers_and_tuples_survive() -> None:
    value = {
        "a": np.arange(6, dtype=np.int32).reshape(2, 3),
        "b": (1, 2.5, None, "x", [True]),
        "c": np.float64(0.1),
        "rng": np.random.Generator(np.random.MT19937(3)),
    }
    back = unpack(json.loads(json.dumps(pack(value))))
    assert np.array_equal(back["a"], value["a"])
    assert back["a"].dtype == np.int32
    assert back["b"] == value["b"]
    assert back["c"] == 0.1
    assert back["rng"].random() == value["rng"].random()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "is not a stored Hedge"),
        ("[]", "holds a list"),
        ('{"__object__": "Hegde", "params": {}, "state": {}}', "did you mean 'Hedge'"),
        ('{"__object__": "Hedge", "params": {}, "state": {"x": 1}}', "no part named 'x'"),
        ('{"__object__": "Hedge", "params": {"speed": 1}, "state": {}}', "not a stored Hedge"),
        ('{"__object__": "Hedge"}', "not a stored Hedge"),
    ],
)
def test_foreign_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Hedge.from_json(text)


def test_state_of_another_class_and_unknown_generator_are_refused() -> None:
    text = ShrinkingDartboard().reset(2, 5, 0).to_json()
    with pytest.raises(InvalidInputError, match=r"use ShrinkingDartboard\.from_json"):
        Hedge.from_json(text)
    with pytest.raises(InvalidInputError, match="bit generator"):
        ShrinkingDartboard.from_json(text.replace("PCG64", "PCG65"))


def test_parameters_copy_and_text() -> None:
    learner = Doubling(ShrinkingDartboard(0.25))
    assert repr(learner) == "Doubling(base=ShrinkingDartboard(eta=0.25))"
    copy = learner.clone()
    assert copy.base is not learner.base
    assert repr(Hedge(loss_range=(0, 2))) == "Hedge(loss_range=(0, 2))"
