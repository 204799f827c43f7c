"""Version spaces against snapshots stored round by round."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplay.core.finite_class import FiniteClass
from counterplay.core.version_space import VersionSpace
from counterplay.errors import InvalidInputError, NotRealizableError, ProtocolError


@given(st.integers(1, 12), st.lists(st.integers(0, 2**12 - 1), max_size=12), st.data())
def test_elimination_times_rebuild_every_round(
    n: int, masks: list[int], data: st.DataObject
) -> None:
    target = data.draw(st.integers(0, n - 1))
    vs = VersionSpace(n)
    snapshots = [set(range(n))]
    for bits in masks:
        keep = np.array([bool(bits >> i & 1) or i == target for i in range(n)])
        if bits % 3 == 0:
            vs.tick()
            snapshots.append(snapshots[-1])
        elif bits % 3 == 1:
            vs.observe_mask(keep)
            snapshots.append(snapshots[-1] & set(np.flatnonzero(keep)))
        else:
            vs.observe_alive(keep[vs.alive])
            snapshots.append(snapshots[-1] & set(np.flatnonzero(keep)))
    T = len(masks)
    assert vs.round == T
    assert set(vs.alive) == snapshots[-1] == set(np.flatnonzero(vs.mask))
    for t, members in enumerate(snapshots):
        assert set(vs.at_round(t)) == members
    for tau in range(1, T + 1):
        assert set(np.flatnonzero(vs.elim_time > tau)) == snapshots[tau - 1]
        first = [
            min([s for s in range(1, T + 1) if h not in snapshots[s - 1]], default=T + 1)
            for h in range(n)
        ]
        assert vs.elim_time.tolist() == first
    epochs = vs.epochs()
    rebuilt = [set(members) for rounds, members in epochs for _ in range(rounds)]
    assert rebuilt == snapshots[:T]
    assert vs.key() == sum(1 << int(h) for h in vs.alive)


def test_observing_labels_keeps_consistent_members() -> None:
    rng = np.random.default_rng(0)
    cls = FiniteClass.from_matrix(rng.integers(2, size=(200, 12))).deduplicated().unique
    vs = VersionSpace(cls)
    target = cls.labels[17]
    for count, x in enumerate(rng.permutation(12)[:6], start=1):
        vs.observe(int(x), int(target[x]))
        seen = [entry.point for entry in vs.history]
        np.testing.assert_array_equal(vs.mask, cls.consistent(seen, target[seen]))
        assert len(seen) == count
    known, labels = vs.determined()
    alive = cls.labels[vs.alive]
    np.testing.assert_array_equal(known, (alive == alive[0]).all(0))
    np.testing.assert_array_equal(labels[known], target[known])
    assert 17 in vs
    assert len(vs) == vs.mask.sum()
    other = VersionSpace(cls)
    other.observe_many(seen, target[seen])
    assert other.key() == vs.key()


def test_empty_raises_and_changes_nothing() -> None:
    vs = VersionSpace(FiniteClass.singletons(3))
    vs.observe(0, 0)
    vs.observe(1, 0)
    before = vs.copy()
    with pytest.raises(NotRealizableError, match="label 0 of point 2 in round 3") as info:
        vs.observe(2, 0)
    assert info.value.round == 3
    assert info.value.item == 2
    assert (vs.round, vs.key(), vs.history) == (before.round, before.key(), before.history)
    with pytest.raises(NotRealizableError, match="observation"):
        vs.observe_mask([False] * 3)


def test_copies_are_independent() -> None:
    vs = VersionSpace(FiniteClass.thresholds(range(5)))
    vs.observe(2, 1)
    left, right = vs.updated(0, 0), vs.updated(0, 1)
    assert set(left.alive) | set(right.alive) == set(vs.alive)
    assert not set(left.alive) & set(right.alive)
    assert len(vs.history) == 1
    assert len(left.history) == 2
    small = vs.restrict([0, 1])
    assert small.alive.tolist() == [0, 1]
    with pytest.raises(ValueError, match="read-only"):
        vs.alive[0] = 3


@given(st.lists(st.integers(1, 10**25), min_size=2, max_size=6), st.data())
def test_exact_masses(weights: list[int], data: st.DataObject) -> None:
    n = len(weights)
    rows = data.draw(
        st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=n, max_size=n)
    )
    cls = FiniteClass.from_matrix(rows, weights=weights, exact=True)
    vs = VersionSpace(cls)
    keep = data.draw(st.sets(st.integers(0, n - 1), min_size=1))
    vs = vs.restrict(sorted(keep))
    zero, one = vs.side_masses()
    for x in range(3):
        assert one[x] == sum(weights[h] for h in keep if rows[h][x])
        assert zero[x] == sum(weights[h] for h in keep if not rows[h][x])
    assert vs.mass() == sum(weights[h] for h in keep)
    assert vs.mass([0]) == (weights[0] if 0 in keep else 0)
    assert vs.posterior().tolist() == [
        Fraction(weights[h], sum(weights[h] for h in keep)) for h in sorted(keep)
    ]


def test_float_masses_do_not_cancel() -> None:
    weights = [0.25, 3.0**-40, 2 * 3.0**-40]
    cls = FiniteClass.from_matrix([[1, 1], [0, 1], [1, 0]], weights=weights)
    zero, one = VersionSpace(cls).side_masses()
    assert zero.tolist() == [3.0**-40, 2 * 3.0**-40]
    assert one[0] == 0.25 + 2 * 3.0**-40
    assert VersionSpace(4).entropy() == 2.0
    assert VersionSpace(2, weights=[1, 0]).entropy() == 0.0
    assert VersionSpace(5).mass() == 5


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: VersionSpace(0), InvalidInputError, "at least 1"),
        (lambda: VersionSpace(2, weights=[1]), InvalidInputError, "1 weights for 2"),
        (lambda: VersionSpace(2).observe(0, 1), ProtocolError, "FiniteClass"),
        (lambda: VersionSpace(FiniteClass.singletons(2)).observe(2, 1), InvalidInputError, "point"),
        (lambda: VersionSpace(FiniteClass.singletons(2)).observe(0, 2), InvalidInputError, "label"),
        (lambda: VersionSpace(2).observe_mask([True]), InvalidInputError, "length 2"),
        (lambda: VersionSpace(2).observe_alive([True]), InvalidInputError, "length 2"),
        (lambda: VersionSpace(2).at_round(1), InvalidInputError, "at most 0"),
        (lambda: VersionSpace(2, [1, 0]).restrict([1]).posterior(), ProtocolError, "weight 0"),
    ],
)
def test_bad_input(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
