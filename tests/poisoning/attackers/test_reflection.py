"""Reflections: two worlds with one poisoned set, in which every learner errs at half."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Perceptron

from counterplay.poisoning import LabelledSet, bounds, instances
from counterplay.poisoning.attackers.reflection import reflect_through_axis
from counterplay.poisoning.lab import (
    DyadicDirectionLearner,
    HardMarginSVM,
    LinearTarget,
    MarginReflectionAttacker,
    NotCleanError,
    SphereReflectionAttacker,
)
from poisoning.problems import four_sigma


@pytest.mark.claim("10.18")
def test_sphere_reflection_is_an_isometric_involution() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        game = instances.tangent_circles(m=15, eta=1e-4, n_test=1, random_state=rng)
        x0, X = game.X_test[0], game.S.X
        once = reflect_through_axis(X, x0)
        assert np.allclose(reflect_through_axis(once, x0), X, atol=1e-12)
        assert np.allclose(once @ once.T, X @ X.T, atol=1e-12)
        assert np.allclose(reflect_through_axis(x0[None], x0)[0], x0, atol=1e-12)
        w = game.details["w"]
        assert np.allclose(once @ w - 0.5, X @ x0 - 1, atol=1e-12)


@pytest.mark.claim("10.18")
def test_two_worlds_give_the_same_poisoned_set() -> None:
    rng, attacks, worlds = np.random.default_rng(1), 0, set()
    for _ in range(60):
        game = instances.tangent_circles(m=12, eta=1e-5, n_test=1, random_state=rng)
        x0, w, j = game.X_test[0], game.details["w"], game.details["j"]
        poison = game.attacker.attack(game.target, game.S, x0)
        if len(poison) == 0:
            continue
        attacks += 1
        worlds.add(int(j))
        assert np.array_equal(game.target(poison.X), poison.y)
        mirrored_w = reflect_through_axis(w[None], x0)[0]
        other = LabelledSet(poison.X, poison.y)  # the training set of world (m(w), 1-j)
        assert np.allclose(other.X @ mirrored_w, 0.5, atol=1e-12)
        assert (other.y == 1 - j).all()
        back = LabelledSet(reflect_through_axis(other.X, x0), 1 - other.y)
        assert np.allclose(back.X, game.S.X, atol=1e-12)
        assert np.array_equal(back.y, game.S.y)
    assert attacks > 40
    assert worlds == {0, 1}


@pytest.mark.claim("10.18")
def test_probability_that_the_sphere_attack_is_possible() -> None:
    m, eta, runs = 30, 1e-3, 4000
    rng = np.random.default_rng(2)
    angle = 2 * np.pi * rng.random((runs, m))  # x0 at angle 0 on the circle of radius sqrt(3)/2
    chord = np.sqrt(3) * np.abs(np.sin(angle / 2))
    measured = (chord.min(axis=1) > np.sqrt(1.5 * eta)).mean()
    exact = bounds.sphere_reflection_rate(eta, m)
    assert abs(measured - exact) <= four_sigma(exact, runs)
    eta = bounds.sphere_reflection_eta(0.01, 30)
    assert eta == pytest.approx(2.24e-6, rel=0.01)
    assert bounds.sphere_reflection_rate(eta, 30) == pytest.approx(0.98)


@pytest.mark.claim("10.18")
def test_near_training_points_make_the_attack_unclean() -> None:
    eta, w = 0.01, np.array([0.0, 0.0, 1.0])
    target = LinearTarget(-w, (1 - eta) / 2, tolerance=1e-12)  # world j = 0

    def on_circle(a: float) -> np.ndarray:
        return np.array([np.sqrt(0.75) * np.cos(a), np.sqrt(0.75) * np.sin(a), 0.5])

    attacker = SphereReflectionAttacker(eta, careful=False)
    x0 = on_circle(0.0)
    near, far = on_circle(0.05), on_circle(0.2)
    assert x0 @ near > 1 - eta / 2 > x0 @ far
    with pytest.raises(NotCleanError):
        attacker.attack(target, LabelledSet(near[None], [0]), x0)
    assert len(attacker.attack(target, LabelledSet(far[None], [0]), x0)) == 1
    careful = SphereReflectionAttacker(eta)
    assert len(careful.attack(target, LabelledSet(near[None], [0]), x0)) == 0


def _tie_broken(model, x0: np.ndarray, rng: np.random.Generator) -> int:
    """Prediction with exact ties of symmetric learners decided by a coin."""
    if hasattr(model, "decision_function"):
        value = float(np.ravel(model.decision_function(x0[None]))[0])
        if abs(value) < 1e-6:
            return int(rng.integers(2))
        return int(value >= 0)
    return int(model.predict(x0[None])[0])


def _attacked_errors(make, game_of, runs: int, seed: int) -> tuple[float, float, int]:
    rng, wrong, attacks = np.random.default_rng(seed), 0, 0
    for _ in range(runs):
        game = game_of(rng)
        x0 = game.X_test[int(rng.integers(len(game.X_test)))]
        poison = game.attacker.attack(game.target, game.S, x0)
        if len(poison) == 0:
            continue
        both = game.S + poison
        order = rng.permutation(len(both))
        model = make(rng).fit(both.X[order], both.y[order])
        attacks += 1
        wrong += _tie_broken(model, x0, rng) != int(game.target(x0[None])[0])
    return wrong / attacks, attacks / runs, attacks


class TieBreakingNeighbour:
    """1-NN that decides exact distance ties by a coin; mirrored points are exact ties."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def fit(self, X, y):
        self.X, self.y = X, y
        return self

    def predict(self, X):
        distance = np.linalg.norm(self.X - X[0], axis=1)
        near = self.y[distance <= distance.min() + 1e-9]
        return np.array([near[0] if (near == near[0]).all() else self.rng.integers(2)])


@pytest.mark.claim("10.20")
@pytest.mark.parametrize(
    "make",
    [
        lambda rng: HardMarginSVM(tol=1e-3),
        lambda rng: LogisticRegression(C=100.0, tol=1e-8, max_iter=2000),
        TieBreakingNeighbour,
        lambda rng: Perceptron(random_state=int(rng.integers(2**31))),
    ],
    ids=["svm", "logistic", "1-nn", "perceptron"],
)
def test_every_learner_loses_half_on_tangent_circles(make) -> None:
    eta = bounds.sphere_reflection_eta(0.01, 12)
    rate, possible, n = _attacked_errors(
        make, lambda rng: instances.tangent_circles(12, eta, 1, rng), 500, seed=3
    )
    assert abs(rate - 0.5) <= four_sigma(0.5, n)
    exact = bounds.sphere_reflection_rate(eta, 12)
    assert abs(possible - exact) <= four_sigma(exact, 500)
    assert rate * possible >= exact / 2 - four_sigma(exact / 2, 500)  # the stated bound


@pytest.mark.claim("10.20")
@pytest.mark.parametrize(
    "make",
    [TieBreakingNeighbour, lambda rng: HardMarginSVM(tol=0.5)],
    ids=["1-nn", "svm"],
)
@pytest.mark.parametrize("m", [1, 2])
def test_other_learners_lose_half_on_the_chain(make, m: int) -> None:
    def game_of(rng):
        return instances.convex_chain(m, random_state=rng)

    rate, _, n = _attacked_errors(make, game_of, 500, seed=10 + m)
    assert abs(rate - 0.5) <= four_sigma(0.5, n)
    assert (1 - 1 / (2 * m)) ** m * (rate - four_sigma(0.5, n)) >= 1 / 64


@pytest.mark.claim("10.20")
@pytest.mark.parametrize("make", [TieBreakingNeighbour], ids=["1-nn"])
def test_other_learners_lose_half_on_circles(make) -> None:
    def game_of(rng):
        return instances.circles_on_spheres(200, 8, 1, 1, rng)

    rate, _, n = _attacked_errors(make, game_of, 700, seed=4)
    assert abs(rate - 0.5) <= four_sigma(0.5, n)


@pytest.mark.claim("10.20")
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_dyadic_learner_loses_half_on_the_chain(m: int) -> None:
    def game_of(rng):
        return instances.convex_chain(m, random_state=rng)

    rate, _, n = _attacked_errors(lambda rng: DyadicDirectionLearner(), game_of, 1500, seed=m)
    assert abs(rate - 0.5) <= four_sigma(0.5, n)
    unseen = (1 - 1 / (2 * m)) ** m  # a test point of D is unseen
    assert unseen * (rate - four_sigma(0.5, n)) >= 1 / 64  # (r - 3)^2 / (4 r^2) at r = 4
    assert abs(unseen * rate - bounds.chain_rate(m)) <= unseen * four_sigma(0.5, n)


@pytest.mark.claim("10.28")
def test_margin_reflection() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        n = int(rng.choice([20, 60, 300]))
        game = instances.margin_half_sphere(n, 10, random_state=rng)
        w, g, attacker = game.details["w"], game.details["gamma"], game.attacker
        X, x0 = game.S.X[1:, :-1], game.X_test[0, :-1]
        once = attacker.reflect(X, x0)
        assert np.allclose(attacker.reflect(once, x0), X, atol=1e-12)
        assert np.allclose(np.linalg.norm(once, axis=1), np.linalg.norm(X, axis=1), atol=1e-12)
        assert np.allclose(attacker.reflect(x0[None], x0)[0], x0, atol=1e-12)
        paper = MarginReflectionAttacker(w, gamma=g, mode="paper")
        if paper.allowed(X, x0):
            assert attacker.allowed(X, x0)  # E_1 is part of the maximal condition
            assert (once @ w < g / 2).all()
        values = game.target.decision_function(game.S.X) * np.where(game.S.y == 1, 1, -1)
        margin = 2 * values.min() / np.linalg.norm(game.target.w)
        assert margin >= g / np.sqrt(2) - 1e-12


# Fraction of attackable draws, event of the proof / maximal condition (section 4.6).
MARGIN = {
    (20, 5): (0, 0.78), (20, 20): (0, 0.59), (50, 5): (0.02, 0.97), (50, 20): (0, 0.94),
    (50, 100): (0, 0.83), (100, 5): (0.14, 1), (100, 20): (0, 1), (100, 100): (0, 0.99),
    (257, 5): (0.64, 1), (257, 20): (0.22, 1), (500, 5): (0.96, 1), (500, 20): (0.85, 1),
}  # fmt: skip


@pytest.mark.claim("10.28")
@pytest.mark.parametrize(("n", "m"), MARGIN)
def test_fractions_of_the_margin_reflection(n: int, m: int) -> None:
    rng, runs = np.random.default_rng(n + m), 400
    hits = np.zeros((runs, 2))
    for i in range(runs):
        game = instances.margin_half_sphere(n, m, random_state=rng)
        X, x0 = game.S.X[1:, :-1], game.X_test[0, :-1]
        paper = MarginReflectionAttacker(game.details["w"], mode="paper")
        hits[i] = paper.allowed(X, x0), game.attacker.allowed(X, x0)
        assert hits[i, 0] <= hits[i, 1]  # E_1 is part of the maximal condition
    for found, reference in zip(hits.mean(axis=0), MARGIN[n, m]):
        pooled = (found + reference) / 2  # the reference has two decimals and at least 200 runs
        spread = np.sqrt(pooled * (1 - pooled) * (1 / runs + 1 / 200))
        assert abs(found - reference) <= 4 * spread + 0.005


@pytest.mark.claim("10.28")
def test_margin_of_the_construction_is_attained() -> None:
    gamma = 1 / 8
    # A half-sphere point with <w, x> = gamma is at distance gamma/2 over ||(w,1)|| = sqrt(2).
    w = np.array([1.0, 0.0, 0.0])
    target = LinearTarget(np.append(w, 1.0), -gamma / 2)
    edge = np.array([[gamma, 1.0, 0.0, 0.0]])
    margin = 2 * target.decision_function(edge)[0] / np.linalg.norm(target.w)
    assert margin == pytest.approx(gamma / np.sqrt(2))
    assert margin == pytest.approx(0.0884, abs=1e-4)


@pytest.mark.claim("10.42")
def test_repaired_margin_construction() -> None:
    gamma = np.sqrt(2) / 8
    rng = np.random.default_rng(6)
    worst = np.inf
    for _ in range(40):
        game = instances.margin_half_sphere(400, 8, gamma=gamma, random_state=rng)
        values = game.target.decision_function(game.S.X) * np.where(game.S.y == 1, 1, -1)
        worst = min(worst, 2 * float(values.min()) / np.linalg.norm(game.target.w))
        assert np.linalg.norm(game.S.X, axis=1).max() <= 1 + gamma + 1e-12 <= 1.18
        assert len(game.attacker.attack(game.target, game.S, game.X_test[0])) == 8
    assert worst >= 1 / 8 - 1e-12
