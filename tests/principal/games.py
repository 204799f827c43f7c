"""A repeated contract in one call, for tests that play many."""

from __future__ import annotations

from typing import Any

from counterplay.principal import RepeatedContract, play
from counterplay.principal.lab import Agent, ContractTranscript, Mechanism


def played(
    mechanism: Mechanism, agent: Agent, states: Any, *, rounds: int | None = None, **options: Any
) -> ContractTranscript:
    """Play ``mechanism`` on its own stage game."""
    return play(
        mechanism, RepeatedContract(mechanism.game, agent, states, **options), rounds=rounds
    )
