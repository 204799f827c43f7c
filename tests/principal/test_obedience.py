from __future__ import annotations

import time

import numpy as np
import pytest
from scipy.optimize import linprog

from counterplay.errors import InfeasibleError, InvalidInputError
from counterplay.principal import DisclosureGame, FollowRecommendation, StableMechanism
from counterplay.principal.instances import random_persuasion_game
from counterplay.principal.lab import (
    FiniteStableOracle,
    ObedienceOracle,
    PersuasionGeometry,
    StabilizedPersuasion,
    best_response,
    disclosure_library,
    is_stable,
    largest_margin,
    obedience_lp,
)
from principal.games import played


def loop_built(u, v, prior):
    """The program as one writes it first: dense rows, Python loops, SciPy's default solver."""
    n, m = u.shape
    obedience, balance = [], []
    for s in range(n):
        for other in range(n):
            if s != other:
                row = [0.0] * (n * m)
                for y in range(m):
                    row[s * m + y] = u[other, y] - u[s, y]
                obedience.append(row)
    for y in range(m):
        row = [0.0] * (n * m)
        for s in range(n):
            row[s * m + y] = 1.0
        balance.append(row)
    solved = linprog(
        -v.ravel(), A_ub=obedience, b_ub=[0.0] * len(obedience), A_eq=balance, b_eq=prior
    )
    return -solved.fun


def random_game(seed, n=3, m=3):
    rng = np.random.default_rng(seed)
    return DisclosureGame(rng.random((n, m)), rng.random((n, m))), rng


@pytest.mark.claim("07.30")
def test_program_agrees_with_the_loop_built_one():
    for seed in range(15):
        game, rng = random_game(seed, 2 + seed % 4, 2 + seed % 3)
        prior = rng.dirichlet(np.ones(game.n_states))
        solution = obedience_lp(game.u, game.v, prior)
        assert solution.value == pytest.approx(loop_built(game.u, game.v, prior), abs=1e-8)
        joint = solution.scheme.matrix * prior
        assert (joint * game.v).sum() == pytest.approx(solution.value, abs=1e-8)
        assert (joint * game.u).sum() == pytest.approx(solution.agent_value, abs=1e-8)
        gains = joint @ game.u.T - (joint * game.u).sum(axis=1)[:, None]
        assert gains.max() <= 1e-8  # nobody wants to disobey


@pytest.mark.claim("07.30")
def test_margin_is_the_stabilised_scheme_of_the_binary_case():
    """Moving a posterior by beta off an edge is a margin of beta times the slope difference."""
    for beta in (0.01, 0.02, 0.1):
        stable = StabilizedPersuasion(random_two(), beta)
        slope = stable.geometry.c1
        for mu in (0.1, 0.2, 0.3):
            program = obedience_lp(stable.game.u, stable.game.v, [1 - mu, mu], margin=beta * slope)
            assert program.value == pytest.approx(stable.value(mu), abs=1e-8)


def random_two():
    from counterplay.principal import PersuasionGame

    return PersuasionGame([[0.9, 0.1], [0.2, 0.8]], [0.0, 1.0])


@pytest.mark.claim("07.30")
@pytest.mark.parametrize("m", [2, 3, 5])
def test_oracle_is_stable_under_every_forecast(m):
    checked = 0
    for seed in range(25):
        game, rng = random_game(100 * m + seed, n=3, m=m)
        most = largest_margin(game)
        if most < 0.02:
            continue
        x = float(rng.choice([0.05, 0.2, 0.8]))
        oracle = ObedienceOracle(game, margin=0.9 * most, x=x)
        assert (oracle.spec.beta, oracle.spec.gamma) == (x * oracle.margin / 4, x)
        for sharpness in (0.1, 0.5, 2.0):
            for pi in rng.dirichlet(np.full(m, sharpness), size=3):
                scheme, action = oracle.recommend(pi)
                assert action == best_response(game, scheme, pi)
                assert is_stable(game, scheme, pi, oracle.spec.beta, oracle.spec.gamma)
                checked += 1
    assert checked > 100


@pytest.mark.claim("07.30")
def test_library_always_has_a_stable_scheme():
    for seed in range(10):
        game, rng = random_game(seed)
        margin, x = largest_margin(game) / 2, 0.1
        library = disclosure_library(game, margin=margin, parts=3)
        assert game.full_disclosure() in library
        oracle = FiniteStableOracle(
            game,
            eps=0.01,
            beta=x * margin,
            gamma=x,
            policies=library,
            P0=[game.full_disclosure()],
        )
        for pi in rng.dirichlet(np.ones(3), size=10):
            assert is_stable(game, oracle(pi), pi, x * margin, x)


@pytest.mark.claim("07.31")
def test_sparse_program_has_the_value_of_the_plain_one():
    rng = np.random.default_rng(0)
    u, v, prior = rng.random((20, 200)), rng.random((20, 200)), rng.dirichlet(np.ones(200))
    assert obedience_lp(u, v, prior).value == pytest.approx(loop_built(u, v, prior), abs=1e-7)


@pytest.mark.slow
@pytest.mark.claim("07.31")
def test_sparse_program_is_five_times_faster():
    rng = np.random.default_rng(0)
    u, v, prior = rng.random((20, 200)), rng.random((20, 200)), rng.dirichlet(np.ones(200))
    obedience_lp(u[:, :20], v[:, :20], np.full(20, 1 / 20))  # warm up
    ours = []
    for _ in range(2):
        begin = time.process_time()
        obedience_lp(u, v, prior)
        ours.append(time.process_time() - begin)
    begin = time.process_time()
    loop_built(u, v, prior)
    assert time.process_time() - begin >= 5 * min(ours)


def test_optimism_only_helps_and_margins_only_cost():
    game, _ = random_game(3)
    prior = [0.3, 0.3, 0.4]
    plain = obedience_lp(game.u, game.v, prior).value
    most = largest_margin(game)
    values = [obedience_lp(game.u, game.v, prior, margin=m).value for m in (0.0, most / 2, most)]
    assert values[0] == pytest.approx(plain)
    assert values[0] >= values[1] >= values[2]
    hopes = [obedience_lp(game.u, game.v, prior, slack=s).value for s in (0.01, 0.1)]
    assert plain <= hopes[0] <= hopes[1]


def test_binary_case_is_the_concave_closure():
    game = random_persuasion_game(4, random_state=1)
    geometry = PersuasionGeometry(game)
    for mu in np.linspace(0.05, 0.95, 7):
        assert obedience_lp(game.u, game.v, [1 - mu, mu]).value == pytest.approx(
            geometry.v_star(mu), abs=1e-8
        )


def test_states_of_probability_zero_are_harmless():
    game, _ = random_game(5)
    solution = obedience_lp(game.u, game.v, [1.0, 0.0, 0.0])
    assert solution.scheme.matrix.sum(axis=0) == pytest.approx([1, 1, 1])
    assert "signals" in solution.summary()


def test_impossible_margins_and_arguments_are_refused():
    with pytest.raises(InfeasibleError, match="ask for less"):
        obedience_lp([[1.0, 0.0], [0.9, 0.1]], [[0.0, 0.0], [1.0, 1.0]], [0.5, 0.5], margin=0.5)
    with pytest.raises(InvalidInputError, match="margin or slack"):
        obedience_lp(np.eye(2), np.eye(2), [0.5, 0.5], margin=0.1, slack=0.1)
    with pytest.raises(InfeasibleError, match="equally good"):
        ObedienceOracle(DisclosureGame([[1.0, 0.5], [0.0, 0.5]], [0.0, 1.0]))
    with pytest.raises(InvalidInputError, match="margin must be in"):
        ObedienceOracle(DisclosureGame(np.eye(2), [0.0, 1.0]), margin=1.5)


def test_mechanism_with_three_states():
    game = DisclosureGame(u=[[1, 0, 0], [0, 1, 0], [0.2, 0.2, 1]], v=[0.0, 0.3, 1.0])
    states = np.random.default_rng(0).choice(3, size=200, p=[0.5, 0.3, 0.2])
    oracle = ObedienceOracle(game, margin=0.3)
    transcript = played(StableMechanism(oracle, random_state=0), FollowRecommendation(), states)
    assert transcript.policy_regret <= transcript.regret_bound
    assert transcript.policy_regret < 0.0  # far better than no or full disclosure
