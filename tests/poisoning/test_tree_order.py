"""TreeOrderLearner: its region, its tail, and what it refuses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.errors import InvalidInputError, NotRealizableError
from counterplay.poisoning import attackable_rate, bounds, instances
from counterplay.poisoning.lab import (
    TreeOrderLearner,
    brute_force_region,
    disagreement_rate,
)
from poisoning.problems import errors_of, random_sample, random_vc1_class


@pytest.mark.claim("10.01")
def test_tree_order_region_is_the_error_region() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        H = random_vc1_class(rng, int(rng.integers(3, 8)))
        target = H.labels[rng.integers(len(H))].astype(np.uint8)
        seen = random_sample(rng, H.n_points)
        for f in range(len(H)):  # any reference in the class
            learner = TreeOrderLearner(H, f)
            region = brute_force_region(learner, target, seen)
            assert np.array_equal(region, errors_of(learner, target, seen))


@pytest.mark.claim("10.02")
def test_tree_order_only_moves_towards_the_target() -> None:
    rng = np.random.default_rng(2)
    for _ in range(1000):
        H = random_vc1_class(rng, 9)
        target = H.labels[rng.integers(len(H))].astype(np.uint8)
        learner = TreeOrderLearner(H, int(rng.integers(len(H))))
        seen, extra = random_sample(rng, 9), random_sample(rng, 9)
        small = learner.fit(seen, target[seen]).flipped_
        both = np.concatenate([seen, extra])
        large = learner.fit(both, target[both]).flipped_
        wanted = target != learner.f
        assert (small <= large).all()
        assert (large <= wanted).all()


@pytest.mark.claim("10.03")
def test_tree_order_tail_is_exact() -> None:
    eps, delta = 0.2, 0.1
    weights = np.array([0.04, 0.06, 0.1, 0.05, 0.15, 0.1, 0.2, 0.3])  # chain 0 < 1 < ... in mass
    k = len(weights)
    H = FiniteClass.thresholds(range(k), direction="down")
    f = np.zeros(k, dtype=int)
    target = np.ones(k, dtype=np.uint8)  # everything is flipped: the chain is 0 <= 1 <= ... <= 7
    learner = TreeOrderLearner(H, f)
    order = np.argsort(learner.leq_.sum(axis=0))  # from the bottom to the top of the chain
    top_mass = np.cumsum(weights[order][::-1])
    upper = order[::-1][: int(np.argmax(top_mass > eps)) + 1]  # smallest up-set with mass > eps
    promised = bounds.tree_order_sample_size(eps, delta)
    for m in (promised, 6, 1):
        exact = (1 - weights[upper].sum()) ** m
        # The learner sees a set of points; sum over the sets on which it fails, exactly.
        failing = sum(
            _chance_of_seeing(seen, weights, m)
            for seen in _subsets(k)
            if weights[errors_of(learner, target, seen)].sum() > eps
        )
        assert failing == pytest.approx(exact, abs=1e-12)
        if m == promised:
            assert failing <= delta
    rng = np.random.default_rng(0)
    draws = rng.choice(k, size=(1000, promised), p=weights)
    fails = [weights[errors_of(learner, target, seen)].sum() > eps for seen in draws]
    assert np.mean(fails) <= delta
    assert (1 - eps) ** bounds.tree_order_sample_size(eps, delta, paper=False) <= delta


def _subsets(k: int) -> list[np.ndarray]:
    return [np.flatnonzero((code >> np.arange(k)) & 1) for code in range(1, 2**k)]


def _chance_of_seeing(seen: np.ndarray, weights: np.ndarray, m: int) -> float:
    """Probability that m draws show exactly these points: inclusion and exclusion."""
    total = 0.0
    for code in range(2 ** len(seen)):
        part = seen[np.flatnonzero((code >> np.arange(len(seen))) & 1)]
        total += (-1.0) ** (len(seen) - len(part)) * weights[part].sum() ** m
    return total


@pytest.mark.claim("10.04")
def test_tree_order_refuses_what_it_cannot_do() -> None:
    with pytest.raises(InvalidInputError, match="VC dimension"):
        TreeOrderLearner(FiniteClass.all_labelings(2))
    with pytest.raises(InvalidInputError, match="member"):
        TreeOrderLearner(FiniteClass.thresholds(range(4)), f=[1, 0, 1, 0])
    with pytest.raises(InvalidInputError, match="member"):
        TreeOrderLearner(FiniteClass.thresholds(range(4)), f=99)
    tree = TreeOrderLearner(FiniteClass.singletons(5, include_empty=True), f=[0] * 5)
    with pytest.raises(NotRealizableError):
        tree.fit([1, 2], [1, 1])
    with pytest.raises(NotRealizableError):
        TreeOrderLearner(FiniteClass.thresholds(range(4)), f=[0, 0, 0, 0]).fit([1, 3], [1, 0])


def test_tree_order_from_a_callable_agrees_with_the_matrix() -> None:
    rng = np.random.default_rng(3)
    matrix = TreeOrderLearner(FiniteClass.thresholds(range(12)), f=[0] * 12)
    line = TreeOrderLearner.from_callable(lambda X, x: X[:, 0] >= x[0], lambda X: np.zeros(len(X)))
    for _ in range(50):
        target = (np.arange(12) >= rng.integers(13)).astype(np.uint8)
        seen = random_sample(rng, 12)
        first = matrix.fit(seen, target[seen]).predict(np.arange(12))
        second = line.fit(seen.astype(float), target[seen]).predict(np.arange(12.0))
        assert np.array_equal(first, second)


@pytest.mark.claim("10.15")
@pytest.mark.parametrize("k", [3, 4, 6, 7])
def test_tree_order_on_singletons_loses_at_most_one_point(k: int) -> None:
    H = FiniteClass.singletons(k)
    for f, star in itertools.product(range(k), range(k)):
        learner, others = TreeOrderLearner(H, f), np.delete(np.arange(k), star)
        target = np.eye(k, dtype=np.uint8)[star]
        for places in _subsets(k - 1):  # every sample, as a set: the learner sees no more
            seen = others[places]
            assert errors_of(learner, target, seen)[others].mean() <= 1 / (k - 1)


@pytest.mark.claim("10.15")
def test_mean_rate_of_tree_order_on_singletons() -> None:
    rng, k, m, rates = np.random.default_rng(11), 11, 5, []
    learner = TreeOrderLearner(FiniteClass.singletons(k), 0)
    for _ in range(2000):
        game = instances.hollow_star_singletons(k, m, random_state=rng)
        rates.append(errors_of(learner, game.target.labels, game.S.X)[game.X_test].mean())
    assert max(rates) <= 1 / (k - 1)
    # The reference 0 is the only point that can be lost: unseen, and not the star point.
    exact = (1 - 1 / k) * (1 - 1 / (k - 1)) ** m / (k - 1)
    assert abs(np.mean(rates) - exact) <= 4 * np.std(rates) / np.sqrt(2000)
    assert exact == pytest.approx(0.054, abs=5e-4)


def test_infinite_star_number_and_yet_robust() -> None:
    game = instances.singletons_and_zero(k=200, m=50, i_star=7, random_state=0)
    learner = TreeOrderLearner(game.details["H"], np.zeros(200, int))
    report = attackable_rate(learner, game.target, game.S, game.X_test, [game.attacker])
    assert report.atk_upper == (0 if 7 in game.S.X else 1 / 200)
    assert disagreement_rate(game.details["H"], game.S) > 0.7
