"""Small random games on manipulation graphs, and an adversary that makes learners err."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from counterplay.core.finite_class import FiniteClass
from counterplay.core.setting import Setting
from counterplay.strategic import GraphApplicants, ManipulationGraph, play
from counterplay.strategic.lab import ExplicitGraphClass, FiniteERM, StrategicLearner


def random_graph(rng: np.random.Generator, n: int, k: int) -> ManipulationGraph:
    """Out-degrees uniform on 0..k."""
    keys = rng.random((n, n))
    np.fill_diagonal(keys, np.inf)
    sizes = rng.integers(0, min(k, n - 1) + 1, size=n)
    chosen = keys.argsort(axis=1).argsort(axis=1) < sizes[:, None]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return ManipulationGraph(indptr, np.nonzero(chosen)[1], None, k)


def random_class(rng: np.random.Generator, m: int, n: int, share: float = 0.4) -> FiniteClass:
    """Distinct random rows."""
    rows = rng.random((m, n)) < share
    return FiniteClass.from_matrix(rows).deduplicated().unique


def random_instance(
    rng: np.random.Generator, n: int = 5, m: int = 6, k: int = 3
) -> tuple[FiniteClass, ManipulationGraph]:
    """A class and a graph with at most n nodes, m rules and out-degree k."""
    nodes = int(rng.integers(2, n + 1))
    degree = int(rng.integers(1, min(k, nodes - 1) + 1))
    rules = random_class(rng, int(rng.integers(2, m + 1)), nodes)
    return rules, random_graph(rng, nodes, degree)


def play_until_quiet(
    learner: StrategicLearner,
    graph: ManipulationGraph,
    target: np.ndarray,
    mode: Setting,
    rng: np.random.Generator,
    most: int = 400,
) -> Iterator[tuple[int, int, bool]]:
    """Agents in random order, random ties, labels of ``target``, until a whole pass is right."""
    truth = graph.induced(target[None, :])[0]
    quiet = 0
    for _ in range(most):
        if quiet >= 2:
            return
        wrong = 0
        for x in rng.permutation(graph.n).tolist():
            tie = lambda options: int(rng.choice(options))  # noqa: E731  one line is enough
            game = GraphApplicants(graph, [x], [int(truth[x])], setting=mode, tie=tie)
            mistake = play(learner, game).mistakes > 0
            wrong += mistake
            yield x, int(truth[x]), mistake
        quiet = 0 if wrong else quiet + 1
    raise AssertionError("the learner never stops making mistakes")


@cache
def naive_littlestone(rows: frozenset[tuple[bool, ...]], n: int) -> int:
    """The definition, for tiny classes."""
    if not rows:
        return -1
    best = 0
    for x in range(n):
        one = frozenset(row for row in rows if row[x])
        if one and len(one) < len(rows):
            sides = naive_littlestone(one, n), naive_littlestone(rows - one, n)
            best = max(best, 1 + min(sides))
    return best


def random_candidates(rng: np.random.Generator, n: int, k: int, g: int) -> ExplicitGraphClass:
    """A list of random graphs."""
    return ExplicitGraphClass.from_graphs([random_graph(rng, n, k) for _ in range(g)])


def perfect_rule(nodes, y, rules: FiniteClass, graph: ManipulationGraph) -> int | None:
    """A member with no strategic loss on the sequence, or None."""
    best = FiniteERM(rules).fit(nodes, y, graph=graph)
    return best.member_ if best.losses_[best.member_] == 0 else None


class Recorder(StrategicLearner):
    """Passes everything on and keeps the published rules."""

    on_graph = True

    def __init__(self, learner: StrategicLearner) -> None:
        self.learner, self.needs, self.rules = learner, learner.needs, []

    def act(self, seen=None):
        self.rules.append(np.array(self.learner.act(seen)))
        return self.rules[-1]

    def observe(self, after) -> None:
        self.learner.observe(after)
