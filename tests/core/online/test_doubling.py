"""The doubling trick: right order at every prefix."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.core.online import Doubling, ExploreThenCommit, FollowTheLeader
from counterplay.core.online.explore_then_commit import exploration_rounds
from counterplay.errors import InvalidInputError
from counterplay.tradeoff import bounds


@pytest.mark.parametrize("K", [2, 16])
@pytest.mark.parametrize("kind", ["coins", "one-good", "leader-killing"])
def test_regret_at_every_prefix(kind: str, K: int) -> None:
    E = 700
    rng = np.random.default_rng(K)
    losses = rng.integers(0, 2, (E, K)).astype(float)
    if kind == "one-good":
        losses = np.ones((E, K))
        losses[:, -1] = 0.0
    if kind == "leader-killing":
        losses = np.eye(K)[np.arange(E) % K]
    learner = Doubling()
    played = np.cumsum((learner.marginals(losses) * losses).sum(axis=1))
    regret = played - np.cumsum(losses, axis=0).min(axis=1)
    limit = np.array([bounds.doubling_regret(m, K) for m in range(1, E + 1)])
    assert (regret <= limit).all()
    assert learner.expected_switches(losses) <= bounds.doubling_switches(E, K)


def test_blocks_start_uniform_at_one_less_than_a_power_of_two() -> None:
    losses = np.zeros((31, 3))
    losses[:, 0] = 1.0
    P = Doubling().marginals(losses)
    uniform = np.flatnonzero(np.ptp(P, axis=1) < 1e-12)
    assert uniform.tolist() == [0, 1, 3, 7, 15]


def test_follow_the_leader_and_explore_then_commit_by_hand() -> None:
    losses = np.array([[1.0, 0.0, 0.5], [0.0, 0.6, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    assert FollowTheLeader().sample(losses, random_state=0)[0].tolist() == [0, 1, 2, 1]
    assert ExploreThenCommit(2).sample(losses, random_state=0)[0].tolist() == [0, 0, 2, 2]
    assert exploration_rounds(K=4, horizon=100, gap=0.5) == int(np.ceil(8 * np.log(400)))


def test_explore_then_commit_finds_the_best_expert_for_independent_losses() -> None:
    rng = np.random.default_rng(0)
    T, means = 2000, np.array([0.5, 0.5, 0.3, 0.55])
    losses = (rng.random((50, T, 4)) < means).astype(float)
    committed = [ExploreThenCommit(gap=0.2).sample(run, random_state=0)[0, -1] for run in losses]
    assert committed == [2] * 50  # fails with probability at most 50 / T per union bound


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="either n0"):
        ExploreThenCommit()
    with pytest.raises(InvalidInputError, match="either n0"):
        ExploreThenCommit(5, gap=0.1)
    with pytest.raises(InvalidInputError, match="base must be a ScalarLearner"):
        Doubling("sd")  # type: ignore[arg-type]  # deliberately wrong
