"""Costs that answers reveal, and the least regret that explains them."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from counterplay.errors import InfeasibleError
from counterplay.principal import fit_game
from counterplay.principal.lab import cost_ranges, smallest_regret


@pytest.mark.claim("25.01")
def test_costs_of_three_known_efforts():
    s, f = np.array([0.1, 0.3, 0.6]), np.array([100.0, 400.0, 700.0])
    low, high = cost_ranges(s, f, f)
    assert low == pytest.approx([0, 30, 120], abs=1e-6)
    assert high == pytest.approx([0, 90, 270], abs=1e-6)
    assert smallest_regret(s, f) == pytest.approx(0.0, abs=1e-6)
    noise = np.tile([-1e-9, 1e-9], 30)
    log = pd.DataFrame({"offer": np.repeat(s, 60), "outcome": np.repeat(f, 60) + np.tile(noise, 3)})
    fit = fit_game(log)
    assert fit.response()["estimate"].tolist() == pytest.approx(f, abs=1e-6)
    assert fit.costs()["lower"].tolist() == pytest.approx([0, 30, 120], abs=1e-6)
    assert fit.costs()["upper"].tolist() == pytest.approx([0, 90, 270], abs=1e-6)
    assert fit.smallest_regret == pytest.approx(0.0, abs=1e-6)


@pytest.mark.claim("25.02")
def test_a_falling_response_has_a_price_and_is_rejected():
    assert smallest_regret(np.array([0.2, 0.4]), np.array([500.0, 300.0])) == pytest.approx(20.0)
    rng, sigma = np.random.default_rng(0), np.sqrt(np.log(1.36))
    share = np.repeat([0.2, 0.4], 1000)
    noise = rng.lognormal(-(sigma**2) / 2, sigma, 2000)
    fit = fit_game({"offer": share, "outcome": np.where(share < 0.3, 500.0, 300.0) * noise})
    assert not fit.monotone
    assert fit.smallest_regret == pytest.approx(20.0, abs=2.5)
    assert fit.summary().startswith("WARNING: the response falls where the incentive rises")
    assert fit.response([0.3])["upper"].item() == np.inf  # no statement on untried offers
    assert fit.costs()["lower"].isna().all()


def largest_mean_cycle(s, f):
    """Brute force over all simple cycles; c_j - c_i >= s_i (f_j - f_i) - eps sums to zero."""
    best, pairs = 0.0, 0.0
    s, f = s.tolist(), f.tolist()
    for size in range(2, len(s) + 1):
        for some in itertools.combinations(range(len(s)), size):
            for rest in itertools.permutations(some[1:]):
                cycle = (some[0], *rest)
                following = (*cycle[1:], cycle[0])
                mean = sum(s[i] * (f[j] - f[i]) for i, j in zip(cycle, following)) / size
                best = max(best, mean)
                pairs = max(pairs, mean) if size == 2 else pairs
    return best, pairs


@pytest.mark.claim("25.03")
def test_smallest_regret_is_the_largest_mean_cycle():
    rng, longer = np.random.default_rng(3), 0
    for _ in range(300):
        k = int(rng.integers(2, 7))
        s, f = np.sort(rng.random(k)), rng.random(k)
        found = smallest_regret(s, f)
        cycle, pairs = largest_mean_cycle(s, f)
        assert found == pytest.approx(cycle, abs=1e-7)
        assert found >= pairs - 1e-7
        longer += found > pairs + 1e-6
    assert longer > 0


def test_no_rising_response_is_a_sentence():
    s = np.array([0.1, 0.5])
    with pytest.raises(InfeasibleError, match="no response that rises"):
        cost_ranges(s, np.array([500.0, 100.0]), np.array([600.0, 200.0]))
    low, high = cost_ranges(s, np.array([500.0, 100.0]), np.array([600.0, 200.0]), slack=100.0)
    assert low[1] <= high[1]
