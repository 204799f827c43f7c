from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from counterplay.principal import LinearContractGame, LinearContractOracle
from counterplay.principal.instances import no_stable_policy_instance, oracle_bug_instances
from counterplay.principal.kernels import TOL
from counterplay.principal.lab import (
    contract_grid,
    is_stable,
    tie_points,
)


def random_instance(rng, n_actions=None, n_states=None):
    n = int(rng.integers(2, 7)) if n_actions is None else n_actions
    m = int(rng.integers(1, 6)) if n_states is None else n_states
    costs = rng.permutation(np.cumsum(rng.uniform(0.01, 1 / n, size=n)))
    values = rng.random((n, m))
    if rng.random() < 0.3:  # coinciding values: two actions that differ in cost only
        values[1] = values[0]
    return LinearContractGame(values, costs), rng.dirichlet(np.ones(m))


@pytest.mark.claim("07.03")
def test_there_are_at_most_n_minus_one_ties():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        game, pi = random_instance(rng)
        f = game.values @ pi
        ties = tie_points(game, pi)
        assert ties.size <= game.costs.size - 1
        assert ((ties >= 0) & (ties <= 1)).all()
        for p in ties:  # each is a tie of best responses
            u = p * f - game.costs
            assert np.sort(u)[-2] >= u.max() - 1e-9
        for low, high in zip([0.0, *ties], [*ties, 1.0]):  # and there are no others
            if high - low > 1e-6:
                for p in np.linspace(low, high, 7)[1:-1]:
                    u = np.sort(p * f - game.costs)
                    assert u[-1] - u[-2] > 0.0


def exact_ties(values, costs):
    """Shares in [0, 1] with two best responses, for two equally likely states."""
    f = [(a + b) / 2 for a, b in values]
    pairs = [(a, b) for a in range(len(f)) for b in range(a) if f[a] != f[b]]
    crossings = {(costs[a] - costs[b]) / (f[a] - f[b]) for a, b in pairs}
    found = []
    for p in sorted(x for x in crossings if 0 <= x <= 1):
        u = sorted(p * x - c for x, c in zip(f, costs))
        if u[-1] == u[-2]:
            found.append(p)
    return found


@pytest.mark.claim("25.19")
def test_a_tie_at_one_is_not_lost_by_rounding():
    game = LinearContractGame([[0.3, 1], [0.7, 1]], [0.05, 0.25])
    assert tie_points(game, (0.5, 0.5)).tolist() == [1.0]
    rng, at_one = np.random.default_rng(3), 0
    for _ in range(2000):
        n = int(rng.integers(2, 5))
        values = [[Fraction(int(v), 10) for v in rng.integers(0, 11, 2)] for _ in range(n)]
        costs = [Fraction(int(c), 20) for c in rng.choice(21, n, replace=False)]
        game = LinearContractGame(np.array(values, dtype=float), np.array(costs, dtype=float))
        ties = exact_ties(values, costs)
        assert tie_points(game, (0.5, 0.5)) == pytest.approx([float(p) for p in ties])
        at_one += 1 in ties
    assert at_one > 50


@pytest.mark.claim("07.03")
def test_a_best_response_on_both_sides_leads_in_the_middle():
    rng = np.random.default_rng(1)
    checked = 0
    for _ in range(2000):
        game, pi = random_instance(rng)
        f = game.values @ pi
        beta = float(rng.uniform(0.01, 0.3))
        p = float(rng.uniform(beta, 1 - beta))
        left, right = (p - beta) * f - game.costs, (p + beta) * f - game.costs
        both = (left >= left.max() - 1e-12) & (right >= right.max() - 1e-12)
        for a in np.flatnonzero(both):
            u = p * f - game.costs
            rivals = np.delete(u, a)
            assert u[a] >= rivals.max() + game.cost_gap * beta - 1e-10
            checked += 1
    assert checked > 1000


@pytest.mark.claim("07.03")
def test_near_best_effort_never_falls_with_the_share():
    rng = np.random.default_rng(2)
    for _ in range(2000):
        game, pi = random_instance(rng)
        f = game.values @ pi
        eps = float(rng.choice([0.0, 0.01, 0.1]))
        best = -1.0
        for p in np.sort(rng.random(6)):
            u = p * f - game.costs
            effort = f[(u > u.max() - eps + TOL) | (u >= u.max() - TOL)].max()
            assert effort >= best - 1e-9
            best = effort


@pytest.mark.claim("07.04")
def test_repaired_oracle_keeps_its_promise_on_ten_thousand_instances():
    rng = np.random.default_rng(4)
    shares = np.arange(1001) / 1000
    checked = 0
    for _ in range(500):
        game, _ = random_instance(rng)
        n = game.costs.size
        beta = float(rng.choice([0.02, 0.05, 0.1, rng.uniform(0.01, 0.2)]))
        delta = float(rng.choice([0.01, 0.025, 0.05, rng.uniform(0.01, 0.1)]))
        oracle = LinearContractOracle(game, shares, beta=beta, delta=delta)
        margin, slack = game.cost_gap * beta / 2, n * (beta + delta)
        for pi in rng.dirichlet(np.ones(game.n_states), size=20):
            f = game.values @ pi
            U = shares[:, None] * f - game.costs
            near = U.max(axis=1, keepdims=True) - margin + TOL < U
            optimistic = np.where(near, (1 - shares)[:, None] * f, -np.inf).max(axis=1)
            p, action = oracle.recommend(pi)
            u, v = p * f - game.costs, (1 - p) * f
            assert u[action] >= u.max() - TOL
            assert v[action] >= optimistic.max() - slack - 1e-9
            tempting = shares[np.argmax(optimistic >= optimistic.max() - TOL)]
            assert tempting - 1e-9 <= p <= tempting + slack + 1e-9
            others = np.arange(n) != action
            separated = u <= u[action] - margin + 2 * TOL
            harmless = v >= v[action] - 2 * TOL
            assert (separated | harmless)[others].all()
            checked += 1
    assert checked == 10_000


@pytest.mark.claim("07.05")
def test_printed_oracle_breaks_its_theorem_on_the_first_instance():
    bug, _ = oracle_bug_instances()
    loss = 2 * (bug.beta + bug.delta)
    printed = LinearContractOracle(bug.game, bug.benchmark, bug.beta, bug.delta, as_printed=True)
    repaired = LinearContractOracle(bug.game, bug.benchmark, bug.beta, bug.delta)
    hoped = 0.52  # working at 0.48 leaves her 0.52
    p, a = printed.recommend([1.0])
    assert (p, a) == (0.48, 0)
    assert (1 - p) * bug.game.values[a, 0] == 0.0 < hoped - loss
    p, a = repaired.recommend([1.0])
    assert (p, a) == (0.54, 1)
    assert (1 - p) * bug.game.values[a, 0] == pytest.approx(0.46)
    assert hoped - loss <= 0.46


@pytest.mark.claim("07.05")
def test_closed_ball_breaks_the_theorem_on_the_second_instance():
    _, bug = oracle_bug_instances()
    loss = 2 * (bug.beta + bug.delta)
    assert loss == pytest.approx(0.25)
    closed = LinearContractOracle(bug.game, bug.benchmark, bug.beta, bug.delta)
    closed.eps = closed.margin + 2 * TOL  # the ball of the thesis, with the two-sided test
    pair = closed.benchmark_decisions(np.array([1.0]))[1:3]
    assert pair == (0, 1)  # hopes for work at 0.475, worth 0.525
    p, a = closed.recommend([1.0])
    assert (p, a) == (0.475, 0)
    assert 0.525 - loss > 0.0
    repaired = LinearContractOracle(bug.game, bug.benchmark, bug.beta, bug.delta)
    assert repaired.benchmark_decisions(np.array([1.0]))[1:3] == (0, 0)  # hopes for nothing
    assert repaired.recommend([1.0]) == (0.475, 0)


@pytest.mark.claim("07.06")
def test_share_one_is_the_last_resort():
    # working pays at most 0.02 more than it costs, so no contract separates by the margin
    game = LinearContractGame(values=[[0.0], [0.99]], costs=[0.0, 0.97])
    oracle = LinearContractOracle(game, [0.99], beta=0.2, delta=0.4)
    assert oracle.policies == (0.0, 0.4, 0.8, 1.0)
    assert 0.99 > 1 - 2 * (0.2 + 0.4)
    assert not is_stable(game, 0.99, [1.0], oracle.margin, 0.0)
    p, _ = oracle.recommend([1.0])
    assert p == 1.0
    assert is_stable(game, p, [1.0], oracle.margin, 0.0)


@pytest.mark.claim("07.06")
@pytest.mark.parametrize("delta", [0.1, 0.3, 0.07, 1.0, 1 / 3])
def test_grid_contains_one_and_has_the_promised_size(delta):
    grid = contract_grid(delta)
    assert grid[-1] == 1.0
    assert grid.size <= np.floor(1 / delta) + 2
    inner = grid[:-1] / delta
    assert inner == pytest.approx(np.rint(inner))
    assert (np.diff(grid) > 0).all()


def test_continuum_escapes_where_two_contracts_cannot():
    finite = no_stable_policy_instance()
    game = LinearContractGame(values=[[0.5], [1.0]], costs=[0.125, 0.25])
    assert finite.U[0] == pytest.approx(game.agent_utility(0.25))
    oracle = LinearContractOracle(game, [0.25, 0.5], beta=0.05, delta=0.01)
    p, a = oracle.recommend([1.0])
    assert 0.25 < p < 0.32
    assert a == 1
    assert is_stable(game, p, [1.0], oracle.margin, 0.0)
