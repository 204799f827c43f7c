"""Random campaigns, embeddings and closed forms shared by the tests."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np

from counterplay.core.finite_class import FiniteClass
from counterplay.labeling import GBS, LabelingSession, PoolProblem, instances


def random_problem(rng: np.random.Generator, *, k: int = 2, skew: int = 9) -> PoolProblem:
    """A small exact problem with overlapping pools and skewed integer weights."""
    m = int(rng.integers(k, k + 5))
    n = int(rng.integers(2, min(2**m, 10) + 1))
    labels = rng.integers(0, 2, size=(n, m))
    weights = rng.integers(1, skew + 1, size=n)
    owners = rng.integers(0, k, size=m)
    owners[:k] = rng.permutation(k)
    agents = [np.flatnonzero((owners == i) | (rng.random(m) < 0.2)) for i in range(k)]
    return PoolProblem.from_labelings(labels, weights.tolist(), agents, exact=True)


def embedded(problem: PoolProblem, rng: np.random.Generator) -> PoolProblem:
    """The same problem with permuted points, flipped columns and an independent extra agent."""
    order = rng.permutation(problem.m)
    flips = rng.integers(0, 2, size=problem.m, dtype=np.uint8)
    H = (problem.H ^ flips)[:, order]
    position = np.argsort(order)
    doubled = np.vstack([np.hstack([H, np.full((problem.N, 1), y)]) for y in (0, 1)])
    agents = [position[pool] for pool in problem.agents] + [np.array([problem.m])]
    weights = [int(w) for w in problem.weights] * 2
    return PoolProblem.from_labelings(doubled, weights, agents, exact=True)


def plain_optimum(problem: PoolProblem) -> object:
    """The dynamic program over version spaces, without bounds; any number of classes."""

    @cache
    def cost(rows: frozenset[int]) -> object:
        here = problem.H[sorted(rows)]
        options = []
        for x in range(problem.m):
            parts = [frozenset(r for r in rows if problem.H[r, x] == y) for y in set(here[:, x])]
            if len(parts) > 1:
                options.append(sum(cost(part) for part in parts))
        return sum(problem.weights[r] for r in rows) + min(options) if options else 0

    return cost(frozenset(range(problem.N)))


def closed_joint(n: int) -> Fraction:
    total = Fraction(n, 4)
    for level in range(1, n):
        total += Fraction(level + 1, 2 * 3**level) + Fraction(level, 3**level)
    return total + Fraction(n + 1, 4 * 3 ** (n - 1)) + Fraction(n - 1, 2 * 3 ** (n - 1))


def closed_alone(n: int) -> Fraction:
    total = Fraction(7, 4) + Fraction(6 * n + 1, 8 * 3 ** (n - 1))
    return total + sum(Fraction(6 * level + 7, 4 * 3**level) for level in range(2, n))


def violating() -> list[tuple[PoolProblem, GBS]]:
    """Instances on which joint GBS makes agent 1 worse off, also in disguise."""
    rng = np.random.default_rng(0)
    small = instances.gbs_violation_7x6()
    shifted = instances.gbs_counterexample(8, Fraction(1, 100))
    cases = [
        (instances.gbs_counterexample(6), GBS(tie_break=[8])),
        (instances.gbs_counterexample(10), GBS(tie_break=[12])),
        (small, GBS()),
        (shifted, GBS()),
    ]
    return cases + [(embedded(small, rng), GBS()) for _ in range(4)]


def answer_all(session: LabelingSession, truth: np.ndarray) -> list[tuple[int, int]]:
    asked = []
    while (query := session.ask()) is not None:
        asked.append((query.agent, query.point))
        session.tell(truth[query.point])
    return asked


def label_rows(cls: FiniteClass) -> set[bytes]:
    """The labelings of a class, for comparisons."""
    return {row.tobytes() for row in cls.labels}
