"""Random classes and samples shared by the tests of the poisoning area."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from counterplay.core.dimensions import vc_dimension
from counterplay.core.finite_class import FiniteClass
from counterplay.poisoning.lab import LinearTarget


def random_class(rng: np.random.Generator, k: int, n: int) -> FiniteClass:
    rows = rng.integers(2, size=(n, k))
    return FiniteClass.from_matrix(
        np.unique(rows, axis=0)[rng.permutation(len(np.unique(rows, axis=0)))]
    )


def random_vc1_class(rng: np.random.Generator, k: int) -> FiniteClass:
    """Paths from the root in a random tree, relabelled by a random function: VC dimension 1."""
    parent = np.array([-1] + [int(rng.integers(-1, i)) for i in range(1, k)])
    rows = [np.zeros(k, dtype=int)]
    for i in range(k):
        row, node = np.zeros(k, dtype=int), i
        while node >= 0:
            row[node] = 1
            node = int(parent[node])
        rows.append(row)
    matrix = np.array(rows)[rng.permutation(k + 1)][: int(rng.integers(2, k + 2))]
    matrix = matrix ^ rng.integers(2, size=k)
    matrix = matrix[:, rng.permutation(k)]
    cls = FiniteClass.from_matrix(np.unique(matrix, axis=0))
    assert vc_dimension(cls).value <= 1
    return cls


def shortest(call: Callable[[], Any], runs: int = 5) -> float:
    """CPU time of the fastest of several runs, for ratios within one test."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def random_sample(rng: np.random.Generator, k: int) -> np.ndarray:
    return rng.integers(k, size=int(rng.integers(0, k)))


def disc(rng: np.random.Generator, n: int) -> np.ndarray:
    angle, radius = 2 * np.pi * rng.random(n), np.sqrt(rng.random(n))
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def errors_of(learner, target, seen) -> np.ndarray:
    return learner.fit(seen, target[seen]).predict(np.arange(len(target))) != target


def half_plane(beta: float, b: float) -> LinearTarget:
    return LinearTarget([np.cos(beta), np.sin(beta)], b)


def four_sigma(p: float, n: int) -> float:
    return 4 * np.sqrt(p * (1 - p) / n)
