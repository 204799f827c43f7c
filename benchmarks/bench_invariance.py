"""Learning under transformations against what one would use or write instead, in one run.

Digits: upright training data, randomly rotated test data, twenty splits that chose no model; the
loops by hand beside the wrappers. Speed: a flow network with one node per edge (how one would write
it), exact dimensions of 4,096 hypotheses, a look-up among more and more orbits.
Names of parts as arguments run only these: digits orientation dimensions random lookup.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from ledger import Times, compare, growth, timed
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from counterplay.core.dimensions.deep_search import find_shattered
from counterplay.invariance import (
    AugmentedClassifier,
    CanonicalClassifier,
    ErmInvClassifier,
    OrbitKernelClassifier,
    groups,
)
from counterplay.invariance.lab import FiniteProblem, OneInclusionGraph, vcao, vcdim, vco

SPLITS = range(2000, 2020)  # used for nothing but reporting
BY_HAND = (
    "logistic, plain",
    "logistic, augmented by hand",
    "logistic, largest turn by hand",
    "1-NN on orbits by hand",
)
NO_CONFLICTS = np.zeros((0, 0), dtype=np.bool_)


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
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for seed in SPLITS:
        a, b, c, d = train_test_split(X, y, test_size=0.25, random_state=seed)
        turn = np.random.default_rng(seed).integers(4, size=len(b))
        b = group.apply(b)[turn, np.arange(len(b))]
        for name, model in models.items():
            spent = timed(lambda model=model, a=a, b=b, c=c, d=d: model.fit(a, c).score(b, d), 1)
            scores[name].append(spent.result)
            seconds[name].append(spent.value)
    what = f"orbit kernel on turned digits, {len(SPLITS)} splits"
    kernel = scores.pop("orbit kernel")
    own = Times(tuple(seconds["orbit kernel"]), "mean")
    for name, values in scores.items():
        package = "scikit-learn" if name in BY_HAND else "counterplay"
        compare("invariance", f"{what}: accuracy", kernel, values, against=name, more=True,
                package=package, unit="accuracy")  # fmt: skip
        compare(
            "invariance",
            f"{what}: fit and predict",
            own,
            Times(tuple(seconds[name]), "mean"),
            against=name,
            package=package,
        )


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
    curve = {}
    for k in (25, 54):  # labelings with at most three ones: 2,626 and 26,290 of them
        chosen = [c for size in range(4) for c in combinations(range(k), size)]
        rows = np.zeros((len(chosen), k), dtype=np.uint8)
        for row, ones in zip(rows, chosen):
            row[list(ones)] = 1
        OneInclusionGraph(rows[:50]).orient()  # compile
        building = timed(partial(OneInclusionGraph, rows))
        graph = building.result
        fresh = iter([OneInclusionGraph(rows) for _ in range(3)])  # a graph remembers its answer
        ours = timed(lambda fresh=fresh: next(fresh).orient())
        theirs = timed(partial(plain_flow, graph))
        curve[graph.n_edges] = ours
        compare("invariance", f"orientation of a one-inclusion graph, {graph.n_edges:,} edges",
                ours, theirs, against="maximum flow with a node per edge", package="scipy",
                note=f"in-degrees {ours.result.max_indegree} and {theirs.result}, "
                f"edges found in {building.value:.3f} s")  # fmt: skip
    growth("invariance", "orientation of a one-inclusion graph", curve, size="edges")


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
            found = timed(lambda function=function, problem=problem: function(problem))
            if n_bits == 12:
                growth("invariance", f"{function.__name__} of 4096 parities", {64: found},
                       size="points", note=f"it is {found.result.value}")  # fmt: skip


def random() -> None:
    """Classes that look random, where nothing but search decides."""
    rows = np.random.default_rng(0).integers(0, 2, size=(2**12, 64))
    find_shattered(
        np.ascontiguousarray(rows[:, :12].T.astype(np.uint8)), NO_CONFLICTS, 5
    )  # compile
    for function in (vco, vcao, vcdim):
        curve = {}
        for n in (32, 48, 64):
            problem = FiniteProblem(rows[:, :n], np.arange(n) // 4)
            curve[n] = timed(lambda function=function, problem=problem: function(problem), 1)
        note = ", ".join(
            f"{n}: {found.result.value}{'' if found.result.exact else ' (not exact)'}"
            for n, found in curve.items()
        )
        growth("invariance", f"{function.__name__} of 4096 random rows", curve, size="points",
               note=f"values {note}")  # fmt: skip


def lookup() -> None:
    rng = np.random.default_rng(0)
    group = groups.d4((8, 8))
    test = rng.integers(0, 17, size=(100_000, 64)).astype(float)
    curve: dict[float, Times] = {}
    for n in (1_000, 10_000):
        X = rng.integers(0, 17, size=(n, 64)).astype(float)
        model = ErmInvClassifier(DummyClassifier(), group).fit(X, rng.integers(0, 2, size=n))
        model.lookup(test[:10])
        curve[n] = timed(lambda model=model: model.lookup(test), 3)
    growth("invariance", "look-up of 100,000 points among orbits", curve, size="orbits")


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
