from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplay.errors import InvalidInputError
from counterplay.principal import ContextualSwapAgent, LinearContractGame
from counterplay.principal.instances import (
    prosecutor_game,
    random_contract_game,
    secret_information_instance,
)
from counterplay.principal.lab import (
    ConstantMechanism,
    FiniteGame,
    ForecastBestResponseAgent,
    SecretInfoAgent,
    SpitefulAgent,
    Stage,
    behaviour,
    conditional_bias,
)
from principal.games import played


def random_stage(seed, T=60, n_actions=3, n_states=3, n_policies=3):
    rng = np.random.default_rng(seed)
    U, V = rng.uniform(-1, 1, size=(2, n_policies, n_actions, n_states))
    stage = Stage(
        FiniteGame(U, V),
        tuple(range(n_policies)),
        rng.integers(0, n_policies, T),
        rng.integers(0, n_actions, T),
        rng.integers(0, n_states, T),
    )
    return stage, rng.integers(0, n_actions, T)


@pytest.mark.claim("07.18")
@given(seed=st.integers(0, 10_000), T=st.integers(1, 80))
@settings(max_examples=60, deadline=None)
def test_gap_is_swap_regret_plus_negative_regret(seed, T):
    stage, actions = random_stage(seed, T)
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
        stage, actions = random_stage(seed, T=12, n_actions=2, n_states=2, n_policies=1)
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


@pytest.mark.claim("07.20")
def test_blum_mansour_agent_on_an_adversarial_sequence():
    """States follow the agent's own mixed actions, so that the likely action is the wrong one."""
    game = random_contract_game(3, 3, random_state=0)
    T, contexts = 600, 4
    rng = np.random.default_rng(0)
    policies = (0.3, 0.6)
    p_idx, r = rng.integers(0, 2, T), rng.integers(0, 2, T)
    y = np.zeros(T, dtype=np.int64)
    agent = ContextualSwapAgent()
    agent.begin(game, policies, T)
    for t in range(T):
        mixed = agent._mixed(int(p_idx[t]), int(r[t]))
        table = game.agent_utility(policies[p_idx[t]])
        y[t] = int(np.argmin(mixed @ table - table.max(axis=0)))
        agent.observe(int(p_idx[t]), int(r[t]), 0, int(y[t]))
    stage = Stage(game, policies, p_idx, r, y)
    assert stage.n_contexts == contexts
    uniforms = np.random.default_rng(1).random((T, 20))
    played = ContextualSwapAgent().replay(stage, uniforms)
    regrets = [behaviour(stage, column).swap_regret for column in played.T]
    assert np.mean(regrets) <= 4 * np.sqrt(contexts * 3 * np.log(3) / T)
    assert np.mean(regrets) <= np.sqrt(contexts * 3 * np.log(3) / T)  # with room to spare


@pytest.mark.parametrize("agent", [ContextualSwapAgent(), SpitefulAgent()], ids=repr)
def test_replay_is_the_round_by_round_game(agent):
    for stage in (
        random_stage(3, T=80)[0],
        Stage(
            prosecutor_game(),
            (prosecutor_game().full_disclosure(), prosecutor_game().no_disclosure()),
            np.arange(60) % 2,
            np.zeros(60, int),
            np.random.default_rng(0).integers(0, 2, 60),
        ),
    ):
        uniforms = np.random.default_rng(0).random((len(stage), 2))
        fast = agent.replay(stage, uniforms)
        slow = super(type(agent), agent).replay(stage, uniforms)
        assert np.array_equal(fast, slow)


def test_forecasting_agent_has_little_regret():
    T = 800
    game = random_contract_game(3, 3, random_state=2)
    states = (np.arange(T) // 100) % 3
    transcript = played(
        ConstantMechanism(game, 0.6, random_state=0),
        ForecastBestResponseAgent(random_state=0),
        states,
    )
    assert transcript.behaviour.swap_regret < 0.05


def test_spiteful_agent_keeps_his_regret_small_and_hurts():
    from counterplay.principal import LinearContractGame

    game = LinearContractGame([[0, 0], [0, 1]], [0, 0.25])
    T = 4000
    y = np.random.default_rng(0).integers(0, 2, T)
    stage = Stage(game, (0.5,), np.zeros(T, int), np.ones(T, int), y)
    actions = SpitefulAgent(0.5).replay(stage, np.zeros((T, 1)))[:, 0]
    found = behaviour(stage, actions)
    assert found.swap_regret < 0.02
    assert stage.principal_values(actions).mean() < 0.1  # obeying would give 0.25


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
def test_p4_bias_refuses_states_that_are_no_codes(bad):
    pi, ids = np.full((4, 2), 0.5), np.zeros(4, dtype=int)
    with pytest.raises(InvalidInputError, match="state of row 2 is"):
        conditional_bias(pi, np.array([0, 1, bad, 1]), ids)
    with pytest.raises(InvalidInputError, match=r"states must be codes 0\.\.1"):
        conditional_bias(pi, np.array([0, 1, 2, 1]), ids)
    game = LinearContractGame([[0, 0], [0, 1]], [0, 0.25])
    stage = Stage(game, (0.5,), np.zeros(4, int), np.ones(4, int), np.array([0, 1, 0, 1]))
    with pytest.raises(InvalidInputError, match="action of row 2 is"):
        behaviour(stage, [0, 1, bad, 1])
