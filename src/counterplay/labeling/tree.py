"""Query trees as flat arrays, and the cost of a target to every agent.

A deterministic query algorithm on a coalition is a tree: an inner node asks one point, each leaf
is one labeling of the coalition's points. Nodes are numbered so that parents come before children,
rows of a node are a slice of one permutation, and nothing is recursive, because trees can be as
deep as the pool is large.
Source: docs/theory/06-labeling.md, "Setting".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import BoolArray, IntArray, check_choice
from counterplay.errors import InvalidInputError
from counterplay.labeling.model import LabelMatrix, PoolProblem, Restriction

OwnerRule: TypeAlias = (
    "Literal['first', 'uniform', 'least_loaded'] | Callable[[list[int], IntArray, int], int]"
)
LEAF = -1


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class QueryTree:
    """A query tree over the rows of one (restricted) problem.

    Attributes
    ----------
    point:
        Column asked at each node; -1 at a leaf.
    children:
        Child of each node per label, ``(nodes, n_classes)``; -1 where no row goes.
    lo:
        First of the node's rows in ``rows``.
    hi:
        One past the last of them: the node has ``rows[lo:hi]``.
    rows:
        A permutation of the rows of the problem.

    Examples
    --------
    >>> from counterplay.labeling import GBS, instances
    >>> tree = GBS().tree(instances.threshold_example())
    >>> tree.n_inner, tree.depth
    (3, 2)
    """

    point: IntArray
    children: IntArray
    lo: IntArray
    hi: IntArray
    rows: IntArray

    @property
    def n_nodes(self) -> int:
        """Inner nodes and leaves together."""
        return int(self.point.size)

    @property
    def n_inner(self) -> int:
        """Nodes that ask something."""
        return int(np.count_nonzero(self.point != LEAF))

    @property
    def leaves(self) -> IntArray:
        """Numbers of the leaves."""
        return np.flatnonzero(self.point == LEAF).astype(np.int64)

    @property
    def level(self) -> IntArray:
        """Depth of every node; the root has 0."""
        steps = np.ones((self.n_nodes, 1), dtype=np.int64)
        return _down(self.children, steps)[:, 0]

    @property
    def depth(self) -> int:
        """Largest number of queries on a path."""
        return int(self.level.max())

    def query_counts(self) -> IntArray:
        """Number of queries for every row."""
        return self.costs(np.ones((self.n_nodes, 1), dtype=np.int64))[:, 0]

    def path(self, H: LabelMatrix, row: int) -> list[tuple[int, int]]:
        """The (point, label) pairs asked when the target is ``row``."""
        asked, node = [], 0
        while self.point[node] != LEAF:
            x = int(self.point[node])
            y = int(H[row, x])
            asked.append((x, y))
            node = int(self.children[node, y])
        return asked

    def costs(self, shares: NDArray[Any]) -> NDArray[Any]:
        """Sum the shares along the path of every row: the cost matrix, ``(rows, k)``."""
        if len(shares) != self.n_nodes or self.children.max(initial=LEAF) >= self.n_nodes:
            raise InvalidInputError(f"shares and children must have {self.n_nodes} nodes")
        down = _down if shares.dtype != object else _down.py_func
        total = down(self.children, shares)
        costs = np.empty((self.rows.size, shares.shape[1]), dtype=shares.dtype)
        leaves = self.leaves
        sizes = self.hi[leaves] - self.lo[leaves]
        order = np.argsort(self.lo[leaves], kind="stable")
        costs[self.rows] = np.repeat(total[leaves[order]], sizes[order], axis=0)
        return costs


@njit(cache=True)
def _down(children: IntArray, shares: NDArray[Any]) -> NDArray[Any]:
    """For every node the sum of the shares of its proper ancestors."""
    total = np.zeros_like(shares)
    for node in range(children.shape[0]):
        # parents come before children, so the sum of this node is complete here
        for child in children[node]:
            if child >= 0:
                total[child] = total[node] + shares[node]
    return total


def check_rule(rule: OwnerRule) -> OwnerRule:
    """Return the owner rule: a known name or a callable."""
    if not callable(rule):
        check_choice(rule, "assignment", ("first", "uniform", "least_loaded"))
    return rule


def owner_shares(
    tree: QueryTree, owner_mask: BoolArray, rule: OwnerRule, exact: bool = False
) -> NDArray[Any]:
    """How much of each node's query every agent pays, ``(nodes, k)``; fractions if uniform."""
    k = owner_mask.shape[0]
    inner = np.flatnonzero(tree.point != LEAF)
    if rule in ("first", "uniform"):
        fixed = column_shares(owner_mask, uniform=rule == "uniform", exact=exact)
        shares: NDArray[Any] = np.zeros((tree.n_nodes, k), dtype=fixed.dtype)
        shares[inner] = fixed[tree.point[inner]]
        return shares
    shares = np.zeros((tree.n_nodes, k), dtype=np.int32)
    loads = np.zeros((tree.n_nodes, k), dtype=np.int64)
    for node in inner:
        point = int(tree.point[node])
        owners = np.flatnonzero(owner_mask[:, point]).tolist()
        agent = choose_owner(owners, loads[node], point, rule)
        shares[node, agent] = 1
        kids = tree.children[node]
        loads[kids[kids != LEAF]] = loads[node] + shares[node]
    return shares


def column_shares(owner_mask: BoolArray, *, uniform: bool, exact: bool) -> NDArray[Any]:
    """How much of each column's query every agent pays: the first owner all, or all the same."""
    owners = owner_mask.T
    if not uniform:
        shares = np.zeros(owners.shape, dtype=np.int32)
        shares[np.arange(len(owners)), owners.argmax(axis=1)] = 1
        return shares
    counts = owners.sum(axis=1)
    one = np.array([Fraction(1, int(n)) for n in counts], dtype=object) if exact else 1.0 / counts
    split: NDArray[Any] = owners * one[:, None]
    return split


def choose_owner(owners: Sequence[int], loads: IntArray, point: int, rule: OwnerRule) -> int:
    """Pick the owner who answers, given how many queries each agent has answered so far."""
    if callable(rule):
        agent = rule(list(owners), loads, point)
        if agent not in owners:
            raise InvalidInputError(
                f"the assignment rule chose agent {agent} for point {point}, "
                f"which belongs to {list(owners)}"
            )
        return int(agent)
    if rule == "least_loaded":
        return int(min(owners, key=lambda agent: (loads[agent], agent)))
    return int(owners[0])


def full_costs(problem: PoolProblem, restriction: Restriction, costs: NDArray[Any]) -> NDArray[Any]:
    """Spread the costs of restricted rows and members over all rows and agents."""
    full = np.zeros((problem.N, problem.k), dtype=costs.dtype)
    full[:, list(restriction.members)] = costs[restriction.inverse]
    return full


class TreeBuilder:
    """Grows a query tree by splitting nodes; node 0 is the root and holds all rows."""

    def __init__(self, n_rows: int, n_classes: int) -> None:
        self.n_classes = n_classes
        self._rows = np.arange(n_rows, dtype=np.int64)
        self._point: list[int] = []
        self._children: list[list[int]] = []
        self._spans: list[tuple[int, int]] = []
        self._add(0, n_rows)

    def rows_of(self, node: int) -> IntArray:
        """Rows that reach the node."""
        lo, hi = self._spans[node]
        return self._rows[lo:hi]

    def split(self, node: int, point: int, labels: NDArray[Any]) -> list[tuple[int, int]]:
        """Ask ``point`` at ``node``, whose rows have ``labels``; return (child, label) pairs."""
        lo, hi = self._spans[node]
        self._point[node] = point
        self._rows[lo:hi] = self._rows[lo:hi][np.argsort(labels, kind="stable")]
        added = []
        for label, count in enumerate(np.bincount(labels, minlength=self.n_classes).tolist()):
            if count:
                child = self._add(lo, lo + count)
                self._children[node][label] = child
                added.append((child, label))
                lo += count
        return added

    def finish(self) -> QueryTree:
        """Return the tree."""
        spans = np.array(self._spans, dtype=np.int64)
        return QueryTree(
            np.array(self._point, dtype=np.int64),
            np.array(self._children, dtype=np.int64),
            spans[:, 0].copy(),
            spans[:, 1].copy(),
            self._rows,
        )

    def _add(self, lo: int, hi: int) -> int:
        self._point.append(LEAF)
        self._children.append([LEAF] * self.n_classes)
        self._spans.append((lo, hi))
        return len(self._point) - 1
