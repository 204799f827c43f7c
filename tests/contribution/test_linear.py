"""Linear games: forms, scaling, caps."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.contribution import (
    LinearGame,
    instances,
)
from counterplay.contribution.lab import (
    optimal_stable_linear,
    socially_optimal_linear,
    stable_linear_milp,
)
from counterplay.errors import InvalidInputError


def test_sparse_and_dense_games_agree() -> None:
    from scipy import sparse

    dense = instances.random_linear_game(60, 200, 0.1, 3)
    light = LinearGame(sparse.csr_array(dense.W), 1.0)
    assert optimal_stable_linear(light).total == pytest.approx(
        optimal_stable_linear(dense).total, abs=1e-9
    )
    assert socially_optimal_linear(light).total == pytest.approx(
        socially_optimal_linear(dense).total, abs=1e-7
    )
    assert light.largest_cross == pytest.approx(dense.largest_cross)


def test_unit_diagonal_scaling_keeps_the_number_of_samples() -> None:
    rng = np.random.default_rng(13)
    Q = rng.dirichlet(np.full(12, 0.4), size=5)
    raw = LinearGame.from_distributions(Q, mu=0.2)
    scaled = LinearGame.from_distributions(Q, mu=0.2, scale="unit_diagonal")
    assert scaled.unit_diagonal
    assert not raw.unit_diagonal
    for solve in (socially_optimal_linear, optimal_stable_linear):
        plan = solve(scaled)
        assert plan.total == pytest.approx(solve(raw).total, abs=1e-7)
        assert raw.utilities(scaled.to_samples(plan.theta)) == pytest.approx(
            scaled.utilities(plan.theta) * np.linalg.norm(Q, axis=1)
        )


def test_caps_are_respected_or_reported() -> None:
    game = instances.flower(3).linear()
    capped = game.with_upper(np.full(10, 0.55))
    assert socially_optimal_linear(capped).theta.max() <= 0.55 + 1e-12
    with pytest.raises(InvalidInputError, match="no stable plan respects the caps"):
        optimal_stable_linear(capped)
    with pytest.raises(InvalidInputError, match="even if everybody contributes"):
        game.with_upper(np.full(10, 0.1))
    loose = game.with_upper(np.full(10, 0.7))
    assert optimal_stable_linear(loose).total == pytest.approx(5.4, abs=1e-9)
    assert stable_linear_milp(loose).total == pytest.approx(5.4, abs=1e-7)
