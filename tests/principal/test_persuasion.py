from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.principal import PersuasionGame, PersuasionOracle
from counterplay.principal.bounds import optimistic_excess, staircase_policies
from counterplay.principal.instances import prosecutor_game, random_persuasion_game
from counterplay.principal.lab import (
    KGRule,
    PersuasionGeometry,
    Scheme,
    StabilizedPersuasion,
    best_response,
    is_stable,
    obedience_lp,
)

XS = (0.01, 0.05, 0.2, 0.5, 1.0)


def priors(geometry, beta, rng):
    """Both ends, points near them, points near every edge, random points."""
    inner = geometry.edges[1:-1]
    near = np.concatenate([inner, inner + 0.4 * beta, inner - 0.4 * beta, inner + beta])
    return np.concatenate([[0.0, 1.0, beta / 3, 1 - beta / 3], near, rng.random(3)])


def is_stable_for_all(game, scheme, mu, margins_and_harms):
    """The definition of stability, for several (margin, harm) pairs at once."""
    U, V = game.UV([scheme], [1 - mu, mu])
    u, v = U[0, 0], V[0, 0]
    star = best_response(game, scheme, [1 - mu, mu])
    others = np.arange(u.size) != star
    return all(
        ((u <= u[star] - margin + 1e-11) | (v >= v[star] - harm - 1e-11))[others].all()
        for margin, harm in margins_and_harms
    )


def value(game, scheme, mu):
    pi = np.array([1 - mu, mu])
    return game.UV([scheme], pi)[1][0, 0, best_response(game, scheme, pi)]


@pytest.mark.claim("07.02")
def test_prosecutor_numbers():
    game = prosecutor_game()
    geometry = PersuasionGeometry(game)
    assert geometry.edges.tolist() == [0.0, 0.5, 1.0]
    assert (geometry.C, geometry.c1) == (0.5, 2.0)
    assert [tuple(point) for point in zip(*geometry.extreme[:2])] == [(0, 0), (0.5, 1), (1, 1)]
    assert geometry.v_star(0.3) == pytest.approx(0.6, abs=1e-9)
    scheme = geometry.optimal_scheme(0.3)
    assert scheme.matrix == pytest.approx(np.array([[4 / 7, 0.0], [3 / 7, 1.0]]), abs=1e-9)
    assert scheme.posteriors([0.7, 0.3])[1] == pytest.approx([0.5, 0.5], abs=1e-9)
    stable = StabilizedPersuasion(game, 0.02)
    assert stable.extreme[0].tolist() == [0.0, 0.52, 1.0]
    assert stable.value(0.3) == pytest.approx(0.3 / 0.52, abs=1e-9)
    # p(i | Innocent) = tau (1 - 0) / 0.7 with tau = 1 - 0.3 / 0.52
    assert stable.scheme(0.3).matrix[0, 0] == pytest.approx((1 - 0.3 / 0.52) / 0.7, abs=1e-9)
    assert stable.scheme(0.3).matrix[0, 0] == pytest.approx(0.6043956, abs=1e-7)
    oracle = PersuasionOracle(game, beta=0.02, discretization="rounding")
    assert oracle.parts == 40_000
    assert value(game, oracle.scheme(0.3), 0.3) == pytest.approx(0.57692, abs=1e-5)


@pytest.mark.claim("07.02")
def test_classical_value_is_that_of_the_obedience_program():
    for seed in range(30):
        game = random_persuasion_game(2 + seed % 4, random_state=seed)
        geometry = PersuasionGeometry(game)
        for mu in (0.1, 0.37, 0.8):
            program = obedience_lp(game.u, game.v, [1 - mu, mu]).value
            assert geometry.v_star(mu) == pytest.approx(program, abs=1e-8)
            assert value(game, geometry.optimal_scheme(mu), mu) == pytest.approx(program, abs=1e-7)


@pytest.mark.claim("07.08")
def test_stabilised_and_rounded_schemes_on_500_games():
    rng = np.random.default_rng(0)
    for seed in range(500):
        game = random_persuasion_game(2 + seed % 3, random_state=seed)
        geometry = PersuasionGeometry(game)
        C, c1 = geometry.C, geometry.c1
        beta = float(rng.uniform(0.05, 0.99)) * C / 4
        stable = StabilizedPersuasion(geometry, beta)
        rounded = PersuasionOracle(game, beta=beta, discretization="rounding")
        root = math.sqrt(rounded.delta)
        assert rounded.delta <= beta**2 / 16 * (1 + 1e-9)
        for mu in priors(geometry, beta, rng):
            scheme, coarse = stable.scheme(mu), rounded.scheme(mu)
            reached = value(game, scheme, mu)
            assert reached == pytest.approx(stable.value(mu), abs=1e-9)
            assert reached >= geometry.v_star(mu) - 3 * beta / C - 1e-9
            assert value(game, coarse, mu) >= reached - 2 * root - 1e-9
            assert is_stable_for_all(game, scheme, mu, [(x * c1 * beta, x) for x in XS])
            halved = [(x * c1 * beta / 2, max(x, root + rounded.delta / 2)) for x in XS]
            assert is_stable_for_all(game, coarse, mu, halved)


@pytest.mark.claim("07.32")
def test_log_odds_grid_is_stable_and_small():
    rng = np.random.default_rng(1)
    worst = 0.0
    for seed in range(150):
        game = random_persuasion_game(2 + seed % 4, random_state=1000 + seed)
        geometry = PersuasionGeometry(game)
        C, c1 = geometry.C, geometry.c1
        beta = float(rng.uniform(0.05, 0.99)) * C / 4
        oracle = PersuasionOracle(game, beta=beta, discretization="logit")
        for mu in priors(geometry, beta, rng):
            scheme = oracle.scheme(mu)
            lost = geometry.v_star(mu) - value(game, scheme, mu)
            assert lost <= 3.5 * beta / C + beta / 2 + 1e-9
            worst = max(worst, lost / (3 * beta / C + beta))
            assert is_stable_for_all(game, scheme, mu, [(x * c1 * beta / 2, x) for x in XS])
        for mu in np.linspace(0, 1, 400):
            oracle.scheme(mu)
        assert len(oracle.policies) <= oracle.n_policies
        assert oracle.n_policies <= math.log(1 / (beta * C)) / (2 * beta) + 4
    assert worst <= 1.0  # the constant of the specification


@pytest.mark.claim("07.09")
def test_schemes_are_bayes_plausible():
    rng = np.random.default_rng(2)
    for seed in range(60):
        game = random_persuasion_game(2 + seed % 4, random_state=seed)
        geometry = PersuasionGeometry(game)
        beta = 0.8 * geometry.C / 4
        stable = StabilizedPersuasion(geometry, beta)
        rounded = PersuasionOracle(game, beta=beta, discretization="rounding")
        logit = PersuasionOracle(game, beta=beta, discretization="logit")
        for mu in priors(geometry, beta, rng):
            pi = np.array([1 - mu, mu])
            points, weights = stable.posterior_split(mu)
            assert weights @ points == pytest.approx(mu, abs=1e-12)
            assert ((weights >= -1e-15) & (weights <= 1 + 1e-15)).all()
            made = (
                geometry.optimal_scheme(mu),
                stable.scheme(mu),
                rounded.scheme(mu),
                logit.scheme(mu),
            )
            for scheme in made:
                assert scheme.matrix.min() >= 0.0
                assert scheme.matrix.max() <= 1.0
                assert scheme.matrix.sum(axis=0) == pytest.approx([1.0, 1.0], abs=1e-12)
                chances = scheme.signal_probabilities(pi)
                beliefs = np.nan_to_num(scheme.posteriors(pi)[:, 1])
                assert chances @ beliefs == pytest.approx(mu, abs=1e-12)
            steps = rounded.scheme(mu).matrix * rounded.parts
            assert steps == pytest.approx(np.rint(steps), abs=1e-6)


@pytest.mark.claim("07.09")
def test_posteriors_of_the_stabilised_scheme_are_its_points():
    for seed in range(20):
        game = random_persuasion_game(3, random_state=seed)
        stable = StabilizedPersuasion(game, 0.1 * PersuasionGeometry(game).C)
        for mu in (0.05, 0.3, 0.61, 0.94):
            scheme = stable.scheme(mu)
            points, _ = stable.posterior_split(mu)
            if len(scheme.support) == 2:
                found = np.sort(scheme.posteriors([1 - mu, mu])[list(scheme.support), 1])
                assert found == pytest.approx(points, abs=1e-9)


@pytest.mark.claim("07.10")
def test_optimism_is_linear_in_eps():
    rng = np.random.default_rng(3)
    worst = 0.0
    for seed in range(100):
        game = random_persuasion_game(2 + seed % 4, random_state=seed)
        geometry = PersuasionGeometry(game)
        mu, eps = float(rng.random()), float(rng.choice([1e-3, 1e-2, 0.05]))
        hoped = obedience_lp(game.u, game.v, [1 - mu, mu], slack=eps).value
        excess = hoped - geometry.v_star(mu)
        sharp = optimistic_excess(eps, geometry.c1, geometry.C)
        assert -1e-8 <= excess <= sharp + 1e-8
        assert excess <= optimistic_excess(eps, geometry.c1, geometry.C, as_printed=True) + 1e-8
        worst = max(worst, excess / sharp)
    assert worst > 0.3  # the bound is of the right order


@pytest.mark.claim("07.11")
def test_prosecutor_has_1602_rounded_schemes():
    oracle = PersuasionOracle(prosecutor_game(), beta=0.1, discretization="rounding")
    keys = {oracle._rounded_key(mu) for mu in np.linspace(0, 1, 400_001).tolist()}
    assert len(keys) == 1602
    assert len(keys) <= staircase_policies(3, oracle.parts)


@pytest.mark.claim("07.11")
def test_staircase_count_bounds_the_outputs():
    for seed in range(4):
        game = random_persuasion_game(3, random_state=seed)
        geometry = PersuasionGeometry(game)
        oracle = PersuasionOracle(game, beta=0.24 * geometry.C, discretization="rounding")
        keys = {oracle._rounded_key(mu) for mu in np.linspace(0, 1, 20_001).tolist()}
        extreme = len(oracle.stabilized.extreme[0])
        assert len(keys) <= staircase_policies(extreme, oracle.parts) == oracle.n_policies


def test_uninformative_scheme_when_one_strategy_has_both_ends():
    # the middle strategy is worth most, so both extreme points around 0.5 carry it
    game = PersuasionGame([[1.0, 0.0], [0.7, 0.7], [0.0, 1.0]], [0.0, 1.0, 0.2])
    geometry = PersuasionGeometry(game)
    for scheme in (geometry.optimal_scheme(0.5), StabilizedPersuasion(geometry, 0.01).scheme(0.5)):
        assert scheme == game.no_disclosure(1)
    assert geometry.v_star(0.5) == 1.0


def test_best_strategy_breaks_ties_for_the_principal():
    geometry = PersuasionGeometry(prosecutor_game())
    assert [geometry.s_star(mu) for mu in (0.0, 0.49, 0.5, 0.51, 1.0)] == [0, 0, 1, 1, 1]
    single = PersuasionGeometry(PersuasionGame([[0.3, 0.9]], [0.4]))
    assert single.v_star(0.7) == pytest.approx(0.4)
    assert single.optimal_scheme(0.7).support == (0,)


def test_envelope_agrees_with_brute_force():
    rng = np.random.default_rng(5)
    grid = np.linspace(0, 1, 5001)
    for _ in range(200):
        u = rng.random((int(rng.integers(2, 7)), 2))
        lines = np.outer(1 - grid, u[:, 0]) + np.outer(grid, u[:, 1])
        best = set(lines.argmax(axis=1).tolist())
        game = PersuasionGame(u, rng.random(len(u)))
        try:
            geometry = PersuasionGeometry(game)
            assert best <= set(range(len(u)))
            found = geometry.strategies
        except ValueError:
            with pytest.warns(UserWarning, match="dropped"):
                geometry = PersuasionGeometry(game, prune=True)
            found = geometry.strategies
            assert len(found) < len(u)
        assert best <= set(found.tolist())  # short intervals may fall between grid points
        middle = (geometry.edges[1:] + geometry.edges[:-1]) / 2
        for s, mu in zip(found, middle):
            worth = (1 - mu) * u[:, 0] + mu * u[:, 1]
            assert worth.argmax() == s


def test_unstable_rule_returns_the_classical_scheme():
    rule = KGRule(prosecutor_game())
    scheme, action = rule.recommend([0.7, 0.3])
    assert scheme == PersuasionGeometry(prosecutor_game()).optimal_scheme(0.3)
    assert prosecutor_game().action_label(scheme, action) == "Acquit->Acquit, Convict->Convict"
    assert not is_stable(prosecutor_game(), scheme, [0.7, 0.3], 0.01, 0.01)


def test_equal_schemes_are_one_policy():
    a, b = Scheme([[0.5, -0.0], [0.5, 1.0]]), Scheme([[0.5, 0.0], [0.5, 1.0]])
    assert a == b
    assert hash(a) == hash(b)
    assert a != Scheme([[0.25, 0.0], [0.75, 1.0]])
