"""Classes that are never listed against the same classes listed, member by member."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.invariance import instances
from counterplay.invariance.lab import (
    ERM,
    AllLabelings,
    BalancedSubsets,
    BlockConstants,
    ExplicitClass,
    FiniteDistribution,
    FiniteProblem,
)

POOLS = {
    "all labelings": (AllLabelings(5), np.arange(5)),
    "block constants": (BlockConstants(3, 2), np.arange(6)),
    "balanced subsets": (BalancedSubsets(2), np.r_[0, np.arange(1, 5), np.arange(1, 5)]),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("tie", ["first", "random", "adversarial"])
def test_ties_of_classes_that_are_never_listed(name: str, tie: str) -> None:
    """The member is one of the best on the sample; the adversarial one is the worst of these."""
    hypotheses, orbit = POOLS[name]
    pool = np.arange(len(orbit))
    rows = listed(name)
    problem = FiniteProblem(rows, orbit)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        truth = FiniteDistribution(
            pool, rng.integers(0, 2, size=pool.size), rng.dirichlet(np.ones(pool.size))
        )
        X = rng.choice(pool, size=rng.integers(0, 5))
        y = rng.integers(0, 2, size=X.size)
        options = {"tie": tie, "truth": truth, "random_state": seed}
        row = ERM(hypotheses, problem.group, **options).fit(X, y).predict(pool)
        assert (rows == row).all(axis=1).any()
        mistakes = (rows[:, X] != y).sum(axis=1)
        assert (row[X] != y).sum() == mistakes.min()
        if tie == "adversarial":
            best = rows[mistakes == mistakes.min()]
            worst = ((best != truth.labels) @ truth.probabilities).max()
            assert (row != truth.labels) @ truth.probabilities == pytest.approx(worst)
            same = ERM(ExplicitClass(problem), problem.group, **options).fit(X, y)
            assert truth.error_of(same) == pytest.approx(worst)


def listed(name: str) -> np.ndarray:
    """All members as rows, from the definition."""
    if name == "all labelings":
        return np.array(list(np.ndindex(*[2] * 5)))
    if name == "block constants":
        return np.array(list(np.ndindex(2, 2, 2)))[:, [0, 0, 1, 1, 2, 2]]
    return instances.da_lower_bound(2, 1 / 64, random_state=0).problem.H


def test_random_ties_are_fair_coins() -> None:
    """Free points of a class with all labelings: each is 1 in half of the fits."""
    group = FiniteProblem(np.eye(4, dtype=int), np.arange(4)).group
    ones = np.array(
        [
            ERM(AllLabelings(4), group, tie="random", random_state=seed)
            .fit([0], [1])
            .predict(np.arange(4))
            for seed in range(600)
        ]
    ).sum(axis=0)
    assert ones[0] == 600
    assert (np.abs(ones[1:] - 300) < 5 * np.sqrt(150)).all()
