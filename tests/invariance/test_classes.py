"""Labelings under orbits and tie rules."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.invariance.lab import (
    ExplicitClass,
)
from invariance.problems import random_problem


@pytest.mark.claim("11.15")
def test_eta_classes_are_nested_between_invariant_and_relaxed() -> None:
    from counterplay.invariance.classes import budget

    rng = np.random.default_rng(5)
    for _ in range(80):
        problem = random_problem(rng)
        points = rng.choice(
            problem.n_points, size=rng.integers(1, problem.n_points + 1), replace=False
        )
        mult = rng.integers(1, 3, size=points.size)
        V, c = ExplicitClass(problem).labelings(points, mult, problem.group)
        orbits = np.unique(problem.orbit[points])
        relaxed, invariant = set(), set()
        for row in problem.H:
            parts = [set(row[points[problem.orbit[points] == o]].tolist()) for o in orbits]
            if all(len(part) == 1 for part in parts):
                labels = tuple(part.pop() for part in parts)
                relaxed.add(labels)
                if all(len(set(row[problem.orbit == o].tolist())) == 1 for o in orbits):
                    invariant.add(labels)
        assert {tuple(v) for v in V.tolist()} == relaxed
        assert {tuple(v) for v in V[c <= 0].tolist()} == invariant
        size = int(mult.sum())
        assert (c <= budget(1.0, size)).all()  # H^1 is H'
        for eta in np.linspace(0, 1, 7):
            assert set(np.flatnonzero(c <= budget(eta, size))) <= set(
                np.flatnonzero(c <= budget(min(1.0, eta + 0.1), size))
            )
    assert budget(-0.1, 5) < 0
    assert budget(0.5, 2) == 1  # one training point and the test point: |X| = 2
