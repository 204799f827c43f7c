from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from counterplay.core.stats import binomial_p_value
from counterplay.errors import InvalidInputError
from counterplay.labeling import (
    B2IR,
    GBS,
    NotStrictlyImprovable,
    OptimalTree,
    PoolProblem,
    bounds,
    incentive_report,
    instances,
    optimal_mixture,
    sir_mixture,
)
from counterplay.labeling.algorithm import run_costs
from counterplay.labeling.lab import (
    FixedOrderScan,
    OptPartialSIR,
    ProtocolMixture,
    PrunedPartialSIR,
    RandomQuery,
    SIRMixture,
    check_assumption1,
    check_assumption2,
    optimal_cost,
)
from labeling.problems import random_problem


@pytest.mark.claim("06.17")
def test_mixture_is_strict_and_cheap() -> None:
    for n in (6, 10):
        problem, gbs = instances.gbs_counterexample(n), GBS(tie_break=[n + 2])
        base = B2IR(gbs).expected_costs(problem).sum()
        for eps in (Fraction(1, 100), Fraction(1, 10), Fraction(1)):
            mixture = sir_mixture(gbs, problem, eps)
            report = incentive_report(mixture, gbs, problem)
            assert report.is_sir
            slack = [eps / (4 * (n + 3)), 3 * eps / (16 * (n + 3))]
            assert report.slack.tolist() == slack
            assert report.total == base - 7 * eps / (16 * (n + 3))
    rng = np.random.default_rng(4)
    strict = 0
    while strict < 25:
        problem = random_problem(rng, k=2)
        if not check_assumption2(problem):
            continue
        strict += 1
        base = B2IR(GBS()).expected_costs(problem).sum()
        for eps in (Fraction(1, 100), Fraction(1)):
            report = incentive_report(sir_mixture(GBS(), problem, eps), GBS(), problem)
            assert report.is_sir
            most = bounds.sir_total(float(base), float(eps), problem.m, problem.m)
            assert float(report.total) <= most + 1e-12 <= float(base + eps) + 2e-12


@pytest.mark.claim("06.17")
def test_linear_program_finds_larger_gains() -> None:
    problem, gbs = instances.gbs_counterexample(10), GBS(tie_break=[12])
    parts = [B2IR(gbs), PrunedPartialSIR(gbs, 0), PrunedPartialSIR(gbs, 1)]
    best = optimal_mixture(parts, gbs, problem)
    assert best.smallest_slack == pytest.approx(3 / 14, abs=1e-7)
    report = incentive_report(best.mixture, gbs, problem)
    assert float(min(report.slack)) == pytest.approx(3 / 14, abs=1e-6)
    assert best.total <= float(B2IR(gbs).expected_costs(problem).sum()) + 1e-7


@pytest.mark.claim("06.18")
def test_component_frequencies() -> None:
    problem, gbs = instances.gbs_counterexample(6), GBS(tie_break=[8])
    eps = Fraction(problem.m, 2)
    mixture = sir_mixture(gbs, problem, eps)
    draws = mixture.draw(0, size=100_000)
    counts = np.bincount(draws, minlength=3)
    for count, probability in zip(counts, (0.5, 0.25, 0.25)):
        assert binomial_p_value(int(count), 100_000, probability) > 1e-4


@pytest.mark.claim("06.19")
def test_fast_test_of_assumption_two() -> None:
    def brute(problem: PoolProblem, i: int) -> bool:
        others = [j for j in range(problem.k) if j != i]
        own = len({tuple(row) for row in problem.H[:, problem.agents[i]]})
        columns = problem.union(others)
        for h in range(problem.N):
            same = (problem.H[:, columns] == problem.H[h, columns]).all(axis=1)
            if len({tuple(row) for row in problem.H[same][:, problem.agents[i]]}) < own:
                return True
        return False

    rng = np.random.default_rng(5)
    for trial in range(200):
        problem = random_problem(rng, k=2 + trial % 2)
        expected = tuple(brute(problem, i) for i in range(problem.k))
        assert check_assumption2(problem).holds == expected
    assert not any(check_assumption2(instances.independent_points(3)).holds)
    assert not any(check_assumption2(instances.correlated_pairs()).holds)
    for problem in (
        instances.threshold_example(),
        instances.gbs_counterexample(5),
        instances.weak_pruning_trap(),
    ):
        assert check_assumption2(problem)
    shared = PoolProblem.from_labelings(
        (np.arange(8)[:, None] >> np.arange(3)) & 1, agents=[[0, 1], [1, 2]]
    )
    assert check_assumption2(shared)


@pytest.mark.claim("06.20")
def test_correlation_without_exclusion() -> None:
    problem = instances.correlated_pairs()
    assert check_assumption1(problem).evidence == (Fraction(1, 6), Fraction(1, 6))
    assert optimal_cost(problem) == Fraction(19, 6)
    mixture = sir_mixture(OptimalTree(), problem, Fraction(1, 2))
    report = incentive_report(mixture, OptimalTree(), problem)
    assert report.is_sir
    assert OptPartialSIR(0).expected_costs(problem)[0] == Fraction(3, 2)
    assert PrunedPartialSIR(OptimalTree(), 0).expected_costs(problem)[0] == Fraction(5, 3)
    with pytest.raises(NotStrictlyImprovable) as error:
        sir_mixture(GBS(), problem, Fraction(1, 2))
    assert error.value.agents == (0, 1)
    assert isinstance(sir_mixture(GBS(), problem, 1, allow_weak=True), SIRMixture)


@pytest.mark.claim("06.21")
def test_mixture_of_optimal_trees_beats_every_baseline() -> None:
    rng = np.random.default_rng(6)
    found = 0
    while found < 12:
        problem = random_problem(rng, k=2)
        if not check_assumption1(problem):
            continue
        found += 1
        eps = Fraction(1, 10)
        mixture = sir_mixture(OptimalTree(), problem, eps)
        costs = mixture.expected_costs(problem)
        assert costs.sum() <= optimal_cost(problem) + eps
        for baseline in (GBS(), RandomQuery(), FixedOrderScan()):
            assert incentive_report(mixture, baseline, problem).is_sir


def test_bad_mixtures() -> None:
    problem = instances.gbs_counterexample(4)
    for eps in (0, -1, problem.m + 1):
        with pytest.raises(InvalidInputError, match="eps"):
            sir_mixture(GBS(), problem, eps)
    with pytest.raises(InvalidInputError, match="sum to 1"):
        ProtocolMixture([GBS()], [0.5])
    assert run_costs(GBS(), problem, 0).sum() > 0
