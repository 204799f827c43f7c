"""Boosting into a compression: perfect on the sample, determined by its indices."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.invariance import bounds
from counterplay.invariance.lab import (
    AgnosticCompression,
    AlphaBoostCompression,
    FiniteProblem,
    OneInclusionRelaxed,
    vcao,
)


def interval_problem() -> FiniteProblem:
    """Intervals on +-1..+-8 with the sign flip: VCdim 2, VCao 2, VCo 1."""
    pool = np.array([*range(1, 9), *range(-1, -9, -1)])
    ends = [(a, b) for a in sorted(pool) for b in sorted(pool) if a <= b]
    rows = [(pool >= a) & (pool <= b) for a, b in ends] + [pool > 99]
    return FiniteProblem(np.array(rows, dtype=int), np.abs(pool))


@pytest.mark.claim("11.13")
def test_boosting_and_agnostic_compression() -> None:
    problem = interval_problem()
    assert vcao(problem).value == 2
    weak = OneInclusionRelaxed(problem)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        row = problem.H[rng.integers(len(problem.H))]
        natural = np.where(rng.random(8) < 0.5, np.arange(8), np.arange(8) + 8)
        X = rng.choice(natural, size=40)
        boost = AlphaBoostCompression(weak, k=6, random_state=seed).fit(X, row[X])
        assert boost.perfect_
        assert boost.n_rounds_ <= bounds.alpha_boost_rounds(40)
        np.testing.assert_array_equal(boost.predict(X), row[X])
        twin = boost.rebuild(X, row[X], boost.indices_)
        pool = np.arange(problem.n_points)
        np.testing.assert_array_equal(boost.predict(pool), twin.predict(pool))
        if seed < 6:
            noisy = row[natural] ^ (rng.random(8) < 0.15)  # noise per orbit: labels stay invariant
            y = noisy[X % 8]
            best = (problem.H[:, X] != y).mean(axis=1).min()
            learner = AgnosticCompression(problem, random_state=seed).fit(X, y)
            assert learner.k_ == 6
            assert (learner.predict(X) != y).mean() <= best + 1e-12
