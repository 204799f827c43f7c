from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.errors import InvalidInputError
from counterplay.labeling import GBS, PoolProblem, gbs, instances
from counterplay.labeling.algorithm import run_costs
from labeling.problems import closed_alone, closed_joint, random_problem


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


@pytest.mark.claim("06.30")
@pytest.mark.parametrize("m", [50, 100])
def test_every_level_reads_every_row_and_column_once(
    m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.random.default_rng(1).normal(size=(m, 2))
    problem = PoolProblem.from_class(FiniteClass.halfspaces_2d(X), [np.arange(m)])
    read = []

    def counted(H: Any, weights: Any, groups: Any, n_classes: int) -> Any:
        read.append(sum(group.size for group in groups) * H.shape[1])
        return choices(H, weights, groups, n_classes)

    choices = gbs._level_choices
    monkeypatch.setattr(gbs, "_level_choices", counted)
    costs = GBS(builder="level").cost_matrix(problem).sum(axis=1)  # depth of every row's leaf
    assert sum(read) <= problem.m * costs.sum()
    assert sum(read) <= problem.m * problem.N * costs.max()
