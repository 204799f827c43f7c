"""Standard learners of infinite classes keep their mistake bounds."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.strategic.lab import (
    DisjunctionElimination,
    GridThreshold,
    PerceptronLearner,
    SingletonLearner,
    WinnowLearner,
)


@pytest.mark.claim("03.06")
def test_standard_learners_keep_their_mistake_bounds() -> None:
    rng = np.random.default_rng(4)
    for _ in range(40):
        p = 12
        literals = rng.choice(p, size=2, replace=False)
        bits = (rng.random((300, p)) < 0.25).astype(int)
        truth = bits[:, literals].any(axis=1).astype(int)
        for learner in (WinnowLearner(p, r=2), DisjunctionElimination(p)):
            assert run(learner, bits, truth) <= learner.mistake_bound
        w = rng.normal(size=3)
        w /= np.linalg.norm(w)
        points = rng.uniform(-1, 1, size=(400, 3))
        points = points[np.abs(points @ w) >= 0.1]
        R = float(np.linalg.norm(points, axis=1).max())
        learner = PerceptronLearner(3, R, 0.1)
        assert run(learner, points, (points @ w > 0).astype(int)) <= learner.mistake_bound
        cut = int(rng.integers(0, 32))
        grid = rng.integers(0, 31, size=200)
        assert run(GridThreshold(31), grid, (grid >= cut).astype(int)) <= 5
        spot = int(rng.integers(0, 9))
        nodes = rng.integers(0, 9, size=50)
        assert run(SingletonLearner(), nodes, (nodes == spot).astype(int)) <= 1


def run(learner, points, labels) -> int:
    mistakes = 0
    for z, y in zip(points, labels):
        if int(np.asarray(learner.predict(np.asarray([z])))[0]) != y:
            mistakes += 1
            state, learner = learner.key(), learner.updated(z, int(y))
            assert learner.key() != state
            assert not learner.is_dead()
    return mistakes
