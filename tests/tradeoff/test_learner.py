"""Same seed, same path; a stream plays what the batch run plays; state survives."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from counterplay.errors import ProtocolError
from counterplay.tradeoff import CusumOracle, LossStream, play
from counterplay.tradeoff.lab import BicriteriaLearner, CumulativeLossLearner, Losses

T, K, B, C = 640, 4, 8, 0.2
Learners = Callable[..., dict[str, BicriteriaLearner]]
Maker = Callable[..., tuple[np.ndarray, np.ndarray]]


@pytest.fixture
def game(misbehaving: Maker) -> tuple[np.ndarray, np.ndarray]:
    return misbehaving(T, K, C, 5)


@pytest.mark.claim("09.27")
def test_stream_equals_batch(
    learners: Learners, learner_name: str, game: tuple[np.ndarray, np.ndarray]
) -> None:
    l1, l2 = game
    oracle = CusumOracle(C, 6.0)
    run = play(learners(T, K, B, oracle)[learner_name], LossStream(l1, l2, c=C), fast=True)
    again = play(learners(T, K, B, oracle)[learner_name], LossStream(l1, l2, c=C), fast=True)
    assert np.array_equal(run.path, again.path)
    learner = learners(T, K, B, oracle)[learner_name]
    path = []
    for t in range(T):
        path.append(learner.act())
        learner.observe(Losses(l1[t], l2[t]))
    assert np.array_equal(path, run.path)
    other = play(
        learners(T, K, B, oracle)[learner_name], LossStream(l1, l2, c=C), random_state=99, fast=True
    )
    assert np.array_equal(other.P, run.P)
    assert run.active[np.arange(T), run.path].all()
    assert np.allclose(run.P.sum(axis=1), 1.0, atol=1e-9)
    assert (run.P[~run.active] == 0).all()


@pytest.mark.claim("09.32")
def test_restored_learner_continues_exactly(
    learners: Learners, learner_name: str, game: tuple[np.ndarray, np.ndarray]
) -> None:
    l1, l2 = game
    learner = learners(T, K, B, CusumOracle(C, 6.0))[learner_name]
    for t in range(301):
        learner.act()
        learner.observe(Losses(l1[t], l2[t]))
    restored = type(learner).from_json(learner.to_json())
    if isinstance(restored, CumulativeLossLearner):
        with pytest.raises(ProtocolError, match="rule was not stored"):
            restored.act()
        restored = CumulativeLossLearner.from_json(learner.to_json(), learner.rule)
    for t in range(301, T):
        assert restored.act() == learner.act()
        learner.observe(Losses(l1[t], l2[t]))
        restored.observe(Losses(l1[t], l2[t]))


@pytest.mark.claim("09.35")
@pytest.mark.parametrize("learner_name", ["epoch-sd", "lazy-hedge", "reactivation-coupled"])
def test_memory_does_not_grow_with_the_rounds(learners: Learners, learner_name: str) -> None:
    rounds = 6000
    rng = np.random.default_rng(0)
    l1, l2 = rng.random(K), np.full(K, C)
    learner = learners(rounds, K, B, CusumOracle(C, 6.0))[learner_name]
    tracemalloc.start()
    sizes = []
    for t in range(rounds):
        learner.act()
        learner.observe(Losses(l1, l2))
        if t in (1000, rounds - 1):
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[1] - sizes[0] < 4096
    assert len(learner.to_json()) < 12_000


def test_replicates_share_one_law_and_differ(
    learners: Learners, game: tuple[np.ndarray, np.ndarray]
) -> None:
    l1, l2 = game
    for name in ("epoch-sd", "deactivation", "reactivation", "restart-at-reset"):
        learner = learners(T, K, B, CusumOracle(C, 6.0))[name]
        run = play(learner, LossStream(l1, l2, c=C, replicates=3000), fast=True)
        assert run.paths.shape == (3000, T)
        for t in (0, 100, T - 1):
            share = np.bincount(run.paths[:, t], minlength=K) / 3000
            spread = np.sqrt(run.P[t] * (1 - run.P[t]) / 3000)
            assert (np.abs(share - run.P[t]) <= 5 * spread + 1e-9).all()
        mean = l2[np.arange(T), run.paths].sum(axis=1)
        error = mean.std() / np.sqrt(3000)
        assert abs(mean.mean() - C * T - run.secondary_regret(clip=False)) <= 5 * error + 1e-9
