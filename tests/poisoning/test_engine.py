"""The evaluation engine: coins, cheating attackers, and practical attacks on real data."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.poisoning import (
    IntervalTarget,
    LabelledSet,
    attackable_rate,
)
from counterplay.poisoning.lab import (
    BatchLearner,
    BudgetError,
    GapCuttingAttacker,
    MaxOpenInterval,
    NotCleanError,
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


def test_scatter_of_poison_over_distance() -> None:
    S = LabelledSet(np.linspace(0, 1, 11), np.zeros(11))
    test = np.array([0.33, 0.62, 0.05])
    report = attackable_rate(MaxOpenInterval(), IntervalTarget(), S, test, [GapCuttingAttacker()])
    axes = report.plot_exposure(test)
    assert sum(len(line.get_xdata()) for line in axes.lines) == 3
    with pytest.raises(InvalidInputError, match="length 3"):
        report.plot_exposure([0.1])


@pytest.mark.claim("21.32")
def test_report_refuses_a_point_that_is_attacked_and_certified() -> None:
    S = LabelledSet([0.4], [0])
    with pytest.raises(InvalidInputError, match="test point 0 is certified"):
        attackable_rate(
            MaxOpenInterval(), IntervalTarget(), S, [[0.2]], [GapCuttingAttacker()],
            certificate=lambda *_: [True],
        )  # fmt: skip
