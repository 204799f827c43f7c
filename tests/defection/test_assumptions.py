"""Assumptions of the theory, checked and estimated."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.core.validation import FloatArray
from counterplay.defection import FunctionProblem, check_assumptions, estimate_smoothness
from defection.problems import linear


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
