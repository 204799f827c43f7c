"""Groups: how they act, their keys, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier

from counterplay.errors import InvalidInputError
from counterplay.invariance import (
    AugmentedClassifier,
    CanonicalClassifier,
    ErmInvClassifier,
    MatrixGroup,
    OrbitKernelClassifier,
    OrbitVoteClassifier,
    check_sample_invariant,
    groups,
)
from counterplay.invariance.lab import (
    AbstractOrbits,
    ConflictingOrbitLabelsError,
    CoordinatePermutationGroup,
    IdentityMissingError,
    InfiniteOrbitError,
    MapSet,
    NotAGroupError,
    ShapeError,
    SignFlipGroup,
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


SYMMETRIC = {
    "empty": lambda nx: nx.empty_graph(12),
    "complete": lambda nx: nx.complete_graph(12),
    "cube": lambda nx: nx.hypercube_graph(4),
    "pairs": lambda nx: nx.disjoint_union_all([nx.complete_graph(2)] * 6),
    "cliques": lambda nx: nx.disjoint_union_all([nx.complete_graph(4)] * 3),
    "Petersen": lambda nx: nx.petersen_graph(),
    "rook": lambda nx: nx.line_graph(nx.complete_bipartite_graph(4, 4)),
    "directed cycle": lambda nx: nx.cycle_graph(9, create_using=nx.DiGraph),
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_graphs_with_many_automorphisms_have_a_canonical_form(name: str) -> None:
    """Breaking ties in every way would take up to 12! branches."""
    import networkx as nx

    graph = nx.convert_node_labels_to_integers(SYMMETRIC[name](nx))
    matrix = nx.to_numpy_array(graph)
    group = groups.graph_relabelling(len(matrix))
    form = group.canonical(matrix.reshape(1, -1))
    made = nx.from_numpy_array(form.reshape(matrix.shape), create_using=type(graph))
    assert nx.is_isomorphic(made, graph)
    for image in group.sample(matrix.reshape(1, -1), 5, 0):
        np.testing.assert_array_equal(group.canonical(image), form)


def test_user_functions_are_checked_on_real_numbers() -> None:
    """Rounding must not make a group of rotations look like none, nor x + 1 like one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = (np.hypot(*X.T) > 1).astype(int)
    turn = np.array([[-0.5, -np.sqrt(0.75)], [np.sqrt(0.75), -0.5]])
    thirds = [np.eye(2), turn, turn @ turn]
    rotations = groups.from_callables([lambda X, M=M: X @ M.T for M in thirds], n_features=2)
    report = groups.check_validity(rotations, X, y)
    assert report.is_group
    assert report.n_orbits == 80
    rotations.validate(X)
    shifts = groups.from_callables([lambda X: X, lambda X: X + 1.0], n_features=2)
    report = groups.check_validity(shifts, X)
    assert (report.has_identity, report.closed, report.missing_pair) == (True, False, (1, 1))
    flip = groups.from_callables([lambda X: -X], n_features=2)
    assert not groups.check_validity(flip, X).has_identity
    squash = groups.from_callables([lambda X: X, lambda X: 0 * X], n_features=2)
    report = groups.check_validity(squash, X)
    assert (report.closed, report.has_inverses) == (True, False)


def test_classifiers_refuse_functions_that_are_no_group() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = (X[:, 0] > 0).astype(int)
    base = DummyClassifier()
    shifts = [lambda X: X, lambda X: X + 1.0]
    claimed = groups.from_callables(shifts, n_features=2)
    honest = groups.from_callables(shifts, n_features=2, is_group=False)
    for model in (ErmInvClassifier(base), CanonicalClassifier(base), OrbitKernelClassifier()):
        for group in (claimed, honest):
            with pytest.raises(NotAGroupError):
                model.set_params(group=group).fit(X, y)
    mirror = groups.from_callables([lambda X: -X], n_features=2)
    with pytest.raises(IdentityMissingError):
        ErmInvClassifier(base, mirror).fit(X, y)
    for model in (AugmentedClassifier(base, honest), OrbitVoteClassifier(base, honest)):
        model.fit(X, y).predict(X)  # these need no orbits


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
    with pytest.raises(InfiniteOrbitError):
        groups.colour_permutations((2, 2, 9))
    for call in (
        lambda: groups.sign_flips(4, columns=[0, 1]),
        lambda: groups.sign_flips(4, columns=[]),
        lambda: groups.column_permutations(4, blocks=[["a"], ["b"]]),
        lambda: groups.column_permutations(4, blocks=[[0], [4]]),
        lambda: groups.image_shifts((4, 4), steps=2),
        lambda: groups.d4(64),
        lambda: groups.from_callables([1, 2], n_features=3),
        lambda: groups.from_callables(np.sort, n_features=3),
        lambda: groups.set_permutations(2).canonical([["a", "b"]]),
        lambda: groups.graph_relabelling(2).canonical([["a", "b", "c", "d"]]),
        lambda: groups.check_validity(groups.sign_flips(1), [[1.0], [2.0]], [0]),
    ):
        with pytest.raises(InvalidInputError):
            call()


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


@pytest.mark.parametrize("n", [3, 8])
@pytest.mark.parametrize("scale", [1e-10, 1.0, 1e5, 1e7, 1e12])
def test_i7_orbit_keys_of_rotations_survive_any_scale(n: int, scale: float) -> None:
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


class CountingKey:
    """A key that counts how often two keys are compared."""

    compared = 0

    def __init__(self, value: bytes) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        CountingKey.compared += 1
        return isinstance(other, CountingKey) and self.value == other.value


@pytest.mark.claim("11.26")
def test_i12_a_lookup_compares_one_key_whatever_the_size_of_the_table() -> None:
    """The time of it is measured in benchmarks/bench_invariance.py."""
    rng = np.random.default_rng(0)
    group = groups.d4((8, 8))
    listed = group.orbit_key
    group.orbit_key = lambda X: [CountingKey(key) for key in listed(X)]
    X = rng.integers(0, 17, size=(20_000, 64)).astype(float)
    y = rng.integers(0, 2, size=20_000)
    for n in (2_000, 20_000):
        model = ErmInvClassifier(DummyClassifier(), group).fit(X[:n], y[:n])
        CountingKey.compared = 0
        test = np.vstack([X[:500], rng.integers(0, 17, size=(500, 64))])
        assert (model.lookup(test)[:500] == y[:500]).all()
        assert CountingKey.compared == 500  # one for each orbit that is in the table
