from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from counterplay.labeling import instances
from counterplay.labeling.lab import FixedOrderScan, RandomQuery
from counterplay.labeling.report import alone_costs
from labeling.problems import random_problem


@pytest.mark.claim("06.26")
def test_scans_never_hurt_anybody_for_any_target() -> None:
    rng = np.random.default_rng(7)
    for trial in range(300):
        problem = random_problem(rng, k=2 + trial % 2)
        scan = FixedOrderScan(rng.permutation(problem.m))
        assert (scan.cost_matrix(problem) <= alone_costs(scan, problem)).all()


def test_random_queries_are_the_mean_over_orders() -> None:

    problem = instances.weak_pruning_trap()
    exact = RandomQuery().cost_matrix(problem)
    orders = list(permutations(range(problem.m)))
    mean = sum(FixedOrderScan(list(o)).cost_matrix(problem).astype(object) for o in orders)
    assert (exact * len(orders) == mean).all()
    estimate = RandomQuery(max_states=1, n_orders=4000, random_state=0).cost_matrix(problem)
    assert np.abs(estimate - exact.astype(float)).max() < 0.06
