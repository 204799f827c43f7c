"""Learning under transformations against what one would use or write instead, in one run.

Digits: upright training data, randomly rotated test data, twenty splits that chose no model; the
loops by hand beside the wrappers. Speed: a flow network with one node per edge (how one would write
it), exact dimensions of 4,096 hypotheses, a look-up among more and more orbits.
Names of parts as arguments run only these: digits orientation dimensions random lookup.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from counterplay.core.dimensions.deep_search import find_shattered
from counterplay.core.stats import mean_interval
from counterplay.invariance import (
    AugmentedClassifier,
    CanonicalClassifier,
    ErmInvClassifier,
    OrbitKernelClassifier,
    groups,
)
from counterplay.invariance.lab import FiniteProblem, OneInclusionGraph, vcao, vcdim, vco

SPLITS = range(2000, 2020)  # used for nothing but reporting
NO_CONFLICTS = np.zeros((0, 0), dtype=np.bool_)


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def all_turns(X: Any) -> list[Any]:
    return [np.rot90(X.reshape(-1, 8, 8), k, (1, 2)).reshape(-1, 64) for k in range(4)]


class AugmentedByHand(ClassifierMixin, BaseEstimator):
    """The loop that most people write."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> AugmentedByHand:
        self.estimator.fit(np.concatenate(all_turns(X)), np.tile(y, 4))
        return self

    def predict(self, X: Any) -> Any:
        return self.estimator.predict(X)


class CanonicalByHand(AugmentedByHand):
    """The lexicographically largest turn stands for all."""

    def fit(self, X: Any, y: Any) -> CanonicalByHand:
        self.estimator.fit(self.largest(X), y)
        return self

    def predict(self, X: Any) -> Any:
        return self.estimator.predict(self.largest(X))

    def largest(self, X: Any) -> Any:
        return np.array([max(turns, key=tuple) for turns in zip(*all_turns(X))])


def digits() -> None:
    """References and the orbit kernel on the same splits, with the interval of the paired gain."""
    X, y = load_digits(return_X_y=True)
    X, group = X / 16.0, groups.image_rotations((8, 8))
    logistic = LogisticRegression(max_iter=300)
    nearest = KNeighborsClassifier(1)
    models = {
        "logistic, plain": logistic,
        "logistic, augmented by hand": AugmentedByHand(clone(logistic)),
        "logistic, augmented": AugmentedClassifier(logistic, group),
        "logistic, largest turn by hand": CanonicalByHand(clone(logistic)),
        "logistic, smallest turn": CanonicalClassifier(logistic, group, form="smallest"),
        "logistic, aligned": CanonicalClassifier(logistic, group),
        "1-NN on orbits by hand": AugmentedByHand(clone(nearest)),
        "1-NN on orbits": AugmentedClassifier(nearest, group),
        "orbit kernel": OrbitKernelClassifier(
            group=group, gamma=0.0012 * 256, jitter=groups.image_jitter((8, 8))
        ),
    }
    scores: dict[str, list[float]] = {name: [] for name in models}
    seconds = dict.fromkeys(models, 0.0)
    for seed in SPLITS:
        a, b, c, d = train_test_split(X, y, test_size=0.25, random_state=seed)
        turn = np.random.default_rng(seed).integers(4, size=len(b))
        b = group.apply(b)[turn, np.arange(len(b))]
        for name, model in models.items():
            score, spent = timed(
                lambda model=model, a=a, b=b, c=c, d=d: model.fit(a, c).score(b, d)
            )
            scores[name].append(score)
            seconds[name] += spent / len(SPLITS)
    ours = np.array(scores["orbit kernel"])
    for name, values in scores.items():
        gain = mean_interval(ours - values) if name != "orbit kernel" else "-"
        print(f"{name:32} {np.mean(values):.4f} {seconds[name]:8.3f} s   gain of kernel {gain}")


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
    for k in (25, 54):  # labelings with at most three ones: 2,626 and 26,290 of them
        chosen = [c for size in range(4) for c in combinations(range(k), size)]
        rows = np.zeros((len(chosen), k), dtype=np.uint8)
        for row, ones in zip(rows, chosen):
            row[list(ones)] = 1
        OneInclusionGraph(rows[:50]).orient()  # compile
        graph, building = timed(partial(OneInclusionGraph, rows))
        ours, spent = timed(graph.orient)
        theirs, plain = timed(partial(plain_flow, graph))
        print(
            f"V={graph.n_vertices} E={graph.n_edges}: in-degree {ours.max_indegree} / {theirs}, "
            f"edges {building:.3f} s, orientation {spent:.3f} s against {plain:.3f} s "
            f"({plain / spent:.1f}x)"
        )


def parities(n_bits: int, n_points: int) -> FiniteProblem:
    """All parities of random points, four points per orbit."""
    points = np.random.default_rng(0).integers(1, 2**n_bits, size=n_points)
    bits = (points[:, None] >> np.arange(n_bits)) & 1
    codes = (np.arange(2**n_bits)[:, None] >> np.arange(n_bits)) & 1
    return FiniteProblem((codes @ bits.T) % 2, np.arange(n_points) // 4)


def dimensions() -> None:
    """Exact dimensions of a large class with structure; small ones first, to compile."""
    for n_bits, n_points in ((6, 32), (12, 64)):
        problem = parities(n_bits, n_points)
        for function in (vco, vcao, vcdim):
            found, spent = timed(lambda function=function, problem=problem: function(problem))
            if n_bits == 12:
                name = f"{function.__name__:6} of 4096 parities x 64 points"
                print(f"{name}: {found.value} in {spent:.3f} s")


def random() -> None:
    """Classes that look random, where nothing but search decides."""
    rows = np.random.default_rng(0).integers(0, 2, size=(2**12, 64))
    find_shattered(
        np.ascontiguousarray(rows[:, :12].T.astype(np.uint8)), NO_CONFLICTS, 5
    )  # compile
    for n_points in (32, 48, 64):
        problem = FiniteProblem(rows[:, :n_points], np.arange(n_points) // 4)
        for function in (vco, vcao, vcdim):
            found, spent = timed(lambda function=function, problem=problem: function(problem))
            name = f"{function.__name__:6} of 4096 random rows x {n_points} points"
            print(f"{name}: {found.value}, exact {found.exact}, in {spent:.2f} s")


def lookup() -> None:
    rng = np.random.default_rng(0)
    group = groups.d4((8, 8))
    test = rng.integers(0, 17, size=(100_000, 64)).astype(float)
    spent = []
    for n in (1_000, 10_000):
        X = rng.integers(0, 17, size=(n, 64)).astype(float)
        model = ErmInvClassifier(DummyClassifier(), group).fit(X, rng.integers(0, 2, size=n))
        model.lookup(test[:10])
        spent.append(min(timed(lambda model=model: model.lookup(test))[1] for _ in range(3)))
        print(f"look-up of 100,000 points among {n:6} orbits: {spent[-1]:.3f} s")
    print(f"time among ten times as many orbits: x {spent[1] / spent[0]:.2f}")


PARTS = {
    "digits": digits,
    "orientation": orientation,
    "dimensions": dimensions,
    "lookup": lookup,
    "random": random,
}


def main(names: Sequence[str] = ()) -> None:
    for name in names or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
