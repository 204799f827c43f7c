"""The exact value of tiny games, and what every learner must respect."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.strategic import bounds, instances
from counterplay.strategic.finite_classes import FiniteMetricClass
from counterplay.strategic.lab import minimax_mistakes


def values(catalogue: FiniteMetricClass) -> tuple[int, int]:
    first = minimax_mistakes(catalogue, "features_first")
    return first, minimax_mistakes(catalogue, "features_after")


@pytest.mark.claim("02.06")
@pytest.mark.parametrize("n", range(2, 7))
def test_star(n: int) -> None:
    assert values(instances.star_instance(n).hypotheses) == (1, n - 1)


@pytest.mark.claim("02.06")
@pytest.mark.parametrize("n", [2, 3, 4])
def test_online_lower_bound_instance(n: int) -> None:
    assert values(instances.online_lb_instance(n).hypotheses) == (1, n - 1)


@pytest.mark.claim("02.06")
@pytest.mark.parametrize(("n", "value"), [(2, 1), (3, 1), (4, 2), (5, 2), (7, 2), (8, 3)])
def test_line(n: int, value: int) -> None:
    points = np.arange(n + 1)
    dist = np.abs(points[:, None] - points[None, :])
    rules = points[None, :] >= np.arange(1, n + 1)[:, None]
    assert values(FiniteMetricClass(dist, rules)) == (value, value)


@pytest.mark.claim("02.06")
def test_random_tiny_instances_are_ordered() -> None:
    rng = np.random.default_rng(6)
    seen = 0
    while seen < 150:
        size, n = int(rng.integers(2, 6)), int(rng.integers(2, 6))
        rules = np.unique(rng.random((n, size)) < 0.4, axis=0)
        if len(rules) < 2:
            continue
        points = rng.integers(0, 4, size=(size, 2))
        dist = np.abs(points[:, None] - points[None, :]).sum(axis=2).astype(float)
        dist = np.where((dist == 0) & ~np.eye(size, dtype=bool), 0.5, dist)
        dist = np.minimum(dist, dist.T)
        for k in range(size):  # shortest paths make it a metric
            dist = np.minimum(dist, dist[:, [k]] + dist[[k], :])
        first, after = values(FiniteMetricClass(dist, rules))
        assert first <= bounds.halving_mistakes(len(rules))
        assert first <= after <= len(rules) - 1
        seen += 1


def test_too_large_and_wrong_setting_are_refused() -> None:
    big = instances.star_instance(20).hypotheses
    with pytest.raises(InvalidInputError, match="at most 14 points"):
        minimax_mistakes(big, "features_first")
    small = instances.star_instance(2).hypotheses
    with pytest.raises(InvalidInputError, match="'features_first' and 'features_after'"):
        minimax_mistakes(small, "blind")
