from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from counterplay.core.stats import binomial_p_value
from counterplay.labeling import B2IR, GBS, incentive_report, instances, safe_violators_mc
from counterplay.labeling.lab import FixedOrderScan, PrunedPartialSIR, RandomQuery
from labeling.problems import random_problem, violating


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
        assert (B2IR(gbs, infer=True).cost_matrix(problem) <= protocol.cost_matrix(problem)).all()
    gbs, problem = GBS(tie_break=[12]), instances.gbs_counterexample(10)
    assert B2IR(gbs, infer=True).expected_costs(problem)[1] == Fraction(5, 8)
    assert B2IR(gbs).expected_costs(problem)[1] == 1


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
