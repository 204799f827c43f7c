"""Manipulation graphs: who can turn into whom.

An applicant at a node who is rejected there moves along one arc to an accepted node, if there is
one. Only the closed neighbourhood N[x] = {x} and N(x) of a node ever matters, so everything is
stored and asked per row.

Source: "Setting", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    array_fault,
    check_float_array,
    check_int,
    check_real,
    shorten,
)
from counterplay.errors import CounterplayWarning, InvalidInputError
from counterplay.strategic.features import Names, numbers, read_points
from counterplay.tables import Table
from counterplay.tables.table import match_columns


@checked
@dataclass(frozen=True)
class Action:
    """A named change of one feature with a cost.

    Parameters
    ----------
    name:
        What a person does, in words.
    column:
        The feature that changes.
    change:
        By how much, in the feature's own units.
    cost:
        What it costs, in the units of the budget.
    low:
        Smallest value the feature may take; default: the smallest seen in the data.
    high:
        Largest value the feature may take; default: the largest seen in the data.

    Examples
    --------
    >>> Action("close a card", column=1, change=-1, cost=1.0).name
    'close a card'

    References
    ----------
    "Setting", see docs/theory/03-strategic-infinite.md.
    """

    name: str
    column: int
    change: float
    cost: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        check_int(self.column, f"column of action {self.name!r}", low=0)
        check_real(self.change, f"change of action {self.name!r}")
        check_real(self.cost, f"cost of action {self.name!r}", low=0.0, open_low=True)
        if self.change == 0:
            raise InvalidInputError(f"action {self.name!r} changes nothing; leave it out")


@checked
@dataclass(frozen=True, eq=False)
class ManipulationGraph:
    """A directed graph on nodes 0 to n-1: arcs are the moves people can make.

    Build it with :meth:`from_lists`, :meth:`from_matrix`, :meth:`from_networkx` or, for a table of
    people and named actions, :meth:`from_actions`.

    Parameters
    ----------
    indptr:
        Starts of the compressed rows of out-neighbours.
    indices:
        Out-neighbours, sorted and distinct, without self-loops.
    features:
        Coordinates of the nodes, shape (n, p), if they have any.
    k:
        Declared bound on the out-degree; default: the largest out-degree.
    actions:
        What the arcs were made of, if they come from actions.
    names:
        Names of the columns of ``features``; frames are matched with them by name.

    Examples
    --------
    >>> graph = ManipulationGraph.from_lists([[1, 2], [], [1]])
    >>> graph.k, graph.closed(0)
    (2, array([0, 1, 2]))
    >>> graph.induced(np.array([[0, 1, 0]]))
    array([[ True,  True,  True]])

    References
    ----------
    "Setting", see docs/theory/03-strategic-infinite.md.
    """

    indptr: IntArray
    indices: IntArray
    features: FloatArray | None = None
    k: int = -1
    actions: tuple[Action, ...] = ()
    names: Names = None
    _rows: dict[bytes, int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in ("indptr", "indices"):
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu" or array.ndim != 1:
                raise InvalidInputError(
                    f"{name} must be an array of integers, got {shorten(array, 100)}"
                )
        starts = self.indptr
        if starts.size and (
            starts[0] != 0 or starts[-1] != self.indices.size or (np.diff(starts) < 0).any()
        ):
            raise InvalidInputError("indptr must rise from 0 to the number of indices")
        n = self.indptr.size - 1
        if n < 1:
            raise InvalidInputError("a manipulation graph needs at least one node")
        degrees = np.diff(self.indptr)
        sources = np.repeat(np.arange(n), degrees)
        outside = np.flatnonzero((self.indices < 0) | (self.indices >= n))
        if outside.size:
            raise InvalidInputError(
                f"node {sources[outside[0]]} has an arc to {self.indices[outside[0]]}; arcs must "
                f"lead to nodes 0 to {n - 1}"
            )
        loops = np.flatnonzero(sources == self.indices)
        if loops.size:
            raise InvalidInputError(
                f"node {sources[loops[0]]} has an arc to itself; staying is always possible, "
                "leave self-loops out"
            )
        largest = int(degrees.max(initial=0))
        if self.k == -1:
            object.__setattr__(self, "k", largest)
        elif check_int(self.k, "k", low=0) < largest:
            raise InvalidInputError(
                f"k={self.k} but node {int(degrees.argmax())} has {largest} arcs"
            )
        if self.features is not None:
            object.__setattr__(
                self, "features", check_float_array(self.features, "features", ndim=2)
            )
            if len(self.features) != n:
                raise InvalidInputError(f"features must have {n} rows, got {len(self.features)}")
            self._rows.update(zip(_row_keys(self.features), range(n)))
        for array in (self.indptr, self.indices, self.features):
            if array is not None:
                array.setflags(write=False)

    @classmethod
    def from_lists(
        cls,
        neighbors: Sequence[Iterable[int]],
        *,
        features: ArrayLike | None = None,
        k: int = -1,
    ) -> ManipulationGraph:
        """Build a graph from one list of out-neighbours per node; duplicate arcs are dropped."""
        rows = []
        given_rows = isinstance(neighbors, list | tuple | range | np.ndarray)
        if not given_rows or (isinstance(neighbors, np.ndarray) and neighbors.ndim == 0):
            raise InvalidInputError(
                f"neighbors must be one list of nodes per node, got {shorten(neighbors, 100)}"
            )
        for x, targets in enumerate(neighbors):
            if not isinstance(targets, Iterable) or getattr(targets, "ndim", 1) == 0:
                raise InvalidInputError(
                    f"neighbours of node {x} must be a list, got {shorten(targets, 100)}"
                )
            listed = list(targets)
            if listed and (fault := array_fault(listed, kinds="biu")):
                raise InvalidInputError(f"neighbours of node {x} must be node numbers: {fault}")
            given = np.asarray(listed, dtype=np.int64).reshape(-1)
            unique = np.unique(given)
            if unique.size < given.size:
                warnings.warn(f"node {x} lists an arc twice", CounterplayWarning, stacklevel=2)
            rows.append(unique)
        indptr = np.cumsum([0, *(row.size for row in rows)]).astype(np.int64)
        flat = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
        return cls(indptr, flat.astype(np.int64), _points(features), k)

    @classmethod
    def from_matrix(
        cls, adjacency: Any, *, features: ArrayLike | None = None, k: int = -1
    ) -> ManipulationGraph:
        """Build a graph from a dense or sparse adjacency matrix; entry (x, z) is the arc x -> z."""
        matrix = sparse.csr_array(adjacency, copy=True)  # a graph's own matrix is read-only
        if matrix.shape[0] != matrix.shape[1]:
            raise InvalidInputError(f"the adjacency matrix must be square, got {matrix.shape}")
        matrix.eliminate_zeros()
        matrix.sort_indices()
        arcs = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        return cls(*arcs, _points(features), k)

    @classmethod
    def from_networkx(cls, graph: Any, *, k: int = -1) -> ManipulationGraph:
        """Build a graph from a networkx (di)graph whose nodes are 0 to n-1 in order."""
        import networkx as nx

        return cls.from_matrix(nx.to_scipy_sparse_array(graph, dtype=np.int8), k=k)

    @classmethod
    def from_actions(cls, X: Any, actions: Sequence[Action], budget: float) -> ManipulationGraph:
        """Nodes are the distinct rows of ``X`` and every point that actions within budget reach.

        The actions are `Moves` (see `Moves.from_actions`): each may be taken several times and
        combined with others as long as the total cost stays within ``budget``. Features that change
        stay within the range seen in ``X`` unless the action says otherwise. The column names of a
        frame are kept.

        Examples
        --------
        >>> X = [[2.0, 0.0], [0.0, 1.0]]
        >>> graph = ManipulationGraph.from_actions(X, [Action("work", 0, 1, cost=1.0)], budget=2.0)
        >>> graph.features[graph.neighbors(graph.node_of([[0.0, 1.0]])[0])]
        array([[1., 1.],
               [2., 1.]])
        """
        from counterplay.strategic.move_graph import grown_graph
        from counterplay.strategic.moves import Moves

        limit = check_real(budget, "budget", low=0.0)
        points = numbers(Table.of(X))
        moves = Moves.from_actions(actions, reference=points)
        graph = grown_graph(moves, points, limit, tuple(actions))
        return replace(graph, names=Table.of(X).names)

    def __len__(self) -> int:
        return int(self.indptr.size - 1)

    def __repr__(self) -> str:
        return f"ManipulationGraph({len(self)} nodes, {self.indices.size} arcs, k={self.k})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self)

    @property
    def degrees(self) -> IntArray:
        """Out-degree of every node."""
        return np.diff(self.indptr)

    def neighbors(self, x: int) -> IntArray:
        """Open out-neighbourhood N(x)."""
        x = check_int(x, "node", low=0, high=self.n - 1)
        return self.indices[self.indptr[x] : self.indptr[x + 1]]

    def closed(self, x: int) -> IntArray:
        """Closed neighbourhood N[x], x first."""
        return np.concatenate([[x], self.neighbors(x)]).astype(np.int64)

    @cached_property
    def adjacency(self) -> Any:
        """The arcs as a sparse boolean matrix."""
        data = np.ones(self.indices.size, dtype=np.bool_)
        return sparse.csr_array((data, self.indices, self.indptr), shape=(self.n, self.n))

    @cached_property
    def dense(self) -> BoolArray:
        """The arcs as a dense boolean matrix, read-only; for graphs of moderate size."""
        matrix = np.zeros((self.n, self.n), dtype=np.bool_)
        matrix[np.repeat(np.arange(self.n), self.degrees), self.indices] = True
        matrix.setflags(write=False)
        return matrix

    @cached_property
    def bags(self) -> Any:
        """Closed neighbourhoods as a sparse 0/1 matrix, one row per node."""
        return (self.adjacency.astype(np.int32) + sparse.eye_array(self.n, dtype=np.int32)).tocsr()

    def induced(self, labels: ArrayLike) -> BoolArray:
        """Induced labels max over N[x], for label rows of shape (..., n)."""
        rows = np.asarray(labels, dtype=np.int32)
        if rows.shape[-1] != self.n:
            raise InvalidInputError(f"labels must have {self.n} columns, got shape {rows.shape}")
        return np.asarray((self.bags @ np.atleast_2d(rows).T).T > 0).reshape(rows.shape)

    def node_of(self, X: Any) -> IntArray:
        """Nodes of feature rows; raises for a row that is no node."""
        if self.features is None:
            raise InvalidInputError("this graph has no features; use node numbers")
        rows = read_points(X, self.names)
        if rows.shape[1] != self.features.shape[1]:
            raise InvalidInputError(
                f"X has {rows.shape[1]} columns, the nodes have {self.features.shape[1]} features"
            )
        found = self._rows
        nodes = np.array([found.get(key, -1) for key in _row_keys(rows)], dtype=np.int64)
        if (nodes < 0).any():
            bad = int(np.flatnonzero(nodes < 0)[0])
            raise InvalidInputError(f"row {bad} of X is not a node of the graph; build it with X")
        return nodes

    def bag_points(self, X: Any) -> tuple[FloatArray, IntArray, IntArray]:
        """Distinct points, and per row of ``X`` its bag: (points, pointers, point numbers).

        The columns of the points are those of ``X``, in the same order.
        """
        table = Table.of(X)
        nodes = self.node_of(table)
        sizes = self.degrees[nodes] + 1
        pointers = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        flat = np.empty(pointers[-1], dtype=np.int64)
        flat[pointers[:-1]] = nodes
        others = np.ones(flat.size, dtype=np.bool_)
        others[pointers[:-1]] = False
        shift = np.repeat(self.indptr[nodes] - pointers[:-1] - 1, sizes)
        flat[others] = self.indices[(np.arange(flat.size) + shift)[others]]
        assert self.features is not None
        features = self.features
        if table.names is not None and self.names is not None:
            features = features[:, match_columns(self.names, table.names, "the graph")]
        used = np.zeros(self.n, dtype=np.bool_)
        used[flat] = True
        if used.all():
            return features, pointers, flat
        position = np.cumsum(used) - 1
        return features[used], pointers, position[flat]


@checked(arrays=True)
@dataclass(frozen=True)
class LocalGraph:
    """Moves on an infinite domain, given by a function that lists the neighbours of a point.

    Parameters
    ----------
    function:
        ``x -> array (m, p)`` with at most ``k`` rows, none equal to ``x``.
    k:
        Bound on the number of neighbours.

    Examples
    --------
    >>> shift = LocalGraph(lambda x: x + [[1.0, 0.0]], k=1)
    >>> shift.closed(np.array([0.0, 2.0]))
    array([[0., 2.],
           [1., 2.]])
    """

    function: Callable[[FloatArray], Any]
    k: int
    _cache: dict[bytes, FloatArray] = field(default_factory=dict, repr=False, compare=False)

    def neighbors(self, x: ArrayLike) -> FloatArray:
        """Open neighbourhood of a point, checked and cached."""
        point = check_float_array(x, "x", ndim=1)
        key = point.tobytes()
        if key not in self._cache:
            rows = check_float_array(self.function(point), "neighbors", ndim=2)
            if len(rows) > self.k:
                raise InvalidInputError(f"{point} has {len(rows)} neighbours, more than k={self.k}")
            if len(rows) and (rows == point).all(axis=1).any():
                raise InvalidInputError(f"{point} lists itself as a neighbour; leave it out")
            self._cache[key] = rows
        return self._cache[key]

    def closed(self, x: ArrayLike) -> FloatArray:
        """Closed neighbourhood, the point first."""
        point = check_float_array(x, "x", ndim=1)
        return np.vstack([point[None, :], self.neighbors(point)])

    def bag_points(self, X: Any) -> tuple[FloatArray, IntArray, IntArray]:
        """Distinct points, and per row of ``X`` its bag: (points, pointers, point numbers)."""
        bags = [self.closed(row) for row in read_points(X)]
        pointers = np.cumsum([0, *(len(bag) for bag in bags)]).astype(np.int64)
        points, position = np.unique(np.vstack(bags) + 0.0, axis=0, return_inverse=True)
        return points, pointers, position.reshape(-1).astype(np.int64)


def _points(features: ArrayLike | None) -> FloatArray | None:
    return None if features is None else check_float_array(features, "features", ndim=2).copy()


def _row_keys(rows: FloatArray) -> list[bytes]:
    """The bytes of every row, the same for 0.0 and -0.0."""
    table = np.ascontiguousarray(rows) + 0.0
    if table.shape[1] == 0:
        return [b""] * len(table)
    keys: Any = table.view(np.dtype((np.void, 8 * table.shape[1]))).reshape(-1).tolist()
    result: list[bytes] = keys
    return result


def check_nodes(nodes: ArrayLike, n: int) -> IntArray:
    """Return node numbers as integers; raises for the first one outside 0 to n-1."""
    if fault := array_fault(nodes, kinds="biuf"):
        raise InvalidInputError(f"nodes must be numbers from 0 to {n - 1}: {fault}")
    given: Any = np.asarray(nodes)
    if given.ndim > 1:
        raise InvalidInputError(f"nodes must be a list, got shape {given.shape}")
    if given.dtype.kind == "f" and given.size and not (given == np.floor(given)).all():
        raise InvalidInputError("nodes must be whole numbers")
    if given.size and not (given.min() >= 0 and given.max() < n):
        bad = int(np.flatnonzero((given < 0) | (given >= n))[0])
        raise InvalidInputError(
            f"entry {bad} is node {shorten(given.flat[bad], 40)}; nodes are 0 to {n - 1}"
        )
    numbered: IntArray = given.astype(np.int64)
    return numbered
