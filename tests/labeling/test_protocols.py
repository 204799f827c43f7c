from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from counterplay.core.stats import binomial_p_value
from counterplay.errors import InvalidInputError
from counterplay.labeling import (
    B2IR,
    GBS,
    B2IRPlus,
    FixedOrderScan,
    Mixture,
    NotStrictlyImprovable,
    OptimalTree,
    OptPartialSIR,
    PoolProblem,
    PrunedPartialSIR,
    RandomQuery,
    SIRMixture,
    check_assumption1,
    check_assumption2,
    incentive_report,
    instances,
    optimal_cost,
    optimal_mixture,
    safe_violators_mc,
    sir_mixture,
)
from counterplay.labeling.b2ir import run_costs
from counterplay.labeling.report import alone_costs
from labeling.problems import embedded, random_problem


def violating() -> list[tuple[PoolProblem, GBS]]:
    """Instances on which joint GBS makes agent 1 worse off, also in disguise."""
    rng = np.random.default_rng(0)
    small = instances.gbs_violation_7x6()
    shifted = instances.gbs_counterexample(8, Fraction(1, 100))
    cases = [
        (instances.gbs_counterexample(6), GBS(tie_break=[8])),
        (instances.gbs_counterexample(10), GBS(tie_break=[12])),
        (small, GBS()),
        (shifted, GBS()),
    ]
    return cases + [(embedded(small, rng), GBS()) for _ in range(4)]


@pytest.mark.claim("06.11")
def test_b2ir_costs_the_smaller_of_joint_and_alone() -> None:
    rng = np.random.default_rng(1)
    cases = violating() + [(random_problem(rng, k=3), GBS()) for _ in range(40)]
    seen_violation = 0
    for problem, gbs in cases:
        joint = gbs.expected_costs(problem)
        alone = [gbs.expected_costs(problem, (i,))[i] for i in range(problem.k)]
        wrapped = B2IR(gbs)
        costs = wrapped.expected_costs(problem)
        assert costs.tolist() == [min(a, b) for a, b in zip(joint, alone)]
        somebody = bool(wrapped.must_stay_alone(problem))
        assert (costs.sum() < joint.sum()) == somebody
        assert incentive_report(wrapped, gbs, problem).is_ir
        seen_violation += somebody
    assert seen_violation >= len(violating())


@pytest.mark.claim("06.12")
def test_step_by_step_equals_the_plan() -> None:
    rng = np.random.default_rng(2)
    for problem, gbs in violating() + [(random_problem(rng, k=3), GBS()) for _ in range(15)]:
        for protocol in (B2IR(gbs), gbs, PrunedPartialSIR(gbs, 0)):
            costs = protocol.cost_matrix(problem)
            for h in range(problem.N):
                state = protocol.start(problem)
                counts = np.zeros(problem.k, dtype=int)
                while (query := state.next_query()) is not None:
                    agent, x = query
                    assert x in problem.agents[agent]
                    counts[agent] += 1
                    state.update(x, int(problem.H[h, x]))
                assert np.array_equal(counts, costs[h])
                assert (problem.H[state.rows] == problem.H[h]).all()


@pytest.mark.claim("06.13")
def test_agents_who_label_first_are_not_asked_again() -> None:
    for problem, gbs in violating():
        protocol = B2IR(gbs)
        first = protocol.must_stay_alone(problem)
        for h in range(problem.N):
            state = protocol.start(problem)
            others_have_begun = False
            while (query := state.next_query()) is not None:
                others_have_begun |= query[0] not in first
                assert not (others_have_begun and query[0] in first)
                state.update(query[1], int(problem.H[h, query[1]]))
        assert (B2IRPlus(gbs).cost_matrix(problem) <= protocol.cost_matrix(problem)).all()
    gbs, problem = GBS(tie_break=[12]), instances.gbs_counterexample(10)
    assert B2IRPlus(gbs).expected_costs(problem)[1] == Fraction(5, 8)
    assert B2IR(gbs).expected_costs(problem)[1] == 1


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
                assert costs[i] <= limits[i] - min(problem.prior)
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
            assert report.total <= base + eps


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


@pytest.mark.claim("06.27")
def test_sampled_violators_are_safe() -> None:
    delta = 0.1
    for problem, gbs, targets in (
        (instances.gbs_violation_7x6(), GBS(), 400),
        (instances.gbs_counterexample(6), GBS(tie_break=[8]), 200),
    ):
        missed = 0
        for seed in range(200):
            found = safe_violators_mc(
                problem, gbs, n_targets=targets, delta=delta, random_state=seed
            )
            missed += 0 not in found.violators
        assert binomial_p_value(missed, 200, delta, "greater") > 1e-3
    winner, gbs = instances.gbs_counterexample(3), GBS(tie_break=[5])
    large = safe_violators_mc(winner, gbs, n_targets=4000, delta=delta, random_state=0)
    assert 0 not in large.violators
    sharper = safe_violators_mc(
        winner, gbs, n_targets=4000, delta=delta, bound="bernstein", random_state=0
    )
    assert sharper.width[0] < large.width[0]


@pytest.mark.claim("06.28")
def test_one_baseline_per_agent() -> None:
    rng = np.random.default_rng(8)
    for _ in range(30):
        problem = random_problem(rng, k=3)
        own = [GBS(), FixedOrderScan(), RandomQuery()]
        protocol = B2IR(own)
        report = incentive_report(protocol, own, problem)
        assert report.is_ir
        totals = [baseline.expected_costs(problem).sum() for baseline in own]
        assert report.total <= min(totals)


def test_report_numbers_and_plot() -> None:
    problem, gbs = instances.gbs_violation_7x6(), GBS()
    report = incentive_report(gbs, gbs, problem)
    assert report.violators == (0,)
    assert "agent 1 would do better alone" in report.summary()
    frame = report.to_frame()
    assert frame.loc["agent 1", "saving"] == pytest.approx(float(Fraction(1070 - 1526, 527)))
    costs, alone = gbs.cost_matrix(problem), alone_costs(gbs, problem)
    chance = sum(problem.prior[h] for h in range(problem.N) if costs[h, 0] > alone[h, 0])
    assert report.expost_worse[0] == chance > 0
    assert len(report.plot().patches) == 4
    uniform = np.full(problem.N, 1 / problem.N)
    other = incentive_report(gbs, gbs, problem, true_prior=uniform)
    assert other.protocol_cost[0] == pytest.approx(costs[:, 0].mean())


def test_bad_mixtures() -> None:
    problem = instances.gbs_counterexample(4)
    for eps in (0, -1, problem.m + 1):
        with pytest.raises(InvalidInputError, match="eps"):
            sir_mixture(GBS(), problem, eps)
    with pytest.raises(InvalidInputError, match="sum to 1"):
        Mixture([GBS()], [0.5])
    assert run_costs(GBS(), problem, 0).sum() > 0
