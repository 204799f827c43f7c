from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.principal import (
    ContextualSwapAgent,
    LinearContractGame,
    LinearContractOracle,
    StableMechanism,
)
from counterplay.principal.bounds import balance_threshold, contextual_swap_regret
from counterplay.principal.instances import (
    prosecutor_game,
    random_contract_game,
    secret_information_instance,
)
from counterplay.principal.lab import (
    CommonPriorAgent,
    ConstantMechanism,
    ForecastBestResponseAgent,
    SecretInfoAgent,
    SpitefulAgent,
    Stage,
    behaviour,
    best_response,
)
from principal.games import played, random_stage


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
    assert np.mean(regrets) <= contextual_swap_regret(contexts, 3, T, drawn=True)
    assert np.mean(regrets) <= contextual_swap_regret(contexts, 3, T) / 2  # with room to spare
    mixed, gains = agent.probabilities(stage), stage.gains()
    total = 0.0  # of the mixed actions: for every action of every context the best replacement
    for k in range(contexts):
        S = mixed[stage.contexts == k].T @ gains[stage.contexts == k]
        total += (S.max(axis=1) - np.diag(S)).sum()
    assert total / T <= contextual_swap_regret(contexts, 3, T)


@pytest.mark.parametrize("agent", [ContextualSwapAgent(), SpitefulAgent()], ids=repr)
def test_replay_is_the_round_by_round_game(agent):
    for stage in (
        random_stage(3, rounds=80)[0],
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
    game = LinearContractGame([[0, 0], [0, 1]], [0, 0.25])
    T = 4000
    y = np.random.default_rng(0).integers(0, 2, T)
    stage = Stage(game, (0.5,), np.zeros(T, int), np.ones(T, int), y)
    actions = SpitefulAgent(0.5).replay(stage, np.zeros((T, 1)))[:, 0]
    found = behaviour(stage, actions)
    assert found.swap_regret < 0.02
    assert stage.principal_values(actions).mean() < 0.1  # obeying would give 0.25


def test_secret_agent_returns_to_learning_when_the_states_get_unbalanced():
    T = 2000
    states = np.zeros(T, dtype=np.int64)  # only M: far from balanced
    game = secret_information_instance(2, random_state=0).game
    mechanism = ConstantMechanism(game, 0.5, recommendation=1, random_state=0)
    transcript = played(mechanism, SecretInfoAgent(random_state=0), states, replicates=20)
    stop = int(balance_threshold(T)) + 1
    assert (transcript["a"][1:stop] == 1).all()
    assert (transcript["a"][stop + 1 : stop + 50] == 0).any()


def test_secret_agent_refuses_other_games_and_steps():
    game = random_contract_game(3, 2, random_state=0)
    mechanism = ConstantMechanism(game, 0.5, random_state=0)
    with pytest.raises(InvalidInputError, match="two states and two actions"):
        played(mechanism, SecretInfoAgent(), [0, 1])
    with pytest.raises(InvalidInputError, match="knows the future"):
        SecretInfoAgent().act(0, 0, 0.5)


def test_common_prior_agent_answers_his_prior(coin):
    states = np.random.default_rng(0).integers(0, 2, 50)
    mechanism = StableMechanism(
        LinearContractOracle(coin, [0.3, 0.6], beta=0.2, delta=0.1), random_state=0
    )
    transcript = played(mechanism, CommonPriorAgent([0.2, 0.8]), states)
    answers = [best_response(coin, transcript.policies[p], [0.2, 0.8]) for p in transcript["p_idx"]]
    assert transcript["a"].tolist() == answers
