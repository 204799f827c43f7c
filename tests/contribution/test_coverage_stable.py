"""Stable plans of coverage games."""

from __future__ import annotations

import numpy as np
import pytest

from contribution.referees import FLOWER
from counterplay.contribution import (
    TabularGame,
    best_response_dynamics,
    bounds,
    equal_allocation,
    instances,
)
from counterplay.contribution.lab import (
    coverage_potential,
    integer_equilibrium_coverage,
    is_feasible,
    optimal_stable_coverage,
)
from counterplay.errors import InvalidInputError


@pytest.mark.claim("04.16")
@pytest.mark.parametrize("row", FLOWER, ids=lambda row: f"s={row[0]}")
def test_coverage_flower_table(row: tuple[float, ...]) -> None:
    s, relaxed, ceiling, core_only, petal, stable, fair, pos, pof = int(row[0]), *row[1:]
    game = instances.flower(s).coverage()
    assert bounds.flower_coverage_relaxed_opt(s) == pytest.approx(relaxed, abs=1e-4)
    assert bounds.flower_coverage_core_only(s) == pytest.approx(core_only, abs=1e-4)
    settled = best_response_dynamics(game)
    assert settled.sweeps <= 20
    assert settled.theta[0] == 0.0
    assert settled.theta[1:] == pytest.approx(petal, abs=1e-4)
    assert settled.allocation.total == pytest.approx(stable, abs=1e-4)
    assert settled.allocation.total == pytest.approx(bounds.flower_coverage_stable(s), abs=1e-6)
    equal = equal_allocation(game).total
    assert equal == pytest.approx(fair, abs=1e-4)
    exact_core = bounds.flower_coverage_core_only(s)
    assert settled.allocation.total / exact_core == pytest.approx(pos, abs=6e-4)  # three digits
    assert equal / exact_core == pytest.approx(pof, abs=6e-4)
    assert petal >= bounds.flower_petal(s) >= bounds.flower_petal_lower_bound()
    core = np.zeros(game.k)
    for samples, enough in ((ceiling, True), (ceiling - 1, False), (core_only + 1e-4, True)):
        core[0] = samples
        assert is_feasible(game, core) is enough


@pytest.mark.claim("04.20")
def test_potential_identity() -> None:
    rng = np.random.default_rng(4)
    for seed in range(40):
        k = int(rng.integers(1, 6))
        game = instances.random_coverage_game(k, 7, seed, integral=True)
        theta = rng.integers(0, 8, k).astype(float)
        for i in range(k):
            step = coverage_potential(game, theta + np.eye(k)[i]) - coverage_potential(game, theta)
            assert step == pytest.approx(2 * (game.utility(i, theta) - game.mu[i]), abs=1e-12)
    with pytest.raises(InvalidInputError, match="whole-number"):
        coverage_potential(instances.identical_pair(), [0.5, 0.5])


@pytest.mark.claim("04.20")
def test_whole_number_dynamics_terminate_in_a_stable_plan() -> None:
    for seed in range(60):
        k = 2 + seed % 3
        game = instances.random_coverage_game(k, 6, seed, integral=True, mu=(0.6, 0.85))
        result = best_response_dynamics(game)
        table = TabularGame.from_game(game, [np.arange(int(t) + 1) for t in game.standalone()])
        where = tuple(int(t) for t in result.theta)
        assert table.stable[where]
        values = [coverage_potential(game, plan) for plan in result["theta"]]
        assert (np.diff(values) <= 1e-12).all()
        cheapest = integer_equilibrium_coverage(game)
        assert cheapest.total <= result.allocation.total
        assert cheapest.total == table.cheapest(table.stable).sum()  # type: ignore[union-attr]


def test_two_stable_plans_of_the_pair_are_both_found() -> None:
    plan = optimal_stable_coverage(instances.identical_pair(), n_restarts=6)
    assert plan.total == pytest.approx(1.0)
    assert plan.certificate["plans_found"] >= 2
    with pytest.raises(InvalidInputError, match="12 parties"):
        optimal_stable_coverage(instances.random_coverage_game(13, 20, 0), enumerate_supports=True)
