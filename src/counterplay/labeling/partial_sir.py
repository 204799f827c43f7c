"""Protocols after which one chosen agent is strictly better off and nobody is worse off.

All others label first; what their labels say about the chosen agent's pool saves her queries. With
an efficient baseline her own tree is pruned by it, not planned anew: re-planning may cost her more
than staying alone. Source: Lemma 6.3, see docs/theory/06-labeling.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, spawn
from counterplay.core.validation import BoolArray, IntArray, check_int
from counterplay.errors import InvalidInputError
from counterplay.labeling.algorithm import QueryAlgorithm, StagedState, State, TreeAlgorithm
from counterplay.labeling.b2ir import B2IR
from counterplay.labeling.model import Coalition, Members, PoolProblem, merge_rows
from counterplay.labeling.optimal_tree import OptimalTree
from counterplay.labeling.report import greater
from counterplay.labeling.tree import LEAF


class PartialSIR(QueryAlgorithm):
    """A protocol that favours one agent: the others label first, then she uses what they found."""

    def __init__(self, agent: int) -> None:
        self.agent = check_int(agent, "agent", low=0)

    @abstractmethod
    def _others_run(self) -> QueryAlgorithm:
        """What the others run."""

    @abstractmethod
    def _own_run(self, problem: PoolProblem, rows: IntArray, stream: RandomState) -> State:
        """Agent i's run, given the rows that the others' labels leave."""

    @abstractmethod
    def _own_column(self, problem: PoolProblem, others: Coalition) -> IntArray:
        """Agent i's cost for every target."""

    def _others(self, problem: PoolProblem) -> Coalition:
        check_int(self.agent, "agent", low=0, high=problem.k - 1)
        return tuple(j for j in problem.everybody if j != self.agent)

    @checked
    def cost_matrix(self, problem: PoolProblem, coalition: Members = None) -> NDArray[Any]:
        """Costs of the others from their run, of agent i from hers."""
        _whole(problem, coalition)
        others = self._others(problem)
        own = self._own_column(problem, others)
        if not others:
            return own[:, None]
        costs = self._others_run().cost_matrix(problem, others)
        costs = costs.astype(np.result_type(costs, own)) if costs.dtype != object else costs
        costs[:, self.agent] = own
        return costs

    @checked
    def start(
        self, problem: PoolProblem, coalition: Members = None, random_state: RandomState = None
    ) -> State:
        """Begin a run: the others first, then agent i."""
        _whole(problem, coalition)
        others = self._others(problem)
        first, second = spawn(random_state, 2)
        before = self._others_run().start(problem, others, first) if others else None
        return _TwoStageState(problem, before, lambda rows: self._own_run(problem, rows, second))


@checked
class PrunedPartialSIR(PartialSIR):
    """The others run B2IR; then agent i walks her own tree, skipping labels that are implied.

    Use it as an ingredient of ``SIRMixture``, which draws one of these protocols rarely.

    Parameters
    ----------
    baseline:
        A tree algorithm such as ``GBS``.
    agent:
        The agent who is to be strictly better off.
    replan:
        Also plan agent i's tree anew on what the others found, and use it where its exact expected
        cost is below the pruned tree's. Never more queries in expectation than pruning alone;
        re-planning always, in contrast, can cost her more than staying alone.

    Notes
    -----
    Guarantee (Lemma 6.3): if the other pools can say anything about agent i's
    labels (``check_assumption2``), she expects strictly fewer queries than alone, by at least the
    smallest prior probability; nobody else expects more than alone; the total is at most the size
    of the pool. Otherwise she expects exactly as many as alone.

    Examples
    --------
    >>> from counterplay.labeling import GBS, instances
    >>> print(PrunedPartialSIR(GBS(), agent=0).expected_costs(instances.weak_pruning_trap())[0])
    13/7

    """

    def __init__(self, baseline: TreeAlgorithm, agent: int, *, replan: bool = False) -> None:
        if not isinstance(baseline, TreeAlgorithm):
            raise InvalidInputError(f"baseline must be a tree algorithm, got {baseline!r}")
        super().__init__(agent)
        self.baseline = baseline
        self.replan = replan

    def _own_costs(
        self, problem: PoolProblem, others: Coalition
    ) -> tuple[IntArray, list[PoolProblem | None]]:
        """Agent i's cost for every target, and the problem she plans anew on per group of targets
        (same labels on the others' points); None where she follows her pruned tree.
        """
        costs = np.zeros(problem.N, dtype=np.int64)
        for _, rows, pays in self._walk(problem, others):
            costs[rows] += pays
        plans: list[PoolProblem | None] = []
        for rows in _rows_by_group(_groups(problem, others)):
            small = _rows_only(problem, rows) if self.replan else None
            if small is not None:
                anew = self.baseline.cost_matrix(small, (self.agent,))[:, self.agent]
                means = [np.array([(small.prior * c).sum()]) for c in (costs[rows], anew)]
                if greater(*means)[0]:
                    costs[rows] = anew
                else:
                    small = None
            plans.append(small)
        return costs, plans

    def pruned_nodes(self, problem: PoolProblem, target: int | None = None) -> BoolArray:
        """Nodes of agent i's tree that ask her nothing: for every target, or given the others'
        labels of one target.
        """
        others = self._others(problem)
        tree = self.baseline.tree(problem, (self.agent,))
        groups = _groups(problem, others)
        pruned = np.zeros(tree.n_nodes, dtype=np.bool_)
        for node, rows, pays in self._walk(problem, others):
            mine = pays if target is None else pays[groups[rows] == groups[target]]
            pruned[node] = not mine.any()
        return pruned

    def _walk(
        self, problem: PoolProblem, others: Coalition
    ) -> Iterator[tuple[int, IntArray, BoolArray]]:
        """Yield each inner node of her tree, its rows, and which of them pay for its question:
        those whose group (same labels on the others' points) still has two labels there.
        """
        restriction = problem.restrict((self.agent,))
        tree = self.baseline.tree(problem, (self.agent,))
        groups = _groups(problem, others)
        rows_of: dict[int, IntArray] = {0: np.arange(problem.N)}
        for node in range(tree.n_nodes):
            rows = rows_of.pop(node)
            if tree.point[node] == LEAF:
                continue
            labels = problem.H[rows, int(restriction.columns[tree.point[node]])]
            yield node, rows, _undecided(groups[rows], labels)
            for label, child in enumerate(tree.children[node]):
                if child != LEAF:
                    rows_of[int(child)] = rows[labels == label]

    def _others_run(self) -> QueryAlgorithm:
        return B2IR(self.baseline)

    def _own_run(self, problem: PoolProblem, rows: IntArray, stream: RandomState) -> State:
        others = self._others(problem)
        plan = self._own_costs(problem, others)[1][int(_groups(problem, others)[rows[0]])]
        return self.baseline.start(problem if plan is None else plan, (self.agent,), stream)

    def _own_column(self, problem: PoolProblem, others: Coalition) -> IntArray:
        return self._own_costs(problem, others)[0]

    def __repr__(self) -> str:
        more = ", replan=True" if self.replan else ""
        return f"PrunedPartialSIR({self.baseline!r}, agent={self.agent}{more})"


@checked
class OptPartialSIR(PartialSIR):
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

    """

    def __init__(self, agent: int, optimal: OptimalTree | None = None) -> None:
        super().__init__(agent)
        self.optimal = OptimalTree() if optimal is None else optimal

    def _others_run(self) -> QueryAlgorithm:
        return self.optimal

    def _own_run(self, problem: PoolProblem, rows: IntArray, stream: RandomState) -> State:
        return self.optimal.start(_rows_only(problem, rows), (self.agent,), stream)

    def _own_column(self, problem: PoolProblem, others: Coalition) -> IntArray:
        own = np.zeros(problem.N, dtype=np.int64)
        for rows in _rows_by_group(_groups(problem, others)):
            small = _rows_only(problem, rows)
            own[rows] = self.optimal.cost_matrix(small, (self.agent,))[:, self.agent]
        return own

    def __repr__(self) -> str:
        return f"OptPartialSIR(agent={self.agent})"


class _TwoStageState(StagedState):
    """The others' run, then agent i's, with labels fed for free that are implied by then.

    ``own`` starts agent i's run, given the rows that the others' labels leave.
    """

    def __init__(
        self, problem: PoolProblem, first: State | None, own: Callable[[IntArray], State]
    ) -> None:
        super().__init__(problem)
        self._first, self._own = first, own
        self._second: State | None = None
        self._advance()

    def _current(self) -> State:
        state = self._first if self._second is None else self._second
        assert state is not None
        return state

    def _advance(self) -> None:
        if self._second is None and (self._first is None or self._first.next_query() is None):
            self._second = self._own(self._space.alive)
        while self._second is not None and (query := self._second.next_query()) is not None:
            label = self._implied(query[1])
            if label is None:
                return
            self._second.update(query[1], label)


def _whole(problem: PoolProblem, coalition: Members) -> None:
    if coalition is not None and problem.check_coalition(coalition) != problem.everybody:
        raise InvalidInputError("partially SIR protocols are defined for the coalition of all")


def _groups(problem: PoolProblem, others: Coalition) -> IntArray:
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
