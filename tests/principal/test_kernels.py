from __future__ import annotations

import numpy as np
import pytest

from counterplay.principal.lab import (
    FiniteGame,
    best_response,
    best_responses,
    eps_ball,
)


@pytest.mark.claim("07.01")
@pytest.mark.parametrize("n_states", [2, 7, 33])
def test_responses_do_not_depend_on_the_batch(n_states):
    rng = np.random.default_rng(3)
    # utilities on a coarse grid, so that exact ties are frequent
    U = rng.integers(-4, 5, size=(3, 4, n_states)) / 4
    V = rng.integers(-4, 5, size=(3, 4, n_states)) / 4
    game = FiniteGame(U, V)
    forecasts = rng.integers(0, 3, size=(200, n_states)) + (np.arange(n_states) == 0)
    forecasts = forecasts / forecasts.sum(axis=1, keepdims=True)
    whole = game.UV(range(3), forecasts)
    answers = best_responses(*whole)
    for size in (1, 7, 64):
        for start in range(0, 200, size):
            part = game.UV(range(3), forecasts[start : start + size])
            assert all(np.array_equal(a, b[start : start + size]) for a, b in zip(part, whole))
            assert np.array_equal(best_responses(*part), answers[start : start + size])
    for t in range(0, 200, 10):
        for p in range(3):
            assert best_response(game, p, forecasts[t]) == answers[t, p]


def test_near_and_separated_are_complements(coin):
    pi = [0.5, 0.5]
    for share in np.linspace(0, 1, 41):
        for margin in (0.05, 0.1, 0.125):
            near = eps_ball(coin, share, pi, margin)
            u = coin.UV([share], np.array([pi]))[0][0, 0]
            separated = u <= u.max() - margin + 1e-12
            assert np.array_equal(near, ~separated)
