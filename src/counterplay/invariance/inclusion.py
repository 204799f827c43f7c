"""The one-inclusion graph of a class on a set of points, and its orientations.

Vertices are the labelings, edges join labelings that differ at one point. An edge that points
towards the true labeling is a mistake when that point is the test point; predicting the label of
the tail therefore makes at most in-degree(truth) leave-one-out mistakes. Orientations depend on
the set of points only, never on which point is asked for or on the order of the data: columns are
sorted by the keys of the points and rows as numbers before anything is computed.
Source: Lemma 11.1, see docs/theory/11-invariance.md, "One-inclusion graph".
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components, maximum_flow

from counterplay.core.arguments import checked
from counterplay.core.bits import Words, as_indices, pack_rows, unique_rows
from counterplay.core.finite_class import FiniteClass
from counterplay.core.programs import minimize_linear
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_int,
    shorten,
)
from counterplay.errors import InvalidInputError

Method = Literal["flow", "peel"]
_MOST_VERTICES = 1 << 24


@checked(arrays=True)
@dataclass(frozen=True)
class Orientation:
    """A direction for every edge of a one-inclusion graph.

    Attributes
    ----------
    head:
        The vertex each edge points to: the labeling for which this edge is a mistake.
    indegree:
        Mistakes of each labeling if it is the truth, one test point after the other.
    method:
        How it was found.
    """

    head: IntArray
    indegree: IntArray
    method: str

    @property
    def max_indegree(self) -> int:
        """Most leave-one-out mistakes of any labeling."""
        return int(self.indegree.max(initial=0))


@checked(arrays=True)
@dataclass(frozen=True)
class FractionalOrientation:
    """A random direction for every edge: ``toward_one[e]`` is the weight on the 1-labelled end.

    ``value`` is the largest expected in-degree, which equals the largest density |E'| / |V'| of a
    subgraph.
    """

    toward_one: FloatArray
    indegree: FloatArray
    value: float


@checked
@dataclass(frozen=True)
class Prediction:
    """The answer at one point: the label, and how it came about.

    ``kind`` is "forced" (one consistent labeling), "oriented" (two, the edge decides) or "empty"
    (none; the label is then 0). ``probability`` is the weight on label 1.
    """

    label: int
    kind: Literal["forced", "oriented", "empty"]
    probability: float


@checked
class OneInclusionGraph:
    """One-inclusion graph of distinct labelings of a set of points.

    Use it to predict the label of one point from the labels of the others with the best worst-case
    guarantee: on average over which point is left out, at most VCdim / (number of points) errors.

    Parameters
    ----------
    labelings:
        A class or 0/1 matrix, one row per labeling, one column per point; equal rows are merged.
    keys:
        One sortable key per column, pairwise different, that names the point itself (an orbit key,
        a coordinate tuple). Required for the guarantee when columns may come in any order; the
        default takes the column order as given.
    edge_columns:
        Mask or indices of the columns that may be asked for; others get no edges (a point seen
        twice is never unknown).

    Notes
    -----
    ``vertices`` are the labelings in canonical order, in the caller's column order. The "flow"
    orientation has in-degree at most the VC dimension, "peel" at most twice that.

    Examples
    --------
    >>> graph = OneInclusionGraph(FiniteClass.thresholds([1, 2, 3, 4]))
    >>> len(graph.vertices), graph.n_edges, graph.orient().max_indegree
    (5, 4, 1)
    >>> graph.predict(2, [0, 0, -1, 1])   # the label at the point itself is not read
    Prediction(label=1, kind='oriented', probability=1.0)

    References
    ----------
    Haussler, Littlestone and Warmuth (1994), "Predicting {0,1}-functions on randomly drawn points".
    """

    def __init__(
        self,
        labelings: FiniteClass | ArrayLike,
        *,
        keys: Sequence[Any] | None = None,
        edge_columns: Any = None,
    ) -> None:
        rows = _label_rows(labelings)
        k = rows.shape[1]
        self._column_order = _canonical_columns(keys, k)
        allowed = np.zeros(k, dtype=np.bool_)
        allowed[as_indices(slice(None) if edge_columns is None else edge_columns, k, "columns")] = (
            True
        )
        self._allowed: BoolArray = allowed
        canonical = rows[:, self._column_order]
        words = _number_words(canonical)
        words = words[unique_rows(words)[0]]
        self._words: Words = words[np.lexsort(words.T[::-1])] if k else words
        self._rows: BoolArray = _from_number_words(self._words, k)
        self._position = np.argsort(self._column_order)
        edges = _edges(self._words, k, np.flatnonzero(allowed[self._column_order]))
        self._zero_end, self._one_end, self._edge_column = edges
        self._oriented: dict[str, Orientation] = {}
        self._fractional: FractionalOrientation | None = None

    def __repr__(self) -> str:
        return f"OneInclusionGraph({self.n_vertices} labelings, {self.n_edges} edges)"

    @property
    def n_vertices(self) -> int:
        """Number of labelings."""
        return int(self._words.shape[0])

    @property
    def n_edges(self) -> int:
        """Number of pairs of labelings that differ at one point."""
        return int(self._zero_end.size)

    @cached_property
    def vertices(self) -> BoolArray:
        """The labelings in canonical order, columns as given."""
        return self._rows[:, self._position]

    @cached_property
    def edges(self) -> IntArray:
        """Edges (labeling with 0, labeling with 1, column as given), shape (E, 3)."""
        columns = self._column_order[self._edge_column]
        return np.column_stack([self._zero_end, self._one_end, columns]).astype(np.int64)

    @cached_property
    def components(self) -> IntArray:
        """Connected component of each vertex."""
        n = self.n_vertices
        ones = np.ones(self.n_edges, dtype=np.int8)
        graph = sparse.coo_array((ones, (self._zero_end, self._one_end)), shape=(n, n))
        labels: IntArray = connected_components(graph, directed=False)[1].astype(np.int64)
        return labels

    def orient(self, method: Method = "flow") -> Orientation:
        """Direct every edge so that the largest in-degree is small.

        "flow" minimises it in every connected component (maximum flow); "peel" removes a vertex of
        smallest degree again and again, which is linear and at most twice the VC dimension.
        """
        check_choice(method, "method", ("flow", "peel"))
        if method not in self._oriented:
            head = peel_orientation(self.n_vertices, self._zero_end, self._one_end)
            if method == "flow":
                head = self._improve(head)
            indegree = np.bincount(head, minlength=self.n_vertices).astype(np.int64)
            self._oriented[method] = Orientation(head, indegree, method)
        return self._oriented[method]

    def orient_fractional(self) -> FractionalOrientation:
        """Random orientation with the smallest possible largest expected in-degree (an LP)."""
        if self._fractional is None:
            self._fractional = _fractional(self.n_vertices, self._zero_end, self._one_end)
        return self._fractional

    def predict(
        self,
        column: int,
        labels: ArrayLike,
        method: Literal["flow", "peel", "fractional"] = "flow",
    ) -> Prediction:
        """Predict the label of one column from the labels of all others.

        Parameters
        ----------
        column:
            The point asked for.
        labels:
            Labels of all columns in the caller's order; the entry at ``column`` is ignored.
        method:
            Orientation to use.
        """
        known = np.asarray(labels)
        k = self._position.size
        if known.shape != (k,):
            raise InvalidInputError(f"labels must have length {k}, got shape {known.shape}")
        column = check_int(column, "column", low=0, high=k - 1)
        pair = []
        for label in (0, 1):
            row = known.copy()
            row[column] = label
            pair.append(self._find(row == 1))
        zero, one = pair
        if zero is None and one is None:
            return Prediction(0, "empty", 0.0)
        if zero is None or one is None:
            label = int(zero is None)
            return Prediction(label, "forced", float(label))
        return self._decide(zero, one, int(self._position[column]), method)

    def loo_mistakes(self, labels: ArrayLike, method: Method = "flow") -> int:
        """Number of edge columns at which the others' labels lead to a wrong prediction."""
        truth = np.asarray(labels)
        return sum(
            self.predict(int(column), truth, method).label != truth[column]
            for column in np.flatnonzero(self._allowed)
        )

    def _decide(self, zero: int, one: int, column: int, method: str) -> Prediction:
        edge = self._edge_index(zero, column)
        if edge is None:
            raise InvalidInputError("the point asked for is not among edge_columns")
        if method == "fractional":
            towards_zero = 1.0 - float(self.orient_fractional().toward_one[edge])
            return Prediction(int(towards_zero > 0.5), "oriented", towards_zero)
        head = self.orient("peel" if method == "peel" else "flow").head[edge]
        label = int(head == zero)  # towards = mistake, so the tail is predicted
        return Prediction(label, "oriented", float(label))

    def _find(self, row: BoolArray) -> int | None:
        words = _number_words(row[self._column_order][None, :])[0]
        low, high = 0, self.n_vertices
        for w in range(self._words.shape[1]):
            part = self._words[low:high, w]
            low, high = (
                low + int(np.searchsorted(part, words[w], "left")),
                low + int(np.searchsorted(part, words[w], "right")),
            )
        return low if low < high else None

    def _edge_index(self, zero: int, column: int) -> int | None:
        low = int(np.searchsorted(self._edge_column, column, "left"))
        high = int(np.searchsorted(self._edge_column, column, "right"))
        index = low + int(np.searchsorted(self._zero_end[low:high], zero))
        return index if index < high and self._zero_end[index] == zero else None

    def _improve(self, head: IntArray) -> IntArray:
        """Lower the largest in-degree of every component to its minimum by maximum flows."""
        n = self.n_vertices
        component = self.components
        n_components = int(component.max(initial=-1)) + 1
        indegree = np.bincount(head, minlength=n)
        worst = np.zeros(n_components, dtype=np.int64)
        np.maximum.at(worst, component, indegree)
        sizes = np.bincount(component, minlength=n_components)
        edge_component = component[head] if head.size else head
        n_edges = np.bincount(edge_component, minlength=n_components)
        least = -(-n_edges // np.maximum(sizes, 1))
        for c in np.flatnonzero(worst > least):
            edges = np.flatnonzero(edge_component == c)
            vertices, local = np.unique(
                [self._zero_end[edges], self._one_end[edges]], return_inverse=True
            )
            ends = local.reshape(2, -1)
            heads = np.searchsorted(vertices, head[edges])
            better = _flow_orientation(vertices.size, ends, heads, int(least[c]), int(worst[c]))
            head[edges] = vertices[better]
        return head


@checked
def peel_orientation(n_vertices: int, first: IntArray, second: IntArray) -> IntArray:
    """Orient edges by removing a vertex of smallest degree (smallest index on ties) at a time.

    The remaining edges of the removed vertex point to it. Returns the head of every edge.

    Examples
    --------
    >>> peel_orientation(3, np.array([0, 1]), np.array([1, 2]))   # a path 0 - 1 - 2
    array([0, 1])
    """
    n = check_int(n_vertices, "n_vertices", low=0, high=_MOST_VERTICES)
    first, second = (
        _vertices(end, n, name) for end, name in ((first, "first"), (second, "second"))
    )
    if first.size != second.size:
        raise InvalidInputError("first and second must have one end of every edge each")
    ends = np.concatenate([first, second])
    order = np.argsort(ends, kind="stable")
    starts = np.searchsorted(ends[order], np.arange(n + 1))
    incident = order % max(first.size, 1)
    other = np.concatenate([second, first])[order]
    heads: IntArray = _peel(n, starts, incident, other, first.size)
    return heads


def _vertices(ends: IntArray, n: int, name: str) -> IntArray:
    """Ends of edges as numbers of vertices: compiled code does not look whether they exist."""
    array = np.asarray(ends)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidInputError(f"{name} must be a list of integers, got {shorten(ends, 80)}")
    if array.size and not (array.min() >= 0 and array.max() < n):
        raise InvalidInputError(f"{name} must hold numbers of vertices between 0 and {n - 1}")
    return array.astype(np.int64)


@njit(cache=True)
def _peel(n, starts, incident, other, n_edges):  # type: ignore[no-untyped-def]  # compiled by numba
    """Remove a vertex of smallest degree again and again; its edges then point to it."""
    head = np.full(n_edges, -1, dtype=np.int64)
    degree = np.diff(starts)
    removed = np.zeros(n, dtype=np.bool_)
    # One number per vertex that sorts by degree, then by index.
    heap = [degree[v] * n + v for v in range(n)]
    heapq.heapify(heap)
    while len(heap) > 0:
        entry = heapq.heappop(heap)
        v = entry % n
        # An entry is stale if its vertex is gone or has lost an edge since it was pushed.
        if removed[v] or entry // n != degree[v]:
            continue
        # v has the smallest degree: its remaining edges point to it, its neighbours lose them.
        removed[v] = True
        for slot in range(starts[v], starts[v + 1]):
            u = other[slot]
            if not removed[u]:
                head[incident[slot]] = v
                degree[u] -= 1
                heapq.heappush(heap, degree[u] * n + u)
    return head


def _flow_orientation(n: int, ends: IntArray, head: IntArray, least: int, worst: int) -> IntArray:
    """Smallest largest in-degree, starting from an orientation whose largest one is ``worst``.

    Turning an edge around moves one unit of in-degree from its head to its tail. Vertices above
    the bound k are sources, vertices below it sinks; k is feasible if all excess can be moved.
    """
    tail = ends[0] + ends[1] - head
    indegree = np.bincount(head, minlength=n)
    for k in range(least, worst):
        excess, room = np.maximum(indegree - k, 0), np.maximum(k - indegree, 0)
        above, below = np.flatnonzero(excess), np.flatnonzero(room)
        rows = np.concatenate([head, np.full(above.size, n), below])
        columns = np.concatenate([tail, above, np.full(below.size, n + 1)])
        capacity = np.concatenate([np.ones(head.size, dtype=np.int64), excess[above], room[below]])
        network = sparse.csr_array(
            (capacity.astype(np.int32), (rows, columns)), shape=(n + 2, n + 2)
        )
        result = maximum_flow(network, n, n + 1)
        if result.flow_value == excess.sum():
            moved = np.asarray(result.flow[head, tail]).reshape(-1) > 0
            return np.where(moved, tail, head)
    return head


def _fractional(n: int, zero_end: IntArray, one_end: IntArray) -> FractionalOrientation:
    m = zero_end.size
    if m == 0:
        return FractionalOrientation(np.zeros(0), np.zeros(n, dtype=np.float64), 0.0)
    edge = np.arange(m)
    # In-degree of v: sum of w over edges whose 1-end is v, plus sum of 1 - w over its 0-ends.
    values = np.concatenate([np.ones(m), -np.ones(m), -np.ones(n)])
    rows = np.concatenate([one_end, zero_end, np.arange(n)])
    columns = np.concatenate([edge, edge, np.full(n, m)])
    matrix = sparse.coo_array((values, (rows, columns)), shape=(n, m + 1)).tocsr()
    constant = np.bincount(zero_end, minlength=n).astype(np.float64)
    bounds = np.column_stack([np.zeros(m + 1), np.append(np.ones(m), np.inf)])
    solution = minimize_linear(
        np.append(np.zeros(m), 1.0), A_ub=matrix, b_ub=-constant, bounds=bounds,
        what="the orientation program",
    )  # fmt: skip
    toward_one: FloatArray = np.clip(solution.point[:m], 0.0, 1.0)
    indegree: FloatArray = np.zeros(n, dtype=np.float64)
    np.add.at(indegree, one_end, toward_one)
    np.add.at(indegree, zero_end, 1.0 - toward_one)
    return FractionalOrientation(toward_one, indegree, float(indegree.max()))


def _label_rows(labelings: FiniteClass | ArrayLike) -> BoolArray:
    if isinstance(labelings, FiniteClass):
        return labelings.labels
    rows = np.asarray(labelings)
    if rows.ndim != 2 or rows.shape[0] == 0:
        raise InvalidInputError(f"labelings must be a matrix with rows, got shape {rows.shape}")
    return FiniteClass.from_matrix(rows).labels


def _canonical_columns(keys: Sequence[Any] | None, k: int) -> IntArray:
    if keys is None:
        return np.arange(k, dtype=np.int64)
    if len(keys) != k:
        raise InvalidInputError(f"keys must have length {k}, got {len(keys)}")
    order = sorted(range(k), key=lambda j: keys[j])
    for a, b in zip(order, order[1:]):
        if keys[a] == keys[b]:
            raise InvalidInputError(
                f"keys must be different, columns {a} and {b} share {keys[a]!r}"
            )
    return np.array(order, dtype=np.int64)


def _number_words(rows: BoolArray) -> Words:
    """Pack rows so that comparing words from the first on compares the rows as binary numbers."""
    k = rows.shape[1]
    width = (k + 63) // 64
    padded = np.zeros((rows.shape[0], 64 * width), dtype=np.bool_)
    padded[:, :k] = rows
    flipped = padded.reshape(rows.shape[0], width, 64)[:, :, ::-1]
    return pack_rows(flipped).reshape(rows.shape[0], width)


def _from_number_words(words: Words, k: int) -> BoolArray:
    width = words.shape[1]
    bits = np.unpackbits(
        np.ascontiguousarray(words, dtype=np.dtype("<u8")).view(np.uint8), axis=1, bitorder="little"
    )
    rows: NDArray[Any] = bits.reshape(words.shape[0], width, 64)[:, :, ::-1]
    return rows.reshape(words.shape[0], 64 * width)[:, :k].astype(np.bool_)


def _edges(words: Words, k: int, columns: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Edges as (end with 0, end with 1, column), sorted by column, then by the end with 0."""
    zero_ends, one_ends, names = [], [], []
    keys = _sort_keys(words)
    for j in columns:
        w, bit = int(j) // 64, np.uint64(1) << np.uint64(63 - int(j) % 64)
        zeros = np.flatnonzero((words[:, w] & bit) == 0)
        partner = words[zeros]
        partner[:, w] |= bit
        found = _positions(keys, _sort_keys(partner))
        hit = found >= 0
        zero_ends.append(zeros[hit])
        one_ends.append(found[hit])
        names.append(np.full(np.count_nonzero(hit), j))
    if not names:
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty, empty
    return (
        np.concatenate(zero_ends).astype(np.int64),
        np.concatenate(one_ends).astype(np.int64),
        np.concatenate(names).astype(np.int64),
    )


def _sort_keys(words: Words) -> NDArray[Any]:
    """One comparable value per row: the word itself, or its words as big-endian bytes."""
    if words.shape[1] == 1:
        return words[:, 0]
    big = np.ascontiguousarray(words.astype(np.dtype(">u8")))
    return big.view(np.dtype((np.void, 8 * words.shape[1]))).reshape(-1)


def _positions(keys: NDArray[Any], wanted: NDArray[Any]) -> IntArray:
    """Index of each wanted value among the sorted keys, or -1."""
    index = np.searchsorted(keys, wanted)
    index[index == keys.size] = 0
    result: IntArray = np.where(keys[index] == wanted, index, -1).astype(np.int64)
    return result
