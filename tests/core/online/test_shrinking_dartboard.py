"""Shrinking Dartboard: exact law, regret and number of draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from counterplay.core.online import Hedge, ShrinkingDartboard
from counterplay.core.online.shrinking_dartboard import dartboard_rate
from counterplay.errors import InvalidInputError
from counterplay.tradeoff import bounds


@pytest.mark.claim("09.06")
def test_twenty_thousand_replicates_follow_the_softmax() -> None:
    rng = np.random.default_rng(0)
    E, K, n = 40, 5, 20_000
    losses = rng.random((E, K))
    eta = dartboard_rate(K, E)
    before = np.vstack([np.zeros(K), np.cumsum(losses, axis=0)[:-1]])
    weights = (1 - eta) ** before
    law = weights / weights.sum(axis=1, keepdims=True)
    paths = ShrinkingDartboard().sample(losses, n, random_state=1)
    p_values = [
        stats.chisquare(np.bincount(paths[:, i], minlength=K), n * law[i]).pvalue for i in range(E)
    ]
    assert min(p_values) > 1e-4
    assert np.allclose(ShrinkingDartboard().marginals(losses), law, atol=1e-13)


@pytest.mark.claim("09.07")
@pytest.mark.parametrize("K", [2, 10, 100])
@pytest.mark.parametrize("E", [100, 400, 1600])
@pytest.mark.parametrize("kind", ["coins", "uniform", "leader-killing", "ones", "zeros"])
def test_regret_and_draws_keep_their_bounds(kind: str, E: int, K: int) -> None:
    rng = np.random.default_rng(E + K)
    losses = {
        "coins": lambda: rng.integers(0, 2, (E, K)).astype(float),
        "uniform": lambda: rng.random((E, K)),
        "leader-killing": lambda: np.eye(K)[np.arange(E) % K],
        "ones": lambda: np.ones((E, K)),
        "zeros": lambda: np.zeros((E, K)),
    }[kind]()
    learner = ShrinkingDartboard()
    chain = learner.chain(losses)
    best = losses.sum(axis=0).min()
    loss = float((chain.marginals * losses).sum())
    eta = dartboard_rate(K, E)
    assert loss <= bounds.dartboard_loss(best, K, eta) + 1e-9
    assert loss - best <= bounds.dartboard_regret(E, K)
    assert chain.expected_redraws <= bounds.dartboard_redraws(best, K, eta) + 1e-9
    assert chain.expected_switches <= chain.expected_redraws + 1e-12
    assert chain.expected_switches <= bounds.dartboard_switches(E, K)
    if kind == "zeros":
        assert chain.expected_switches == 0.0
        assert len(np.unique(learner.sample(losses, 50, random_state=0)[:, [0, -1]], axis=1)) == 50


def test_adversary_that_raises_the_leaders_loss_is_leader_killing() -> None:
    losses = np.eye(4)[np.arange(40) % 4]
    sums = np.vstack([np.zeros(4), np.cumsum(losses, axis=0)[:-1]])
    assert np.array_equal(sums.argmin(axis=1), losses.argmax(axis=1))


def test_fractional_losses_are_not_a_zero_one_test() -> None:
    losses = np.full((2, 2), 0.5)
    keep = ShrinkingDartboard(0.36).chain(losses).keep[1]
    assert np.allclose(keep, math.sqrt(0.64))


def test_rate_is_capped_and_trivial_for_one_expert() -> None:
    assert dartboard_rate(100, 3) == 0.5
    assert dartboard_rate(1, 100) == 0.0
    assert dartboard_rate(10, 100) == pytest.approx(0.15174, abs=1e-5)


def test_same_marginals_as_hedge_with_step_minus_log() -> None:
    losses = np.random.default_rng(3).random((200, 6))
    eta = dartboard_rate(6, 200)
    hedge = Hedge(-math.log1p(-eta)).marginals(losses)
    assert np.allclose(hedge, ShrinkingDartboard().marginals(losses), rtol=0, atol=1e-14)


@pytest.mark.parametrize("eta", [1.0, -0.1, float("nan")])
def test_bad_rates_are_refused(eta: float) -> None:
    with pytest.raises(InvalidInputError, match="eta"):
        ShrinkingDartboard(eta)
