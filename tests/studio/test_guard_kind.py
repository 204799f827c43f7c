"""The guard as a study: the library's own decisions, whatever arrives when; verify draws again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplay.core.exports import EventChain
from counterplay.errors import InvalidInputError, ProtocolError
from counterplay.studio.errors import Refused
from counterplay.studio.kinds.guard import KIND, outcome_problem
from counterplay.studio.kinds.guard_fold import new_guard
from counterplay.studio.kinds.guard_views import promise, served, state_of
from counterplay.tradeoff import ChampionChallenger
from counterplay.verify import verify
from studio.guards import Service, guard_config
from studio.kind_driver import Stream


def opened(**more: Any) -> Stream:
    """A guard that was opened."""
    stream = Stream(KIND, guard_config(**more))
    stream.add("study.opened", {})
    return stream


def run(stream: Stream, rounds: int, seed: int = 0) -> Service:
    """Let a service use the guard for some rounds; every decision is compared."""
    service = Service(stream.config, seed)
    for number in range(rounds):
        model, _ = stream.state.decisions[-1]
        assert model == service.now.model
        batch = service.outcomes()
        for outcome in batch:
            stream.add("guard.outcome", outcome, actor="service")
        service.hear(batch)
        if number < rounds - 1:
            stream.add("guard.ended", {"after": number}, actor="service")
            service.next_round()
    return service


@pytest.mark.claim("28.13")
def test_5000_rounds_are_the_librarys_and_replay_gives_them_again() -> None:
    stream = opened()
    run(stream, 5_000)
    again = stream.replayed()
    assert again.decisions == stream.state.decisions
    assert again.used == stream.state.used
    assert again.bound == stream.state.bound


@pytest.mark.claim("28.13")
@pytest.mark.parametrize(
    "more", [{}, {"policy": "adaptive"}, {"purse": None, "burst": 1.5}, {"missing": "worst"}]
)
def test_verify_draws_every_decision_again(more: dict[str, Any]) -> None:
    stream = opened(horizon=300, **more)
    run(stream, 220)
    stream.add("study.closed", {})
    found = verify(stream.export())
    assert found.holds, found.summary()
    assert any("draws follow from the seed" in check.detail for check in found.checks)
    event = next(e for e in stream.events if e.kind == "guard.outcome" and "primary" in e.body)
    told = {**event.body, "secondary": 1.0 - event.body["secondary"]}  # type: ignore[dict-item]
    chain = EventChain("study")
    for e in stream.events:
        body = told if e.seq == event.seq else e.body
        chain.add(e.kind, body or {}, actor=e.actor, key=e.key)
    stream.events = chain.events
    assert not verify(stream.export()).holds


def test_full_feedback_is_the_watchdog_and_is_recounted() -> None:
    stream = opened(mode="full", horizon=200, purse=None, max_delay=0)
    rng = np.random.default_rng(0)
    library = new_guard(stream.config)
    for number in range(120):
        model, _ = stream.state.decisions[-1]
        assert model == library.current
        losses = {m: [float(rng.random() < 0.3), float(rng.random() < 0.08)]
                  for m in stream.config["models"]}  # fmt: skip
        name = stream.config["models"][model]
        with pytest.raises(Refused, match="no outcome yet"):
            stream.add("guard.ended", {"after": number})
        stream.add("guard.outcome", {"id": str(number), "decision": number, "model": name,
                                     "all": losses})  # fmt: skip
        library.step([p for p, _ in losses.values()], [s for _, s in losses.values()])
        stream.add("guard.ended", {"after": number})
    assert promise(stream.state) == "full"
    stream.add("study.closed", {})
    assert verify(stream.export()).holds


def test_a_model_can_be_taken_down_by_hand_with_a_reason() -> None:
    stream = opened()
    run(stream, 40)
    for body, told in (
        ({"model": 1, "reason": ""}, "Say why"),
        ({"model": 0, "reason": "x"}, "safe model"),
        ({"model": 9, "reason": "x"}, "no such model"),
    ):
        with pytest.raises(Refused, match=told):
            stream.add("guard.taken_down", body)
    stream.add("guard.taken_down", {"model": 1, "reason": "wrong units in the input"})
    for number in range(39, 120):
        stream.add("guard.ended", {"after": number})
        assert stream.state.decisions[-1][0] != 1
    row = state_of(stream.state)["models"][1]
    assert row["removed"]["reason"] == "wrong units in the input"
    assert not row["allowed"]
    assert stream.replayed().decisions == stream.state.decisions
    assert verify(stream.export()).holds
    saved = stream.state.engine.to_json()
    assert ChampionChallenger.from_json(saved).to_json() == saved


def test_nobody_left_is_the_fallback_and_no_bound() -> None:
    stream = opened(purse=None, burst=1.0, max_delay=0, horizon=400)
    for number in range(60):
        model, _ = stream.state.decisions[-1]
        name = stream.config["models"][model]
        stream.add("guard.outcome", {"id": f"o{number}", "decision": number, "model": name,
                                     "primary": 1.0, "secondary": 1.0})  # fmt: skip
        stream.add("guard.ended", {"after": number})
    told = served(stream.state)
    assert told["model"] is None
    assert told["fallback"] == "v1"
    assert told["harm"]["allowed"] is None
    assert promise(stream.state) == "void"
    assert verify(stream.export()).holds


def test_a_safe_model_beyond_its_own_burst_leaves_no_bound() -> None:
    stream = opened(purse=2.0, burst=4.0, max_delay=0, horizon=4_000)
    for number in range(40):  # the purse is used up at once, and the safe model does harm too
        model, mode = stream.state.decisions[-1]
        stream.add("guard.outcome", {"id": f"o{number}", "decision": number,
                                     "model": stream.config["models"][model],
                                     "primary": 1.0, "secondary": 1.0})  # fmt: skip
        stream.add("guard.ended", {"after": number})
    assert mode == "safe"
    told = served(stream.state)
    assert told["model"] == "v1"  # it is served, but nothing is promised
    assert told["harm"]["allowed"] is None
    assert promise(stream.state) == "void"
    found = verify(stream.export())
    assert found.holds, found.summary()
    assert "harm bound: none" in found.summary()


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ({"id": "a", "decision": 0, "model": "v9", "primary": 0, "secondary": 0}, "no model"),
        ({"id": "a", "decision": 7, "model": "v1", "primary": 0, "secondary": 0}, "no decision 7"),
        ({"id": "a", "decision": 0, "model": "v1", "primary": 2, "secondary": 0}, "<= 1"),
        ({"id": "a", "decision": 0, "model": "v1", "primary": 0}, "secondary"),
        ({"id": "", "decision": 0, "model": "v1", "primary": 0, "secondary": 0}, "id"),
        ({"id": "a", "decision": True, "model": "v1", "primary": 0, "secondary": 0}, "decision"),
        ({"id": "a", "decision": 0, "model": "v1", "missing": True, "primary": 0.1}, "missing"),
        ({"id": "a", "decision": 0, "model": "v1", "primary": 0, "secondary": 0, "x": 1}, "x"),
        (17, "outcome"),
    ],
)
def test_bad_outcomes_are_one_sentence(item: Any, told: str) -> None:
    stream = opened(champion="v1", seed=3)
    if isinstance(item, dict) and item["model"] == "v1":
        item = {**item, "model": served(stream.state)["model"]}
    found = outcome_problem(stream.state, item)
    assert found is not None
    assert told in found
    with pytest.raises((Refused, InvalidInputError)):
        stream.add("guard.outcome", item)
    assert len(stream.events) == 2


def test_a_second_outcome_or_another_model_is_refused() -> None:
    stream = opened()
    live = served(stream.state)["model"]
    other = next(m for m in stream.config["models"] if m != live)
    good = {"id": "a", "decision": 0, "model": live, "primary": 0.5, "secondary": 0.0}
    assert "was made for" in str(outcome_problem(stream.state, {**good, "model": other}))
    stream.add("guard.outcome", good)
    assert outcome_problem(stream.state, good) is None  # a repeat changes nothing
    assert "another outcome" in str(outcome_problem(stream.state, {**good, "primary": 0.4}))
    assert "already" in str(outcome_problem(stream.state, {**good, "id": "b"}))
    with pytest.raises(Refused, match="The last decision is 0"):
        stream.add("guard.ended", {"after": 5})


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"models": ["a"]}, "two or more"),
        ({"safe": "v9"}, "none of the models"),
        ({"mode": "maybe"}, "mode"),
        ({"rate": 2.0}, "rate"),
        ({"speed": 3}, "no field 'speed'"),
        ({"mode": "full", "max_delay": 0}, "mode = 'full' takes no purse"),
        ({"mode": "full", "purse": None}, "mode = 'full' takes no max_delay"),
        ({"mode": "full", "purse": None, "max_delay": 0, "champion": "v2"}, "takes no champion"),
        ({"valid_for_s": -1}, "valid_for_s must be from 0"),
    ],
)
def test_bad_configurations_are_one_sentence(more: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        guard_config(**more)


def test_taking_a_model_down_in_the_library() -> None:
    live = new_guard(guard_config())
    live.act()
    live.take_down(2, "drift")
    with pytest.raises(ProtocolError, match="already"):
        live.take_down(2)
    with pytest.raises(InvalidInputError, match="safe"):
        live.take_down(0)
    assert 2 not in live.allowed
    assert "by hand: drift" in live.alarms()[-1].sentence
