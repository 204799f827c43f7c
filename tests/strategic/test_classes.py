"""Distances to acceptance: exact for every class, norm and price."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.strategic import Agents, EstimatorClass, LinearClass
from counterplay.strategic.lab import (
    BoxClass,
    DistanceTableClass,
    FiniteMetricClass,
    GraphMetric,
    GraphMetricClass,
    HypothesisClass,
    NormMetric,
    PermutationMetricClass,
    RuleSetClass,
    TableMetric,
    TabulatedClass,
    ThresholdClass,
    UnionPredictor,
)

NORMS = [1, 2, np.inf]


def cheapest_move(w: np.ndarray, gap: float, norm: float, costs: np.ndarray) -> float:
    """Solve min ||costs * move|| subject to w . move >= gap with a generic solver."""
    free = np.isfinite(costs)
    w, costs = w[free], costs[free]
    d = w.size
    if norm == 1:
        c = np.concatenate([costs, costs])
        found = linprog(c, A_ub=-np.concatenate([w, -w])[None], b_ub=[-gap])
        return float(found.fun)
    if norm == np.inf:
        # Variables: move, t; minimise t with costs |move| <= t.
        eye = np.diag(costs)
        A = np.vstack([np.hstack([eye, -np.ones((d, 1))]), np.hstack([-eye, -np.ones((d, 1))])])
        A = np.vstack([A, np.append(-w, 0.0)])
        b = np.append(np.zeros(2 * d), -gap)
        found = linprog(
            np.append(np.zeros(d), 1.0), A_ub=A, b_ub=b, bounds=[(None, None)] * (d + 1)
        )
        return float(found.fun)
    found = minimize(
        lambda v: ((costs * v) ** 2).sum(),
        w * gap / (w @ w),
        constraints={"type": "eq", "fun": lambda v: w @ v - gap},
    )
    return math.sqrt(float(found.fun))


@pytest.mark.claim("02.37")
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("immovable", [False, True])
def test_linear_distance_is_the_cheapest_move(norm: float, immovable: bool) -> None:
    rng = np.random.default_rng(int(immovable))
    for _ in range(12):
        d = 4
        w, b, x = rng.normal(size=d), float(rng.normal()), rng.normal(size=d)
        costs = rng.uniform(0.5, 3.0, size=d)
        if immovable:
            costs[1] = np.inf
        rules = LinearClass(w[None], [b], norm=norm, costs=costs)
        distance = float(rules.distances(x[None])[0, 0])
        gap = b - w @ x
        if gap <= 0:
            assert distance == 0.0
            continue
        assert distance == pytest.approx(cheapest_move(w, gap, norm, costs), rel=1e-4)
        goal = rules.nearest(x[None], [0])[0]
        assert w @ goal == pytest.approx(b)
        assert NormMetric(norm, costs).length(goal - x)[0] == pytest.approx(distance)
        if immovable:
            assert goal[1] == x[1]


@pytest.mark.claim("02.37")
def test_linear_rules_without_movable_weight() -> None:
    rules = LinearClass([[0.0, 0.0], [0.0, 0.0], [0.0, 1.0]], [0.0, 1.0, 0.5], costs=[1, np.inf])
    D = rules.distances([[0.0, 0.0], [0.0, 1.0]])
    assert D.tolist() == [[0.0, np.inf, np.inf], [0.0, np.inf, 0.0]]
    agents = Agents(X=[[0.0, 0.0], [0.0, 1.0]], y=[0, 1], radius=[5.0, 5.0])
    assert agents.accepted(rules).tolist() == [[True, False, False], [True, False, True]]
    assert np.array_equal(agents.losses(rules), agents.accepted(rules) != agents.y[:, None])


@pytest.mark.claim("02.37")
def test_integer_scores_on_the_boundary_are_accepted() -> None:
    """An applicant exactly on the threshold is accepted, whatever the norm of the weights."""
    rng = np.random.default_rng(1)
    W = rng.integers(-9, 10, size=(200, 5)).astype(float)
    X = rng.integers(-9, 10, size=(200, 5)).astype(float)
    b = np.einsum("ij,ij->i", W, X)
    rules = LinearClass(W, b)
    assert np.diagonal(rules.predict(X)).all()
    assert (np.diagonal(rules.distances(X)) == 0).all()


@pytest.mark.claim("02.37")
@pytest.mark.parametrize("norm", NORMS)
def test_boxes_match_a_generic_solver(norm: float) -> None:
    rng = np.random.default_rng(2)
    d = 3
    for _ in range(15):
        lower = rng.normal(size=(2, d)) - 0.5
        upper = lower + rng.random((2, d))
        lower[0, 0], upper[1, 2] = -np.inf, np.inf
        costs = rng.uniform(0.5, 2.0, size=d)
        rules = RuleSetClass([(lower, upper)], norm=norm, costs=costs)
        metric = NormMetric(norm, costs)
        x = rng.normal(size=d) * 2
        grid = [metric.length(np.clip(x, lo, hi) - x)[0] for lo, hi in zip(lower, upper)]
        assert rules.distances(x[None])[0, 0] == pytest.approx(min(grid))
        goal = rules.nearest(x[None], [0])[0]
        assert rules.distances(goal[None])[0, 0] == 0
        assert metric.length(goal - x)[0] == pytest.approx(min(grid))
        # No point of either box is closer (random search).
        low, high = np.maximum(lower, -5), np.minimum(upper, 5)
        inside = low[:, None] + rng.random((2, 300, d)) * (high - low)[:, None]
        assert (metric.length(inside.reshape(-1, d) - x) >= min(grid) - 1e-12).all()


@pytest.mark.claim("02.37")
@pytest.mark.parametrize("norm", NORMS)
def test_trees_agree_with_their_own_predictions(norm: float) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] * X[:, 1] > 0.2).astype(int)
    trees = [DecisionTreeClassifier(max_depth=k, random_state=0).fit(X, y) for k in (2, 5, None)]
    costs = np.array([1.0, 2.0, np.inf])
    rules = RuleSetClass.from_trees(trees, norm=norm, costs=costs)
    Z = rng.normal(size=(400, 3))
    D = rules.distances(Z)
    metric = NormMetric(norm, costs)
    for k, tree in enumerate(trees):
        accepted = tree.predict(Z) == 1
        assert np.array_equal(D[:, k] == 0, accepted)
        reachable = np.isfinite(D[:, k])
        goals = rules.nearest(Z[reachable], np.full(reachable.sum(), k))
        assert (tree.predict(goals) == 1).all()
        assert np.allclose(metric.length(goals - Z[reachable]), D[reachable, k])
        assert (goals[:, 2] == Z[reachable][:, 2]).all()
        # Nobody within the distance is accepted (dense random moves, slightly shorter).
        some = np.flatnonzero(reachable & ~accepted)[:20]
        for i in some:
            moves = rng.normal(size=(300, 3))
            moves[:, 2] = 0.0
            shorter = moves / metric.length(moves)[:, None] * D[i, k] * rng.random((300, 1)) * 0.999
            assert not (tree.predict(Z[i] + shorter) == 1).any()


@pytest.mark.claim("02.37")
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_rule_lists_decide_like_their_first_matching_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rules = []
    for _ in range(int(rng.integers(1, 5))):
        conditions = {}
        for j in range(2):
            if rng.random() < 0.7:
                ends = np.sort(rng.integers(0, 6, size=2)).astype(float)
                low = None if rng.random() < 0.3 else ends[0]
                high = None if rng.random() < 0.3 else ends[1]
                conditions[j] = (low, high)
        rules.append((conditions, bool(rng.random() < 0.5)))
    catalogue = RuleSetClass.from_rule_lists([rules], n_features=2)

    def decide(x: np.ndarray) -> bool:
        for conditions, accept in rules:
            if all(
                (low is None or x[j] >= low) and (high is None or x[j] <= high)
                for j, (low, high) in conditions.items()
            ):
                return accept
        return False

    grid = np.stack(np.meshgrid(np.arange(0, 6, 0.5), np.arange(0, 6, 0.5)), -1).reshape(-1, 2)
    assert catalogue.predict(grid)[:, 0].tolist() == [decide(x) for x in grid]


def test_thresholds() -> None:
    rules = ThresholdClass([1.0, 3.0], column=[0, 1], direction=["up", "down"], costs=[1.0, 2.0])
    assert rules.distances([[0.0, 5.0]]).tolist() == [[1.0, 4.0]]
    with pytest.raises(InvalidInputError, match="direction"):
        ThresholdClass([1.0], direction="sideways")
    with pytest.raises(InvalidInputError, match="column"):
        ThresholdClass([1.0], column=3, n_features=2)


def test_graph_distances_equal_all_pairs_shortest_paths() -> None:
    graph = nx.gnp_random_graph(30, 0.12, seed=1)
    rng = np.random.default_rng(0)
    for u, v in graph.edges:
        graph.edges[u, v]["weight"] = float(rng.integers(1, 5))
    rules = rng.random((6, 30)) < 0.15
    rules[0] = False
    catalogue = GraphMetricClass(graph, rules)
    lengths = dict(nx.all_pairs_dijkstra_path_length(graph))
    for x in range(30):
        for h in range(6):
            expected = min(
                (lengths[x].get(z, np.inf) for z in np.flatnonzero(rules[h])), default=np.inf
            )
            assert catalogue.distances([x])[0, h] == expected
    reachable = np.isfinite(catalogue.table[:, 1])
    goals = catalogue.nearest(np.flatnonzero(reachable), np.ones(reachable.sum(), dtype=int))
    assert rules[1][goals].all()


def test_estimator_class_moves_within_the_pool() -> None:
    rng = np.random.default_rng(4)
    pool = rng.normal(size=(200, 3))
    forest = [
        RandomForestClassifier(10, random_state=s).fit(pool, pool[:, s] > 0) for s in range(2)
    ]
    for costs in (None, [1.0, 2.0, 0.5], [1.0, np.inf, 1.0]):
        catalogue = EstimatorClass(forest, pool, costs=costs)
        Z = rng.normal(size=(40, 3))
        D = catalogue.distances(Z)
        metric = NormMetric(2, costs)
        for k, model in enumerate(forest):
            accepted = pool[model.predict(pool)]
            brute = metric.pairwise(Z, accepted).min(axis=1)
            brute[model.predict(Z)] = 0.0
            assert np.allclose(D[:, k], brute)
        goals = catalogue.nearest(Z, np.zeros(40, dtype=int))
        ok = np.isfinite(D[:, 0])
        assert forest[0].predict(goals[ok]).all()


def test_linear_class_from_estimators_folds_pipelines() -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 4)) * [1, 10, 0.1, 3] + 5
    y = (X[:, 0] + X[:, 1] > 10).astype(int)
    models = [
        LogisticRegression(max_iter=5000).fit(X, y),
        make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y),
    ]
    rules = LinearClass.from_estimators(models)
    assert np.array_equal(rules.predict(X).T.astype(int), [m.predict(X) for m in models])
    with pytest.raises(InvalidInputError, match="no fitted binary linear model"):
        LinearClass.from_estimators([RandomForestClassifier().fit(X, y)])


def test_union_distance_is_the_smallest() -> None:
    rng = np.random.default_rng(6)
    rules = LinearClass(rng.normal(size=(12, 3)), rng.normal(size=12))
    X = rng.normal(size=(50, 3))
    members = [1, 4, 9]
    union = UnionPredictor(rules, members)
    assert np.array_equal(union.distance(X), rules.distances(X)[:, members].min(axis=1))
    agents = Agents(X=X, y=np.zeros(50), radius=0.4)
    each = agents.accepted(rules, members)
    assert np.array_equal(union.accepted(agents), each.any(axis=1))
    reported, accepted = union.respond(agents)
    moved = accepted & (union.predict(X) == 0)
    assert np.allclose(reported[~moved], X[~moved])
    assert np.allclose(NormMetric().length(reported - X)[moved], union.distance(X)[moved])


def test_loss_table_is_the_formula() -> None:
    rng = np.random.default_rng(7)
    rules = LinearClass(rng.normal(size=(30, 4)), rng.normal(size=30), norm=1)
    X, r = rng.normal(size=(500, 4)), rng.exponential(0.5, 500)
    agents = Agents.from_target(rules, X, radius=r, target=11)
    D = rules.distances(X)
    expected = (r[:, None] >= D) != (agents.y[:, None] > 0)
    assert np.array_equal(agents.losses(rules), expected)
    assert not expected[:, 11].any()
    tight = Agents(X=X, y=np.ones(500), radius=D[:, 3])  # radius exactly on a distance
    assert not tight.losses(rules)[:, 3].any()


def test_duplicates_warn_and_can_be_merged() -> None:
    line = np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    rules = [[0, 0, 1], [0, 1, 1], [0, 0, 1]]
    with pytest.warns(AssumptionWarning, match="dedupe=True"):
        assert FiniteMetricClass(line, rules).n == 3
    merged = FiniteMetricClass(line, rules, dedupe=True)
    assert merged.n == 2
    assert merged.original.tolist() == [0, 1]
    linear = LinearClass([[1.0], [2.0], [1.0]], [1.0, 2.0, 3.0])
    assert linear.distinct_members([[0.0], [5.0]]).tolist() == [0, 2]


def test_permutation_class_matches_euclid() -> None:
    rules = PermutationMetricClass(5)
    rng = np.random.default_rng(8)
    c = np.array([rng.permutation(5) for _ in range(10)] + [np.zeros(5, dtype=int)])
    points = c / rules.metric.z
    euclid = np.sqrt(((points[:, None] - np.eye(5)[None]) ** 2).sum(axis=2))
    assert np.allclose(rules.distances(c), euclid)
    between = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    assert np.allclose(rules.metric.pairwise(c, c), between)
    basis = rules.basis([0, 3])
    assert np.allclose(rules.metric.pairwise(basis, basis), [[0, 2**0.5], [2**0.5, 0]])
    assert np.allclose(rules.metric.pairwise(basis, c), euclid[:, [0, 3]].T)


def test_tabulated_class_is_the_same_table() -> None:
    rng = np.random.default_rng(9)
    rules = LinearClass(rng.normal(size=(5, 2)), rng.normal(size=5))
    X = rng.normal(size=(7, 2))
    table = TabulatedClass(rules, X)
    assert np.array_equal(table.distances(np.arange(7)), rules.distances(X))
    assert np.allclose(table.nearest([2, 3], [0, 1]), rules.nearest(X[[2, 3]], [0, 1]))
    assert table.n == len(table) == 5
    with pytest.raises(InvalidInputError, match="point 7 does not exist"):
        table.distances([7])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LinearClass(np.empty((0, 2)), []), "at least one rule"),
        (lambda: LinearClass([[1.0]], [1.0, 2.0]), "1 rules but 2 thresholds"),
        (lambda: LinearClass([[np.nan]], [1.0]), "finite"),
        (lambda: LinearClass([[1.0]], [1.0], norm=3), "norm"),
        (lambda: LinearClass([[1.0, 2.0]], [1.0], costs=[1.0]), "2 features but 1 costs"),
        (lambda: LinearClass([[1.0]], [1.0], costs=[0.0]), "positive"),
        (lambda: LinearClass([[1.0]], [1.0]).distances([[1.0, 2.0]]), "1 features, got 2"),
        (lambda: LinearClass([[1.0]], [1.0]).distances([[1.0]], [1]), "hypothesis 1 does not"),
        (lambda: LinearClass([[1.0]], [1.0]).distances([[1.0]], [0.5]), "must be integers"),
        (lambda: DistanceTableClass(0), "at least 1"),
        (lambda: DistanceTableClass(2).distances([[1.0, -1.0]]), "NaN or negative"),
        (lambda: DistanceTableClass(2).distances([[1.0, np.nan]]), "NaN or negative"),
        (lambda: DistanceTableClass(2).distances([[1.0]]), "rows of 2 distances"),
        (lambda: TableMetric([[0, 1], [2, 0]]), "symmetric"),
        (lambda: TableMetric([[1, 1], [1, 0]]), "diagonal"),
        (lambda: TableMetric([[0, np.nan], [np.nan, 0]]), "NaN"),
        (lambda: TableMetric([[0, 1, 5], [1, 0, 1], [5, 1, 0]]), "triangle"),
        (lambda: TableMetric([[0, 1]]), "square"),
        (lambda: FiniteMetricClass([[0.0]], [[0, 1]]), "one column per point"),
        (lambda: FiniteMetricClass([[0.0]], [[2]]), "True/False"),
        (lambda: GraphMetric(nx.DiGraph([(0, 1)])), "undirected"),
        (lambda: GraphMetric(np.array([[0.0, 1.0], [2.0, 0.0]])), "symmetric"),
        (lambda: GraphMetric(np.array([[0.0, -1.0], [-1.0, 0.0]])), "negative"),
        (lambda: BoxClass([[1.0]], [[0.0]]), "is empty"),
        (lambda: BoxClass([[np.nan]], [[0.0]]), "NaN"),
        (lambda: RuleSetClass([]), "at least one rule"),
        (lambda: RuleSetClass.from_rule_lists([[({3: (0, 1)}, True)]], 2), "column 3"),
        (lambda: EstimatorClass([], [[1.0]]), "at least one fitted"),
        (lambda: PermutationMetricClass(1), "at least 2"),
        (lambda: PermutationMetricClass(3).distances([[0, 1]]), "rows of 3 integers"),
        (lambda: LinearClass([[1.0]], [1.0]).positive_sets(), "finite space"),
    ],
)
def test_bad_input_is_named(call: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_large_tables_are_checked_by_sample_and_can_be_trusted() -> None:
    rng = np.random.default_rng(10)
    points = rng.normal(size=(320, 2))
    dist = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    dist = (dist + dist.T) / 2
    TableMetric(dist)
    broken = dist**3
    with pytest.raises(InvalidInputError, match="check_metric=False"):
        TableMetric(broken)
    assert TableMetric(broken, check_metric=False).size == 320


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"X": [[1.0]], "y": [-1], "radius": 0.0}, "two classes are needed"),
        ({"X": [[1.0]], "y": [2], "radius": 0.0}, "labels of y are 2"),
        ({"X": [[1.0]], "y": [1], "radius": -0.1}, "agent 0 has -0.1"),
        ({"X": [[1.0]], "y": [1], "radius": np.nan}, "finite"),
        ({"X": [[1.0]], "y": [1], "radius": np.inf}, "finite"),
        ({"X": [[1.0]], "y": [1, 0], "radius": 0.0}, "2 labels for 1 rows"),
        ({"X": [[1.0]], "y": [1], "radius": [1.0, 2.0]}, "one number or one per agent"),
        ({"X": [1.0], "y": [1], "radius": 0.0}, "X\\[:, None\\]"),
        ({"X": [[1.0]], "y": [1]}, "exactly one"),
        ({"X": [[1.0]], "y": [1], "sets": [[1]]}, "point numbers"),
        ({"X": [3], "y": [1], "sets": [[1, 0]]}, "between 0 and 1"),
    ],
)
def test_bad_agents_are_named(kwargs: dict, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Agents(**kwargs)


def test_tolerance_is_opt_in() -> None:
    rules = ThresholdClass([0.3])
    x = [[0.1 + 0.2 - 0.3]]  # 5.6e-17, not 0
    exact = Agents(X=[[0.0]], y=[1], radius=0.3 - 1e-12)
    loose = Agents(X=[[0.0]], y=[1], radius=0.3 - 1e-12, atol=1e-9)
    assert not exact.accepted(rules)[0, 0]
    assert loose.accepted(rules)[0, 0]
    assert isinstance(rules, HypothesisClass)
    assert x[0][0] != 0
