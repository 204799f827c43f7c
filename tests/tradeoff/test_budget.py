"""Budgets from history: coverage, warnings; and alarms that are valid at any time."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.tradeoff import HarmBudget
from counterplay.tradeoff.evidence import BET, Evidence


def ar1(n: int, rho: float, rng: np.random.Generator, paths: int = 1) -> np.ndarray:
    """Harm around .2 that remembers."""
    x = np.empty((n, paths))
    x[0] = rng.standard_normal(paths)
    for t in range(1, n):
        x[t] = rho * x[t - 1] + np.sqrt(1 - rho**2) * rng.standard_normal(paths)
    return np.clip(0.2 + 0.08 * x, 0, 1)


def largest(harm: np.ndarray, rate: float) -> np.ndarray:
    sums = np.vstack([np.zeros(harm.shape[1]), np.cumsum(harm - rate, axis=0)])
    return (sums - np.minimum.accumulate(sums, axis=0)).max(axis=0)


@pytest.mark.claim("26.32")
@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_calibrated_bursts_are_rarely_exceeded(rho: float) -> None:
    rng = np.random.default_rng(32)
    over, recipe, n = 0.0, 0.0, 16
    for _ in range(n):
        history = ar1(100, rho, rng)[:, 0]
        budget = HarmBudget.calibrate(history, horizon=500, random_state=0)
        future = ar1(500, rho, rng, 20)
        over += (largest(future, budget.rate) > budget.burst).mean() / n
        mean = history.mean()
        recipe += (largest(future, mean) > largest(history[:, None], mean)).mean() / n
    assert over <= 0.1
    assert recipe >= 0.6


def test_several_models_share_the_blocks_and_the_largest_counts() -> None:
    rng = np.random.default_rng(0)
    harm = rng.binomial(20, [0.02, 0.1], size=(120, 2)) / 20
    both = HarmBudget.calibrate(harm, horizon=300, random_state=0)
    assert both.rate == both.mean_up >= 0.1
    assert "innocent" in both.summary()
    assert len(both.to_frame()) == 1
    with pytest.warns(AssumptionWarning, match="below what history allows for"):
        low = HarmBudget.calibrate(harm, horizon=300, rate=0.05, random_state=0)
    assert low.burst > both.burst
    assert low.rate == 0.05


def test_short_or_strange_histories_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"30 rounds of history are the least .* got 12"):
        HarmBudget.calibrate(np.zeros(12), horizon=10)
    with pytest.raises(InvalidInputError, match=r"\[0, 1\]"):
        HarmBudget.calibrate(np.full(40, 2.0), horizon=10)


@pytest.mark.claim("26.33")
@pytest.mark.parametrize("c", [0.05, 0.1])
def test_alarms_hold_their_level(c: float) -> None:
    """2,000 streams of 2,000 rounds exactly at the rate, and 100 at twice the rate."""
    rng = np.random.default_rng(33)
    gains = np.log1p(BET * (np.array([0.0, 1.0]) - c))
    steps = gains[(rng.random((2000, 2000)) < c).astype(int)]
    ever = (np.cumsum(steps, axis=1).max(axis=1) >= np.log(20)).mean()
    assert ever <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000)
    double = gains[(rng.random((100, int(40 / c))) < 2 * c).astype(int)]
    assert (np.cumsum(double, axis=1).max(axis=1) >= np.log(20)).mean() >= 0.99


@pytest.mark.claim("26.33")
def test_the_restarting_bet_runs_long_and_notices_a_change() -> None:
    rng = np.random.default_rng(34)
    lengths = []
    for _ in range(20):
        evidence = Evidence(1, 0.1)
        n = 0
        while n < 400 and "change" not in evidence.observe(0, float(rng.random() < 0.1)):
            n += 1
        lengths.append(n + 1)
    assert np.mean(lengths) >= 20
    evidence = Evidence(1, 0.1)
    raised = [evidence.observe(0, 0.5) for _ in range(60)]
    assert ["change", "rate exceeded"] in raised
    assert 0.1 < evidence.lowest_mean(0) < 0.5


@pytest.mark.parametrize("harm", [0.0, 0.1, 1.0])
def test_a_history_that_never_varied_promises_nothing(harm: float) -> None:
    """Where harm is rare, a history of zeros is common, and every future exceeds "rate 0"."""
    with pytest.raises(InvalidInputError, match="what never varied tells nothing about bursts"):
        HarmBudget.calibrate(np.full(100, harm), 1000)
    with pytest.raises(InvalidInputError, match="what never varied"):
        HarmBudget.calibrate(np.full((100, 3), harm), 1000, rate=0.2)
    some = np.column_stack([np.full(100, harm), np.random.default_rng(0).random(100) * 0.2])
    assert HarmBudget.calibrate(some, 1000, random_state=0).burst > 0
