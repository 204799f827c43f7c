"""Repeated contracts, stages and forecast runs that several tests share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from counterplay.principal import (
    LinearContractOracle,
    RepeatedContract,
    StableMechanism,
    UnbiasedForecaster,
    play,
)
from counterplay.principal.instances import near_tie_contract, random_contract_game
from counterplay.principal.lab import (
    Agent,
    ContractTranscript,
    FiniteGame,
    Mechanism,
    Stage,
    best_response,
)


def played(
    mechanism: Mechanism, agent: Agent, states: Any, *, rounds: int | None = None, **options: Any
) -> ContractTranscript:
    """Play ``mechanism`` on its own stage game."""
    return play(
        mechanism, RepeatedContract(mechanism.game, agent, states, **options), rounds=rounds
    )


def contract_game():
    """A short near-tie contract: the mechanism and the states."""
    instance = near_tie_contract(40, random_state=0)
    oracle = LinearContractOracle(instance.game, [0.3, 0.5, 0.7], horizon=40)
    return StableMechanism(oracle, random_state=0), instance.states


def random_stage(seed, rounds=60, n_actions=3, n_states=3, n_policies=3):
    """Offers, states and the Agent's actions, all random."""
    rng = np.random.default_rng(seed)
    U, V = rng.uniform(-1, 1, size=(2, n_policies, n_actions, n_states))
    stage = Stage(
        FiniteGame(U, V),
        tuple(range(n_policies)),
        rng.integers(0, n_policies, rounds),
        rng.integers(0, n_actions, rounds),
        rng.integers(0, n_states, rounds),
    )
    return stage, rng.integers(0, n_actions, rounds)


def contract_events(n_states, seed=0):
    """The 63 decision events of a stable mechanism."""
    game = random_contract_game(3, n_states, random_state=seed)
    oracle = LinearContractOracle(game, np.linspace(0.1, 0.9, 5), beta=0.1, delta=0.1)
    return StableMechanism(oracle).events()


def outcome(kind, t, n, rng, forecaster):
    """The next outcome of a sequence; the adversary sees the lottery, never the draw."""
    if kind == "adversarial":
        mixture = forecaster.mixture()
        gains = mixture.weights @ np.array([forecaster.gain(x) for x in mixture.points])
        return int(np.argmin(gains))
    if kind == "periodic":
        return (t // 7) % n
    tilt = 0.0 if kind == "iid" else 0.5 + 0.5 * math.sin(t / 100)
    weights = np.linspace(1, 3, n) * (1 - tilt) + np.linspace(3, 0.5, n) * tilt
    return int(rng.choice(n, p=weights / weights.sum()))


def run(kind, n, rounds, seed, **options):
    """A forecaster after some rounds on the decision events."""
    forecaster = UnbiasedForecaster(
        n, events=contract_events(n, seed), horizon=rounds, random_state=seed, **options
    )
    rng = np.random.default_rng(1000 + seed)
    for t in range(rounds):
        y = outcome(kind, t, n, rng, forecaster)
        forecaster.predict_one()
        forecaster.learn_one(y)
    return forecaster


def value(game, scheme, mu):
    """What a scheme is worth to the Principal at prior mu, when the Agent best responds."""
    pi = np.array([1 - mu, mu])
    return game.UV([scheme], pi)[1][0, 0, best_response(game, scheme, pi)]
