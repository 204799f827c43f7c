"""Speed and accuracy of the strategic area against the plain alternatives, as ratios of one run.

Run with ``python benchmarks/bench_strategic.py``. strategic-ml is compared if it is installed.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from strategic_ml_peer import strategic_ml_hinge

from counterplay.strategic import (
    Agents,
    Applicants,
    LinearClass,
    Moves,
    StrategicHalving,
    gaming_report,
    play,
    rethreshold,
)
from counterplay.strategic.lab import UnionSamplingLearner

Job = Callable[[], Any]


def best_of(job: Job, repeats: int = 3) -> tuple[float, Any]:
    """Return the fastest time and the last result."""
    times, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = job()
        times.append(time.perf_counter() - start)
    return min(times), result


def union_sampling() -> None:
    rng = np.random.default_rng(0)
    n, d, T = 512, 5, 100_000
    rules = LinearClass(rng.normal(size=(n, d)), rng.normal(size=n))
    radius = rng.exponential(0.5, size=T)
    people = Agents.from_target(rules, rng.normal(size=(T, d)), radius=radius, target=17)
    warm = Applicants(people.take(np.arange(1000)), "features_after")
    play(UnionSamplingLearner(rules, random_state=0), warm, fast=True)
    fast, _ = best_of(
        lambda: play(
            UnionSamplingLearner(rules, random_state=0),
            Applicants(people, "features_after"),
            fast=True,
        )
    )
    slow, left = best_of(lambda: plain_union_sampling(rules, people, 0), 1)
    print(f"union sampling, {n} rules, {T:,} rounds")
    print(f"  block-wise (fast=True)       {fast:8.3f} s")
    print(f"  plain loop over rounds       {slow:8.3f} s   {slow / fast:6.1f}x slower (bar: 20)")
    print(f"  rules left after the plain loop: {left}")


def plain_union_sampling(rules: LinearClass, people: Agents, seed: int) -> int:
    """Draw, publish, compare, update: one round after the other, in plain NumPy."""
    rng = np.random.default_rng(seed)
    W, b = rules.weights, rules.thresholds
    norms = np.sqrt((W * W).sum(axis=1))
    X, r, y = people.X, people.radius, people.y
    alive = np.arange(rules.n)
    for t in range(len(people)):
        k = 2 ** rng.integers(max(1, int(alive.size).bit_length() - 1))
        members = alive[rng.integers(alive.size, size=k)]
        rho = (np.maximum(b[members] - W[members] @ X[t], 0.0) / norms[members]).min()
        if (rho <= r[t]) != y[t]:
            row = np.maximum(b[alive] - W[alive] @ X[t], 0.0) / norms[alive]
            alive = alive[row < rho] if y[t] else alive[row > rho]
    return int(alive.size)


def losses() -> None:
    rng = np.random.default_rng(1)
    n, d, m = 1000, 10, 100_000
    rules = LinearClass(rng.normal(size=(n, d)), rng.normal(size=n))
    X, radius = rng.normal(size=(m, d)), rng.exponential(0.5, size=m)
    people = Agents(X=X, y=rng.integers(0, 2, size=m), radius=radius)
    people.take(np.arange(1000)).losses(rules)
    weights = np.ascontiguousarray(rules.weights.T)
    product, _ = best_of(lambda: X @ weights)
    ours, _ = best_of(lambda: people.losses(rules))
    naive, _ = best_of(lambda: (rules.distances(X) <= radius[:, None]) != people.y[:, None], 1)
    print(f"loss table, {m:,} agents x {n:,} linear rules")
    print(f"  matrix product alone         {product:8.3f} s")
    print(f"  loss table                   {ours:8.3f} s   {ours / product:6.2f}x (bar: 1.5)")
    print(f"  distances, compare, xor      {naive:8.3f} s   {naive / product:6.2f}x")


def halving_round() -> None:
    rng = np.random.default_rng(2)
    n, d = 100_000, 10
    rules = LinearClass(rng.normal(size=(n, d)), rng.normal(size=n))
    learner = StrategicHalving(rules)
    x = rng.normal(size=d)
    ours, _ = best_of(lambda: learner.act(x), 20)
    product, _ = best_of(lambda: rules.weights @ x, 20)
    print(f"one round of StrategicHalving, {n:,} rules")
    print(f"  matrix-vector product        {1e3 * product:8.3f} ms")
    print(
        f"  publish                      {1e3 * ours:8.3f} ms  {ours / product:6.1f}x (bar: 10 ms)"
    )


def credit_data(seed: int = 0) -> tuple[np.ndarray, ...]:
    """Credit-like data, 6000 to train and 2000 to test, 10 features, labels never change."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8000, 10))
    weights = np.array([1.0, 0.8, -0.6, 0.5, 0.4, 0.3, -0.3, 0.2, 0.1, 0.0])
    y = (X @ weights + 0.65 * rng.normal(size=8000) > 0).astype(int)
    return X[:6000], X[6000:], y[:6000], y[6000:]


def strategic_hinge(X: np.ndarray, y: np.ndarray, r: float, epochs: int = 10) -> Any:
    """Reference: mini-batch gradient descent on the hinge loss of the best reachable score."""
    rng = np.random.default_rng(0)
    sign = 2.0 * y - 1.0
    w, b, step = np.zeros(X.shape[1]), 0.0, 0.05
    w[0] = 1e-3
    for _ in range(epochs):
        for rows in np.array_split(rng.permutation(len(y)), len(y) // 64):
            norm = np.linalg.norm(w)
            active = sign[rows] * (X[rows] @ w + b + r * norm) < 1
            grad = -sign[rows][active]
            w -= step * ((grad @ X[rows][active]) + grad.sum() * r * w / norm) / rows.size
            b -= step * grad.sum() / rows.size
    return as_model(w, b)


def as_model(w: np.ndarray, b: float) -> LogisticRegression:
    model = LogisticRegression()
    model.coef_, model.intercept_ = np.atleast_2d(w), np.atleast_1d(b)
    model.classes_ = np.array([0, 1])
    return model


def retrained(X: np.ndarray, y: np.ndarray, r: float, rounds: int = 10) -> Any:
    """Repeated risk minimisation: retrain on what people show to the last model."""
    shown, model = X, None
    for _ in range(rounds):
        model = LogisticRegression().fit(shown, y)
        report = gaming_report(model, X, y, radius=r)
        moves = report.moves(r)
        shown = X.copy()
        shown[moves.index] = report.reach.goals[moves.index]
    return model


def peer(X: np.ndarray, y: np.ndarray, epochs: int = 10) -> Any:
    """strategic-ml's s-hinge for the budget of this workload."""
    return as_model(*strategic_ml_hinge(X, y, 1.0, epochs))


def credit(r: float = 1.0) -> None:
    X, X_test, y, y_test = credit_data()
    base, naive = best_of(lambda: LogisticRegression().fit(X, y))
    print(f"W5: credit-like 6000/2000, 10 features, L2 budget {r:g}      honest   gamed")

    def line(name: str, seconds: float, model: Any) -> None:
        honest = model.score(X_test, y_test)
        ball = Moves.ball(X, per="unit")
        gamed = gaming_report(model, X_test, y_test, ball, budget=r).to_frame()["accuracy"].iloc[0]
        print(f"  {name:36s} {seconds:8.4f} s   {honest:6.3f}  {gamed:6.3f}")

    line("logistic regression, as it is", base, naive)
    ball = Moves.ball(X, per="unit")
    moved, ready = best_of(
        lambda: rethreshold(naive, X, None, ball, r, objective="decisions").model
    )
    line("  + threshold that keeps decisions", base + moved, ready)
    fitted, tuned = best_of(lambda: rethreshold(naive, X, y, ball, r).model)
    line("  + best threshold for the data", base + fitted, tuned)
    line("retrained 10 times", *best_of(lambda: retrained(X, y, r), 1))
    hinge, model = best_of(lambda: strategic_hinge(X, y, r), 1)
    line("strategic hinge, 10 epochs (NumPy)", hinge, model)
    print(f"  moved threshold against strategic hinge: {hinge / (base + moved):.0f}x faster")
    try:
        seconds, model = best_of(lambda: peer(X, y), 1)
    except ImportError:
        print("  strategic-ml: not installed, skipped")
        return
    line("strategic-ml s-hinge, 10 epochs", seconds, model)
    print(
        f"  moved threshold against strategic-ml: {seconds / (base + moved):.0f}x faster (bar: 100)"
    )


def main() -> None:
    warnings.filterwarnings("ignore")
    union_sampling()
    losses()
    halving_round()
    credit()


if __name__ == "__main__":
    main()
