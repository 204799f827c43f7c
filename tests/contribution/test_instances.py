"""Worked examples have the properties they are made for."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.contribution import (
    best_response_dynamics,
    bounds,
    envy_report,
    instances,
    stability_report,
)
from counterplay.contribution.lab import (
    is_feasible,
)


@pytest.mark.claim("04.18")
@pytest.mark.parametrize("alpha", np.linspace(0, 1, 11))
def test_segment_between_two_stable_plans(alpha: float) -> None:
    game = instances.identical_pair()
    u = game.utilities([alpha, 1 - alpha])
    assert u == pytest.approx(0.75 - alpha * (1 - alpha) / 8, abs=1e-15)
    assert u[0] == pytest.approx(bounds.pair_segment_utility(alpha), abs=1e-15)
    at_the_end = alpha in (0.0, 1.0)
    assert stability_report(game, [alpha, 1 - alpha]).is_stable is at_the_end
    assert is_feasible(game, [alpha, 1 - alpha]) is at_the_end
    exponent = game.with_extension("exponent")  # the wrong reading hides the non-convexity
    assert exponent.utilities([alpha, 1 - alpha]) == pytest.approx(0.75, abs=1e-15)


@pytest.mark.claim("04.19")
def test_values_and_envious_pairs() -> None:
    game = instances.k4_edges()
    for matching in (1.0, 0.0):
        theta = instances.k4_segment(matching)
        u = game.utilities(theta)
        inside = theta == 1.0
        assert u[inside] == pytest.approx(2 / 3, abs=1e-12)
        assert u[~inside] == pytest.approx(11 / 18, abs=1e-12)
        report = envy_report(game, theta)
        assert report.is_envy_free
        heavier = inside[:, None] & ~inside[None, :]
        assert (report.margin + 0.6)[heavier] == pytest.approx(5 / 9, abs=1e-12)
    mixed = instances.k4_segment(0.9)
    assert game.utilities(mixed)[1] == pytest.approx(0.6133333333, abs=1e-9)
    assert game.swap_utilities(mixed)[1, 5] == pytest.approx(0.6038888889, abs=1e-9)
    assert envy_report(game, mixed).pairs == [(1, 4), (1, 5), (3, 4), (3, 5)]


@pytest.mark.claim("04.19")
def test_switch_points() -> None:
    game = instances.k4_edges()
    grid = np.arange(500, 1001) / 1000
    plans = [instances.k4_segment(a) for a in grid]
    assert all(is_feasible(game, plan) for plan in plans)
    free = np.array([envy_report(game, plan).is_envy_free for plan in plans])
    assert free[0]
    assert free[-1]
    middle = grid[1:-1][free[1:-1]]
    assert middle.min() == pytest.approx(0.701, abs=1e-3)
    assert middle.max() == pytest.approx(0.843, abs=1e-3)
    assert np.diff(middle).max() < 0.0015  # one interval, with envy on both sides


@pytest.mark.claim("04.21")
def test_stable_but_envied_plan() -> None:
    game = instances.stable_but_envied()
    settled = best_response_dynamics(game)
    assert settled.theta == pytest.approx([0.957977, 0, 0.619560], abs=1e-6)
    assert stability_report(game, settled.theta).is_stable
    report = envy_report(game, settled.theta)
    assert report.pairs == [(0, 1)]
    assert game.swap_utilities(settled.theta)[0, 1] == pytest.approx(0.829026, abs=1e-6)
