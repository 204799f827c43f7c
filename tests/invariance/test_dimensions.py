"""Dimensions against brute force and against the values theory gives for the constructions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplay.invariance import instances
from counterplay.invariance.lab import (
    FiniteProblem,
    OneInclusionInvariant,
    OneInclusionRelaxed,
    vcao,
    vcdim,
    vco,
    vco_eta,
)
from invariance.problems import brute_vc, brute_vcao, brute_vco, random_problem


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
