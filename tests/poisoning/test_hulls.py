"""Convex hulls keep every vertex, and do not change the answer."""

from __future__ import annotations

import numpy as np

from counterplay.poisoning import LabelledSet
from counterplay.poisoning.dyadic import (
    TWO_PI,
    direction,
    dot,
    exact,
)
from counterplay.poisoning.hulls import hull_points
from counterplay.poisoning.lab import (
    DyadicDirectionLearner,
)
from poisoning.problems import disc, half_plane


def test_hulls_keep_every_vertex() -> None:
    """Nearly collinear rows: exact vertices by brute force over all pairs."""
    rng = np.random.default_rng(5)
    for _ in range(6):
        x = rng.random(60)
        X = np.column_stack([x, 0.3 * x + 1e-16 * rng.integers(-3, 4, size=60)])
        kept = {tuple(row) for row in hull_points(X).tolist()}
        exact_rows = [exact(row) for row in X]
        for beta in TWO_PI * rng.random(50):
            u = exact(direction(beta))
            best = max(range(60), key=lambda i: dot(u, exact_rows[i]))
            assert tuple(X[best].tolist()) in kept
        u = exact((-0.3, 1.0))
        for sign in (1, -1):  # across the line, where the rows differ in the last bits
            best = max(range(60), key=lambda i: sign * dot(u, exact_rows[i]))
            top = sign * dot(u, exact_rows[best])
            assert max(sign * dot(u, exact(row)) for row in kept) == top


def test_hulls_do_not_change_the_answer() -> None:
    rng = np.random.default_rng(2)
    for _ in range(10):
        target = half_plane(TWO_PI * rng.random(), rng.uniform(-0.5, 0.5))
        X = disc(rng, 3000)
        y = target(X)
        fast = DyadicDirectionLearner().fit(X, y)
        slow = DyadicDirectionLearner()._fit_hulls(X[y == 1][:1], X[y == 0][:1])
        slow = slow.partial_refit(LabelledSet(X[:1500], y[:1500]))
        slow = slow.partial_refit(LabelledSet(X[1500:], y[1500:])) if _ < 2 else fast
        assert fast.beta_ == slow.beta_
        assert fast.b_ == slow.b_
