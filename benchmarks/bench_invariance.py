"""Learning under transformations against what one would use or write instead, in one run.

Digits: upright training data, randomly rotated test data, ten splits (seeds 5 to 14) that were not
used to choose any model. Speed: a flow network with one node per edge, and a look-up that scans.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from counterplay.core.inclusion import OneInclusionGraph
from counterplay.invariance import (
    AugmentedClassifier,
    CanonicalClassifier,
    ErmInvClassifier,
    FiniteProblem,
    groups,
    vcao,
    vcdim,
    vco,
)


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def fit_and_score(model: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> float:
    return float(model.fit(X, y).score(X_test, y_test))


def digits() -> None:
    X, y = load_digits(return_X_y=True)
    group = groups.image_rotations((8, 8))
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    nearest = KNeighborsClassifier(1)
    mixed = VotingClassifier(
        [
            ("svm", SVC(C=10, gamma=0.0015)),
            ("one", nearest),
            ("three", KNeighborsClassifier(3, weights="distance")),
        ]
    )
    models = {
        "logistic, plain": logistic,
        "logistic, augmented": AugmentedClassifier(logistic, group),
        "logistic, canonical": CanonicalClassifier(logistic, group),
        "1-NN, canonical": CanonicalClassifier(nearest, group),
        "1-NN on orbits (augmented)": AugmentedClassifier(nearest, group),
        "SVM + NN vote, augmented": AugmentedClassifier(mixed, group),
    }
    scores: dict[str, list[float]] = {name: [] for name in models}
    seconds = dict.fromkeys(models, 0.0)
    for seed in range(5, 15):
        a, b, c, d = train_test_split(X, y, random_state=seed)
        turn = np.random.default_rng(seed).integers(4, size=len(b))
        b = group.apply(b)[turn, np.arange(len(b))]
        for name, model in models.items():
            score, spent = timed(
                lambda model=model, a=a, b=b, c=c, d=d: model.fit(a, c).score(b, d)
            )
            scores[name].append(score)
            seconds[name] += spent / 10
    for name, values in scores.items():
        print(f"{name:30} {np.mean(values):.4f} +- {np.std(values):.4f} {seconds[name]:8.2f} s")


def plain_flow(graph: OneInclusionGraph) -> int:
    """Smallest largest in-degree with one network node per edge."""
    n, m = graph.n_vertices, graph.n_edges
    edge, ends = np.arange(m), graph.edges[:, :2]
    for k in range(-(-m // n), n):
        rows = np.concatenate([np.full(m, n + m), edge + n, edge + n, np.arange(n)])
        columns = np.concatenate([edge + n, ends[:, 0], ends[:, 1], np.full(n, n + m + 1)])
        capacity = np.concatenate([np.ones(3 * m), np.full(n, k)]).astype(np.int32)
        network = sparse.csr_array((capacity, (rows, columns)), shape=(n + m + 2, n + m + 2))
        if maximum_flow(network, n + m, n + m + 1).flow_value == m:
            return k
    return n


def orientation() -> None:
    for k, ones in ((14, 4), (16, 7)):
        cube = np.array(list(product((0, 1), repeat=k)), dtype=np.uint8)
        rows = cube[cube.sum(axis=1) <= ones]
        rows = rows[: min(len(rows), 2626)] if k == 14 else rows
        OneInclusionGraph(rows[:50]).orient()  # compile
        ours, spent = timed(lambda rows=rows: OneInclusionGraph(rows).orient().max_indegree)
        graph = OneInclusionGraph(rows)
        theirs, plain = timed(lambda graph=graph: plain_flow(graph))
        print(
            f"orientation V={graph.n_vertices} E={graph.n_edges}: in-degree {ours} / {theirs}, "
            f"{spent:.3f} s with edges against {plain:.3f} s without ({plain / spent:.1f}x)"
        )


def dimensions() -> None:
    rng = np.random.default_rng(0)
    bits = (rng.integers(1, 2**12, size=64)[:, None] >> np.arange(12)) & 1
    codes = (np.arange(2**12)[:, None] >> np.arange(12)) & 1
    problem = FiniteProblem((codes @ bits.T) % 2, np.repeat(np.arange(16), 4))
    vcdim(FiniteProblem([[0, 1], [1, 1]], [0, 1]))  # compile
    for function in (vco, vcao, vcdim):
        found, spent = timed(lambda function=function: function(problem))
        print(f"{function.__name__:6} of 4096 parities x 64 points: {found.value} in {spent:.2f} s")


def lookup() -> None:
    rng = np.random.default_rng(0)
    group = groups.d4((8, 8))
    test = rng.integers(0, 17, size=(100_000, 64)).astype(float)
    for n in (1_000, 10_000):
        X = rng.integers(0, 17, size=(n, 64)).astype(float)
        model = ErmInvClassifier(DummyClassifier(), group).fit(X, rng.integers(0, 2, size=n))
        model.lookup(test[:10])
        spent = timed(lambda model=model: model.lookup(test))[1]
        print(f"look-up of 100,000 points among {n:6} orbits: {spent:.3f} s")


def main() -> None:
    digits()
    orientation()
    dimensions()
    lookup()


if __name__ == "__main__":
    main()
