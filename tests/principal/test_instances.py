from __future__ import annotations

import numpy as np
import pytest

from counterplay.principal import ContextualSwapAgent, LinearContractOracle, StableMechanism
from counterplay.principal.bounds import balance_threshold, secret_information_regret
from counterplay.principal.instances import (
    near_tie_contract,
    random_contract_game,
    random_persuasion_game,
    reactive_mechanism,
    secret_information_instance,
)
from counterplay.principal.lab import (
    BestResponseMechanism,
    ConstantMechanism,
    PersuasionGeometry,
    SecretInfoAgent,
    SpitefulAgent,
)
from principal.games import played

T = 2000


@pytest.mark.claim("07.21")
def test_near_ties_cost_the_best_response_rule_and_not_the_stable_one():
    rounds, regrets = 2000, {"best response": [], "stable": []}
    for seed in range(4):
        instance = near_tie_contract(rounds, random_state=seed)
        oracle = LinearContractOracle(instance.game, instance.benchmark, horizon=rounds)
        for name, mechanism in (
            (
                "best response",
                BestResponseMechanism(instance.game, instance.benchmark, random_state=seed),
            ),
            ("stable", StableMechanism(oracle, random_state=seed)),
        ):
            transcript = played(mechanism, SpitefulAgent(), instance.states)
            regrets[name].append(transcript.policy_regret)
    assert min(regrets["best response"]) > 0.12
    assert max(regrets["stable"]) < 0.06


def mechanisms(game, benchmark, seed):
    oracle = LinearContractOracle(game, benchmark, horizon=T)
    return {
        "stable": StableMechanism(oracle, random_state=seed),
        "best response": BestResponseMechanism(game, benchmark, random_state=seed),
        "constant 0.3": ConstantMechanism(game, 0.3, P0=benchmark, random_state=seed),
        "reactive": reactive_mechanism(game),
    }


def worse_first_state(mechanism):
    """M unless the first move is (0.5, work) with probability above one half."""
    mechanism.begin(T)
    offers = mechanism.view(np.empty(0, dtype=np.int64)).offers
    kept = sum(
        weight
        for weight, index, action in offers
        if mechanism.policies[index] == 0.5 and action == 1
    )
    return "M" if kept <= 0.5 else "H"


@pytest.mark.claim("07.22")
@pytest.mark.parametrize("name", ["stable", "best response", "constant 0.3", "reactive"])
def test_secret_information_defeats_every_mechanism(name):
    game = secret_information_instance(2, random_state=0).game
    worse = worse_first_state(mechanisms(game, (0.5, 0.6), 0)[name])
    assert worse == ("H" if name == "reactive" else "M")
    for first in ("M", "H"):
        if name == "reactive" and first == "M":
            continue  # its first move is right there; Nature would not choose M
        regrets = []
        for seed in range(3):
            instance = secret_information_instance(T, first, random_state=seed)
            mechanism = mechanisms(instance.game, instance.benchmark, seed)[name]
            transcript = played(
                mechanism,
                SecretInfoAgent(random_state=seed),
                instance.states,
                fixed_recommendation=1,
            )
            regrets.append(transcript.policy_regret)
            paths = [transcript.behaviour] + [
                transcript.benchmark_behaviours(j)[0] for j in range(2)
            ]
            assert all(path.swap_regret < 0.03 for path in paths)
            assert all(path.negative_regret < 0.01 for path in paths)
            assert max(path.secret_information for path in paths) > 0.1
        assert np.mean(regrets) >= secret_information_regret(first)


@pytest.mark.claim("07.22")
def test_without_the_check_of_round_one_the_reactive_mechanism_escapes():
    for first in ("M", "H"):
        instance = secret_information_instance(T, first, random_state=0)
        printed = SecretInfoAgent(check_first_round=False, random_state=0)
        transcript = played(
            reactive_mechanism(instance.game), printed, instance.states, fixed_recommendation=1
        )
        assert transcript.policy_regret < 0.01


@pytest.mark.claim("07.22")
def test_an_honest_learner_shows_no_such_regret():
    instance = secret_information_instance(T, "M", random_state=0)
    mechanism = mechanisms(instance.game, instance.benchmark, 0)["stable"]
    transcript = played(
        mechanism, ContextualSwapAgent(random_state=0), instance.states, fixed_recommendation=1
    )
    assert transcript.policy_regret < 0.03


def test_threshold_and_balance_of_fair_walks():
    ratios = [balance_threshold(n) / n**0.5 for n in (100, 1000, 10_000, 1_000_000)]
    assert ratios == pytest.approx([7.6, 8.1, 8.5, 9.0], abs=0.06)
    walks = np.cumsum(np.random.default_rng(0).choice([-1, 1], size=(2000, T)), axis=1)
    assert (np.abs(walks).max(axis=1) <= balance_threshold(T)).all()


def test_values_of_the_secret_paths():
    long = 6_000
    for first, share, worth in (("M", 0.5, 1 / 4), ("H", 0.6, 1 / 5)):
        instance = secret_information_instance(long, first, random_state=0)
        mechanism = ConstantMechanism(instance.game, share, recommendation=1, random_state=0)
        agent = SecretInfoAgent(random_state=0)
        transcript = played(mechanism, agent, instance.states)
        assert transcript.principal_values.mean() == pytest.approx(worth, abs=0.02)
        assert transcript.stage.agent_values(transcript["a"]).mean() == pytest.approx(0.0, abs=0.02)


def test_random_games_are_legal():
    for seed in range(50):
        game = random_contract_game(2 + seed % 5, 1 + seed % 4, random_state=seed)
        assert game.cost_gap > 0.01
        geometry = PersuasionGeometry(random_persuasion_game(1 + seed % 6, random_state=seed))
        assert geometry.C > 0
        assert geometry.c1 > 0
