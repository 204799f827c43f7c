"""The switch-tax instance: exact identities, slopes, lower bound for everybody."""

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
)
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.tradeoff import (
    CusumOracle,
    DeactivationLearner,
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


def test_plain_functions_can_be_adaptive_losses() -> None:
    def tax(t: int, actions: np.ndarray) -> list[float]:
        moved = t > 0 and (t < 2 or actions[-1] != actions[-2])
        return [0.9 if moved else 0.1] * 3

    l1 = np.random.default_rng(0).random((60, 3))
    run = play(
        EpochLearner(60, 3, B=10, random_state=0),
        LossStream(l1, tax, c=0.1, replicates=3),
        fast=True,
    )
    direct = CallableSecondary(tax, 3)
    assert np.array_equal(run.suffered, direct.played(run.paths))
    assert direct.realise(run.paths[0]).shape == (60, 3)


def test_adaptive_losses_with_a_watchdog_warn_and_still_play() -> None:
    game = instances.adaptive_switch_tax(256, 0.5, 3, 0.2, 0.5, random_state=0)
    watchdog = CusumOracle(0.2, 200.0)
    learner = DeactivationLearner(256, 3, 0.5, oracle=watchdog, random_state=0)
    with pytest.warns(AssumptionWarning, match="adaptive"):
        run = play(learner, LossStream(game.l1, game.l2), fast=True)
    assert run.path.shape == (256,)
    assert run.plan is None
    assert run.secondary_regret(clip=False) == pytest.approx(
        game.l2.played(run.path).sum() - 0.2 * 256
    )
    with pytest.warns(AssumptionWarning), pytest.raises(InvalidInputError, match="replicates"):
        play(learner, LossStream(game.l1, game.l2, replicates=2), fast=True)


def test_bad_taxes_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"c \+ delta"):
        instances.adaptive_switch_tax(100, 0.5, 2, 0.6, 0.5)
    with pytest.raises(InvalidInputError, match="K must be at least 2"):
        instances.adaptive_switch_tax(100, 0.5, 1, 0.1, 0.5)
    with pytest.raises(InvalidInputError, match="2 values in round 0, expected 3"):
        CallableSecondary(lambda t, a: [0.0, 0.0], 3).losses(0, np.array([], dtype=int))
