"""Generalized binary search: ask the point that splits the remaining mass most evenly.

Both side masses are summed directly, never as total minus the other side: small masses next to
large ones would be lost, and with them the right tree. Values within a relative tolerance of the
best are ties and are decided by an explicit order.
Source: Lemma 6.1, see docs/theory/06-labeling.md, "Generalized binary search".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.bits import unique_rows
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_choice
from counterplay.core.weights import Weights
from counterplay.errors import InvalidInputError
from counterplay.labeling.algorithm import TreeAlgorithm
from counterplay.labeling.model import (
    LabelMatrix,
    Restriction,
    column_order,
    row_words,
)
from counterplay.labeling.tree import LEAF, OwnerRule, QueryTree, TreeBuilder

RTOL = 1e-12  # values this close to the best, relatively, count as ties
_BLOCK = 1 << 24  # matrix entries the level builder expands at once


@checked
class GBS(TreeAlgorithm):
    """Generalized binary search, the standard efficient query algorithm.

    Use it as the baseline that every party would run alone, or jointly on a coalition. On its own
    it is *not* individually rational: joining may cost a party much more than staying alone. Wrap
    it in ``B2IR`` for that.

    Parameters
    ----------
    tie_break:
        ``"index"`` (lowest column first), a preference order of columns (best first; columns left
        out come after it), or ``"random"`` (one random order, fixed by ``random_state``).
    assignment:
        Who answers when several members own the point: ``"first"``, ``"uniform"`` (drawn at
        random: fractional expected costs), ``"least_loaded"`` or a callable
        ``(owners, loads, point) -> agent``.
    builder:
        ``"stack"`` (one node at a time, compiled), ``"level"`` (all nodes of a level at once,
        plain NumPy) or ``"auto"``. Exact problems always use exact integer sums.
    random_state:
        Seed of the random tie order.

    Notes
    -----
    Guarantee (Lemma 6.1; Dasgupta 2004, Theorem 3): ``Q(GBS) <= 4 Q* ln(1 / min_h prior(h))``.

    Examples
    --------
    Alone each agent of the threshold example needs two queries; together two are enough:

    >>> from counterplay.labeling import instances
    >>> problem = instances.threshold_example()
    >>> gbs = GBS(tie_break=[1, 3, 6])
    >>> gbs.expected_costs(problem), [gbs.expected_costs(problem, (i,))[i] for i in (0, 1)]
    (array([Fraction(1, 1), Fraction(1, 1)], dtype=object), [Fraction(2, 1), Fraction(2, 1)])

    References
    ----------
    S. Dasgupta, Analysis of a greedy active learning strategy, NIPS 2004.
    """

    def __init__(
        self,
        *,
        tie_break: Literal["index", "random"] | ArrayLike = "index",
        assignment: OwnerRule = "first",
        builder: Literal["auto", "stack", "level"] = "auto",
        random_state: RandomState = None,
    ) -> None:
        super().__init__(assignment)
        if isinstance(tie_break, str):
            check_choice(tie_break, "tie_break", ("index", "random"))
        self.tie_break = tie_break
        self.builder = check_choice(builder, "builder", ("auto", "stack", "level"))
        self.random_state = random_state
        self._orders: dict[int, IntArray] = {}

    def preference(self, m: int) -> IntArray:
        """Columns of a pool of ``m`` points, most preferred first."""
        if isinstance(self.tie_break, str) and self.tie_break == "index":
            return np.arange(m, dtype=np.int64)
        if m not in self._orders:
            self._orders[m] = self._order(m)
        return self._orders[m]

    def _order(self, m: int) -> IntArray:
        if isinstance(self.tie_break, str):
            return generator(self.random_state).permutation(m).astype(np.int64)
        return column_order(self.tie_break, m, "tie_break")

    def _build(self, restriction: Restriction, m: int) -> QueryTree:
        problem, order = restriction.problem, restriction.in_order(self.preference(m))
        order = order[distinct_splits(problem.H[:, order])]
        H = np.ascontiguousarray(problem.H[:, order])
        if problem.is_exact:
            tree = _build_exact(H, problem.weights, problem.n_classes)
        elif self.builder == "level":
            tree = _build_levels(H, check_masses(problem.weights), problem.n_classes)
        else:
            masses = check_masses(problem.weights)
            tree = QueryTree(*_build_stack(H, masses, problem.n_classes, RTOL))
        point = np.where(tree.point == LEAF, LEAF, order[tree.point])
        return replace(tree, point=point)


def best_split(masses: NDArray[Any]) -> int | None:
    """First column whose largest label mass is smallest, up to ties; None if no column splits.

    ``masses`` has one row per label and one column per point. For two labels this is the column
    whose smaller side is largest. Columns with a single positive label do not split.
    """
    rest = smaller_sides(masses)
    top = rest.max(initial=0)
    if not top > 0:
        return None
    close = rest >= top if masses.dtype == object else rest >= top * (1.0 - RTOL)
    return int(np.flatnonzero(close)[0])


def smaller_sides(masses: NDArray[Any]) -> NDArray[Any]:
    """Mass of everything but the heaviest label at each column, summed directly; 0: no split."""
    rest: NDArray[Any] = np.sort(masses, axis=0)[:-1].sum(axis=0)
    return rest


def label_masses(rows: NDArray[Any], weights: Weights, n_classes: int) -> NDArray[Any]:
    """Mass of each label at each column, every side summed on its own, ``(n_classes, columns)``."""
    m = rows.shape[1]
    if weights.dtype != object:
        cells = (rows.astype(np.int64) + n_classes * np.arange(m)).ravel()  # one per column, label
        masses = np.bincount(cells, np.repeat(weights, m), minlength=n_classes * m)
        return masses.reshape(m, n_classes).T
    exact = np.zeros((n_classes, m), dtype=object)
    for y in range(n_classes):
        side = rows == y
        exact[y] = [weights[side[:, j]].sum() if side[:, j].any() else 0 for j in range(m)]
    return exact


def distinct_splits(H: LabelMatrix) -> BoolArray:
    """Mask of the first column of every group of columns that split all rows in the same way."""
    relabeled = H ^ H[0] if H.max(initial=0) <= 1 else H
    keep = np.zeros(H.shape[1], dtype=np.bool_)
    keep[unique_rows(row_words(np.ascontiguousarray(relabeled.T)))[0]] = True
    return keep


def check_masses(weights: Weights) -> FloatArray:
    """Weights as floats scaled to a largest one of 1; refuses weights that would underflow."""
    scaled: FloatArray = np.asarray(weights, dtype=np.float64) / float(weights.max())
    if not (scaled > 0).all():
        row = int(np.flatnonzero(scaled == 0)[0])
        raise InvalidInputError(
            f"the weight of labeling {row} is too small for floating point next to the largest; "
            "use exact=True"
        )
    return scaled


@njit(cache=True)
def _build_stack(
    H: LabelMatrix, weights: FloatArray, n_classes: int, rtol: float
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Node by node, depth first; returns the arrays of a ``QueryTree``.

    The caller guarantees that every label in ``H`` is below ``n_classes``.
    """
    n, m = H.shape
    size = 2 * n  # a tree with n leaves whose inner nodes all split has fewer than 2 n nodes
    point = np.full(size, -1, dtype=np.int64)
    children = np.full((size, n_classes), -1, dtype=np.int64)
    lo, hi = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    rows, scratch = np.arange(n), np.empty(n, dtype=np.int64)
    active = np.empty(m + 2, dtype=np.int64)
    masses = np.empty((n_classes, m))
    stack_node, stack_active = [0], [np.arange(m)]
    hi[0], used = n, 1
    while stack_node:
        node, columns = stack_node.pop(), stack_active.pop()
        a, b = lo[node], hi[node]
        if b - a == 1:
            continue
        # the mass of every label at every column that still split the parent
        masses[:, : columns.size] = 0.0
        for r in range(a, b):
            row, w = rows[r], weights[rows[r]]
            for j in range(columns.size):
                masses[H[row, columns[j]], j] += w
        # keep the columns that split here; their score is the mass beside the largest label
        top, n_active = 0.0, 0
        for j in range(columns.size):
            largest = 0
            for y in range(1, n_classes):
                if masses[y, j] > masses[largest, j]:
                    largest = y
            rest = 0.0  # everything but the largest side, summed directly
            for y in range(n_classes):
                if y != largest:
                    rest += masses[y, j]
            if rest > 0.0:
                active[n_active] = columns[j]
                masses[0, n_active] = rest  # n_active <= j: this entry is not needed any more
                n_active += 1
                top = max(top, rest)
        if n_active == 0:
            continue
        # the first column, in the order of preference, that is as good as the best
        chosen = active[0]
        for j in range(n_active):
            if masses[0, j] >= top * (1.0 - rtol):
                chosen = active[j]
                break
        kept = active[:n_active].copy()
        # sort the rows of the node by their label there; each label becomes a child
        point[node] = chosen
        start = a
        for y in range(n_classes):
            stop = start
            for r in range(a, b):
                if H[rows[r], chosen] == y:
                    scratch[stop] = rows[r]
                    stop += 1
            if stop > start:
                lo[used], hi[used] = start, stop
                children[node, y] = used
                stack_node.append(used)
                stack_active.append(kept)
                used += 1
            start = stop
        rows[a:b] = scratch[a:b]
    return point[:used], children[:used], lo[:used], hi[:used], rows


def _build_exact(H: LabelMatrix, weights: Weights, n_classes: int) -> QueryTree:
    builder = TreeBuilder(len(H), n_classes)
    stack = [(0, np.arange(H.shape[1]))]
    while stack:
        node, columns = stack.pop()
        here = builder.rows_of(node)
        if here.size == 1:
            continue
        masses = label_masses(H[np.ix_(here, columns)], weights[here], n_classes)
        best = best_split(masses)
        if best is None:
            continue
        kept = columns[smaller_sides(masses) > 0]
        for child, _ in builder.split(node, int(columns[best]), H[here, columns[best]]):
            stack.append((child, kept))
    return builder.finish()


def _build_levels(H: LabelMatrix, weights: FloatArray, n_classes: int) -> QueryTree:
    builder = TreeBuilder(len(H), n_classes)
    frontier = [0]
    while frontier:
        rows_of = {node: builder.rows_of(node) for node in frontier}
        open_nodes = [node for node in frontier if rows_of[node].size > 1]
        if not open_nodes:
            break
        chosen = _level_choices(H, weights, [rows_of[node] for node in open_nodes], n_classes)
        frontier = []
        for node, column in zip(open_nodes, chosen):
            if column >= 0:
                labels = H[rows_of[node], column]
                frontier += [child for child, _ in builder.split(node, int(column), labels)]
    return builder.finish()


def _level_choices(
    H: LabelMatrix, weights: FloatArray, groups: list[IntArray], n_classes: int
) -> IntArray:
    """Best column of every open node of one level, -1 where nothing splits."""
    starts = np.cumsum([0, *(group.size for group in groups[:-1])])
    here, m = np.concatenate(groups), H.shape[1]
    rest = np.empty((len(groups), m))
    w = weights[here][:, None]
    step = max(1, _BLOCK // here.size)
    for first in range(0, m, step):
        block = H[here, first : first + step]
        masses = np.stack(
            [np.add.reduceat(w * (block == y), starts, axis=0) for y in range(n_classes)]
        )
        rest[:, first : first + step] = smaller_sides(masses)
    top = rest.max(axis=1)
    chosen = (rest >= top[:, None] * (1.0 - RTOL)).argmax(axis=1)
    return np.where(top > 0, chosen, -1).astype(np.int64)
