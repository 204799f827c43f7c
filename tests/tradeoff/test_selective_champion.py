"""A case is judged by all models if it was accepted, by nobody otherwise."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from counterplay.errors import InvalidInputError, InvalidStateError, ProtocolError
from counterplay.tradeoff import ChampionChallenger, HarmBudget, bounds
from counterplay.tradeoff.lab import SelectiveChampion


def guard(K: int, T: int, **options: Any) -> Any:
    options = {"budget": HarmBudget(0.5, 500.0), "acceptance": 0.4, "random_state": 0} | options
    return ChampionChallenger(n_models=K, horizon=T, feedback="selective", **options)


def drive(live: Any, error: np.ndarray, harm: np.ndarray, rng: np.random.Generator) -> list[int]:
    """Each live model accepts with a probability of its own."""
    path = []
    for t in range(len(error)):
        decision = live.act()
        path.append(decision.model)
        chance = 0.4 + 0.6 * decision.model / max(1, live.n_models - 1)
        if rng.random() < chance:
            live.observe(decision.id, primary=error[t], secondary=harm[t], probability=chance)
        else:
            live.observe(decision.id, missing=True)
    return path


@pytest.mark.claim("26.39")
def test_regret_stays_below_the_bound_in_advance() -> None:
    K, T = 3, 1500
    bound, found, realised = bounds.selective_regret(T, K, 0.4, 11), [], []
    for seed in range(6):
        rng = np.random.default_rng([39, seed])
        error = (rng.random((T, K)) < [0.5, 0.4, 0.3]).astype(float)
        live = guard(K, T, random_state=seed)
        path = drive(live, error, np.zeros((T, K)), rng)
        found.append(error[np.arange(T), path].sum() - error.sum(axis=0).min())
        realised.append(live.report().regret_bound)
    assert np.mean(found) <= bound
    assert np.mean(realised) <= bound * 1.05
    assert np.mean(found) >= 0.05 * bound  # there is something to learn


@pytest.mark.claim("26.39")
def test_the_total_weight_does_not_change() -> None:
    rng = np.random.default_rng(1)
    live = guard(4, 400, champion=2, budget=HarmBudget(0.1, 3.0))
    drive(live, rng.random((400, 4)), (rng.random((400, 4)) < 0.15).astype(float), rng)
    (copy,) = live._guard.copies
    assert live.report().take_downs > 0
    assert copy.prior @ np.exp(copy.eta * copy.regret) == pytest.approx(1.0, abs=1e-9)
    assert (copy.regret <= np.log(1 / copy.prior) / copy.eta + 1e-9).all()


@pytest.mark.claim("26.39")
def test_accepted_rounds_keep_the_harm_bound() -> None:
    for seed in range(10):
        rng = np.random.default_rng([40, seed])
        T, K, c = 300, 3, 0.1
        harm = np.repeat(rng.choice([0.0, c, 1.0], size=(15, K)), 20, axis=0)
        live = guard(K, T, budget=HarmBudget(c, 3.0), random_state=seed)
        drive(live, rng.random((T, K)), harm, rng)
        report = live.report()
        if report.void_since is None:
            assert report.harm_excess <= report.harm_bound
        assert report.judged + report.missing == T


def test_a_stored_guard_goes_on_as_the_original() -> None:
    rng = np.random.default_rng(2)
    live = guard(3, 120, budget=HarmBudget(0.1, 2.0), safe=0, purse=4.0, max_delay=3)
    for t in range(100):
        decision = live.act()
        if t % 3:
            losses, harms = rng.random(3), rng.random(3) * 0.3
            live.observe(decision.id, primary=losses, secondary=harms, probability=0.5)
        else:
            live.observe(decision.id, missing=True)
        if t % 20 == 0:
            twin = ChampionChallenger.from_json(live.to_json())
            assert isinstance(twin, SelectiveChampion)
            assert twin.to_json() == live.to_json()
            assert twin.report().summary() == live.report().summary()
    again = ChampionChallenger.from_json(live.to_json())
    assert [again.act().model for _ in range(10)] == [live.act().model for _ in range(10)]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"outcomes": [[1, 0, 0.1, [0, 0], [0, 0]]]}, "probability"),
        ({"outcomes": [[1, 0, 0.5, [0], [0, 0]]]}, "primary"),
        ({"outcomes": [[1, 0, 0.5, [0, 2], [0, 0]]]}, "outcomes"),
        ({"outcomes": [[9, 0, 0.5, [0, 0], [0, 0]]]}, "at no time"),
        ({"acceptance": 0.0}, "acceptance"),
        ({"n_models": "2"}, "n_models"),
        ({"seed": -1}, "seed"),
    ],
)
def test_damaged_states_are_refused_by_name(change: dict[str, Any], field: str) -> None:
    live = guard(2, 50)
    live.observe(live.act().id, primary=[0.1, 0.2], secondary=[0, 0], probability=0.5)
    state = json.loads(live.to_json())
    with pytest.raises(InvalidStateError, match=field):
        ChampionChallenger.from_json(json.dumps(state | change))


def test_bad_outcomes_are_refused() -> None:
    live = guard(2, 50)
    number = live.act().id
    with pytest.raises(InvalidInputError, match="one loss for each of 2 models"):
        live.observe(number, primary=0.5, secondary=[0, 0], probability=0.5)
    with pytest.raises(InvalidInputError, match=r"primary of decision 0 .* use Money"):
        live.observe(number, primary=[0.5, math.nan], secondary=[0, 0], probability=0.5)
    with pytest.raises(InvalidInputError, match="probability"):
        live.observe(number, primary=[0.5, 0.5], secondary=[0, 0], probability=0.1)
    live.observe(number, missing=True)
    with pytest.raises(ProtocolError, match="already has an outcome"):
        live.observe(number, missing=True)
    with pytest.raises(InvalidInputError, match="acceptance"):
        guard(2, 50, acceptance=0.0)
