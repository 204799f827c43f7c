from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.principal import (
    ContextualSwapAgent,
    FollowRecommendation,
    LinearContractOracle,
    PersuasionOracle,
    RepeatedContract,
    StableMechanism,
    play,
)
from counterplay.principal.instances import (
    near_tie_contract,
    prosecutor_game,
    random_contract_game,
    random_persuasion_game,
    secret_information_instance,
)
from counterplay.principal.lab import (
    Agent,
    BestResponseMechanism,
    ConstantForecaster,
    EmpiricalMeanForecaster,
    FiniteGame,
    FiniteStableOracle,
    ForecastBestResponseAgent,
    SecretInfoAgent,
    SpitefulAgent,
    best_response,
    gap_adversary,
    optimistic_pair,
)
from principal.games import contract_game, played

AGENTS = (
    FollowRecommendation(),
    ContextualSwapAgent(random_state=1),
    SpitefulAgent(),
    ForecastBestResponseAgent(random_state=2),
)


def stable_plays():
    """Stable mechanisms on different games, forecasters and state sequences."""
    T = 300
    rng = np.random.default_rng(0)
    instance = near_tie_contract(T, random_state=0)
    shares = instance.benchmark[::4]
    near = LinearContractOracle(instance.game, shares, horizon=T)
    yield "near tie", StableMechanism(near, random_state=0), instance.states
    yield "adversary", StableMechanism(near, random_state=1), gap_adversary(3)
    mean = EmpiricalMeanForecaster()
    yield "mean", StableMechanism(near, forecaster=mean, random_state=0), instance.states
    wrong = ConstantForecaster(probabilities=[0.9, 0.1])
    yield "wrong", StableMechanism(near, forecaster=wrong, random_state=0), instance.states
    game = random_contract_game(4, 4, random_state=1)
    thesis = LinearContractOracle(game, [0.1, 0.4, 0.7], horizon=T, tuning="thesis")
    drift = (np.arange(T) // 60) % 4
    yield "four states", StableMechanism(thesis, random_state=0), drift
    biased = (rng.random(T) < 0.3).astype(int)
    for kind in ("logit", "rounding"):
        oracle = PersuasionOracle(prosecutor_game(), beta=0.05, discretization=kind)
        yield f"persuasion {kind}", StableMechanism(oracle, random_state=0), biased
    three = PersuasionOracle(random_persuasion_game(3, random_state=2), horizon=T)
    yield "three strategies", StableMechanism(three, random_state=0), biased
    U, V = rng.uniform(-1, 1, size=(2, 5, 3, 2))
    finite = FiniteStableOracle(FiniteGame(U, V), eps=0.05, beta=0.05, gamma=1.0)
    yield "finite", StableMechanism(finite, random_state=0), biased


@pytest.mark.claim("07.19")
@pytest.mark.parametrize("case", list(stable_plays()), ids=lambda case: case[0])
def test_regret_inequality_on_every_transcript(case):
    _, mechanism, states = case
    game = RepeatedContract(mechanism.game, FollowRecommendation(), states)
    offers = play(mechanism, game, rounds=300 if callable(states) else None)
    for agent in AGENTS:
        transcript = offers.against(agent)
        frame = transcript.regret_bounds()
        assert (frame["regret"] <= frame["bound"] + 1e-12).all()
        assert transcript.policy_regret == pytest.approx(frame["regret"].max())
        if transcript.spec.c is not None:
            assert transcript.measured_loss <= transcript.spec.c + 1e-9


@pytest.mark.claim("07.19")
@pytest.mark.parametrize("first", ["M", "H"])
def test_inequality_survives_secret_information(first):
    T = 500
    instance = secret_information_instance(T, first, random_state=0)
    oracle = LinearContractOracle(instance.game, instance.benchmark, horizon=T)
    transcript = played(
        StableMechanism(oracle, random_state=0), SecretInfoAgent(random_state=0), instance.states
    )
    frame = transcript.regret_bounds()
    assert (frame["regret"] <= frame["bound"]).all()


@pytest.mark.claim("07.19")
def test_inequality_terms_are_those_of_the_theorem():
    T = 200
    instance = near_tie_contract(T, random_state=3)
    oracle = LinearContractOracle(instance.game, [0.3, 0.55], beta=0.2, delta=0.1)
    transcript = played(
        StableMechanism(oracle, random_state=0),
        ContextualSwapAgent(random_state=0),
        instance.states,
    )
    frame = transcript.regret_bounds()
    own, j = transcript.behaviour, 1
    other = transcript.benchmark_behaviours(j)[0]
    a1, a2, a3 = (
        transcript.alpha["choice"],
        transcript.alpha["optimistic"],
        transcript.alpha["benchmark"][j],
    )
    c, margin = 2 * (0.2 + 0.1), 0.25 * 0.2 / 2
    by_hand = (
        c
        + 3 * a1
        + 2 * a2
        + a3
        + (own.swap_regret + own.secret_information + 2 * a1) / margin
        + (other.swap_regret + other.secret_information + 2 * a3) / margin
        + own.secret_information
        + other.secret_information
    )
    assert frame["bound"][j] == pytest.approx(by_hand)


@pytest.mark.claim("07.25")
def test_counterfactuals_use_the_same_world_and_fresh_agents():
    seen = []

    class Recorder(Agent):
        """Remembers what it is shown and what it was told before."""

        def begin(self, game, policies, horizon):
            super().begin(game, policies, horizon)
            self.memory = 0
            seen.append({"policies": tuple(policies), "shown": [], "states": []})

        def act(self, p_idx, r, uniform):
            seen[-1]["shown"].append((p_idx, r, self.memory))
            return r

        def observe(self, p_idx, r, a, y):
            self.memory += 1
            seen[-1]["states"].append(y)

    T = 40
    instance = near_tie_contract(T, random_state=1)
    P0 = (0.2, 0.5, 0.7)
    oracle = LinearContractOracle(instance.game, P0, horizon=T)
    transcript = played(StableMechanism(oracle, random_state=0), Recorder(), instance.states)
    assert len(seen) == 1 + len(P0)
    for game in seen:  # same states, and a fresh memory that counts from zero
        assert game["states"] == instance.states.tolist()
        assert [memory for _, _, memory in game["shown"]] == list(range(T))
    for j, p0 in enumerate(P0):
        game = seen[1 + j]
        assert game["policies"] == (p0,)
        expected = [best_response(instance.game, p0, pi) for pi in transcript["pi"]]
        assert [r for _, r, _ in game["shown"]] == expected == transcript["r0"][:, j].tolist()
    assert any(
        r != r0 for (_, r, _), (_, r0, _) in zip(seen[0]["shown"], seen[1]["shown"])
    )  # the recommendations of the realised game are not reused
    for t in range(T):  # and the stored optimistic pairs belong to the stored forecasts
        pair = optimistic_pair(instance.game, P0, transcript["pi"][t], oracle.margin)
        assert pair == (transcript["init_idx"][t], transcript["init_a"][t])


@pytest.mark.claim("07.25")
def test_replicates_are_averaged_before_the_maximum():
    instance = near_tie_contract(150, random_state=2)
    oracle = LinearContractOracle(instance.game, [0.3, 0.5, 0.7], horizon=150)
    transcript = played(
        StableMechanism(oracle, random_state=0),
        ContextualSwapAgent(random_state=0),
        instance.states,
        replicates=6,
    )
    stage = transcript.stage
    own = np.mean([stage.principal_values(transcript["a"][:, i]).mean() for i in range(6)])
    others = [
        np.mean(
            [
                transcript.benchmark_stages[j].principal_values(transcript["a0"][:, j, i]).mean()
                for i in range(6)
            ]
        )
        for j in range(3)
    ]
    assert transcript.policy_regret == pytest.approx(max(others) - own)
    assert not np.array_equal(transcript["a"][:, 0], transcript["a"][:, 1])
    assert transcript.policy_regret <= transcript.regret_bound


def test_alignment_constants_are_the_smallest():
    instance = near_tie_contract(400, random_state=0)
    mechanism = BestResponseMechanism(instance.game, instance.benchmark[::5], random_state=0)
    transcript = played(mechanism, SpitefulAgent(), instance.states)
    excess, gaps = transcript.alignment_excess
    for M1 in (0.0, 1.0, 3.0):
        M2 = transcript.alignment_constants(M1=M1)
        assert (excess <= M1 * gaps + M2 + 1e-12).all()
        assert M2 == 0.0 or (excess > M1 * gaps + M2 - 1e-9).any()
    assert transcript.alignment_constants(M2=1.0) == 0.0
    assert transcript.policy_regret <= transcript.regret_bound
    with pytest.raises(InvalidInputError, match="exactly one"):
        transcript.alignment_constants()


def test_results_can_be_looked_at():
    mechanism, states = contract_game()
    transcript = played(mechanism, FollowRecommendation(), states)
    assert transcript.to_frame().shape[0] == 40
    assert transcript.plot().get_xlabel() == "round"
    assert "policy regret" in transcript.summary()
    text = repr(mechanism)
    assert text.startswith("StableMechanism(LinearContractOracle(")


def test_general_mechanism_has_its_own_bound():
    mechanism, states = contract_game()
    general = BestResponseMechanism(mechanism.game, mechanism.benchmark, random_state=0)
    for agent in (FollowRecommendation(), SpitefulAgent(), ContextualSwapAgent(random_state=0)):
        transcript = played(general, agent, states)
        frame = transcript.regret_bounds()
        assert (frame["regret"] <= frame["bound"] + 1e-12).all()
