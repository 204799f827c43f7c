"""Large scale: the same numbers as a loop, few histories; speed as ratios in the slow tests."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from counterplay.core.online import ShrinkingDartboard
from counterplay.tradeoff import CusumOracle, EpochLearner, LazyHedge, ReactivationLearner
from counterplay.tradeoff.lab import Losses


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def loop_over_rounds(l1: np.ndarray, eta: float, out: np.ndarray) -> None:
    """The same learner as a plain NumPy loop: cumulative losses, softmax, one row per round."""
    log_base = np.log1p(-eta)
    total = np.zeros(l1.shape[1])
    for t in range(len(l1)):
        weights = log_base * total
        weights -= weights.max()
        np.exp(weights, out=weights)
        weights /= weights.sum()
        out[t] = weights
        total += l1[t]


def long_game(T: int, K: int) -> tuple[ShrinkingDartboard, np.ndarray]:
    learner = LazyHedge(T, K, threshold=100.0).learner
    assert isinstance(learner, ShrinkingDartboard)
    return learner, np.random.default_rng(0).random((T, K))


@pytest.mark.claim("09.29")
def test_exact_marginals_are_those_of_a_loop() -> None:
    learner, l1 = long_game(40_000, 100)
    fast, slow = np.zeros_like(l1), np.zeros_like(l1)
    learner.marginals(l1, out=fast)
    loop_over_rounds(l1, learner.eta, slow)
    assert np.allclose(fast, slow, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.claim("09.29")
def test_exact_marginals_are_many_times_faster_than_a_loop() -> None:
    learner, l1 = long_game(40_000, 100)
    out = np.zeros_like(l1)
    learner.marginals(l1, out=out)  # compile
    quick = seconds(lambda: learner.marginals(l1, out=out))
    plain = seconds(lambda: loop_over_rounds(l1, learner.eta, out), repeats=1)
    assert plain / quick > 12  # measured above 30, see benchmarks/bench_tradeoff.py


def two_take_downs(E: int, K: int) -> tuple[ReactivationLearner, np.ndarray, np.ndarray]:
    l1 = np.random.default_rng(0).random((E, K))
    l2 = np.full((E, K), 0.1)
    l2[3000:3400, 20:40] = 0.5
    l2[7000:7400, 35:60] = 0.5
    oracle = CusumOracle(0.1, 20.0, resets=5000)
    return ReactivationLearner(E, K, B=1, oracle=oracle), l1, l2


@pytest.mark.claim("09.29")
def test_reactivation_with_many_experts_follows_few_histories() -> None:
    learner, l1, l2 = two_take_downs(10_000, 100)
    assert learner.trace(l1, l2).groups <= 10


@pytest.mark.slow
@pytest.mark.claim("09.29")
def test_reactivation_with_many_experts_is_fast() -> None:
    E, K = 10_000, 100
    learner, l1, l2 = two_take_downs(E, K)
    learner.trace(l1[:2], l2[:2])  # compile
    taken = seconds(lambda: learner.trace(l1, l2), repeats=1)
    start = time.process_time()
    w = np.full((K, K), 1 / K)
    for m in range(200):  # the K x K weights, line by line
        p = w.sum(axis=0)
        p = p / p.sum()
        w = w * 0.99 ** (l1[m][None, :] - 0.99 * (p @ l1[m]) + 1)
    line_by_line = (time.process_time() - start) * E / 200
    assert taken < line_by_line
    assert taken < 5.0  # CPU seconds


@pytest.mark.slow
@pytest.mark.claim("09.29")
def test_a_million_rounds_and_a_hundred_experts() -> None:
    T, K = 10**6, 100
    l1 = np.random.default_rng(0).random((T, K))
    learner = EpochLearner(T, K, 0.5)
    learner.plan(l1[:1000])
    assert seconds(lambda: learner.plan(l1), repeats=2) < 2.0  # CPU seconds


@pytest.mark.slow
def test_twenty_thousand_replicates_cost_less_than_fifty_in_a_loop() -> None:
    T, K, B = 3000, 4, 10
    rng = np.random.default_rng(0)
    l1, l2 = rng.random((T, K)), np.full((T, K), 0.1)
    learner = ReactivationLearner(T, K, B=B, oracle=CusumOracle(0.1, 20.0, resets=1000))
    plan = learner.plan(l1, l2)
    plan.sample_choices(2, 0)  # compile
    batch = seconds(lambda: plan.sample_choices(20_000, 0), repeats=1)

    def one_by_one() -> None:
        fresh = ReactivationLearner(T, K, B=B, oracle=learner.oracle, random_state=0)
        for t in range(T):
            fresh.act()
            fresh.observe(Losses(l1[t], l2[t]))

    one_by_one()
    assert batch < 50 * seconds(one_by_one, repeats=1)
