"""Minimal heterogeneity: the exact test, witnesses, margins, and checked assumptions."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from scipy.linalg import orth

from counterplay.core.validation import FloatArray
from counterplay.defection import (
    FunctionProblem,
    LinearModelProblem,
    check_assumptions,
    estimate_smoothness,
    instances,
    minimal_heterogeneity_linear,
)
from counterplay.defection.lab import (
    bounded_agent,
    heterogeneity_margin,
    huber_tau,
    huber_tau_slope,
    psi_tau,
    psi_tau_slope,
    search_dependence,
)


def linear(seed: int, loss: Literal["huber", "squared"] = "huber") -> LinearModelProblem:
    c = instances.random_overparameterised(
        M=3, n=2, d=7, random_state=np.random.default_rng([21, seed])
    )
    assert isinstance(c.problem, LinearModelProblem)
    return LinearModelProblem(c.problem.A_list, w_star=c.problem.w_star, loss=loss)


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


def test_violations_come_with_a_witness() -> None:
    def wavy(w: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.array([w @ w / 2, np.sin(w[0]) + 2]), np.array([w, [np.cos(w[0]), 0.0]])

    problem = FunctionProblem(wavy, 2, 2, H=0.9, L=1.0, w_star=np.zeros(2))
    points = np.random.default_rng(0).uniform(-3, 3, size=(40, 2))
    report = check_assumptions(problem, points, 0)
    assert not report.holds
    assert report["convex"].agent == 1
    assert report["smooth"].agent == 0
    assert report["Lipschitz"].holds is False
    witness = report["Lipschitz"].witness
    assert witness is not None
    assert np.linalg.norm(problem.gradients(witness), axis=1).max() > 1.0
    assert report["simultaneously optimal"].agent == 1


def test_estimated_smoothness_finds_the_constant() -> None:
    for seed in range(5):
        problem = linear(seed, "squared")
        found = estimate_smoothness(problem, np.zeros(7), 300, random_state=seed)
        assert problem.H is not None
        assert found <= problem.H + 1e-6
        assert found == pytest.approx(problem.H, rel=1e-3)


def test_random_problems_satisfy_all_assumptions() -> None:
    for seed in range(10):
        problem = linear(seed)
        points = np.random.default_rng(seed).normal(size=(40, 7), scale=4.0)
        assert check_assumptions(problem, points, 0).holds


@pytest.mark.parametrize(
    ("value", "slope"), [(psi_tau, psi_tau_slope), (huber_tau, huber_tau_slope)]
)
def test_smoothing_slopes_are_derivatives(value, slope) -> None:  # type: ignore[no-untyped-def]
    x, h = np.linspace(-3, 3, 601), 1e-6
    for tau in (0.2, 1.0):
        numeric = (value(x + h, tau) - value(x - h, tau)) / (2 * h)
        assert numeric == pytest.approx(slope(x, tau), abs=1e-4)
        assert np.abs(np.diff(slope(x, tau))).max() <= 0.01 / min(tau, 1.0) + 1e-12


@pytest.mark.parametrize("name", ["benign_example", "nonterminating_example",
                                  "non_heterogeneous_example", "identical_agents"])  # fmt: skip
def test_gradients_of_the_constructions_are_derivatives(name: str) -> None:
    problem = getattr(instances, name)().problem
    rng, h = np.random.default_rng(0), 1e-6
    for w in rng.normal(size=(30, 2)) * 3.0:
        numeric = np.stack(
            [(problem.losses(w + h * e) - problem.losses(w - h * e)) / (2 * h) for e in np.eye(2)],
            axis=1,
        )
        assert problem.gradients(w) == pytest.approx(numeric, abs=1e-4)
