"""StrategicERM: all exact backends agree with each other and with enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.core.halfspaces import halfspaces_lp
from counterplay.strategic import ManipulationGraph, StrategicERM, instances, strategic_accuracy
from counterplay.strategic.lab import FiniteERM, LocalGraph, induced_predictions


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
    return float(FiniteERM(FiniteClass.from_matrix(rows)).fit(nodes, y, graph=graph).losses_.min())


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
        best = FiniteERM(table).fit(nodes, y, graph=graph).losses_.min()
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
    assert (induced_predictions(a, X, shift) == induced_predictions(b, X, listed)).all()


def test_strategy_unaware_learning_stays_at_one_half() -> None:
    # On the code instance every rule rejects every centre; only moving reveals the code.
    instance = instances.binary_code_instance(8, 1)
    centres = np.array(instance.expected["centres"])
    rng = np.random.default_rng(5)
    induced = instance.graph.induced(instance.hypotheses.labels)[:, centres]
    losses, aware = [], []
    for _ in range(400):
        target = int(rng.integers(len(instance.hypotheses)))
        x = rng.integers(0, 3, size=12)
        y = induced[target, x].astype(int)
        naive = FiniteERM(instance.hypotheses, strategic=False).fit(centres[x], y).member_
        losses.append((induced[naive] != induced[target]).mean())
        best = FiniteERM(instance.hypotheses).fit(centres[x], y, graph=instance.graph).member_
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


NEXT = float(np.nextafter(1.0, 2.0))
CLOSE = [
    ([[1.0], [NEXT]] * 3, [0, 1] * 3, 0.0),
    ([[1.6e18], [1.6e18 + 256], [1.6e18 + 512]], [0, 1, 0], 1 / 3),
    ([[1.6e18], [1.6e18], [1.6e18 + 256]], [0, 1, 0], 1 / 3),  # best: accept nobody
    ([[-1.6e18], [-1.6e18], [-1.6e18 + 256]], [1, 0, 1], 1 / 3),  # best: accept everybody
    ([[1.7e308], [-1.7e308]], [1, 0], 0.0),
    ([[5e-324], [0.0], [1e-323]], [0, 0, 1], 0.0),
]


@pytest.mark.parametrize(("X", "y", "least"), CLOSE)
def test_thresholds_between_close_values_do_what_they_say(X, y, least: float) -> None:
    """Between neighbouring floats the threshold is the upper one; at 1e18 adding 1 is lost."""
    X, y = np.array(X), np.array(y)
    line = StrategicERM("threshold1d").fit(X, y)
    assert line.optimal_
    assert line.loss_ == pytest.approx(least, abs=1e-12)
    assert np.mean(line.predict(X) != y) == pytest.approx(least, abs=1e-12)


def test_the_loss_is_that_of_the_rule_for_every_backend() -> None:
    """Whatever the scale, deciding row by row gives the loss that was reported."""
    rng = np.random.default_rng(7)
    for backend, p in (("halfspace2d_exact", 2), ("halfspace_milp", 3), ("halfspace_heuristic", 3)):
        for scale in (1.0, 1e-9, 1e9, 2.0**60):
            # neighbouring floats beside ordinary ones
            X = scale * (1 + rng.choice([0, 1, 2, 1000, 2**40], size=(14, p)) * 2.0**-52)
            y = rng.integers(0, 2, size=14)
            y[:2] = 0, 1
            model = StrategicERM(backend, time_limit=10, restarts=2, random_state=0).fit(X, y)
            alone = np.concatenate([model.predict(row[None]) for row in X])
            assert np.mean(alone != y) == pytest.approx(model.loss_, abs=1e-12)
            assert np.mean(model.predict(np.asfortranarray(X)) != y) == pytest.approx(model.loss_)


@pytest.mark.parametrize("seed", range(4))
def test_far_points_do_not_hide_the_best_halfspace(seed: int) -> None:
    """Separable data have loss 0, also with two people far away from the others."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3))
    X[0, 0], X[1, 1] = 5e4, -3e4
    y = (X @ [1, 2, -1] > 0).astype(int)
    model = StrategicERM("halfspace_milp").fit(X, y)
    assert model.loss_ == 0
    assert model.optimal_
    assert np.array_equal(model.predict(X), y)


def every_halfspace(X: np.ndarray, graph: ManipulationGraph, y: np.ndarray) -> float:
    """Least strategic loss, by linear programs for all labelings of the points."""
    traces = FiniteClass.from_matrix(halfspaces_lp((X - X.mean(axis=0)) / X.std(axis=0)))
    return float(FiniteERM(traces).fit(np.arange(len(y)), y, graph=graph).losses_.min())


@pytest.mark.parametrize("kind", ["general", "far", "grid", "unequal"])
def test_optimal_means_that_no_halfspace_is_better(kind: str) -> None:
    """The claim is checked against all halfspaces; in general position it is always made."""
    rng = np.random.default_rng(8)
    for _ in range(3):
        X = rng.normal(size=(8, 3))
        if kind == "far":
            X[0, 0], X[1, 1] = 5e4, -3e4
        if kind == "grid":
            cells = np.stack(np.meshgrid(*[np.arange(3.0)] * 3), axis=-1).reshape(-1, 3)
            X = cells[rng.choice(27, size=8, replace=False)]
        if kind == "unequal":
            X = np.exp(3 * X) * [1.0, 1e3, 1e6]
        lists = [[int(rng.integers(0, x))] if x and rng.random() < 0.5 else [] for x in range(8)]
        graph = ManipulationGraph.from_lists(lists, features=X)
        y = rng.permutation([0, 1, 0, 1, 0, 1, 0, 1])
        least = every_halfspace(X, graph, y)
        model = StrategicERM("halfspace_milp").fit(X, y, graph=graph)
        assert model.loss_ >= least - 1e-12
        assert 1 - strategic_accuracy(model, X, y, graph=graph) == pytest.approx(model.loss_)
        if model.optimal_:
            assert model.loss_ == pytest.approx(least, abs=1e-12)
        if kind in ("general", "far"):
            assert model.optimal_


def test_directions_too_close_for_floats_are_not_called_optimal() -> None:
    """In the plane the claim is checked against the exact list of all labelings."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        for far in (0.0, 1e12, 1e14):
            X = rng.normal(size=(6, 2))
            X[:3, 0] += far * rng.choice([1.0, 2.0, 3.0, -1.0], size=3)
            y = rng.permutation([0, 1] * 3)
            model = StrategicERM("halfspace2d_exact").fit(X, y)
            least = (FiniteClass.halfspaces_2d(X).labels != y).sum(axis=1).min() / 6
            assert np.mean(model.predict(X) != y) == pytest.approx(model.loss_, abs=1e-12)
            assert model.loss_ >= least - 1e-12
            if model.optimal_ or far == 0:
                assert model.loss_ == pytest.approx(least, abs=1e-12)
