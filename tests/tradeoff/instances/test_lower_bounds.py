"""Hard instances: exact identities, slopes, lower bounds for everybody."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.core.online import (
    FollowLazyLeader,
    FollowPerturbedLeader,
    FollowTheLeader,
    Hedge,
    MaximalCouplingSampler,
    ScalarLearner,
)
from counterplay.errors import InvalidInputError
from counterplay.tradeoff import (
    EpochLearner,
    LazyHedge,
    LossStream,
    bounds,
    burst_check,
    instances,
    play,
)
from counterplay.tradeoff.instances import SwitchTax
from counterplay.tradeoff.lab import (
    CallableSecondary,
    anytime,
    burst_threshold,
    check_stint_budget,
    stints,
)


def random_path(rng: np.random.Generator, T: int, K: int, stay: float) -> np.ndarray:
    path = rng.integers(0, K, T)
    for t in range(1, T):
        if rng.random() < stay:
            path[t] = path[t - 1]
    return path


@pytest.mark.claim("09.11")
@pytest.mark.parametrize("seed", range(15))
def test_secondary_regret_is_delta_times_truncated_stints(seed: int) -> None:
    rng = np.random.default_rng(seed)
    T, K, B, c, delta = 300, 4, int(rng.integers(1, 25)), 0.2, 0.5
    path = random_path(rng, T, K, float(rng.uniform(0, 1)))
    tax = SwitchTax(K, c, delta, B)
    by_definition = np.array([tax.losses(t, path[:t])[path[t]] for t in range(T)])
    assert np.array_equal(tax.played(path), by_definition)
    everybody = np.array([tax.losses(t, path[:t]) for t in range(T)])
    assert np.array_equal(tax.realise(path), everybody)
    _, lengths = stints(path)
    regret = (by_definition - c).sum()
    assert regret == pytest.approx(delta * np.minimum(lengths, B).sum(), abs=1e-9)


@pytest.mark.claim("09.11")
def test_epoch_learners_pay_exactly_per_switch() -> None:
    game = instances.adaptive_switch_tax(1024, 0.5, 4, 0.2, 0.5, random_state=0)
    B = game.meta["B"]
    for learner in (None, Hedge(), FollowLazyLeader()):
        run = play(
            EpochLearner(1024, 4, 0.5, learner=learner, random_state=1),
            LossStream(game.l1, game.l2, c=game.c, replicates=50),
            fast=True,
        )
        regret = run.suffered.sum(axis=1) - game.c * 1024
        assert np.allclose(regret, 0.5 * B * (run.switches + 1), atol=1e-9)


@pytest.mark.claim("09.12")
def test_stint_budget_holds_but_interval_budget_does_not() -> None:
    rng = np.random.default_rng(0)
    T, K, B, c, delta = 400, 3, 20, 0.2, 0.5
    tax = SwitchTax(K, c, delta, B)
    for stay in (0.0, 0.5, 0.9, 0.99, 1.0):
        path = random_path(rng, T, K, stay)
        assert check_stint_budget(tax.played(path), path, c, delta * B)
    restless = tax.realise(random_path(rng, T, K, 0.5))
    assert not burst_check(restless, c, burst_threshold(len(restless), delta, 0.5)).ok.any()
    loyal = np.zeros(T, dtype=int)
    assert burst_check(
        tax.realise(loyal)[:, [0]], c, burst_threshold(len(tax.realise(loyal)[:, [0]]), delta, 0.5)
    )


@pytest.mark.claim("09.13")
def test_lazy_learner_has_the_right_slope_and_hedge_has_not() -> None:
    scaled: dict[str, list[float]] = {"lazy": [], "restless": []}
    for T in (2**12, 2**14, 2**16):
        found: dict[str, list[float]] = {"lazy": [], "restless": []}
        for seed in range(40):
            game = instances.adaptive_switch_tax(T, 0.5, 4, 0.2, 0.5, random_state=seed)
            coins = game.l1[:: game.meta["B"]]
            lazy = EpochLearner(T, 4, 0.5).learner.expected_switches(coins)
            restless = Hedge().expected_switches(coins)
            for name, switches in (("lazy", lazy), ("restless", restless)):
                found[name].append(0.5 * game.meta["B"] * (switches + 1))  # claim 09.11
        for name, values in found.items():
            scaled[name].append(float(np.mean(values)) / T**0.75)
    lazy_values = np.array(scaled["lazy"])
    assert (np.abs(lazy_values / lazy_values[0] - 1) <= 0.25).all()
    assert scaled["restless"][-1] / scaled["restless"][0] > 1.5


@pytest.mark.claim("09.14")
@pytest.mark.parametrize(
    ("E", "K", "value"),
    [
        (10_000, 2, 0.3388), (10_000, 3, 0.4037), (10_000, 4, 0.4371),
        (10_000, 10, 0.5070), (10_000, 100, 0.5842), (1, 2, 0.3003),
    ],
)  # fmt: skip
def test_constant_of_the_minimum(E: int, K: int, value: float) -> None:
    assert round(bounds.minimum_constant(E, K), 4) == value


@pytest.mark.claim("09.14")
def test_expected_minimum_by_enumeration() -> None:
    from itertools import product

    total = [min(map(sum, coins)) for coins in product(product((0, 1), repeat=3), repeat=3)]
    assert bounds.binomial_minimum(3, 3) == pytest.approx(np.mean(total), abs=1e-12)


@pytest.mark.claim("09.14")
@pytest.mark.parametrize(
    "learner",
    [
        None,
        Hedge(),
        FollowTheLeader(),
        FollowLazyLeader(),
        FollowPerturbedLeader(),
        MaximalCouplingSampler(Hedge()),
        anytime("doubling"),
        anytime("decreasing"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("K", [2, 10])
def test_lower_bound_holds_for_all_learners(learner: object, K: int) -> None:
    T, alpha, delta = 2**12, 0.5, 0.5
    first, second = [], []
    for seed in range(30):
        game = instances.adaptive_switch_tax(T, alpha, K, 0.2, delta, random_state=seed)
        run = play(
            EpochLearner(T, K, alpha, learner=learner, random_state=seed),
            LossStream(game.l1, game.l2, c=game.c, replicates=10),
            fast=True,
        )
        first.append(run.primary_regret(clip=False))
        second.append(run.secondary_regret(clip=False))
    bound = bounds.switch_tax(T, K, 64, delta)
    assert max(np.mean(first), np.mean(second)) >= bound


def test_thesis_inequality_fails_where_the_corrected_one_holds() -> None:
    """A learner that peeks at the first round of each epoch gains the whole rest of it."""
    rng = np.random.default_rng(0)
    E, B, K, n = 100, 20, 10, 200
    losses, gains = [], []
    for _ in range(n):
        coins = rng.integers(0, 2, (E, K))
        current, loss, gain = 0, 0, 0
        for row in coins:
            if row[current] == 0:
                continue
            good = np.flatnonzero(row == 0)
            if not good.size:
                loss += B
                continue
            loss += 1  # the first round is lost, then it leaves for a good expert
            gain += B - 1
            current = int(good[0])
        losses.append(loss)
        gains.append(gain)
    T = E * B
    claimed = T / 2 - 0.5 * np.mean(gains)
    corrected = T / 2 - np.mean(gains)
    assert np.mean(losses) < 0.2 * claimed
    assert np.mean(losses) == pytest.approx(corrected, abs=5 * np.std(gains) / np.sqrt(n) + 5)


@pytest.mark.claim("09.15")
def test_laziness_divides_the_tax_by_more_than_five() -> None:
    T = 2**14
    ratios = []
    for seed in range(10):
        game = instances.adaptive_switch_tax(T, 0.5, 4, 0.2, 0.5, random_state=seed)
        rate = EpochLearner(T, 4, 0.5).learner
        step = -math.log1p(-min(0.5, math.sqrt(math.log(4) / 128)))
        coins = game.l1[::128]
        ratios.append(
            (Hedge(step).expected_switches(coins) + 1) / (rate.expected_switches(coins) + 1)
        )
    assert min(ratios) > 5


def test_lazy_hedge_needs_no_epochs() -> None:
    game = instances.adaptive_switch_tax(2**12, 0.5, 4, 0.2, 0.5, random_state=0)
    learner = LazyHedge(2**12, 4, threshold=game.threshold, random_state=0)
    run = play(learner, LossStream(game.l1, game.l2, c=game.c, replicates=200), fast=True)
    assert not run.exact
    interval = run.secondary_interval()
    assert interval.low <= run.secondary_regret(clip=False) <= interval.high
    assert interval.high <= learner.guarantees()["secondary regret"]


def test_bad_taxes_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"c \+ delta"):
        instances.adaptive_switch_tax(100, 0.5, 2, 0.6, 0.5)
    with pytest.raises(InvalidInputError, match="K must be at least 2"):
        instances.adaptive_switch_tax(100, 0.5, 1, 0.1, 0.5)
    with pytest.raises(InvalidInputError, match="2 values in round 0, expected 3"):
        CallableSecondary(lambda t, a: [0.0, 0.0], 3).losses(0, np.array([], dtype=int))


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
                EpochLearner(game.rounds, 2, B=1, learner=learner),
                LossStream(game.l1, game.l2, c=game.c, replicates=0),
                fast=True,
            )
            worst.append(max(run.primary_regret(clip=False), run.secondary_regret(clip=False)))
        total += game.meta["probability"] * float(np.mean(worst))
    assert total >= bounds.cumulative_trap(game.rounds, 0.8)
    assert total >= 0.1 * game.rounds**0.9


def test_leader_in_world_zero_has_the_exact_secondary_regret() -> None:
    game = instances.cumulative_trap(10**5, 0.8, 0.5, 0)
    run = play(
        EpochLearner(game.rounds, 2, B=1, learner=FollowTheLeader()),
        LossStream(game.l1, game.l2, c=game.c, replicates=0),
        fast=True,
    )
    exact = 0.25 * game.rounds**0.8 * game.rounds / game.rounds ** ((1 + 0.8) / 2)
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rounds": 10**5, "alpha": 0.8, "c": 0.5, "world": 4}, "world"),
        ({"rounds": 12, "alpha": 0.5, "c": 0.5, "world": 2}, "window does not fit"),
        ({"rounds": 10**5, "alpha": 0.9, "c": 0.1, "world": 0}, "swing"),
        ({"rounds": 7, "alpha": 1.0, "c": 0.5, "world": 0}, "shorter than one interval"),
    ],
)
def test_bad_traps_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        instances.cumulative_trap(**arguments)  # type: ignore[arg-type]  # mixed
