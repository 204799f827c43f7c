"""Best responses: when they settle and when they cycle."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.contribution import (
    CoverageGame,
    LinearGame,
    best_response_dynamics,
    bounds,
    instances,
)
from counterplay.contribution.lab import (
    CyclePACGame,
    NonConvergence,
    solve_ncp,
    well_behaved_report,
)
from counterplay.contribution.linear import as_linear_game
from counterplay.errors import InvalidInputError


@pytest.mark.claim("04.12")
@pytest.mark.parametrize("kind", ["linear", "coverage"])
def test_best_response_map_properties(kind: str) -> None:
    rng = np.random.default_rng(12)
    for trial in range(30):
        k = int(rng.integers(2, 6))
        game: LinearGame | CoverageGame
        if kind == "linear":
            game = as_linear_game(rng.random((k, k)) + np.eye(k), rng.uniform(0.5, 2, k))
        else:
            game = instances.random_coverage_game(k, 8, trial, mu=(0.6, 0.8))
        alone, constants = game.standalone(), well_behaved_report(game)
        low, high = np.sort(rng.random((2, k)) * alone, axis=0)
        f_low, f_high = game.best_response_map(low), game.best_response_map(high)
        assert (f_high <= f_low + 1e-9).all()  # more from the others, less from me
        assert (f_low <= alone + 1e-9).all()
        moved = low.copy()
        moved[0] = rng.random() * alone[0]
        assert game.best_response(0, moved) == pytest.approx(game.best_response(0, low), abs=1e-12)
        distance = abs(high - low)
        others = distance.sum() - distance
        assert (abs(f_high - f_low) <= constants.lipschitz * others + 1e-9).all()


def test_directed_triangle_needs_damping() -> None:
    game = instances.directed_triangle()
    start = [0.1, 0.6, 0.3]
    result = best_response_dynamics(game, "damped", theta0=start)
    assert result.theta == pytest.approx([0.5, 0.5, 0.5], abs=1e-9)
    error = np.linalg.norm(result["theta"] - 0.5, axis=1)
    late = (error[1:] / error[:-1])[10:40]
    assert late == pytest.approx(np.sqrt(3) / 2, abs=1e-3)


@pytest.mark.claim("04.26")
def test_real_cycle_dynamics() -> None:
    game = CyclePACGame(1, 0.9, integral=False, upper=1)
    level = bounds.cycle_real_level(0.9)
    assert level == pytest.approx(1 - np.sqrt(0.2))
    damped = best_response_dynamics(game, "damped")
    assert damped.theta == pytest.approx([level] * 3, abs=1e-9)
    with pytest.raises(NonConvergence, match="repeat every 2 sweeps") as caught:
        best_response_dynamics(game)
    cycle = {tuple(np.round(plan, 9)) for plan in caught.value.cycle}
    assert cycle == {(0.8, 0.0, 0.8), (0.0, 0.8, 0.0)}
    assert best_response_dynamics(game, fallback=True).theta == pytest.approx([level] * 3, abs=1e-8)
    assert solve_ncp(game).theta == pytest.approx([level] * 3, abs=1e-8)


def test_simultaneous_moves_cycle_on_the_pair() -> None:
    with pytest.raises(NonConvergence) as caught:
        best_response_dynamics(instances.identical_pair(), "simultaneous")
    assert {tuple(plan) for plan in caught.value.cycle} == {(1.0, 1.0), (0.0, 0.0)}


def test_whole_number_cycle_never_settles() -> None:
    with pytest.raises(NonConvergence, match="repeat"):
        best_response_dynamics(CyclePACGame(3, "4/5"))
    with pytest.raises(InvalidInputError, match="damped"):
        best_response_dynamics(CyclePACGame(3, "4/5"), "damped")
    with pytest.raises(InvalidInputError, match="real contributions"):
        solve_ncp(CyclePACGame(3, "4/5"))
    shuffled = pytest.raises(NonConvergence, match="still move")
    with shuffled:
        best_response_dynamics(CyclePACGame(3, "4/5"), order="shuffled", max_sweeps=50)
