"""The evaluation engine: coins, cheating attackers, and practical attacks on real data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from counterplay.errors import InvalidInputError
from counterplay.poisoning import LabelledSet, attackable_rate, instances
from counterplay.poisoning.lab import (
    AcrossBoundaryAttacker,
    BatchLearner,
    BudgetError,
    LinearTarget,
    MaxOpenInterval,
    NotCleanError,
    PoolGreedyAttacker,
    TableTarget,
)
from counterplay.poisoning.model import Attacker


class CoinLearner(BatchLearner):
    """The coin decides which of two one-row poisons it falls for."""

    randomised = True

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X, y):
        weakness = self.random_state % 2
        self.fooled_ = bool((np.asarray(X) == 1 + weakness).any())
        return self

    def predict(self, X):
        return np.full(len(X), int(self.fooled_), dtype=np.uint8)


class AddRow(Attacker):
    def __init__(self, row: int) -> None:
        self.row = row

    def _attack(self, h_star, S, x0, budget):
        return LabelledSet([self.row], [int(h_star([self.row])[0])])


@pytest.mark.claim("10.36")
def test_engine_takes_the_maximum_of_means() -> None:
    target = TableTarget([0, 0, 0])
    S = LabelledSet(np.array([0]), [0])
    attackers = [AddRow(1), AddRow(2)]
    report = attackable_rate(
        CoinLearner(), target, S, np.array([0]), attackers, n_coins=400, seed=1
    )
    assert report.err == 0
    assert report.atk_lower == pytest.approx(0.5, abs=4 * 0.5 / 20)  # a mean of maxima would be 1
    first = attackable_rate(
        CoinLearner(), target, S, np.array([0]), attackers[:1], n_coins=400, seed=1
    )
    second = attackable_rate(
        CoinLearner(), target, S, np.array([0]), attackers[1:], n_coins=400, seed=1
    )
    assert first.atk_lower + second.atk_lower == pytest.approx(1)  # the same coins for both
    assert report.atk_lower == max(first.atk_lower, second.atk_lower)


@pytest.mark.claim("10.36")
def test_attackers_cannot_cheat() -> None:
    class Liar(AddRow):
        def _attack(self, h_star, S, x0, budget):
            return LabelledSet([1, 2], [0, 1])

    S = LabelledSet(np.array([0]), [0])
    with pytest.raises(NotCleanError, match="row 1 has label 1") as caught:
        Liar(0).attack(TableTarget([0, 0, 0]), S, 0)
    assert caught.value.row == 1
    with pytest.raises(BudgetError):
        Liar(0).attack(TableTarget([0, 0, 1]), S, 0, budget=1)
    with pytest.raises(InvalidInputError):
        LabelledSet([[0.0], [np.nan]], [0, 1])
    with pytest.raises(InvalidInputError):
        LabelledSet([[0.0]], [2])


def test_practical_attackers_find_what_is_there() -> None:
    rng = np.random.default_rng(7)
    target = LinearTarget([1.0, 0.5], 0.1)
    X = rng.normal(size=(80, 2))
    S, pool = LabelledSet(X[:20], target(X[:20])), X[20:]
    learner = SVC(kernel="linear", C=1e6)
    attackers: list[Attacker] = [AcrossBoundaryAttacker(learner=learner)]
    attackers.append(PoolGreedyAttacker(learner, pool, target(pool)))
    report = attackable_rate(
        learner, target, S, rng.normal(size=(40, 2)), attackers, budget=2, n_jobs=2
    )
    assert report.atk_lower > report.err
    for i in report.exposed():
        assert len(report.poison[i]) <= 2
        assert np.array_equal(target(report.poison[i].X), report.poison[i].y)
    assert "poison budget 2" in report.summary()
    again = attackable_rate(learner, target, S, rng.normal(size=(3, 2)), [], budget=2)
    assert again.atk_upper == 1


@pytest.mark.parametrize(("m", "attack"), [(60, 0.31), (200, 0.16)])
def test_one_true_row_flips_a_linear_svm_on_digits(m: int, attack: float) -> None:
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, (3, 8))
    X, y = X[chosen], (y[chosen] == 8).astype(int)
    teacher = SVC(kernel="linear").fit(X, y)
    target = LinearTarget(teacher.coef_[0], float(teacher.intercept_[0]))
    order = np.random.default_rng(0).permutation(len(X))
    S = LabelledSet(X[order[:m]], target(X[order[:m]]))
    learner = SVC(kernel="linear")
    report = attackable_rate(
        learner, target, S, X[order[m : m + 90]], [AcrossBoundaryAttacker(learner=learner)], 1
    )
    spread = np.sqrt(attack * (1 - attack) * (1 / 90 + 1 / 180))  # the reference: 180 points
    assert abs(report.atk_lower - attack) <= 4 * spread
    assert report.atk_lower > report.err


def test_interval_example_is_a_game() -> None:
    game = instances.interval_example(m=40, random_state=0)
    report = attackable_rate(
        MaxOpenInterval(), game.target, game.S, game.X_test, [game.attacker], 5
    )
    # with a budget the certificate is exact: attacked and certified complement each other
    assert np.array_equal(report.attacked == 1, ~report.certified)
