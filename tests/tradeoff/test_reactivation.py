"""Experts that come back: potential, bounds with constants, the repaired stand-ins."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from counterplay.core.online import Hedge
from counterplay.errors import InvalidInputError
from counterplay.tradeoff import (
    CusumOracle,
    LossStream,
    ReactivationLearner,
    bounds,
    instances,
    play,
)
from counterplay.tradeoff.lab import AdaNormalHedge

Maker = Callable[..., tuple[np.ndarray, np.ndarray]]


def by_definition(
    pseudo: np.ndarray, active: np.ndarray, fresh: np.ndarray, eta: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The algorithm line by line with all K x K weights (no logarithms, no grouping)."""
    E, K = pseudo.shape
    w = np.full((K, K), 1 / K)
    P, keep, total = np.empty((E, K)), np.zeros((E, K)), np.empty(E)
    previous = None
    for m in range(E):
        total[m] = w.sum()
        weight = active[m] @ w
        P[m] = weight / weight.sum()
        if previous is not None and not fresh[m]:
            keep[m] = weight / previous
        expected = P[m] @ pseudo[m]
        w = w * eta ** (active[m][:, None] * (pseudo[m][None, :] - eta * expected) + 1)
        previous = weight
    return P, keep, total


def random_instance(seed: int) -> tuple[np.ndarray, np.ndarray, ReactivationLearner]:
    rng = np.random.default_rng(seed)
    K, B = int(rng.integers(2, 9)), int(rng.integers(1, 6))
    E = int(rng.integers(bounds.reactivation_epochs(K), 300))
    T, c = E * B, 0.3
    l1 = rng.random((T, K)) * rng.random(K)
    l2 = np.clip(rng.normal(c, 0.2, (T, K)), 0, 1)
    for h in range(K - 1):
        start = int(rng.integers(0, T))
        l2[start : start + T // 5, h] = rng.uniform(c, 1)
    l2[:, -1] = np.minimum(l2[:, -1], c)
    N = int(rng.integers(0, 8))
    resets = sorted({0, *(int(B * m) for m in rng.integers(1, E, N))})
    granularity = "round" if seed % 4 == 3 else "epoch"
    oracle = CusumOracle(c, float(rng.uniform(2, 12)), resets=resets, granularity=granularity)
    return l1, l2, ReactivationLearner(T, K, B=B, oracle=oracle, random_state=seed)


@pytest.mark.claim("09.20")
@pytest.mark.parametrize("seed", range(25))
def test_potential_and_keep_probabilities(seed: int) -> None:
    l1, l2, learner = random_instance(seed)
    trace = learner.trace(l1, l2)
    assert (trace.potential <= trace.potential_bound + 1e-9).all()
    assert (trace.keep >= 0).all()
    assert (trace.keep <= 1 + 1e-12).all()
    assert trace.groups <= learner.K


@pytest.mark.claim("09.20")
@pytest.mark.parametrize("seed", range(8))
def test_grouped_rows_equal_the_algorithm_line_by_line(seed: int) -> None:
    l1, l2, learner = random_instance(seed)
    run = learner.oracle.judge(l2, B=learner.grid.B, granularity="epoch")
    starts = learner.grid.starts
    pseudo = np.add.reduceat(np.where(run.active, l1, 1.0), starts, axis=0) / learner.grid.B
    fresh = np.isin(starts, run.resets)
    P, keep, total = by_definition(pseudo, run.active[starts], fresh, learner.base)
    trace = learner.trace(l1, l2)
    assert np.allclose(trace.marginals, P, rtol=0, atol=1e-10)
    assert np.allclose(trace.keep, keep, rtol=0, atol=1e-9)
    assert np.allclose(trace.potential, np.log(total), rtol=0, atol=1e-9)


@pytest.mark.claim("09.21")
def test_sleeping_regret_bound_on_random_instances() -> None:
    ratios, draws = [], []
    for seed in range(120):
        l1, l2, learner = random_instance(seed)
        run = play(learner, LossStream(l1, l2, replicates=0), fast=True)
        grid, K = learner.grid, learner.K
        late = len(run.activity.resets) if learner.oracle.granularity == "round" else 0
        limit = [
            bounds.reactivation_sleeping(grid.rounds, K, grid.B, int(n), late)
            for n in run.active.sum(axis=0)
        ]
        ratios.append((run.sleeping_regret(clip=False) / limit).max())
        D = len({event.off_from // grid.B for event in run.activity.events})
        most = bounds.reactivation_draws(grid.E, K, D, len(run.activity.resets) - 1)
        draws.append((1 + run.plan.sampler.expected_redraws) / most)
    assert max(ratios) <= 1
    assert max(draws) <= 1


@pytest.mark.claim("09.21")
@pytest.mark.parametrize("N", [3, 15])
def test_without_restoring_standins_the_bound_fails(N: int) -> None:
    T, alpha, K = 2**17, 0.4, 8
    game = instances.burst(T, alpha, K, N)
    oracle = CusumOracle(game.c, game.threshold, resets=game.meta["resets"])
    worst = {}
    for restore in (True, False):
        learner = ReactivationLearner(T, K, alpha, oracle=oracle, restore=restore)
        run = play(learner, LossStream(game.l1, game.l2, replicates=0), fast=True)
        limit = [
            bounds.reactivation_sleeping(T, K, learner.grid.B, int(n))
            for n in run.active.sum(axis=0)
        ]
        worst[restore] = float((run.sleeping_regret(clip=False) / limit).max())
    assert worst[True] < 0.5
    assert worst[False] > 1.5


@pytest.mark.claim("09.22")
def test_one_segment_and_nobody_off_is_hedge() -> None:
    rng = np.random.default_rng(0)
    T, K, B = 3000, 5, 10
    l1 = rng.random((T, K))
    learner = ReactivationLearner(T, K, B=B, oracle=CusumOracle(1.0, 1.0))
    averages = l1.reshape(-1, B, K).mean(axis=1)
    hedge = Hedge(-math.log(learner.base)).marginals(averages)
    trace = learner.trace(l1, l1)
    assert np.allclose(trace.marginals, hedge, rtol=0, atol=1e-12)
    assert trace.groups == 1


@pytest.mark.claim("09.23")
def test_a_million_epochs_without_underflow() -> None:
    T, K = 10**6, 10
    rng = np.random.default_rng(0)
    l1 = rng.random((T, K))
    learner = ReactivationLearner(T, K, B=1)
    trace = learner.trace(l1, l1)
    assert np.isfinite(trace.marginals).all()
    assert np.isfinite(trace.potential).all()
    assert np.allclose(trace.marginals.sum(axis=1), 1.0, atol=1e-12)
    assert (trace.keep[1:] > 0).all()
    assert learner.base**T == 0.0 or learner.base**T < 1e-300  # plain weights would be gone


@pytest.mark.claim("09.23")
def test_short_horizons_are_refused_with_the_numbers() -> None:
    with pytest.raises(
        InvalidInputError, match=r"at least 54 epochs for K=10, got 40 \(lower alpha or B\)"
    ):
        ReactivationLearner(400, 10, B=10)
    assert ReactivationLearner(540, 10, B=10).base >= 1 / math.sqrt(2)
    for K in (2, 3, 10, 100, 1000):
        E = bounds.reactivation_epochs(K)
        assert 1 - math.sqrt(2 * math.log(K) / E) >= 1 / math.sqrt(2) - 1e-12
        assert 1 - math.sqrt(2 * math.log(K) / (E - 1)) < 1 / math.sqrt(2)


@pytest.mark.claim("09.24")
@pytest.mark.parametrize("N", [0, 3, 15])
def test_secondary_bound_and_overshoot(N: int) -> None:
    T, alpha, K = 2**17, 0.4, 8
    game = instances.burst(T, alpha, K, N)
    oracle = CusumOracle(game.c, game.threshold, resets=game.meta["resets"])
    learner = ReactivationLearner(T, K, alpha, oracle=oracle)
    run = play(learner, LossStream(game.l1, game.l2, replicates=0), fast=True)
    D = run.activity.deactivating_rounds
    assert D == N + 1
    regret = run.secondary_regret(clip=False)
    bound = bounds.reactivation_secondary(
        T, K, learner.grid.B, game.threshold, game.c, D, len(run.activity.resets) - 1
    )
    assert regret <= bound
    assert regret / game.threshold > N + 1


@pytest.mark.claim("09.24")
@pytest.mark.parametrize("seed", range(20))
def test_secondary_bound_on_random_instances(seed: int) -> None:
    l1, l2, learner = random_instance(seed)
    run = play(learner, LossStream(l1, l2, replicates=0), fast=True)
    grid, oracle = learner.grid, learner.oracle
    D = len({event.off_from // grid.B for event in run.activity.events})
    bound = bounds.reactivation_secondary(
        grid.rounds, learner.K, grid.B, oracle.threshold, oracle.c, D, len(run.activity.resets) - 1
    )
    assert run.secondary_regret(clip=False) <= bound
    assert run.guarantees["secondary regret"] == pytest.approx(bound)
    assert run.expected_switches <= run.guarantees["expected switches"]


@pytest.mark.claim("09.34")
@pytest.mark.parametrize("seed", range(10))
def test_coupling_keeps_the_marginals_with_fewer_switches(seed: int) -> None:
    l1, l2, learner = random_instance(seed)
    lazy = learner.plan(l1, l2)
    learner.sampling = "coupling"
    coupled = learner.plan(l1, l2)
    assert np.array_equal(lazy.marginals, coupled.marginals)
    assert coupled.expected_switches <= lazy.expected_switches + 1e-9
    assert np.array_equal(lazy.expected(l2), coupled.expected(l2))


def test_many_replicates_follow_the_marginals() -> None:
    l1, l2, learner = random_instance(2)
    plan = learner.plan(l1, l2)
    n = 20_000
    choices = plan.sample_choices(n, random_state=0)
    share = np.stack([(choices == h).mean(axis=0) for h in range(learner.K)], axis=1)
    spread = np.sqrt(plan.marginals * (1 - plan.marginals) / n)
    assert (np.abs(share - plan.marginals) <= 5.5 * spread + 1e-9).all()


def test_round_granularity_reacts_within_the_epoch() -> None:
    game = instances.burst(2**13, 0.4, 4, 3)
    arguments = {"resets": game.meta["resets"]}
    harm = {}
    for granularity in ("round", "epoch"):
        oracle = CusumOracle(game.c, game.threshold, granularity=granularity, **arguments)  # type: ignore[arg-type]  # literals
        learner = ReactivationLearner(2**13, 4, 0.4, oracle=oracle)
        harm[granularity] = play(
            learner, LossStream(game.l1, game.l2, replicates=0), fast=True
        ).secondary_regret(clip=False)
    assert harm["round"] < harm["epoch"]


def test_activity_from_outside_equals_the_watchdog(misbehaving: Maker) -> None:
    T, K, c = 900, 4, 0.2
    l1, l2 = misbehaving(T, K, c, 1)
    oracle = CusumOracle(c, 5.0, resets=300)
    inside = ReactivationLearner(T, K, B=10, oracle=oracle, random_state=0)
    mask = oracle.judge(l2, B=10, granularity="epoch").active
    outside = ReactivationLearner(T, K, B=10, random_state=0)
    assert np.allclose(inside.plan(l1, l2).marginals, outside.plan(l1, active=mask).marginals)
    stream = LossStream(l1, l2, active=mask, c=c)
    law = play(outside, stream, fast=True)
    assert np.array_equal(play(outside, stream).path, law.path)


@pytest.mark.claim("09.36")
def test_adanormalhedge_keeps_its_bound() -> None:
    ratios = []
    for seed in range(80):
        l1, l2, other = random_instance(seed)
        learner = AdaNormalHedge(other.horizon, other.K, B=other.grid.B, oracle=other.oracle)
        run = play(learner, LossStream(l1, l2, replicates=0), fast=True)
        late = len(run.activity.resets) if other.oracle.granularity == "round" else 0
        limit = [
            bounds.adanormalhedge_sleeping(other.horizon, other.K, other.grid.B, int(n), late)
            for n in run.active.sum(axis=0)
        ]
        ratios.append((run.sleeping_regret(clip=False) / limit).max())
    assert max(ratios) <= 1


@pytest.mark.parametrize("eta", [0.5, 1.01, float("nan")])
def test_bad_base_is_refused(eta: float) -> None:
    with pytest.raises(InvalidInputError, match="eta"):
        ReactivationLearner(1000, 3, B=10, eta=eta)
