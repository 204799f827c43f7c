"""Finite sets of candidate graphs: listed one by one, or as a product of independent blocks.

Source: "Setting", Proposition 3.E (product classes), see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_int,
    check_size,
    shorten,
)
from counterplay.errors import InvalidInputError
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph

_DENSE = 2000  # nodes up to which graphs are compared as dense matrices
Block: TypeAlias = tuple[tuple[int, ...], tuple[dict[int, tuple[int, ...]], ...]]
"""Source nodes of a block, and its candidates: node to out-neighbours."""


class GraphClass(ABC):
    """Candidate graphs on nodes 0 to n-1, all of out-degree at most k."""

    n: int
    k: int

    @property
    @abstractmethod
    def log_size(self) -> float:
        """Natural logarithm of the number of graphs."""

    @abstractmethod
    def graphs(self) -> Iterator[ManipulationGraph]:
        """All graphs in order; only for small classes."""

    @abstractmethod
    def union(self) -> ManipulationGraph:
        """The graph with every arc of every candidate."""

    def explicit(self) -> ExplicitGraphClass:
        """The same class listed graph by graph (at most 100,000)."""
        if self.log_size > math.log(100_000):
            raise InvalidInputError("the class has more than 100000 graphs; too many to list")
        return ExplicitGraphClass.from_graphs(list(self.graphs()))


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class ExplicitGraphClass(GraphClass):
    """Candidate graphs as a boolean tensor: ``tensor[g, x, z]`` says whether g has arc x -> z.

    Examples
    --------
    >>> both = ExplicitGraphClass.from_graphs([ManipulationGraph.from_lists([[1], []]),
    ...                                        ManipulationGraph.from_lists([[], [0]])])
    >>> len(both), both.k
    (2, 1)
    """

    tensor: BoolArray

    def __post_init__(self) -> None:
        if self.tensor.ndim != 3 or self.tensor.shape[1] != self.tensor.shape[2]:
            raise InvalidInputError(f"graphs must be a (g, n, n) array, got {self.tensor.shape}")
        if len(self.tensor) == 0:
            raise InvalidInputError("a graph class needs at least one graph")
        loops = np.diagonal(self.tensor, axis1=1, axis2=2)
        if loops.any():
            graph, node = (int(i) for i in np.argwhere(loops)[0])
            raise InvalidInputError(f"graph {graph} has an arc from node {node} to itself")
        self.tensor.setflags(write=False)

    @classmethod
    def from_graphs(cls, graphs: Sequence[ManipulationGraph]) -> ExplicitGraphClass:
        """Stack graphs on the same nodes."""
        given = graphs if isinstance(graphs, list | tuple) else []
        if not given or not all(isinstance(graph, ManipulationGraph) for graph in given):
            raise InvalidInputError(
                f"graphs must be a list of manipulation graphs, got {shorten(graphs, 100)}"
            )
        if len({graph.n for graph in given}) > 1:
            raise InvalidInputError("the graphs have different numbers of nodes")
        check_size(len(given) * given[0].n ** 2, 1e9, "cells of all graphs")
        return cls(np.stack([graph.dense for graph in given]))

    def __len__(self) -> int:
        return len(self.tensor)

    @property
    def n(self) -> int:  # type: ignore[override]  # derived, not stored
        """Number of nodes."""
        return int(self.tensor.shape[1])

    @property
    def k(self) -> int:  # type: ignore[override]  # derived, not stored
        """Largest out-degree of any graph."""
        return int(self.tensor.sum(axis=2).max())

    @property
    def log_size(self) -> float:
        """ln of the number of graphs."""
        return math.log(len(self))

    @property
    def degrees(self) -> IntArray:
        """Out-degrees, shape (g, n)."""
        degrees: IntArray = self.tensor.sum(axis=2)
        return degrees

    def explicit(self) -> ExplicitGraphClass:
        """The class itself."""
        return self

    def graph(self, index: int) -> ManipulationGraph:
        """One of the graphs."""
        return ManipulationGraph.from_matrix(self.tensor[index])

    def graphs(self) -> Iterator[ManipulationGraph]:
        """All graphs in order."""
        return (self.graph(i) for i in range(len(self)))

    def union(self) -> ManipulationGraph:
        """The graph with every arc of every candidate."""
        return ManipulationGraph.from_matrix(self.tensor.any(axis=0))


@checked
@dataclass(frozen=True, eq=False)
class ProductGraphClass(GraphClass):
    """Independent blocks: each block of source nodes has its own list of candidate arcs.

    Parameters
    ----------
    n:
        Number of nodes.
    blocks:
        For each block the source nodes it decides about, and its candidates; a candidate maps some
        of these nodes to out-neighbours (others get none).

    Examples
    --------
    >>> two = ProductGraphClass(3, (((0,), ({}, {0: (1,)}, {0: (2,)})), ((1,), ({}, {1: (2,)}))))
    >>> round(math.exp(two.log_size)), two.k
    (6, 1)
    """

    n: int
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        seen: set[int] = set()
        for sources, candidates in self.blocks:
            if not candidates:
                raise InvalidInputError("every block needs at least one candidate")
            if seen & set(sources):
                raise InvalidInputError(f"node {min(seen & set(sources))} is in two blocks")
            seen |= set(sources)
            for candidate in candidates:
                for x, targets in candidate.items():
                    if x not in sources or x in targets:
                        raise InvalidInputError(f"a candidate has a wrong arc at node {x}")
                    for z in targets:
                        check_int(z, "node", low=0, high=self.n - 1)

    @property
    def k(self) -> int:  # type: ignore[override]  # derived, not stored
        """Largest out-degree of any candidate."""
        sizes = [len(t) for _, cands in self.blocks for c in cands for t in c.values()]
        return max(sizes, default=0)

    @property
    def log_size(self) -> float:
        """ln of the number of graphs: the sum over blocks."""
        return math.fsum(math.log(len(candidates)) for _, candidates in self.blocks)

    def build(self, choice: Sequence[int]) -> ManipulationGraph:
        """The graph with the given candidate in every block."""
        lists: list[tuple[int, ...]] = [()] * self.n
        for (_, candidates), index in zip(self.blocks, choice):
            for x, targets in candidates[index].items():
                lists[x] = targets
        return ManipulationGraph.from_lists(lists)

    def graphs(self) -> Iterator[ManipulationGraph]:
        """All graphs, the last block fastest; only for small classes."""
        ranges = [range(len(candidates)) for _, candidates in self.blocks]
        return (self.build(choice) for choice in product(*ranges))

    def union(self) -> ManipulationGraph:
        """The graph with every arc of every candidate."""
        arcs: list[set[int]] = [set() for _ in range(self.n)]
        for _, candidates in self.blocks:
            for candidate in candidates:
                for x, targets in candidate.items():
                    arcs[x].update(targets)
        return ManipulationGraph.from_lists([sorted(targets) for targets in arcs])


@checked
def graph_loss(
    candidate: ManipulationGraph, truth: ManipulationGraph, distribution: ArrayLike | None = None
) -> float:
    """Probability that the two neighbourhoods of a random node differ; needs the true graph.

    Examples
    --------
    >>> graph_loss(ManipulationGraph.from_lists([[1], []]), ManipulationGraph.from_lists([[], []]))
    0.5
    """
    if candidate.n != truth.n:
        raise InvalidInputError(f"the graphs have {candidate.n} and {truth.n} nodes")
    if candidate.n <= _DENSE:
        different = (candidate.dense != truth.dense).any(axis=1)
    else:
        different = np.asarray((candidate.adjacency != truth.adjacency).sum(axis=1) > 0)
    weights = None if distribution is None else np.asarray(distribution, dtype=np.float64)
    values: FloatArray = different.astype(np.float64).reshape(-1)
    return float(np.average(values, weights=weights))
