"""Groups: how they act, their keys, and what is refused."""

from __future__ import annotations

import math
import time
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplay.errors import InvalidInputError
from counterplay.invariance import (
    AbstractOrbits,
    ConflictingOrbitLabelsError,
    CoordinatePermutationGroup,
    IdentityMissingError,
    InfiniteOrbitError,
    MapSet,
    MatrixGroup,
    NotAGroupError,
    ShapeError,
    SignFlipGroup,
    check_sample_invariant,
    groups,
)

FINITE = {
    "rotations": groups.image_rotations((3, 3)),
    "half turns": groups.image_rotations((2, 3), angles=2),
    "flips": groups.image_flips((2, 3)),
    "d4": groups.d4((3, 3)),
    "d4 with channels": groups.d4((2, 2, 3)),
    "shifts": groups.image_shifts((2, 3)),
    "colours": groups.colour_permutations((1, 2, 3)),
    "reversal": groups.sequence_reversal(5),
    "cyclic": groups.cyclic_shifts(6, step=2),
    "columns": groups.column_permutations(4, blocks=[[0, 1], [2, 3]]),
    "signs": groups.sign_flips(3, columns=[[0], [1, 2]]),
    "plane": groups.plane_rotations(4),
    "callables": groups.from_callables([lambda X: X, lambda X: X[:, ::-1]], n_features=3),
}


@pytest.mark.parametrize("name", FINITE)
def test_groups_keep_the_group_laws_and_their_keys(name: str) -> None:
    group = FINITE[name]
    X = np.random.default_rng(0).integers(-2, 3, size=(30, group.n_features)).astype(float)
    report = groups.check_validity(group, X)
    assert report.is_group
    group.validate(X)
    images = group.apply(X)
    assert images.shape == (group.order, *X.shape)
    keys = group.orbit_key(X)
    for g in range(int(group.order)):
        assert group.orbit_key(images[g]) == keys
        np.testing.assert_array_equal(group.act(g, X[0]), images[g, 0])
    # Different orbits have different keys: compare with the set of images of each point.
    orbits = [frozenset(map(bytes, np.ascontiguousarray(images[:, i] + 0.0))) for i in range(30)]
    for i in range(30):
        for j in range(30):
            assert (keys[i] == keys[j]) == (orbits[i] == orbits[j])


def test_rotations_are_numpy_rotations() -> None:
    image = np.arange(16.0).reshape(4, 4)
    group = groups.image_rotations((4, 4))
    for k in range(4):
        np.testing.assert_array_equal(
            group.act(k, image.reshape(-1)).reshape(4, 4), np.rot90(image, k)
        )


@pytest.mark.parametrize("seed", range(20))
def test_graph_keys_decide_isomorphism(seed: int) -> None:
    import networkx as nx

    rng = np.random.default_rng(seed)
    group = groups.graph_relabelling(6)
    graphs = []
    for _ in range(12):
        upper = np.triu(rng.integers(0, 2, size=(6, 6)), 1)
        graphs.append((upper + upper.T).reshape(-1))
    X = np.array(graphs, dtype=float)
    keys = group.orbit_key(X)
    assert group.orbit_key(group.sample(X, 1, seed)[0]) == keys
    nets = [nx.from_numpy_array(g.reshape(6, 6)) for g in X]
    for i in range(12):
        for j in range(i):
            assert (keys[i] == keys[j]) == nx.is_isomorphic(nets[i], nets[j])


def test_sets_are_sorted_without_listing_permutations() -> None:
    group = groups.set_permutations(30, 2)
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(5, 60)).astype(float)
    assert group.orbit_key(group.sample(X, 1, 0)[0]) == group.orbit_key(X)
    assert math.isinf(group.order)
    with pytest.raises(InfiniteOrbitError):
        group.apply(X)


def test_negative_zero_is_zero() -> None:
    group = groups.sign_flips(2)
    assert group.orbit_key([[0.0, 1.0]]) == group.orbit_key([[-0.0, -1.0]])


def test_what_is_refused() -> None:
    with pytest.raises(NotAGroupError, match="transformations 1 and 1") as caught:
        CoordinatePermutationGroup([[0, 1, 2], [1, 2, 0]])
    assert caught.value.pair == (1, 1)
    assert CoordinatePermutationGroup.closure([[1, 2, 0]]).order == 3
    with pytest.raises(IdentityMissingError):
        CoordinatePermutationGroup([[1, 0]])
    with pytest.raises(IdentityMissingError):
        MapSet([[1], [0]])
    with pytest.raises(NotAGroupError):
        MatrixGroup([np.eye(2), [[0, -1], [1, 0]]])
    with pytest.raises(ShapeError, match="NaN"):
        groups.d4((3, 3)).orbit_key(np.full((1, 9), np.nan))
    with pytest.raises(ShapeError):
        groups.d4((3, 3)).orbit_key(np.zeros((2, 8)))
    with pytest.raises(InvalidInputError):
        AbstractOrbits([0, 0]).orbit_key([2])
    with pytest.raises(ShapeError):
        groups.image_rotations((2, 3))
    with pytest.raises(InvalidInputError):
        groups.image_rotations((3, 3), angles=8)
    with pytest.raises(InfiniteOrbitError):
        groups.column_permutations(12)


@pytest.mark.claim("11.14")
def test_conflicting_labels_are_found() -> None:
    X = np.array([[1.0, 2.0], [5.0, 6.0], [2.0, 1.0]])
    with pytest.raises(ConflictingOrbitLabelsError) as caught:
        check_sample_invariant(groups.sequence_reversal(2), X, [0, 0, 1])
    assert caught.value.indices == (0, 2)


@pytest.mark.claim("11.21")
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_generators_and_closure_give_the_same_orbits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gens = np.array([rng.permutation(5) for _ in range(2)])
    group = CoordinatePermutationGroup.closure(gens)
    again = CoordinatePermutationGroup.closure(group.perms)
    assert group == again
    X = rng.integers(0, 3, size=(20, 5)).astype(float)
    assert group.orbit_key(X) == again.orbit_key(X)


def test_sign_flips_of_one_coordinate_are_absolute_values() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    group = SignFlipGroup([[1, 0, 0]])
    np.testing.assert_allclose(np.abs(group.canonical(X)), np.abs(X))
    assert len(set(group.orbit_key(np.vstack([X, X * [-1, 1, 1]])))) == 50


@pytest.mark.claim("11.26")
def test_lookup_time_does_not_grow_with_the_table() -> None:
    """Ten times more training orbits must not make a look-up several times slower."""
    from sklearn.dummy import DummyClassifier

    from counterplay.invariance import ErmInvClassifier

    rng = np.random.default_rng(0)
    group = groups.d4((8, 8))

    def fastest(call) -> float:
        times = []
        for _ in range(3):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return min(times)

    X = rng.integers(0, 17, size=(20_000, 64)).astype(float)
    y = rng.integers(0, 2, size=20_000)
    test = rng.integers(0, 17, size=(5_000, 64)).astype(float)
    small = ErmInvClassifier(DummyClassifier(), group).fit(X[:2_000], y[:2_000])
    large = ErmInvClassifier(DummyClassifier(), group).fit(X, y)
    assert fastest(partial(large.lookup, test)) < 4 * fastest(partial(small.lookup, test))
