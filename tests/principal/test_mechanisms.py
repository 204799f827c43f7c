from __future__ import annotations

import time

import numpy as np
import pytest

from counterplay.errors import InformationError, InvalidInputError
from counterplay.principal import (
    FollowRecommendation,
    LinearContractOracle,
    RepeatedContract,
    StableMechanism,
    play,
)
from counterplay.principal.bounds import bias_bound, bias_level
from counterplay.principal.instances import (
    near_tie_contract,
    prosecutor_game,
    random_contract_game,
)
from counterplay.principal.lab import (
    Agent,
    BestResponseMechanism,
    ConstantMechanism,
    EmpiricalMeanForecaster,
    FiniteGame,
    ForecastMechanism,
    KGRule,
    NetCalibratedForecaster,
    OptimisticRule,
    ScriptedMechanism,
    SpitefulAgent,
    gap_adversary,
)
from principal.games import played


@pytest.mark.claim("07.17")
@pytest.mark.parametrize("states", ["iid", "periodic", "adversarial"])
def test_obedience_bounds_regret_by_the_bias(states):
    T = 400
    game = random_contract_game(3, 3, random_state=4)
    P0 = np.linspace(0.1, 0.9, 5)
    mechanism = BestResponseMechanism(game, P0, random_state=0)
    sequence = {
        "iid": np.random.default_rng(0).integers(0, 3, T),
        "periodic": (np.arange(T) // 5) % 3,
        "adversarial": gap_adversary(0),
    }[states]
    transcript = played(mechanism, FollowRecommendation(), sequence, rounds=T)
    alpha = transcript.alpha
    gaps = transcript.benchmark_values.mean(axis=0) - transcript.principal_values.mean()
    assert (gaps <= alpha["benchmark"] + alpha["choice"] + 1e-12).all()
    assert transcript.behaviour.secret_information == 0.0
    stable = StableMechanism(LinearContractOracle(game, P0, horizon=T), random_state=0)
    obeyed = play(stable, RepeatedContract(game, FollowRecommendation(), transcript["y"]))
    assert obeyed.behaviour.secret_information == 0.0
    assert obeyed.behaviour.swap_regret <= 2 * obeyed.alpha["choice"] + 1e-12


def choose_against(view):
    """The state that is wrong for the more likely choice of the Principal."""
    first = sum(weight for weight, policy, _ in view.offers if policy == 1)
    return 0 if first > 0.5 else 1


@pytest.mark.claim("07.17")
def test_choice_events_are_wired_in():
    """One action, two policies: E3 asks for the overall mean only, E4 for the two half-lines."""
    game = FiniteGame(np.zeros((2, 1, 2)), [[[1.0, 0.0]], [[0.0, 1.0]]])
    T = 1000
    biases = {}
    for monitored in (True, False):
        mechanism = BestResponseMechanism(game, [0, 1], random_state=0, monitor_choice=monitored)
        transcript = played(mechanism, FollowRecommendation(), choose_against, rounds=T)
        alpha = transcript.alpha
        gaps = transcript.benchmark_values.mean(axis=0) - transcript.principal_values.mean()
        assert (gaps <= alpha["benchmark"] + alpha["choice"] + 1e-12).all()
        biases[monitored] = alpha["choice"]
    events, rates = 4, 6
    # two events and two outcomes, each at most active in all rounds
    bound = (
        2 * 2 * bias_bound(T / 2, bias_level(2 * 2 * events, rates, 0.05, tolerance=0.1), rates) / T
    )
    assert biases[True] <= bound
    assert biases[False] > 2 * bound


@pytest.mark.claim("07.24")
def test_mechanisms_do_not_react_to_the_agent():
    class Contrary(Agent):
        """Does the opposite, and keeps its own randomness busy."""

        def act(self, p_idx, r, uniform):
            return 1 - r if uniform < 0.9 else r

    instance = near_tie_contract(300, random_state=0)
    columns = ("pi", "p_idx", "r", "init_idx", "init_a", "r0", "y")
    for mechanism in (
        StableMechanism(
            LinearContractOracle(instance.game, instance.benchmark, horizon=300), random_state=7
        ),
        BestResponseMechanism(instance.game, instance.benchmark, random_state=7),
    ):
        first = played(mechanism, FollowRecommendation(), instance.states)
        second = played(mechanism, Contrary(random_state=3), instance.states)
        assert not np.array_equal(first["a"], second["a"])
        for name in columns:
            assert first[name].tobytes() == second[name].tobytes()


@pytest.mark.slow
@pytest.mark.claim("07.27")
@pytest.mark.parametrize(("n_states", "limit"), [(2, 30.0), (5, 120.0)])
def test_forecast_pass_is_fast(n_states, limit):
    """The limit is for 10 000 rounds; 1 000 rounds are timed, after a warm-up."""
    game = random_contract_game(3, n_states, random_state=0)
    oracle = LinearContractOracle(game, np.linspace(0.05, 1, 20), beta=0.1, delta=1 / 24)
    assert (len(oracle.policies), len(oracle.benchmark)) == (25, 20)
    mechanism = StableMechanism(oracle, random_state=0)
    states = np.random.default_rng(0).integers(0, n_states, 1000)
    played(mechanism, FollowRecommendation(), states[:50])
    begin = time.process_time()
    mechanism.begin(10_000)
    for y in states:
        mechanism.act()
        mechanism.observe(int(y))
    assert (time.process_time() - begin) * 10 < limit


def test_every_rule_runs_with_every_forecaster(coin):
    states = np.random.default_rng(0).integers(0, 2, 60)
    for rule in (OptimisticRule(coin, [0.3, 0.6], eps=0.05), KGRule(prosecutor_game())):
        for forecaster in (None, EmpiricalMeanForecaster(), NetCalibratedForecaster(eta=0.25)):
            mechanism = ForecastMechanism(rule, forecaster=forecaster, random_state=0)
            transcript = played(mechanism, SpitefulAgent(), states)
            assert "no regret guarantee" in transcript.summary()
            with pytest.raises(InformationError, match="no regret guarantee"):
                transcript.regret_bounds()


def test_constant_and_scripted_mechanisms(coin):
    states = np.array([0, 1, 1, 0])
    game = RepeatedContract(coin, FollowRecommendation(), states, fixed_recommendation=1)
    fixed = play(ConstantMechanism(coin, 0.4, recommendation=1, random_state=0), game)
    assert fixed.columns["r"].tolist() == [1, 1, 1, 1]
    scripted = ScriptedMechanism(coin, [0.2, 0.8], [0.5], lambda past: (past.size % 2, 0))
    transcript = play(scripted, game)
    assert transcript.columns["p_idx"].tolist() == [0, 1, 0, 1]
    with pytest.raises(InvalidInputError, match="fixed_recommendation"):
        transcript.against(FollowRecommendation())
    with pytest.raises(InformationError, match="no forecasts"):
        _ = transcript.alpha


def test_stable_mechanism_needs_a_guarantee(coin):
    with pytest.raises(InvalidInputError, match="stable policy oracle"):
        StableMechanism(OptimisticRule(coin, [0.5], eps=0.1))
