from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import Literal

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.errors import InvalidInputError
from counterplay.labeling import (
    B2IR,
    GBS,
    PoolProblem,
    PrunedPartialSIR,
    bounds,
    instances,
    optimal_cost,
)
from counterplay.labeling.b2ir import run_costs
from labeling.problems import random_problem


def closed_joint(n: int) -> Fraction:
    total = Fraction(n, 4)
    for level in range(1, n):
        total += Fraction(level + 1, 2 * 3**level) + Fraction(level, 3**level)
    return total + Fraction(n + 1, 4 * 3 ** (n - 1)) + Fraction(n - 1, 2 * 3 ** (n - 1))


def closed_alone(n: int) -> Fraction:
    total = Fraction(7, 4) + Fraction(6 * n + 1, 8 * 3 ** (n - 1))
    return total + sum(Fraction(6 * level + 7, 4 * 3**level) for level in range(2, n))


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
    assert float(other_tie[0]) == pytest.approx(7 / 3, abs=1e-6)  # no violation: T1
    assert other_tie[1] == Fraction(17, 24)


@pytest.mark.claim("06.03")
def test_order_of_questions_for_the_all_zero_target() -> None:
    n = 7
    problem = instances.gbs_counterexample(n)
    target = int(np.flatnonzero(problem.H.sum(axis=1) == 0)[0])
    gbs = GBS(tie_break=[n + 2])
    asked = [problem.point_name(x) for x, _ in gbs.tree(problem).path(problem.H, target)]
    assert asked == ["(1,0,0)"] + [f"(0,0,{i})" for i in range(1, n + 1)]
    small = problem.restrict((0,))
    row = int(small.inverse[target])
    path = gbs.tree(problem, (0,)).path(small.problem.H, row)
    alone = [problem.point_name(int(small.columns[x])) for x, _ in path]
    assert alone == ["(0,0,1)", "(0,1,0)", "(0,2,0)"]


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


def flipped_masks(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    some = rng.integers(0, 2, n + 3)
    return {"none": np.zeros(n + 3, int), "all": np.ones(n + 3, int), "some": some}


@pytest.mark.claim("06.05")
@pytest.mark.parametrize(
    ("builder", "every"),  # at which sizes labels are also flipped
    [("stack", 1), ("level", 5), pytest.param("level", 1, marks=pytest.mark.slow)],
)
def test_floats_reach_the_closed_forms_whatever_labels_are_flipped(
    builder: Literal["stack", "level"], every: int
) -> None:
    rng = np.random.default_rng(1)
    for n in range(3, 201):
        base = instances.gbs_counterexample(n, exact=False)
        for flips, mask in flipped_masks(n, rng).items():
            if flips != "none" and n % every:
                continue
            H = base.H ^ mask.astype(np.uint8)
            problem = PoolProblem.from_labelings(H, base.weights, base.agents)
            gbs = GBS(tie_break=[n + 2], builder=builder)
            assert gbs.expected_costs(problem)[0] == pytest.approx(float(closed_joint(n)), abs=1e-9)
            assert gbs.expected_costs(problem, (0,))[0] == pytest.approx(
                float(closed_alone(n)), abs=1e-9
            )


@pytest.mark.claim("06.06")
@pytest.mark.parametrize("n", [10, 16, 25])
def test_cost_of_joining_grows_by_a_quarter_per_level(n: int) -> None:
    def joint(size: int) -> float:
        problem = instances.gbs_counterexample(size)
        return float(GBS(tie_break=[size + 2]).expected_costs(problem)[0])

    def alone(size: int) -> float:
        return float(GBS().expected_costs(instances.gbs_counterexample(size), (0,))[0])

    assert joint(2 * n) - joint(n) == pytest.approx(n / 4, abs=1e-3)
    assert abs(alone(2 * n) - alone(n)) < 1e-3


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


@pytest.mark.claim("06.22")
def test_identical_pools_share_evenly() -> None:
    problem = instances.identical_pools(k=4, m=7)
    assert GBS(assignment="uniform").expected_costs(problem).tolist() == [Fraction(3, 4)] * 4
    assert GBS().expected_costs(problem).tolist() == [3, 0, 0, 0]
    loads = GBS(assignment="least_loaded").cost_matrix(problem)
    assert (loads.max(axis=1) - loads.min(axis=1) <= 1).all()


@pytest.mark.claim("06.23")
def test_costs_do_not_depend_on_presentation() -> None:
    rng = np.random.default_rng(2)
    for _ in range(40):
        problem = random_problem(rng, k=2)
        base = GBS().expected_costs(problem).tolist()
        order = rng.permutation(problem.m)
        position = np.argsort(order)
        flips = rng.integers(0, 2, problem.m, dtype=np.uint8)
        rows = rng.permutation(problem.N)
        pools = [position[pool] for pool in problem.agents]
        weights = [int(problem.weights[r]) for r in rows]
        moved = PoolProblem.from_labelings(
            (problem.H ^ flips)[rows][:, order], weights, pools, exact=True
        )
        assert GBS(tie_break=position).expected_costs(moved).tolist() == base
        split = PoolProblem.from_labelings(
            np.vstack([problem.H, problem.H[:1]]),
            [int(problem.weights[0]), *(2 * int(w) for w in problem.weights[1:]),
             int(problem.weights[0])],
            problem.agents, exact=True,
        )  # fmt: skip
        assert GBS().expected_costs(split).tolist() == base
        swapped = PoolProblem.from_labelings(
            problem.H, [int(w) for w in problem.weights], problem.agents[::-1], exact=True
        )
        last = GBS(assignment=lambda owners, loads, x: owners[-1])
        assert last.expected_costs(swapped).tolist() == base[::-1]


@pytest.mark.claim("06.24")
def test_builders_agree_entry_by_entry() -> None:
    rng = np.random.default_rng(3)
    problems = []
    for _ in range(50):
        base = random_problem(rng, k=2, skew=5)
        weights = base.weights.astype(float)
        problems.append(PoolProblem.from_labelings(base.H, weights, base.agents))
    X = rng.normal(size=(100, 2))
    planar = FiniteClass.halfspaces_2d(X)
    problems.append(PoolProblem.from_class(planar, [np.arange(i, 100, 4) for i in range(4)]))
    for problem in problems:
        stack = GBS(builder="stack").cost_matrix(problem)
        assert np.array_equal(stack, GBS(builder="level").cost_matrix(problem))


def test_three_classes_and_step_by_step_runs_agree() -> None:
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 3, size=(30, 7))
    problem = PoolProblem.from_labelings(labels, agents=[[0, 1, 2], [3, 4, 5, 6]], n_classes=3)
    for builder in ("stack", "level"):
        gbs = GBS(builder=builder)
        costs = gbs.cost_matrix(problem)
        for h in range(problem.N):
            assert np.array_equal(run_costs(gbs, problem, h), costs[h])


def test_weights_that_underflow_are_refused() -> None:
    problem = PoolProblem.from_labelings([[0], [1]], [1e-300, 1e300], [[0]])
    with pytest.raises(InvalidInputError, match="exact=True"):
        GBS().cost_matrix(problem)


def test_bad_tie_orders() -> None:
    problem = instances.threshold_example()
    with pytest.raises(InvalidInputError, match="different columns"):
        GBS(tie_break=[1, 1]).cost_matrix(problem)
    with pytest.raises(InvalidInputError, match="from 0 to 6"):
        GBS(tie_break=[9]).cost_matrix(problem)
    with pytest.raises(InvalidInputError, match="tie_break"):
        GBS(tie_break="best")
