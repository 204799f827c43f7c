from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import AssumptionWarning
from counterplay.principal import (
    PersuasionGame,
    PersuasionOracle,
)
from counterplay.principal.bounds import optimistic_excess
from counterplay.principal.instances import prosecutor_game, random_persuasion_game
from counterplay.principal.lab import (
    PersuasionGeometry,
    Scheme,
    StabilizedPersuasion,
    obedience_lp,
)
from principal.games import value


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


def test_equal_schemes_are_one_policy():
    a, b = Scheme([[0.5, -0.0], [0.5, 1.0]]), Scheme([[0.5, 0.0], [0.5, 1.0]])
    assert a == b
    assert hash(a) == hash(b)
    assert a != Scheme([[0.25, 0.0], [0.75, 1.0]])


def test_dominated_strategies_can_be_pruned():
    game = PersuasionGame([[1, 0], [0, 1], [0.4, 0.4]], [0, 1, 0.5])
    with pytest.warns(AssumptionWarning, match="dropped strategies"):
        geometry = PersuasionGeometry(game, prune=True)
    assert geometry.strategies.tolist() == [0, 1]
    assert geometry.v_star(0.3) == pytest.approx(0.6)


def test_response_maps_of_a_scheme(coin):
    game = prosecutor_game()
    scheme = Scheme([[4 / 7, 0], [3 / 7, 1]])
    assert game.n_actions(scheme) == 4
    U, V = game.UV([scheme], [0.7, 0.3])
    by_hand = []
    for first in range(2):
        for second in range(2):
            u = sum(
                pi
                * (scheme.matrix[0, y] * game.u[first, y] + scheme.matrix[1, y] * game.u[second, y])
                for y, pi in enumerate((0.7, 0.3))
            )
            by_hand.append(u)
    assert U[0, 0] == pytest.approx(by_hand)
    assert V[0, 0] == pytest.approx([0.0, 0.6, 0.4, 1.0])
    assert game.action_label(scheme, 1) == "Acquit->Acquit, Convict->Convict"
    assert game.n_actions(game.no_disclosure()) == 2
