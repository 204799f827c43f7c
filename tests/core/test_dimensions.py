"""Dimensions against brute force on tiny classes, known values on families, and certificates."""

from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from brute_dimensions import brute_vc
from counterplay.core import dimensions as dim
from counterplay.core.bits import pack_rows
from counterplay.core.dimensions import shatter_search
from counterplay.core.dimensions import vc as vc_module
from counterplay.core.finite_class import FiniteClass
from counterplay.errors import InvalidInputError

matrices = hnp.arrays(bool, st.tuples(st.integers(1, 9), st.integers(0, 5)))
partial = hnp.arrays(
    np.uint8, st.tuples(st.integers(1, 9), st.integers(0, 4)), elements=st.integers(0, 2)
)


def brute_littlestone(rows: frozenset[tuple[bool, ...]]) -> int:
    if len(rows) <= 1:
        return len(rows) - 1
    best = 0
    for x in range(len(next(iter(rows)))):
        one = frozenset(row for row in rows if row[x])
        if one and one != rows:
            best = max(best, 1 + min(brute_littlestone(one), brute_littlestone(rows - one)))
    return best


@settings(deadline=None)
@given(matrices)
def test_all_dimensions_against_brute_force(rows: np.ndarray) -> None:
    cls = FiniteClass.from_matrix(rows)
    vc, tree = dim.vc_dimension(cls), dim.littlestone_dimension(cls)
    assert vc.value == brute_vc(rows.astype(np.uint8))
    assert tree.value == brute_littlestone(frozenset(map(tuple, rows.tolist())))
    assert vc.value <= tree.value <= log2(len(cls))
    for certificate in (vc, tree):
        assert certificate.verify(cls)
        assert int(certificate) == certificate.value
        assert str(certificate.value) in certificate.summary()


@settings(deadline=None)
@given(partial, st.data())
def test_partial_classes_and_conflicts(values: np.ndarray, data: st.DataObject) -> None:
    found = dim.vc_dimension(values)
    assert found.value == brute_vc(values)
    assert found.verify(values)
    p = values.shape[1]
    upper = data.draw(hnp.arrays(bool, (p, p)))
    apart = np.triu(upper, 1) | np.triu(upper, 1).T
    limited = dim.vc_dimension(values, conflicts=apart)
    assert limited.verify(values)
    assert limited.value == brute_vc(values, lambda points: not apart[np.ix_(points, points)].any())
    assert not apart[np.ix_(limited.points, limited.points)].any()


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 8, 62, 63, 127, 128])
def test_thresholds(n: int) -> None:
    cls = FiniteClass.thresholds(range(n))
    tree = dim.littlestone_dimension(cls)
    assert tree.value == (n + 1).bit_length() - 1
    assert tree.verify(cls)
    assert dim.vc_dimension(cls).value == 1


def test_classes_with_known_values() -> None:
    intervals = FiniteClass.intervals(range(9))
    assert dim.vc_dimension(intervals).value == 2
    boxes = FiniteClass.boxes(np.random.default_rng(0).normal(size=(12, 2)))
    assert dim.vc_dimension(boxes).value == 4
    unions = FiniteClass.unions_of_intervals(range(8), 2)
    assert dim.vc_dimension(unions).value == 4
    everything = FiniteClass.all_labelings(5)
    assert dim.vc_dimension(everything).value == 5
    assert dim.littlestone_dimension(everything).value == 5
    singletons = FiniteClass.singletons(30)
    assert dim.vc_dimension(singletons).value == dim.littlestone_dimension(singletons).value == 1


def binary_code(k: int, d: int) -> FiniteClass:
    """Theorem 3.1: d independent copies of the k code words."""
    L = int(log2(k))
    copy = np.zeros((k, L, k + 1), dtype=bool)
    for j in range(1, k + 1):
        for i in range(L):
            copy[j - 1, i, j] = (j % 2**L) >> i & 1
    one = FiniteClass.from_matrix(copy.reshape(k, -1))
    return FiniteClass.product(*[one] * d)


@pytest.mark.parametrize(("k", "d"), [(2, 1), (3, 1), (4, 1), (5, 2), (8, 1), (4, 2), (16, 1)])
def test_induced_dimensions_of_the_binary_code(k: int, d: int) -> None:
    L = int(log2(k))
    cls = binary_code(k, d)
    nodes = d * L * (k + 1)
    adjacency = np.zeros((nodes, nodes), dtype=bool)
    for block in range(d * L):
        adjacency[block * (k + 1), block * (k + 1) + 1 : (block + 1) * (k + 1)] = True
    induced = cls.induced_by_graph(adjacency)
    assert dim.vc_dimension(cls).value == dim.littlestone_dimension(cls).value == d
    assert dim.vc_dimension(induced).value == dim.littlestone_dimension(induced).value == d * L


def halving_trap(r: int, k: int) -> FiniteClass:
    """Proposition 3.D: Littlestone dimension 2 whatever the size."""
    sets: list[list[int]] = [[], [0], [1], [0, 1]]
    points = 2
    for _ in range(r):
        x = points
        fresh = max(2, -(-len(sets) // (k + 1)))
        sets += [[x, x + 1 + i] for i in range(fresh)]
        points += 1 + fresh
    rows = np.zeros((len(sets), points), dtype=bool)
    for row, members in zip(rows, sets):
        row[members] = True
    return FiniteClass.from_matrix(rows)


@pytest.mark.parametrize(("r", "k", "size"), [(40, 4, 9885), (20, 2, 1551), (40, 8, 710)])
def test_littlestone_dimension_of_the_halving_trap(r: int, k: int, size: int) -> None:
    cls = halving_trap(r, k)
    assert len(cls) == size
    tree = dim.littlestone_dimension(cls)
    assert tree.value == 2
    assert tree.verify(cls)


def test_both_searches_agree_above_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr(vc_module, "_BITSET_DEPTH", 2)
    for _ in range(20):
        rows = rng.integers(2, size=(60, 8)).astype(bool)
        found = dim.vc_dimension(rows)
        assert found.verify(rows)
        columns = np.ascontiguousarray(rows.T.astype(np.uint8))
        apart = np.zeros((0, 0), dtype=bool)
        direct, _, _, done = shatter_search.search_bitsets(
            pack_rows(columns == 1), pack_rows(columns == 0), apart, 5, 0
        )
        assert done
        assert direct.size == found.value


def test_solver_on_subsets() -> None:
    rng = np.random.default_rng(5)
    rows = rng.integers(2, size=(14, 5)).astype(bool)
    rows = np.vstack([rows, rows[:3]])  # repeated rows must not count twice
    cls = FiniteClass.from_matrix(rows)
    solver = dim.LittlestoneSolver(cls)
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


def test_budget_gives_a_lower_bound_and_says_so() -> None:
    cls = FiniteClass.from_matrix(np.random.default_rng(0).integers(2, size=(80, 12)))
    full, cut = dim.vc_dimension(cls), dim.vc_dimension(cls, budget=2)
    assert full.exact
    assert not cut.exact
    assert cut.value <= full.value
    assert "at least" in cut.summary()


def test_wrong_certificates_are_refused() -> None:
    cls = FiniteClass.thresholds(range(5))
    assert not dim.Shattering((0, 1), (0, 1, 2, 3)).verify(cls)
    assert not dim.Shattering((0,), (0,)).verify(cls)
    tree = dim.littlestone_dimension(cls)
    assert not dim.MistakeTree(tree.points, tree.leaves[::-1]).verify(cls)
    assert not dim.MistakeTree(tree.points[1:], tree.leaves).verify(cls)
    with pytest.raises(InvalidInputError, match="0, 1, and 2"):
        dim.vc_dimension([[3]])
    with pytest.raises(InvalidInputError, match="symmetric"):
        dim.vc_dimension([[0, 1]], conflicts=[[False, True], [False, False]])
    with pytest.raises(InvalidInputError, match="shape"):
        dim.vc_dimension([[0, 1]], conflicts=[[False]])
