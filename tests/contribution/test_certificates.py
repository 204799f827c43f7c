"""The theorems as checks on a game."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.contribution import (
    envy_report,
    instances,
)
from counterplay.contribution.lab import (
    core_set_certificate,
    natural_residual,
    optimal_stable_linear,
    pos_is_one,
    socially_optimal_linear,
    stable_implies_envy_free,
    stable_linear_milp,
)
from counterplay.contribution.linear import as_linear_game


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


@pytest.mark.claim("04.07")
def test_stable_plan_is_optimal_for_its_core() -> None:
    rng = np.random.default_rng(8)
    different = 0
    for trial in range(80):
        k = int(rng.integers(3, 8))
        game = as_linear_game(random_psd(rng, k, singular=trial % 2 == 1), 1.0)
        eq = optimal_stable_linear(game)
        proof = core_set_certificate(game, theta_eq=eq.theta)
        assert abs(proof.gap) <= 1e-7
        assert proof.equations_residual <= 1e-7
        if proof.globally_optimal:
            assert eq.total == pytest.approx(socially_optimal_linear(game).total, abs=1e-7)
        for padded in proof.enumerate_core_optima(3, random_state=trial):
            assert natural_residual(game, padded) <= 1e-5
            different += bool(abs(padded - eq.theta).max() > 1e-4)
    assert different > 0  # some games have a genuinely different optimum


@pytest.mark.claim("04.08")
def test_diagonal_dominance_makes_stability_free() -> None:
    rng = np.random.default_rng(9)
    for _ in range(60):
        k = int(rng.integers(2, 8))
        matrix = rng.random((k, k)) * (rng.random((k, k)) < 0.6)
        matrix = (matrix + matrix.T) / 2
        np.fill_diagonal(matrix, 0.0)
        matrix *= 0.98 / max(matrix.sum(axis=1).max(), 1e-9)
        np.fill_diagonal(matrix, 1.0)
        game = as_linear_game(matrix, rng.uniform(0.5, 2))
        assert pos_is_one(game)
        eq = optimal_stable_linear(game)
        assert (eq.theta > 0).all()
        assert eq.total / socially_optimal_linear(game).total == pytest.approx(1, abs=1e-9)


@pytest.mark.claim("04.08")
def test_necessity_of_equal_targets_and_symmetry() -> None:
    star, directed = instances.star_with_one_high_target(), instances.dominant_but_directed()
    assert pos_is_one(star).failed == ("strictly diagonally dominant", "equal targets")
    assert pos_is_one(directed).failed == ("symmetric", "positive semidefinite")
    eq = stable_linear_milp(star)
    assert eq.theta.min() > 0
    opt = socially_optimal_linear(star)
    assert eq.total / opt.total == pytest.approx(3.578947368 / 2.222222222, abs=1e-6)
    prices = stable_linear_milp(directed).total, socially_optimal_linear(directed).total
    assert prices == pytest.approx((1.2, 10 / 9), abs=1e-9)


@pytest.mark.claim("04.09")
def test_stable_plans_are_envy_free_if_own_effort_counts_most() -> None:
    rng = np.random.default_rng(10)
    envious = 0
    for trial in range(200):
        k = int(rng.integers(2, 6))
        matrix = rng.random((k, k)) * 0.999
        if trial % 2:
            matrix = random_psd(rng, k, singular=False) * 0.999
        np.fill_diagonal(matrix, 1.0)
        game = as_linear_game(matrix, rng.uniform(0.2, 2, k))
        assert stable_implies_envy_free(game)
        plan = stable_linear_milp(game, sense=1 if trial % 3 else -1)
        envious += len(envy_report(game, plan.theta).pairs)
    assert envious == 0
    twins = instances.identical_linear_pair()
    assert not stable_implies_envy_free(twins)
    assert natural_residual(twins, [0.7, 0.3]) == pytest.approx(0, abs=1e-15)
    assert envy_report(twins, [0.7, 0.3]).pairs == [(0, 1)]
