"""Advice with a safety net."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.principal import (
    ContextualSwapAgent,
    LinearContractGame,
    LinearContractOracle,
    StableMechanism,
)
from counterplay.principal.lab import betting_limits, insured, running_mean_limits

GAME = LinearContractGame([[0, 0], [0.3, 0.5], [0.4, 1]], [0, 0.08, 0.25])


def run(seed, advice, rounds):
    states = (np.random.default_rng([seed, 99]).random(rounds) < 0.6).astype(int)
    oracle = LinearContractOracle(GAME, np.linspace(0, 1, 21), horizon=rounds)
    mechanism = StableMechanism(oracle, random_state=seed)
    return insured(mechanism, advice, ContextualSwapAgent(), states, random_state=seed)


@pytest.mark.claim("25.26")
def test_the_coin_is_independent_and_the_value_is_the_weighted_mean():
    for seed in range(5):
        found = run(seed, 0.55, 400)
        assert found.switch is None  # right advice is never left; 40 seeds in the study
        correlation = np.corrcoef(found.arm, found.states)[0, 1]
        assert abs(correlation) <= 3 / np.sqrt(400)
        share = found.arm.mean()
        mixed = (1 - share) * found.mean(0) + share * found.mean(1)
        assert found.value == pytest.approx(mixed, abs=1e-9)


@pytest.mark.claim("25.26")
def test_wrong_advice_is_left_in_time():
    for seed in range(2):
        found = run(seed, 0.95, 440)
        assert found.switch is not None
        assert found.switch < 400
        assert (found.arm[found.switch :] == 1).all()
        assert f"switched in round {found.switch}" in found.summary()


def test_limits_of_running_means_hold_when_means_move():
    misses, t = 0, np.arange(600)
    chance = 0.5 + 0.4 * np.sin(t / 50)
    for seed in range(100):
        x = (np.random.default_rng(seed).random(600) < chance).astype(float)
        truth = np.cumsum(chance) / (t + 1)
        for n in range(30, 601, 30):
            low, high = running_mean_limits(x[:n], 0.0, 1.0)
            if not low <= truth[n - 1] <= high:
                misses += 1
                break
    assert misses <= 5
    assert running_mean_limits(np.array([]), 0.0, 2.0) == (0.0, 2.0)


def test_the_picture_has_both_arms():
    axes = run(0, 0.95, 440).plot()
    assert [line.get_label() for line in axes.lines[:2]] == ["advice", "stable mechanism"]


@pytest.mark.parametrize("limits", [betting_limits, running_mean_limits])
def test_values_outside_of_the_range_are_refused_and_not_clipped(limits: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"values must be in \[0, 1\]"):
        limits(np.array([0.5, 1.5]), 0.0, 1.0)
    assert limits(np.array([2.0, 2.0]), 2.0, 2.0) == (2.0, 2.0)
