"""Minimal heterogeneity: the exact test, witnesses and margins."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import orth

from counterplay.defection import (
    LinearModelProblem,
    check_assumptions,
    minimal_heterogeneity_linear,
)
from counterplay.defection.lab import bounded_agent, heterogeneity_margin, search_dependence
from defection.problems import linear


def with_shared_row(problem: LinearModelProblem) -> LinearModelProblem:
    rows = problem.A_list
    rows[1] = np.vstack([rows[1], rows[0][:1]])
    return LinearModelProblem(rows, w_star=problem.w_star, loss=problem.loss)


@pytest.mark.claim("05.21")
@pytest.mark.parametrize("seed", range(4))
def test_exact_test_agrees_with_a_search(seed: int) -> None:
    problem = linear(seed, "squared")  # Huber gradients do not change where they saturate
    assert problem.w_star is not None
    starts = problem.w_star + np.random.default_rng(seed).normal(size=(3, 7))
    assert minimal_heterogeneity_linear(problem.A_list)
    # gradients lie in the row spaces, so the stacked orthonormal bases bound every margin
    floor = np.linalg.svd(np.vstack([orth(a.T).T for a in problem.A_list]), compute_uv=False)[-1]
    found = search_dependence(problem, starts, 250, random_state=seed).margin
    assert found >= floor - 1e-9 > 0
    shared = with_shared_row(problem)
    assert not minimal_heterogeneity_linear(shared.A_list)
    assert search_dependence(shared, starts, 1200, random_state=seed).margin < floor / 20


@pytest.mark.claim("05.21")
@pytest.mark.parametrize("seed", range(8))
def test_witness_shows_dependent_gradients(seed: int) -> None:
    shared = with_shared_row(linear(seed))
    result = minimal_heterogeneity_linear(shared.A_list)
    assert result.rank == result.rank_sum - 1
    assert result.witness is not None
    assert shared.w_star is not None
    residual = max(float(np.abs(a @ result.witness).max()) for a in shared.A_list)
    w = shared.w_star + result.witness * (0.5 * shared.tau / residual)  # where Huber is quadratic
    G = shared.gradients(w)
    assert (np.linalg.norm(G, axis=1) > 1e-3).sum() >= 2
    assert heterogeneity_margin(shared, w).margin <= 1e-9


@pytest.mark.claim("05.21")
def test_bounded_agents_are_rejected_at_once() -> None:
    rng = np.random.default_rng(0)
    full, other = rng.normal(size=(5, 4)), rng.normal(size=(1, 4))
    assert bounded_agent([other, full]) == 1
    assert bounded_agent([full]) is None
    assert not minimal_heterogeneity_linear([other, full])
    problem = LinearModelProblem([other, full], w_star=np.zeros(4), loss="squared")
    # where F_0 is largest on an ellipsoid of agent 1 the gradients are parallel
    direction = np.linalg.solve(full.T @ full, other[0])
    assert heterogeneity_margin(problem, direction).margin <= 1e-9


def test_more_agents_than_parameters_are_never_heterogeneous() -> None:
    rows = list(np.random.default_rng(0).normal(size=(4, 1, 3)))
    assert not minimal_heterogeneity_linear(rows)
    problem = LinearModelProblem(rows, w_star=np.zeros(3))
    assert heterogeneity_margin(problem, np.ones(3)).margin == 0.0
    report = check_assumptions(problem, np.random.default_rng(0).normal(size=(5, 3)), 0)
    assert report["minimally heterogeneous"].holds is False
