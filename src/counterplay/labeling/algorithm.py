"""What a query algorithm is: it asks one (agent, point) after the other until all labels are known.

Every algorithm can be driven step by step (``start``, ``next_query``, ``update``), so that people
can be asked, and has an exact cost matrix: the number of queries of each agent for each target.
Source: docs/theory/06-labeling.md, "Setting".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import IntArray
from counterplay.core.version_space import VersionSpace
from counterplay.errors import NotRealizableError, ProtocolError
from counterplay.labeling.model import Coalition, Members, PoolProblem, Restriction
from counterplay.labeling.tree import (
    LEAF,
    OwnerRule,
    QueryTree,
    check_rule,
    choose_owner,
    full_costs,
    owner_shares,
)

Query = tuple[int, int]  # (agent, column)


class State(ABC):
    """A run of a query algorithm: what it wants to ask now, and what happens with the answer."""

    @abstractmethod
    def next_query(self) -> Query | None:
        """The agent and the column to ask, or None when every label is determined."""

    @abstractmethod
    def update(self, x: int, y: int) -> None:
        """Take the label ``y`` of column ``x``; it must be the column that was asked."""

    @property
    @abstractmethod
    def rows(self) -> IntArray:
        """Rows of the full problem that are still possible."""


class QueryAlgorithm(ABC):
    """Base class of everything that asks: baselines and incentive-compatible protocols."""

    deterministic: ClassVar[bool] = True

    @abstractmethod
    def start(
        self, problem: PoolProblem, coalition: Members = None, random_state: RandomState = None
    ) -> State:
        """Begin a run on the points of a coalition (default: everybody)."""

    @abstractmethod
    def cost_matrix(self, problem: PoolProblem, coalition: Members = None) -> NDArray[Any]:
        """Expected number of queries of each agent for each target, ``(N, k)``."""

    @checked
    def expected_costs(self, problem: PoolProblem, coalition: Members = None) -> NDArray[Any]:
        """Expected number of queries of each agent under the prior; Fractions in exact mode."""
        return expected(problem, self.cost_matrix(problem, coalition))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def expected(problem: PoolProblem, costs: NDArray[Any]) -> NDArray[Any]:
    """Average a cost matrix over the prior."""
    if problem.is_exact:
        columns = costs.astype(object)
        return np.array([(problem.prior * columns[:, i]).sum() for i in range(problem.k)], object)
    result: NDArray[Any] = problem.prior @ costs
    return result


def run_costs(
    algorithm: QueryAlgorithm,
    problem: PoolProblem,
    target: int,
    coalition: Members = None,
    random_state: RandomState = None,
) -> IntArray:
    """Count the queries of each agent in one step-by-step run against a target row."""
    state = algorithm.start(problem, coalition, random_state)
    counts = np.zeros(problem.k, dtype=np.int64)
    while (query := state.next_query()) is not None:
        agent, x = query
        counts[agent] += 1
        state.update(x, int(problem.H[target, x]))
    return counts


class TreeAlgorithm(QueryAlgorithm):
    """A deterministic algorithm, given by its query tree on each coalition."""

    def __init__(self, assignment: OwnerRule = "first") -> None:
        self.assignment = check_rule(assignment)

    @abstractmethod
    def _build(self, restriction: Restriction, m: int) -> QueryTree:
        """Build the tree of a restricted problem; ``m`` is the size of the full pool."""

    @checked
    def tree(self, problem: PoolProblem, coalition: Members = None) -> QueryTree:
        """The query tree over rows and columns of ``problem.restrict(coalition).problem``."""
        return self._built(problem, coalition)[1]

    @checked
    def cost_matrix(self, problem: PoolProblem, coalition: Members = None) -> NDArray[Any]:
        """Exact cost of every target, from the tree."""
        restriction, tree = self._built(problem, coalition)
        small = restriction.problem
        shares = owner_shares(tree, small.owner_mask, self._rule(restriction), small.is_exact)
        return full_costs(problem, restriction, tree.costs(shares))

    @checked
    def start(
        self, problem: PoolProblem, coalition: Members = None, random_state: RandomState = None
    ) -> TreeState:
        """Begin a run that follows the tree."""
        restriction, tree = self._built(problem, coalition)
        return TreeState(restriction, tree, self._rule(restriction), random_state)

    def _rule(self, restriction: Restriction) -> OwnerRule:
        """The owner rule in the numbering of the restricted problem."""
        rule = self.assignment
        if not callable(rule):
            return rule
        members, columns = restriction.members, restriction.columns

        def restricted(owners: list[int], loads: IntArray, point: int) -> int:
            full = np.zeros(max(members) + 1, dtype=np.int64)
            full[list(members)] = loads
            mine = [members[i] for i in owners]
            return members.index(choose_owner(mine, full, int(columns[point]), rule))

        return restricted

    def _built(self, problem: PoolProblem, coalition: Members) -> _Built:
        members = problem.check_coalition(coalition)
        known = _TREES.setdefault(self, WeakKeyDictionary()).setdefault(problem, {})
        if members not in known:
            restriction = problem.restrict(members)
            known[members] = restriction, self._build(restriction, problem.m)
        return known[members]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(assignment={self.assignment!r})"


_Built = tuple[Restriction, QueryTree]
# Trees already built, forgotten together with the algorithm or the problem.
_TREES: WeakKeyDictionary[
    TreeAlgorithm, WeakKeyDictionary[PoolProblem, dict[Coalition, _Built]]
] = WeakKeyDictionary()


class StagedState(State):
    """A run made of inner runs, one after the other, over one version space of the full problem.

    Subclasses say which inner run asks now (``_current``) and, after every answer, move on to the
    next one or feed it labels that are already known (``_advance``).
    """

    def __init__(self, problem: PoolProblem) -> None:
        self.problem = problem
        self._space: VersionSpace = problem.version_space()

    @property
    def rows(self) -> IntArray:
        """Rows that agree with every answer so far."""
        return self._space.alive

    def next_query(self) -> Query | None:
        """Who labels what next."""
        return self._current().next_query()

    def update(self, x: int, y: int) -> None:
        """Take an answer, then use up every answer that comes for free."""
        query = self.next_query()
        if query is None or query[1] != x:
            raise _not_asked(x)
        try:
            self._space.observe_mask(self.problem.H[:, x] == y)
        except NotRealizableError:
            raise _contradiction(x, y, query[0]) from None
        self._note(query[0], x, y)
        self._current().update(x, y)
        self._advance()

    @abstractmethod
    def _current(self) -> State:
        """The inner run that asks now."""

    @abstractmethod
    def _advance(self) -> None:
        """Go on until somebody must be asked or the run is over."""

    def _note(self, agent: int, x: int, y: int) -> None:
        """Remember an answer, where a protocol needs it later."""

    def _implied(self, x: int) -> int | None:
        """The label of a column that all remaining rows agree on."""
        labels = self.problem.H[self._space.alive, x]
        return int(labels[0]) if (labels == labels[0]).all() else None


def _not_asked(x: int) -> ProtocolError:
    return ProtocolError(f"column {x} was not asked; answer the column of next_query()")


def _contradiction(x: int, y: int, agent: int) -> NotRealizableError:
    return NotRealizableError(
        f"label {y} of point {x} (agent {agent}) contradicts every labeling that is still "
        "possible; check the label or use a larger class",
        item=x,
    )


class TreeState(State):
    """A run that walks down a query tree."""

    def __init__(
        self, restriction: Restriction, tree: QueryTree, rule: OwnerRule, random_state: RandomState
    ) -> None:
        self.restriction = restriction
        self.tree = tree
        self.node = 0
        self._rule = rule
        self._rng = generator(random_state)
        self._loads = np.zeros(restriction.problem.k, dtype=np.int64)
        self._asked: Query | None = None

    @property
    def rows(self) -> IntArray:
        """Full rows below the current node."""
        here = self.tree.rows[self.tree.lo[self.node] : self.tree.hi[self.node]]
        return np.flatnonzero(np.isin(self.restriction.inverse, here)).astype(np.int64)

    def next_query(self) -> Query | None:
        """The current node's column and the owner who answers it."""
        point = int(self.tree.point[self.node])
        if point == LEAF:
            return None
        if self._asked is None:
            agent = self._owner(point)
            self._asked = agent, point
        agent, _ = self._asked
        return self.restriction.members[agent], int(self.restriction.columns[point])

    def update(self, x: int, y: int) -> None:
        """Go to the child of the label; raises when no labeling agrees."""
        query = self.next_query()
        if query is None or self._asked is None or query[1] != x:
            raise _not_asked(x)
        n_classes = self.tree.children.shape[1]
        child = int(self.tree.children[self.node, y]) if 0 <= y < n_classes else LEAF
        if child == LEAF:
            raise _contradiction(x, y, query[0])
        self._loads[self._asked[0]] += 1
        self.node, self._asked = child, None

    def _owner(self, point: int) -> int:
        owners = np.flatnonzero(self.restriction.problem.owner_mask[:, point]).tolist()
        if self._rule == "uniform":
            return int(self._rng.choice(owners))
        return choose_owner(owners, self._loads, point, self._rule)
