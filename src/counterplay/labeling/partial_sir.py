"""Protocols after which one chosen agent is strictly better off and nobody is worse off.

All others label first; what their labels say about the chosen agent's pool saves her queries. With
an efficient baseline her own tree is pruned by it, not planned anew: re-planning may cost her more
than staying alone. Source: Sec. subsec:sir-opt, subsec:sir-apprx, Lemma lemma:OiIsI-Part-SIR,
spec 06, section 3.6 and traps T2, T3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.errors import InvalidInputError, NotRealizableError, ProtocolError
from counterplay.core.seeds import RandomState, spawn
from counterplay.core.validation import IntArray, check_int
from counterplay.core.version_space import VersionSpace
from counterplay.labeling.algorithm import Query, QueryAlgorithm, State, TreeAlgorithm
from counterplay.labeling.b2ir import B2IR
from counterplay.labeling.model import PoolProblem, merge_rows
from counterplay.labeling.optimal_tree import OptimalTree
from counterplay.labeling.tree import LEAF


class PrunedPartialSIR(QueryAlgorithm):
    """The others run B2IR; then agent i walks her own tree, skipping labels that are implied.

    Use it as an ingredient of ``SIRMixture``, which draws one of these protocols rarely.

    Parameters
    ----------
    baseline:
        A tree algorithm such as ``GBS``.
    agent:
        The agent who is to be strictly better off.

    Notes
    -----
    Guarantee (Lemma ``lemma:OiIsI-Part-SIR``): if the other pools can say anything about agent i's
    labels (``check_assumption2``), she expects strictly fewer queries than alone, by at least the
    smallest prior probability; nobody else expects more than alone; the total is at most the size
    of the pool. Otherwise she expects exactly as many as alone.

    Examples
    --------
    >>> from counterplay.labeling import GBS, instances
    >>> print(PrunedPartialSIR(GBS(), agent=0).expected_costs(instances.weak_pruning_trap())[0])
    13/7

    References
    ----------
    Han Shao, Trustworthy Machine Learning under Social and Adversarial Data Sources, 2024, section
    subsec:sir-apprx.
    """

    def __init__(self, baseline: TreeAlgorithm, agent: int) -> None:
        if not isinstance(baseline, TreeAlgorithm):
            raise InvalidInputError(f"baseline must be a tree algorithm, got {baseline!r}")
        self.baseline = baseline
        self.agent = check_int(agent, "agent", low=0)

    def _others(self, problem: PoolProblem) -> tuple[int, ...]:
        check_int(self.agent, "agent", low=0, high=problem.k - 1)
        return tuple(j for j in problem.everybody if j != self.agent)

    def cost_matrix(
        self, problem: PoolProblem, coalition: Iterable[int] | None = None
    ) -> NDArray[Any]:
        """Costs of the others from B2IR, of agent i from her pruned tree."""
        _whole(problem, coalition)
        others = self._others(problem)
        own = self._pruned_costs(problem, others)
        if not others:
            return own[:, None]
        costs = B2IR(self.baseline).cost_matrix(problem, others)
        costs = costs.astype(np.result_type(costs, own)) if costs.dtype != object else costs
        costs[:, self.agent] = own
        return costs

    def _pruned_costs(self, problem: PoolProblem, others: tuple[int, ...]) -> NDArray[Any]:
        """At each node of her tree, rows pay 1 iff their group still has two labels there."""
        restriction = problem.restrict((self.agent,))
        tree = self.baseline.tree(problem, (self.agent,))
        groups = _groups(problem, others)
        costs = np.zeros(problem.N, dtype=np.int64)
        rows_of: dict[int, IntArray] = {0: np.arange(problem.N)}
        for node in range(tree.n_nodes):
            rows = rows_of.pop(node)
            if tree.point[node] == LEAF:
                continue
            x = int(restriction.columns[tree.point[node]])
            labels = problem.H[rows, x]
            costs[rows] += _undecided(groups[rows], labels)
            for label, child in enumerate(tree.children[node]):
                if child != LEAF:
                    rows_of[int(child)] = rows[labels == label]
        return costs

    def start(
        self,
        problem: PoolProblem,
        coalition: Iterable[int] | None = None,
        random_state: RandomState = None,
    ) -> State:
        """Begin a run: the others first, then agent i."""
        _whole(problem, coalition)
        others = self._others(problem)
        first, second = spawn(random_state, 2)
        before = B2IR(self.baseline).start(problem, others, first) if others else None
        return _PrunedState(problem, before, self.baseline.start(problem, (self.agent,), second))

    def __repr__(self) -> str:
        return f"PrunedPartialSIR({self.baseline!r}, agent={self.agent})"


class OptPartialSIR(QueryAlgorithm):
    """An optimal tree for the others, then an optimal tree for agent i given their labels.

    Use it on small instances as the counterpart of ``PrunedPartialSIR`` for optimal baselines.

    Parameters
    ----------
    agent:
        The agent who is to be strictly better off.
    optimal:
        The optimal-tree algorithm; default ``OptimalTree()``.

    Notes
    -----
    Agent i is strictly better off than with any baseline alone iff ``check_assumption1`` reports a
    positive gap for her.

    Examples
    --------
    >>> from counterplay.labeling import instances
    >>> print(OptPartialSIR(agent=0).expected_costs(instances.correlated_pairs())[0])
    3/2

    References
    ----------
    Han Shao, Trustworthy Machine Learning under Social and Adversarial Data Sources, 2024, section
    subsec:sir-opt.
    """

    def __init__(self, agent: int, optimal: OptimalTree | None = None) -> None:
        self.agent = check_int(agent, "agent", low=0)
        self.optimal = OptimalTree() if optimal is None else optimal

    def cost_matrix(
        self, problem: PoolProblem, coalition: Iterable[int] | None = None
    ) -> NDArray[Any]:
        """Costs of the others from their tree, of agent i from one tree per group of targets."""
        _whole(problem, coalition)
        others = tuple(j for j in problem.everybody if j != self.agent)
        own = np.zeros(problem.N, dtype=np.int64)
        for rows in _rows_by_group(_groups(problem, others)):
            small = _rows_only(problem, rows)
            own[rows] = self.optimal.cost_matrix(small, (self.agent,))[:, self.agent]
        if not others:
            return own[:, None]
        costs = self.optimal.cost_matrix(problem, others)
        costs[:, self.agent] = own
        return costs

    def start(
        self,
        problem: PoolProblem,
        coalition: Iterable[int] | None = None,
        random_state: RandomState = None,
    ) -> State:
        """Begin a run: the others first; agent i's tree is planned from their labels."""
        _whole(problem, coalition)
        others = tuple(j for j in problem.everybody if j != self.agent)
        first = self.optimal.start(problem, others, random_state) if others else None
        return _TwoStageState(problem, first, self.optimal, self.agent)

    def __repr__(self) -> str:
        return f"OptPartialSIR(agent={self.agent})"


class _PrunedState(State):
    """The others' run, then agent i's own tree with implied labels fed for free."""

    def __init__(self, problem: PoolProblem, before: State | None, own: State) -> None:
        self._problem, self._before, self._own = problem, before, own
        self._space: VersionSpace = problem.version_space()
        self._advance()

    @property
    def rows(self) -> IntArray:
        return self._space.alive

    def next_query(self) -> Query | None:
        return self._current().next_query()

    def update(self, x: int, y: int) -> None:
        query = self.next_query()
        if query is None or query[1] != x:
            raise ProtocolError(f"column {x} was not asked; answer the column of next_query()")
        _observe(self._space, self._problem, x, y, query[0])
        self._current().update(x, y)
        self._advance()

    def _current(self) -> State:
        return self._own if self._before is None else self._before

    def _advance(self) -> None:
        if self._before is not None and self._before.next_query() is None:
            self._before = None
        while self._before is None and (query := self._own.next_query()) is not None:
            labels = self._problem.H[self._space.alive, query[1]]
            if (labels != labels[0]).any():
                return
            self._own.update(query[1], int(labels[0]))


class _TwoStageState(State):
    """The others' run, then agent i's tree planned on what they found."""

    def __init__(
        self, problem: PoolProblem, first: State | None, planner: OptimalTree, agent: int
    ) -> None:
        self._problem, self._first, self._planner, self._agent = problem, first, planner, agent
        self._space: VersionSpace = problem.version_space()
        self._second: State | None = None
        self._advance()

    @property
    def rows(self) -> IntArray:
        return self._space.alive

    def next_query(self) -> Query | None:
        return self._current().next_query()

    def update(self, x: int, y: int) -> None:
        query = self.next_query()
        if query is None or query[1] != x:
            raise ProtocolError(f"column {x} was not asked; answer the column of next_query()")
        _observe(self._space, self._problem, x, y, query[0])
        self._current().update(x, y)
        self._advance()

    def _current(self) -> State:
        state = self._second if self._second is not None else self._first
        assert state is not None
        return state

    def _advance(self) -> None:
        done = self._first is None or self._first.next_query() is None
        if self._second is None and done:
            small = _rows_only(self._problem, self._space.alive)
            self._second = self._planner.start(small, (self._agent,))


def _whole(problem: PoolProblem, coalition: Iterable[int] | None) -> None:
    if coalition is not None and problem.check_coalition(coalition) != problem.everybody:
        raise InvalidInputError("partially SIR protocols are defined for the coalition of all")


def _groups(problem: PoolProblem, others: tuple[int, ...]) -> IntArray:
    """Number the rows by their labels on the others' points."""
    if not others:
        return np.zeros(problem.N, dtype=np.int64)
    return merge_rows(problem.H[:, problem.union(others)], problem.weights)[2]


def _rows_by_group(groups: IntArray) -> list[IntArray]:
    order = np.argsort(groups, kind="stable")
    return list(np.split(order, np.flatnonzero(np.diff(groups[order])) + 1))


def _undecided(groups: IntArray, labels: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """For each row whether rows of its group have different labels here."""
    size = int(groups.max()) + 1
    low = np.full(size, 255, dtype=np.uint8)
    high = np.zeros(size, dtype=np.uint8)
    np.minimum.at(low, groups, labels)
    np.maximum.at(high, groups, labels)
    mixed: NDArray[np.bool_] = (low < high)[groups]
    return mixed


def _rows_only(problem: PoolProblem, rows: IntArray) -> PoolProblem:
    return PoolProblem(problem.H[rows], problem.weights[rows], problem.agents, problem.n_classes)


def _observe(space: VersionSpace, problem: PoolProblem, x: int, y: int, agent: int) -> None:
    try:
        space.observe_mask(problem.H[:, x] == y)
    except NotRealizableError:
        raise NotRealizableError(
            f"label {y} of point {x} (agent {agent}) contradicts every labeling that is still "
            "possible; check the label or use a larger class",
            item=x,
        ) from None
