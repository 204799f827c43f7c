"""GuardedShadow: for every target and party, together costs at most alone."""

from __future__ import annotations

import sys
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from problems import random_problem

from counterplay.errors import InvalidInputError, NotRealizableError, ProtocolError
from counterplay.labeling import B2IR, GBS, GuardedShadow, instances
from counterplay.labeling.algorithm import expected, run_costs
from counterplay.labeling.lab import RandomQuery


def alone_costs(problem: object, baseline: GBS) -> np.ndarray:
    k = problem.k  # type: ignore[attr-defined]
    return np.stack([baseline.cost_matrix(problem, (i,))[:, i] for i in range(k)], axis=1)


@pytest.mark.claim("24.22")
@pytest.mark.parametrize("part", range(4))
def test_nobody_is_worse_off_for_any_target(part: int) -> None:
    totals = {"guarded": 0.0, "b2ir": 0.0}
    harmed = 0
    for seed in range(50 * part, 50 * part + 50):
        problem = random_problem(np.random.default_rng(seed), k=2 + seed % 2)
        alone = alone_costs(problem, GBS())
        orders = ["interleaved", *permutations(range(problem.k))]
        means = []
        for order in orders:
            costs = GuardedShadow(GBS(), order).cost_matrix(problem)
            assert (costs <= alone).all()
            means.append(float(expected(problem, costs).sum()))
        totals["guarded"] += min(means)
        b2ir = B2IR(GBS()).cost_matrix(problem)
        totals["b2ir"] += float(expected(problem, b2ir).sum())
        harmed += bool((b2ir.astype(float) > alone.astype(float) + 1e-9).any())
    assert totals["guarded"] <= 1.03 * totals["b2ir"]
    if part == 1:
        assert harmed > 0  # the check can fail: B2IR's guarantee is one of averages


@pytest.mark.claim("24.22")
def test_known_instances() -> None:
    problem = instances.gbs_violation_7x6()
    interleaved = GuardedShadow(GBS(), "interleaved").expected_costs(problem)
    assert float(interleaved.sum()) == pytest.approx(2.966, abs=5e-4)
    best = GuardedShadow(GBS()).expected_costs(problem)
    assert float(best.sum()) == pytest.approx(2.082, abs=5e-4)
    assert float(B2IR(GBS()).expected_costs(problem).sum()) == pytest.approx(3.030, abs=5e-4)
    assert float(GBS().expected_costs(problem).sum()) == pytest.approx(3.896, abs=5e-4)
    small = instances.threshold_example()
    guarded = GuardedShadow(GBS(tie_break=[1, 3, 6]))
    assert guarded.expected_costs(small).astype(float).tolist() == [1.0, 1.0]


@pytest.mark.claim("24.23")
def test_step_by_step_is_the_cost_matrix() -> None:
    for seed in range(20):
        problem = random_problem(np.random.default_rng(seed), k=2)
        guarded = GuardedShadow(GBS())
        costs = guarded.cost_matrix(problem)
        for h in range(problem.N):
            assert run_costs(guarded, problem, h).tolist() == costs[h].tolist()
            state = guarded.start(problem)
            while (query := state.next_query()) is not None:
                agent, x = query
                assert x in problem.agents[agent]
                state.update(x, int(problem.H[h, x]))
            assert (problem.H[state.rows] == problem.H[h]).all()


def test_what_makes_no_sense_is_refused() -> None:
    problem = instances.threshold_example()
    with pytest.raises(InvalidInputError, match="must be deterministic"):
        GuardedShadow(RandomQuery())
    with pytest.raises(InvalidInputError, match="order must name the agents"):
        GuardedShadow(GBS(), (0, 5)).start(problem)
    with pytest.raises(InvalidInputError, match="order must name the agents"):
        GuardedShadow(GBS(), np.array([1, 1])).start(problem)
    same = GuardedShadow(GBS(), np.array([1, 0])).expected_costs(problem)
    assert same.tolist() == GuardedShadow(GBS(), (1, 0)).expected_costs(problem).tolist()
    state = GuardedShadow(GBS()).start(problem)
    with pytest.raises(ProtocolError, match="was not asked"):
        state.update(-1, 0)
    query = state.next_query()
    assert query is not None
    with pytest.raises(NotRealizableError, match="contradicts every labeling"):
        state.update(query[1], 5)
