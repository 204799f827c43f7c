"""Speed of learning on manipulation graphs, as ratios from one run."""

from __future__ import annotations

import warnings

import numpy as np
from ledger import compare, growth, skipped, timed
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
    ours = timed(lambda: StrategicERM("halfspace2d_exact").fit(X, y, graph=graph))
    theirs = timed(lambda: StrategicERM("halfspace_milp", time_limit=300.0).fit(X, y, graph=graph))
    exact, milp = ours.result, theirs.result
    state = "optimal" if milp.optimal_ else f"stopped, gap {milp.gap_:.0%}"
    compare("strategic", f"best halfspace in the plane, {n} people, k={k}, 10 % noise", ours,
            theirs, against="integer programming (HiGHS)", package="scipy", bar=10,
            note=f"{round(exact.loss_ * n)} errors, optimal, against {round(milp.loss_ * n)}, "
            f"{state}")  # fmt: skip


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
    plain = timed(lambda: LogisticRegression().fit(X, y), 3)
    StrategicLinearClassifier().fit(X[:99], y[:99], graph=graph)  # compile
    ours = timed(lambda: StrategicLinearClassifier().fit(X, y, graph=graph), 3)
    stacked = graph.bag_points(X)[0]
    labels = np.repeat(y, k + 1)[: len(stacked)]
    same = timed(lambda: LogisticRegression().fit(stacked, labels))
    ball = timed(lambda: StrategicLinearClassifier(radius=0.5).fit(X, y), 3)
    what = f"StrategicLinearClassifier, {n} x {p}"
    bags = f"{what}, bags of {k + 1} points"
    note = f"strategic training error {ours.result.loss_:.3f}, {ours.result.n_iter_} iterations"
    rows, points = "LogisticRegression on the rows", "LogisticRegression on all bag points"
    compare("strategic", f"{what}, radius", ball, plain, against=rows, package="scikit-learn")
    compare("strategic", bags, ours, plain, against=rows, package="scikit-learn", bar=1 / 10,
            note=note)  # fmt: skip
    compare("strategic", bags, ours, same, against=points, package="scikit-learn")


def budget_workload(n: int = 6000, m: int = 2000, p: int = 10, radius: float = 1.0) -> None:
    """Credit-like data, everybody can move a distance of 1."""
    rng = np.random.default_rng(2)
    w = rng.normal(size=p) / np.sqrt(p)
    X = rng.normal(size=(n + m, p))
    y = (X @ w + 0.4 * rng.normal(size=n + m) > 0).astype(int)
    X_train, y_train = X[:n], y[:n]

    def right(weights, offset) -> list[np.ndarray]:
        """Whether every person is judged rightly, if nobody moves and if all do."""
        honest = X[n:] @ weights + offset
        gamed = honest + radius * np.linalg.norm(weights)
        return [(scores >= 0) == y[n:] for scores in (honest, gamed)]

    StrategicLinearClassifier(radius=radius).fit(X_train[:99], y_train[:99])
    plain = timed(lambda: LogisticRegression().fit(X_train, y_train), 5)
    ours = timed(lambda: StrategicLinearClassifier(radius=radius).fit(X_train, y_train), 5)
    hinge = timed(lambda: strategic_hinge(X_train, y_train, radius), 3)
    what = f"StrategicLinearClassifier, L2 budget {radius:g}, {n} train, {m} test, {p} features"
    own = right(ours.result.coef_[0], ours.result.intercept_[0])
    naive = (plain.result.coef_[0], plain.result.intercept_[0])
    rows = [
        ("LogisticRegression", "scikit-learn", plain, naive),
        ("strategic hinge by L-BFGS", "scipy", hinge, hinge.result),
    ]
    try:
        strategic_ml_hinge(X_train[:64], y_train[:64], radius, epochs=1)  # imports and warm-up
        peer = timed(lambda: strategic_ml_hinge(X_train, y_train, radius))
        rows.append(("strategic-ml's hinge, 10 epochs", "strategic-ml", peer, peer.result))
    except ImportError as error:
        skipped("strategic", what, f"strategic-ml: {error}")
    for name, package, theirs, rule in rows:
        honest, gamed = right(*rule)
        compare("strategic", f"{what}: time", ours, theirs, against=name, package=package,
                bar=100 if package == "strategic-ml" else None)  # fmt: skip
        compare("strategic", f"{what}: accuracy among gamers", own[1], gamed, against=name,
                package=package, unit="accuracy", more=True,
                note=f"nobody moves: {own[0].mean():.4f} and {honest.mean():.4f}")  # fmt: skip


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
    ours = timed(lambda: littlestone_dimension(trap.hypotheses))
    growth("strategic", f"Littlestone dimension on {trap.hypotheses.n_points} points",
           {len(trap.hypotheses): ours}, size="rules",
           note=f"dimension {ours.result.value} with certificate")  # fmt: skip


def hidden_round(n: int = 2000, rounds: int = 300) -> None:
    rng = np.random.default_rng(3)
    points = rng.normal(size=(n, 2))
    w, b = rng.normal(size=(2000, 2)), 0.5 * rng.normal(size=2000)
    classes = {
        "halfspaces": w @ points.T >= b[:, None],
        "random rules, half of the nodes each": rng.random((2000, n)) < 0.5,
        "random rules, a tenth of the nodes each": rng.random((2000, n)) < 0.1,
    }
    lists = [rng.choice(np.delete(np.arange(n), x), 4, replace=False) for x in range(n)]
    graph = ManipulationGraph.from_lists(lists)
    nodes = rng.integers(0, n, size=rounds)
    for name, labels in classes.items():
        rules = FiniteClass.from_matrix(labels)
        truth = graph.induced(rules.labels[7][None, :])[0]
        learner = Red2OnlinePMF(Halving(rules), 4)
        times = []
        for x in nodes.tolist():

            def one_round(x=x, truth=truth, learner=learner) -> None:
                one = GraphApplicants(graph, [x], [int(truth[x])], setting=REPORT_ONLY_GRAPH)
                play(learner, one)

            times.append(timed(one_round, 1).value)
        growth("strategic", f"mean round with hidden features, 2000 Halving experts, {name}",
               {n: times}, size="nodes", bar=0.050,
               note=f"slowest round {1e3 * max(times):.1f} ms")  # fmt: skip


def main() -> None:
    warnings.filterwarnings("ignore")
    for part in (littlestone, hidden_round, budget_workload, linear_bags, exact_plane):
        part()


if __name__ == "__main__":
    main()
