"""The orbit game: the compact program, its value, and the learner that meets it."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.invariance import instances
from counterplay.invariance.lab import (
    OrbitOnlyOptimal,
    dim,
    mu,
    mu_of,
)
from invariance.problems import (
    naive_mu,
    natural_pairs,
    random_problem,
)


@pytest.mark.claim("11.09")
def test_compact_program_equals_the_naive_one() -> None:
    rng = np.random.default_rng(3)
    for _ in range(150):
        problem = random_problem(rng, max_rows=6, max_orbits=3, max_size=2)
        times = rng.integers(1, 3, size=problem.n_orbits)
        phi = [o for o, t in enumerate(times) for _ in range(t)]
        result = mu_of(problem, None, range(problem.n_orbits), times)
        assert result.value == pytest.approx(naive_mu(problem, phi), abs=1e-7)
        assert result.value <= (times == 1).sum() / 2 + 1e-9
        assert sum(p for _, _, p in result.worst_case) <= 1 + 1e-7


@pytest.mark.claim("11.09")
def test_mu_is_at_least_half_of_dim() -> None:
    rng = np.random.default_rng(4)
    for _ in range(40):
        problem = random_problem(rng, max_rows=6, max_orbits=3, max_size=2)
        cube = dim(problem)
        assert cube.verify(problem)
        assert mu(problem).value >= cube.value / 2 - 1e-9


@pytest.mark.claim("11.09")
def test_mu_of_birds_and_subsets() -> None:
    for K in (1, 2, 3, 4):
        problem = instances.background_birds(K, random_state=0).problem
        for t in range(1, 7):
            expected = t / 2 if t <= K else (K - 1) / 2
            assert mu(problem, t=t).value == pytest.approx(expected, abs=1e-9)
        assert dim(problem).value == K
    subsets = instances.example_vco0(2).problem
    values = [mu(subsets, t=t).value for t in range(1, 6)]
    assert values == pytest.approx([0.5, 1.0, 1.2, 1.2, 1.2], abs=1e-7)
    assert dim(subsets).value == 2


@pytest.mark.claim("11.10")
def test_orbit_only_learner_meets_mu() -> None:
    rng = np.random.default_rng(6)
    for _ in range(25):
        problem = random_problem(rng, max_rows=5, max_orbits=3, max_size=2)
        phi = sorted(rng.integers(problem.n_orbits, size=rng.integers(1, 4)).tolist())
        orbits, times = np.unique(phi, return_counts=True)
        bound = mu_of(problem, None, orbits, times).value
        learner = OrbitOnlyOptimal(problem, random_state=0)
        for f, x in natural_pairs(problem, phi):
            total = 0.0
            for i in range(len(phi)):
                rest = [j for j in range(len(phi)) if j != i]
                fitted = learner.fresh().fit([x[j] for j in rest], [f[j] for j in rest])
                total += 1 - fitted.predict_proba([x[i]])[0, f[i]]
            assert total <= bound + 1e-7
