from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.labeling import OptimalTree, PoolProblem, instances
from counterplay.labeling.lab import FixedOrderScan, TooLargeError, optimal_cost
from labeling.problems import plain_optimum, random_problem

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


def test_optimum_of_the_counterexample() -> None:

    for n in range(4, 13):
        problem = instances.gbs_counterexample(n)
        assert optimal_cost(problem) == 3 - Fraction(1, 8 * 3 ** (n - 3))
        alone = optimal_cost(problem.restrict((0,)).problem)
        assert alone == Fraction(5, 2) - Fraction(1, 8 * 3 ** (n - 3))
    assert optimal_cost(instances.gbs_counterexample(3)) == Fraction(17, 6)


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


def test_too_large_problems_are_refused() -> None:
    with pytest.raises(TooLargeError, match="max_states"):
        optimal_cost(instances.gbs_counterexample(8), max_states=10)
    with pytest.raises(InvalidInputError, match="different columns"):
        FixedOrderScan([0, 0]).cost_matrix(instances.threshold_example())
