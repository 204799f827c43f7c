"""Speed and accuracy of the strategic area against the plain alternatives, as ratios of one run.

Run with ``python benchmarks/bench_strategic.py``. strategic-ml is compared if it is installed.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from ledger import Times, compare, growth, skipped, timed
from sklearn.linear_model import LogisticRegression
from strategic_ml_peer import strategic_ml_hinge

from counterplay.strategic import (
    Agents,
    Applicants,
    LinearClass,
    Moves,
    StrategicHalving,
    cheapest_moves,
    play,
    rethreshold,
)
from counterplay.strategic.lab import UnionSamplingLearner


def union_sampling() -> None:
    rng = np.random.default_rng(0)
    n, d, T = 512, 5, 100_000
    rules = LinearClass(rng.normal(size=(n, d)), rng.normal(size=n))
    radius = rng.exponential(0.5, size=T)
    people = Agents.from_target(rules, rng.normal(size=(T, d)), radius=radius, target=17)
    warm = Applicants(people.take(np.arange(1000)), "features_after")
    play(UnionSamplingLearner(rules, random_state=0), warm, fast=True)
    fast = timed(
        lambda: play(
            UnionSamplingLearner(rules, random_state=0),
            Applicants(people, "features_after"),
            fast=True,
        ),
        3,
    )
    slow = timed(lambda: plain_union_sampling(rules, people, 0))
    compare("strategic", f"union sampling in blocks, {n} rules, {T:,} rounds", fast, slow,
            against="a plain loop over rounds", package="numpy", bar=20,
            note=f"{slow.result} rules left after the plain loop")  # fmt: skip


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
    product = timed(lambda: X @ weights, 3)
    ours = timed(lambda: people.losses(rules), 3)
    naive = timed(lambda: (rules.distances(X) <= radius[:, None]) != people.y[:, None])
    what = f"loss table of {m:,} agents and {n:,} linear rules"
    compare("strategic", what, ours, product, against="the matrix product alone", package="numpy",
            bar=1 / 1.5)  # fmt: skip
    compare("strategic", what, ours, naive, against="distances, compare, xor", package="numpy")


def halving_round() -> None:
    rng = np.random.default_rng(2)
    n, d = 100_000, 10
    rules = LinearClass(rng.normal(size=(n, d)), rng.normal(size=n))
    learner = StrategicHalving(rules)
    x = rng.normal(size=d)
    ours, product = timed(lambda: learner.act(x), 20), timed(lambda: rules.weights @ x, 20)
    what = "one round of StrategicHalving"
    compare("strategic", f"{what}, {n:,} rules", ours, product,
            against="the matrix-vector product alone", package="numpy")  # fmt: skip
    growth("strategic", what, {n: ours}, size="rules", bar=0.010)


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
        shown = cheapest_moves(model, X, Moves.ball(X, per="unit"), budget=r).destination
    return model


def peer(X: np.ndarray, y: np.ndarray, epochs: int = 10) -> Any:
    """strategic-ml's s-hinge for the budget of this workload."""
    return as_model(*strategic_ml_hinge(X, y, 1.0, epochs))


def credit(r: float = 1.0) -> None:
    """A moved threshold against what trains for gaming: seconds, and accuracy among gamers."""
    X, X_test, y, y_test = credit_data()
    ball = Moves.ball(X, per="unit")
    base = timed(lambda: LogisticRegression().fit(X, y), 3)
    naive = base.result

    def gamed(model: Any) -> Any:
        """Whether every person is judged rightly where all who can afford it move."""
        price = cheapest_moves(model, X_test, ball, positive=1).upper
        return (price <= r) == y_test

    def after(times: Times) -> Times:
        return Times(tuple(base.value + turn for turn in times.turns), result=times.result)

    keep = after(
        timed(lambda: rethreshold(naive, X, None, ball, r, objective="decisions").model, 3)
    )
    best = after(timed(lambda: rethreshold(naive, X, y, ball, r).model, 3))
    what = f"credit-like 6000/2000, 10 features, L2 budget {r:g}"

    def against(name: str, theirs: Times, package: str, bar: float | None = None) -> None:
        for way, ours in (("keeps decisions", keep), ("fits the data", best)):
            moved = f"{what}, a threshold that {way}"
            compare("strategic", f"{moved}: time", ours, theirs, against=name, package=package,
                    bar=bar if ours is keep else None)  # fmt: skip
            honest = [model.score(X_test, y_test) for model in (ours.result, theirs.result)]
            compare("strategic", f"{moved}: accuracy among gamers", gamed(ours.result),
                    gamed(theirs.result), against=name, package=package, unit="accuracy",
                    more=True, note="honest {:.3f} and {:.3f}".format(*honest))  # fmt: skip

    against("logistic regression as it is", base, "scikit-learn")
    against("retrained 10 times", timed(lambda: retrained(X, y, r)), "scikit-learn")
    hinge = timed(lambda: strategic_hinge(X, y, r))
    against("strategic hinge in NumPy, 10 epochs", hinge, "numpy")
    try:
        against("strategic-ml's hinge, 10 epochs", timed(lambda: peer(X, y)), "strategic-ml", 100)
    except ImportError as error:
        skipped("strategic", what, f"strategic-ml: {error}")


def main() -> None:
    warnings.filterwarnings("ignore")
    union_sampling()
    losses()
    halving_round()
    credit()


if __name__ == "__main__":
    main()
