"""Dimensions against brute force on tiny classes, known values on families, and certificates."""

from itertools import combinations, product
from math import comb, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

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


def brute_vc(values: np.ndarray, allowed: object = lambda points: True) -> int:
    best = 0
    for k in range(1, values.shape[1] + 1):
        for points in combinations(range(values.shape[1]), k):
            patterns = {tuple(row) for row in values[:, points].tolist() if 2 not in row}
            if len(patterns) == 2**k and allowed(points):  # type: ignore[operator]
                best = k
    return best


def brute_littlestone(rows: frozenset[tuple[bool, ...]]) -> int:
    if len(rows) <= 1:
        return len(rows) - 1
    best = 0
    for x in range(len(next(iter(rows)))):
        one = frozenset(row for row in rows if row[x])
        if one and one != rows:
            best = max(best, 1 + min(brute_littlestone(one), brute_littlestone(rows - one)))
    return best


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
def test_all_dimensions_against_brute_force(rows: np.ndarray) -> None:
    cls = FiniteClass.from_matrix(rows)
    vc, star, hollow = dim.vc_dimension(cls), dim.star_number(cls), dim.hollow_star_number(cls)
    tree = dim.littlestone_dimension(cls)
    assert vc.value == brute_vc(rows.astype(np.uint8))
    assert tree.value == brute_littlestone(frozenset(map(tuple, rows.tolist())))
    assert star.value == brute_star(rows)
    assert hollow.value == brute_hollow(rows)
    assert vc.value <= tree.value <= log2(len(cls))
    assert vc.value <= star.value
    assert hollow.value <= star.value + 1
    for certificate in (vc, tree, star, hollow, dim.projection_number(cls)):
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


@settings(deadline=None)
@given(matrices, st.data())
def test_orbit_dimensions(rows: np.ndarray, data: st.DataObject) -> None:
    p = rows.shape[1]
    orbits = np.array(data.draw(st.lists(st.integers(5, 7), min_size=p, max_size=p)), dtype=int)
    cls = FiniteClass.from_matrix(rows)
    labels = dim.orbit_labels(cls, orbits)
    for k, orbit in enumerate(np.unique(orbits)):
        part = rows[:, orbits == orbit]
        expected = np.where(part.all(1), 1, np.where(part.any(1), 2, 0))
        np.testing.assert_array_equal(labels[:, k], expected)
    ao, o = dim.vcao(cls, orbits), dim.vco(cls, orbits)
    assert ao.value == brute_vc(
        rows.astype(np.uint8), lambda s: len(set(orbits[list(s)])) == len(s)
    )
    assert o.value == brute_vc(labels)
    assert ao.verify_orbits(cls, orbits)
    assert o.verify_orbits(cls, orbits)
    assert o.value <= ao.value <= dim.vc_dimension(cls).value
    single = dim.vcao(cls, np.arange(p)).value, dim.vco(cls, np.arange(p)).value
    assert single == (dim.vc_dimension(cls).value,) * 2
    assert "VCao" in ao.summary()
    assert "VCo" in o.summary()


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 8, 62, 63, 127, 128])
def test_thresholds(n: int) -> None:
    cls = FiniteClass.thresholds(range(n))
    tree = dim.littlestone_dimension(cls)
    assert tree.value == (n + 1).bit_length() - 1
    assert tree.verify(cls)
    assert dim.vc_dimension(cls).value == 1
    assert dim.star_number(cls).value == min(n, 2)


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
    assert dim.hollow_star_number(everything).value == 0
    assert dim.projection_number(everything).value == 2
    large = FiniteClass.singletons(90, include_empty=True)  # searched with counters, not bit sets
    assert dim.star_number(large).value == 90
    assert dim.star_number(large).verify(large)
    singletons = FiniteClass.singletons(30)
    assert dim.vc_dimension(singletons).value == dim.littlestone_dimension(singletons).value == 1
    assert dim.hollow_star_number(singletons).value == 30
    assert dim.star_number(singletons).value == 29


@pytest.mark.parametrize("n", [1, 2, 3])
def test_halfspaces_have_hollow_star_number_n_plus_2(n: int) -> None:
    from counterplay.core.halfspaces import halfspaces_lp

    simplex = np.vstack([np.zeros(n), np.eye(n), np.full(n, 1 / (n + 1))])
    cls = FiniteClass.from_matrix(halfspaces_lp(simplex))
    star = dim.hollow_star_number(cls)
    assert star.value == n + 2
    assert star.verify(cls)
    assert dim.vc_dimension(cls).value == n + 1


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
                    value = dim.projection_value(cls, points, labels)
                    worst = max(worst, int(np.ceil(1 / value - 1e-7)))
        assert dim.projection_number(cls).value == worst, realised


def binary_code(k: int, d: int) -> FiniteClass:
    """Spec 03 construction 4.1: d independent copies of the k code words."""
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
    """Spec 03 construction 4.4: Littlestone dimension 2 whatever the size."""
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
    dims = dim.vc_dimension(cls).value, dim.vcao(cls, orbits).value, dim.vco(cls, orbits).value
    assert dims == (d, d, 0)
    cubes = np.array(list(product([0, 1], repeat=d)))
    points = [(tuple(b), i) for b in cubes for i in range(d)]
    rows = [[int(h == b) * h[i] for b, i in points] for h in map(tuple, cubes)]
    blowup = FiniteClass.from_matrix(rows)
    which = [i for _, i in points]
    assert dim.vc_dimension(blowup).value == 1
    assert dim.vcao(blowup, which).value == 1
    assert dim.vco(blowup, which).value == 0


@pytest.mark.parametrize(("n", "k"), [(2, 2), (4, 1), (4, 2), (2, 3)])
def test_rotated_images(n: int, k: int) -> None:
    cls = FiniteClass.all_labelings(n * k)
    orbits = np.repeat(np.arange(k), n)
    assert dim.vc_dimension(cls).value == n * k
    assert dim.vcao(cls, orbits).value == dim.vco(cls, orbits).value == k
    images = cls.labels.reshape(-1, k, n)
    tied = cls.select((images[:, :, 0] != images[:, :, n // 2]).all(1))
    assert dim.vc_dimension(tied).value == (n - 1) * k
    assert dim.vcao(tied, orbits).value == k
    assert dim.vco(tied, orbits).value == 0


def test_halfspaces_under_rotation_and_reflection() -> None:
    rng = np.random.default_rng(3)
    base = rng.normal(size=(5, 2))
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    rotated = np.vstack([base @ np.linalg.matrix_power(turn, r).T for r in range(4)])
    orbits = np.tile(np.arange(5), 4)
    cls = FiniteClass.halfspaces_2d(rotated)
    dims = dim.vc_dimension(cls).value, dim.vcao(cls, orbits).value, dim.vco(cls, orbits).value
    assert dims == (3, 3, 1)
    base = rng.normal(size=(14, 2))
    mirrored = FiniteClass.halfspaces_2d(np.vstack([base, base * [-1, 1]]))
    pairs = np.tile(np.arange(14), 2)
    assert dim.vcao(mirrored, pairs).value == 3
    assert dim.vco(mirrored, pairs).value == 2


def test_star_searches_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    classes = [FiniteClass.from_matrix(rng.integers(2, size=(25, 9))) for _ in range(15)]
    expected = [dim.star_number(cls).value for cls in classes]
    monkeypatch.setattr("counterplay.core.dimensions.star._BITSET_STAR", 1)
    for cls, value in zip(classes, expected):
        found = dim.star_number(cls)
        assert found.value == value
        assert found.verify(cls)


def test_both_searches_agree_above_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr(vc_module, "_BITSET_DEPTH", 2)
    for _ in range(20):
        rows = rng.integers(2, size=(60, 8)).astype(bool)
        found = dim.vc_dimension(rows)
        assert found.verify(rows)
        columns = np.ascontiguousarray(rows.T.astype(np.uint8))
        apart = np.zeros((0, 0), dtype=bool)
        direct, _, done = shatter_search.search_bitsets(
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
    for function in (dim.vc_dimension, dim.star_number, dim.hollow_star_number):
        full, cut = function(cls), function(cls, budget=2)
        assert full.exact
        assert not cut.exact
        assert cut.value <= full.value
        assert "at least" in cut.summary()
    assert not dim.projection_number(cls, budget=2).exact


def test_wrong_certificates_are_refused() -> None:
    cls = FiniteClass.thresholds(range(5))
    assert not dim.Shattering((0, 1), (0, 1, 2, 3)).verify(cls)
    assert not dim.Shattering((0,), (0,)).verify(cls)
    tree = dim.littlestone_dimension(cls)
    assert not dim.MistakeTree(tree.points, tree.leaves[::-1]).verify(cls)
    assert not dim.MistakeTree(tree.points[1:], tree.leaves).verify(cls)
    star = dim.star_number(cls)
    assert not dim.StarSet(star.center, star.points, star.witnesses[::-1]).verify(cls)
    hollow = dim.hollow_star_number(cls)
    assert not dim.HollowStar(hollow.points, hollow.labels, hollow.witnesses[::-1]).verify(cls)
    assert not dim.HollowStar((), (), ()).verify(cls)
    with pytest.raises(InvalidInputError, match="0, 1, and 2"):
        dim.vc_dimension([[3]])
    with pytest.raises(InvalidInputError, match="symmetric"):
        dim.vc_dimension([[0, 1]], conflicts=[[False, True], [False, False]])
    with pytest.raises(InvalidInputError, match="shape"):
        dim.vc_dimension([[0, 1]], conflicts=[[False]])
    with pytest.raises(InvalidInputError, match="length 5"):
        dim.vcao(cls, [0])
