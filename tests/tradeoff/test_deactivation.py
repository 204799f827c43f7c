"""Experts that are switched off for good: invariants, bounds, restarts."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.tradeoff import (
    CusumOracle,
    DeactivationLearner,
    LossStream,
    bounds,
    instances,
    play,
)
from counterplay.tradeoff.lab import Losses, RestartOnDeactivation, stints
from counterplay.tradeoff.plan import epoch_averages

Maker = Callable[..., tuple[np.ndarray, np.ndarray]]


@pytest.mark.claim("09.16")
@pytest.mark.parametrize("fallback", ["best_primary", "min_cusum", "first"])
@pytest.mark.parametrize("seed", range(4))
def test_invariants_in_every_round(misbehaving: Maker, seed: int, fallback: str) -> None:
    T, K, c = 600, 5, 0.2
    l1, l2 = misbehaving(T, K, c, seed)
    learner = DeactivationLearner(
        T, K, B=20, oracle=CusumOracle(c, 8.0), fallback=fallback, random_state=seed,  # type: ignore[arg-type]  # parametrised
    )  # fmt: skip
    expected = learner.oracle.judge(l2).active
    pseudo = np.zeros(K)
    for t in range(T):
        active, standin = learner.active, learner.standin
        assert np.array_equal(active, expected[t])
        assert (standin[active] == np.flatnonzero(active)).all()
        assert active[standin].all()
        played = learner.act()
        assert active[played]
        before = learner._sum.copy()
        learner.observe(Losses(l1[t], l2[t]))
        pseudo = np.where(active, l1[t], 1.0)
        grown = learner._sum if (t + 1) % 20 else None
        if grown is not None:
            assert np.allclose(grown - before, pseudo, atol=1e-12)
    assert not expected.all()


@pytest.mark.claim("09.16")
def test_pseudo_losses_in_batch_are_one_on_inactive_experts() -> None:
    rng = np.random.default_rng(0)
    l1, active = rng.random((50, 3)), rng.random((50, 3)) < 0.5
    averages = epoch_averages(l1, np.arange(0, 50, 7), 7, active)
    pseudo = np.where(active, l1, 1.0)
    assert np.allclose(averages, np.add.reduceat(pseudo, np.arange(0, 50, 7), axis=0) / 7)


@pytest.mark.claim("09.17")
@pytest.mark.parametrize("kind", ["doubling", "decreasing"])
@pytest.mark.parametrize("seed", range(6))
def test_stints_and_secondary_regret_keep_their_bounds(
    misbehaving: Maker, seed: int, kind: str
) -> None:
    T, K, c, thr = 1500, 6, 0.2, 10.0
    l1, l2 = misbehaving(T, K, c, seed)
    learner = DeactivationLearner(
        T,
        K,
        B=15,
        oracle=CusumOracle(c, thr),
        anytime=kind,
        random_state=0,  # type: ignore[arg-type]  # parametrised
    )
    run = play(learner, LossStream(l1, l2, replicates=30), fast=True)
    for path in run.paths:
        starts, _ = stints(path)
        excess = np.add.reduceat(l2[np.arange(T), path] - c, starts)
        assert excess.max() <= thr + (1 - c) + 1e-9
    D = run.activity.deactivating_rounds
    bound = bounds.deactivation_secondary(thr, run.expected_switches, D, c)
    assert run.secondary_regret(clip=False) <= bound
    if kind == "doubling":
        assert run.expected_switches <= run.guarantees["expected switches"]
        assert bound <= run.guarantees["secondary regret"] + 1e-9
        rounds = run.active.sum(axis=0)
        limits = [bounds.deactivation_sleeping(int(n), K, 15) for n in rounds]
        assert (run.sleeping_regret(clip=False) <= limits).all()


@pytest.mark.claim("09.17")
def test_only_anytime_tuning_gives_the_prefix_bound() -> None:
    ratios: dict[str | None, list[float]] = {None: [], "doubling": [], "decreasing": []}
    for T in (2**12, 2**14, 2**16):
        K, alpha = 16, 0.4
        B = round(T**alpha)
        T_h = round(0.5 * B * math.sqrt(math.ceil(T / B) * math.log(K)))
        game = instances.prefix_star(T, alpha, K, T_h)
        for kind, found in ratios.items():
            learner = DeactivationLearner(
                T,
                K,
                alpha,
                oracle=CusumOracle(game.c, game.threshold),
                anytime=kind,  # type: ignore[arg-type]  # literal keys
            )
            run = play(learner, LossStream(game.l1, game.l2, replicates=0), fast=True)
            assert run.active[:, 0].sum() == T_h
            regret = run.sleeping_regret(clip=False)[0]
            found.append(regret / math.sqrt(math.log(K) * T_h * T**alpha))
    fixed, doubling, decreasing = ratios.values()
    assert fixed[-1] / fixed[0] > 1.4
    assert abs(doubling[-1] / doubling[0] - 1) < 0.25
    assert decreasing[-1] < decreasing[0]


@pytest.mark.claim("09.18")
@pytest.mark.parametrize("kind", [None, "doubling"])
def test_staggered_deactivations(kind: str | None) -> None:
    T, alpha = 2**15, 0.3
    found: dict[type, list[float]] = {DeactivationLearner: [], RestartOnDeactivation: []}
    for K in (4, 8, 16, 32):
        game = instances.staggered(T, alpha, K)
        for cls, values in found.items():
            learner = cls(T, K, alpha, oracle=CusumOracle(game.c, game.threshold), anytime=kind)
            run = play(learner, LossStream(game.l1, game.l2, replicates=0), fast=True)
            assert tuple(run.active.sum(axis=0)[:-1]) == game.meta["times"]
            scale = math.sqrt(math.log(K) * T ** (1 + alpha))
            values.append(run.sleeping_regret(clip=False)[-1] / scale)
    steady, restarting = found.values()
    assert max(steady) / min(steady) - 1 < 0.15
    assert restarting[-1] / restarting[0] > (5 if kind is None else 2.5)


@pytest.mark.claim("09.19")
@pytest.mark.parametrize("kind", ["doubling", "decreasing"])
def test_ladder(kind: str) -> None:
    T, alpha = 2**18, 0.3
    multiples = []
    for K in range(2, 7):
        game = instances.deactivation_ladder(T, alpha, K)
        learner = DeactivationLearner(
            T,
            K,
            alpha,
            oracle=CusumOracle(game.c, game.threshold),
            anytime=kind,  # type: ignore[arg-type]  # parametrised
        )
        run = play(learner, LossStream(game.l1, game.l2, replicates=0), fast=True)
        assert tuple(run.active.sum(axis=0)) == game.meta["times"]
        least = bounds.ladder_secondary(
            game.meta["lengths"], game.meta["excess"], run.sleeping_regret(clip=False)
        )
        assert run.secondary_regret(clip=False) >= least - 1e-6
        multiples.append(run.secondary_regret(clip=False) / game.threshold)
    steps = np.diff(multiples)
    assert ((steps >= 0.5) & (steps <= 0.9)).all()


@pytest.mark.claim("09.19")
def test_the_half_in_the_ladder_matters() -> None:
    """With the thesis' excess thr / n_k the strict inequality fires one round later."""
    T, alpha, K, c, delta = 2**14, 0.3, 4, 0.2, 0.5
    times = [round(T ** (alpha + k * (1 - alpha) / (K - 1))) for k in range(K)]
    lengths = np.diff(times, prepend=0)
    thr = delta * T**alpha
    started = np.arange(T)[:, None] >= (np.array(times) - lengths)
    l2 = np.where(started, c + thr / lengths, c)
    late = CusumOracle(c, thr).judge(l2).active.sum(axis=0)
    assert late[:-1].tolist() == [n + 1 for n in times[:-1]]
    game = instances.deactivation_ladder(T, alpha, K, c, delta)
    exact = CusumOracle(c, thr).judge(game.l2).active.sum(axis=0)
    assert exact.tolist() == times


def test_ladder_refuses_too_many_experts() -> None:
    with pytest.raises(InvalidInputError, match="fewer experts"):
        instances.deactivation_ladder(1000, 0.5, 8)
    with pytest.raises(InvalidInputError, match="would reach"):
        instances.deactivation_ladder(2**14, 0.3, 3, c=0.7, delta=0.9)


def test_activity_can_come_from_outside(misbehaving: Maker) -> None:
    T, K, c = 300, 4, 0.2
    l1, l2 = misbehaving(T, K, c, 3)
    active = CusumOracle(c, 5.0).judge(l2).active
    inside = DeactivationLearner(T, K, B=10, oracle=CusumOracle(c, 5.0), random_state=0)
    outside = DeactivationLearner(T, K, B=10, random_state=0)
    expected = play(inside, LossStream(l1, l2), fast=True)
    assert np.array_equal(
        play(outside, LossStream(l1, l2, active=active, c=c), fast=True).path, expected.path
    )
    path = []
    for t in range(T):
        path.append(outside.act(active[t]))
        outside.observe(Losses(l1[t], l2[t], active_next=active[min(t + 1, T - 1)]))
    assert np.array_equal(path, expected.path)


def test_misuse_is_refused(misbehaving: Maker) -> None:
    l1, l2 = misbehaving(100, 3, 0.2, 0)
    mask = np.ones((100, 3), dtype=bool)
    watched = DeactivationLearner(100, 3, B=10, oracle=CusumOracle(0.2, 50.0))
    with pytest.raises(InvalidInputError, match="without an oracle"):
        play(watched, LossStream(l1, l2, active=mask), fast=True)
    with pytest.raises(InvalidInputError, match="without an oracle"):
        watched.observe(Losses(l1[0], l2[0], active_next=mask[0]))
    free = DeactivationLearner(100, 3, B=10)
    free.act()
    with pytest.raises(InvalidInputError, match="differs from what"):
        free.act([True, False, True])
    with pytest.raises(InvalidInputError, match="round 1: every expert is deactivated"):
        free.observe(Losses(l1[0], l2[0], active_next=np.zeros(3, dtype=bool)))
    with pytest.raises(InvalidInputError, match="without resets"):
        DeactivationLearner(100, 3, B=10, oracle=CusumOracle(0.2, 5.0, resets=50))
    with pytest.raises(InvalidInputError, match="min_cusum"):
        DeactivationLearner(100, 3, B=10, fallback="min_cusum")
    with pytest.raises(InvalidInputError, match="CusumOracle or None"):
        DeactivationLearner(100, 3, B=10, oracle="watchdog")  # type: ignore[arg-type]  # wrong
