from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from counterplay.labeling import GBS, PoolProblem, bounds, instances
from counterplay.labeling.algorithm import run_costs
from counterplay.labeling.lab import PrunedPartialSIR, check_assumption2
from counterplay.labeling.report import alone_costs
from labeling.problems import random_problem, violating


@pytest.mark.claim("06.14")
def test_pruning_helps_exactly_when_the_class_is_no_product() -> None:
    rng = np.random.default_rng(3)
    helped = unhelped = 0
    problems = [random_problem(rng, k=2 + t % 2) for t in range(150)]
    problems += [instances.independent_points(3), instances.correlated_pairs()]
    for problem in problems:
        alone = alone_costs(GBS(), problem)
        report = check_assumption2(problem)
        for i in range(problem.k):
            costs = PrunedPartialSIR(GBS(), i).expected_costs(problem)
            limits = [(problem.prior * alone[:, j]).sum() for j in range(problem.k)]
            assert all(cost <= limit for cost, limit in zip(costs, limits))
            assert costs.sum() <= problem.m
            if report.holds[i]:
                helped += 1
                smallest = float(min(problem.prior))
                assert float(costs[i]) <= bounds.pruned_queries(float(limits[i]), smallest) + 1e-12
                assert costs[i] < limits[i]
            else:
                unhelped += 1
                assert costs[i] == limits[i]
    assert helped > 100
    assert unhelped >= 5


@pytest.mark.claim("06.15")
def test_pruning_uses_the_answers_already_given() -> None:
    problem = instances.weak_pruning_trap()
    assert [GBS().expected_costs(problem, (i,))[i] for i in (0, 1)] == [2, 1]
    assert PrunedPartialSIR(GBS(), 0).expected_costs(problem)[0] == Fraction(13, 7)
    assert PrunedPartialSIR(GBS(), 1).expected_costs(problem)[1] == Fraction(6, 7)


def weakly_pruned_cost(problem: PoolProblem, agent: int) -> Fraction:
    """Agent i's cost when only labels are fed that *all* her labelings possible after the others'
    answers share, whatever she has answered herself: the literal rule of the text.
    """
    others = [x for j in range(problem.k) if j != agent for x in problem.agents[j]]
    tree, small = GBS().tree(problem, (agent,)), problem.restrict((agent,))
    total = Fraction(0)
    for h in range(problem.N):
        group = problem.H[(problem.H[:, others] == problem.H[h, others]).all(axis=1)]
        path = tree.path(small.problem.H, int(small.inverse[h]))
        asked = [x for x, _ in path if len(set(group[:, small.columns[x]])) > 1]
        total += problem.prior[h] * len(asked)
    return total


@pytest.mark.claim("06.15")
def test_the_literal_pruning_rule_breaks_the_lemma() -> None:
    trap = instances.weak_pruning_trap()
    assert weakly_pruned_cost(trap, 0) == 2
    rng = np.random.default_rng(9)
    weaker = broken = 0
    for trial in range(150):
        problem = random_problem(rng, k=2 + trial % 2)
        alone = [GBS().expected_costs(problem, (i,))[i] for i in range(problem.k)]
        for i, holds in enumerate(check_assumption2(problem).holds):
            pruned = PrunedPartialSIR(GBS(), i).expected_costs(problem)[i]
            weak = weakly_pruned_cost(problem, i)
            assert pruned <= weak <= alone[i]
            weaker += pruned < weak
            broken += bool(holds) and weak == alone[i]
            assert not (holds and pruned == alone[i])
    assert weaker > 0
    assert broken > 0


@pytest.mark.claim("06.16")
@pytest.mark.parametrize("n", [3, 6, 10])
def test_prune_do_not_replan(n: int) -> None:
    problem, gbs = instances.gbs_counterexample(n), GBS(tie_break=[n + 2])
    alone = gbs.expected_costs(problem, (0,))[0]
    assert PrunedPartialSIR(gbs, 0).expected_costs(problem).tolist() == [
        alone - Fraction(1, 2),
        1,
    ]
    assert PrunedPartialSIR(gbs, 1).expected_costs(problem)[1] == Fraction(5, 8)
    replanned = Fraction(0)  # GBS on the posterior after agent 2's label is known
    for label in (0, 1):
        rows = np.flatnonzero(problem.H[:, n + 2] == label)
        small = PoolProblem.from_labelings(
            problem.H[rows], [int(w) for w in problem.weights[rows]], problem.agents, exact=True
        )
        share = problem.prior[rows].sum()
        replanned += share * gbs.expected_costs(small, (0,))[0]
    assert replanned == gbs.expected_costs(problem)[0]


def test_replanning_only_where_it_is_cheaper() -> None:
    rng = np.random.default_rng(10)
    cheaper = 0
    cases = violating() + [(random_problem(rng, k=2), GBS()) for _ in range(60)]
    for problem, gbs in cases:
        pruned = PrunedPartialSIR(gbs, 0).expected_costs(problem)
        protocol = PrunedPartialSIR(gbs, 0, replan=True)
        safe = protocol.expected_costs(problem)
        assert (safe <= pruned).all()
        cheaper += safe[0] < pruned[0]
        costs = protocol.cost_matrix(problem)
        for h in range(problem.N):
            assert np.array_equal(run_costs(protocol, problem, h), costs[h])
    assert cheaper > 0
    assert "replan=True" in repr(protocol)
