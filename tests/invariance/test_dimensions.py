"""Dimensions against brute force and against the values theory gives for the constructions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplay.core.dimensions import vc_dimension
from counterplay.invariance import bounds, instances
from counterplay.invariance.lab import (
    BalancedSubsets,
    ExplicitClass,
    FiniteProblem,
    OneInclusionInvariant,
    OneInclusionRelaxed,
    classify_regime,
    dim,
    mu,
    mu_of,
    vcao,
    vcdim,
    vco,
    vco_eta,
)
from invariance.problems import brute_vc, brute_vcao, brute_vco, naive_mu, random_problem


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


CONSTRUCTIONS = [
    *[instances.example_vco0(d) for d in (1, 2, 3)],
    *[instances.da_lower_bound(d, 1 / 64, random_state=0) for d in (1, 2, 3, 4)],
    *[instances.rotated_images(n, k, c) for n, k in ((2, 2), (4, 1), (4, 2), (2, 3))
      for c in (False, True)],
    *[instances.indicator_blowup(d) for d in (1, 2, 3)],
    instances.halfspaces_c4(5),
    instances.halfspaces_c4(14, reflection=True),
    *[instances.background_birds(K, random_state=0) for K in (1, 2, 3, 4)],
]  # fmt: skip


@pytest.mark.claim("11.01")
@pytest.mark.parametrize("case", CONSTRUCTIONS, ids=lambda case: case.name)
def test_values_of_the_constructions(case: instances.Instance) -> None:
    problem = case.problem
    measured = {
        "VCdim": lambda: vcdim(problem).value,
        "VCao": lambda: vcao(problem).value,
        "VCo": lambda: vco(problem).value,
        "VCdim(iota)": lambda: vc_dimension(problem.iota.astype(int)).value,
        "dim": lambda: dim(problem).value,
        "mu": lambda: round(mu(problem).value, 9),
    }
    for name, value in case.facts:
        assert measured[name]() == value, name


@pytest.mark.claim("11.02")
def test_trivial_group_and_single_orbit() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        rows = rng.integers(0, 2, size=(rng.integers(1, 12), 5))
        singles = FiniteProblem(rows, np.arange(5))
        assert vco(singles).value == vcao(singles).value == vcdim(singles).value
        assert vcao(FiniteProblem(rows, np.zeros(5))).value <= 1


def test_supplement_keeps_vco_and_raises_vcao() -> None:
    rng = np.random.default_rng(2)
    for _ in range(60):
        problem = random_problem(rng, max_orbits=3)
        larger = instances.supplement(problem)
        big = int((np.bincount(problem.orbit) >= 2).sum())
        assert vco(larger).value == vco(problem).value
        assert vcao(larger).value >= big


def test_da_helps_has_three_orbits() -> None:
    for seed in range(5):
        case = instances.da_helps(6, 1 / 64, random_state=seed)
        rows = np.array(list(np.ndindex(*[2] * 6)))
        problem = FiniteProblem(rows, case.group.orbit_id)
        assert vcao(problem).value == vco(problem).value == case.group.n_orbits
        assert vcdim(problem).value == 6
    wide = instances.da_helps(5, 1 / 64, random_state=0, n_extra=4)
    rows = np.array(list(np.ndindex(*[2] * 9)))
    assert vcao(FiniteProblem(rows, wide.group.orbit_id)).value == wide.group.n_orbits <= 5


def test_settings_of_the_first_example() -> None:
    found = [classify_regime(c.problem, None, c.distribution) for c in instances.example_regimes()]
    assert [f.name for f in found] == ["invariant", "relaxed", "agnostic"]
    assert found[1].eta == 1.0
    assert found[2].best_error == 1.0
    for eta in (0.05, 0.2, 0.4):
        case = instances.eta_family(3, eta, random_state=0)
        setting = classify_regime(case.problem, None, case.distribution)
        assert setting.name == "relaxed"
        assert setting.eta == pytest.approx(eta)


@pytest.mark.claim("11.09")
def test_compact_program_equals_the_naive_one() -> None:
    rng = np.random.default_rng(3)
    for _ in range(150):
        problem = random_problem(rng, max_rows=6, max_orbits=3, max_size=2)
        times = rng.integers(1, 3, size=problem.n_orbits)
        phi = [o for o, t in enumerate(times) for _ in range(t)]
        result = mu_of(problem, None, range(problem.n_orbits), times)
        assert result.value == pytest.approx(naive_mu(problem, phi), abs=1e-7)
        assert result.value <= (times == 1).sum() / 2 + 1e-9
        assert sum(p for _, _, p in result.worst_case) <= 1 + 1e-7


@pytest.mark.claim("11.09")
def test_mu_is_at_least_half_of_dim() -> None:
    rng = np.random.default_rng(4)
    for _ in range(40):
        problem = random_problem(rng, max_rows=6, max_orbits=3, max_size=2)
        cube = dim(problem)
        assert cube.verify(problem)
        assert mu(problem).value >= cube.value / 2 - 1e-9


@pytest.mark.claim("11.09")
def test_mu_of_birds_and_subsets() -> None:
    for K in (1, 2, 3, 4):
        problem = instances.background_birds(K, random_state=0).problem
        for t in range(1, 7):
            expected = t / 2 if t <= K else (K - 1) / 2
            assert mu(problem, t=t).value == pytest.approx(expected, abs=1e-9)
        assert dim(problem).value == K
    subsets = instances.example_vco0(2).problem
    values = [mu(subsets, t=t).value for t in range(1, 6)]
    assert values == pytest.approx([0.5, 1.0, 1.2, 1.2, 1.2], abs=1e-7)
    assert dim(subsets).value == 2


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


@pytest.mark.claim("11.15")
def test_eta_classes_are_nested_between_invariant_and_relaxed() -> None:
    from counterplay.invariance.classes import budget

    rng = np.random.default_rng(5)
    for _ in range(80):
        problem = random_problem(rng)
        points = rng.choice(
            problem.n_points, size=rng.integers(1, problem.n_points + 1), replace=False
        )
        mult = rng.integers(1, 3, size=points.size)
        V, c = ExplicitClass(problem).labelings(points, mult, problem.group)
        orbits = np.unique(problem.orbit[points])
        relaxed, invariant = set(), set()
        for row in problem.H:
            parts = [set(row[points[problem.orbit[points] == o]].tolist()) for o in orbits]
            if all(len(part) == 1 for part in parts):
                labels = tuple(part.pop() for part in parts)
                relaxed.add(labels)
                if all(len(set(row[problem.orbit == o].tolist())) == 1 for o in orbits):
                    invariant.add(labels)
        assert {tuple(v) for v in V.tolist()} == relaxed
        assert {tuple(v) for v in V[c <= 0].tolist()} == invariant
        size = int(mult.sum())
        assert (c <= budget(1.0, size)).all()  # H^1 is H'
        for eta in np.linspace(0, 1, 7):
            assert set(np.flatnonzero(c <= budget(eta, size))) <= set(
                np.flatnonzero(c <= budget(min(1.0, eta + 0.1), size))
            )
    assert budget(-0.1, 5) < 0
    assert budget(0.5, 2) == 1  # one training point and the test point: |X| = 2


def test_implicit_subsets_equal_the_listed_class() -> None:
    rng = np.random.default_rng(6)
    implicit = BalancedSubsets(3)
    listed = instances.da_lower_bound(3, 1 / 64, random_state=0).problem
    for _ in range(80):
        points = rng.choice(13, size=rng.integers(0, 8), replace=False)
        mult = rng.integers(1, 3, size=points.size)
        first = implicit.labelings(points, mult, implicit.group)
        second = ExplicitClass(listed).labelings(points, mult, listed.group)
        np.testing.assert_array_equal(first[0], second[0])
        np.testing.assert_array_equal(first[1], second[1])


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


def test_bounds_of_the_sample_sizes() -> None:
    assert bounds.m_da(1, 0.1, 0.05) == 649_516
    assert bounds.m_da(5, 0.1, 0.05) == 4_305_315
    assert bounds.m_da(0, 0.1, 0.05) < 1000
