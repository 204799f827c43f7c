from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterplay.errors import InformationError, InvalidInputError
from counterplay.principal import (
    BestResponseMechanism,
    ContextualSwapAgent,
    FollowRecommendation,
    InteractionProtocol,
    LinearContractOracle,
    PersuasionOracle,
    SpitefulAgent,
    StableMechanism,
    near_tie_contract,
    prosecutor_game,
    simulate,
)

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
    play = simulate(mechanism, ContextualSwapAgent(random_state=0), states)
    text = f"{play.text()}\n{play.summary()}\n"
    path = PLAYTHROUGHS / f"principal_{name}.txt"
    assert text == path.read_text(encoding="utf-8"), f"{path.name} differs:\n{text}"


@pytest.mark.parametrize("agent", [ContextualSwapAgent(random_state=5), SpitefulAgent()], ids=repr)
@pytest.mark.parametrize("make", [contract_game, persuasion_game])
def test_protocol_plays_the_simulated_game(agent, make):
    mechanism, states = make()
    protocol = InteractionProtocol(mechanism, agent, horizon=len(states))
    records = list(protocol.play(states))
    play = simulate(mechanism, agent, states)
    assert [record["a"] for record in records] == play["a"].tolist()
    assert [record["r"] for record in records] == play["r"].tolist()
    earned = np.mean([record["principal"] for record in records])
    assert earned == pytest.approx(play.principal_values.mean())
    with pytest.raises(InvalidInputError, match="only 40 rounds"):
        protocol.step(0)


def test_simulations_can_be_repeated():
    mechanism, states = contract_game()
    agent = ContextualSwapAgent(random_state=3)
    one, two = (simulate(mechanism, agent, states, replicates=3) for _ in range(2))
    assert one.text() == two.text()
    assert one.regrets.tolist() == two.regrets.tolist()


def test_results_can_be_looked_at():
    mechanism, states = contract_game()
    play = simulate(mechanism, FollowRecommendation(), states)
    assert play.to_frame().shape[0] == 40
    assert play.plot().get_xlabel() == "round"
    assert "policy regret" in play.summary()
    text = repr(mechanism)
    assert text.startswith("StableMechanism(LinearContractOracle(")


def test_wrong_calls_are_named():
    mechanism, states = contract_game()
    with pytest.raises(InvalidInputError, match="give the states"):
        simulate(mechanism, FollowRecommendation())
    with pytest.raises(InvalidInputError, match="give rounds"):
        simulate(mechanism, FollowRecommendation(), lambda view: 0)
    with pytest.raises(InvalidInputError, match="rounds is 3"):
        simulate(mechanism, FollowRecommendation(), states, rounds=3)
    with pytest.raises(InvalidInputError, match="state chosen by nature"):
        simulate(mechanism, FollowRecommendation(), lambda view: 9, rounds=3)
    with pytest.raises(InvalidInputError, match="fixed_recommendation"):
        simulate(mechanism, FollowRecommendation(), states, fixed_recommendation=2)
    fixed = simulate(mechanism, FollowRecommendation(), states, fixed_recommendation=1)
    with pytest.raises(InformationError, match="fixed recommendation"):
        fixed.regret_bound_from_transcript()


def test_general_mechanism_has_its_own_bound():
    mechanism, states = contract_game()
    general = BestResponseMechanism(mechanism.game, mechanism.benchmark, random_state=0)
    for agent in (FollowRecommendation(), SpitefulAgent(), ContextualSwapAgent(random_state=0)):
        play = simulate(general, agent, states)
        frame = play.regret_bound_from_transcript()
        assert (frame["regret"] <= frame["bound"] + 1e-12).all()
