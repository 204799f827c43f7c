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

_CACHED = 2**16  # states times directions per pass: keeps the working set in cache


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
    chunk = int(np.clip(_CACHED // mdp.n_states, 16, 128))
    for start in range(0, m, chunk):
        part = slice(start, min(start + chunk, m))
        scalars[part] = _plan_chunk(mdp, directions[part], policies[part])
    values = evaluate_policies(mdp, policies)
    gap = np.abs((directions * values).sum(axis=1) - scalars)
    tolerance = 1e-9 * mdp.scale * np.maximum(1.0, np.abs(directions).max(axis=1))
    if (gap > tolerance).any():
        raise ConvergenceError(f"planning and evaluation disagree by {gap.max():g}")
    return Plan(policies, values, scalars)


def _plan_chunk(
    mdp: MultiObjectiveMDP, directions: FloatArray, policies: NDArray[Any]
) -> FloatArray:
    """Fill ``policies`` (m, H, S) and return the best scalar values."""
    rewards = np.ascontiguousarray(mdp.R @ directions.T)
    final = _value_iteration(*mdp.csr, rewards, mdp.action_mask, policies)
    return np.asarray(final[mdp.s0])


@njit(cache=True)
def _value_iteration(indptr, indices, data, rewards, mask, policies):  # type: ignore[no-untyped-def]  # compiled by numba
    m, horizon, n = policies.shape
    n_actions = mask.shape[1]
    later = np.zeros((n, m))
    now = np.zeros((n, m))
    layer = np.zeros((n, m), policies.dtype)  # actions of one time, directions side by side
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
                row = np.uint64(s * n_actions + a)
                entry, end = np.int64(indptr[row]), np.int64(indptr[row + np.uint64(1)])
                value[:] = rewards[s, a]
                if (end - entry) % 2 == 1:
                    weight, source = data[entry], later[indices[entry]]
                    for i in range(m):
                        value[i] += weight * source[i]
                    entry += 1
                while entry < end:  # two successors per pass over the directions
                    weight, source = data[entry], later[indices[entry]]
                    weight2, source2 = data[entry + 1], later[indices[entry + 1]]
                    for i in range(m):
                        value[i] += weight * source[i] + weight2 * source2[i]
                    entry += 2
                for i in range(m):
                    choice[i] = a if value[i] > best[i] else choice[i]
                    best[i] = value[i] if value[i] > best[i] else best[i]
            for i in range(m):
                now[s, i] = best[i] if best[i] > -np.inf else 0.0  # no action: never reached
                layer[s, i] = choice[i]
        for i in range(m):
            for s in range(n):
                policies[i, t, s] = layer[s, i]
        now, later = later, now
    return later
