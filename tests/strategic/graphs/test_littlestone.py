"""The Littlestone dimension against its definition, known values, and certificates."""

from __future__ import annotations

import math
from itertools import product
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from counterplay.core.bits import pack_rows
from counterplay.core.dimensions import vc_dimension
from counterplay.core.finite_class import FiniteClass
from counterplay.strategic import instances
from counterplay.strategic.lab import (
    GridThreshold,
    LittlestoneSolver,
    MistakeTree,
    littlestone_dimension,
)
from strategic.graph_problems import naive_littlestone, random_class

matrices = hnp.arrays(bool, st.tuples(st.integers(1, 9), st.integers(0, 5)))


@pytest.mark.claim("03.02")
def test_littlestone_dimension_equals_its_definition() -> None:
    rng = np.random.default_rng(0)
    for _ in range(1000):
        n = int(rng.integers(1, 6))
        rules = random_class(rng, int(rng.integers(1, 9)), n, share=float(rng.uniform(0.2, 0.8)))
        rows = frozenset(tuple(bool(v) for v in row) for row in rules.labels)
        tree = littlestone_dimension(rules)
        assert tree.value == naive_littlestone(rows, n)
        assert tree.value >= vc_dimension(rules).value
        assert tree.verify(rules)


@pytest.mark.claim("03.02")
def test_shattered_tree_by_its_index_formula() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        rules = random_class(rng, 20, 6, share=0.5)
        tree = littlestone_dimension(rules)
        d = tree.value
        nodes = np.asarray(tree.points)  # heap order: node j of the text is entry j - 1
        for labels in product((0, 1), repeat=d):
            path = [
                2 ** (i - 1) + sum(labels[q - 1] * 2 ** (i - 1 - q) for q in range(1, i))
                for i in range(1, d + 1)
            ]
            points = [int(nodes[j - 1]) for j in path]
            assert (rules.labels[:, points] == np.array(labels, dtype=bool)).all(axis=1).any()


@pytest.mark.claim("03.02")
@pytest.mark.parametrize("N", [1, 2, 3, 7, 8, 31, 127])
def test_thresholds_have_logarithmic_dimension(N: int) -> None:
    rules = FiniteClass.from_matrix(np.arange(N) >= np.arange(N + 1)[:, None])
    assert littlestone_dimension(rules).value == int(math.log2(N + 1))
    assert GridThreshold(N).mistake_bound == int(math.log2(N + 1))


def brute_littlestone(rows: frozenset[tuple[bool, ...]]) -> int:
    if len(rows) <= 1:
        return len(rows) - 1
    best = 0
    for x in range(len(next(iter(rows)))):
        one = frozenset(row for row in rows if row[x])
        if one and one != rows:
            best = max(best, 1 + min(brute_littlestone(one), brute_littlestone(rows - one)))
    return best


@pytest.mark.parametrize(("r", "k", "size"), [(40, 4, 9885), (20, 2, 1551), (40, 8, 710)])
def test_littlestone_dimension_of_the_halving_trap(r: int, k: int, size: int) -> None:
    cls = instances.halving_trap(r, k).hypotheses
    assert len(cls) == size
    tree = littlestone_dimension(cls)
    assert tree.value == 2
    assert tree.verify(cls)


def test_solver_on_subsets() -> None:
    rng = np.random.default_rng(5)
    rows = rng.integers(2, size=(14, 5)).astype(bool)
    rows = np.vstack([rows, rows[:3]])  # repeated rows must not count twice
    cls = FiniteClass.from_matrix(rows)
    solver = LittlestoneSolver(cls)
    assert solver.dimension(2**17 - 1) == solver.dimension(solver.full) == solver.dimension()
    for _ in range(40):
        mask = rng.random(17) < 0.5
        expected = brute_littlestone(frozenset(map(tuple, rows[mask].tolist())))
        words = pack_rows(mask)
        assert solver.dimension(words) == expected
        assert solver.at_least(words, expected)
        assert not solver.at_least(words, expected + 1)
        tree = solver.tree(words)
        assert all(mask[list(tree.leaves)])
        if expected >= 0:
            assert tree.value == expected
            assert tree.verify(cls)


@settings(deadline=None)
@given(matrices)
def test_dimension_against_brute_force(rows: np.ndarray) -> None:
    cls = FiniteClass.from_matrix(rows)
    tree = littlestone_dimension(cls)
    assert tree.value == brute_littlestone(frozenset(map(tuple, rows.tolist())))
    assert vc_dimension(cls).value <= tree.value <= log2(len(cls))
    assert tree.verify(cls)
    assert int(tree) == tree.value
    assert str(tree.value) in tree.summary()


def test_classes_with_known_values() -> None:
    assert littlestone_dimension(FiniteClass.all_labelings(5)).value == 5
    assert littlestone_dimension(FiniteClass.singletons(30)).value == 1
    line = FiniteClass.thresholds(range(128))
    assert littlestone_dimension(line).verify(line)


def test_wrong_certificates_are_refused() -> None:
    cls = FiniteClass.thresholds(range(5))
    tree = littlestone_dimension(cls)
    assert not MistakeTree(tree.points, tree.leaves[::-1]).verify(cls)
    assert not MistakeTree(tree.points[1:], tree.leaves).verify(cls)
