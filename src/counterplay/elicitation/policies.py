"""Policies, mixtures of policies, and their value vectors.

Optimal policies of a finite horizon depend on time, so a deterministic policy is an int array
(H, S) and a stochastic one a float array (H, S, A). A mixture draws one policy at time 0 and then
follows it; it never mixes actions step by step.
Source: docs/theory/08-elicitation.md, "Proposition 8.A: planning needs time".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, check_probabilities, shorten
from counterplay.elicitation.mdp import MultiObjectiveMDP, require_do_nothing
from counterplay.errors import InvalidInputError

Policy: TypeAlias = NDArray[Any]
"""Deterministic (H, S) integers or stochastic (H, S, A) probabilities."""


@checked
@dataclass(frozen=True, eq=False)
class PolicyMixture:
    """Draw one policy at time 0 with these weights, then follow it to the end.

    Parameters
    ----------
    weights:
        Probabilities of the policies.
    policies:
        Policies (H, S) or (H, S, A) of the same process.

    Examples
    --------
    Half "take the prize at once" and half "do nothing" is worth half the prize:

    >>> from counterplay.elicitation import instances
    >>> from counterplay.elicitation.lab import do_nothing_policy
    >>> mdp = instances.stationarity()
    >>> take = np.ones((mdp.H, mdp.n_states), dtype=int)
    >>> mixture = PolicyMixture([0.5, 0.5], [take, do_nothing_policy(mdp)])
    >>> policy_value(mdp, mixture).round(3).tolist()
    [0.5]
    """

    weights: Any
    policies: Any

    def __post_init__(self) -> None:
        weights = check_probabilities(self.weights, "weights").copy()
        if not isinstance(self.policies, Sequence | np.ndarray) or isinstance(self.policies, str):
            raise InvalidInputError(
                f"policies must be a list of policies, got {shorten(self.policies)}"
            )
        policies = tuple(np.asarray(policy) for policy in self.policies)
        if weights.ndim != 1 or len(policies) != weights.size:
            raise InvalidInputError(
                f"a mixture needs one weight per policy, got {weights.size} weights "
                f"and {len(policies)} policies"
            )
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "policies", policies)


@checked
def do_nothing_policy(mdp: MultiObjectiveMDP) -> Policy:
    """Return the policy that always does nothing; its value is zero in every objective.

    Examples
    --------
    >>> from counterplay.elicitation import instances
    >>> mdp = instances.stationarity()
    >>> policy_value(mdp, do_nothing_policy(mdp)).tolist()
    [0.0]
    """
    action = require_do_nothing(mdp)
    policy = first_available_policy(mdp)
    policy[:, mdp.s0] = action
    return policy


def first_available_policy(mdp: MultiObjectiveMDP) -> Policy:
    """Return the policy that always takes the available action with the lowest index."""
    actions = mdp.action_mask.argmax(axis=1).astype(action_dtype(mdp))
    return np.repeat(actions[None, :], mdp.H, axis=0)


def action_dtype(mdp: MultiObjectiveMDP) -> type[np.signedinteger[Any]]:
    """Return the smallest integer type that holds every action."""
    kinds = (np.int8, np.int16, np.int32)
    return next(kind for kind in kinds if mdp.n_actions <= np.iinfo(kind).max)


def check_policy(mdp: MultiObjectiveMDP, policy: ArrayLike) -> Policy:
    """Return the policy as (H, S) integers or (H, S, A) floats; stationary ones are repeated."""
    array = np.asarray(policy)
    n_states, n_actions = mdp.n_states, mdp.n_actions
    if np.issubdtype(array.dtype, np.integer) and array.shape in {(n_states,), (mdp.H, n_states)}:
        full = np.broadcast_to(array, (mdp.H, n_states))
        _check_actions(mdp, full)
        inside = np.where(mdp.action_mask.any(axis=1), full, 0)  # compiled loops index with it
        return np.ascontiguousarray(inside, dtype=action_dtype(mdp))
    shapes = {(n_states, n_actions), (mdp.H, n_states, n_actions)}
    if np.issubdtype(array.dtype, np.floating) and array.shape in shapes:
        full = np.broadcast_to(array, (mdp.H, n_states, n_actions))
        forbidden = np.argwhere((full > 0) & ~mdp.action_mask[None])
        if forbidden.size:
            t, s, a = (int(i) for i in forbidden[0])
            raise InvalidInputError(
                f"the policy plays the unavailable action {a} in state {s} at time {t}"
            )
        return np.ascontiguousarray(check_probabilities(full, "policy"))
    raise InvalidInputError(
        f"a policy must be an integer array ({mdp.H}, {n_states}) or a float array "
        f"({mdp.H}, {n_states}, {n_actions}), got {array.dtype} {array.shape}"
    )


def _check_actions(mdp: MultiObjectiveMDP, actions: NDArray[Any]) -> None:
    states = np.arange(mdp.n_states)
    valid = (actions >= 0) & (actions < mdp.n_actions)
    allowed = valid & mdp.action_mask[states, np.where(valid, actions, 0)]
    allowed |= ~mdp.action_mask.any(axis=1)  # states that can never be reached
    if not allowed.all():
        t, s = (int(i) for i in np.argwhere(~allowed)[0])
        raise InvalidInputError(
            f"the policy plays the unavailable action {actions[t, s]} in state {s} at time {t}"
        )


@checked
def policy_value(mdp: MultiObjectiveMDP, policy: ArrayLike | PolicyMixture) -> FloatArray:
    """Return the value vector of a policy or mixture, by forward occupancy.

    Only states that the policy reaches are touched. :func:`value_to_go` gives the same number
    by backward recursion, for every state and time.

    Examples
    --------
    >>> from counterplay.elicitation import instances, plan
    >>> mdp = instances.stationarity()
    >>> policy_value(mdp, plan(mdp, [[1.0]]).policies[0]).round(3).tolist()
    [1.2]
    """
    if isinstance(policy, PolicyMixture):
        parts = np.stack([policy_value(mdp, part) for part in policy.policies])
        return np.asarray(policy.weights @ parts)
    checked = check_policy(mdp, policy)
    if checked.ndim == 2:
        return np.asarray(evaluate_policies(mdp, checked[None])[0])
    return np.asarray(_occupancy_value(mdp, checked))


def evaluate_policies(mdp: MultiObjectiveMDP, policies: NDArray[Any]) -> FloatArray:
    """Return the values (m, k) of deterministic policies (m, H, S), unchecked and compiled."""
    rewards = mdp.R.reshape(-1, mdp.n_objectives)
    return np.asarray(_forward_values(*mdp.csr, rewards, policies, mdp.s0, mdp.n_actions))


@checked
def value_to_go(mdp: MultiObjectiveMDP, policy: ArrayLike) -> FloatArray:
    """Return U of shape (H+1, S, k): the value from every state and time on; ``U[H]`` is 0.

    Examples
    --------
    >>> from counterplay.elicitation import instances, plan
    >>> mdp = instances.stationarity()
    >>> value_to_go(mdp, plan(mdp, [[1.0]]).policies[0])[:, mdp.s0, 0].round(2).tolist()
    [1.2, 1.1, 1.0, 0.0]
    """
    checked = check_policy(mdp, policy)
    n, a, k = mdp.R.shape
    if checked.ndim == 2:
        return np.asarray(_backward_values(*mdp.csr, mdp.R.reshape(-1, k), checked, a))
    values = np.zeros((mdp.H + 1, n, k))
    for t in range(mdp.H - 1, -1, -1):
        action_values = mdp.R + (mdp.P @ values[t + 1]).reshape(n, a, k)
        values[t] = np.einsum("sa,sak->sk", checked[t], action_values)
    return values


@checked
def occupancy(mdp: MultiObjectiveMDP, policy: ArrayLike) -> FloatArray:
    """Return the probability (H, S, A) of every state and action at every time.

    Examples
    --------
    >>> from counterplay.elicitation import instances
    >>> mdp = instances.good_bad_mediocre()
    >>> occupancy(mdp, np.zeros((2, 4), dtype=int))[1, :, 0].tolist()
    [0.0, 0.5, 0.5, 0.0]
    """
    checked = check_policy(mdp, policy)
    n, a = mdp.n_states, mdp.n_actions
    measure = np.zeros((mdp.H, n, a))
    state = np.zeros(n)
    state[mdp.s0] = 1.0
    for t in range(mdp.H):
        if checked.ndim == 2:
            measure[t, np.arange(n), checked[t]] = state
        else:
            measure[t] = state[:, None] * checked[t]
        state = mdp.P.T @ measure[t].ravel()
    return measure


def _occupancy_value(mdp: MultiObjectiveMDP, policy: Policy) -> FloatArray:
    return np.asarray(np.einsum("tsa,sak->k", occupancy(mdp, policy), mdp.R))


@njit(cache=True)
def _backward_values(indptr, indices, data, rewards, policy, n_actions):  # type: ignore[no-untyped-def]  # compiled by numba
    """Values (H+1, S, k) from every time and state on."""
    horizon, n = policy.shape
    k = rewards.shape[1]
    values = np.zeros((horizon + 1, n, k))  # nothing is paid after the horizon
    for t in range(horizon - 1, -1, -1):
        later = values[t + 1]
        for s in range(n):
            # what the action of the policy pays now
            row = np.uint64(s * n_actions + policy[t, s])
            for j in range(k):
                values[t, s, j] = rewards[row, j]
            # plus what its successors are worth later
            for entry in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
                weight = data[entry]
                successor = indices[entry]
                for j in range(k):
                    values[t, s, j] += weight * later[successor, j]
    return values


@njit(cache=True, nogil=True)
def _forward_values(indptr, indices, data, rewards, policies, s0, n_actions):  # type: ignore[no-untyped-def]  # compiled by numba
    """Values (m, k): rewards times how often each state and action is expected to occur."""
    m, horizon, n = policies.shape
    k = rewards.shape[1]
    values = np.zeros((m, k))
    visits = np.empty(n * n_actions)
    held, row_of = np.empty(n), np.empty(n, np.uint64)  # visits since the action last changed
    for i in range(m):
        current, following = np.zeros(n), np.zeros(n)
        current[s0] = 1.0
        visits[:], held[:] = 0.0, 0.0
        for s in range(n):
            row_of[s] = s * n_actions + policies[i, 0, s]
        for t in range(horizon):
            following[:] = 0.0
            for s in range(n):
                # visits are added to their action when the policy changes it
                row = np.uint64(s * n_actions + policies[i, t, s])
                if row != row_of[s]:
                    visits[row_of[s]] += held[s]
                    row_of[s], held[s] = row, 0.0
                weight = current[s]
                if weight == 0.0:
                    continue
                held[s] += weight
                # the probability of the state moves on to its successors
                for entry in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
                    following[indices[entry]] += weight * data[entry]
            current, following = following, current
        for s in range(n):
            visits[row_of[s]] += held[s]
        # each expected visit pays the reward of its state and action
        for pair in range(visits.size):
            weight = visits[pair]
            if weight != 0.0:
                for j in range(k):
                    values[i, j] += weight * rewards[pair, j]
    return values
