"""Finite-horizon value iteration for many preference directions at once.

All m directions share one pass over the sparse transitions, so a batch costs little more than a
single direction. Directions may have negative entries; unavailable actions are never compared.
Source: Eq. eq:piw, spec 08 section A0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from counterplay.core.errors import ConvergenceError, InvalidInputError
from counterplay.core.validation import FloatArray, check_float_array
from counterplay.elicitation.mdp import MultiObjectiveMDP
from counterplay.elicitation.policies import action_dtype, evaluate_policies

_CHUNK = 128  # directions per pass: keeps the working set in cache


@dataclass(frozen=True, eq=False)
class Plan:
    """Best policies for a batch of directions."""

    policies: NDArray[Any]
    """Integer array (m, H, S)."""
    values: FloatArray
    """Value vectors (m, k)."""
    scalar_values: FloatArray
    """Best scalar value per direction, ``<W_i, values_i>``."""

    def __len__(self) -> int:
        return len(self.values)


def plan(mdp: MultiObjectiveMDP, W: ArrayLike) -> Plan:
    """Return a best deterministic, time-dependent policy for every direction.

    Use it when the weights are known, or to see what extreme weights would do.

    Parameters
    ----------
    mdp:
        The process.
    W:
        Directions (m, k); a single direction (k,) is a batch of one. Any real numbers.

    Returns
    -------
    Plan
        ``policies[i]`` maximises ``<W[i], V>`` exactly. Ties: the action with the lowest index.

    Examples
    --------
    Waiting and collecting at the end is worth 1.2; the best stationary policy reaches 1.0173:

    >>> from counterplay.elicitation import instances, plan
    >>> plan(instances.stationarity(), [[1.0]]).scalar_values.round(4).tolist()
    [1.2]

    References
    ----------
    Puterman, Markov Decision Processes (1994), chapter 4 (backward induction).
    """
    directions = np.atleast_2d(check_float_array(W, "W"))
    if directions.ndim != 2 or directions.shape[1] != mdp.n_objectives:
        raise InvalidInputError(
            f"W must have {mdp.n_objectives} columns, one per objective, got {directions.shape}"
        )
    m = len(directions)
    policies = np.empty((m, mdp.H, mdp.n_states), dtype=action_dtype(mdp))
    scalars = np.empty(m)
    for start in range(0, m, _CHUNK):
        part = slice(start, min(start + _CHUNK, m))
        policies[part], scalars[part] = _plan_chunk(mdp, directions[part])
    values = evaluate_policies(mdp, policies)
    gap = np.abs((directions * values).sum(axis=1) - scalars)
    tolerance = 1e-9 * mdp.scale * np.maximum(1.0, np.abs(directions).max(axis=1))
    if (gap > tolerance).any():
        raise ConvergenceError(f"planning and evaluation disagree by {gap.max():g}")
    return Plan(policies, values, scalars)


def _plan_chunk(mdp: MultiObjectiveMDP, directions: FloatArray) -> tuple[NDArray[Any], FloatArray]:
    rewards = np.ascontiguousarray(mdp.R @ directions.T)
    actions = np.zeros((mdp.H, mdp.n_states, len(directions)), dtype=action_dtype(mdp))
    final = _value_iteration(*mdp.csr, rewards, mdp.action_mask, actions)
    return np.ascontiguousarray(actions.transpose(2, 0, 1)), final[mdp.s0]


@njit(cache=True)
def _value_iteration(indptr, indices, data, rewards, mask, actions):  # type: ignore[no-untyped-def]  # compiled by numba
    horizon, n, m = actions.shape
    n_actions = mask.shape[1]
    later = np.zeros((n, m))
    now = np.zeros((n, m))
    value = np.empty(m)
    best = np.empty(m)
    choice = np.zeros(m, np.int64)
    for t in range(horizon - 1, -1, -1):
        for s in range(n):
            best[:] = -np.inf
            choice[:] = 0
            for a in range(n_actions):
                if not mask[s, a]:
                    continue
                value[:] = rewards[s, a]
                row = np.uint64(s * n_actions + a)
                for entry in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
                    weight = data[entry]
                    source = later[indices[entry]]
                    for i in range(m):
                        value[i] += weight * source[i]
                for i in range(m):
                    choice[i] = a if value[i] > best[i] else choice[i]
                    best[i] = value[i] if value[i] > best[i] else best[i]
            for i in range(m):
                now[s, i] = best[i] if best[i] > -np.inf else 0.0  # no action: never reached
                actions[t, s, i] = choice[i]
        now, later = later, now
    return later
