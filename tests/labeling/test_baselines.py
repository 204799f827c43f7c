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
    plan_campaign,
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


def test_l1_floor_counts_the_labels_an_answer_can_have() -> None:
    """Nine labelings of two points: two questions are enough, although the entropy is 3.17 bits."""
    nine = np.array([[a, b] for a in range(3) for b in range(3)])
    problem = PoolProblem.from_labelings(nine, agents=[[0], [1]], n_classes=3)
    assert problem.query_floor() == pytest.approx(2.0)
    assert float(optimal_cost(problem)) == 2.0
    plan = plan_campaign(np.arange(2.0), owners=[0, 1], hypotheses=nine)
    assert "no protocol can do with fewer than 2.00 queries" in plan.summary()
    rng = np.random.default_rng(9)
    tight = 0
    for _ in range(200):
        labels = rng.integers(0, 3, size=(int(rng.integers(1, 9)), 4))
        weights = rng.integers(1, 9, size=len(labels))
        problem = PoolProblem.from_labelings(labels, weights, [[0, 1], [2, 3]], n_classes=3)
        best = plain_optimum(problem) / problem.weights.sum()
        assert problem.query_floor() <= best + 1e-12
        tight += problem.entropy() > best + 1e-9
        for agent in (0, 1):
            alone = problem.restrict((agent,)).problem
            best = plain_optimum(alone) / alone.weights.sum()
            assert problem.query_floor((agent,)) <= best + 1e-12
    assert tight > 20  # bits are no floor
    for _ in range(20):
        problem = random_problem(rng, k=2)
        assert problem.query_floor() == pytest.approx(problem.entropy())


def test_optimum_of_the_counterexample() -> None:
    from fractions import Fraction

    for n in range(4, 13):
        problem = instances.gbs_counterexample(n)
        assert optimal_cost(problem) == 3 - Fraction(1, 8 * 3 ** (n - 3))
        alone = optimal_cost(problem.restrict((0,)).problem)
        assert alone == Fraction(5, 2) - Fraction(1, 8 * 3 ** (n - 3))
    assert optimal_cost(instances.gbs_counterexample(3)) == Fraction(17, 6)


def plain_optimum(problem: PoolProblem) -> object:
    """The dynamic program over version spaces, without bounds; any number of classes."""

    @cache
    def cost(rows: frozenset[int]) -> object:
        here = problem.H[sorted(rows)]
        options = []
        for x in range(problem.m):
            parts = [frozenset(r for r in rows if problem.H[r, x] == y) for y in set(here[:, x])]
            if len(parts) > 1:
                options.append(sum(cost(part) for part in parts))
        return sum(problem.weights[r] for r in rows) + min(options) if options else 0

    return cost(frozenset(range(problem.N)))


@pytest.mark.claim("06.09")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_branch_and_bound_loses_nothing(n_classes: int) -> None:
    rng = np.random.default_rng(8)
    for trial in range(80):
        labels = rng.integers(0, n_classes, size=(int(rng.integers(2, 13)), 6))
        weights = (3 ** rng.integers(0, 6, size=len(labels))).tolist()
        problem = PoolProblem.from_labelings(
            labels, weights, [np.arange(6)], exact=trial % 2 == 0, n_classes=n_classes
        )
        plain = plain_optimum(problem) / problem.weights.sum()
        assert float(optimal_cost(problem)) == pytest.approx(float(plain), rel=1e-12)
        depths = OptimalTree(tie="random", random_state=trial).expected_costs(problem)
        assert float(depths[0]) == pytest.approx(float(plain), rel=1e-12)


def test_optimum_of_structured_classes_is_found_far_beyond_random_ones() -> None:
    thresholds = (np.arange(120)[None, :] >= np.arange(121)[:, None]).astype(int)
    problem = PoolProblem.from_labelings(thresholds, agents=[np.arange(120)])
    # 121 leaves: seven questions for 114 of them, six for the other seven
    assert float(optimal_cost(problem)) == pytest.approx((114 * 7 + 7 * 6) / 121)


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
