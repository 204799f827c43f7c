"""Exact formulas against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.invariance import bounds, instances
from counterplay.invariance.lab import (
    ERM,
)


def test_bounds_of_the_sample_sizes() -> None:
    assert bounds.m_da(1, 0.1, 0.05) == 649_516
    assert bounds.m_da(5, 0.1, 0.05) == 4_305_315
    assert bounds.m_da(0, 0.1, 0.05) < 1000


def within(values, expected, sigmas=4.0) -> None:
    values = np.asarray(values, dtype=float)
    error = values.std(ddof=1) / np.sqrt(values.size)
    assert abs(values.mean() - expected) <= sigmas * error + 1e-12, (values.mean(), expected)


@pytest.mark.claim("11.20")
def test_agnostic_excess() -> None:
    d, gamma, m = 4, 0.2, 20
    M = 100 * m // d
    excess = []
    for seed in range(300):
        case = instances.agnostic_lower_bound(d, gamma, M, random_state=seed)
        X, y = case.distribution.sample(m, seed + 10_000)
        erm = ERM(case.problem, case.group, tie="random", random_state=seed + 50_000).fit(X, y)
        share = case.target.reshape(d, M).mean(axis=1)
        chosen = erm.predict(np.arange(d) * M)
        # Excess over the better constant, with the biases of the model instead of the draw.
        wrong = chosen != (share > 0.5)
        excess.append(2 * gamma * wrong.mean())
    within(excess, bounds.agnostic_excess(d, gamma, m))
    grid = [(4, 0.05), (4, 0.1), (16, 0.05), (16, 0.1)]
    spread = {}
    for c in (0.05, 0.2):
        values = [bounds.agnostic_excess(d, 2 * e, round(c * d / e**2)) / e for d, e in grid]
        for (d, e), value in zip(grid, values):
            m = round(c * d / e**2)
            if m <= 320:  # larger binomial coefficients do not fit into floats
                assert value * e == pytest.approx(literal_excess(d, 2 * e, m), abs=1e-12)
        spread[c] = max(values) / min(values) - 1
    assert spread[0.05] < 0.06
    assert spread[0.2] == pytest.approx(0.073, abs=5e-4)  # not below 6 %: see the errata
    # Many blocks (Poisson limit): the spread over eps is below 6 % there, too.
    values = [bounds.agnostic_excess(400, 2 * e, round(0.2 * 400 / e**2)) / e for e in (0.05, 0.1)]
    assert max(values) / min(values) - 1 < 0.06


def literal_excess(d: int, gamma: float, m: int) -> float:
    """The double sum over how many samples a block gets and how many of them are ones."""
    total = 0.0
    for n in range(m + 1):
        share = math.comb(m, n) * (1 / d) ** n * (1 - 1 / d) ** (m - n)
        for ones in range(n // 2 + 1):
            chance = math.comb(n, ones) * (0.5 + gamma) ** ones * (0.5 - gamma) ** (n - ones)
            total += share * chance * (0.5 if 2 * ones == n else 1.0)
    return 2 * gamma * total
