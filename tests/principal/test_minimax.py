from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from counterplay.principal.lab import solve_minimax
from counterplay.principal.minimax import _CentreGame, mixture_gap


def random_gain(n, seed, cells=12):
    """A piecewise constant gain with jumps along random hyperplanes."""
    rng = np.random.default_rng(seed)
    planes, centre = rng.normal(size=(cells, n)), rng.dirichlet(np.ones(n))
    jumps = rng.normal(size=(cells, n))
    return lambda x: jumps[(planes @ (x - centre)) > 0].sum(axis=0)


def recomputed(gain, mixture):
    return mixture_gap(mixture.points, mixture.weights, np.array([gain(x) for x in mixture.points]))


@pytest.mark.claim("07.16")
@pytest.mark.parametrize("n", [2, 3, 5, 10, 30])
@pytest.mark.parametrize("tol", [1e-1, 1e-3])
def test_gap_is_within_tolerance(n, tol):
    for seed in range(10):
        gain = random_gain(n, seed)
        mixture = solve_minimax(gain, n, tol)
        assert mixture.gap <= tol
        assert recomputed(gain, mixture) == pytest.approx(mixture.gap, abs=1e-12)
        assert mixture.weights.sum() == pytest.approx(1.0)
        assert (mixture.weights >= 0).all()
        assert mixture.points.sum(axis=1) == pytest.approx(1.0)
        assert (mixture.points >= 0).all()


@pytest.mark.claim("07.16")
def test_two_outcomes_by_three_methods():
    for seed in range(20):
        gain = random_gain(2, 100 + seed)
        bisected = solve_minimax(gain, 2, 1e-4, method="bisection")
        cut = solve_minimax(gain, 2, 1e-4, method="cutting-plane")
        hedged = solve_minimax(gain, 2, 0.5, method="hedge", max_evaluations=2000)
        for mixture, tol in ((bisected, 1e-4), (cut, 1e-4), (hedged, 0.5)):
            assert recomputed(gain, mixture) <= tol + 1e-12
        # all three bound the same value from above: no outcome gains more than the gap
        assert hedged.gap >= min(bisected.gap, cut.gap) - 1e-4 - 0.5


@pytest.mark.claim("07.16")
def test_hedge_agrees_within_its_own_gap_for_more_outcomes():
    for seed in range(5):
        gain = random_gain(4, seed)
        hedged = solve_minimax(gain, 4, 0.3, method="hedge", max_evaluations=4000)
        assert hedged.gap <= 0.3
        assert recomputed(gain, hedged) == pytest.approx(hedged.gap, abs=1e-12)
        assert solve_minimax(gain, 4, 0.3).evaluations < hedged.evaluations


def test_small_tolerances_need_few_cuts():
    counts = [
        solve_minimax(random_gain(n, seed), n, 1e-6).evaluations
        for n in (3, 5, 10)
        for seed in range(10)
    ]
    assert max(counts) < 150


def test_best_gap_is_returned_when_the_limit_is_reached():
    gain = random_gain(6, 1)
    mixture = solve_minimax(gain, 6, 1e-9, max_evaluations=3)
    assert mixture.evaluations == 3
    assert mixture.gap > 1e-9
    assert recomputed(gain, mixture) == pytest.approx(mixture.gap, abs=1e-12)


def test_good_seed_is_returned_alone():
    seed = np.array([[0.2, 0.3, 0.5]])
    mixture = solve_minimax(lambda x: np.zeros(3), 3, 0.0, seeds=seed)
    assert mixture.evaluations == 1
    assert np.array_equal(mixture.points, seed)


def test_centre_program_agrees_with_scipy():
    rng = np.random.default_rng(0)
    for n in (3, 5, 9):
        game = _CentreGame(n, 50)
        for _ in range(12):
            g, x = rng.normal(size=n), rng.dirichlet(np.ones(n))
            multipliers = game.add(x, g)
            assert (multipliers >= 0).all()
            rows = game.rows[: game.size] - 2.0  # the game without its shift
            # max r  s.t.  rows y >= r, y in the simplex
            solved = linprog(
                np.append(np.zeros(n), -1.0),
                A_ub=np.hstack([-rows, np.ones((len(rows), 1))]),
                b_ub=np.zeros(len(rows)),
                A_eq=np.append(np.ones(n), 0.0)[None, :],
                b_eq=[1.0],
                bounds=[(0, None)] * n + [(None, None)],
            )
            value = 1 / game.levels[game.basis >= 0].sum() - 2.0
            assert value == pytest.approx(-solved.fun, abs=1e-8)
