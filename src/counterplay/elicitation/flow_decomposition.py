"""Flow decomposition: a policy as a flow through time layers, split into weighted paths.

The layer graph has one vertex per reachable (time, state) and a sink. Paths are cut off one by
one; each removes at least one edge, so there are at most |E| - |V| + 2 of them.
Source: alg:flow-decomposition, Thm. thm:flow-decomposition, spec 08 section A12.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from counterplay.core.errors import InvalidInputError
from counterplay.core.validation import FloatArray
from counterplay.elicitation.compress import Method, compress, polish
from counterplay.elicitation.mdp import MultiObjectiveMDP
from counterplay.elicitation.policies import check_policy
from counterplay.elicitation.trajectories import WeightedTrajectorySet, trajectory_returns

_EMPTY = 1e-15  # an edge with less is treated as empty, relative to the total flow of 1


@dataclass(frozen=True, eq=False)
class PolicyFlow:
    """The flow of a policy through the layer graph.

    Edge ``e`` of layer ``t`` leads from ``origin[e]`` with ``action[e]`` to ``successor[e]``.
    ``layer[t] : layer[t+1]`` are the edges of layer t; the edges into the sink are implicit.
    """

    mdp: MultiObjectiveMDP
    layer: NDArray[np.int64]
    origin: NDArray[np.int64]
    action: NDArray[np.int64]
    successor: NDArray[np.int64]
    flow: FloatArray
    arrival: FloatArray
    """Probability of each state at time H: the flow of its edge into the sink."""

    @property
    def value(self) -> FloatArray:
        """Value of the policy: expected reward over all edges."""
        return np.asarray(self.flow @ self.mdp.R[self.origin, self.action])

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
class FlowPaths:
    """Paths from the initial state to the horizon and the probability each carries."""

    flow: PolicyFlow
    edges: NDArray[np.uint32]
    """Edge of the flow taken at each time (n, H)."""
    amounts: FloatArray
    returns: FloatArray
    """Sum of the rewards along each path (n, k)."""

    def __len__(self) -> int:
        return len(self.amounts)

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
        return FlowPaths(self.flow, self.edges[rows], self.amounts[rows], self.returns[rows])

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
        here = np.flatnonzero(inflow > 0)
        if checked.ndim == 2:
            tails, actions = here, checked[t, here].astype(np.int64)
            chance = inflow[here]
        else:
            position, actions = np.nonzero(checked[t, here] > 0)
            tails = here[position]
            chance = inflow[tails] * checked[t, tails, actions]
        block = mdp.P[tails * mdp.n_actions + actions]
        owner = np.repeat(np.arange(tails.size), np.diff(block.indptr))
        amounts = chance[owner] * block.data
        parts.append((tails[owner], actions[owner], block.indices.astype(np.int64), amounts))
        inflow = np.zeros(mdp.n_states)
        np.add.at(inflow, block.indices, amounts)
    layer = np.concatenate([[0], np.cumsum([len(part[3]) for part in parts])]).astype(np.int64)
    origin, action, successor, flow = (np.concatenate(columns) for columns in zip(*parts))
    return PolicyFlow(mdp, layer, origin, action, successor, flow, inflow)


def flow_decomposition(flow: PolicyFlow) -> FlowPaths:
    """Split the flow into weighted paths that add up to it edge by edge.

    Use it when the whole decomposition is wanted, such as the most likely route families, or as
    an independent check of :func:`expand_and_compress`.

    Returns
    -------
    FlowPaths
        At most ``|E| - |V| + 2`` paths; amounts sum to 1 within 1e-10 (Thm.
        thm:flow-decomposition).

    Examples
    --------
    >>> from counterplay.elicitation import instances, plan
    >>> mdp = instances.random_mdp(seed=0, k=2)
    >>> flow = policy_flow(mdp, plan(mdp, [[1.0, 1.0]]).policies[0])
    >>> paths = flow_decomposition(flow)
    >>> len(paths) <= flow.n_edges - flow.n_vertices + 2, float(paths.amounts.sum().round(10))
    (True, 1.0)
    """
    mdp = flow.mdp
    edges, amounts, returns = _decompose(
        _first_edges(flow),
        flow.successor.astype(np.uint32),
        (flow.origin * mdp.n_actions + flow.action).astype(np.uint32),
        flow.flow.copy(),
        flow.arrival.copy(),
        mdp.R.reshape(-1, mdp.n_objectives),
        mdp.s0,
        flow.n_edges + 1,
    )
    if not amounts.size:
        raise InvalidInputError("the flow is empty")
    return FlowPaths(flow, edges, amounts, returns)


def _first_edges(flow: PolicyFlow) -> NDArray[np.uint32]:
    """Row pointers (H, S+1): edges of state s at time t are first[t, s] : first[t, s+1]."""
    n = flow.mdp.n_states
    first = np.empty((flow.mdp.H, n + 1), dtype=np.uint32)
    for t in range(flow.mdp.H):
        origins = flow.origin[flow.layer[t] : flow.layer[t + 1]]
        first[t] = flow.layer[t] + np.searchsorted(origins, np.arange(n + 1))
    return first


@njit(cache=True)
def _decompose(first, successor, pair, flow, arrival, rewards, s0, limit):  # type: ignore[no-untyped-def]  # compiled by numba
    """Cut off paths depth first: only the part of a path below its emptied edge is walked again.

    A pointer per vertex skips edges that are empty for good. ``amount[t]`` is what the current
    prefix carries into its vertex at time t and has not yet sent on.
    """
    horizon, columns = first.shape
    k = rewards.shape[1]
    pointer = first[:, : columns - 1].copy()
    edges = np.empty((limit, horizon), np.uint32)
    amounts = np.empty(limit)
    returns = np.empty((limit, k))
    path = np.zeros(horizon, np.uint32)
    state = np.zeros(horizon + 1, np.uint32)
    amount = np.zeros(horizon + 1)
    sent = np.zeros(horizon + 1)
    gained = np.zeros((horizon + 1, k))
    state[0], amount[0] = s0, 1.0
    count, t = 0, 0
    while t >= 0 and count < limit:
        while t < horizon:  # descend along the first edges that are not empty
            s = state[t]
            edge, last = pointer[t, s], first[t, s + np.uint32(1)]
            while edge < last and flow[edge] <= _EMPTY:
                edge += np.uint32(1)
            pointer[t, s] = edge
            if edge == last:  # rounding left inflow without outflow
                break
            path[t] = edge
            amount[t + 1] = sent[t + 1] = min(amount[t], flow[edge])
            gain = rewards[pair[edge]]
            for j in range(k):
                gained[t + 1, j] = gained[t, j] + gain[j]
            state[t + 1] = successor[edge]
            t += 1
        if t == horizon:
            least = min(amount[t], arrival[state[t]])
            if least > _EMPTY:
                arrival[state[t]] -= least
                edges[count] = path
                amounts[count] = least
                returns[count] = gained[t]
                count += 1
        while True:  # climb back to the first vertex that still has something to send
            t -= 1
            if t < 0:
                break
            flow[path[t]] -= sent[t + 1]
            amount[t] -= sent[t + 1]
            if amount[t] > _EMPTY:
                break
    return edges[:count], amounts[:count], returns[:count]
