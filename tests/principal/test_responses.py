from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.principal.lab import (
    FiniteGame,
    best_response,
    eps_ball,
    is_stable,
    optimality_loss,
    optimistic_pair,
    optimistic_response,
    principal_best_response,
)


@pytest.mark.claim("07.01")
def test_ties_go_to_the_principal_then_to_the_lowest_index():
    U = np.array([[[0.3, 0.3], [0.3, 0.3], [0.3, 0.3], [0.1, 0.1]]])
    V = np.array([[[0.1, 0.1], [0.5, 0.5], [0.5, 0.5], [0.9, 0.9]]])
    game = FiniteGame(U, V)
    assert {best_response(game, 0, [0.4, 0.6]) for _ in range(1000)} == {1}
    assert best_response(FiniteGame(U, np.zeros_like(V)), 0, [0.4, 0.6]) == 0


def brute_best_response(u, v):
    top = max(u)
    best = [a for a in range(len(u)) if u[a] >= top - 1e-12]
    worth = max(v[a] for a in best)
    return min(a for a in best if v[a] >= worth - 1e-12)


def test_responses_agree_with_their_definitions():
    rng = np.random.default_rng(0)
    for _ in range(300):
        U, V = rng.integers(-5, 6, size=(2, 3, 4, 2)) / 5
        game = FiniteGame(U, V)
        pi = np.array([0.25, 0.75])
        u, v = U @ pi, V @ pi
        eps = float(rng.choice([0.0, 0.1, 0.35]))
        answers = [brute_best_response(u[p], v[p]) for p in range(3)]
        assert [best_response(game, p, pi) for p in range(3)] == answers
        values = np.array([v[p, answers[p]] for p in range(3)])
        assert principal_best_response(game, range(3), pi) == np.argmax(
            values >= values.max() - 1e-12
        )
        hoped = []
        for p in range(3):
            near = (u[p] > u[p].max() - eps + 1e-12) | (u[p] >= u[p].max() - 1e-12)
            assert np.array_equal(eps_ball(game, p, pi, eps), near)
            inside = np.where(near, v[p], -9.0)
            assert optimistic_response(game, p, pi, eps) == np.argmax(
                inside >= inside.max() - 1e-12
            )
            hoped.append(inside.max())
        index, _ = optimistic_pair(game, range(3), pi, eps)
        assert index == np.argmax(np.array(hoped) >= max(hoped) - 1e-12)
        for p in range(3):
            beta, gamma = 0.1, 0.2
            ok = all(
                u[p, a] <= u[p].max() - beta + 1e-12 or v[p, a] >= v[p, answers[p]] - gamma - 1e-12
                for a in range(4)
                if a != answers[p]
            )
            assert is_stable(game, p, pi, beta, gamma) == ok
            loss = optimality_loss(game, p, pi, range(3), eps)
            assert loss == pytest.approx(max(hoped) - v[p, answers[p]], abs=1e-12)


def test_batches_are_refused_by_the_scalar_functions(coin):
    with pytest.raises(InvalidInputError, match="one forecast"):
        best_response(coin, 0.5, [[0.5, 0.5], [0.1, 0.9]])
