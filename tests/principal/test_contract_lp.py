from __future__ import annotations

from fractions import Fraction
from itertools import combinations

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


def solve(equations):
    """Solve square equations (row, side) in Fractions; None if they are singular."""
    rows = [[*row, side] for row, side in equations]
    for i in range(len(rows)):
        pivot = next((r for r in range(i, len(rows)) if rows[r][i] != 0), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for r in range(len(rows)):
            if r != i:
                rows[r] = [x - rows[r][i] * y for x, y in zip(rows[r], rows[i])]
    return [row[-1] for row in rows]


def cheapest_by_vertices(game, forecast, action, margin):
    """Exact minimum over the vertices of the payments that implement an action, or None."""
    F = [[Fraction(0)] * game.outcome_value.size for _ in game.costs]
    for a, row in enumerate(game.outcome):
        for o, probability in zip(row, forecast):
            F[a][o] += probability
    n = game.outcome_value.size
    costs = [Fraction(str(c)) for c in game.costs]
    rows = [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]
    constraints = [(row, Fraction(0)) for row in rows]  # row @ t >= side
    constraints += [([-x for x in row], Fraction(-1)) for row in rows]
    for b in range(len(costs)):
        if b != action:
            row = [x - y for x, y in zip(F[action], F[b])]
            constraints.append((row, costs[action] - costs[b] + margin))
    found = []
    for chosen in combinations(constraints, n):
        t = solve(chosen)
        if t is not None and all(
            sum(x * y for x, y in zip(row, t)) >= side for row, side in constraints
        ):
            found.append(sum(x * y for x, y in zip(F[action], t)))
    return min(found, default=None)


@pytest.mark.claim("25.18")
def test_rare_differences_are_implementable():
    """Action 1 differs in a state of chance 0.005; a payment of 0.2 covers its cost of 0.001."""
    game = ContractGame([[0, 1], [1, 1]], [0.0, 1.0], [0.0, 0.001])
    payments, value = optimal_payments(game, [0.005, 0.995])
    assert payments[1] == pytest.approx([0.0, 0.2], abs=1e-9)
    assert value == pytest.approx([0.995, 0.8], abs=1e-9)
    payments, value = optimal_payments(game, [0.0009, 0.9991])  # even a payment of 1 is too little
    assert value[1] == -np.inf
    assert np.isnan(payments[1]).all()


def test_payments_agree_with_exact_arithmetic():
    rng = np.random.default_rng(4)
    implementable = 0
    for _ in range(60):
        n, k = int(rng.integers(2, 4)), int(rng.integers(2, 4))
        outcome = rng.integers(0, k, (n, 3))
        rare = Fraction(int(rng.integers(1, 20)), 10 ** int(rng.integers(2, 5)))
        forecast = [rare, 2 * rare, 1 - 3 * rare]
        costs = np.arange(n) * float(rng.choice([0.0001, 0.001, 0.1]))
        game = ContractGame(outcome, rng.random(k).round(3), costs.round(4))
        _, value = optimal_payments(game, [float(p) for p in forecast])
        F = game.outcome_probabilities(np.array([float(p) for p in forecast]))
        for a in range(n):
            cheapest = cheapest_by_vertices(game, forecast, a, Fraction(0))
            if cheapest is None:
                assert value[a] == -np.inf
            else:
                implementable += a > 0
                expected = F[a] @ game.outcome_value - float(cheapest)
                assert value[a] == pytest.approx(expected, abs=1e-8)
    assert implementable > 20


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
