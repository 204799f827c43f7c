"""Relabellings of the nodes of small graphs, through an exact canonical form.

Source: docs/theory/11-invariance.md, "Conventions".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, check_int, check_size
from counterplay.invariance.errors import InfiniteOrbitError, ShapeError
from counterplay.invariance.transformations import (
    MOST_NUMBERS,
    TransformationSet,
    byte_keys,
    finite_numbers,
)

MOST_NODES = 256  # the search for the canonical form is meant for some tens
_Leaf = tuple[tuple[int, ...], NDArray[np.int64], FloatArray]  # chosen nodes, order, matrix


class GraphRelabelling(TransformationSet):
    """Node relabellings of graphs on ``n_nodes`` nodes, through an exact canonical form.

    Nodes are refined by the multiset of their neighbours' colours; remaining ties are broken in
    every possible way that no automorphism makes superfluous, and the smallest adjacency matrix is
    kept. Meant for small graphs (some tens of nodes).
    """

    def __init__(self, n_nodes: int) -> None:
        self.n_nodes = check_int(n_nodes, "n_nodes", low=1, high=MOST_NODES)

    def __repr__(self) -> str:
        return f"GraphRelabelling({self.n_nodes})"

    @property
    def order(self) -> float:
        """Infinite as far as listing is concerned; the factorial of n_nodes in truth."""
        return math.inf

    def check_points(self, X: ArrayLike) -> FloatArray:
        """Return graphs as rows of n_nodes^2 numbers."""
        array = finite_numbers(X, "graphs")
        size = self.n_nodes**2
        if array.ndim < 2 or math.prod(array.shape[1:]) != size:
            raise ShapeError(
                f"graphs must be adjacency matrices of {self.n_nodes} nodes, "
                f"got shape {array.shape}"
            )
        return np.ascontiguousarray(array.reshape(len(array), size) + 0.0)

    def apply(self, X: ArrayLike) -> NDArray[Any]:
        """Not possible: there are too many relabellings."""
        raise InfiniteOrbitError("all relabellings cannot be listed; use sample(X, n_images)")

    def act(self, g: int, x: ArrayLike) -> NDArray[Any]:
        """Not possible: relabellings are not numbered."""
        raise InfiniteOrbitError("relabellings are not numbered; use sample(X, n_images)")

    def sample(self, X: ArrayLike, n_images: int, random_state: RandomState = None) -> NDArray[Any]:
        """Images under random relabellings, shape (n_images, n, n_nodes^2)."""
        points = self.check_points(X).reshape(-1, self.n_nodes, self.n_nodes)
        rng = generator(random_state)
        out = []
        count = check_int(n_images, "n_images", low=1)
        check_size(count * points.size, MOST_NUMBERS, "numbers in all images")
        for _ in range(count):
            perm = rng.permutation(self.n_nodes)
            out.append(points[:, perm][:, :, perm].reshape(len(points), -1))
        return np.stack(out)

    def canonical(self, X: ArrayLike) -> FloatArray:
        """The canonical adjacency matrix of every graph."""
        points = self.check_points(X)
        graphs = points.reshape(-1, self.n_nodes, self.n_nodes)
        return np.array([_canonical_graph(graph).reshape(-1) for graph in graphs]).reshape(
            points.shape
        )

    def orbit_key(self, X: ArrayLike) -> list[Any]:
        """Bytes of the canonical adjacency matrix."""
        return byte_keys(self.canonical(X))


def _canonical_graph(adjacency: FloatArray) -> FloatArray:
    search = _LabelSearch(adjacency)
    search.visit(np.zeros(len(adjacency), dtype=np.int64), ())
    return search.best[2]


class _LabelSearch:
    """Tries to tell tied nodes apart in every way that matters, and keeps the smallest matrix.

    Two ways that give the same matrix differ by an automorphism. Branches that an automorphism
    maps onto one another give the same matrices, so one of them is enough (McKay 1981, "Practical
    graph isomorphism"). Without this the empty graph on n nodes would take n! branches.
    """

    def __init__(self, adjacency: FloatArray) -> None:
        self.adjacency = adjacency
        self.automorphisms: list[NDArray[np.int64]] = []
        self.leaves: list[_Leaf] = []  # the first one, and the smallest one

    @property
    def best(self) -> _Leaf:
        """The smallest leaf."""
        return self.leaves[-1]

    def visit(self, colours: NDArray[np.int64], chosen: tuple[int, ...]) -> int:
        """Search below the chosen nodes; to which depth to go back (deeper: no need to)."""
        depth = len(chosen)
        colours = _refine(self.adjacency, colours)
        tied = np.flatnonzero(np.bincount(colours) > 1)
        if tied.size == 0:
            return self._leaf(np.argsort(colours), chosen)
        tried: list[int] = []
        for node in np.flatnonzero(colours == tied[0]).tolist():
            if self._equivalent(node, tried, chosen):
                continue
            branch = 2 * colours
            branch[node] -= 1
            back = self.visit(branch, (*chosen, node))
            if back < depth:
                return back
            tried.append(node)
        return depth

    def _leaf(self, order: NDArray[np.int64], chosen: tuple[int, ...]) -> int:
        matrix = self.adjacency[np.ix_(order, order)]
        for other_chosen, other_order, other in self.leaves:
            if np.array_equal(matrix, other):
                perm = np.empty_like(order)
                perm[other_order] = order
                self.automorphisms.append(perm)
                return _common_length(chosen, other_chosen)
        if not self.leaves or matrix.tobytes() < self.best[2].tobytes():
            self.leaves = [*self.leaves[:1], (chosen, order, matrix)]
        return len(chosen)

    def _equivalent(self, node: int, tried: list[int], chosen: tuple[int, ...]) -> bool:
        """Whether automorphisms that keep the chosen nodes map a tried node to this one."""
        fixed = list(chosen)
        keep = [p for p in self.automorphisms if p[fixed].tolist() == fixed]
        reached, front = {node}, [node]
        while front:
            here = front.pop()
            new = {int(p[here]) for p in keep} - reached
            reached |= new
            front += new
        return any(other in reached for other in tried)


def _common_length(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    return next((i for i, (a, b) in enumerate(zip(first, second)) if a != b), len(first))


def _refine(adjacency: FloatArray, colours: NDArray[np.int64]) -> NDArray[np.int64]:
    """Split colours by the sorted (edge, colour) lists of each node until nothing changes."""
    colours = np.unique(colours, return_inverse=True)[1].reshape(-1)
    while True:
        n_colours = colours.max() + 1
        signatures = []
        for v in range(len(colours)):
            around = sorted(zip(colours.tolist(), adjacency[v].tolist(), adjacency[:, v].tolist()))
            signatures.append((int(colours[v]), float(adjacency[v, v]), tuple(around)))
        rank = {signature: i for i, signature in enumerate(sorted(set(signatures)))}
        colours = np.array([rank[signature] for signature in signatures])
        if colours.max() + 1 == n_colours:
            return colours
