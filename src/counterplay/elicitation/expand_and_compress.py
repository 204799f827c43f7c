"""Expand and compress: any policy as at most k+1 real trajectories with exactly its value.

Prefixes grow by one step at a time; after every step the set is compressed back to k+1 prefixes
without changing the expected total return.
Source: Algorithm 8.2, Theorem 8.3; docs/theory/08-elicitation.md, "Expand and compress (Algorithm
8.2)".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray
from counterplay.elicitation.compress import Method, compress, polish
from counterplay.elicitation.mdp import MultiObjectiveMDP
from counterplay.elicitation.policies import Policy, PolicyMixture, check_policy, value_to_go
from counterplay.elicitation.trajectories import (
    WeightedTrajectorySet,
    combine,
    trajectory_returns,
)


@checked
def expand_and_compress(
    mdp: MultiObjectiveMDP,
    policy: ArrayLike | PolicyMixture,
    *,
    method: Method = "tree",
    on_step: Callable[[int, FloatArray, FloatArray], None] | None = None,
) -> WeightedTrajectorySet:
    """Explain a policy by at most k+1 weighted trajectories with exactly its value.

    Use it to show a policy to a person, or to explain what a learnt policy does, including events
    of probability 1e-12 that no sample would contain.

    Parameters
    ----------
    mdp:
        The process.
    policy:
        Integers (H, S), probabilities (H, S, A), or a mixture of such policies.
    method:
        Compression method, see :func:`c4_compress`.
    on_step:
        Called after each step with the time, the weights and the expected total returns J of the
        kept prefixes; ``weights @ J`` is the value of the policy every time.

    Returns
    -------
    WeightedTrajectorySet
        Each trajectory is possible under the policy; ``weights @ returns`` equals its value
        (Theorem 8.3), in time ``O(k^4 H S + k H S^2)`` for dense transitions.

    Examples
    --------
    >>> from counterplay.elicitation import expand_and_compress, instances, plan
    >>> from counterplay.elicitation.lab import policy_value
    >>> mdp = instances.random_mdp(seed=1, k=3)
    >>> policy = plan(mdp, [[1.0, 0.5, 0.2]]).policies[0]
    >>> explained = expand_and_compress(mdp, policy)
    >>> len(explained), bool(np.allclose(explained.value, policy_value(mdp, policy), rtol=1e-12))
    (4, True)

    References
    ----------
    "Expand and compress (Algorithm 8.2)", Theorem 8.3, see docs/theory/08-elicitation.md.
    """
    if isinstance(policy, PolicyMixture):
        parts = [expand_and_compress(mdp, part, method=method) for part in policy.policies]
        used = [i for i, weight in enumerate(policy.weights) if weight > 0]
        return combine([parts[i] for i in used], [float(policy.weights[i]) for i in used])
    checked = check_policy(mdp, policy)
    to_go = value_to_go(mdp, checked)
    states = np.full((1, mdp.H + 1), mdp.s0, dtype=np.int32)
    actions = np.zeros((1, mdp.H), dtype=np.int32)
    weights, gained = np.ones(1), np.zeros((1, mdp.n_objectives))
    for t in range(mdp.H):
        parent, action, successor, probability = expand_step(mdp, checked, t, states[:, t])
        gained = gained[parent] + mdp.R[states[parent, t], action]
        total = gained + to_go[t + 1, successor]
        kept, weights = compress(total, weights[parent] * probability, method)
        states, actions = states[parent[kept]], actions[parent[kept]]
        actions[:, t], states[:, t + 1] = action[kept], successor[kept]
        gained = gained[kept]
        if on_step is not None:
            on_step(t, weights, total[kept])
    returns = trajectory_returns(mdp, states, actions)
    if method == "tree":
        weights = polish(returns, weights, to_go[0, mdp.s0])
    return WeightedTrajectorySet(states, actions, weights, returns, mdp)


def expand_step(
    mdp: MultiObjectiveMDP, policy: Policy, t: int, states: NDArray[np.int32]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], FloatArray]:
    """All one-step continuations of the kept prefixes: parent, action, successor, probability."""
    here = states.astype(np.int64)
    if policy.ndim == 2:
        parent, action = np.arange(here.size), policy[t, here].astype(np.int64)
        chance = np.ones(here.size)
    else:
        parent, action = np.nonzero(policy[t, here] > 0)
        chance = policy[t, here[parent], action]
    rows = here[parent] * mdp.n_actions + action
    indptr = mdp.P.indptr
    counts = indptr[rows + 1] - indptr[rows]
    owner = np.repeat(np.arange(rows.size), counts)
    offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    entries = indptr[rows][owner] + offset
    probability = chance[owner] * mdp.P.data[entries]
    return parent[owner], action[owner], mdp.P.indices[entries], probability
