"""Permutations of coordinates, sign flips, matrices and sets, against the group laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplay.invariance import (
    groups,
)
from counterplay.invariance.lab import (
    CoordinatePermutationGroup,
    InfiniteOrbitError,
    NotAGroupError,
    SignFlipGroup,
)


@pytest.mark.parametrize("order", [24, 784])
def test_permutations_are_checked_whatever_their_number(order: int) -> None:
    """A subset of a group that is not closed is found, and the missing product is missing."""
    if order == 24:
        perms = groups.column_permutations(4).perms
    else:
        perms = groups.image_shifts((28, 28)).perms
    assert CoordinatePermutationGroup(perms).order == order
    with pytest.raises(NotAGroupError) as caught:
        CoordinatePermutationGroup(perms[:-1])
    a, b = caught.value.pair
    product = perms[a][perms[b]]
    assert not (perms[:-1] == product).all(axis=1).any()


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


@pytest.mark.parametrize("n", [3, 8])
@pytest.mark.parametrize("scale", [1e-10, 1.0, 1e5, 1e7, 1e12])
def test_orbit_keys_of_rotations_survive_any_scale(n: int, scale: float) -> None:
    rng = np.random.default_rng(n)
    round_numbers = [[1, 0], [2, 1], [0.5, 0.5], [0, 0], [3, 4], [0.1, 0.2], [10, 10]]
    X = np.vstack([rng.normal(size=(2000, 2)), round_numbers]) * scale
    group, keys = groups.plane_rotations(n), None
    for turn in range(n):
        angle = 2 * np.pi * turn / n
        turned = X @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        keys = group.orbit_key(turned) if keys is None else keys
        assert group.orbit_key(turned) == keys
    assert len(set(keys)) == len(X)  # and no two orbits are taken for one
