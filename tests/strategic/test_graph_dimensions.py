"""Dimensions before and after people move, and the bounds in between."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from counterplay.core.dimensions import littlestone_dimension, vc_dimension
from counterplay.core.finite_class import FiniteClass
from counterplay.core.online import SOA
from counterplay.strategic import bounds, instances
from counterplay.strategic.lab import (
    DisjunctionElimination,
    GridThreshold,
    PerceptronLearner,
    SingletonLearner,
    WinnowLearner,
)
from strategic.graph_problems import naive_littlestone, random_class, random_graph


def after_moving(rules: FiniteClass, graph) -> FiniteClass:
    return FiniteClass.from_matrix(graph.induced(rules.labels)).deduplicated().unique


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


@pytest.mark.claim("03.03")
@pytest.mark.parametrize("k", [2, 3, 4, 5, 8, 16])
@pytest.mark.parametrize("d", [1, 2])
def test_moving_multiplies_the_dimension_by_log_k(k: int, d: int) -> None:
    instance = instances.binary_code_instance(k, d)
    induced = after_moving(instance.hypotheses, instance.graph)
    assert vc_dimension(instance.hypotheses).value == d
    assert littlestone_dimension(instance.hypotheses).value == d
    assert vc_dimension(induced).value == d * int(math.log2(k))
    assert littlestone_dimension(induced).value == d * int(math.log2(k))


@pytest.mark.claim("03.04")
def test_the_bound_printed_without_a_constant_is_wrong() -> None:
    instance = instances.binary_code_instance(2, 1, strengthened=True)
    induced = after_moving(instance.hypotheses, instance.graph)
    assert vc_dimension(instance.hypotheses).value == 1
    assert littlestone_dimension(instance.hypotheses).value == 1
    assert vc_dimension(induced).value == 2 > 1 * math.log2(2 * 1)
    assert littlestone_dimension(induced).value == 2 > 1 * math.log2(2)


@pytest.mark.claim("03.04")
def test_induced_dimension_stays_below_its_bounds() -> None:
    rng = np.random.default_rng(2)
    tight = 0
    for _ in range(500):
        n = int(rng.integers(3, 9))
        k = int(rng.integers(1, n))
        rules = random_class(rng, int(rng.integers(2, 25)), n, share=float(rng.uniform(0.1, 0.4)))
        graph = random_graph(rng, n, k)
        induced = after_moving(rules, graph)
        before, moved = vc_dimension(rules).value, vc_dimension(induced).value
        assert moved <= bounds.vc_induced_upper(before, k)
        ldim = littlestone_dimension(rules).value
        bound = bounds.red2online_fi_mistakes(ldim, k)
        assert littlestone_dimension(induced).value <= bound + 1e-9
        tight += moved > before
    assert tight > 10  # moving does raise the dimension


@pytest.mark.claim("03.05")
def test_sample_sizes_and_dimension_bounds_have_the_listed_values() -> None:
    upper = {(1, 1): 2, (1, 2): 3, (1, 4): 4, (1, 8): 5, (1, 16): 6, (1, 64): 9, (2, 4): 10,
             (3, 4): 16, (5, 8): 34, (10, 64): 105}  # fmt: skip
    assert {key: bounds.vc_induced_upper(*key) for key in upper} == upper
    realizable = {(1, 1): 313, (1, 4): 342, (1, 16): 380, (1, 64): 422, (3, 1): 748, (3, 64): 1081}
    assert {key: bounds.pac_T_realizable(*key) for key in realizable} == realizable
    agnostic = {(1, 1): 53286, (1, 4): 56400, (3, 16): 156997}
    assert {key: bounds.pac_T_agnostic(*key) for key in agnostic} == agnostic
    assert bounds.unknown_graph_T1(1, math.log(100)) == 258832
    assert bounds.unknown_graph_T1(4, math.log(100)) == 4141301


@pytest.mark.claim("03.05")
@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 3), (3, 16)])
def test_sample_sizes_are_the_smallest_that_satisfy_their_inequality(d: int, k: int) -> None:
    def phi(m: int) -> int:
        return sum(math.comb(m, i) for i in range(d + 1))

    T = bounds.pac_T_realizable(d, k)
    left = [2 * phi(2 * t * (k + 1)) * 2.0 ** (-0.1 * t / 2) for t in (T - 1, T)]
    assert left[1] <= 0.05 < left[0]
    T = bounds.pac_T_agnostic(d, k)
    left = [math.log(4 * phi(2 * t * (k + 1))) - (0.05) ** 2 * t / 8 for t in (T - 1, T)]
    assert left[1] <= math.log(0.05) < left[0]
    n = bounds.vc_induced_upper(d, k)
    assert 2**n <= phi(n * (k + 1))
    assert 2 ** (n + 1) > phi((n + 1) * (k + 1))


def most_mistakes(learner: SOA, alive: np.ndarray, labels: np.ndarray) -> int:
    """Worst case over all realizable sequences, by following every possible mistake."""
    worst = 0
    for x in range(labels.shape[1]):
        y = 1 - int(learner.predict(x))
        left = alive & (labels[:, x] == bool(y))
        if left.any():
            worst = max(worst, 1 + most_mistakes(learner.updated(x, y), left, labels))
    return worst


@pytest.mark.claim("03.06")
@pytest.mark.parametrize("tie", [0, 1])
def test_soa_errs_exactly_the_littlestone_dimension_in_the_worst_case(tie: int) -> None:
    rng = np.random.default_rng(3)
    for _ in range(150):
        rules = random_class(rng, int(rng.integers(1, 9)), int(rng.integers(1, 6)), share=0.5)
        everything = np.ones(len(rules), dtype=bool)
        worst = most_mistakes(SOA(rules, tie=tie), everything, rules.labels)
        assert worst == littlestone_dimension(rules).value


@pytest.mark.claim("03.06")
def test_standard_learners_keep_their_mistake_bounds() -> None:
    rng = np.random.default_rng(4)
    for _ in range(40):
        p = 12
        literals = rng.choice(p, size=2, replace=False)
        bits = (rng.random((300, p)) < 0.25).astype(int)
        truth = bits[:, literals].any(axis=1).astype(int)
        for learner in (WinnowLearner(p, r=2), DisjunctionElimination(p)):
            assert run(learner, bits, truth) <= learner.mistake_bound
        w = rng.normal(size=3)
        w /= np.linalg.norm(w)
        points = rng.uniform(-1, 1, size=(400, 3))
        points = points[np.abs(points @ w) >= 0.1]
        R = float(np.linalg.norm(points, axis=1).max())
        learner = PerceptronLearner(3, R, 0.1)
        assert run(learner, points, (points @ w > 0).astype(int)) <= learner.mistake_bound
        cut = int(rng.integers(0, 32))
        grid = rng.integers(0, 31, size=200)
        assert run(GridThreshold(31), grid, (grid >= cut).astype(int)) <= 5
        spot = int(rng.integers(0, 9))
        nodes = rng.integers(0, 9, size=50)
        assert run(SingletonLearner(), nodes, (nodes == spot).astype(int)) <= 1


def run(learner, points, labels) -> int:
    mistakes = 0
    for z, y in zip(points, labels):
        if int(np.asarray(learner.predict(np.asarray([z])))[0]) != y:
            mistakes += 1
            state, learner = learner.key(), learner.updated(z, int(y))
            assert learner.key() != state
            assert not learner.is_dead()
    return mistakes
