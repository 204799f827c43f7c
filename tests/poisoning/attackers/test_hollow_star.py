"""The hollow star attack: what every consistent proper learner loses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.poisoning import LabelledSet, attackable_rate, bounds, instances
from counterplay.poisoning.bounds import expectation_to_tail
from counterplay.poisoning.lab import (
    BatchLearner,
    HardMarginSVM,
    HollowStarAttacker,
    OrderedERM,
    TableTarget,
)


class RandomSingleton(BatchLearner):
    """A consistent proper learner that breaks ties at random."""

    randomised = True

    def __init__(self, k: int, random_state: int | None = None) -> None:
        self.k, self.random_state = k, random_state

    def fit(self, X, y):
        positive = np.asarray(X)[np.asarray(y) == 1]
        self.free_ = positive[:1] if positive.size else np.setdiff1d(np.arange(self.k), X)
        self.point_ = int(np.random.default_rng(self.random_state).choice(self.free_))
        return self

    def predict(self, X):
        return (np.asarray(X) == self.point_).astype(np.uint8)


@pytest.mark.claim("10.14")
@pytest.mark.parametrize(
    ("k", "m", "value"), [(5, 2, 0.2812), (11, 5, 0.2952), (21, 10, 0.2994), (101, 50, 0.3025)]
)
def test_hollow_star_rate_of_the_lowest_index(k: int, m: int, value: float) -> None:
    assert bounds.hollow_star_rate(k, m) == pytest.approx(value, abs=6e-5)
    # Exact: average over i* of P(i unseen) * #{i < i*} / (k - 1).
    unseen = (1 - 1 / (k - 1)) ** m
    exact = np.mean([unseen * i_star / (k - 1) for i_star in range(k)])
    assert exact == pytest.approx(bounds.hollow_star_rate(k, m), rel=1e-12)
    rng = np.random.default_rng(k)
    learner = OrderedERM(FiniteClass.singletons(k))
    for _ in range(10):
        game = instances.hollow_star_singletons(k, m, random_state=rng)
        region = learner.attackable_region(game.target.labels, game.S.X)
        star = game.details["i_star"]
        free = ~np.isin(np.arange(k), game.S.X) & (np.arange(k) < star)
        assert np.array_equal(region[game.X_test], free[game.X_test])


def _exact_random_rate(k: int, S: LabelledSet, i_star: int) -> float:
    """Rate of RandomSingleton under the empty and the hollow-star attack, exact over its coins."""
    target = TableTarget(np.eye(k, dtype=int)[i_star])
    attacker, rates = HollowStarAttacker(np.arange(k), np.zeros(k)), []
    for x0 in np.delete(np.arange(k), i_star):
        both = S + attacker.attack(target, S, x0)
        free = [RandomSingleton(k).fit(data.X, data.y).free_ for data in (S, both)]
        rates.append(max((f == x0).mean() for f in free))  # a maximum of means over coins
    return float(np.mean(rates))


def _mean_rate(k: int, m: int, rate) -> float:
    """Average over the star point and over all samples, each equally likely."""
    found = []
    for i_star, *rows in itertools.product(range(k), *[range(k - 1)] * m):
        others = np.delete(np.arange(k), i_star)
        found.append(rate(LabelledSet(others[list(rows)], np.zeros(m)), i_star))
    return float(np.mean(found))


@pytest.mark.claim("10.14")
@pytest.mark.parametrize(("k", "m"), [(3, 1), (4, 1), (5, 1), (5, 2), (6, 2)])
def test_every_consistent_proper_learner_loses_a_quarter(k: int, m: int) -> None:
    assert m <= (k - 1) // 2
    assert _mean_rate(k, m, lambda S, star: _exact_random_rate(k, S, star)) >= 0.25 - 1e-12
    rng, H = np.random.default_rng(k), FiniteClass.singletons(k)
    for _ in range(3):  # any order of the hypotheses is a consistent proper learner
        learner = OrderedERM(H, rng.permutation(k))

        def rate(S: LabelledSet, star: int, learner=learner) -> float:
            region = learner.attackable_region(np.eye(k, dtype=np.uint8)[star], S.X)
            return float(np.delete(region, star).mean())

        assert _mean_rate(k, m, rate) >= 0.25 - 1e-12
    assert expectation_to_tail(0.25) == (1 / 8, 1 / 7)


@pytest.mark.claim("10.14")
@pytest.mark.parametrize(("k", "m", "value"), [(5, 2, 0.5625), (11, 5, 0.5905)])
def test_the_last_star_point_is_the_worst_for_the_lowest_index(k, m, value) -> None:
    learner, star = OrderedERM(FiniteClass.singletons(k)), k - 1
    target, rates = np.eye(k, dtype=np.uint8)[star], []
    rng = np.random.default_rng(k)
    samples = (
        itertools.product(range(star), repeat=m) if k == 5 else rng.integers(star, size=(3000, m))
    )
    for rows in samples:
        rates.append(learner.attackable_region(target, np.array(rows))[:star].mean())
    slack = 1e-12 if k == 5 else 4 * np.std(rates) / np.sqrt(len(rates))  # all samples, or some
    assert abs(np.mean(rates) - (1 - 1 / (k - 1)) ** m) <= slack
    assert (1 - 1 / (k - 1)) ** m == pytest.approx(value, abs=6e-5)


@pytest.mark.claim("10.14")
def test_one_row_more_and_the_quarter_is_lost() -> None:
    k, m = 4, 2  # m = floor(k/2): the slip of the source
    exact = _mean_rate(k, m, lambda S, star: _exact_random_rate(k, S, star))
    assert exact == pytest.approx((1 - 1 / 3) ** 2 / 2)
    assert bounds.hollow_star_rate(k, m) == pytest.approx(exact)
    assert round(exact, 3) == 0.222


def test_pair_attack_on_the_hard_margin_svm() -> None:
    T, m = instances.simplex_set(8), 4
    rng, hits = np.random.default_rng(1), []
    for _ in range(60):
        i_star = int(rng.integers(10))
        labels = T.y.copy()
        labels[i_star] = 1 - labels[i_star]
        others = np.delete(np.arange(10), i_star)
        rows = rng.choice(others, size=m)
        S = LabelledSet(T.X[rows], labels[rows])
        truth = {T.X[i].tobytes(): labels[i] for i in range(10)}
        target = lambda X, truth=truth: np.array([truth[x.tobytes()] for x in X])  # noqa: E731  table
        x0 = T.X[int(rng.choice(others))]
        report = attackable_rate(
            HardMarginSVM(), target, S, x0[None], [HollowStarAttacker(T.X, T.y)]
        )
        hits.append(report.atk_lower)
    assert np.mean(hits) >= 0.312 - 4 * np.sqrt(0.312 * 0.688 / 60)
