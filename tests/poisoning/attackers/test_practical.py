"""Practical attackers find what is there."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from counterplay.poisoning import LabelledSet, attackable_rate
from counterplay.poisoning.lab import (
    AcrossBoundaryAttacker,
    LinearTarget,
    PoolGreedyAttacker,
)
from counterplay.poisoning.model import Attacker


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
