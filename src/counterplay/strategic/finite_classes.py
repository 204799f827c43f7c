"""Classes over a finite space: a table of distances, or the shortest paths of a graph.

The distance to acceptance of every point and rule is computed once, at construction.

Source: "Distances that are exact", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import dijkstra

from counterplay.core.arguments import checked
from counterplay.core.validation import BoolArray, FloatArray, check_float_array
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.strategic.classes import HypothesisClass, Members, check_indices
from counterplay.strategic.metrics import Metric, Points, TableMetric


class FiniteSpaceClass(HypothesisClass):
    """Common part of the classes over points 0..N-1; use one of its subclasses.

    Attributes
    ----------
    size:
        Number of points of the space.
    positive:
        ``(n, N)`` array of accepted points.
    table:
        ``(N, n)`` array of distances to acceptance.
    original:
        Number of each hypothesis in the list that was passed, which differs if ``dedupe=True``.
    """

    def __init__(self, positive: ArrayLike, size: int, dedupe: bool) -> None:
        rows = _check_positive(positive, size)
        _, first = np.unique(rows, axis=0, return_index=True)
        self.original = np.arange(rows.shape[0]) if first.size == rows.shape[0] else np.sort(first)
        if first.size < rows.shape[0] and not dedupe:
            warnings.warn(
                f"{rows.shape[0] - first.size} of {rows.shape[0]} hypotheses accept the same points"
                " as another one, which only inflates the bounds; pass dedupe=True to merge them",
                AssumptionWarning,
                stacklevel=3,
            )
            self.original = np.arange(rows.shape[0])
        self.positive = rows[self.original]
        self.n, self.size = self.positive.shape
        self.positive.setflags(write=False)
        self.table = self._distance_table()
        self.table.setflags(write=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n}, points={self.size})"

    def _distance_table(self) -> FloatArray:
        raise NotImplementedError

    def check_points(self, points: Points) -> Points:
        """Return point numbers."""
        return check_indices(points, self.size)

    def distances(self, points: Points, members: Members = None) -> FloatArray:
        """Return the stored distances of the given points."""
        rows = self.table[self.check_points(points)]
        return rows if members is None else rows[:, self.check_members(members)]

    def predict(self, points: Points, members: Members = None) -> BoolArray:
        """Return which members accept which points as they stand."""
        rows = self.positive.T[self.check_points(points)]
        return rows if members is None else rows[:, self.check_members(members)]

    def positive_sets(self) -> BoolArray:
        """Return the accepted points of every member."""
        return self.positive


@checked
class FiniteMetricClass(FiniteSpaceClass):
    """Rules over a finite space with a table of distances.

    Parameters
    ----------
    dist:
        ``(N, N)`` symmetric table of distances, see :class:`TableMetric`.
    positive:
        ``(n, N)`` boolean array: which points each hypothesis accepts.
    check_metric:
        Check the triangle inequality (all triples up to 300 points, else a sample).
    dedupe:
        Merge hypotheses that accept the same points; otherwise they only cause a warning.

    Examples
    --------
    Three points on a line; one rule accepts the right end, the other one everything but the left.

    >>> line = [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    >>> catalogue = FiniteMetricClass(line, [[0, 0, 1], [0, 1, 1]])
    >>> catalogue.distances([0, 1])
    array([[2., 1.],
           [1., 0.]])

    References
    ----------
    equation 2.2, "Setting", "Distances that are exact", see docs/theory/02-strategic-finite.md.
    """

    def __init__(
        self,
        dist: ArrayLike,
        positive: ArrayLike,
        *,
        check_metric: bool = True,
        dedupe: bool = False,
    ) -> None:
        self.metric: TableMetric = TableMetric(dist, check_metric=check_metric)
        super().__init__(positive, self.metric.size, dedupe)

    def _distance_table(self) -> FloatArray:
        out = np.full((self.size, self.n), np.inf)
        for j, accepted in enumerate(self.positive):
            if accepted.any():
                out[:, j] = self.metric.table[:, accepted].min(axis=1)
        return out

    def nearest(self, points: Points, members: ArrayLike) -> Points:
        """Return the accepted point with the smallest distance, the lowest number first."""
        index, chosen = self.check_points(points), self.check_members(members)
        d = np.where(self.positive[chosen], self.metric.table[index], np.inf)
        return np.asarray(np.argmin(d, axis=1))


@checked
class GraphMetric(Metric):
    """Length of the shortest path between the nodes of an undirected graph.

    Parameters
    ----------
    graph:
        Sparse ``(N, N)`` matrix of non-negative edge lengths, or a networkx graph (attribute
        ``weight``, default 1). Both directions of an edge must have the same length.

    Examples
    --------
    >>> import networkx as nx
    >>> GraphMetric(nx.path_graph(4)).pairwise([0], [2, 3])
    array([[2., 3.]])
    """

    def __init__(self, graph: Any) -> None:
        self.graph = _check_graph(graph)
        self.size = int(self.graph.shape[0])

    def __repr__(self) -> str:
        return f"GraphMetric({self.size} nodes, {self.graph.nnz // 2} edges)"

    def pairwise(self, points: Points, others: Points) -> FloatArray:
        """Return the shortest path lengths between the given nodes."""
        a, b = check_indices(points, self.size), check_indices(others, self.size)
        found: FloatArray = dijkstra(self.graph, directed=False, indices=b)[:, a].T
        return found


@checked
class GraphMetricClass(FiniteSpaceClass):
    """Rules over the nodes of an undirected graph; moving costs the length of the path.

    Parameters
    ----------
    graph:
        Sparse matrix of edge lengths or a networkx graph, see :class:`GraphMetric`.
    positive:
        ``(n, N)`` boolean array: which nodes each hypothesis accepts, nodes in the graph's order.
    dedupe:
        Merge hypotheses that accept the same nodes; otherwise they only cause a warning.

    Examples
    --------
    >>> import networkx as nx
    >>> catalogue = GraphMetricClass(nx.path_graph(5), [[0, 0, 0, 0, 1], [0, 1, 0, 0, 1]])
    >>> catalogue.distances([0, 3])
    array([[4., 1.],
           [1., 1.]])
    """

    def __init__(self, graph: Any, positive: ArrayLike, *, dedupe: bool = False) -> None:
        self.metric: GraphMetric = GraphMetric(graph)
        super().__init__(positive, self.metric.size, dedupe)

    def _distance_table(self) -> FloatArray:
        out = np.full((self.size, self.n), np.inf)
        for j, accepted in enumerate(self.positive):
            if accepted.any():
                out[:, j] = dijkstra(
                    self.metric.graph,
                    directed=False,
                    indices=np.flatnonzero(accepted),
                    min_only=True,
                )
        return out

    def nearest(self, points: Points, members: ArrayLike) -> Points:
        """Return an accepted node at the end of a shortest path."""
        index, chosen = self.check_points(points), self.check_members(members)
        out = np.empty(index.size, dtype=np.int64)
        for j in np.unique(chosen):
            here = chosen == j
            accepted = np.flatnonzero(self.positive[j])
            d = self.metric.pairwise(index[here], accepted)
            out[here] = accepted[np.argmin(d, axis=1)]
        return out


def _check_positive(positive: ArrayLike, size: int) -> BoolArray:
    raw = np.asarray(positive)
    if raw.ndim != 2 or raw.shape[0] == 0 or raw.shape[1] != size:
        raise InvalidInputError(
            f"positive must have one row per hypothesis and one column per point ({size}), "
            f"got shape {raw.shape}"
        )
    if raw.dtype != np.bool_ and not np.isin(raw, (0, 1)).all():
        raise InvalidInputError("positive must contain only True/False or 0/1")
    return raw.astype(np.bool_)


def _check_graph(graph: Any) -> sp.csr_array:
    if hasattr(graph, "is_directed"):  # a networkx graph
        import networkx as nx

        if graph.is_directed():
            raise InvalidInputError("a directed graph is no metric; pass an undirected one")
        graph = nx.to_scipy_sparse_array(graph, dtype=np.float64, format="csr")
    if not sp.issparse(graph):
        graph = check_float_array(graph, "graph", ndim=2)
    matrix = sp.csr_array(graph, dtype=np.float64)
    if matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise InvalidInputError(f"graph must be a square matrix, got shape {matrix.shape}")
    if np.isnan(matrix.data).any() or (matrix.data < 0).any():
        raise InvalidInputError("edge lengths must not be NaN or negative")
    if (matrix != matrix.T).nnz:
        i, j = (int(v[0]) for v in (matrix != matrix.T).nonzero())
        raise InvalidInputError(
            f"edge lengths must be symmetric; edge ({i}, {j}) has {matrix[i, j]:g} one way and "
            f"{matrix[j, i]:g} the other"
        )
    return matrix
