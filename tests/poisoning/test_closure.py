"""Closures of every class: the attackable region is the error region."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.errors import NotRealizableError
from counterplay.poisoning import (
    bounds,
)
from counterplay.poisoning.lab import (
    ClosureLearner,
    brute_force_region,
)
from poisoning.problems import errors_of, random_class, random_sample


@pytest.mark.claim("10.05")
def test_closure_region_is_the_error_region_for_any_class() -> None:
    rng = np.random.default_rng(4)
    kinds = [FiniteClass.intervals(range(7)), FiniteClass.thresholds(range(7))]
    kinds += [random_class(rng, 7, 10) for _ in range(60)]
    assert sum(not H.is_intersection_closed() for H in kinds) > 40
    for H in kinds:
        target = H.labels[rng.integers(len(H))].astype(np.uint8)
        seen = random_sample(rng, H.n_points)
        learner = ClosureLearner(H)
        assert np.array_equal(
            brute_force_region(learner, target, seen), errors_of(learner, target, seen)
        )


@pytest.mark.claim("10.05")
def test_direct_closures_equal_the_generic_one() -> None:
    rng = np.random.default_rng(5)
    grid = np.array([[a, b] for a in range(3) for b in range(3)], dtype=float)
    cube = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)], dtype=float)
    rules = [
        [int(all(x[i] == v for i, v in zip(range(3), rule) if v != 2)) for x in cube]
        for rule in np.ndindex(3, 3, 3)
    ] + [[0] * 8]
    families = [
        ("boxes", grid, FiniteClass.boxes(grid)),
        ("intervals", np.arange(6.0)[:, None], FiniteClass.intervals(range(6))),
        ("conjunctions", cube, FiniteClass.from_matrix(rules).deduplicated().unique),
    ]
    for name, points, H in families:
        assert H.is_intersection_closed()
        for _ in range(40):
            target = H.labels[rng.integers(len(H))].astype(np.uint8)
            seen = random_sample(rng, len(points))
            generic = ClosureLearner(H).fit(seen, target[seen]).predict(np.arange(len(points)))
            direct = ClosureLearner(name).fit(points[seen], target[seen]).predict(points)
            assert np.array_equal(generic, direct), name


def test_closure_of_subspaces() -> None:
    learner = ClosureLearner("subspaces").fit([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]], [1, 1])
    assert learner.predict([[2.0, 2.0, 5.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]).tolist() == [
        1,
        0,
        1,
    ]
    with pytest.raises(NotRealizableError):
        ClosureLearner("subspaces").fit([[1.0, 1.0], [2.0, 2.0]], [1, 0])


@pytest.mark.claim("10.07")
def test_closure_sample_size_for_boxes() -> None:
    rng, eps, delta = np.random.default_rng(1), 0.2, 0.1
    m = bounds.closure_sample_size(4, eps, delta)
    failures = 0
    for _ in range(200):
        corners = np.sort(rng.random((2, 2)), axis=0)
        X = rng.random((m, 2))
        y = ((corners[0] <= X) & (corners[1] >= X)).all(axis=1)
        learner = ClosureLearner("boxes").fit(X, y)
        inner = 0.0 if learner.low_ is None else float(np.prod(learner.high_ - learner.low_))
        failures += float(np.prod(corners[1] - corners[0])) - inner > eps  # exact: atk = err
    assert failures <= delta * 200
