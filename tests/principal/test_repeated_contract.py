from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterplay.core.seeds import spawn
from counterplay.errors import (
    InformationError,
    InvalidInputError,
    ProtocolError,
)
from counterplay.principal import (
    ContextualSwapAgent,
    FollowRecommendation,
    LinearContractOracle,
    PersuasionOracle,
    RepeatedContract,
    StableMechanism,
    play,
)
from counterplay.principal.instances import prosecutor_game
from counterplay.principal.lab import (
    SpitefulAgent,
    gap_adversary,
)
from principal.games import contract_game, played

PLAYTHROUGHS = Path(__file__).parents[1] / "playthroughs"


def persuasion_game():
    oracle = PersuasionOracle(prosecutor_game(), horizon=40)
    states = (np.random.default_rng(0).random(40) < 0.4).astype(int)
    return StableMechanism(oracle, random_state=0), states


@pytest.mark.parametrize(
    ("name", "make"), [("contract", contract_game), ("persuasion", persuasion_game)]
)
def test_golden_playthrough(name, make):
    mechanism, states = make()
    transcript = played(mechanism, ContextualSwapAgent(random_state=0), states)
    text = f"{transcript.text()}\n{transcript.summary()}\n"
    path = PLAYTHROUGHS / f"principal_{name}.txt"
    assert text == path.read_text(encoding="utf-8"), f"{path.name} differs:\n{text}"


@pytest.mark.parametrize("agent", [ContextualSwapAgent(random_state=5), SpitefulAgent()], ids=repr)
@pytest.mark.parametrize("make", [contract_game, persuasion_game])
def test_played_round_by_round_it_is_the_same_game(agent, make):
    """What a person in the place of the Agent would live through."""
    mechanism, states = make()
    transcript = played(mechanism, agent, states)
    mechanism.begin(len(states))
    agent.begin(mechanism.game, mechanism.policies, len(states))
    coins = spawn(agent.random_state, 1)[0]
    actions, earned = [], []
    for y in states:
        offer = mechanism.act()
        p, r = offer.policy_index, offer.recommendation
        actions.append(agent.act(p, r, float(coins.random())))
        agent.observe(p, r, actions[-1], int(y))
        mechanism.observe(int(y))
        earned.append(mechanism.game.principal_utility(offer.policy)[actions[-1], y])
    assert actions == transcript["a"].tolist()
    assert np.mean(earned) == pytest.approx(transcript.principal_values.mean())


def test_simulations_can_be_repeated():
    mechanism, states = contract_game()
    agent = ContextualSwapAgent(random_state=3)
    one, two = (played(mechanism, agent, states, replicates=3) for _ in range(2))
    assert one.text() == two.text()
    assert one.regrets.tolist() == two.regrets.tolist()


def test_wrong_calls_are_named():
    mechanism, states = contract_game()
    game = RepeatedContract(mechanism.game, FollowRecommendation(), states)
    with pytest.raises(InvalidInputError, match="swapped"):
        play(game, mechanism)
    with pytest.raises(InvalidInputError, match="must be a learner"):
        play(object(), game)
    with pytest.raises(InvalidInputError, match="must be a game"):
        play(mechanism, mechanism.game)
    other = RepeatedContract(prosecutor_game(), FollowRecommendation(), states)
    with pytest.raises(InvalidInputError, match="another stage game"):
        play(mechanism, other)
    with pytest.raises(ProtocolError, match="say how many rounds"):
        played(mechanism, FollowRecommendation(), lambda view: 0)
    with pytest.raises(InvalidInputError, match="rounds is 41"):
        play(mechanism, game, rounds=41)
    assert len(play(mechanism, game, rounds=3)) == 3
    with pytest.raises(InvalidInputError, match="state chosen by nature"):
        played(mechanism, FollowRecommendation(), lambda view: 9, rounds=3)
    with pytest.raises(InvalidInputError, match="fixed_recommendation"):
        played(mechanism, FollowRecommendation(), states, fixed_recommendation=2)
    fixed = played(mechanism, FollowRecommendation(), states, fixed_recommendation=1)
    with pytest.raises(InformationError, match="fixed recommendation"):
        fixed.regret_bounds()


def test_gap_adversary_is_a_nature(coin):
    mechanism = StableMechanism(
        LinearContractOracle(coin, [0.3, 0.6], beta=0.2, delta=0.1), random_state=0
    )
    game = RepeatedContract(coin, FollowRecommendation(), gap_adversary(0))
    transcript = play(mechanism, game, rounds=200)
    assert mechanism.forecaster_.certificate().holds
    assert set(transcript.columns["y"].tolist()) <= {0, 1}
    assert len(transcript) == 200
