"""StrategicERM: all exact backends agree with each other and with enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.strategic import (
    LocalGraph,
    ManipulationGraph,
    StrategicERM,
    StrategyUnawareERM,
    finite_erm,
    graph_instances,
    strategic_accuracy,
)


def grid_sample(rng: np.random.Generator, T: int, size: int = 4, k: int = 2):
    """Points on an integer grid (duplicates, collinear triples) with random moves and labels."""
    points = np.stack(np.meshgrid(np.arange(size), np.arange(size)), axis=-1).reshape(-1, 2)
    points = points.astype(float)
    lists = [
        rng.choice(np.delete(np.arange(len(points)), x), size=int(rng.integers(0, k + 1)),
                   replace=False).tolist()
        for x in range(len(points))
    ]  # fmt: skip
    graph = ManipulationGraph.from_lists(lists, features=points)
    nodes = rng.integers(0, len(points), size=T)
    y = rng.integers(0, 2, size=T)
    y[:2] = 0, 1
    return points, graph, nodes, y


def enumerated(points, graph: ManipulationGraph, nodes, y) -> float:
    """Least strategic loss over all halfspace labelings of all points."""
    used = np.unique(np.concatenate([graph.closed(int(x)) for x in nodes]))
    traces = FiniteClass.halfspaces_2d(points[used]).labels
    rows = np.zeros((len(traces), graph.n), dtype=bool)
    rows[:, used] = traces
    return finite_erm(FiniteClass.from_matrix(rows), nodes, y, graph)[1] / len(y)


@pytest.mark.claim("03.21")
def test_exact_plane_matches_enumeration_on_grids() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        points, graph, nodes, y = grid_sample(rng, 14)
        model = StrategicERM("halfspace2d_exact").fit(points[nodes], y, graph=graph)
        assert model.optimal_
        assert model.loss_ == pytest.approx(enumerated(points, graph, nodes, y), abs=1e-12)
        achieved = 1 - strategic_accuracy(model, points[nodes], y, graph=graph)
        assert achieved == pytest.approx(model.loss_, abs=1e-12)


@pytest.mark.claim("03.21")
def test_milp_and_heuristic_against_the_optimum() -> None:
    rng = np.random.default_rng(1)
    worse = 0
    for _ in range(50):
        points, graph, nodes, y = grid_sample(rng, 9, size=3, k=1)
        X = points[nodes]
        best = StrategicERM("halfspace2d_exact").fit(X, y, graph=graph).loss_
        milp = StrategicERM("halfspace_milp", time_limit=20).fit(X, y, graph=graph)
        assert milp.optimal_
        assert milp.loss_ == pytest.approx(best, abs=1e-12)
        quick = StrategicERM("halfspace_heuristic", restarts=3, random_state=0)
        quick.fit(X, y, graph=graph)
        assert quick.loss_ >= best - 1e-12
        worse += quick.loss_ > best + 1e-12
        if quick.loss_ > 0:
            assert not quick.optimal_
    assert worse < 50


@pytest.mark.claim("03.21")
def test_thresholds_match_all_cuts_and_the_finite_backend() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        n = 12
        features = np.sort(rng.normal(size=n))[:, None]
        lists = [
            rng.choice(np.delete(np.arange(n), x), size=int(rng.integers(0, 3)), replace=False)
            for x in range(n)
        ]
        graph = ManipulationGraph.from_lists(lists, features=features)
        nodes, y = rng.integers(0, n, size=20), rng.integers(0, 2, size=20)
        y[:2] = 0, 1
        X = features[nodes]
        cuts = [-np.inf, *features[:, 0], np.inf]
        rules = [lambda Z, b=b: (Z[:, 0] >= b).astype(int) for b in cuts]
        table = FiniteClass.from_matrix(np.array([features[:, 0] >= b for b in cuts]))
        best = finite_erm(table, nodes, y, graph)[1] / len(y)
        line = StrategicERM("threshold1d").fit(X, y, graph=graph)
        listed = StrategicERM("finite", hypotheses=rules).fit(X, y, graph=graph)
        assert line.loss_ == pytest.approx(best)
        assert listed.loss_ == pytest.approx(best)
        assert line.optimal_
        assert listed.optimal_
        assert listed.best_ == listed.minimisers_[0]
        assert 1 - strategic_accuracy(line, X, y, graph=graph) == pytest.approx(best)


@pytest.mark.claim("03.21")
def test_weights_count_like_copies_and_zero_weights_like_absence() -> None:
    rng = np.random.default_rng(3)
    points, graph, nodes, y = grid_sample(rng, 20)
    weights = rng.integers(0, 4, size=20)
    weights[:2] = 1
    X = points[nodes]
    weighted = StrategicERM("halfspace2d_exact").fit(X, y, graph=graph, sample_weight=weights)
    copied = StrategicERM("halfspace2d_exact").fit(
        np.repeat(X, weights, axis=0), np.repeat(y, weights), graph=graph
    )
    assert weighted.loss_ == pytest.approx(copied.loss_, abs=1e-12)


def test_local_graphs_and_listed_graphs_give_the_same_rule() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=30) > 0).astype(int)
    shift = LocalGraph(lambda x: x + np.array([[0.4, 0.0], [0.0, 0.4]]), k=2)
    lists = [[30 + 2 * i, 31 + 2 * i] for i in range(30)] + [[] for _ in range(60)]
    steps = np.array([[0.4, 0.0], [0.0, 0.4]])
    moved = np.concatenate([x + steps for x in X])
    listed = ManipulationGraph.from_lists(lists, features=np.vstack([X, moved]))
    a = StrategicERM("halfspace2d_exact").fit(X, y, graph=shift)
    b = StrategicERM("halfspace2d_exact").fit(X, y, graph=listed)
    c = StrategicERM("halfspace2d_exact").fit(X, y, neighbors=shift.function)
    assert a.loss_ == b.loss_ == c.loss_
    assert (a.predict_induced(X, shift) == b.predict_induced(X, listed)).all()


def test_strategy_unaware_learning_stays_at_one_half() -> None:
    # On the code instance every rule rejects every centre; only moving reveals the code.
    instance = graph_instances.binary_code_instance(8, 1)
    centres = np.array(instance.expected["centres"])
    rng = np.random.default_rng(5)
    induced = instance.graph.induced(instance.hypotheses.labels)[:, centres]
    losses, aware = [], []
    for _ in range(400):
        target = int(rng.integers(len(instance.hypotheses)))
        x = rng.integers(0, 3, size=12)
        y = induced[target, x].astype(int)
        naive = StrategyUnawareERM(instance.hypotheses).fit(centres[x], y).best
        losses.append((induced[naive] != induced[target]).mean())
        best = finite_erm(instance.hypotheses, centres[x], y, instance.graph)[0]
        aware.append((induced[best] != induced[target]).mean())
    assert abs(np.mean(losses) - 0.5) < 5 * 0.3 / 20
    assert np.mean(aware) == pytest.approx(0.5 * (2 / 3) ** 12, abs=5 * 0.05 / 20)


def test_auto_says_which_backend_ran() -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int)
    assert StrategicERM(random_state=0, restarts=2).fit(X, y).backend_ == "halfspace_heuristic"
    assert StrategicERM().fit(X[:, :1], y).backend_ == "threshold1d"
    assert StrategicERM().fit(X[:40, :2], y[:40]).backend_ == "halfspace2d_exact"
    assert StrategicERM().fit(X[:10], np.arange(10) % 2).backend_ == "halfspace_milp"
