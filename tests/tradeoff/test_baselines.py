"""Learners of cumulative losses only: what counts as such a learner."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.core.online import Hedge, ShrinkingDartboard
from counterplay.errors import InvalidInputError
from counterplay.tradeoff import (
    CusumOracle,
    LossStream,
    ReactivationLearner,
    bounds,
    instances,
    play,
)
from counterplay.tradeoff.lab import AdaNormalHedge, CumulativeLossLearner, RestartAtReset


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


def test_baselines_on_burst() -> None:
    """Restarting loses what was learned; AdaNormalHedge keeps it but switches more."""
    T, K, alpha = 2**15, 8, 0.4
    game = instances.burst(T, alpha, K, 7)
    oracle = CusumOracle(game.c, game.threshold, resets=game.meta["resets"])
    runs = {
        cls.__name__: play(
            cls(T, K, alpha, oracle=oracle), LossStream(game.l1, game.l2, replicates=0), fast=True
        )
        for cls in (ReactivationLearner, RestartAtReset, AdaNormalHedge)
    }
    regret = {name: run.sleeping_regret(clip=False).max() for name, run in runs.items()}
    assert regret["AdaNormalHedge"] < regret["ReactivationLearner"] < regret["RestartAtReset"]
    segments = np.diff([*game.meta["resets"], T])
    rounds = runs["RestartAtReset"].active[:, 0]
    edges = [*game.meta["resets"], T]
    lived = [int(rounds[a:b].sum()) for a, b in zip(edges, edges[1:])]
    assert len(lived) == len(segments)
    assert regret["RestartAtReset"] <= bounds.restart_sleeping(lived, K, round(T**alpha))
