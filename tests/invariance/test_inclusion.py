"""One-inclusion graphs against brute force, and the leave-one-out guarantee through predict."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from brute_dimensions import brute_vc
from counterplay.core.dimensions import vc_dimension
from counterplay.core.finite_class import FiniteClass
from counterplay.errors import InvalidInputError
from counterplay.invariance.inclusion import OneInclusionGraph, peel_orientation
from counterplay.invariance.lab import (
    AbstractOrbits,
    OneInclusionRelaxed,
)

matrices = hnp.arrays(bool, st.tuples(st.integers(1, 10), st.integers(1, 5)))


def densest(n: int, edges: np.ndarray) -> float:
    best = 0.0
    for size in range(1, n + 1):
        for chosen in combinations(range(n), size):
            inside = np.isin(edges[:, :2], chosen).all(axis=1).sum()
            best = max(best, inside / size)
    return best


@settings(deadline=None)
@given(matrices)
def test_graph_and_orientations(rows: np.ndarray) -> None:
    graph = OneInclusionGraph(rows)
    distinct = sorted({tuple(row) for row in rows.tolist()})
    assert [tuple(row) for row in graph.vertices.tolist()] == distinct
    expected = {
        (i, j, int(np.flatnonzero(np.array(a) ^ np.array(b))[0]))
        for i, a in enumerate(distinct)
        for j, b in enumerate(distinct)
        if i < j and sum(x != y for x, y in zip(a, b)) == 1
    }
    assert {tuple(edge) for edge in graph.edges.tolist()} == expected
    d = vc_dimension(rows).value
    density = densest(graph.n_vertices, graph.edges)
    flow, peel = graph.orient("flow"), graph.orient("peel")
    fractional = graph.orient_fractional()
    assert flow.max_indegree == int(np.ceil(density)) <= d
    assert peel.max_indegree <= 2 * d
    assert fractional.value == pytest.approx(density, abs=1e-7)
    for orientation in (flow, peel):
        ends = graph.edges[:, :2]
        assert ((ends[:, 0] == orientation.head) | (ends[:, 1] == orientation.head)).all()
        np.testing.assert_array_equal(
            orientation.indegree, np.bincount(orientation.head, minlength=graph.n_vertices)
        )
    for index, row in enumerate(graph.vertices):
        assert graph.loo_mistakes(row) == flow.indegree[index]
        assert graph.loo_mistakes(row, "peel") == peel.indegree[index]


@settings(deadline=None, max_examples=60)
@given(matrices, st.randoms(use_true_random=False))
def test_prediction_depends_on_the_set_of_points_only(rows: np.ndarray, random: object) -> None:
    k = rows.shape[1]
    keys = [f"point {j}" for j in range(k)]
    base = OneInclusionGraph(rows, keys=keys)
    d = vc_dimension(rows).value
    for truth in base.vertices:
        mistakes = 0
        for column in range(k):
            order = list(range(k))
            random.shuffle(order)  # type: ignore[attr-defined]  # a random.Random
            members = list(range(len(rows)))
            random.shuffle(members)  # type: ignore[attr-defined]  # a random.Random
            shuffled = OneInclusionGraph(
                rows[np.ix_(members, order)], keys=[keys[j] for j in order]
            )
            answer = shuffled.predict(order.index(column), truth[order])
            assert answer == base.predict(column, truth)
            mistakes += answer.label != truth[column]
        assert mistakes <= d


def test_expected_mistakes_of_the_fractional_orientation() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        rows = rng.integers(2, size=(9, 5)).astype(bool)
        graph = OneInclusionGraph(rows)
        fractional = graph.orient_fractional()
        for index, truth in enumerate(graph.vertices):
            wrong = 0.0
            for column in range(5):
                p = graph.predict(column, truth, "fractional").probability
                wrong += 1 - p if truth[column] else p
            assert wrong == pytest.approx(fractional.indegree[index], abs=1e-9)
            assert wrong <= fractional.value + 1e-9


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6])
def test_cube_needs_half_of_its_dimension(k: int) -> None:
    graph = OneInclusionGraph(FiniteClass.all_labelings(k))
    assert graph.n_edges == k * 2 ** (k - 1)
    assert graph.orient().max_indegree == (k + 1) // 2


def test_more_than_64_points() -> None:
    cls = FiniteClass.intervals(range(70))
    graph = OneInclusionGraph(cls)
    assert graph.n_vertices == 70 * 71 // 2 + 1
    labels = graph.vertices.astype(int)
    zero, one, column = graph.edges.T
    difference = labels[one] - labels[zero]
    np.testing.assert_array_equal(difference.sum(1), 1)
    np.testing.assert_array_equal(np.abs(difference).sum(1), 1)
    assert (difference[np.arange(len(column)), column] == 1).all()
    assert graph.n_edges == 70 + 2 * sum(range(1, 70))  # from empty, and one end grown
    assert graph.orient().max_indegree == 2
    assert graph.predict(3, labels[100]).kind in {"forced", "oriented"}


def test_kinds_of_predictions_and_edge_columns() -> None:
    graph = OneInclusionGraph([[0, 0], [0, 1], [1, 1]], edge_columns=[1])
    assert graph.n_edges == 1
    assert graph.predict(0, [0, 0]).kind == "forced"
    assert graph.predict(0, [0, 0]).label == 0
    assert graph.predict(1, [1, 0]).label == 1
    assert OneInclusionGraph([[0, 0, 0]]).predict(0, [0, 1, 1]).kind == "empty"
    with pytest.raises(InvalidInputError, match="edge_columns"):
        graph.predict(0, [0, 1])
    assert graph.loo_mistakes([0, 1]) in {0, 1}


def test_components_and_peel_on_a_forest() -> None:
    graph = OneInclusionGraph([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]])
    assert graph.components.tolist() == [0, 0, 1, 1]
    assert graph.orient().max_indegree == 1
    assert peel_orientation(3, np.array([0, 1]), np.array([1, 2])).tolist() == [0, 1]
    empty = OneInclusionGraph([[0, 0], [1, 1]])
    assert empty.orient().max_indegree == 0
    assert empty.orient_fractional().value == 0
    assert OneInclusionGraph(np.zeros((1, 0))).n_vertices == 1


def test_bad_input() -> None:
    with pytest.raises(InvalidInputError, match="different"):
        OneInclusionGraph([[0, 1]], keys=["a", "a"])
    with pytest.raises(InvalidInputError, match="length 2"):
        OneInclusionGraph([[0, 1]], keys=["a"])
    with pytest.raises(InvalidInputError, match="matrix"):
        OneInclusionGraph([0, 1])
    graph = OneInclusionGraph([[0, 1]])
    with pytest.raises(InvalidInputError, match="length 2"):
        graph.predict(0, [0])
    with pytest.raises(InvalidInputError, match="column"):
        graph.predict(2, [0, 1])
    with pytest.raises(InvalidInputError, match="method"):
        graph.orient("fast")  # type: ignore[arg-type]  # the point of the test


def random_rows(rng, max_points=6) -> np.ndarray:
    k = int(rng.integers(2, max_points + 1))
    return np.unique(rng.integers(0, 2, size=(rng.integers(2, 14), k)), axis=0)


@pytest.mark.claim("11.03")
def test_orientations_meet_their_bounds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(120):
        rows = random_rows(rng)
        graph = OneInclusionGraph(rows)
        d = brute_vc(rows)
        assert graph.orient("flow").max_indegree <= d
        assert graph.orient("peel").max_indegree <= 2 * d
        if len(rows) <= 10:
            density = 0.0
            for size in range(1, len(rows) + 1):
                for part in combinations(range(len(rows)), size):
                    inside = set(part)
                    edges = sum(a in inside and b in inside for a, b, _ in graph.edges.tolist())
                    density = max(density, edges / size)
            assert graph.orient("flow").max_indegree == int(np.ceil(density - 1e-12))
    for k in range(1, 8):
        cube = OneInclusionGraph(FiniteClass.all_labelings(k))
        assert cube.orient("flow").max_indegree == -(-k // 2)


@pytest.mark.claim("11.04")
def test_leave_one_out_through_the_predictor() -> None:
    """Test index and training order are shuffled at every call."""
    rng = np.random.default_rng(1)
    for _ in range(100):
        rows = random_rows(rng)
        k = rows.shape[1]
        learner = OneInclusionRelaxed(rows, AbstractOrbits(np.arange(k)))
        d = vc_dimension(rows).value
        for truth in rows:
            mistakes = 0
            for j in rng.permutation(k):
                train = rng.permutation([i for i in range(k) if i != j])
                fresh = learner.fresh().fit(train, truth[train])
                mistakes += int(fresh.predict([j])[0] != truth[j])
            assert mistakes <= d


@pytest.mark.claim("11.04")
def test_a_graph_that_depends_on_the_test_point_breaks_the_bound() -> None:
    """The control: with the test point always last, some classes exceed their VC dimension."""
    rng = np.random.default_rng(1)
    broken, sound = 0, 0
    for _ in range(300):
        rows = random_rows(rng)
        k, d = rows.shape[1], brute_vc(rows)
        fixed = OneInclusionGraph(rows)
        moving = []
        for j in range(k):
            order = [i for i in range(k) if i != j] + [j]
            moving.append((OneInclusionGraph(rows[:, order]), order))
        mistakes = [
            sum(graph.predict(k - 1, truth[order]).label != truth[j]
                for j, (graph, order) in enumerate(moving))
            for truth in rows
        ]  # fmt: skip
        broken += max(mistakes) > d
        sound += max(fixed.loo_mistakes(truth) for truth in rows) <= d
    assert sound == 300
    assert broken >= 1


@pytest.mark.claim("11.28")
def test_large_graphs_are_oriented_within_the_bound() -> None:
    """Labelings of 16 points with at most 7 ones: more than 26,000 vertices, VC dimension 7."""
    rows = np.array(list(product((0, 1), repeat=16)), dtype=np.uint8)
    rows = rows[rows.sum(axis=1) <= 7]
    graph = OneInclusionGraph(rows)
    assert graph.n_vertices >= 26_000
    assert graph.n_edges >= 75_000
    orientation = graph.orient("flow")
    assert orientation.max_indegree <= 7
    assert orientation.max_indegree >= -(-graph.n_edges // graph.n_vertices)
