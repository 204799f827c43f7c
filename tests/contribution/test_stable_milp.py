"""Stable plans of any linear game."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.contribution import (
    instances,
)
from counterplay.contribution.lab import (
    natural_residual,
    optimal_stable_linear,
    stable_linear_dynamics,
    stable_linear_milp,
)
from counterplay.contribution.linear import as_linear_game
from counterplay.errors import InvalidInputError


def random_psd(rng: np.random.Generator, k: int, singular: bool) -> np.ndarray:
    """Gram matrix of non-negative unit rows; singular ones have few columns and repeated rows."""
    rows = rng.random((k, max(2, k // 2) if singular else 2 * k))
    rows *= rng.random(rows.shape) < 0.7
    rows[~rows.any(axis=1), 0] = 1.0
    if singular:
        rows[-1] = rows[0]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    gram = rows @ rows.T
    return np.clip((gram + gram.T) / 2, 0.0, None)


@pytest.mark.claim("04.05")
def test_unequal_targets_two_stage_equals_milp() -> None:
    rng = np.random.default_rng(6)
    spreads = []
    for trial in range(40):
        k = int(rng.integers(3, 7))
        matrix = random_psd(rng, k, singular=trial % 4 != 0)
        # targets in the range of W, so that several stable plans can exist
        mu = matrix @ rng.random(k) if trial % 2 else rng.uniform(0.5, 2, k)
        game = as_linear_game(matrix, mu)
        for sense in (1, -1):
            two = optimal_stable_linear(game, sense=sense)  # type: ignore[arg-type]
            one = stable_linear_milp(game, sense=sense)  # type: ignore[arg-type]
            assert two.total == pytest.approx(one.total, abs=1e-5)
            spreads.append(two.total * sense)
    assert max(spreads) > 0


@pytest.mark.claim("04.10")
def test_indefinite_games_are_refused_by_convex_methods() -> None:
    game = instances.indefinite()
    for solve in (optimal_stable_linear, stable_linear_dynamics):
        with pytest.raises(InvalidInputError, match=r"-0\.414"):
            solve(game)
    assert stable_linear_milp(game).total == pytest.approx(1, abs=1e-9)
    assert stable_linear_milp(game, sense=-1).total == pytest.approx(2, abs=1e-9)
    middle = np.array([0.5, 0.5, 0.5])
    assert natural_residual(game, middle) > 0.4  # between the two stable plans nothing is stable
