"""Claims 04.01 to 04.12: linear games."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from counterplay.contribution import (
    CoverageGame,
    LinearGame,
    best_response_dynamics,
    bounds,
    envy_report,
    equal_allocation,
    instances,
)
from counterplay.contribution.lab import (
    core_set_certificate,
    natural_residual,
    optimal_envy_free_linear,
    optimal_stable_linear,
    pos_is_one,
    socially_optimal_linear,
    stable_implies_envy_free,
    stable_linear_dynamics,
    stable_linear_milp,
    well_behaved_report,
)
from counterplay.contribution.linear import as_linear_game
from counterplay.contribution.social_optimum import dual_bound
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


@pytest.mark.claim("04.01")
@pytest.mark.parametrize("s", [2, 3, 4, 6, 10])
def test_flower_prices_match_closed_forms(s: int) -> None:
    game = instances.flower(s).linear()
    opt, eq = socially_optimal_linear(game), optimal_stable_linear(game)
    assert opt.total == pytest.approx(s, abs=1e-9)
    assert opt.certificate["gap"] == pytest.approx(0, abs=1e-9)
    assert eq.total == pytest.approx(s**3 / (2 * s - 1), abs=1e-9)
    assert eq.total / opt.total == pytest.approx(bounds.flower_linear_pos(s), abs=1e-9)
    assert eq.theta[0] == 0.0


@pytest.mark.claim("04.02")
@pytest.mark.parametrize("method", ["milp", "branch"])
@pytest.mark.parametrize("s", [2, 3])
def test_flower_cheapest_envy_free_plan(s: int, method: Literal["milp", "branch"]) -> None:
    game = instances.flower(s).linear()
    plan = optimal_envy_free_linear(game, method=method)
    assert plan.total == pytest.approx((s**2 + 1) / 2, abs=1e-3)
    assert envy_report(game, plan.theta).is_envy_free


@pytest.mark.claim("04.02", "04.40")
@pytest.mark.parametrize("s", [4, 5, 7])
def test_large_flowers_by_branch_and_bound(s: int) -> None:
    plan = optimal_envy_free_linear(instances.flower(s).linear())
    assert plan.total == pytest.approx((s**2 + 1) / 2, abs=1e-6)
    assert plan.certificate["proved"]


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
        program = optimal_envy_free_linear(game, method="milp")
        assert branch.total == pytest.approx(program.total, rel=1e-4)
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


@pytest.mark.claim("04.03")
def test_price_of_stability_grows_like_half_the_root_of_k() -> None:
    ratios = []
    for s in range(3, 33):
        flower = instances.flower(s)
        game = flower.linear()
        core = np.zeros(game.k)
        core[0] = s
        assert game.utilities(core).min() >= 1 - 1e-12  # the core alone is feasible,
        petals = np.full(game.k, 1 / s)
        petals[0] = 0.0
        assert dual_bound(game, petals) == pytest.approx(s, abs=1e-9)  # and nothing is cheaper
        ratios.append(stable_linear_dynamics(game).total / s / np.sqrt(flower.k))
    assert min(ratios) > 0.5
    assert max(ratios) < 0.6
    assert (np.diff(ratios) < 0).all()
    assert ratios[-1] < 0.51


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


@pytest.mark.claim("04.10")
def test_convex_program_refuses_indefinite_games() -> None:
    pytest.importorskip("cvxpy")
    from counterplay.contribution.lab import optimal_stable_linear_cp

    with pytest.raises(InvalidInputError, match="positive semidefinite"):
        optimal_stable_linear_cp(instances.indefinite())


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
    numpy_engine = stable_linear_dynamics(dense, engine="numpy").total
    assert numpy_engine == pytest.approx(stable_linear_dynamics(dense).total, abs=1e-9)


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


def test_directed_triangle_needs_damping() -> None:
    game = instances.directed_triangle()
    start = [0.1, 0.6, 0.3]
    result = best_response_dynamics(game, "damped", theta0=start)
    assert result.theta == pytest.approx([0.5, 0.5, 0.5], abs=1e-9)
    error = np.linalg.norm(result["theta"] - 0.5, axis=1)
    late = (error[1:] / error[:-1])[10:40]
    assert late == pytest.approx(np.sqrt(3) / 2, abs=1e-3)
