"""Coverage games: closed forms, best responses, slopes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq

from counterplay.contribution import (
    CoverageGame,
    best_response_dynamics,
    instances,
    stability_report,
)
from counterplay.contribution.lab import (
    coverage_opt_integer,
)
from counterplay.errors import InvalidInputError


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


def test_tables_become_histograms() -> None:
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    game = CoverageGame.from_tables([X[y == c] for c in range(3)], mu=0.8, cells=20)
    assert game.k == 3
    assert game.integral
    again = CoverageGame.from_tables([X[y == c] for c in range(3)], mu=0.8, cells=20)
    assert again.standalone().tolist() == game.standalone().tolist()
    with pytest.raises(InvalidInputError, match="same number of columns"):
        CoverageGame.from_tables([X, X[:, :3]], mu=0.8)
    with pytest.raises(InvalidInputError, match="no counts"):
        CoverageGame.from_histograms([[1, 2], [0, 0]], mu=0.8)
