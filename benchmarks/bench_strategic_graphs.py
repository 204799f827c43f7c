"""Speed of learning on manipulation graphs, as ratios from one run."""

from __future__ import annotations

import time
import warnings

import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from strategic_ml_peer import strategic_ml_hinge

from counterplay.core.finite_class import FiniteClass
from counterplay.strategic import (
    GraphApplicants,
    ManipulationGraph,
    StrategicERM,
    StrategicLinearClassifier,
    instances,
    play,
)
from counterplay.strategic.lab import (
    REPORT_ONLY_GRAPH,
    Halving,
    Red2OnlinePMF,
    littlestone_dimension,
)


def timed(job):
    start = time.perf_counter()
    result = job()
    return result, time.perf_counter() - start


def best_of(repeats: int, job):
    runs = [timed(job) for _ in range(repeats)]
    return runs[0][0], min(seconds for _, seconds in runs)


def exact_plane(n: int = 80, k: int = 3) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    moved = np.concatenate([x + 0.3 * rng.normal(size=(k, 2)) for x in X])
    lists = [list(range(n + k * i, n + k * (i + 1))) for i in range(n)] + [[] for _ in moved]
    graph = ManipulationGraph.from_lists(lists, features=np.vstack([X, moved]))
    w = np.array([1.0, 0.5])
    scores = np.array([(graph.features[graph.closed(i)] @ w).max() for i in range(n)])
    y = (scores > np.median(scores)).astype(int) ^ (rng.random(n) < 0.1)
    StrategicERM("halfspace2d_exact").fit(X[:9], np.arange(9) % 2, graph=graph)  # compile
    exact, ours = timed(lambda: StrategicERM("halfspace2d_exact").fit(X, y, graph=graph))
    print(f"best halfspace in the plane, {n} people, k={k}, 10 % noise")
    print(f"  all directions       {ours:8.2f} s   {round(exact.loss_ * n)} errors, optimal")
    limit = 300.0
    milp, other = timed(
        lambda: StrategicERM("halfspace_milp", time_limit=limit).fit(X, y, graph=graph)
    )
    state = "optimal" if milp.optimal_ else f"stopped, gap {milp.gap_:.0%}"
    print(f"  MILP (HiGHS)         {other:8.2f} s   {round(milp.loss_ * n)} errors, {state}")
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
    StrategicLinearClassifier().fit(X[:99], y[:99], graph=graph)  # compile
    model, ours = best_of(3, lambda: StrategicLinearClassifier().fit(X, y, graph=graph))
    points, _ = timed(lambda: graph.bag_points(X))
    stacked = points[0]
    labels = np.repeat(y, k + 1)[: len(stacked)]
    same = timed(lambda: LogisticRegression().fit(stacked, labels))[1]
    ball = min(timed(lambda: StrategicLinearClassifier(radius=0.5).fit(X, y))[1] for _ in range(3))
    print(f"linear classifier, {n} x {p}, bags of {k + 1} points")
    print(f"  LogisticRegression on the rows        {plain:8.3f} s")
    print(f"  LogisticRegression on all bag points  {same:8.3f} s")
    print(f"  StrategicLinearClassifier, radius     {ball:8.3f} s   {ball / plain:.1f}x")
    print(f"  StrategicLinearClassifier, graph      {ours:8.3f} s   {ours / plain:.1f}x (bar: 10)")
    print(f"  strategic training error {model.loss_:.3f}, {model.n_iter_} iterations")


def budget_workload(n: int = 6000, m: int = 2000, p: int = 10, radius: float = 1.0) -> None:
    """Credit-like data, everybody can move a distance of 1."""
    rng = np.random.default_rng(2)
    w = rng.normal(size=p) / np.sqrt(p)
    X = rng.normal(size=(n + m, p))
    y = (X @ w + 0.4 * rng.normal(size=n + m) > 0).astype(int)
    X_train, y_train = X[:n], y[:n]

    def accuracies(weights, offset) -> str:
        honest = X[n:] @ weights + offset
        gamed = honest + radius * np.linalg.norm(weights)
        parts = [float(((scores >= 0) == y[n:]).mean()) for scores in (honest, gamed)]
        return f"nobody moves {parts[0]:.4f}, gamed {parts[1]:.4f}"

    StrategicLinearClassifier(radius=radius).fit(X_train[:99], y_train[:99])
    naive, plain = best_of(5, lambda: LogisticRegression().fit(X_train, y_train))
    model, ours = best_of(5, lambda: StrategicLinearClassifier(radius=radius).fit(X_train, y_train))
    (u, b), hinge = best_of(3, lambda: strategic_hinge(X_train, y_train, radius))
    print(f"L2 budget {radius}, {n} train, {m} test, d={p}: test accuracy")
    rows = [
        ("LogisticRegression", plain, naive.coef_[0], naive.intercept_[0]),
        ("StrategicLinearClassifier", ours, model.coef_[0], model.intercept_[0]),
        ("strategic hinge by L-BFGS", hinge, u, b),
    ]
    try:
        strategic_ml_hinge(X_train[:64], y_train[:64], radius, epochs=1)  # imports and warm-up
        (u, b), peer = timed(lambda: strategic_ml_hinge(X_train, y_train, radius))
        rows.append(("strategic-ml, 10 epochs", peer, u, b))
    except ImportError:
        peer = None
    for name, seconds, weights, offset in rows:
        print(f"  {name:28} {1e3 * seconds:9.1f} ms   {accuracies(weights, offset)}")
    if peer is None:
        print("  strategic-ml is not installed; skipped")
    else:
        print(f"  strategic-ml / StrategicLinearClassifier: {peer / ours:.0f} times (bar: 100)")


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
    trap = instances.halving_trap(r, k)
    small = instances.halving_trap(3, k)
    littlestone_dimension(small.hypotheses)
    tree, seconds = timed(lambda: littlestone_dimension(trap.hypotheses))
    size = len(trap.hypotheses)
    print(f"Littlestone dimension of {size} hypotheses on {trap.hypotheses.n_points} points")
    print(f"  dimension {tree.value} with certificate in {seconds:.2f} s")


def hidden_round(n: int = 2000, rounds: int = 300) -> None:
    rng = np.random.default_rng(3)
    points = rng.normal(size=(n, 2))
    w, b = rng.normal(size=(2000, 2)), 0.5 * rng.normal(size=2000)
    classes = {
        "halfspaces": w @ points.T >= b[:, None],
        "random, half of the nodes each": rng.random((2000, n)) < 0.5,
        "random, a tenth of the nodes each": rng.random((2000, n)) < 0.1,
    }
    lists = [rng.choice(np.delete(np.arange(n), x), 4, replace=False) for x in range(n)]
    graph = ManipulationGraph.from_lists(lists)
    nodes = rng.integers(0, n, size=rounds)
    print(f"hidden features, {n} nodes, 2000 rules, Halving experts (bar: 50 ms per round)")
    for name, labels in classes.items():
        rules = FiniteClass.from_matrix(labels)
        truth = graph.induced(rules.labels[7][None, :])[0]
        learner = Red2OnlinePMF(Halving(rules), 4)
        times = []
        for x in nodes.tolist():
            start = time.perf_counter()
            one = GraphApplicants(graph, [x], [int(truth[x])], setting=REPORT_ONLY_GRAPH)
            play(learner, one)
            times.append(time.perf_counter() - start)
        mean, worst = 1e3 * float(np.mean(times)), 1e3 * max(times)
        print(f"  {name:36} mean {mean:6.2f} ms, slowest round {worst:6.1f} ms")


def main() -> None:
    warnings.filterwarnings("ignore")
    for part in (littlestone, hidden_round, budget_workload, linear_bags, exact_plane):
        part()


if __name__ == "__main__":
    main()
