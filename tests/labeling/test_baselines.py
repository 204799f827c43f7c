from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.labeling import (
    GBS,
    FixedOrderScan,
    OptimalTree,
    PoolProblem,
    RandomQuery,
    TooLargeError,
    bounds,
    instances,
    optimal_cost,
)
from counterplay.labeling.report import alone_costs
from labeling.problems import random_problem

RULES = ("first", "uniform", "least_loaded")


@pytest.mark.claim("06.08")
@pytest.mark.parametrize("seed", range(3))
def test_optimal_trees_are_individually_rational(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for trial in range(100):
        problem = random_problem(rng, k=2 + trial % 2)
        alone = [optimal_cost(problem.restrict((i,)).problem) for i in range(problem.k)]
        best = optimal_cost(problem)
        for rule in RULES:
            tree = OptimalTree(tie="random", assignment=rule, random_state=trial)
            costs = tree.expected_costs(problem)
            assert costs.sum() == best
            assert all(cost <= limit for cost, limit in zip(costs, alone))


def brute_force(problem: PoolProblem) -> object:
    """Cheapest tree by trying every point at every node."""

    @cache
    def cost(rows: frozenset[int]) -> object:
        here = problem.H[sorted(rows)]
        splits = [x for x in range(problem.m) if (here[:, x] != here[0, x]).any()]
        if not splits:
            return 0
        mass = sum(problem.weights[r] for r in rows)
        options = []
        for x in splits:
            ones = frozenset(r for r in rows if problem.H[r, x])
            options.append(cost(ones) + cost(rows - ones))
        return mass + min(options)

    return cost(frozenset(range(problem.N)))


@pytest.mark.claim("06.09")
def test_optimal_cost_equals_brute_force() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        n, m = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        labels, weights = rng.integers(0, 2, size=(n, m)), rng.integers(1, 20, size=n).tolist()
        problem = PoolProblem.from_labelings(labels, weights, [np.arange(m)], exact=True)
        assert optimal_cost(problem) * sum(problem.weights) == brute_force(problem)


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


def test_optimum_of_the_counterexample() -> None:
    from fractions import Fraction

    for n in range(4, 8):
        problem = instances.gbs_counterexample(n)
        assert optimal_cost(problem) == 3 - Fraction(1, 8 * 3 ** (n - 3))
        alone = optimal_cost(problem.restrict((0,)).problem)
        assert alone == Fraction(5, 2) - Fraction(1, 8 * 3 ** (n - 3))
    assert optimal_cost(instances.gbs_counterexample(3)) == Fraction(17, 6)


@pytest.mark.claim("06.26")
def test_scans_never_hurt_anybody_for_any_target() -> None:
    rng = np.random.default_rng(7)
    for trial in range(300):
        problem = random_problem(rng, k=2 + trial % 2)
        scan = FixedOrderScan(rng.permutation(problem.m))
        assert (scan.cost_matrix(problem) <= alone_costs(scan, problem)).all()


def test_random_queries_are_the_mean_over_orders() -> None:
    from itertools import permutations

    problem = instances.weak_pruning_trap()
    exact = RandomQuery().cost_matrix(problem)
    orders = list(permutations(range(problem.m)))
    mean = sum(FixedOrderScan(list(o)).cost_matrix(problem).astype(object) for o in orders)
    assert (exact * len(orders) == mean).all()
    estimate = RandomQuery(max_states=1, n_orders=4000, random_state=0).cost_matrix(problem)
    assert np.abs(estimate - exact.astype(float)).max() < 0.06


def test_too_large_problems_are_refused() -> None:
    with pytest.raises(TooLargeError, match="max_states"):
        optimal_cost(instances.gbs_counterexample(8), max_states=10)
    with pytest.raises(InvalidInputError, match="different columns"):
        FixedOrderScan([0, 0]).cost_matrix(instances.threshold_example())
