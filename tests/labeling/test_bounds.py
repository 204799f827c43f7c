from __future__ import annotations

import numpy as np
import pytest

from counterplay.labeling import GBS, bounds, instances
from counterplay.labeling.lab import optimal_cost
from labeling.problems import random_problem


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
