from __future__ import annotations

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.labeling import GBS, bounds, instances
from counterplay.labeling.lab import optimal_cost
from labeling.problems import label_rows, random_problem


@pytest.mark.claim("06.10")
def test_greedy_bound_and_entropy_floor() -> None:
    rng = np.random.default_rng(6)
    problems = [random_problem(rng, k=2) for _ in range(100)]
    problems += [instances.gbs_counterexample(n) for n in (3, 5, 8)]
    for problem in problems:
        best = optimal_cost(problem)
        greedy = GBS().expected_costs(problem).sum()
        assert problem.entropy() <= float(best) + 1e-12
        assert best <= greedy
        limit = bounds.gbs_queries(float(best), float(min(problem.prior)))
        assert float(greedy) <= limit + 1e-12


@pytest.mark.claim("06.25")
def test_planar_halfspaces() -> None:
    rng = np.random.default_rng(0)
    for m in (1, 2, 5, 50, 100):
        found = FiniteClass.halfspaces_2d(rng.normal(size=(m, 2)))
        assert len(found) == len(label_rows(found)) == bounds.halfspace_labelings(m)
    for m in (3, 5, 8):
        X = rng.normal(size=(m, 2))
        assert label_rows(FiniteClass.halfspaces_2d(X)) == label_rows(FiniteClass.halfspaces_lp(X))
    grid = np.array([[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [1, 1]], dtype=float)
    assert label_rows(FiniteClass.halfspaces_2d(grid)) == label_rows(
        FiniteClass.halfspaces_lp(grid)
    )


def test_sampled_widths_shrink_and_the_variance_helps() -> None:
    size, k, delta = 6, 3, 0.05
    for M in (100, 1000, 10_000):
        plain = bounds.monte_carlo_width(size, k, M, delta)
        assert bounds.monte_carlo_width(size, k, 4 * M, delta) == pytest.approx(plain / 2)
        log = np.log(2 * k / delta)
        term = 7 * (2 * size) * log / (3 * (M - 1))  # the range is twice the pool
        assert bounds.empirical_bernstein_width(size, k, M, delta, 0.0) == pytest.approx(term)
        wide = bounds.empirical_bernstein_width(size, k, M, delta, size**2)
        assert wide == pytest.approx(term + size * np.sqrt(2 * log / M))
        assert wide > plain
    assert bounds.empirical_bernstein_width(size, k, 1, delta, 0.0) == np.inf
    assert bounds.empirical_bernstein_width(size, k, 10_000, delta, 0.1) < plain
