"""The query tree with the least expected depth, by dynamic programming over version spaces.

Finding it is NP-hard, so this is for small instances: as a reference, and because an optimal joint
tree is individually rational for every baseline. Source: Thm. thm:opt-ir, spec 06, section 3.2.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.core.errors import InvalidInputError
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import check_choice, check_positive_int
from counterplay.labeling.algorithm import TreeAlgorithm
from counterplay.labeling.gbs import distinct_splits
from counterplay.labeling.model import PoolProblem, Restriction
from counterplay.labeling.tree import OwnerRule, QueryTree, TreeBuilder

_SLACK = 1e-12  # relative tolerance for equal costs in floating point


class TooLargeError(InvalidInputError):
    """The exact optimum would need more version spaces than allowed."""


class OptimalTree(TreeAlgorithm):
    """An optimal query tree: least expected number of queries in total.

    Use it on small instances (up to about 25 labelings without structure, thresholds and intervals
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
    is at most the optimum alone (Thm. ``thm:opt-ir``): the joint optimum is individually rational
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
        solver.cost(solver.everything)
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


def optimal_cost(problem: PoolProblem, *, max_states: int = 2_000_000) -> Any:
    """Least expected number of queries that reveals every label; a Fraction in exact mode.

    >>> from counterplay.labeling import instances
    >>> print(optimal_cost(instances.correlated_pairs()))
    19/6
    """
    solver = _Solver(problem, check_positive_int(max_states, "max_states"))
    total = solver.cost(solver.everything)
    return total * problem.prior.sum() / problem.weights.sum()


class _Solver:
    """``cost(V) = mass(V) + min over splitting x of the sum over labels of cost(V and label)``."""

    def __init__(self, problem: PoolProblem, max_states: int) -> None:
        self.problem, self.max_states = problem, max_states
        self.everything = (1 << problem.N) - 1
        columns = np.flatnonzero(distinct_splits(problem.H))
        self.columns: list[int] = columns.tolist()
        self.sides = {x: _side_masks(problem.H[:, x], problem.n_classes) for x in range(problem.m)}
        self.weights = problem.weights.tolist()
        self.memo: dict[int, Any] = {}
        self.masses: dict[int, Any] = {}

    def cost(self, rows: int) -> Any:
        """Least expected number of queries below ``rows``, times its mass."""
        stack = [rows]
        while stack:
            here = stack[-1]
            if here in self.memo:
                stack.pop()
                continue
            splits = self._splits(here)
            unsolved = {part for parts in splits for part in parts if part not in self.memo}
            if unsolved:
                stack.extend(unsolved)
                continue
            best = min((sum(self.memo[part] for part in parts) for parts in splits), default=None)
            self._remember(here, 0 if best is None else best + self.mass(here))
            stack.pop()
        return self.memo[rows]

    def best_points(self, rows: int) -> list[int]:
        """Columns whose split is optimal, lowest first; empty when nothing splits."""
        costs = []
        for x in range(self.problem.m):
            parts = self._parts(rows, x)
            if len(parts) > 1:
                costs.append((sum(self.cost(part) for part in parts), x))
        if not costs:
            return []
        least = min(costs)[0]
        slack = 0 if self.problem.is_exact else _SLACK * max(abs(least), self.mass(rows))
        return [x for cost, x in costs if cost <= least + slack]

    def mass(self, rows: int) -> Any:
        """Total weight of a set of rows."""
        if rows not in self.masses:
            self.masses[rows] = sum(self.weights[i] for i in _members(rows))
        return self.masses[rows]

    def _splits(self, rows: int) -> list[tuple[int, ...]]:
        if rows & (rows - 1) == 0:
            return []
        found: dict[tuple[int, ...], None] = {}
        for x in self.columns:
            parts = self._parts(rows, x)
            if len(parts) > 1:
                found[tuple(sorted(parts))] = None
        return list(found)

    def _parts(self, rows: int, x: int) -> list[int]:
        return [part for side in self.sides[x] if (part := rows & side)]

    def _remember(self, rows: int, cost: Any) -> None:
        if len(self.memo) >= self.max_states:
            raise TooLargeError(
                f"the optimal tree needs more than {self.max_states} version spaces; "
                "use GBS, or raise max_states"
            )
        self.memo[rows] = cost


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
