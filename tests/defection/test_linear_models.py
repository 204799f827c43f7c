"""Gradients of linear models, of some agents and on minibatches."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.defection import LinearModelProblem, instances
from defection.problems import setting


def test_gradients_of_some_agents_in_any_order() -> None:
    c, _ = setting(3)
    everybody = c.problem.gradients(c.w0)
    order = np.random.default_rng(0).permutation(c.problem.n_agents)
    assert c.problem.gradients(c.w0, order) == pytest.approx(everybody[order], abs=1e-14)
    points = np.repeat(c.w0[None], len(order), axis=0)
    assert c.problem.local_gradients(points, order) == pytest.approx(everybody[order], abs=1e-14)


def test_minibatches_are_unbiased() -> None:
    c = instances.random_overparameterised(M=3, n=6, d=20, random_state=0)
    assert isinstance(c.problem, LinearModelProblem)
    ids, rng = np.arange(3), np.random.default_rng(0)
    points = np.repeat(c.w0[None], 3, axis=0)
    draws = np.array([c.problem.local_gradients(points, ids, 2, rng) for _ in range(4000)])
    error = draws.std(axis=0) / np.sqrt(4000)
    assert (np.abs(draws.mean(axis=0) - c.problem.gradients(c.w0)) <= 5 * error + 1e-12).all()
    assert np.array_equal(
        np.sort(c.problem.local_gradients(points, ids, 6, rng).round(10)),
        np.sort(c.problem.gradients(c.w0).round(10)),
    )
