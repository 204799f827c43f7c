from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterplay.core.seeds import spawn
from counterplay.errors import InformationError, InvalidInputError, ProtocolError
from counterplay.principal import (
    ContextualSwapAgent,
    FollowRecommendation,
    LinearContractOracle,
    PersuasionOracle,
    RepeatedContract,
    StableMechanism,
    play,
)
from counterplay.principal.instances import near_tie_contract, prosecutor_game
from counterplay.principal.lab import BestResponseMechanism, SpitefulAgent
from principal.games import played

PLAYTHROUGHS = Path(__file__).parents[1] / "playthroughs"


def contract_game():
    instance = near_tie_contract(40, random_state=0)
    oracle = LinearContractOracle(instance.game, [0.3, 0.5, 0.7], horizon=40)
    return StableMechanism(oracle, random_state=0), instance.states


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


def test_results_can_be_looked_at():
    mechanism, states = contract_game()
    transcript = played(mechanism, FollowRecommendation(), states)
    assert transcript.to_frame().shape[0] == 40
    assert transcript.plot().get_xlabel() == "round"
    assert "policy regret" in transcript.summary()
    text = repr(mechanism)
    assert text.startswith("StableMechanism(LinearContractOracle(")


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


def test_general_mechanism_has_its_own_bound():
    mechanism, states = contract_game()
    general = BestResponseMechanism(mechanism.game, mechanism.benchmark, random_state=0)
    for agent in (FollowRecommendation(), SpitefulAgent(), ContextualSwapAgent(random_state=0)):
        transcript = played(general, agent, states)
        frame = transcript.regret_bounds()
        assert (frame["regret"] <= frame["bound"] + 1e-12).all()
