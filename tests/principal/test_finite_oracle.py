from __future__ import annotations

import numpy as np
import pytest

from counterplay.principal.instances import no_stable_policy_instance
from counterplay.principal.lab import (
    FiniteGame,
    FiniteStableOracle,
    NoStablePolicy,
    is_stable,
    optimality_loss,
)


@pytest.mark.claim("07.07")
@pytest.mark.parametrize("gamma", [0.0, 0.2, 0.37499])
@pytest.mark.parametrize("c", [0.0, 0.1, 0.24999])
@pytest.mark.parametrize("beta", [1e-6, 0.05, 0.125, 0.2, 1.0])
@pytest.mark.parametrize("eps", [0.0, 0.01])
def test_no_policy_is_stable_and_optimal(gamma, c, beta, eps):
    game = no_stable_policy_instance()
    with pytest.raises(NoStablePolicy) as caught:
        FiniteStableOracle(game, eps=eps, beta=beta, gamma=gamma, c=c)([1.0])
    assert caught.value.best_c >= 0.25 - 1e-12


@pytest.mark.claim("07.07")
@pytest.mark.parametrize("beta", [1e-6, 0.125, 0.2])
def test_it_succeeds_exactly_at_the_boundary(beta):
    game = no_stable_policy_instance()
    assert FiniteStableOracle(game, eps=0.0, beta=beta, gamma=0.375, c=0.0)([1.0]) == 0
    if beta <= 0.125:
        assert FiniteStableOracle(game, eps=0.0, beta=beta, gamma=0.0, c=0.25)([1.0]) == 1
    else:
        with pytest.raises(NoStablePolicy) as caught:
            FiniteStableOracle(game, eps=0.0, beta=beta, gamma=0.0, c=0.25)([1.0])
        assert caught.value.best_c == np.inf


@pytest.mark.claim("07.07")
def test_printed_scale_leaves_the_legal_range():
    with pytest.raises(ValueError, match="rescale both utilities"):
        no_stable_policy_instance(scale=1.0)


def test_oracle_agrees_with_brute_force():
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(200):
        U, V = rng.uniform(-1, 1, size=(2, 4, 3, 2))
        game = FiniteGame(U, V, p0_idx=[0, 2])
        beta, gamma, eps = 0.8, 0.02, 0.05
        pi = rng.dirichlet([1, 1])
        oracle = FiniteStableOracle(game, eps=eps, beta=beta, gamma=gamma)
        stable = [p for p in range(4) if is_stable(game, p, pi, beta, gamma)]
        if not stable:
            refused += 1
            with pytest.raises(NoStablePolicy):
                oracle(pi)
            continue
        losses = {p: optimality_loss(game, p, pi, [0, 2], eps) for p in stable}
        assert losses[oracle(pi)] == pytest.approx(min(losses.values()), abs=1e-12)
        assert oracle.loss(pi) == pytest.approx(min(losses.values()), abs=1e-12)
    assert 0 < refused < 200
