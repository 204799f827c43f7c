from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.principal import (
    ContextualSwapAgent,
    ContractGame,
    ContractLPOracle,
    StableMechanism,
)
from counterplay.principal.lab import is_stable, optimal_payments
from principal.games import played


def random_game(seed):
    rng = np.random.default_rng(seed)
    n, m, k = int(rng.integers(2, 5)), int(rng.integers(1, 5)), int(rng.integers(2, 5))
    costs = np.cumsum(rng.uniform(0.05, 0.2, size=n))
    return ContractGame(rng.integers(0, k, (n, m)), rng.random(k), costs), rng


@pytest.mark.claim("07.29")
def test_payments_are_the_cheapest_that_work():
    for seed in range(60):
        game, rng = random_game(seed)
        pi = rng.dirichlet(np.ones(game.n_states))
        margin = float(rng.choice([0.0, 0.02]))
        payments, value = optimal_payments(game, pi, margin=margin)
        F = game.outcome_probabilities(pi)
        assert F.sum(axis=1) == pytest.approx(1.0)
        for a in range(game.costs.size):
            if value[a] == -np.inf:
                continue
            u = F @ payments[a] - game.costs
            assert (u[a] >= np.delete(u, a) + margin - 1e-9).all()
            assert value[a] == pytest.approx(F[a] @ (game.outcome_value - payments[a]))
        # no random contract that makes an action best is cheaper
        for contract in rng.random((200, game.outcome_value.size)):
            u = F @ contract - game.costs
            a = int(u.argmax())
            if np.delete(u, a).max(initial=-np.inf) <= u[a] - margin:
                assert value[a] >= F[a] @ (game.outcome_value - contract) - 1e-9


@pytest.mark.claim("07.29")
def test_general_contracts_are_at_least_as_good_as_linear_ones():
    better = 0
    for seed in range(60):
        game, rng = random_game(seed)
        pi = rng.dirichlet(np.ones(game.n_states))
        _, value = optimal_payments(game, pi)
        best = -np.inf
        for share in np.linspace(0, 1, 201):
            U, V = game.UV([game.linear(share)], pi)
            best = max(best, V[0, 0][U[0, 0] >= U[0, 0].max() - 1e-12].max())
        assert value.max() >= best - 1e-9
        better += value.max() > best + 0.01
    assert better > 5


@pytest.mark.claim("07.29")
def test_oracle_is_stable_without_exception():
    for seed in range(40):
        game, rng = random_game(seed)
        oracle = ContractLPOracle(game, [game.linear(0.5)], margin=game.cost_gap, parts=100)
        for pi in rng.dirichlet(np.ones(game.n_states), size=4):
            policy, action = oracle.recommend(pi)
            assert np.asarray(policy) * 100 == pytest.approx(np.rint(np.asarray(policy) * 100))
            U, _ = game.UV([policy], pi)
            rivals = np.delete(U[0, 0], action)
            assert U[0, 0, action] >= rivals.max() + oracle.spec.beta - 1e-9
            assert is_stable(game, policy, pi, oracle.spec.beta, 0.0)


def test_mechanism_with_general_contracts():
    game = ContractGame([[0, 0, 1], [0, 1, 2], [1, 2, 2]], [0.0, 0.4, 1.0], [0.0, 0.1, 0.3])
    states = np.random.default_rng(0).choice(3, size=150, p=[0.3, 0.4, 0.3])
    oracle = ContractLPOracle(
        game, [game.linear(p) for p in (0.2, 0.5, 0.8)], margin=0.08, parts=25
    )
    transcript = played(
        StableMechanism(oracle, random_state=0), ContextualSwapAgent(random_state=0), states
    )
    assert transcript.policy_regret <= transcript.regret_bound
    assert np.unique(transcript["p_idx"]).size > 1


def test_bad_margins_are_refused():
    game = ContractGame([[0, 0], [0, 1]], [0.0, 1.0], [0.0, 0.25])
    with pytest.raises(InvalidInputError, match="margin must be in"):
        ContractLPOracle(game, [game.linear(0.5)], margin=0.3)
    with pytest.raises(InvalidInputError, match="parts > 20"):
        ContractLPOracle(game, [game.linear(0.5)], margin=0.05, parts=10)
    with pytest.raises(InvalidInputError, match="one payment per outcome"):
        ContractLPOracle(game, [(0.5,)], margin=0.05)
