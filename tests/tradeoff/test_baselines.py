"""Learners of cumulative losses only: what counts as such a learner."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.core.online import Hedge, ShrinkingDartboard
from counterplay.errors import InvalidInputError
from counterplay.tradeoff import LossStream, play
from counterplay.tradeoff.lab import CumulativeLossLearner


@pytest.mark.claim("09.26")
def test_rules_that_use_time_are_rejected() -> None:
    def with_time(L1: np.ndarray, L2: np.ndarray, t: int) -> np.ndarray:
        return np.ones(2) / 2

    class Counting:
        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, L1: np.ndarray, L2: np.ndarray) -> np.ndarray:
            self.calls += 1
            p = 1 / (1 + self.calls)
            return np.array([p, 1 - p])

    for rule in (with_time, ShrinkingDartboard(), ShrinkingDartboard, "rule", lambda L: L):
        with pytest.raises(InvalidInputError, match="rule must"):
            CumulativeLossLearner(rule, 10, 2)  # type: ignore[arg-type]  # deliberately wrong
    l1 = np.random.default_rng(0).random((40, 2))
    with pytest.raises(InvalidInputError, match="two different answers"):
        play(CumulativeLossLearner(Counting(), 40, 2), LossStream(l1, l1, c=0.5), fast=True)
    with pytest.raises(InvalidInputError, match="probabilities"):
        play(
            CumulativeLossLearner(lambda a, b: [1.0, 0.0, 0.0], 40, 2),
            LossStream(l1, l1, c=0.5),
            fast=True,
        )


@pytest.mark.claim("09.26")
def test_a_rule_of_cumulative_losses_is_accepted_and_equals_hedge() -> None:
    l1 = np.random.default_rng(0).random((200, 3))
    eta = math.sqrt(8 * math.log(3) / 200)

    def rule(L1: np.ndarray, L2: np.ndarray) -> np.ndarray:
        weights = np.exp(-eta * (L1 - L1.min()))
        return np.asarray(weights / weights.sum())

    run = play(
        CumulativeLossLearner(rule, 200, 3, random_state=0), LossStream(l1, l1, c=0.5), fast=True
    )
    assert np.allclose(run.P, Hedge().marginals(l1), atol=1e-12)
