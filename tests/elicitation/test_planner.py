"""The planner."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from counterplay.elicitation import MultiObjectiveMDP, instances, plan
from counterplay.elicitation.lab import (
    policy_value,
)


def scalar_dynamic_programming(mdp: MultiObjectiveMDP, w: np.ndarray) -> float:
    """Value iteration written with dense arrays and Python loops."""
    dense = mdp.P.toarray().reshape(mdp.n_states, mdp.n_actions, mdp.n_states)
    later = np.zeros(mdp.n_states)
    for _ in range(mdp.H):
        now = np.full(mdp.n_states, -np.inf)
        for s, a in np.argwhere(mdp.action_mask):
            now[s] = max(now[s], mdp.R[s, a] @ w + dense[s, a] @ later)
        later = now
    return float(later[mdp.s0])


@pytest.mark.claim("08.01")
@pytest.mark.parametrize("seed", range(5))
def test_planner_equals_scalar_dynamic_programming(seed: int) -> None:
    mdp = instances.random_mdp(seed)
    directions = np.random.default_rng(seed).normal(size=(12, 4))
    best = plan(mdp, directions)
    for i, w in enumerate(directions):
        expected = scalar_dynamic_programming(mdp, w)
        assert best.values[i] @ w == pytest.approx(expected, abs=1e-9)
        assert best.scalar_values[i] == pytest.approx(expected, abs=1e-9)
        assert policy_value(mdp, best.policies[i]) @ w == pytest.approx(expected, abs=1e-9)


@pytest.mark.claim("08.01")
@pytest.mark.parametrize("seed", range(4))
def test_planner_equals_brute_force_over_time_dependent_policies(seed: int) -> None:
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(2), size=(2, 2))
    mdp = MultiObjectiveMDP(transitions, rng.random((2, 2, 2)), H=3)
    every = [np.reshape(choice, (3, 2)) for choice in itertools.product(range(2), repeat=6)]
    values = np.array([policy_value(mdp, policy) for policy in every])
    for w in rng.normal(size=(6, 2)):
        assert plan(mdp, w).scalar_values[0] == pytest.approx((values @ w).max(), abs=1e-12)


@pytest.mark.claim("08.01")
def test_waiting_and_cashing_in_needs_time_dependence() -> None:
    mdp = instances.stationarity()
    best = plan(mdp, [[1.0]])
    assert best.values[0, 0] == pytest.approx(1.2, abs=1e-12)
    assert best.policies[0][:, 0].tolist() == [0, 0, 1]
    chance = np.linspace(0, 1, 2001)  # of cashing in, the same at every step
    stationary = []
    for q in chance:
        policy = np.zeros((2, 3))
        policy[:, 0], policy[:, 1] = 1 - q, q
        stationary.append(policy_value(mdp, policy)[0])
    assert max(stationary) == pytest.approx(1.0173, abs=5e-5)
    assert chance[int(np.argmax(stationary))] == pytest.approx(0.767, abs=1e-3)


def test_ties_go_to_the_action_with_the_lowest_index() -> None:
    mdp = MultiObjectiveMDP(np.ones((1, 3, 1)), [[[0.5], [0.5], [0.2]]], H=2)
    assert plan(mdp, [[1.0]]).policies[0].tolist() == [[0], [0]]
    assert plan(mdp, [[0.0]]).policies[0].tolist() == [[0], [0]]


def test_unavailable_actions_are_never_taken_even_if_everything_is_bad() -> None:
    mask = np.array([[True, False]])
    mdp = MultiObjectiveMDP(np.ones((1, 2, 1)), [[[0.7], [0.0]]], H=2, action_mask=mask)
    assert plan(mdp, [[-1.0]]).policies[0].tolist() == [[0], [0]]
    assert plan(mdp, [[-1.0]]).scalar_values[0] == pytest.approx(-1.4)


@pytest.mark.claim("08.01")
@pytest.mark.parametrize("m", [1, 15, 16, 17, 33])
def test_every_size_of_batch_finds_the_optimum(m: int) -> None:
    mdp = instances.sparse_mdp(0, n_states=12, k=3, horizon=4, successors=7)
    directions = np.random.default_rng(m).normal(size=(m, 3))
    best = plan(mdp, directions)
    for i, w in enumerate(directions):
        expected = scalar_dynamic_programming(mdp, w)
        assert best.scalar_values[i] == pytest.approx(expected, abs=1e-12)
        assert policy_value(mdp, best.policies[i]) @ w == pytest.approx(expected, abs=1e-12)


def test_states_without_actions_are_worth_nothing_and_harm_nobody() -> None:
    transitions = np.zeros((2, 1, 2))
    transitions[0, 0, 0] = 1.0
    mask = np.array([[True], [False]])
    mdp = MultiObjectiveMDP(
        transitions, np.full((2, 1, 1), 0.5) * mask[..., None], H=3, action_mask=mask
    )
    assert plan(mdp, [[1.0], [-1.0]]).scalar_values.tolist() == [1.5, -1.5]


def test_batches_larger_than_one_chunk_agree_with_single_directions() -> None:
    mdp = instances.random_mdp(3, n_states=6, horizon=4)
    directions = np.random.default_rng(0).normal(size=(150, 4))
    together = plan(mdp, directions)
    for i in (0, 70, 127, 128, 149):
        alone = plan(mdp, directions[i])
        assert alone.policies[0].tolist() == together.policies[i].tolist()
        assert alone.values[0] == pytest.approx(together.values[i], abs=1e-12)


@pytest.mark.parametrize("m", [2, 16, 17, 40])
@pytest.mark.parametrize(("n_states", "n_actions"), [(5, 3), (16, 2), (35, 4), (6, 130)])
def test_side_by_side_gives_the_same_numbers_as_one_direction(
    m: int, n_states: int, n_actions: int
) -> None:
    """Bit for bit, whatever fits into sixteen lanes or one byte and whatever does not."""
    mdp = instances.sparse_mdp(
        1, n_states=n_states, n_actions=n_actions, k=3, horizon=9, successors=2
    )
    directions = np.random.default_rng(m).normal(size=(m, 3))
    together = plan(mdp, directions)
    for i in range(m):
        alone = plan(mdp, directions[i])
        assert alone.policies[0].tolist() == together.policies[i].tolist()
        assert alone.values[0].tolist() == together.values[i].tolist()
        assert alone.scalar_values[0] == together.scalar_values[i]
