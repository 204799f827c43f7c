"""The worst regret of an offer is sharp over all rising responses in the band."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from counterplay.principal.lab import worst_regrets


def by_program(i, s, g, low, high):
    """Largest g_j f_j - g_i f_i over nondecreasing f between the limits, by linear programs."""
    k, worst = s.size, 0.0
    rising = np.zeros((k - 1, k))
    for a in range(k - 1):
        rising[a, a], rising[a, a + 1] = 1.0, -1.0
    for j in range(k):
        if j != i:
            cost = np.zeros(k)
            cost[i], cost[j] = g[i], -g[j]
            bounds = list(zip(low, high))
            solved = linprog(cost, A_ub=rising, b_ub=np.zeros(k - 1), bounds=bounds)
            worst = max(worst, -solved.fun)
    return worst


def by_vertices(i, g, low, high):
    """The same program by its vertices: two responses at limits, the weaker one not larger."""
    worst = 0.0
    for j in range(g.size):
        for here in (low[i], high[i], low[j], high[j]):
            for there in (low[j], high[j], here):
                inside = low[i] <= here <= high[i] and low[j] <= there <= high[j]
                if inside and (here <= there if i < j else there <= here):
                    worst = max(worst, g[j] * there - g[i] * here)
    return worst


def instance(seed):
    rng = np.random.default_rng(seed)
    s = np.sort(rng.random(6))
    low = np.sort(rng.uniform(0, 800, 6))
    high = np.maximum(np.sort(rng.uniform(0, 1500, 6)), low + 1)
    return s, low, np.maximum.accumulate(high)


@pytest.mark.claim("25.04")
def test_worst_regret_equals_the_program():
    """Every offer of 200 instances by vertices of the program, every eighth instance by HiGHS."""
    for seed in range(200):
        s, low, high = instance(seed)
        found = worst_regrets(s, 1 - s, low, high)
        for i in range(6):
            assert found[i] == pytest.approx(by_vertices(i, 1 - s, low, high), abs=1e-7)
        if seed % 8 == 0:
            i = seed // 8 % 6
            assert found[i] == pytest.approx(by_program(i, s, 1 - s, low, high), abs=1e-7)


def test_an_unknown_upper_limit_is_an_unknown_regret():
    s, low = np.array([0.2, 0.5]), np.array([10.0, 20.0])
    assert worst_regrets(s, 1 - s, low, np.array([30.0, np.inf]))[0] == np.inf
    alone = worst_regrets(s, 1 - s, low, np.array([30.0, 40.0]), ordered=False)
    assert alone == pytest.approx([0.5 * 40 - 0.8 * 10, 0.8 * 30 - 0.5 * 20])
