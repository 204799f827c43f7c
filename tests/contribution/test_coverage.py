"""Claims 04.13 to 04.22: coverage games."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq

from counterplay.contribution import (
    CoverageGame,
    TabularGame,
    best_response_dynamics,
    bounds,
    envy_report,
    equal_allocation,
    instances,
    stability_report,
)
from counterplay.contribution.coverage_relaxation import (
    _by_roles,
    _program,
    _solve,
    largest_useful,
    role_classes,
)
from counterplay.contribution.lab import (
    coverage_opt_integer,
    coverage_opt_real,
    coverage_opt_relaxation,
    coverage_potential,
    integer_equilibrium_coverage,
    is_feasible,
    optimal_stable_coverage,
)
from counterplay.contribution.local_search import descend
from counterplay.errors import InvalidInputError

# s, L, ceil, core-only real, petal theta EQ, EQ total, EF total, EQ/core-only, EF/core-only:
# the table of Proposition 4.A
FLOWER = [
    (2, 2.4094, 3, 2.4444, 0.70850, 2.8340, 2.7755, 1.159, 1.135),
    (3, 3.4425, 4, 3.4570, 0.62548, 5.6293, 5.3000, 1.628, 1.533),
    (4, 4.4575, 5, 4.4655, 0.58960, 9.4336, 8.8483, 2.113, 1.982),
    (5, 5.4663, 6, 5.4713, 0.56965, 14.2413, 13.4034, 2.603, 2.45),
    (7, 7.4760, 8, 7.4786, 0.54819, 26.8611, 25.5207, 3.592, 3.413),
    (10, 10.4833, 11, 10.4845, 0.53295, 53.2948, 51.2031, 5.083, 4.884),
    (16, 16.4896, 17, 16.4901, 0.52018, 133.1666, 129.5739, 8.076, 7.858),
    (32, 32.4948, 33, 32.4949, 0.50993, 522.1640, 514.5707, 16.069, 15.835),
]


def brute_force_utilities(game: CoverageGame, theta: np.ndarray) -> np.ndarray:
    """Expectation over all 2^k roundings, from the definition."""
    whole, rest = np.floor(theta), theta - np.floor(theta)
    total = np.zeros(game.k)
    for up in product((0, 1), repeat=game.k):
        chance = np.prod(np.where(up, rest, 1 - rest))
        missed = np.prod((1 - game.Q) ** (whole + up)[:, None], axis=0)
        total += chance * (1 - 0.5 * (game.Q * game.multiplicity) @ missed)
    return total


@pytest.mark.claim("04.13")
@pytest.mark.parametrize("seed", range(8))
def test_closed_form_equals_expectation_over_roundings(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 9))
    game = instances.random_coverage_game(k, 7, rng)
    theta = rng.random(k) * 4
    theta[0] = np.floor(theta[0])
    exact = game.utilities(theta)
    assert exact == pytest.approx(brute_force_utilities(game, theta), abs=1e-12)
    draws = np.floor(theta) + (rng.random((20_000, k)) < theta - np.floor(theta))
    sampled = game.utilities(draws)
    error = sampled.std(axis=0, ddof=1) / np.sqrt(len(draws))
    assert (abs(sampled.mean(axis=0) - exact) <= 4 * error + 1e-12).all()


@pytest.mark.claim("04.14")
def test_merging_points_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    Q = np.repeat(rng.dirichlet(np.full(5, 0.5), size=4), 3, axis=1) / 3
    Q = np.hstack([Q, np.zeros((4, 2))])
    merged, full = CoverageGame(Q, 0.8), CoverageGame(Q, 0.8, compress=False)
    assert merged.n_types == 5
    assert full.n_types == 17
    theta = rng.random((50, 4)) * 5
    assert merged.utilities(theta) == pytest.approx(full.utilities(theta), abs=1e-13)
    assert merged.standalone() == pytest.approx(full.standalone(), abs=1e-12)


@pytest.mark.claim("04.14")
def test_point_masses_are_harmless() -> None:
    game = CoverageGame([[1, 0, 0], [0.5, 0.5, 0], [0, 0.2, 0.8]], [1.0, 0.7, 0.7])
    with np.errstate(all="raise"):
        assert game.utilities([0, 0, 0]).tolist() == [0.5, 0.5, 0.5]
        assert game.utilities([1, 0, 0]).tolist() == [1.0, 0.75, 0.5]
        swapped = game.swap_utilities([1.0, 0.5, 0.0])
        response = game.best_response_map([1.0, 0.5, 0.0])
    assert np.isfinite(swapped).all()
    assert np.isfinite(response).all()
    settled = best_response_dynamics(game)
    assert stability_report(game, settled.theta).is_stable
    assert coverage_opt_integer(game).certificate["proved"]


@pytest.mark.claim("04.15")
def test_best_response_is_exact() -> None:
    rng = np.random.default_rng(2)
    for seed in range(40):
        game = instances.random_coverage_game(4, 9, seed, mu=(0.6, 0.95))
        theta = rng.random(4) * game.standalone()
        for i in range(4):
            f = game.best_response(i, theta)
            moved = theta.copy()
            moved[i] = f
            if f == 0.0:
                assert game.utility(i, moved) >= game.mu[i] - 1e-12
                continue
            assert game.utility(i, moved) == pytest.approx(game.mu[i], abs=1e-12)
            moved[i] = f - 1e-6
            assert game.utility(i, moved) < game.mu[i]

            def excess(
                x: float, i: int = i, rest: np.ndarray = moved, g: CoverageGame = game
            ) -> float:
                point = rest.copy()
                point[i] = x
                return g.utility(i, point) - g.mu[i]

            assert brentq(excess, 0, f + 1, xtol=1e-13) == pytest.approx(f, abs=1e-9)


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
    assert petal >= bounds.flower_petal_lower_bound()
    core = np.zeros(game.k)
    for samples, enough in ((ceiling, True), (ceiling - 1, False), (core_only + 1e-4, True)):
        core[0] = samples
        assert is_feasible(game, core) is enough


@pytest.mark.claim("04.16")
@pytest.mark.parametrize("s", [row[0] for row in FLOWER])
def test_relaxation_of_the_flower(s: int) -> None:
    game = instances.flower(s).coverage()
    relaxed = coverage_opt_relaxation(game)
    value = bounds.flower_coverage_relaxed_opt(s)
    assert relaxed.value == pytest.approx(value, abs=1e-5)
    assert value - 2e-4 <= relaxed.lower_bound <= value + 1e-9
    best = coverage_opt_integer(game)
    assert best.total == np.ceil(value)
    assert best.certificate["proved"]


def test_roles_share_a_variable_without_changing_the_value() -> None:
    for seed in range(4):
        game = instances.random_coverage_game(3, 6, seed)
        Q = np.vstack([game.Q, game.Q])  # every party twice
        twice = CoverageGame(Q, np.tile(game.mu, 2), game.multiplicity)
        program = _program(twice, np.zeros(6), largest_useful(twice))
        assert program is not None
        facts = np.column_stack([program.cost, program.low, program.high])
        roles = role_classes(program.log_keep, program.weights, facts, program.budget)
        assert roles.sizes[0] == 3
        together, (point, multipliers) = _by_roles(program), _solve(program)
        assert together.value == pytest.approx(program.cost @ point, abs=1e-6)
        assert together.lower_bound == pytest.approx(program.bound(point, multipliers), abs=1e-4)
        assert together.theta[:3] == pytest.approx(together.theta[3:])


def test_relaxation_agrees_with_a_general_solver() -> None:
    for seed in range(6):
        game = instances.random_coverage_game(3, 6, seed).with_extension("exponent")
        relaxed = coverage_opt_relaxation(game)
        assert relaxed.value == pytest.approx(game.total(descend(game, np.ones(3))), abs=1e-5)
        assert relaxed.lower_bound == pytest.approx(relaxed.value, abs=1e-6)


@pytest.mark.claim("04.17")
def test_slopes_stay_inside_their_ranges() -> None:
    rng = np.random.default_rng(3)
    for seed in range(200):
        k = int(rng.integers(2, 6))
        game = instances.random_coverage_game(k, 6, seed, mu=(0.6, 0.85))
        corner = rng.random(k) * 4
        c1, c2 = game.well_behaved_constants(corner)
        cross = 0.5 * (game.Q * game.multiplicity) @ game.Q.T
        theta = rng.random(k) * corner * 0.999
        h = 1e-6
        moved = game.utilities(np.minimum(theta + h * np.eye(k), corner))
        taken = np.minimum(theta + h, corner) - theta
        slopes = (moved - game.utilities(theta)).T / taken
        own = np.diagonal(slopes)
        assert (own >= c2 - 1e-7).all()
        off = ~np.eye(k, dtype=bool)
        assert (slopes[off] >= -1e-7).all()
        assert (slopes[off] <= cross[off] + 1e-7).all()
        assert c1 == pytest.approx(np.where(off, cross, 0).max(axis=1))
        right = game.jacobian(theta)
        inside = (np.floor(theta + h) == np.floor(theta)).all()
        if inside:
            assert slopes == pytest.approx(right, abs=1e-6)
            assert game.jacobian(theta, side="left") == pytest.approx(right, abs=1e-15)
        whole = np.floor(theta) + 1.0  # at whole numbers the two sides differ
        for side, moved_by in (("right", np.eye(k)), ("left", -np.eye(k))):
            steps = (game.utilities(whole + moved_by) - game.utilities(whole)).T
            sign = 1.0 if side == "right" else -1.0
            assert game.jacobian(whole, side=side) == pytest.approx(sign * steps, abs=1e-12)  # type: ignore[arg-type]  # a str


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
def test_k4_values_and_envious_pairs() -> None:
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
def test_k4_switch_points() -> None:
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


@pytest.mark.claim("04.21")
def test_stable_but_envied_plan() -> None:
    game = instances.stable_but_envied()
    settled = best_response_dynamics(game)
    assert settled.theta == pytest.approx([0.957977, 0, 0.619560], abs=1e-6)
    assert stability_report(game, settled.theta).is_stable
    report = envy_report(game, settled.theta)
    assert report.pairs == [(0, 1)]
    assert game.swap_utilities(settled.theta)[0, 1] == pytest.approx(0.829026, abs=1e-6)


@pytest.mark.claim("04.22")
def test_relaxation_rounding_and_branch_and_bound() -> None:
    rng = np.random.default_rng(5)
    for seed in range(12):
        k = 2 + seed % 2
        game = instances.random_coverage_game(k, 5, seed, integral=True, mu=(0.6, 0.8))
        relaxed = coverage_opt_relaxation(game)
        assert is_feasible(game, np.ceil(relaxed.theta - 1e-9))
        best = coverage_opt_integer(game)
        top = int(best.total)
        table = TabularGame.from_game(game, [np.arange(top + 1)] * k)
        exact = table.cheapest(table.feasible)
        assert exact is not None
        assert best.total == exact.sum()
        assert best.certificate["proved"]
        assert best.total >= relaxed.lower_bound - 1e-9
        real = CoverageGame(game.Q, game.mu, game.multiplicity)
        theta = rng.random((200, k)) * 6
        exponent = real.with_extension("exponent")
        assert (exponent.utilities(theta) >= real.utilities(theta) - 1e-14).all()
        whole = np.floor(theta)
        assert exponent.utilities(whole) == pytest.approx(real.utilities(whole), abs=1e-14)


def test_real_optimum_lies_between_bound_and_whole_numbers() -> None:
    for seed in range(4):
        game = instances.random_coverage_game(3, 6, seed)
        plan = coverage_opt_real(game)
        assert is_feasible(game, plan.theta)
        assert plan.certificate["lower_bound"] <= plan.total + 1e-9
        assert plan.total <= coverage_opt_integer(game).total + 1e-9
        stable = optimal_stable_coverage(game)
        assert stability_report(game, stable.theta).is_feasible
        assert stable.best_response_gap <= 1e-7
        assert stable.total >= plan.certificate["lower_bound"] - 1e-9
        assert stable.certificate["dearest_found"] >= stable.total - 1e-12


def test_two_stable_plans_of_the_pair_are_both_found() -> None:
    plan = optimal_stable_coverage(instances.identical_pair(), n_restarts=6)
    assert plan.total == pytest.approx(1.0)
    assert plan.certificate["plans_found"] >= 2
    with pytest.raises(InvalidInputError, match="12 parties"):
        optimal_stable_coverage(instances.random_coverage_game(13, 20, 0), enumerate_supports=True)


def test_caps_in_branch_and_bound() -> None:
    game = instances.random_coverage_game(3, 6, 1, integral=True)
    free = coverage_opt_integer(game)
    busiest = int(np.argmax(free.theta))
    cap = game.standalone() * 3
    cap[busiest] = free.theta[busiest] - 1
    capped = coverage_opt_integer(game.with_upper(cap))
    assert capped.theta[busiest] <= cap[busiest]
    assert capped.total >= free.total


def test_tables_become_histograms() -> None:
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    game = CoverageGame.from_tables([X[y == c] for c in range(3)], mu=0.8, cells=20)
    assert game.k == 3
    assert game.integral
    again = CoverageGame.from_tables([X[y == c] for c in range(3)], mu=0.8, cells=20)
    assert again.standalone().tolist() == game.standalone().tolist()
    with pytest.raises(InvalidInputError, match="other columns"):
        CoverageGame.from_tables([X, X[:, :3]], mu=0.8)
    with pytest.raises(InvalidInputError, match="no counts"):
        CoverageGame.from_histograms([[1, 2], [0, 0]], mu=0.8)
