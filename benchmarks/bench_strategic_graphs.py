"""Speed of learning on manipulation graphs, as ratios from one run."""

from __future__ import annotations

import time
import warnings

import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from counterplay.core.dimensions import littlestone_dimension
from counterplay.core.finite_class import FiniteClass
from counterplay.core.online import Halving
from counterplay.strategic import (
    GraphGame,
    ManipulationGraph,
    Mode,
    Red2OnlinePMF,
    StrategicERM,
    StrategicLinearClassifier,
    graph_instances,
)


def timed(job):
    start = time.perf_counter()
    result = job()
    return result, time.perf_counter() - start


def best_of(repeats: int, job):
    runs = [timed(job) for _ in range(repeats)]
    return runs[0][0], min(seconds for _, seconds in runs)


def exact_plane(T: int = 80, k: int = 3) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(T, 2))
    moved = np.concatenate([x + 0.3 * rng.normal(size=(k, 2)) for x in X])
    lists = [list(range(T + k * i, T + k * (i + 1))) for i in range(T)] + [[] for _ in moved]
    graph = ManipulationGraph.from_lists(lists, features=np.vstack([X, moved]))
    w = np.array([1.0, 0.5])
    scores = np.array([(graph.features[graph.closed(i)] @ w).max() for i in range(T)])
    y = (scores > np.median(scores)).astype(int) ^ (rng.random(T) < 0.1)
    StrategicERM("halfspace2d_exact").fit(X[:9], np.arange(9) % 2, graph=graph)  # compile
    exact, ours = timed(lambda: StrategicERM("halfspace2d_exact").fit(X, y, graph=graph))
    print(f"best halfspace in the plane, T={T}, k={k}, 10 % noise")
    print(f"  all directions       {ours:8.2f} s   {round(exact.loss_ * T)} errors, optimal")
    limit = 300.0
    milp, other = timed(
        lambda: StrategicERM("halfspace_milp", time_limit=limit).fit(X, y, graph=graph)
    )
    state = "optimal" if milp.optimal_ else f"stopped, gap {milp.gap_:.0%}"
    print(f"  MILP (HiGHS)         {other:8.2f} s   {round(milp.loss_ * T)} errors, {state}")
    print(f"  ratio {other / ours:.1f} (bar: 10)")


def linear_bags(n: int = 30_000, p: int = 20, k: int = 8) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, p))
    y = (X @ rng.normal(size=p) + rng.normal(size=n) > 0).astype(int)
    steps = 0.5 * rng.normal(size=(k, p))
    moved = (X[:, None, :] + steps[None]).reshape(-1, p)
    indptr = np.concatenate([np.arange(n + 1) * k, np.full(n * k, n * k)])
    graph = ManipulationGraph(
        indptr.astype(np.int64), np.arange(n, n + n * k, dtype=np.int64), np.vstack([X, moved])
    )
    plain = min(timed(lambda: LogisticRegression().fit(X, y))[1] for _ in range(3))
    model, ours = timed(lambda: StrategicLinearClassifier().fit(X, y, graph=graph))
    points, _ = timed(lambda: graph.bag_points(X))
    stacked = points[0]
    labels = np.repeat(y, k + 1)[: len(stacked)]
    same = timed(lambda: LogisticRegression().fit(stacked, labels))[1]
    ball = min(timed(lambda: StrategicLinearClassifier(0.5).fit(X, y))[1] for _ in range(3))
    print(f"linear classifier, {n} x {p}, bags of {k + 1} points")
    print(f"  LogisticRegression on the rows        {plain:8.3f} s")
    print(f"  LogisticRegression on all bag points  {same:8.3f} s")
    print(f"  StrategicLinearClassifier, radius     {ball:8.3f} s   {ball / plain:.1f}x")
    print(f"  StrategicLinearClassifier, graph      {ours:8.3f} s   {ours / plain:.1f}x (bar: 10)")
    print(f"  strategic training error {model.loss_:.3f}, {model.n_iter_} iterations")


def budget_workload(n: int = 6000, m: int = 2000, p: int = 10, radius: float = 0.5) -> None:
    rng = np.random.default_rng(2)
    w = rng.normal(size=p) / np.sqrt(p)
    X = rng.normal(size=(n + m, p))
    y = (X @ w + 0.3 * rng.normal(size=n + m) > 0).astype(int)
    model, ours = best_of(5, lambda: StrategicLinearClassifier(radius).fit(X[:n], y[:n]))
    (u, b), reference = best_of(5, lambda: strategic_hinge(X[:n], y[:n], radius))

    def accuracy(weights, offset) -> float:
        gamed = X[n:] @ weights + offset + radius * np.linalg.norm(weights) >= 0
        return float((gamed == y[n:]).mean())

    print(f"L2 budget {radius}, {n} train, {m} test, d={p}")
    mine = accuracy(model.coef_[0], model.intercept_[0])
    print(f"  StrategicLinearClassifier      {ours:8.3f} s   gamed accuracy {mine:.3f}")
    print(
        f"  strategic hinge by L-BFGS      {reference:8.3f} s   gamed accuracy {accuracy(u, b):.3f}"
    )
    print(f"  ratio {reference / ours:.1f}")
    try:
        import strategic_ml  # noqa: F401  # only to see whether the peer is there
    except ImportError:
        print("  strategic-ml is not installed; skipped")


def strategic_hinge(X, y, radius: float):
    """Mean hinge loss of the score after the best move, with a small ridge: plain NumPy."""
    s = 2.0 * y - 1

    def objective(theta):
        w, b = theta[:-1], theta[-1]
        length = max(float(np.linalg.norm(w)), 1e-12)
        margin = 1 - s * (X @ w + b + radius * length)
        active = (margin > 0) * s / len(s)
        slope = -(active @ X) - active.sum() * radius * w / length + 1e-3 * w
        value = np.maximum(margin, 0).mean() + 5e-4 * float(w @ w)
        return value, np.append(slope, -active.sum())

    start = np.append(np.full(X.shape[1], 0.1), 0.0)
    theta = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 500}).x
    return theta[:-1], theta[-1]


def littlestone(r: int = 40, k: int = 4) -> None:
    trap = graph_instances.halving_trap(r, k)
    small = graph_instances.halving_trap(3, k)
    littlestone_dimension(small.hypotheses)
    tree, seconds = timed(lambda: littlestone_dimension(trap.hypotheses))
    size = len(trap.hypotheses)
    print(f"Littlestone dimension of {size} hypotheses on {trap.hypotheses.n_points} points")
    print(f"  dimension {tree.value} with certificate in {seconds:.2f} s")


def hidden_round(n: int = 2000) -> None:
    rng = np.random.default_rng(3)
    points = rng.normal(size=(n, 2))
    w, b = rng.normal(size=(2000, 2)), 0.5 * rng.normal(size=2000)
    rules = FiniteClass.from_matrix(w @ points.T >= b[:, None])  # a trace of halfspaces
    lists = [rng.choice(np.delete(np.arange(n), x), 4, replace=False) for x in range(n)]
    graph = ManipulationGraph.from_lists(lists)
    truth = graph.induced(rules.labels[7][None, :])[0]
    nodes = rng.integers(0, n, size=300)
    learner = Red2OnlinePMF(Halving(rules), 4)
    game = GraphGame(graph, Mode.PMF_V)
    played, seconds = timed(lambda: game.play(learner, nodes, truth[nodes]))
    print(f"hidden features, {n} nodes, 2000 halfspaces, Halving experts: {played.summary()}")
    print(f"  {1e3 * seconds / 300:.2f} ms per round (bar: 50)")


def main() -> None:
    warnings.filterwarnings("ignore")
    for part in (littlestone, hidden_round, budget_workload, linear_bags, exact_plane):
        part()


if __name__ == "__main__":
    main()
