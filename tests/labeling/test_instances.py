from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from counterplay.labeling import B2IR, GBS, PoolProblem, bounds, instances
from counterplay.labeling.lab import PrunedPartialSIR, optimal_cost
from labeling.problems import closed_alone, closed_joint


@pytest.mark.claim("06.01")
def test_threshold_example() -> None:
    problem = instances.threshold_example()
    gbs = GBS(tie_break=[1, 3, 6])
    assert gbs.expected_costs(problem).tolist() == [1, 1]
    assert [gbs.expected_costs(problem, (i,))[i] for i in (0, 1)] == [2, 2]
    assert gbs.cost_matrix(problem).sum(axis=1).tolist() == [2, 2, 2, 2]
    assert GBS().expected_costs(problem).tolist() == [2, 0]
    assert GBS(tie_break=[3, 4, 5, 6]).expected_costs(problem).tolist() == [0, 2]


@pytest.mark.claim("06.02")
@pytest.mark.parametrize("n", range(3, 16))
def test_counterexample_closed_forms(n: int) -> None:
    problem = instances.gbs_counterexample(n)
    gbs = GBS(tie_break=[n + 2])
    assert gbs.expected_costs(problem).tolist() == [closed_joint(n), 1]
    assert gbs.expected_costs(problem, (0,))[0] == closed_alone(n)
    assert (problem.N, problem.m) == (3 * n + 1, n + 3)
    assert problem.prior.sum() == 1
    assert min(problem.prior) == Fraction(1, 8 * 3 ** (n - 1))
    assert bounds.counterexample_joint(n) == pytest.approx(float(closed_joint(n)), rel=1e-14)
    assert bounds.counterexample_alone(n) == pytest.approx(float(closed_alone(n)), rel=1e-14)


@pytest.mark.claim("06.01")
def test_five_thresholds() -> None:
    """The variant of the errata: the others' labels leave agent 1 nothing to ask."""
    problem, gbs = instances.threshold_example(five=True), GBS()
    alone = [gbs.expected_costs(problem, (i,))[i] for i in (0, 1)]
    assert alone == [2, Fraction(12, 5)]
    assert PrunedPartialSIR(gbs, 0).expected_costs(problem)[0] == 0


@pytest.mark.claim("06.02")
@pytest.mark.parametrize("n", [34, 35, 36, 37])
def test_weights_beyond_machine_integers_stay_exact(n: int) -> None:
    problem = instances.gbs_counterexample(n, Fraction(1, 100))
    weights = [int(w) for w in problem.weights]
    assert all(isinstance(w, int) for w in problem.weights)
    shifted = closed_joint(n) + Fraction(2 * n - 4, 100)
    assert GBS().expected_costs(problem)[0] == shifted
    again = PoolProblem.from_labelings(problem.H, weights, problem.agents, exact=True)
    assert again.prior.sum() == 1


@pytest.mark.claim("06.02")
def test_joining_hurts_from_six_levels_on() -> None:
    hurts = {n: closed_joint(n) > closed_alone(n) for n in range(3, 12)}
    assert hurts == {n: n >= 6 for n in range(3, 12)}
    other_tie = GBS().expected_costs(instances.gbs_counterexample(30))
    assert float(other_tie[0]) == pytest.approx(7 / 3, abs=1e-6)  # the other tie choice
    assert other_tie[1] == Fraction(17, 24)


@pytest.mark.claim("06.04")
def test_delta_removes_the_tie() -> None:
    n, rng = 40, np.random.default_rng(0)
    problem = instances.gbs_counterexample(n, Fraction(1, 100))
    expected = closed_joint(n) + Fraction(2 * n - 4, 100)
    assert GBS().expected_costs(problem)[0] == expected
    assert float(expected) == pytest.approx(12.135, abs=1e-9)
    small = instances.gbs_counterexample(9, Fraction(1, 100))
    reference = GBS().expected_costs(small).tolist()
    for _ in range(20):
        order = rng.permutation(small.m)
        assert GBS(tie_break=order).expected_costs(small).tolist() == reference


@pytest.mark.claim("06.07")
def test_small_violation_under_all_tie_orders() -> None:
    problem = instances.gbs_violation_7x6()
    for order in permutations(range(6)):
        gbs = GBS(tie_break=list(order))
        joint = gbs.expected_costs(problem)
        assert joint.tolist() == [Fraction(1526, 527), 1]
        assert joint.sum() == Fraction(2053, 527)
        assert gbs.expected_costs(problem, (0,))[0] == Fraction(1070, 527)
        assert B2IR(gbs).expected_costs(problem).sum() == Fraction(1597, 527)
        assert PrunedPartialSIR(gbs, 0).expected_costs(problem)[0] == Fraction(1036, 527)
        assert PrunedPartialSIR(gbs, 1).expected_costs(problem)[1] == Fraction(27, 527)
    assert optimal_cost(problem) == Fraction(1080, 527)
    again = Fraction(0)  # GBS planned anew on the posterior costs agent 1 as much as joining
    for label in (0, 1):
        rows = np.flatnonzero(problem.H[:, 0] == label)
        weights = [int(w) for w in problem.weights[rows]]
        small = PoolProblem.from_labelings(problem.H[rows], weights, problem.agents, exact=True)
        again += problem.prior[rows].sum() * GBS().expected_costs(small, (0,))[0]
    assert again == Fraction(1526, 527)
