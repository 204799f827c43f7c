"""Interval learners: expectations, budgeted rates against brute force, bad data."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import NotRealizableError
from counterplay.poisoning import (
    IntervalTarget,
    LabelledSet,
    attackable_rate,
    bounds,
)
from counterplay.poisoning.lab import (
    GapCuttingAttacker,
    MaxOpenInterval,
    MinClosedInterval,
    OutOfDomainError,
    brute_force_region,
    gap_costs,
    open_interval_rate,
)


@pytest.mark.claim("10.06")
def test_closure_expectation_of_the_interval_example() -> None:
    rng = np.random.default_rng(0)
    runs, m, target = 2000, 50, IntervalTarget([0.2, 0.8])
    err = np.empty(runs)
    for run, x in enumerate(rng.random((runs, m))):
        learner = MinClosedInterval().fit(x, target(x))
        err[run] = 0.6 if learner.low_ is None else 0.6 - (learner.high_ - learner.low_)
    expected = bounds.closed_interval_error(0.6, 50)
    assert abs(expected - 0.0392) < 5e-5
    assert abs(err.mean() - expected) <= 4 * err.std() / np.sqrt(runs)


@pytest.mark.claim("10.08")
def test_longest_gap_has_small_error_and_no_safe_point() -> None:
    rng = np.random.default_rng(2)
    for m in (100, 1000):
        gaps = np.diff(np.sort(rng.random((2000, m)), axis=1), prepend=0, append=1)
        err = gaps.max(axis=1)
        expected = bounds.largest_gap_error(m)
        assert abs(err.mean() - expected) <= 4 * err.std() / np.sqrt(len(err))
        x = rng.random(m)
        learner = MaxOpenInterval().fit(x, np.zeros(m))  # its error is the largest gap
        longest = np.diff(np.sort(x), prepend=0, append=1).max()
        assert learner.high_ - learner.low_ == pytest.approx(longest)
    assert bounds.largest_gap_error(100) == pytest.approx(0.0515, abs=5e-5)
    assert bounds.largest_gap_error(1000) == pytest.approx(0.00748, abs=5e-6)
    S = LabelledSet(rng.random(60), np.zeros(60))
    test = rng.random(60)
    ends = np.sort(np.concatenate([[0], S.X[:, 0], [1]]))
    for x0 in test:
        poison = GapCuttingAttacker().attack(IntervalTarget(), S, [x0])
        both = S + poison
        assert MaxOpenInterval().fit(both.X, both.y).predict([x0])[0] == 1
        assert not poison.y.any()
        own = np.searchsorted(ends, x0)
        assert not ((ends[own - 1] < poison.X) & (ends[own] > poison.X)).any()
    report = attackable_rate(MaxOpenInterval(), IntervalTarget(), S, test, [GapCuttingAttacker()])
    assert report.atk_lower == report.atk_upper == 1


@pytest.mark.claim("21.31")
def test_unlimited_gap_cutting_wins_at_every_unseen_point() -> None:
    rng = np.random.default_rng(11)
    cases = [(np.array([0.3, 0.4]), x0) for x0 in np.arange(400) / 400 + 0.00125]
    for _ in range(300):  # few decimals: many gaps are multiples of each other, up to rounding
        seen = np.round(rng.random(int(rng.integers(1, 12))), int(rng.integers(1, 4)))
        cases.append((np.unique(seen), rng.random()))
    for seen, x0 in cases:
        S = LabelledSet(seen, np.zeros(len(seen)))
        both = S + GapCuttingAttacker().attack(IntervalTarget(), S, [x0])
        assert MaxOpenInterval().fit(both.X, both.y).predict([x0])[0] == 1


def test_budgeted_cuts_never_reach_a_certified_point() -> None:
    rng = np.random.default_rng(12)
    for budget in (1, 2, 3, 5, 9):
        for _ in range(12):
            seen = np.unique(np.round(rng.random(6), int(rng.integers(1, 3))))
            S = LabelledSet(seen, np.zeros(len(seen)))
            report = attackable_rate(
                MaxOpenInterval(), IntervalTarget(), S, rng.random((20, 1)),
                [GapCuttingAttacker()], budget,
            )  # fmt: skip
            assert report.atk_lower <= report.atk_upper
            assert report.n_poison.max() <= budget


@pytest.mark.claim("10.09")
def test_budgeted_rates_of_the_longest_gap() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        x = rng.random(40)
        gaps = np.diff(np.sort(np.concatenate([[0], x, [1]])))
        rates = [open_interval_rate(x, t) for t in range(0, 200, 5)]
        assert rates[0] == pytest.approx(gaps.max())
        assert (np.diff(rates) >= 0).all()
        assert open_interval_rate(x, int(gap_costs(gaps).max())) == pytest.approx(1.0)
        assert open_interval_rate(x) == 1.0


@pytest.mark.claim("10.09")
@pytest.mark.parametrize("t", [0, 1, 2])
def test_budgeted_rates_equal_brute_force_on_twelve_points(t: int) -> None:
    rng, hit = np.random.default_rng(14), 0
    for _ in range(60):
        seen = np.sort(rng.random(3))
        ends = np.concatenate([[0], seen, [1]])
        # Middle and thirds of the four gaps: all cuts that one or two rows can make best use of.
        cuts = (ends[:-1] + np.diff(ends) * np.array([[1 / 2], [1 / 3], [2 / 3]])).ravel()
        domain = np.sort(np.concatenate([seen, cuts]))
        found = brute_force_region(
            MaxOpenInterval(), np.zeros(15), np.searchsorted(domain, seen),
            points=domain[:, None], budget=t,
        )  # fmt: skip
        gap = np.searchsorted(ends, domain, side="left") - 1
        lost = np.array([found[(gap == i) & ~np.isin(domain, seen)].all() for i in range(4)])
        assert found.sum() == 3 * lost.sum()  # a gap is lost with all its points, or not at all
        assert open_interval_rate(seen, t) == pytest.approx(np.diff(ends)[lost].sum())
        hit += int(lost.sum()) > 1
    assert t == 0 or hit > 10


@pytest.mark.claim("10.09")
@pytest.mark.parametrize("t", [1, 2])
def test_budgeted_rates_equal_brute_force_on_a_grid(t: int) -> None:
    rng = np.random.default_rng(4)
    grid = np.arange(1, 32) / 32  # exact binary fractions, so that ties are ties
    for _ in range(6):
        seen = np.sort(rng.choice(grid[3::4], size=4, replace=False))  # gaps of length k/8
        domain = np.unique(np.concatenate([grid, seen]))
        index = np.searchsorted(domain, seen)
        found = brute_force_region(
            MaxOpenInterval(), np.zeros(len(domain)), index, points=domain[:, None], budget=t
        )
        ends = np.concatenate([[0], seen, [1]])
        cost = _grid_costs(np.round(np.diff(ends) * 32).astype(int))
        gap = np.searchsorted(ends, domain, side="right") - 1
        expected = (cost[gap] <= t) & ~np.isin(domain, ends)
        assert np.array_equal(found, expected)
        # the continuous attacker is at least as strong, and equal when cuts fit the grid
        assert (gap_costs(np.diff(ends)) <= cost).all()


def _grid_costs(lengths: np.ndarray) -> np.ndarray:
    """Cuts at grid points that make each gap the longest, leftmost on ties (integers)."""
    costs = []
    for i, own in enumerate(lengths):
        need = [own - 1 if j < i else own for j in range(len(lengths))]
        cuts = [
            -(-length // limit) - 1
            for j, (length, limit) in enumerate(zip(lengths, need))
            if j != i
        ]
        costs.append(sum(cuts))
    return np.array(costs)


@pytest.mark.claim("10.09")
def test_with_a_positive_the_longest_interval_is_attackable_where_it_errs() -> None:
    rng = np.random.default_rng(9)
    grid = np.linspace(0.04, 0.96, 9)
    for _ in range(12):
        low, high = np.sort(rng.choice(np.arange(1, 9), size=2, replace=False)) / 9
        target = IntervalTarget([low - 0.01, high + 0.01])
        seen = rng.integers(9, size=4)
        S = LabelledSet(grid[seen], target(grid[seen]))
        if not S.y.any():
            continue
        region = brute_force_region(MaxOpenInterval(), target(grid), seen, points=grid[:, None])
        safe = MaxOpenInterval().fit(S.X, S.y).certified(target, S, grid)
        assert np.array_equal(region, ~safe)


def test_interval_learners_refuse_bad_data() -> None:
    with pytest.raises(NotRealizableError):
        MinClosedInterval().fit([0.1, 0.2, 0.3], [1, 0, 1])
    with pytest.raises(NotRealizableError):
        MaxOpenInterval().fit([0.0, 0.5], [1, 0])
    with pytest.raises(OutOfDomainError):
        MaxOpenInterval().fit([1.5], [0])
    learner = MaxOpenInterval().fit([0.1, 0.4, 0.5, 0.9], [0, 1, 1, 0])
    assert (learner.low_, learner.high_) == (0.1, 0.9)


def test_partial_refit_is_a_refit() -> None:
    rng = np.random.default_rng(8)
    target = IntervalTarget([0.3, 0.7])
    for _ in range(30):
        X, P = rng.random(6), rng.random(4)
        quick = MinClosedInterval().fit(X, target(X)).partial_refit(LabelledSet(P, target(P)))
        slow = MinClosedInterval().fit(np.append(X, P), target(np.append(X, P)))
        assert (quick.low_, quick.high_) == (slow.low_, slow.high_)
