"""Flow decomposition: a policy as a flow through time layers, split into weighted paths.

The layer graph has one vertex per reachable (time, state) and a sink. Cutting off paths one by
one walks half the horizon per path. Here two neighbouring time spans are joined instead: at every
vertex between them a pointer on the arriving and one on the leaving pieces are matched amount by
amount, and each step uses up one piece. That gives the same bound, |E| - |V| + 2 paths, in
O(|E| log H) steps. Pieces are written in the order in which the next step reads them.
Source: Algorithm G.3, Theorem G.1; docs/theory/08-elicitation.md, "Theorem G.1 and Proposition 8.P:
flow decomposition".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray
from counterplay.elicitation.compress import Method, compress, polish
from counterplay.elicitation.mdp import MultiObjectiveMDP
from counterplay.elicitation.policies import check_policy
from counterplay.elicitation.trajectories import WeightedTrajectorySet, trajectory_returns
from counterplay.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class PolicyFlow:
    """The flow of a policy through the layer graph.

    Edge ``e`` of layer ``t`` leads from ``origin[e]`` with ``action[e]`` to ``successor[e]``.
    ``layer[t] : layer[t+1]`` are the edges of layer t; the edges into the sink are implicit.
    """

    mdp: MultiObjectiveMDP
    layer: NDArray[np.int64]
    origin: NDArray[np.int32]
    action: NDArray[np.int32]
    successor: NDArray[np.int32]
    flow: FloatArray
    arrival: FloatArray
    """Probability of each state at time H: the flow of its edge into the sink."""

    @property
    def value(self) -> FloatArray:
        """Value of the policy: expected reward over all edges."""
        n, actions, k = self.mdp.R.shape
        visits = np.bincount(self.pairs, self.flow, n * actions)
        return np.asarray(visits @ self.mdp.R.reshape(-1, k))

    @property
    def pairs(self) -> NDArray[np.int32]:
        """State and action of each edge as one number, ``origin * A + action``."""
        return self.origin * np.int32(self.mdp.n_actions) + self.action

    @property
    def n_edges(self) -> int:
        """Number of edges with positive flow, those into the sink included."""
        return len(self.flow) + int((self.arrival > 0).sum())

    @property
    def n_vertices(self) -> int:
        """Number of reachable (time, state) pairs plus the sink."""
        times = np.repeat(np.arange(self.mdp.H), np.diff(self.layer))
        tails = np.unique(times * self.mdp.n_states + self.origin).size
        return int(tails + (self.arrival > 0).sum() + 1)


@dataclass(frozen=True, eq=False)
class _Tree:
    """Which piece of the earlier and of the later half each piece of a time span consists of.

    For a single time, ``left`` are the edges.
    """

    left: NDArray[np.uint32]
    right: NDArray[np.uint32] | None = None
    halves: tuple[_Tree, _Tree] | None = None

    def write_edges(self, rows: NDArray[Any], edges: NDArray[np.uint32]) -> None:
        """Fill ``edges`` (rows, time) with the edges of the given pieces."""
        if self.halves is None or self.right is None:
            edges[:, 0] = self.left[rows]
            return
        middle = edges.shape[1] // 2
        self.halves[0].write_edges(self.left[rows], edges[:, :middle])
        self.halves[1].write_edges(self.right[rows], edges[:, middle:])


class _Pieces(NamedTuple):
    """Pieces of paths over a span of time, sorted by the state in which they meet the next span."""

    other: NDArray[Any]
    """State at the end that does not meet the next span."""
    first: NDArray[np.int64]
    """Where the pieces of each meeting state begin."""
    amount: FloatArray
    returns: FloatArray


@dataclass(frozen=True, eq=False)
class FlowPaths:
    """Paths from the initial state to the horizon and the probability each carries."""

    flow: PolicyFlow
    amounts: FloatArray
    """Probability that each path carries (n,)."""
    returns: FloatArray
    """Sum of the rewards along each path (n, k)."""
    tree: _Tree
    rows: NDArray[Any]
    """Where the paths are in the tree of pieces."""

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def edges(self) -> NDArray[np.uint32]:
        """Edge of the flow taken at each time (n, H)."""
        edges = np.empty((len(self), self.flow.mdp.H), dtype=np.uint32)
        self.tree.write_edges(self.rows, edges)
        return edges

    @property
    def states(self) -> NDArray[np.int32]:
        """States (n, H+1) along each path."""
        start = np.full((len(self), 1), self.flow.mdp.s0, dtype=np.int32)
        return np.hstack([start, self.flow.successor[self.edges].astype(np.int32)])

    @property
    def actions(self) -> NDArray[np.int32]:
        """Actions (n, H) along each path."""
        return self.flow.action[self.edges].astype(np.int32)

    def take(self, rows: NDArray[Any]) -> FlowPaths:
        """Return the given paths only."""
        return FlowPaths(
            self.flow, self.amounts[rows], self.returns[rows], self.tree, self.rows[rows]
        )

    def top(self, n: int) -> FlowPaths:
        """Return the ``n`` heaviest paths: the most likely route families."""
        return self.take(np.argsort(-self.amounts, kind="stable")[:n])

    def compressed(self, *, method: Method = "tree") -> WeightedTrajectorySet:
        """Return at most k+1 of the paths with the exact value of the policy."""
        mdp = self.flow.mdp
        kept, weights = compress(self.returns, self.amounts / self.amounts.sum(), method)
        few = self.take(kept)
        returns = trajectory_returns(mdp, few.states, few.actions)
        weights = polish(returns, weights, self.flow.value)
        return WeightedTrajectorySet(few.states, few.actions, weights, returns, mdp)


@checked
def policy_flow(mdp: MultiObjectiveMDP, policy: ArrayLike) -> PolicyFlow:
    """Return the flow of a policy: the probability of every transition at every time.

    Examples
    --------
    >>> from counterplay.elicitation import instances, plan
    >>> mdp = instances.random_mdp(seed=0, k=2)
    >>> flow = policy_flow(mdp, plan(mdp, [[1.0, 1.0]]).policies[0])
    >>> bool(np.isclose(flow.flow[: flow.layer[1]].sum(), 1.0))
    True
    """
    checked = check_policy(mdp, policy)
    inflow = np.zeros(mdp.n_states)
    inflow[mdp.s0] = 1.0
    parts: list[tuple[NDArray[Any], ...]] = []
    for t in range(mdp.H):
        if checked.ndim == 2:
            tails = np.flatnonzero(inflow > 0)
            actions, chance = checked[t, tails].astype(np.int64), inflow[tails]
        else:
            here = np.flatnonzero(inflow > 0)
            position, actions = np.nonzero(checked[t, here] > 0)
            tails = here[position]
            chance = inflow[tails] * checked[t, tails, actions]
        *edges, inflow = _layer(*mdp.csr, tails, actions, chance, mdp.n_states, mdp.n_actions)
        parts.append(tuple(edges))
    layer = np.concatenate([[0], np.cumsum([len(part[3]) for part in parts])]).astype(np.int64)
    origin, action, successor, flow = (np.concatenate(columns) for columns in zip(*parts))
    return PolicyFlow(mdp, layer, origin, action, successor, flow, inflow)


@checked
def flow_decomposition(flow: PolicyFlow) -> FlowPaths:
    """Split the flow into weighted paths that add up to it edge by edge.

    Use it when the whole decomposition is wanted, such as the most likely route families, or as
    an independent check of :func:`expand_and_compress`.

    Returns
    -------
    FlowPaths
        At most ``|E| - |V| + 2`` paths; amounts sum to 1 within 1e-10
        (Theorem G.1).

    Examples
    --------
    >>> from counterplay.elicitation import instances, plan
    >>> mdp = instances.random_mdp(seed=0, k=2)
    >>> flow = policy_flow(mdp, plan(mdp, [[1.0, 1.0]]).policies[0])
    >>> paths = flow_decomposition(flow)
    >>> len(paths) <= flow.n_edges - flow.n_vertices + 2, float(paths.amounts.sum().round(10))
    (True, 1.0)
    """
    if not flow.flow.size:
        raise InvalidInputError("the flow is empty")
    pieces, tree = _join_span(_Workspace.of(flow), 0, flow.mdp.H, 0)
    return FlowPaths(flow, pieces.amount, pieces.returns, tree, np.arange(len(pieces.amount)))


@dataclass(frozen=True, eq=False)
class _Workspace:
    """Memory for all pieces, taken once: those of a span never outnumber its edges.

    A span writes at the place of its edges, even and odd depths of the recursion in turns.
    """

    flow: PolicyFlow
    pairs: NDArray[np.int32]
    amount: FloatArray
    other: NDArray[Any]
    returns: FloatArray
    tree: NDArray[np.uint32]
    scratch: tuple[NDArray[Any], ...]

    @classmethod
    def of(cls, flow: PolicyFlow) -> _Workspace:
        """Take the memory for one flow."""
        edges, k = len(flow.flow), flow.mdp.n_objectives
        small = np.uint16 if flow.mdp.n_states < 2**16 else np.uint32
        numbers = np.empty((2, edges), np.uint32)
        scratch = (*numbers, np.empty(edges), np.empty(edges, small), np.empty(edges, small))
        return cls(
            flow,
            flow.pairs,
            np.empty((2, edges)),
            np.empty((2, edges), small),
            np.empty((2, edges, k)),
            np.empty((flow.mdp.H.bit_length() + 1, 2, edges), np.uint32),
            scratch,
        )


def _join_span(
    work: _Workspace, first: int, last: int, depth: int, *, forward: bool = True
) -> tuple[_Pieces, _Tree]:
    """Pieces of paths from time ``first`` to ``last``, sorted for the span after it or before it.

    ``forward``: sorted by the state in which they end, for the span that follows.
    """
    flow, turn = work.flow, depth % 2
    edges = slice(flow.layer[first], flow.layer[last])
    other, amount, returns = work.other[turn, edges], work.amount[turn, edges], work.returns[turn]
    left, right = work.tree[depth, :, edges]
    written = (other, amount, returns[edges], left, right)
    if last - first == 1:
        start, stop = flow.origin[edges], flow.successor[edges]
        meet, end = (stop, start) if forward else (start, stop)
        rewards = flow.mdp.R.reshape(-1, flow.mdp.n_objectives)
        begin = _sort_edges(
            meet, end, flow.flow[edges], work.pairs[edges], rewards, flow.mdp.n_states,
            flow.layer[first], *written[:4],
        )  # fmt: skip
        return _Pieces(other, begin, amount, returns[edges]), _Tree(left)
    middle = first + (last - first) // 2
    before, early = _join_span(work, first, middle, depth + 1)
    after, late = _join_span(work, middle, last, depth + 1, forward=False)
    begin = _join(*before, *after, forward, depth == 0, *work.scratch, *written)  # type: ignore[call-arg]  # mypy counts the stars wrongly
    n = int(begin[-1])
    pieces = _Pieces(other[:n], begin, amount[:n], returns[edges][:n])
    return pieces, _Tree(left[:n], right[:n], (early, late))


@njit(cache=True)
def _layer(indptr, indices, data, tails, actions, chance, n_states, n_actions):  # type: ignore[no-untyped-def]  # compiled by numba
    """Edges of one time: origin, action, successor, flow; and what arrives at each state."""
    size = 0  # how many edges there will be
    for i in range(tails.size):
        row = tails[i] * n_actions + actions[i]
        size += indptr[row + 1] - indptr[row]
    origin, action = np.empty(size, np.int32), np.empty(size, np.int32)
    successor, flow = np.empty(size, np.int32), np.empty(size)
    arrival = np.zeros(n_states)
    edge = 0
    # the probability of a tail splits over its successors
    for i in range(tails.size):
        row = tails[i] * n_actions + actions[i]
        for entry in range(indptr[row], indptr[row + 1]):
            amount = chance[i] * data[entry]
            origin[edge], action[edge] = tails[i], actions[i]
            successor[edge], flow[edge] = indices[entry], amount
            arrival[indices[entry]] += amount
            edge += 1
    return origin, action, successor, flow, arrival


@njit(cache=True)
def _begins(states, n_states):  # type: ignore[no-untyped-def]  # compiled by numba
    """Where each state begins when the pieces are sorted by state."""
    first = np.zeros(n_states + 1, np.int64)
    # count, then add up
    for state in states:
        first[np.int64(state) + 1] += 1
    for state in range(n_states):
        first[state + 1] += first[state]
    return first


@njit(cache=True)
def _sort_edges(  # type: ignore[no-untyped-def]  # compiled by numba
    meet, end, flow, pairs, rewards, n_states, number, other, amount, returns, order
):
    """Write the edges of one time, sorted by the state ``meet``, as pieces of length 1."""
    first = _begins(meet, n_states)
    place = first[:-1].copy()
    for edge in range(meet.size):
        target = place[meet[edge]]
        place[meet[edge]] = target + 1
        other[target], amount[target], order[target] = end[edge], flow[edge], number + edge
        for j in range(rewards.shape[1]):
            returns[target, j] = rewards[pairs[edge], j]
    return first


@njit(cache=True)
def _match(first_a, amount_a, first_b, amount_b, left, right, amount):  # type: ignore[no-untyped-def]  # compiled by numba
    """Match what arrives at each state with what leaves it; p and q pieces give at most p + q - 1.

    What arrives and what leaves agree up to rounding. The last piece of either side takes whatever
    the other still has, so no piece is lost, however small.
    """
    count = 0
    for state in range(first_a.size - 1):
        i, j = first_a[state], first_b[state]
        last_i, last_j = first_a[state + 1] - 1, first_b[state + 1] - 1
        if i > last_i or j > last_j:
            continue
        has_a, has_b = amount_a[i], amount_b[j]
        # both sides have pieces left: the smaller amount is used up
        while i < last_i and j < last_j:
            left[count], right[count] = i, j
            amount[count] = min(has_a, has_b)
            count += 1
            rest = has_a - has_b
            if rest <= 0:
                i += 1
                has_a = amount_a[i]
                has_b = -rest
            else:
                has_a = rest
            if rest >= 0:
                j += 1
                has_b = amount_b[j]
        # only the last leaving piece is left: it takes all that arrives
        while i < last_i:
            left[count], right[count], amount[count] = i, j, has_a
            count += 1
            i += 1
            has_b -= has_a
            has_a = amount_a[i]
        # only the last arriving piece is left: it feeds all that leaves
        while j < last_j:
            left[count], right[count], amount[count] = i, j, has_b
            count += 1
            j += 1
            has_a -= has_b
            has_b = amount_b[j]
        left[count], right[count], amount[count] = i, j, max(has_a, has_b)
        count += 1
    return count


@njit(cache=True)
def _join(  # type: ignore[no-untyped-def]  # compiled by numba
    start_a, first_a, amount_a, returns_a,
    stop_b, first_b, amount_b, returns_b,
    forward, last,
    one, two, matched, start, stop,
    other, amount, returns, left, right,
):  # fmt: skip
    """Write the joined pieces of two neighbouring time spans, sorted for the next step.

    After the last step the order does not matter.
    """
    count = _match(first_a, amount_a, first_b, amount_b, one, two, matched)
    for piece in range(count):
        start[piece], stop[piece] = start_a[one[piece]], stop_b[two[piece]]
    meet, end = (stop, start) if forward else (start, stop)
    # counting sort by the state where the next step joins
    if last:
        meet[:count] = 0
    first = _begins(meet[:count], first_a.size - 1)
    place = first[:-1].copy()
    for piece in range(count):
        target = place[meet[piece]]
        place[meet[piece]] = target + 1
        a, b = one[piece], two[piece]
        other[target], amount[target], left[target], right[target] = (
            end[piece],
            matched[piece],
            a,
            b,
        )
        for j in range(returns.shape[1]):
            returns[target, j] = returns_a[a, j] + returns_b[b, j]
    return first
