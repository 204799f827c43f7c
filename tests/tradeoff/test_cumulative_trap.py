"""Learners of cumulative losses only: the trap, and what counts as such a learner."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.core.online import FollowTheLeader, Hedge, ScalarLearner, ShrinkingDartboard
from counterplay.errors import InvalidInputError
from counterplay.tradeoff import EpochLearner, LossStream, bounds, burst_check, instances, play
from counterplay.tradeoff.lab import CumulativeLossLearner, burst_threshold


@pytest.mark.claim("09.25")
@pytest.mark.parametrize("T", [10**5, 10**6])
def test_good_event_matches_the_cumulative_losses(T: int) -> None:
    for world in (1, 2, 3):
        for seed in range(3):
            game = instances.cumulative_trap(T, 0.8, 0.5, world, random_state=seed)
            M = (world - 1) * game.meta["interval"]
            assert game.meta["good_event"]
            assert game.l1[:M].sum(axis=0).tolist() == [M / 2, M / 2]
            half = M + game.meta["interval"] // 2
            assert (game.l1[half:] == 1.0).all()


@pytest.mark.claim("09.25")
@pytest.mark.parametrize("learner", [Hedge(), FollowTheLeader()], ids=repr)
def test_worlds_look_alike(learner: ScalarLearner) -> None:
    zero = instances.cumulative_trap(10**5, 0.8, 0.5, 0)
    for world in (1, 2, 3):
        other = instances.cumulative_trap(10**5, 0.8, 0.5, world, random_state=world)
        interval = zero.meta["interval"]
        rows = slice((world - 1) * interval, (world - 1) * interval + interval // 2)
        here = learner.marginals(zero.l1)[rows]
        there = learner.marginals(other.l1)[rows]
        assert np.abs(here - there).max() <= 1e-12


@pytest.mark.claim("09.25")
@pytest.mark.parametrize("T", [10**5, 10**6])
@pytest.mark.parametrize("learner", [Hedge(), FollowTheLeader()], ids=repr)
def test_expected_worst_regret_is_large(learner: ScalarLearner, T: int) -> None:
    total, n = 0.0, instances.cumulative_trap(T, 0.8, 0.5, 0).meta["intervals"]
    for world in range(n + 1):
        worst = []
        for seed in range(1 if world == 0 else 3):
            game = instances.cumulative_trap(T, 0.8, 0.5, world, random_state=seed)
            run = play(
                EpochLearner(game.T, 2, B=1, learner=learner),
                LossStream(game.l1, game.l2, c=game.c, replicates=0),
                fast=True,
            )
            worst.append(max(run.primary_regret(clip=False), run.secondary_regret(clip=False)))
        total += game.meta["probability"] * float(np.mean(worst))
    assert total >= bounds.cumulative_trap(game.T, 0.8)
    assert total >= 0.1 * game.T**0.9


def test_leader_in_world_zero_has_the_exact_secondary_regret() -> None:
    game = instances.cumulative_trap(10**5, 0.8, 0.5, 0)
    run = play(
        EpochLearner(game.T, 2, B=1, learner=FollowTheLeader()),
        LossStream(game.l1, game.l2, c=game.c, replicates=0),
        fast=True,
    )
    exact = 0.25 * game.T**0.8 * game.T / game.T ** ((1 + 0.8) / 2)
    assert run.secondary_regret(clip=False) == pytest.approx(exact, rel=2e-3)


def test_the_trap_keeps_the_burst_budget() -> None:
    for world in (0, 2):
        game = instances.cumulative_trap(10**5, 0.8, 0.5, world, random_state=0)
        check = burst_check(game.l2, game.c, burst_threshold(len(game.l2), game.delta, game.alpha))
        assert check
        assert check.excess.max() / game.threshold < 0.7


@pytest.mark.parametrize("alpha", [0.5, 0.6, 0.7, 0.8, 0.9])
def test_bound_becomes_positive_where_stated(alpha: float) -> None:
    stated = {0.5: 1.9e7, 0.6: 8.1e5, 0.7: 9.0e4, 0.8: 1.8e4, 0.9: 5.2e3}[alpha]
    assert bounds.cumulative_trap(round(stated * 1.05), alpha) > 0
    assert bounds.cumulative_trap(round(stated * 0.95), alpha) < 0


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"T": 10**5, "alpha": 0.8, "c": 0.5, "world": 4}, "world"),
        ({"T": 12, "alpha": 0.5, "c": 0.5, "world": 2}, "window does not fit"),
        ({"T": 10**5, "alpha": 0.9, "c": 0.1, "world": 0}, "swing"),
        ({"T": 7, "alpha": 1.0, "c": 0.5, "world": 0}, "shorter than one interval"),
    ],
)
def test_bad_traps_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        instances.cumulative_trap(**arguments)  # type: ignore[arg-type]  # mixed
