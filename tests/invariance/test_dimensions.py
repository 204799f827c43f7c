"""Dimensions against brute force and against the values theory gives for the constructions."""

from __future__ import annotations

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
from counterplay.invariance import instances
from counterplay.invariance.lab import (
    FiniteProblem,
    OneInclusionInvariant,
    OneInclusionRelaxed,
    orbit_labels,
    vcao,
    vcdim,
    vco,
    vco_eta,
)
from invariance.problems import brute_vcao, brute_vco, random_problem


@pytest.mark.claim("11.01")
def test_order_of_the_dimensions_on_random_problems() -> None:
    rng = np.random.default_rng(0)
    for _ in range(220):
        problem = random_problem(rng)
        found = [vco(problem), vcao(problem), vcdim(problem)]
        assert [f.value for f in found] == [
            brute_vco(problem), brute_vcao(problem), brute_vc(problem.H)
        ]  # fmt: skip
        assert found[0].value <= found[1].value <= found[2].value
        assert found[0].verify_orbits(problem.finite_class, problem.orbit)
        assert found[1].verify_orbits(problem.finite_class, problem.orbit)
        assert found[2].verify(problem.finite_class)


@pytest.mark.claim("11.02")
def test_trivial_group_and_single_orbit() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        rows = rng.integers(0, 2, size=(rng.integers(1, 12), 5))
        singles = FiniteProblem(rows, np.arange(5))
        assert vco(singles).value == vcao(singles).value == vcdim(singles).value
        assert vcao(FiniteProblem(rows, np.zeros(5))).value <= 1


@pytest.mark.claim("11.19")
def test_vco_eta_is_not_monotone() -> None:
    case = instances.nonmonotone_eta(3, 0.01)
    zero = [vco_eta(case.problem, None, case.distribution, m, 0.0) for m in range(4)]
    one = [vco_eta(case.problem, None, case.distribution, m, 1.0) for m in range(3)]
    # Given H^0, only b points occur: the mean number of distinct ones among m + 1 of k = 3.
    assert zero == pytest.approx([3 * (1 - (2 / 3) ** (m + 1)) for m in range(4)], abs=1e-9)
    assert one == pytest.approx([0.505, 0.265, 0.1365], abs=5e-4)
    assert max(one) < zero[0]
    sampled = vco_eta(case.problem, None, case.distribution, 1, 1.0, n_samples=4000, random_state=0)
    assert sampled.low - 0.02 <= one[1] <= sampled.high + 0.02


@pytest.mark.claim("11.21")
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_relabelling_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    columns, rows = rng.permutation(problem.n_points), rng.permutation(len(problem.H))
    names = rng.permutation(problem.n_orbits)
    shuffled = FiniteProblem(problem.H[rows][:, columns], names[problem.orbit[columns]])
    for dimension in (vcdim, vcao, vco):
        assert dimension(problem).value == dimension(shuffled).value
    target = problem.H[0]
    sample = rng.integers(problem.n_points, size=3)
    keep, known = [], {}
    for x in sample:  # natural labels of one orbit agree
        if known.setdefault(problem.orbit[x], target[x]) == target[x]:
            keep.append(x)
    place, pool = np.argsort(columns), np.arange(problem.n_points)
    renamed = FiniteProblem(problem.H[rows][:, columns], problem.orbit[columns])
    for kind in (OneInclusionInvariant, OneInclusionRelaxed):
        first = kind(problem).fit(keep, target[keep])
        certified = first.certify(pool)
        # Rows permuted, or points renamed within their orbits: the same predictions.
        second = kind(FiniteProblem(problem.H[rows], problem.orbit)).fit(keep, target[keep])
        np.testing.assert_array_equal(certified.labels, second.predict(pool))
        third = kind(renamed).fit(place[keep], target[keep])
        np.testing.assert_array_equal(certified.labels, third.predict(place))
        # Orbits renamed: another order of the columns may orient an edge the other way, so
        # forced predictions, kinds and guarantees stay.
        other = kind(shuffled).fit(place[keep], target[keep]).certify(place)
        assert certified.kinds == other.kinds
        np.testing.assert_allclose(certified.error_bounds, other.error_bounds)
        forced = np.array(certified.kinds) == "forced"
        np.testing.assert_array_equal(certified.labels[forced], other.labels[forced])


@pytest.mark.claim("11.27")
def test_exact_dimensions_of_a_large_class() -> None:
    """2^12 parity functions on 64 points: the rank decides, which linear algebra knows."""
    rng = np.random.default_rng(0)
    points = rng.integers(1, 2**12, size=64)
    bits = (points[:, None] >> np.arange(12)) & 1
    codes = (np.arange(2**12)[:, None] >> np.arange(12)) & 1
    problem = FiniteProblem((codes @ bits.T) % 2, np.repeat(np.arange(16), 4))
    found = [vco(problem), vcao(problem), vcdim(problem)]
    basis: list[int] = []
    for value in points.tolist():  # rank over GF(2)
        for other in basis:
            value = min(value, value ^ other)
        if value:
            basis.append(value)
    assert found[2].value == len(basis)
    assert found[0].value <= found[1].value <= found[2].value
    assert found[1].verify_orbits(problem.finite_class, problem.orbit)
    assert found[2].verify(problem.finite_class)


@pytest.mark.claim("11.27")
def test_random_labels_are_decided() -> None:
    """4,096 random hypotheses: every set of 8 points is shattered, so counting has to decide."""
    rows = np.random.default_rng(0).integers(0, 2, size=(2**12, 24))
    problem = FiniteProblem(rows, np.arange(24) // 2)
    whole, apart = vcdim(problem), vcao(problem)
    assert whole.exact
    assert whole.value in {9, 10}
    assert whole.verify(problem.finite_class)
    assert apart.exact
    assert apart.value <= whole.value
    assert apart.verify_orbits(problem.finite_class, problem.orbit)


@pytest.mark.slow
@pytest.mark.claim("11.27")
def test_random_labels_on_64_points() -> None:
    rows = np.random.default_rng(0).integers(0, 2, size=(2**12, 64))
    problem = FiniteProblem(rows, np.arange(64) // 4)
    whole, apart = vcdim(problem), vcao(problem)
    assert whole.exact
    assert apart.exact
    # A set of 10 is shattered with probability about 6e-9, and there are 1.5e11 sets; a set of 11
    # with probability below e^-277.
    assert whole.value == 10
    assert whole.verify(problem.finite_class)
    assert apart.value in {9, 10}
    assert apart.verify_orbits(problem.finite_class, problem.orbit)


matrices = hnp.arrays(bool, st.tuples(st.integers(1, 9), st.integers(0, 5)))


@settings(deadline=None)
@given(matrices, st.data())
def test_orbit_dimensions(rows: np.ndarray, data: st.DataObject) -> None:
    p = rows.shape[1]
    orbits = np.array(data.draw(st.lists(st.integers(5, 7), min_size=p, max_size=p)), dtype=int)
    cls = FiniteClass.from_matrix(rows)
    labels = orbit_labels(cls, orbits)
    for k, orbit in enumerate(np.unique(orbits)):
        part = rows[:, orbits == orbit]
        expected = np.where(part.all(1), 1, np.where(part.any(1), 2, 0))
        np.testing.assert_array_equal(labels[:, k], expected)
    ao, o = vcao(cls, orbits), vco(cls, orbits)
    assert ao.value == brute_vc(
        rows.astype(np.uint8), lambda s: len(set(orbits[list(s)])) == len(s)
    )
    assert o.value == brute_vc(labels)
    assert ao.verify_orbits(cls, orbits)
    assert o.verify_orbits(cls, orbits)
    assert o.value <= ao.value <= vc_dimension(cls).value
    single = vcao(cls, np.arange(p)).value, vco(cls, np.arange(p)).value
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
        vcao(cls, orbits).value,
        vco(cls, orbits).value,
    )
    assert dims == (d, d, 0)
    cubes = np.array(list(product([0, 1], repeat=d)))
    points = [(tuple(b), i) for b in cubes for i in range(d)]
    rows = [[int(h == b) * h[i] for b, i in points] for h in map(tuple, cubes)]
    blowup = FiniteClass.from_matrix(rows)
    which = [i for _, i in points]
    assert vc_dimension(blowup).value == 1
    assert vcao(blowup, which).value == 1
    assert vco(blowup, which).value == 0


@pytest.mark.parametrize(("n", "k"), [(2, 2), (4, 1), (4, 2), (2, 3)])
def test_rotated_images(n: int, k: int) -> None:
    cls = FiniteClass.all_labelings(n * k)
    orbits = np.repeat(np.arange(k), n)
    assert vc_dimension(cls).value == n * k
    assert vcao(cls, orbits).value == vco(cls, orbits).value == k
    images = cls.labels.reshape(-1, k, n)
    tied = cls.select((images[:, :, 0] != images[:, :, n // 2]).all(1))
    assert vc_dimension(tied).value == (n - 1) * k
    assert vcao(tied, orbits).value == k
    assert vco(tied, orbits).value == 0


def test_halfspaces_under_rotation_and_reflection() -> None:
    rng = np.random.default_rng(3)
    base = rng.normal(size=(5, 2))
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    rotated = np.vstack([base @ np.linalg.matrix_power(turn, r).T for r in range(4)])
    orbits = np.tile(np.arange(5), 4)
    cls = FiniteClass.halfspaces_2d(rotated)
    dims = (
        vc_dimension(cls).value,
        vcao(cls, orbits).value,
        vco(cls, orbits).value,
    )
    assert dims == (3, 3, 1)
    base = rng.normal(size=(14, 2))
    mirrored = FiniteClass.halfspaces_2d(np.vstack([base, base * [-1, 1]]))
    pairs = np.tile(np.arange(14), 2)
    assert vcao(mirrored, pairs).value == 3
    assert vco(mirrored, pairs).value == 2


def test_one_orbit_per_point_is_needed() -> None:
    with pytest.raises(InvalidInputError, match="length 5"):
        vcao(FiniteClass.thresholds(range(5)), [0])
