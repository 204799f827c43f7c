"""Attacks on the maximum-margin separator."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.poisoning import LabelledSet, attackable_rate, instances
from counterplay.poisoning.lab import HardMarginSVM, LinearTarget, SqueezePairAttacker
from poisoning.problems import disc, shortest


@pytest.mark.claim("10.38")
def test_squeezing_pair_moves_the_svm_across_the_disagreement() -> None:
    rng = np.random.default_rng(7)
    target = LinearTarget([np.cos(0.7), np.sin(0.7)], 0.05)
    X = disc(rng, 12)
    S = LabelledSet(X, target(X))
    report = attackable_rate(HardMarginSVM(), target, S, disc(rng, 60), [SqueezePairAttacker()], 2)
    assert report.atk_lower > report.err + 0.05
    assert report.n_poison.max() == 2


@pytest.mark.claim("10.26")
def test_margin_certificate_of_the_one_point_attack() -> None:
    g = 1 / 8
    v1, v2 = np.eye(2)
    normal = 0.75 * v1 - np.sqrt(7) / 4 * v2
    offset = 3 / 8 + np.sqrt(7) / 64
    assert np.linalg.norm(normal) == pytest.approx(1)
    exact = 3 / 8 - np.sqrt(7) / 64
    assert exact == pytest.approx(0.33366, abs=1e-5)
    poison = -g * v1 + np.sqrt(1 - g**2) * v2
    # Worst positives on the half sphere under E: <x, v1> >= 0 and <x, v2> <= 1/8.
    worst = (np.array([0.0, 1 / 8]) @ normal) + offset
    assert -(-v1 @ normal + offset) == pytest.approx(exact)
    assert worst == pytest.approx(3 / 8 + np.sqrt(7) / 64 - np.sqrt(7) / 32)
    assert -(poison @ normal + offset) >= exact - 1e-12


@pytest.mark.claim("10.26")
def test_one_point_attack_succeeds_on_the_event_of_the_proof() -> None:
    rng, events = np.random.default_rng(8), 0
    for _ in range(60):
        game = instances.svm_half_sphere(400, 10, random_state=rng)
        x0, positive = game.X_test[0], game.S.X[1:]
        rest = x0.copy()
        rest[0] = 0
        v2 = rest / np.linalg.norm(rest)
        if x0[0] > 1 / 8 or (positive @ v2 > 1 / 8).any():
            continue
        events += 1
        poison = game.attacker.attack(game.target, game.S, x0, budget=1)
        assert np.linalg.norm(poison.X[0]) == pytest.approx(1)
        assert poison.y[0] == 0
        assert abs(game.target.decision_function(poison.X)[0]) == pytest.approx(1 / 16)
        assert np.linalg.norm(x0 - poison.X[0]) <= 0.25 + 1e-9
        both = game.S + poison
        assert HardMarginSVM().fit(both.X, both.y).predict(x0[None])[0] == 0
    assert events > 20


# Attack success / error without poison of 60 runs each, by dimension and positives (section 4.5).
TABLE = {
    3: ((0.60, 0.25), (0.33, 0.03), (0.12, 0), (0, 0), (0, 0)),
    10: ((1, 0.17), (0.92, 0), (0.78, 0), (0.48, 0), (0.40, 0)),
    20: ((1, 0.35), (1, 0), (0.87, 0), (0.72, 0), (0.72, 0)),
    50: ((1, 0.23), (1, 0), (1, 0), (0.97, 0), (0.97, 0)),
    200: ((1, 0.20), (1, 0), (1, 0), (1, 0), (1, 0)),
}


SIZES = (1, 5, 20, 100, 400)


@pytest.mark.claim("10.26")
@pytest.mark.parametrize("n", TABLE)
@pytest.mark.parametrize("m_plus", SIZES)
def test_table_of_the_one_point_attack(n: int, m_plus: int) -> None:
    rng, runs = np.random.default_rng(n * m_plus), 60
    attacked, wrong = np.zeros(runs), np.zeros(runs)
    for i in range(runs):
        game = instances.svm_half_sphere(n, m_plus, random_state=rng)
        both = game.S + game.attacker.attack(game.target, game.S, game.X_test[0], budget=1)
        attacked[i] = HardMarginSVM().fit(both.X, both.y).predict(game.X_test)[0] == 0
        wrong[i] = HardMarginSVM().fit(game.S.X, game.S.y).predict(game.X_test)[0] == 0
    for found, reference in zip((attacked.mean(), wrong.mean()), TABLE[n][SIZES.index(m_plus)]):
        pooled = (found + reference) / 2  # both are means of 60 runs
        spread = np.sqrt(2 * pooled * (1 - pooled) / runs)
        assert abs(found - reference) <= 4 * spread + 0.005  # the table has two decimals


def attacked_samples() -> list[LabelledSet]:
    rng = np.random.default_rng(5)
    games = [instances.svm_half_sphere(50, 100, random_state=rng) for _ in range(6)]
    return [g.S + g.attacker.attack(g.target, g.S, g.X_test[0], budget=1) for g in games]


def general(S: LabelledSet) -> float:
    """The margin by a general solver."""
    cp = pytest.importorskip("cvxpy")
    w, b = cp.Variable(50), cp.Variable()
    rows = cp.multiply(2.0 * S.y - 1, S.X @ w + b) >= 1
    cp.Problem(cp.Minimize(cp.sum_squares(w)), [rows]).solve(solver=cp.CLARABEL)
    return 1 / float(np.linalg.norm(w.value))


def test_margins_are_those_of_a_general_solver() -> None:
    for S in attacked_samples():
        assert HardMarginSVM().fit(S.X, S.y).margin_ == pytest.approx(general(S), rel=1e-4)


@pytest.mark.slow
@pytest.mark.claim("10.37")
def test_one_point_table_is_faster_than_a_general_solver() -> None:
    sets = attacked_samples()
    exact = shortest(lambda: [HardMarginSVM().fit(S.X, S.y) for S in sets], 3)
    assert exact < shortest(lambda: [general(S) for S in sets], 3)


@pytest.mark.claim("10.27")
@pytest.mark.parametrize(("n", "probability"), [(2, 0.5), (3, 0.7071)])
def test_one_point_attack_without_positives(n: int, probability: float) -> None:
    rng, hits, runs = np.random.default_rng(n), 0, 1500
    for _ in range(runs):
        game = instances.svm_half_sphere(n, 0, random_state=rng)
        x0 = game.X_test[0]
        poison = game.attacker.attack(game.target, game.S, x0, budget=1)
        both = game.S + poison
        model = HardMarginSVM().fit(both.X, both.y)
        attacked = model.predict(x0[None])[0] == 0
        if abs(x0[0] - 1 / np.sqrt(2)) > 1e-9:
            assert attacked == (x0[0] < 1 / np.sqrt(2))
        hits += attacked
    assert abs(hits / runs - probability) <= 4 * np.sqrt(probability * (1 - probability) / runs)
