"""Unions of intervals: regions against brute force, rates, contradictions."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import NotRealizableError
from counterplay.poisoning import (
    IntervalTarget,
    LabelledSet,
    UnionOfIntervals,
)
from counterplay.poisoning.lab import (
    brute_force_region,
)


@pytest.mark.claim("10.10")
def test_union_region_equals_brute_force() -> None:
    rng = np.random.default_rng(5)
    outer_points = 0
    for run in range(900):
        # The finite domain holds every boundary point and a point of every segment; an open
        # interval needs poison on both sides of a gap, which the midpoints provide.
        k = 3 if run % 30 == 0 else int(rng.integers(1, 3))
        ends = np.sort(rng.choice(np.arange(1, 40), size=2 * k, replace=False)) / 40
        extra = rng.choice(np.arange(1, 40), size=2, replace=False) / 40 + 0.0125
        domain = np.unique(np.concatenate([ends, extra, (ends[1:] + ends[:-1]) / 2]))
        target = IntervalTarget(ends, closed=False)
        labels = target(domain)
        seen = rng.choice(len(domain), size=int(rng.integers(0, 5)))
        S = LabelledSet(domain[seen], labels[seen])
        region = UnionOfIntervals.attackable_region(target, S, domain)
        assert np.array_equal(region, _all_subsets(labels, seen))
        if run < 12:  # the enumeration below is the learner itself
            brute = brute_force_region(UnionOfIntervals(), labels, seen, points=domain[:, None])
            assert np.array_equal(region, brute)
        outer = (domain <= ends[0]) | (domain >= ends[-1])
        assert not region[outer].any()
        outer_points += int(outer.sum())
    assert outer_points > 1800


def _all_subsets(labels: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Points that runs of positives get wrong for some superset of the seen points.

    One row per set of points. A point is in the union iff its nearest member on either side (itself
    included) is positive: then both lie in one run.
    """
    k = len(labels)
    member = ((np.arange(2**k)[:, None] >> np.arange(k)) & 1).astype(bool)
    member = member[member[:, np.unique(seen)].all(axis=1)]

    def nearest(columns: range) -> np.ndarray:
        label, found = np.zeros(len(member), bool), np.zeros(member.shape, bool)
        for j in columns:
            label = np.where(member[:, j], labels[j] == 1, label)
            found[:, j] = label
        return found

    inside = nearest(range(k)) & nearest(range(k - 1, -1, -1))
    wrong: np.ndarray = (inside != (labels == 1)).any(axis=0)
    return wrong


@pytest.mark.claim("10.10")
def test_union_rate_is_between_error_and_the_proof_bound() -> None:
    rng = np.random.default_rng(6)
    test = np.linspace(0, 1, 2001)
    measured = {(3, 50): (0.118, 0.235), (3, 200): (0.0297, 0.0595), (10, 200): (0.0994, 0.198)}
    for (k, m), reference in measured.items():
        rates = []
        ends = np.arange(1, 2 * k + 1) / (2 * k + 1)
        target = IntervalTarget(ends, closed=False)
        for _ in range(20):
            X = rng.random(m)
            S = LabelledSet(X, target(X))
            wrong = UnionOfIntervals().fit(S.X, S.y).predict(test) != target(test)
            region = UnionOfIntervals.attackable_region(target, S, test)
            plus, minus = _auxiliary_errors(ends, X, test)
            assert wrong.mean() <= region.mean() <= plus.mean() + minus.mean()
            assert (wrong <= region).all()
            rates.append((region.mean(), plus.mean() + minus.mean()))
        spread = np.std(rates, axis=0, ddof=1) / np.sqrt(len(rates))
        assert (np.abs(np.mean(rates, axis=0) - reference) <= 4 * spread + 5e-4).all()


def _auxiliary_errors(ends, X, test):
    """Errors of the hulls of the points of each interval, and of each gap."""
    own, at = np.searchsorted(ends, X), np.searchsorted(ends, test)
    hull = np.zeros(len(test), dtype=bool)
    for segment in range(len(ends) + 1):
        points = X[own == segment]
        if len(points):
            hull |= (at == segment) & (test >= points.min()) & (test <= points.max())
    positive = at % 2 == 1
    return positive & ~hull, ~positive & ~hull


def test_unions_refuse_contradictions_and_ignore_row_order() -> None:
    with pytest.raises(NotRealizableError, match="rows 0 and 2"):
        UnionOfIntervals().fit([0.5, 0.1, 0.5], [0, 1, 1])
    rng = np.random.default_rng(7)
    X, y = rng.random(30), rng.integers(2, size=30)
    order = rng.permutation(30)
    first = UnionOfIntervals().fit(X, y).ends_
    assert np.array_equal(first, UnionOfIntervals().fit(X[order], y[order]).ends_)
