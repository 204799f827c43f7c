"""Orbit dimensions against brute force on tiny classes, and known values of the constructions."""

from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from brute_dimensions import brute_vc
from counterplay.core.dimensions import vc_dimension
from counterplay.core.finite_class import FiniteClass
from counterplay.errors import InvalidInputError
from counterplay.invariance import lab

matrices = hnp.arrays(bool, st.tuples(st.integers(1, 9), st.integers(0, 5)))


@settings(deadline=None)
@given(matrices, st.data())
def test_orbit_dimensions(rows: np.ndarray, data: st.DataObject) -> None:
    p = rows.shape[1]
    orbits = np.array(data.draw(st.lists(st.integers(5, 7), min_size=p, max_size=p)), dtype=int)
    cls = FiniteClass.from_matrix(rows)
    labels = lab.orbit_labels(cls, orbits)
    for k, orbit in enumerate(np.unique(orbits)):
        part = rows[:, orbits == orbit]
        expected = np.where(part.all(1), 1, np.where(part.any(1), 2, 0))
        np.testing.assert_array_equal(labels[:, k], expected)
    ao, o = lab.group_vcao(cls, orbits), lab.group_vco(cls, orbits)
    assert ao.value == brute_vc(
        rows.astype(np.uint8), lambda s: len(set(orbits[list(s)])) == len(s)
    )
    assert o.value == brute_vc(labels)
    assert ao.verify_orbits(cls, orbits)
    assert o.verify_orbits(cls, orbits)
    assert o.value <= ao.value <= vc_dimension(cls).value
    single = lab.group_vcao(cls, np.arange(p)).value, lab.group_vco(cls, np.arange(p)).value
    assert single == (vc_dimension(cls).value,) * 2
    assert "VCao" in ao.summary()
    assert "VCo" in o.summary()


def sign_flip(labels: list[list[int]]) -> tuple[FiniteClass, list[int]]:
    half = len(labels[0]) // 2
    return FiniteClass.from_matrix(labels), [*range(half), *range(half)]


@pytest.mark.parametrize("d", [1, 2, 3])
def test_orbit_dimensions_of_the_constructions(d: int) -> None:
    subsets = [
        [int(i in chosen) for i in range(2 * d)] + [0] * (2 * d)
        for chosen in combinations(range(2 * d), d)
    ]
    cls, orbits = sign_flip(subsets)  # Theorem 11.2
    assert len(cls) == comb(2 * d, d)
    dims = (
        vc_dimension(cls).value,
        lab.group_vcao(cls, orbits).value,
        lab.group_vco(cls, orbits).value,
    )
    assert dims == (d, d, 0)
    cubes = np.array(list(product([0, 1], repeat=d)))
    points = [(tuple(b), i) for b in cubes for i in range(d)]
    rows = [[int(h == b) * h[i] for b, i in points] for h in map(tuple, cubes)]
    blowup = FiniteClass.from_matrix(rows)
    which = [i for _, i in points]
    assert vc_dimension(blowup).value == 1
    assert lab.group_vcao(blowup, which).value == 1
    assert lab.group_vco(blowup, which).value == 0


@pytest.mark.parametrize(("n", "k"), [(2, 2), (4, 1), (4, 2), (2, 3)])
def test_rotated_images(n: int, k: int) -> None:
    cls = FiniteClass.all_labelings(n * k)
    orbits = np.repeat(np.arange(k), n)
    assert vc_dimension(cls).value == n * k
    assert lab.group_vcao(cls, orbits).value == lab.group_vco(cls, orbits).value == k
    images = cls.labels.reshape(-1, k, n)
    tied = cls.select((images[:, :, 0] != images[:, :, n // 2]).all(1))
    assert vc_dimension(tied).value == (n - 1) * k
    assert lab.group_vcao(tied, orbits).value == k
    assert lab.group_vco(tied, orbits).value == 0


def test_halfspaces_under_rotation_and_reflection() -> None:
    rng = np.random.default_rng(3)
    base = rng.normal(size=(5, 2))
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    rotated = np.vstack([base @ np.linalg.matrix_power(turn, r).T for r in range(4)])
    orbits = np.tile(np.arange(5), 4)
    cls = FiniteClass.halfspaces_2d(rotated)
    dims = (
        vc_dimension(cls).value,
        lab.group_vcao(cls, orbits).value,
        lab.group_vco(cls, orbits).value,
    )
    assert dims == (3, 3, 1)
    base = rng.normal(size=(14, 2))
    mirrored = FiniteClass.halfspaces_2d(np.vstack([base, base * [-1, 1]]))
    pairs = np.tile(np.arange(14), 2)
    assert lab.group_vcao(mirrored, pairs).value == 3
    assert lab.group_vco(mirrored, pairs).value == 2


def test_one_orbit_per_point_is_needed() -> None:
    with pytest.raises(InvalidInputError, match="length 5"):
        lab.group_vcao(FiniteClass.thresholds(range(5)), [0])
