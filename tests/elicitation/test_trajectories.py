"""Trajectory sets."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.elicitation import (
    LinearPreferenceUser,
    expand_and_compress,
    instances,
    plan,
)
from counterplay.elicitation.lab import (
    do_nothing_policy,
)
from counterplay.elicitation.trajectories import support
from counterplay.errors import InvalidInputError


def test_diluting_with_nothing_scales_the_value() -> None:
    mdp = instances.random_mdp(0, k=3)
    policy = plan(mdp, np.ones((1, 3))).policies[0]
    shown = expand_and_compress(mdp, policy)
    for chance in (0.0, 0.37, 1.0):
        diluted = shown.diluted(chance)
        assert len(diluted) <= 4
        assert diluted.value == pytest.approx(chance * shown.value, abs=1e-12)


def test_check_finds_impossible_trajectories_and_wrong_values() -> None:
    mdp = instances.random_mdp(0, k=2)
    policy = plan(mdp, np.ones((1, 2))).policies[0]
    shown = expand_and_compress(mdp, policy)
    other = do_nothing_policy(mdp)
    assert not support(shown, other).any()
    with pytest.raises(InvalidInputError, match="misses the value"):
        shown.check(other)


def test_description_tells_probability_route_and_units() -> None:
    mdp = instances.good_bad_mediocre()
    text = expand_and_compress(mdp, np.zeros((2, 4), dtype=int)).describe(
        objective_names=["reward"]
    )
    assert text.splitlines() == [
        "50 %: start > good > nothing (reward 0.9)",
        "50 %: start > nothing (reward 0)",
    ]


@pytest.mark.claim("08.35")
def test_trajectory_sets_compare_a_gamble_with_a_sure_thing() -> None:
    mdp = instances.good_bad_mediocre()
    gamble, sure = (
        expand_and_compress(mdp, np.full((2, 4), action, dtype=int)) for action in (0, 1)
    )
    user = LinearPreferenceUser([1.0], 0.049)
    assert gamble.value[0] == pytest.approx(0.45)
    assert user.compare(gamble.value, sure.value).value == "first"
    assert LinearPreferenceUser([1.0], 0.0501).compare(gamble.value, sure.value).value == "same"
    single = [user.compare(row, sure.returns[0]).value for row in gamble.returns]
    assert gamble.weights[np.array(single) == "first"].sum() == pytest.approx(0.5)
