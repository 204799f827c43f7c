from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplay.errors import InvalidInputError
from counterplay.principal import LinearContractGame
from counterplay.principal.instances import (
    secret_information_instance,
)
from counterplay.principal.lab import (
    FiniteGame,
    SecretInfoAgent,
    Stage,
    behaviour,
    conditional_bias,
)
from principal.games import random_stage


@pytest.mark.claim("07.18")
@given(seed=st.integers(0, 10_000), rounds=st.integers(1, 80))
@settings(max_examples=60, deadline=None)
def test_gap_is_swap_regret_plus_negative_regret(seed, rounds):
    stage, actions = random_stage(seed, rounds)
    found = behaviour(stage, actions)
    assert found.utility_gap == pytest.approx(found.swap_regret + found.negative_regret, abs=1e-12)
    assert found.swap_regret >= -1e-12
    assert found.utility_gap >= -1e-12


def total(stage, actions):
    """Utility of the Agent, round by round."""
    U = stage.game.U
    return sum(U[p, a, y] for p, a, y in zip(stage.p_idx, actions, stage.y))


@pytest.mark.claim("07.18")
def test_quantities_agree_with_brute_force_over_all_swaps():
    for seed in range(5):
        stage, actions = random_stage(seed, rounds=12, n_actions=2, n_states=2, n_policies=1)
        U, V, T = stage.game.U, stage.game.V, 12
        contexts = sorted({(p, r) for p, r in zip(stage.p_idx.tolist(), stage.r.tolist())})
        triples = list(product(contexts, range(2)))

        earned = total(stage, actions)
        best_swap, best_fixed = -np.inf, -np.inf
        for choice in product(range(2), repeat=len(triples)):
            h = dict(zip(triples, choice))
            swapped = [h[(p, r), a] for p, r, a in zip(stage.p_idx, stage.r, actions)]
            best_swap = max(best_swap, total(stage, swapped))
        for choice in product(range(2), repeat=len(contexts)):
            h = dict(zip(contexts, choice))
            fixed = [h[p, r] for p, r in zip(stage.p_idx, stage.r)]
            best_fixed = max(best_fixed, total(stage, fixed))
        found = behaviour(stage, actions)
        assert found.swap_regret == pytest.approx((best_swap - earned) / T)
        assert found.negative_regret == pytest.approx((earned - best_fixed) / T)
        assert found.utility_gap == pytest.approx((best_swap - best_fixed) / T)
        nb = 0.0
        for context in contexts:
            rounds = [t for t in range(T) if (stage.p_idx[t], stage.r[t]) == context]
            mu = np.bincount(actions[rounds], minlength=2) / len(rounds)
            deviations = [
                abs(
                    sum(
                        W[context[0], actions[t], stage.y[t]] - mu @ W[context[0], :, stage.y[t]]
                        for t in rounds
                    )
                )
                for W in (U, V)
            ]
            nb += max(deviations)
        assert found.secret_information == pytest.approx(nb / T)


@pytest.mark.claim("07.23")
@pytest.mark.parametrize("seed", [0, 1])
def test_statistic_sees_the_secret_on_both_paths(seed):
    T = 20_000
    for first, share, agent_gap, principal_gap in (
        ("M", 0.5, 1 / 8, 1 / 8),
        ("H", 0.6, 0.12, 0.08),
    ):
        instance = secret_information_instance(T, first, random_state=seed)
        stage = Stage(instance.game, (share,), np.zeros(T, int), np.ones(T, int), instance.states)
        uniforms = np.random.default_rng(seed).random((T, 1))
        found = behaviour(stage, SecretInfoAgent().replay(stage, uniforms)[:, 0])
        assert found.b_agent[0] == pytest.approx(agent_gap, abs=0.01)
        assert found.b_principal[0] == pytest.approx(principal_gap, abs=0.01)
        assert found.secret_information == pytest.approx(max(agent_gap, principal_gap), abs=0.01)
        assert found.swap_regret < 0.01
        assert found.negative_regret < 0.01


def test_bias_agrees_with_its_definition():
    rng = np.random.default_rng(0)
    pi, y, ids = rng.dirichlet(np.ones(3), size=50), rng.integers(0, 3, 50), rng.integers(0, 4, 50)
    found, alpha = conditional_bias(pi, y, ids)
    for event, value in zip(found, alpha):
        rows = ids == event
        assert value == pytest.approx(abs((pi[rows] - np.eye(3)[y[rows]]).sum(axis=0)).sum() / 50)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p_idx": [0, 5]}, "policy indices"),
        ({"r": [0, 9]}, "not an action"),
        ({"y": [0, 1, 1]}, "same length"),
        ({"y": [0, 7]}, "codes"),
    ],
)
def test_bad_stages_are_refused(change, message):
    game = FiniteGame(np.zeros((2, 2, 2)), np.zeros((2, 2, 2)))
    columns = {"p_idx": [0, 1], "r": [0, 1], "y": [0, 1]} | change
    with pytest.raises(InvalidInputError, match=message):
        Stage(game, (0, 1), **columns)
    stage = Stage(game, (0, 1), [0, 1], [0, 1], [0, 1])
    with pytest.raises(InvalidInputError, match="one entry per round"):
        behaviour(stage, [0])
    with pytest.raises(InvalidInputError, match="not available"):
        behaviour(stage, [0, 2])


@pytest.mark.parametrize("bad", [0.5, np.nan])
def test_bias_refuses_states_that_are_no_codes(bad):
    pi, ids = np.full((4, 2), 0.5), np.zeros(4, dtype=int)
    with pytest.raises(InvalidInputError, match="state of row 2 is"):
        conditional_bias(pi, np.array([0, 1, bad, 1]), ids)
    with pytest.raises(InvalidInputError, match=r"states must be codes 0\.\.1"):
        conditional_bias(pi, np.array([0, 1, 2, 1]), ids)
    game = LinearContractGame([[0, 0], [0, 1]], [0, 0.25])
    stage = Stage(game, (0.5,), np.zeros(4, int), np.ones(4, int), np.array([0, 1, 0, 1]))
    with pytest.raises(InvalidInputError, match="action of row 2 is"):
        behaviour(stage, [0, 1, bad, 1])
