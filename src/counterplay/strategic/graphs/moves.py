"""Observed moves, and candidate graphs judged by them: missed moves and degree.

Publishing the rule "everything but x" makes the agent at x move to a uniformly random neighbour, or
stay if there is none. Graphs are compared on the distinct pairs (x, v) with their counts.

Source: Proposition 3.E, Lemma B.3 and theorem B.5, see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, IntArray, check_positive_int
from counterplay.errors import InvalidInputError, NotRealizableError
from counterplay.strategic.graphs.graph_classes import (
    ExplicitGraphClass,
    GraphClass,
    ProductGraphClass,
)
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph, check_nodes


def probe(graph: ManipulationGraph, nodes: ArrayLike, random_state: RandomState = None) -> IntArray:
    """Where agents go when everything but their own node is accepted: a random neighbour.

    Examples
    --------
    >>> probe(ManipulationGraph.from_lists([[1], []]), [0, 1, 0], random_state=0)
    array([1, 1, 1])
    """
    x = check_nodes(nodes, graph.n)
    degrees = graph.degrees[x]
    pick = np.floor(generator(random_state).random(x.size) * np.maximum(degrees, 1)).astype(
        np.int64
    )
    start = np.minimum(graph.indptr[x] + pick, max(0, graph.indices.size - 1))
    moved = graph.indices[start] if graph.indices.size else x
    return np.where(degrees > 0, moved, x).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Moves:
    """Distinct observed pairs: ``counts`` people at ``x`` went to ``v``; v = x is a stay."""

    x: IntArray
    v: IntArray
    counts: IntArray

    @classmethod
    def of(cls, nodes: ArrayLike, moved_to: ArrayLike, n: int) -> Moves:
        """Count the pairs of a sample on nodes 0 to n-1."""
        x, v = check_nodes(nodes, n), check_nodes(moved_to, n)
        if x.shape != v.shape or x.ndim != 1 or x.size == 0:
            raise InvalidInputError(
                f"nodes and moves must be equally long, got {x.shape} and {v.shape}"
            )
        pairs, counts = np.unique(x * n + v, return_counts=True)
        return cls(pairs // n, pairs % n, counts.astype(np.int64))

    @property
    def total(self) -> int:
        """Size of the sample."""
        return int(self.counts.sum())

    @cached_property
    def by_node(self) -> dict[int, list[tuple[int, int]]]:
        """For every node the (v, count) seen there."""
        seen: dict[int, list[tuple[int, int]]] = {}
        for x, v, count in zip(self.x.tolist(), self.v.tolist(), self.counts.tolist()):
            seen.setdefault(x, []).append((v, count))
        return seen


def listed(graphs: GraphClass) -> ExplicitGraphClass:
    """The class graph by graph."""
    if isinstance(graphs, ExplicitGraphClass):
        return graphs
    return ExplicitGraphClass.from_graphs(list(graphs.graphs()))


@dataclass(frozen=True, eq=False)
class Ranking:
    """Missed moves and degree of every candidate, summed over the sample.

    ``block`` is the block of a product class that a candidate belongs to (0 for listed graphs).
    """

    block: IntArray
    candidate: IntArray
    misses: IntArray
    degree: IntArray
    k: int
    total: int

    @property
    def score(self) -> IntArray:
        """2 k misses + degree: the proxy loss times k T, up to a constant; whole numbers."""
        result: IntArray = 2 * self.k * self.misses + self.degree
        return result

    def best(self) -> list[int]:
        """Smallest score per block; ties: smaller degree, then index."""
        order = np.lexsort((self.candidate, self.degree, self.score, self.block))
        first = np.flatnonzero(np.diff(self.block[order], prepend=-1))
        return [int(i) for i in self.candidate[order][first]]


def rank(graphs: GraphClass, moves: Moves) -> Ranking:
    """Judge every candidate graph (every candidate of every block) by the moves."""
    k = max(1, graphs.k)
    if isinstance(graphs, ProductGraphClass):
        rows = [
            (b, c, *_judge(candidate, sources, moves))
            for b, (sources, candidates) in enumerate(graphs.blocks)
            for c, candidate in enumerate(candidates)
        ]
        table = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        return Ranking(table[0], table[1], table[2], table[3], k, moves.total)
    explicit, moved = listed(graphs), moves.v != moves.x
    missed = ~explicit.tensor[:, moves.x[moved], moves.v[moved]]
    degree = explicit.degrees[:, moves.x] @ moves.counts
    index = np.arange(len(explicit))
    misses = (missed @ moves.counts[moved]).astype(np.int64)
    return Ranking(np.zeros_like(index), index, misses, degree, k, moves.total)


def _judge(
    candidate: dict[int, tuple[int, ...]], sources: tuple[int, ...], moves: Moves
) -> tuple[int, int]:
    misses = degree = 0
    for x in sources:
        targets = candidate.get(x, ())
        for v, count in moves.by_node.get(x, ()):
            degree += count * len(targets)
            if v != x and v not in targets:
                misses += count
    return misses, degree


def proxy_graph(
    graphs: GraphClass, nodes: ArrayLike, moved_to: ArrayLike
) -> tuple[ManipulationGraph, Any]:
    """Minimise twice the share of missed moves plus mean degree / k; ties: degree, then index.

    Examples
    --------
    >>> graphs = ExplicitGraphClass.from_graphs([ManipulationGraph.from_lists([[1, 2], [], []]),
    ...                                          ManipulationGraph.from_lists([[1], [], []])])
    >>> proxy_graph(graphs, [0, 0], [1, 1])[1]
    1
    """
    return build(graphs, rank(graphs, Moves.of(nodes, moved_to, graphs.n)).best())


def build(graphs: GraphClass, choice: list[int]) -> tuple[ManipulationGraph, Any]:
    """The graph with the chosen candidate of every block, and the choice as users see it."""
    if isinstance(graphs, ProductGraphClass):
        return graphs.build(choice), tuple(choice)
    return listed(graphs).graph(choice[0]), choice[0]


def consistent_graph(graphs: ExplicitGraphClass, nodes: ArrayLike, moved_to: ArrayLike) -> int:
    """Baseline: the last graph that contains all observed arcs, whatever its degree.

    Examples
    --------
    >>> graphs = ExplicitGraphClass.from_graphs([ManipulationGraph.from_lists([[1], [], []]),
    ...                                          ManipulationGraph.from_lists([[1, 2], [], []])])
    >>> consistent_graph(graphs, [0], [1])
    1
    """
    return last_consistent(rank(graphs, Moves.of(nodes, moved_to, graphs.n)))[0]


def last_consistent(ranking: Ranking) -> list[int]:
    """The last candidate of every block that misses no move."""
    choice = []
    for block in np.unique(ranking.block):
        fits = ranking.candidate[(ranking.block == block) & (ranking.misses == 0)]
        if fits.size == 0:
            raise NotRealizableError("no candidate graph contains all observed moves")
        choice.append(int(fits.max()))
    return choice


def proxy_loss(
    candidate: ManipulationGraph,
    truth: ManipulationGraph,
    k: int,
    distribution: FloatArray | None = None,
) -> float:
    """Population proxy 2 E[Pr(v not in N_G)] + (E|N_G| - E|N_G*|)/k; needs the true graph.

    Examples
    --------
    >>> nothing, truth = (ManipulationGraph.from_lists(arcs) for arcs in ([[], []], [[1], []]))
    >>> proxy_loss(nothing, truth, k=1)
    0.5
    """
    k = check_positive_int(k, "k")
    A, B = candidate.dense, truth.dense
    p = np.full(len(A), 1 / len(A)) if distribution is None else distribution
    missed = (B & ~A).sum(axis=1) / np.maximum(B.sum(axis=1), 1)
    return float(2 * p @ missed + p @ (A.sum(axis=1) - B.sum(axis=1)) / k)
