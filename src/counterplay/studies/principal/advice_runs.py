"""Runs with a game: insured advice, and guarded forecasts inside the stable mechanism."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.principal import (
    ContextualSwapAgent,
    LinearContractGame,
    LinearContractOracle,
    RecentAverage,
    RepeatedContract,
    StableMechanism,
    UnbiasedForecaster,
    play,
)
from counterplay.principal.lab import ConstantMechanism, SpitefulAgent, insured

GAME = LinearContractGame([[0.0, 0.0], [0.3, 0.5], [0.4, 1.0]], [0.0, 0.08, 0.25])
INSIDE = ("no base", "log right", "log wrong", "no log")
"""Base of the forecaster inside: none; shares of the states as an old log has them; averages."""


def insured_run(kind: str, advice: float, seed: int) -> dict[str, float]:
    """Value with the net, of the stable mechanism and of the advice alone; round of the switch."""
    rounds = 1500
    streams = np.random.default_rng(seed).spawn(2)
    states = (streams[0].random(rounds) < 0.6).astype(np.int64)
    oracle = LinearContractOracle(GAME, np.linspace(0, 1, 21), horizon=rounds)
    agent = ContextualSwapAgent if kind == "swap" else SpitefulAgent
    run = insured(
        StableMechanism(oracle, random_state=seed), advice, agent(), states, random_state=streams[1]
    )
    game = RepeatedContract(GAME, agent(random_state=seed), states)
    stable = play(StableMechanism(oracle, random_state=seed), game).principal_values.mean()
    alone = play(ConstantMechanism(GAME, advice, random_state=seed),
                 RepeatedContract(GAME, agent(random_state=seed), states))  # fmt: skip
    until = run.switch or rounds
    before = run.arm[:until], states[:until]
    return {
        "insured": run.value,
        "stable": float(stable),
        "advice": run.mean(0),
        "alone": float(alone.principal_values.mean()),
        "switch": float(run.switch or rounds + 1),
        "correlation": abs(float(np.corrcoef(*before)[0, 1])) * np.sqrt(until),
    }


def inside_run(kind: str, base: str, rounds: int, seed: int) -> dict[str, float]:
    """Regret of the stable mechanism by the base of its forecaster; states may shift half-way."""
    stream, agents, mechanisms = np.random.default_rng(seed).spawn(3)
    good = np.full(rounds, 0.6)
    if kind.endswith("shift"):
        good[rounds // 2 :] = 0.2
    states = (stream.random(rounds) < good).astype(np.int64)
    given: Any = {
        "no base": None,
        "log right": lambda context: np.array([0.4, 0.6]),
        "log wrong": lambda context: np.array([0.8, 0.2]),
        "no log": RecentAverage(),
    }[base]
    oracle = LinearContractOracle(GAME, np.linspace(0, 1, 21), horizon=rounds)
    mechanism = StableMechanism(
        oracle, forecaster=UnbiasedForecaster(base=given), random_state=mechanisms
    )
    agent = ContextualSwapAgent if kind.startswith("swap") else SpitefulAgent
    found = play(mechanism, RepeatedContract(GAME, agent(random_state=agents), states))
    return {"regret": float(found.policy_regret)}
