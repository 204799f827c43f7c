"""Star, hollow star and projection numbers against brute force, known values, certificates."""

from __future__ import annotations

import itertools
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from counterplay.core.dimensions import vc_dimension
from counterplay.core.finite_class import FiniteClass
from counterplay.poisoning import instances, lab
from counterplay.poisoning.lab import (
    hollow_star_number,
    projection_number,
    projection_value,
    separable,
)
from poisoning.problems import random_class

matrices = hnp.arrays(bool, st.tuples(st.integers(1, 9), st.integers(0, 5)))


def brute_star(rows: np.ndarray) -> int:
    best = 0
    for k in range(1, rows.shape[1] + 1):
        for points in combinations(range(rows.shape[1]), k):
            for center in rows[:, points]:
                differ = {tuple(row) for row in (rows[:, points] ^ center).tolist()}
                if all(tuple(i == j for j in range(k)) in differ for i in range(k)):
                    best = k
    return best


def brute_hollow(rows: np.ndarray) -> int:
    best = 0
    for k in range(1, rows.shape[1] + 1):
        for points in combinations(range(rows.shape[1]), k):
            realised = {tuple(row) for row in rows[:, points].tolist()}
            for labels in product([False, True], repeat=k):
                flips = [tuple(b ^ (i == j) for j, b in enumerate(labels)) for i in range(k)]
                if labels not in realised and all(flip in realised for flip in flips):
                    best = k
    return best


@settings(deadline=None)
@given(matrices)
def test_stars_against_brute_force(rows: np.ndarray) -> None:
    cls = FiniteClass.from_matrix(rows)
    star, hollow = lab.star_number(cls), lab.hollow_star_number(cls)
    assert star.value == brute_star(rows)
    assert hollow.value == brute_hollow(rows)
    assert vc_dimension(cls).value <= star.value
    assert hollow.value <= star.value + 1
    for certificate in (star, hollow, lab.projection_number(cls)):
        assert certificate.verify(cls)
        assert int(certificate) == certificate.value
        assert str(certificate.value) in certificate.summary()


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 8, 62, 63, 127, 128])
def test_thresholds(n: int) -> None:
    assert lab.star_number(FiniteClass.thresholds(range(n))).value == min(n, 2)


def test_classes_with_known_values() -> None:
    everything = FiniteClass.all_labelings(5)
    assert lab.hollow_star_number(everything).value == 0
    assert lab.projection_number(everything).value == 2
    large = FiniteClass.singletons(90, include_empty=True)  # searched with counters, not bit sets
    assert lab.star_number(large).value == 90
    assert lab.star_number(large).verify(large)
    singletons = FiniteClass.singletons(30)
    assert lab.hollow_star_number(singletons).value == 30
    assert lab.star_number(singletons).value == 29


@pytest.mark.parametrize("n", [1, 2, 3])
def test_halfspaces_have_hollow_star_number_n_plus_2(n: int) -> None:
    from counterplay.core.halfspaces import halfspaces_lp

    simplex = np.vstack([np.zeros(n), np.eye(n), np.full(n, 1 / (n + 1))])
    cls = FiniteClass.from_matrix(halfspaces_lp(simplex))
    star = lab.hollow_star_number(cls)
    assert star.value == n + 2
    assert star.verify(cls)
    assert vc_dimension(cls).value == n + 1


def test_projection_number_equals_the_linear_program() -> None:
    rng = np.random.default_rng(0)
    for _ in range(15):
        rows = rng.integers(2, size=(rng.integers(2, 9), 5)).astype(bool)
        cls = FiniteClass.from_matrix(rows)
        realised = {tuple(row) for row in rows.tolist()}
        worst = 2
        for k in range(1, 6):
            for points in combinations(range(5), k):
                for labels in product([0, 1], repeat=k):
                    if tuple(map(bool, labels)) in {tuple(r[list(points)]) for r in rows}:
                        continue
                    value = lab.projection_value(cls, points, labels)
                    worst = max(worst, int(np.ceil(1 / value - 1e-7)))
        assert lab.projection_number(cls).value == worst, realised


def test_star_searches_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    classes = [FiniteClass.from_matrix(rng.integers(2, size=(25, 9))) for _ in range(15)]
    expected = [lab.star_number(cls).value for cls in classes]
    monkeypatch.setattr("counterplay.poisoning.stars._BITSET_STAR", 1)
    for cls, value in zip(classes, expected):
        found = lab.star_number(cls)
        assert found.value == value
        assert found.verify(cls)


def test_budget_gives_a_lower_bound_and_says_so() -> None:
    cls = FiniteClass.from_matrix(np.random.default_rng(0).integers(2, size=(80, 12)))
    for function in (lab.star_number, lab.hollow_star_number):
        full, cut = function(cls), function(cls, budget=2)
        assert full.exact
        assert not cut.exact
        assert cut.value <= full.value
        assert "at least" in cut.summary()
    assert not lab.projection_number(cls, budget=2).exact


def test_wrong_certificates_are_refused() -> None:
    cls = FiniteClass.thresholds(range(5))
    star = lab.star_number(cls)
    assert not lab.StarSet(star.center, star.points, star.witnesses[::-1]).verify(cls)
    hollow = lab.hollow_star_number(cls)
    assert not lab.HollowStar(hollow.points, hollow.labels, hollow.witnesses[::-1]).verify(cls)
    assert not lab.HollowStar((), (), ()).verify(cls)


@pytest.mark.claim("10.16")
def test_hollow_star_is_the_largest_minimal_unrealizable_set() -> None:
    rng = np.random.default_rng(0)
    for _ in range(25):
        H = random_class(rng, 4, int(rng.integers(3, 9)))
        largest, value = 0, 2
        for size in range(1, 5):
            for points in itertools.combinations(range(4), size):
                seen = {tuple(row) for row in H.labels[:, points].astype(int)}
                for labels in itertools.product((0, 1), repeat=size):
                    smaller = [
                        any(all(row[j] == labels[j] for j in range(size) if j != i) for row in seen)
                        for i in range(size)
                    ]
                    if labels not in seen and all(smaller):
                        largest = max(largest, size)
                        lp = projection_value(H, points, labels)
                        value = max(value, int(np.ceil(1 / lp - 1e-9)))
        assert hollow_star_number(H).value == largest
        assert projection_number(H).value == value == max(2, largest)


@pytest.mark.claim("10.16")
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_simplex_is_a_hollow_star_of_half_spaces(n: int) -> None:
    T = instances.simplex_set(n)
    assert not separable(T.X, T.y)
    for i in range(n + 2):
        labels = T.y.copy()
        labels[i] = 1 - labels[i]
        assert separable(T.X, labels)


def test_vc_dimension_of_singletons_is_one() -> None:
    assert vc_dimension(FiniteClass.singletons(6)).value == 1
