"""Stable plans of symmetric linear games."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from counterplay.contribution import (
    bounds,
    instances,
)
from counterplay.contribution.lab import (
    natural_residual,
    optimal_stable_linear,
    socially_optimal_linear,
    stable_linear_dynamics,
    stable_linear_milp,
)
from counterplay.contribution.linear import as_linear_game
from counterplay.core.programs import minimize_linear
from counterplay.errors import InvalidInputError, MissingDependencyError


@pytest.mark.claim("04.01")
@pytest.mark.parametrize("s", [2, 3, 4, 6, 10])
def test_flower_prices_match_closed_forms(s: int) -> None:
    game = instances.flower(s).linear()
    opt, eq = socially_optimal_linear(game), optimal_stable_linear(game)
    assert opt.total == pytest.approx(s, abs=1e-9)
    assert opt.certificate["gap"] == pytest.approx(0, abs=1e-9)
    assert eq.total == pytest.approx(bounds.flower_linear_stable(s), abs=1e-9)
    assert eq.theta[1:] == pytest.approx(bounds.flower_petal(s), abs=1e-9)
    assert eq.total / opt.total == pytest.approx(bounds.flower_linear_pos(s), abs=1e-9)
    assert eq.theta[0] == 0.0


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


@pytest.mark.claim("04.04")
def test_all_solvers_agree_for_equal_targets() -> None:
    rng = np.random.default_rng(4)
    for trial in range(200):
        k = int(rng.integers(2, 6))
        game = as_linear_game(random_psd(rng, k, singular=trial % 2 == 1), rng.uniform(0.5, 2))
        total = optimal_stable_linear(game).total
        assert stable_linear_dynamics(game).total == pytest.approx(total, abs=1e-7)
        start = rng.random(k)
        assert stable_linear_dynamics(game, theta0=start).total == pytest.approx(total, abs=1e-7)
        for sense in (1, -1):
            exact = stable_linear_milp(game, sense=sense)  # type: ignore[arg-type]
            assert exact.total == pytest.approx(total, abs=1e-5)


@pytest.mark.claim("04.04", "04.06")
def test_convex_program_agrees() -> None:
    pytest.importorskip("cvxpy")
    from counterplay.contribution.lab import optimal_stable_linear_cp

    rng = np.random.default_rng(4)  # the games of the test above
    for trial in range(200):
        k = int(rng.integers(2, 6))
        game = as_linear_game(random_psd(rng, k, singular=trial % 2 == 1), rng.uniform(0.5, 2))
        rng.random(k)
        plan = optimal_stable_linear_cp(game)
        assert plan.total == pytest.approx(optimal_stable_linear(game).total, abs=1e-5)
        assert plan.certificate["residual"] <= 1e-6


@pytest.mark.claim("04.05")
def test_start_decides_which_stable_plan_is_reached() -> None:
    game = instances.unequal_targets()
    assert optimal_stable_linear(game).total == pytest.approx(np.sqrt(2), abs=1e-9)
    assert optimal_stable_linear(game, sense=-1).total == pytest.approx(2, abs=1e-9)
    assert optimal_stable_linear(game).certificate["face_dimension"] == 1
    assert stable_linear_dynamics(game).total == pytest.approx(2, abs=1e-9)
    good = stable_linear_dynamics(game, theta0=[0, 0, np.sqrt(2)])
    assert good.total == pytest.approx(np.sqrt(2), abs=1e-9)


@pytest.mark.claim("04.06")
def test_residuals_of_returned_plans() -> None:
    rng = np.random.default_rng(7)
    for trial in range(60):
        k = int(rng.integers(2, 9))
        mu = rng.uniform(0.2, 2, k) if trial % 3 else 1.0
        game = as_linear_game(random_psd(rng, k, singular=trial % 2 == 1), mu)
        plans = [optimal_stable_linear(game), stable_linear_dynamics(game)]
        plans += [stable_linear_milp(game), optimal_stable_linear(game, sense=-1)]
        for plan in plans:
            assert natural_residual(game, plan.theta) <= 1e-8


@pytest.mark.claim("04.10")
def test_convex_program_refuses_indefinite_games() -> None:
    pytest.importorskip("cvxpy")
    from counterplay.contribution.lab import optimal_stable_linear_cp

    with pytest.raises(InvalidInputError, match="positive semidefinite"):
        optimal_stable_linear_cp(instances.indefinite())


@pytest.mark.claim("04.37")
@pytest.mark.parametrize("seed", range(3))
def test_two_stage_solver_needs_at_most_two_linear_programs(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cvxpy")
    from counterplay.contribution import stable_linear
    from counterplay.contribution.lab import optimal_stable_linear_cp

    game = instances.random_linear_game(40, 60, 0.1, seed)
    solved = []

    def counted(*args: Any, **options: Any) -> Any:
        solved.append(args)
        return minimize_linear(*args, **options)

    monkeypatch.setattr(stable_linear, "minimize_linear", counted)
    total = optimal_stable_linear(game).total
    assert len(solved) <= 2
    assert total == pytest.approx(optimal_stable_linear_cp(game).total, abs=1e-4)


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from counterplay.contribution.lab import optimal_stable_linear_cp

    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(MissingDependencyError, match=r"counterplay\[convex\]"):
        optimal_stable_linear_cp(instances.flower(2).linear())
