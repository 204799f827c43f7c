"""Simulated people and whole questionnaires, for the tests of what survives their slips."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.elicitation import NoisyUser, ReliableElicitor, answered_by


def regret(values: FloatArray, w: FloatArray, item: int, *, ranged: bool = False) -> float:
    """The true regret of an item."""
    worth = values @ w
    scale = worth.max() - worth.min() if ranged else worth.max()
    return float((worth.max() - worth[item]) / scale)


def person(w: FloatArray, seed: int, **noise: Any) -> NoisyUser:
    """A simulated person; the length of the weights does not matter to a choice."""
    return NoisyUser(w / np.linalg.norm(w), 0.0, random_state=seed, **noise)


def questionnaire(seed: int, k: int, n: int, flip: float, **settings: Any) -> tuple[Any, float]:
    """Result and true regret of a flat person on uniform items."""
    rng = np.random.default_rng([26, seed])
    values, w = rng.random((n, k)), rng.dirichlet(np.ones(k))
    session = ReliableElicitor(values, check_every=0, random_state=seed, **settings)
    result = answered_by(session, person(w, seed, flip_prob=flip))
    return result, regret(values, w, result.item)
