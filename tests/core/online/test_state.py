"""State to and from JSON: a restored learner continues exactly."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from counterplay.core.online import Doubling, Hedge, ScalarLearner, ShrinkingDartboard
from counterplay.core.online.state import pack, unpack
from counterplay.errors import InvalidInputError, InvalidStateError


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


HEAD = '{"kind": "stored object", "version": 2, '


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "it is not JSON"),
        ("[]", "expected a JSON object, got list"),
        ('{"__object__": "Hedge", "params": {}, "state": {}}', "pass what to_json returned"),
        ('{"kind": "stored object", "version": 1}', "it has format 1, this version reads"),
        (HEAD + '"__object__": "Hegde", "params": {}, "state": {}}', "did you mean 'Hedge'"),
        (HEAD + '"__object__": "Hedge", "params": {}, "state": {"x": 1}}', "no part named 'x'"),
        (
            HEAD + '"__object__": "Hedge", "params": {"speed": 1}, "state": {}}',
            "unexpected keyword",
        ),
        (HEAD + '"__object__": "Hedge"}', "expected the keys __object__, params, state"),
        (HEAD + '"__object__": "Hedge", "params": [], "state": {}}', "must be objects"),
        (HEAD + '"__object__": "Hedge", "params": {}, "state": {}, "x": 1}', "expected the keys"),
    ],
)
def test_foreign_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidStateError, match=message) as caught:
        Hedge.from_json(text)
    assert len(str(caught.value)) <= 300


WRONG: tuple[Any, ...] = ("false", None, -2, 10**6, 1.5, {}, [], [1], 1e300, {"__tuple__": [1]})


def test_every_part_of_another_kind_is_refused(make_learner: Any) -> None:
    learner = make_learner().reset(4, 120, 5)
    if "lambda" in repr(learner):
        return
    for row in np.random.default_rng(0).random((37, 4)):
        learner.act()
        learner.observe(row)
    text = learner.to_json()
    for name, value in json.loads(text)["state"].items():
        for wrong in WRONG:
            state = json.loads(text)
            state["state"][name] = wrong
            if type(wrong) is type(value) and wrong == value:
                continue
            if name in ("horizon", "rounds") and wrong in (None, 10**6):
                continue  # a learner that is not tuned for a horizon cannot tell
            with pytest.raises(InvalidStateError):
                type(learner).from_json(json.dumps(state))
        state = json.loads(text)
        del state["state"][name]
        with pytest.raises(InvalidStateError):
            type(learner).from_json(json.dumps(state))


def test_what_follows_from_other_parts_is_compared() -> None:
    learner = Hedge().reset(3, 100, 0)
    for row in np.random.default_rng(0).random((20, 3)):
        learner.act()
        learner.observe(row)
    for name, told in (("_weights", "must follow"), ("_cumulative", "must follow|does not fit")):
        state = json.loads(learner.to_json())
        state["state"][name]["__array__"][1] *= 1.5
        with pytest.raises(InvalidStateError, match=f"'{name}'.*{told}|_weights"):
            Hedge.from_json(json.dumps(state))
    state = json.loads(learner.to_json())
    state["state"]["_step"] *= 2
    with pytest.raises(InvalidStateError, match="'_step' of the stored Hedge must be"):
        Hedge.from_json(json.dumps(state))


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
