"""The query tree with the least expected depth, by branch and bound over version spaces.

Finding it is NP-hard, so this is for small instances: as a reference, and because an optimal joint
tree is individually rational for every baseline.
Source: Theorem 6.1, see docs/theory/06-labeling.md, "Optimal trees".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import check_choice, check_positive_int
from counterplay.errors import InvalidInputError
from counterplay.labeling.algorithm import TreeAlgorithm
from counterplay.labeling.gbs import GBS, distinct_splits
from counterplay.labeling.model import PoolProblem, Restriction
from counterplay.labeling.tree import OwnerRule, QueryTree, TreeBuilder

_SLACK = 1e-12  # relative tolerance for equal costs in floating point


class TooLargeError(InvalidInputError):
    """The exact optimum would need more version spaces than allowed."""


@checked
class OptimalTree(TreeAlgorithm):
    """An optimal query tree: least expected number of queries in total.

    Use it on small instances (up to about 30 labelings without structure, thresholds and intervals
    much further), as the yardstick for everything else.

    Parameters
    ----------
    tie:
        Which optimal point is asked: ``"first"`` or ``"random"`` (by ``random_state``).
    assignment:
        Who answers a shared point, as in ``GBS``.
    max_states:
        Most version spaces to examine before ``TooLargeError``.
    random_state:
        Seed for ``tie="random"``.

    Notes
    -----
    For every optimal tree, every owner rule and every agent i, the expected number of queries of i
    is at most the optimum alone (Theorem 6.1): the joint optimum is individually rational
    for any baseline.

    Examples
    --------
    >>> from counterplay.labeling import instances
    >>> print(OptimalTree().expected_costs(instances.gbs_violation_7x6()).sum())
    1080/527

    References
    ----------
    L. Hyafil, R. Rivest, Constructing optimal binary decision trees is NP-complete, 1976.
    """

    def __init__(
        self,
        *,
        tie: Literal["first", "random"] = "first",
        assignment: OwnerRule = "first",
        max_states: int = 2_000_000,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(assignment)
        self.tie = check_choice(tie, "tie", ("first", "random"))
        self.max_states = check_positive_int(max_states, "max_states")
        self.random_state = random_state

    def _build(self, restriction: Restriction, m: int) -> QueryTree:
        problem = restriction.problem
        solver = _Solver(problem, self.max_states)
        solver.optimum()
        rng = generator(self.random_state) if self.tie == "random" else None
        builder = TreeBuilder(problem.N, problem.n_classes)
        stack = [(0, solver.everything)]
        while stack:
            node, rows = stack.pop()
            best = solver.best_points(rows)
            if best:
                x = best[int(rng.integers(len(best)))] if rng is not None else best[0]
                labels = problem.H[builder.rows_of(node), x]
                for child, label in builder.split(node, x, labels):
                    stack.append((child, rows & solver.sides[x][label]))
        return builder.finish()


@checked
def optimal_cost(problem: PoolProblem, *, max_states: int = 2_000_000) -> Any:
    """Least expected number of queries that reveals every label; a Fraction in exact mode.

    Examples
    --------
    >>> from counterplay.labeling import instances
    >>> print(optimal_cost(instances.correlated_pairs()))
    19/6
    """
    solver = _Solver(problem, check_positive_int(max_states, "max_states"))
    total = solver.optimum()
    return total * problem.prior.sum() / problem.weights.sum()


class _Solver:
    """Branch and bound for ``cost(V) = mass(V) + min over splits of the sum of cost(part)``.

    ``known`` holds exact costs, ``floor`` lower bounds. A set of rows starts with the cost of a
    Huffman code for its weights as its floor: a query tree is a prefix code, so no tree is cheaper
    (and the code is never below the entropy). The search starts from the greedy tree's cost.
    """

    def __init__(self, problem: PoolProblem, max_states: int) -> None:
        self.problem, self.max_states = problem, max_states
        self.everything = (1 << problem.N) - 1
        self.columns: list[int] = np.flatnonzero(distinct_splits(problem.H)).tolist()
        self.sides = {x: _side_masks(problem.H[:, x], problem.n_classes) for x in range(problem.m)}
        self.weights = problem.weights.tolist()
        self.known: dict[int, Any] = {}
        self.floor: dict[int, Any] = {}
        self.masses: dict[int, Any] = {}

    def optimum(self) -> Any:
        """Cost of the best tree, times the total mass."""
        if self.everything not in self.known:
            depths = GBS().tree(self.problem).query_counts().tolist()
            greedy = sum(depth * weight for depth, weight in zip(depths, self.weights))
            self.search(self.everything, greedy)
            self.known.setdefault(self.everything, greedy)
        return self.known[self.everything]

    def search(self, rows: int, limit: Any) -> None:
        """Find the exact cost of ``rows`` if it is below ``limit``, else raise its floor to it."""
        stack = [self._branch(rows, limit)]
        while stack:
            branch = stack[-1]
            if branch.rows in self.known or self.floor[branch.rows] >= branch.best:
                stack.pop()
                continue
            below = self._next(branch)
            if below is not None:
                stack.append(self._branch(*below))
                continue
            if branch.found:
                self.known[branch.rows] = branch.best
            self.floor[branch.rows] = branch.best
            stack.pop()

    def best_points(self, rows: int) -> list[int]:
        """Columns whose split is optimal, lowest first; empty when nothing splits."""
        least = self.known[rows]
        slack = 1 if self.problem.is_exact else _SLACK * max(abs(least), self.mass(rows))
        best = []
        for x in range(self.problem.m):
            parts = self._parts(rows, x)
            if len(parts) > 1 and self._split_cost(parts, least + slack - self.mass(rows)):
                best.append(x)
        return best

    def mass(self, rows: int) -> Any:
        """Total weight of a set of rows."""
        if rows not in self.masses:
            self.masses[rows] = sum(self.weights[i] for i in _members(rows))
        return self.masses[rows]

    def _split_cost(self, parts: Sequence[int], limit: Any) -> bool:
        """Whether the parts together cost less than ``limit``; their costs are then known."""
        for part in parts:
            rest = sum(self._floor(other) for other in parts if other != part)
            self.search(part, limit - rest)
            if part not in self.known:
                return False
        return bool(sum(self.known[part] for part in parts) < limit)

    def _branch(self, rows: int, limit: Any) -> _Branch:
        self._floor(rows)
        splits = {tuple(sorted(parts)): None for parts in self._splits(rows)}
        ordered = sorted(splits, key=lambda parts: sum(map(self._floor, parts)))
        return _Branch(rows, ordered[::-1], limit)

    def _next(self, branch: _Branch) -> tuple[int, Any] | None:
        """The part to solve next and below which cost it matters; None when all splits are done."""
        mass = self.mass(branch.rows)
        while branch.splits:
            parts = branch.splits[-1]
            total = mass + sum(map(self._floor, parts))
            unsolved = [part for part in parts if part not in self.known]
            if total < branch.best and unsolved:
                part = max(unsolved, key=int.bit_count)
                return part, branch.best - total + self._floor(part)
            if total < branch.best:
                branch.best, branch.found = total, True
            branch.splits.pop()
        return None

    def _floor(self, rows: int) -> Any:
        if rows not in self.floor:
            if len(self.floor) >= self.max_states:
                raise TooLargeError(
                    f"the optimal tree needs more than {self.max_states} version spaces; "
                    "use GBS, or raise max_states"
                )
            weights = [self.weights[i] for i in _members(rows)]
            self.floor[rows] = _huffman(weights, self.problem.n_classes)
            if len(weights) == 1:
                self.known[rows] = 0
        return self.known.get(rows, self.floor[rows])

    def _splits(self, rows: int) -> Iterator[list[int]]:
        for x in self.columns:
            parts = self._parts(rows, x)
            if len(parts) > 1:
                yield parts

    def _parts(self, rows: int, x: int) -> list[int]:
        return [part for side in self.sides[x] if (part := rows & side)]


@dataclass
class _Branch:
    """One set of rows being searched: its splits still to try (best bound last)."""

    rows: int
    splits: list[tuple[int, ...]]
    best: Any
    found: bool = False


def _huffman(weights: list[Any], symbols: int) -> Any:
    """Cost of the best prefix code, the sum of weight times depth."""
    spare = 0 if symbols == 2 else -(len(weights) - 1) % (symbols - 1)
    heap = [0] * spare + weights
    heapify(heap)
    cost: Any = 0
    while len(heap) > 1:
        merged = sum(heappop(heap) for _ in range(min(symbols, len(heap))))
        cost += merged
        heappush(heap, merged)
    return cost


def _side_masks(column: NDArray[np.uint8], n_classes: int) -> list[int]:
    masks = [0] * n_classes
    for row, label in enumerate(column.tolist()):
        masks[label] |= 1 << row
    return masks


def _members(rows: int) -> list[int]:
    members = []
    while rows:
        low = rows & -rows
        members.append(low.bit_length() - 1)
        rows ^= low
    return members
