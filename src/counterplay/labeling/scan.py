"""Baselines that do not look ahead: a fixed order, and a random one.

Both ask only points whose label is not implied yet. A point that is implied stays implied, so the
random baseline is a scan of a uniformly random order.
Source: Proposition 6.A, see docs/theory/06-labeling.md, "Scan and random queries".
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator, spawn
from counterplay.core.validation import IntArray, check_positive_int
from counterplay.labeling.algorithm import QueryAlgorithm, TreeAlgorithm, TreeState
from counterplay.labeling.model import Members, PoolProblem, Restriction, column_order
from counterplay.labeling.tree import (
    OwnerRule,
    QueryTree,
    TreeBuilder,
    check_rule,
    column_shares,
    full_costs,
)


@checked
class FixedOrderScan(TreeAlgorithm):
    """Ask the points in a fixed order, skipping labels that are already implied.

    Use it as a control: it is individually rational for every single target (Proposition 6.A), so
    only adaptive baselines can make a party worse off by joining.

    Parameters
    ----------
    order:
        Columns in the order of asking; None: 0, 1, 2, ... Columns left out come last.
    assignment:
        Who answers a shared point, as in ``GBS``.

    Examples
    --------
    >>> from counterplay.labeling import instances
    >>> print(FixedOrderScan().expected_costs(instances.identical_pools(k=1))[0])
    35/8
    """

    def __init__(self, order: ArrayLike | None = None, *, assignment: OwnerRule = "first") -> None:
        super().__init__(assignment)
        self.order = order

    def _build(self, restriction: Restriction, m: int) -> QueryTree:
        columns = column_order(() if self.order is None else self.order, m, "order")
        return scan_tree(restriction.problem, restriction.in_order(columns))


@checked
class RandomQuery(QueryAlgorithm):
    """Ask a uniformly random point whose label is not implied yet: the poor baseline.

    Parameters
    ----------
    n_orders:
        Random orders whose average estimates the cost matrix when it is too large to be exact.
    max_states:
        Largest number of version spaces for the exact expectation.
    assignment:
        Who answers a shared point, as in ``GBS``; ``"least_loaded"`` and callables are estimated.
    random_state:
        Seed of the random orders.

    Examples
    --------
    >>> from counterplay.labeling import instances
    >>> print(RandomQuery().expected_costs(instances.threshold_example()).sum())
    15/7
    """

    deterministic: ClassVar[bool] = False

    def __init__(
        self,
        *,
        n_orders: int = 200,
        max_states: int = 20_000,
        assignment: OwnerRule = "first",
        random_state: RandomState = 0,
    ) -> None:
        self.n_orders = check_positive_int(n_orders, "n_orders")
        self.max_states = check_positive_int(max_states, "max_states")
        self.assignment = check_rule(assignment)
        self.random_state = random_state

    @checked
    def start(
        self, problem: PoolProblem, coalition: Members = None, random_state: RandomState = None
    ) -> TreeState:
        """Draw an order and scan it."""
        rng = generator(random_state)
        scan = FixedOrderScan(rng.permutation(problem.m), assignment=self.assignment)
        return scan.start(problem, coalition, rng)

    @checked
    def cost_matrix(self, problem: PoolProblem, coalition: Members = None) -> NDArray[Any]:
        """Exact expectation when there are few version spaces, else the mean of random orders."""
        restriction = problem.restrict(coalition)
        if self.assignment in ("first", "uniform"):
            exact = self._exact(restriction.problem)
            if exact is not None:
                return full_costs(problem, restriction, exact)
        total = np.zeros((problem.N, problem.k))
        for rng in spawn(self.random_state, self.n_orders):
            scan = FixedOrderScan(rng.permutation(problem.m), assignment=self.assignment)
            total += scan.cost_matrix(problem, restriction.members).astype(np.float64)
        return total / self.n_orders

    def _exact(self, problem: PoolProblem) -> NDArray[Any] | None:
        """Solve ``C(V) = mean over splitting x of (share of x + C(V and label))``."""
        uniform, kind = self.assignment == "uniform", object if problem.is_exact else np.float64
        share = column_shares(problem.owner_mask, uniform=uniform, exact=problem.is_exact)
        states = _reachable(problem, self.max_states)
        if states is None:
            return None
        costs: dict[bytes, NDArray[Any]] = {}
        for mask in sorted(states.values(), key=np.count_nonzero):
            rows = np.flatnonzero(mask)
            here = problem.H[rows]
            columns = np.flatnonzero((here != here[0]).any(axis=0))
            value = np.zeros((rows.size, problem.k), dtype=kind)
            for x in columns:
                value += share[x]
                for label in np.unique(here[:, x]):
                    part = mask & (problem.H[:, x] == label)
                    value[here[:, x] == label] += costs[part.tobytes()]
            if columns.size:
                value = value / (Fraction(columns.size) if problem.is_exact else columns.size)
            costs[mask.tobytes()] = value
        return costs[np.ones(problem.N, dtype=np.bool_).tobytes()]


def scan_tree(problem: PoolProblem, order: IntArray) -> QueryTree:
    """The tree of asking columns in ``order`` wherever they still split."""
    builder = TreeBuilder(problem.N, problem.n_classes)
    stack = [(0, 0)]
    while stack:
        node, position = stack.pop()
        rows = builder.rows_of(node)
        if rows.size == 1:
            continue
        while position < order.size:
            labels = problem.H[rows, order[position]]
            if (labels != labels[0]).any():
                kids = builder.split(node, int(order[position]), labels)
                stack += [(child, position + 1) for child, _ in kids]
                break
            position += 1
    return builder.finish()


def _reachable(problem: PoolProblem, limit: int) -> dict[bytes, NDArray[np.bool_]] | None:
    everything = np.ones(problem.N, dtype=np.bool_)
    states = {everything.tobytes(): everything}
    stack = [everything]
    while stack:
        mask = stack.pop()
        for x in range(problem.m):
            for label in range(problem.n_classes):
                part = mask & (problem.H[:, x] == label)
                if part.any() and part.tobytes() not in states:
                    if len(states) >= limit:
                        return None
                    states[part.tobytes()] = part
                    stack.append(part)
    return states
