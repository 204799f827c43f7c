"""Policies, mixtures and their values."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.elicitation import MultiObjectiveMDP, instances, plan
from counterplay.elicitation.lab import (
    PolicyMixture,
    do_nothing_policy,
    enumerate_support,
    occupancy,
    policy_value,
    value_to_go,
)
from counterplay.errors import InvalidInputError


@pytest.mark.claim("08.02")
@pytest.mark.parametrize("seed", range(3))
def test_three_ways_to_compute_a_value_agree(seed: int) -> None:
    mdp = instances.random_mdp(seed, n_states=4, k=3, horizon=4, successors=3)
    policy = plan(mdp, [[1.0, 0.7, 0.4]]).policies[0]
    every = enumerate_support(mdp, policy)
    assert len(every) == 81
    assert every.weights.sum() == pytest.approx(1.0, abs=1e-12)
    forward = policy_value(mdp, policy)
    assert value_to_go(mdp, policy)[0, mdp.s0] == pytest.approx(forward, abs=1e-12)
    assert every.value == pytest.approx(forward, abs=1e-12)
    by_occupancy = np.einsum("tsa,sak->k", occupancy(mdp, policy), mdp.R)
    assert by_occupancy == pytest.approx(forward, abs=1e-12)


@pytest.mark.claim("08.02")
def test_values_of_stochastic_policies_agree() -> None:
    mdp = instances.random_mdp(7, n_states=4, k=2, horizon=3)
    policy = np.random.default_rng(0).random((3, 4, mdp.n_actions)) * mdp.action_mask
    policy /= policy.sum(axis=2, keepdims=True)
    forward = policy_value(mdp, policy)
    assert value_to_go(mdp, policy)[0, mdp.s0] == pytest.approx(forward, abs=1e-12)
    assert enumerate_support(mdp, policy).value == pytest.approx(forward, abs=1e-12)


def test_mixtures_are_drawn_once_not_per_step() -> None:
    mdp = instances.stationarity()
    cash_in = np.ones((3, 2), dtype=int)
    mixture = PolicyMixture([0.5, 0.5], [cash_in, do_nothing_policy(mdp)])
    assert policy_value(mdp, mixture)[0] == pytest.approx(0.5, abs=1e-12)
    per_step = np.zeros((3, 2, 3))
    per_step[:, 0, 1] = per_step[:, 0, 2] = 0.5
    per_step[:, 1, 0] = 1.0
    assert policy_value(mdp, per_step)[0] == pytest.approx(0.875, abs=1e-12)


def test_doing_nothing_is_worth_nothing() -> None:
    mdp = instances.random_mdp(0)
    assert policy_value(mdp, do_nothing_policy(mdp)).tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (np.full((6, 10), 9), "unavailable action 9"),
        (np.zeros((5, 10), dtype=int), "integer array"),
        (np.full((6, 10, 5), 0.2), "unavailable action"),
    ],
)
def test_bad_policies_are_refused(policy: np.ndarray, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        policy_value(instances.random_mdp(0), policy)


@pytest.mark.parametrize("action", [-5, 1, 99, 10**6])
def test_actions_of_states_that_are_never_reached_do_not_index_memory(action: int) -> None:
    """They may be anything, so they are replaced before a compiled loop sees them."""
    transitions, rewards = np.zeros((2, 1, 2)), np.zeros((2, 1, 1))
    transitions[0, 0, 0], rewards[0] = 1.0, 0.5
    mask = np.array([[True], [False]])
    mdp = MultiObjectiveMDP(transitions, rewards, H=2, action_mask=mask)
    policy = np.array([[0, action], [0, action]])
    assert policy_value(mdp, policy).tolist() == [1.0]
    assert value_to_go(mdp, policy)[:, 1, 0].tolist() == [0.0, 0.0, 0.0]
    assert occupancy(mdp, policy).sum() == 2.0
