"""The bounded-burst assumption: CUSUM, worst intervals, needed budgets and rates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.tradeoff import (
    CusumOracle,
    burst_check,
    instances,
    required_budget,
    required_rate,
)
from counterplay.tradeoff.bursts import worst_intervals
from counterplay.tradeoff.lab import burst_threshold, check_stint_budget, cusum


def brute_force(l2: np.ndarray, c: float) -> np.ndarray:
    """Largest excess of an interval ending in each round, over all O(T^2) intervals."""
    T, K = l2.shape
    out = np.empty((T, K))
    for t in range(T):
        sums = np.cumsum((l2[: t + 1] - c)[::-1], axis=0)
        out[t] = sums.max(axis=0)
    return out


def recursion(l2: np.ndarray, c: float) -> np.ndarray:
    level, out = np.zeros(l2.shape[1]), np.empty(l2.shape)
    for t, row in enumerate(l2):
        level = np.maximum(level, 0) + row - c
        out[t] = level
    return out


@pytest.mark.claim("09.05")
@pytest.mark.parametrize("seed", range(100))
def test_cusum_equals_recursion_and_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    l2, c = rng.random((60, 3)), float(rng.uniform(0.3, 0.7))
    expected = brute_force(l2, c)
    assert np.allclose(cusum(l2, c), expected, rtol=0, atol=1e-12)
    assert np.allclose(recursion(l2, c), expected, rtol=0, atol=1e-12)
    threshold = float(np.quantile(expected, 0.8))
    if threshold <= 0:
        return
    oracle = CusumOracle(c, threshold, on_empty="error").start(3, 61)
    for t in range(59):
        already = (expected[:t] > threshold + 1e-9).any(axis=0)
        fires = ~already & (expected[t] > threshold + 1e-9)
        left = ~already & ~fires
        if not left.any():
            with pytest.raises(InvalidInputError, match="every expert is deactivated"):
                oracle.observe(l2[t])
            return
        assert np.array_equal(oracle.observe(l2[t]), fires)


@settings(max_examples=100, deadline=None)
@given(
    hnp.arrays(float, st.tuples(st.integers(1, 30), st.integers(1, 3)), elements=st.floats(0, 1)),
    st.floats(0, 1),
)
def test_worst_interval_is_an_interval_with_that_excess(l2: np.ndarray, c: float) -> None:
    excess, start, end = worst_intervals(l2, c)
    assert np.allclose(excess, brute_force(l2, c).max(axis=0), rtol=0, atol=1e-9)
    for h in range(l2.shape[1]):
        assert (l2[start[h] : end[h] + 1, h] - c).sum() == pytest.approx(excess[h], abs=1e-9)


@pytest.mark.claim("09.33")
@pytest.mark.parametrize("seed", range(20))
def test_required_rate_is_the_smallest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    l2 = rng.random((80, 4)) ** 2
    budget = float(rng.uniform(0.5, 6))
    rates = required_rate(l2, budget)
    for h, rate in enumerate(rates):
        column = l2[:, [h]]
        assert brute_force(column, rate).max() <= budget + 1e-8
        if rate > 0:
            assert brute_force(column, rate - 1e-6).max() > budget
    assert required_rate(np.zeros((5, 1)), 0.0).tolist() == [0.0]
    assert required_rate(np.ones((5, 1)), 0.0).tolist() == [pytest.approx(1.0)]


def test_check_says_who_and_where() -> None:
    l2 = np.full((100, 3), 0.2)
    l2[30:50, 1] = 0.9
    result = burst_check(l2, 0.2, burst_threshold(len(l2), 0.5, 0.5))
    assert not result
    assert result.ok.tolist() == [True, False, True]
    assert (result.start[1], result.end[1]) == (30, 49)
    assert result.excess[1] == pytest.approx(14.0)
    assert "rounds 30..49" in result.summary()
    assert result.to_frame().loc[1, "excess"] == pytest.approx(14.0)
    assert required_budget(l2, 0.2).quantile(1.0) == pytest.approx(14.0)
    assert burst_check(l2, 0.2, burst_threshold(len(l2), 1.0, 0.6))


def test_the_threshold_itself_is_allowed_despite_rounding() -> None:
    l2 = np.full((30, 1), 0.3 + 0.1)  # ten times 0.1 above the rate is not exactly 1 in floats
    assert burst_check(l2[:10], 0.3, burst_threshold(len(l2[:10]), 1.0, 0.0))
    assert not burst_check(l2[:11], 0.3, burst_threshold(len(l2[:11]), 1.0, 0.0))


@pytest.mark.parametrize("seed", range(10))
def test_random_bounded_keeps_its_budget(seed: int) -> None:
    game = instances.random_bounded(400, 4, c=0.3, threshold=2.5 + seed, random_state=seed)
    assert game.threshold == pytest.approx(2.5 + seed)
    assert burst_check(game.l2, game.c, burst_threshold(len(game.l2), game.delta, game.alpha))
    assert required_budget(game.l2, game.c).max() == pytest.approx(2.5 + seed)


def test_stint_budget() -> None:
    played = np.full(10, 0.6)
    path = np.array([0, 0, 0, 1, 1, 1, 1, 0, 0, 0])
    assert check_stint_budget(played, path, c=0.5, threshold=0.4)
    assert not check_stint_budget(played, path, c=0.5, threshold=0.39)
    with pytest.raises(InvalidInputError, match="same length"):
        check_stint_budget(played[:5], path, c=0.5, threshold=0.4)


def test_useless_budgets_warn() -> None:
    with pytest.warns(AssumptionWarning, match="below one round"):
        burst_check(np.zeros((100, 1)), 0.5, burst_threshold(len(np.zeros((100, 1))), 0.01, 0.5))
    with pytest.warns(AssumptionWarning, match="alpha = 1"):
        burst_check(np.zeros((100, 1)), 0.5, burst_threshold(len(np.zeros((100, 1))), 0.5, 1.0))
