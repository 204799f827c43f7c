"""Cheapest envy-free plans of linear games."""

from __future__ import annotations

import numpy as np
import pytest

from contribution.referees import envy_free_milp
from counterplay.contribution import (
    LinearGame,
    bounds,
    envy_report,
    equal_allocation,
    instances,
)
from counterplay.contribution.lab import (
    improve_envy_free,
    optimal_envy_free_linear,
    optimal_stable_linear,
    socially_optimal_linear,
    stable_implies_envy_free,
)
from counterplay.contribution.linear import as_linear_game
from counterplay.errors import InvalidInputError


@pytest.mark.claim("04.02")
@pytest.mark.parametrize("s", [2, 3])
def test_flower_cheapest_envy_free_plan(s: int) -> None:
    game = instances.flower(s).linear()
    for theta in (optimal_envy_free_linear(game).theta, envy_free_milp(game)[0]):
        assert theta.sum() == pytest.approx(bounds.flower_linear_envy_free(s), abs=1e-3)
        assert envy_report(game, theta).is_envy_free


@pytest.mark.claim("04.02", "04.40")
@pytest.mark.parametrize("s", [4, 5, 7])
def test_large_flowers_by_branch_and_bound(s: int) -> None:
    plan = optimal_envy_free_linear(instances.flower(s).linear())
    assert plan.total == pytest.approx((s**2 + 1) / 2, abs=1e-6)
    assert plan.certificate["proved"]


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


@pytest.mark.claim("04.40")
def test_branch_and_bound_equals_the_mixed_integer_program() -> None:
    rng = np.random.default_rng(14)
    for trial in range(12):
        k = int(rng.integers(2, 6))
        matrix = rng.random((k, k)) * (1.3 if trial % 2 else 0.9)  # own effort may not count most
        np.fill_diagonal(matrix, 1.0)
        if trial % 3 == 0:
            matrix = random_psd(rng, k, singular=False)
        mu = rng.uniform(0.5, 2, k) if trial % 4 else 1.0
        game = LinearGame(matrix, mu, check_scale=False)
        branch = optimal_envy_free_linear(game)
        assert branch.total == pytest.approx(game.total(envy_free_milp(game)[0]), rel=1e-4)
        assert branch.certificate["proved"]
        assert envy_report(game, branch.theta).is_envy_free


@pytest.mark.claim("04.40")
def test_thirty_parties_and_an_honest_bound() -> None:
    for seed in (0, 4):
        game = instances.random_linear_game(30, 45, 0.3, seed)
        plan = optimal_envy_free_linear(game)
        assert plan.certificate["proved"]
        assert envy_report(game, plan.theta).is_envy_free
        opt = socially_optimal_linear(game).total
        assert opt + 1e-3 < plan.total <= equal_allocation(game).total + 1e-9
        hurried = optimal_envy_free_linear(game, time_limit=1e-9)
        assert not hurried.certificate["proved"]
        assert opt - 1e-7 <= hurried.certificate["bound"] <= plan.total <= hurried.total + 1e-9


@pytest.mark.claim("04.02")
@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_weak_inequality_is_refused(eps: float) -> None:
    game = instances.flower(2).linear()
    with pytest.raises(InvalidInputError, match="not envy-free"):
        optimal_envy_free_linear(game, eps=eps)
    # what a weak inequality would return: cheaper, and not envy-free
    assert game.utilities([2, 0, 0, 0, 0]).min() >= 1
    assert not envy_report(game, [2, 0, 0, 0, 0]).is_envy_free


@pytest.mark.claim("04.11")
def test_order_of_totals() -> None:
    rng = np.random.default_rng(11)
    for _ in range(15):
        k = int(rng.integers(3, 6))
        game = as_linear_game(random_psd(rng, k, singular=False), rng.uniform(0.5, 1.5, k))
        assert stable_implies_envy_free(game)
        opt = socially_optimal_linear(game).total
        ef = optimal_envy_free_linear(game).total
        eq, worst = (optimal_stable_linear(game, sense=s).total for s in (1, -1))  # type: ignore[arg-type]
        assert opt <= ef + 1e-7
        assert ef <= eq + 1e-3  # the envy-free program asks for a margin
        assert eq <= worst + 1e-7 <= game.standalone().sum() + 2e-7
        assert ef <= equal_allocation(game).total + 1e-7
    flower = instances.flower(3).linear()  # stable and equal totals are not ordered
    assert optimal_stable_linear(flower).total > equal_allocation(flower).total


def test_improved_envy_free_plan_is_never_worse() -> None:
    for seed in range(6):
        game = instances.random_linear_game(6, 9, 0.5, seed)
        start = optimal_stable_linear(game)
        if not envy_report(game, start.theta).is_envy_free:
            continue
        better = improve_envy_free(game, start.theta)
        exact = optimal_envy_free_linear(game)
        assert exact.total - 1e-3 <= better.total <= start.total + 1e-9
        assert envy_report(game, better.theta).is_envy_free
