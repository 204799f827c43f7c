"""Finite-horizon value iteration for many preference directions at once.

All m directions share one pass over the sparse transitions, so a batch costs little more than a
single direction. Directions may have negative entries; unavailable actions are never compared.
Source: Eq. eq:piw, spec 08 section A0.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import cpu_count
from numba import njit
from numpy.typing import ArrayLike, NDArray

from counterplay.core.errors import ConvergenceError, InvalidInputError
from counterplay.core.validation import FloatArray, check_float_array
from counterplay.elicitation.mdp import MultiObjectiveMDP
from counterplay.elicitation.policies import action_dtype, evaluate_policies

_CACHED = 2**16  # states times directions per pass: keeps the working set in cache
_THREADED = 2**22  # transitions times directions from which several threads are worth their start
_BLOCK = 64  # states per block when a layer of actions is transposed


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
    values, scalars = np.empty((m, mdp.n_objectives)), np.empty(m)

    def plan_part(part: slice) -> None:
        scalars[part] = _value_iterate(mdp, directions[part], policies[part])
        values[part] = evaluate_policies(mdp, policies[part])

    parts = _parts(mdp, m)
    if len(parts) > 1 and m * mdp.H * mdp.P.nnz > _THREADED:
        with ThreadPoolExecutor(min(len(parts), cpu_count())) as pool:
            list(pool.map(plan_part, parts))
    else:
        for part in parts:
            plan_part(part)
    gap = np.abs((directions * values).sum(axis=1) - scalars)
    tolerance = 1e-9 * mdp.scale * np.maximum(1.0, np.abs(directions).max(axis=1))
    if (gap > tolerance).any():
        raise ConvergenceError(f"planning and evaluation disagree by {gap.max():g}")
    return Plan(policies, values, scalars)


def _parts(mdp: MultiObjectiveMDP, m: int) -> list[slice]:
    """Split the directions evenly, so that one part's working set stays in cache."""
    largest = int(np.clip(_CACHED // mdp.n_states, 32, 128))
    count = -(-m // largest)
    if m * mdp.H * mdp.P.nnz > _THREADED and m >= 32:
        count += count % 2  # an even number keeps two cores equally busy
    ends = [m * i // count for i in range(count + 1)]
    return [slice(start, end) for start, end in zip(ends, ends[1:])]


def _value_iterate(
    mdp: MultiObjectiveMDP, directions: FloatArray, policies: NDArray[Any]
) -> FloatArray:
    """Fill ``policies`` (m, H, S) and return the best scalar values."""
    rewards = np.ascontiguousarray(mdp.R @ directions.T)
    final = _value_iteration(*mdp.csr, rewards, mdp.action_mask, policies)
    return np.asarray(final[mdp.s0])


@njit(cache=True, nogil=True)
def _value_iteration(indptr, indices, data, rewards, mask, policies):  # type: ignore[no-untyped-def]  # compiled by numba
    """Backward induction, directions side by side; unsigned indices let the loops vectorise.

    Four successors per pass; the last pass of an action compares it with the best one so far.
    """
    n_directions, horizon, n_states = policies.shape
    m, n, n_actions = np.uint64(n_directions), np.uint64(n_states), np.uint64(mask.shape[1])
    later = np.zeros((n_states, n_directions))
    now = np.zeros((n_states, n_directions))
    layer = np.zeros((n_states, n_directions), policies.dtype)  # actions of one time
    value = np.empty(n_directions)
    choice = np.zeros(n_directions)
    best = np.zeros(n_directions)
    for t in range(horizon - 1, -1, -1):
        for s in range(n):
            for i in range(m):
                best[i] = -np.inf
                choice[i] = 0.0
            for a in range(n_actions):
                if not mask[s, a]:
                    continue
                row = s * n_actions + a
                action = float(a)
                e, end = np.int64(indptr[row]), np.int64(indptr[row + np.uint64(1)])
                if end - e > 4:
                    w0, w1, w2, w3 = data[e], data[e + 1], data[e + 2], data[e + 3]
                    s0, s1 = np.uint64(indices[e]), np.uint64(indices[e + 1])
                    s2, s3 = np.uint64(indices[e + 2]), np.uint64(indices[e + 3])
                    for i in range(m):
                        value[i] = rewards[s, a, i] + (
                            w0 * later[s0, i]
                            + w1 * later[s1, i]
                            + w2 * later[s2, i]
                            + w3 * later[s3, i]
                        )
                    e += 4
                    while end - e > 4:
                        w0, w1, w2, w3 = data[e], data[e + 1], data[e + 2], data[e + 3]
                        s0, s1 = np.uint64(indices[e]), np.uint64(indices[e + 1])
                        s2, s3 = np.uint64(indices[e + 2]), np.uint64(indices[e + 3])
                        for i in range(m):
                            value[i] += (
                                w0 * later[s0, i]
                                + w1 * later[s1, i]
                                + w2 * later[s2, i]
                                + w3 * later[s3, i]
                            )
                        e += 4
                else:
                    for i in range(m):
                        value[i] = rewards[s, a, i]
                if end - e == 1:
                    w0, s0 = data[e], np.uint64(indices[e])
                    for i in range(m):
                        total = value[i] + w0 * later[s0, i]
                        better = total > best[i]
                        choice[i] = action if better else choice[i]
                        best[i] = total if better else best[i]
                else:
                    last = end - 1  # missing successors count with weight 0
                    w0, w1 = data[e], data[e + 1]
                    s0, s1 = np.uint64(indices[e]), np.uint64(indices[e + 1])
                    s2, s3 = np.uint64(indices[min(e + 2, last)]), np.uint64(indices[last])
                    w2 = data[e + 2] if e + 2 < end else 0.0
                    w3 = data[last] if e + 3 < end else 0.0
                    for i in range(m):
                        total = value[i] + (
                            w0 * later[s0, i]
                            + w1 * later[s1, i]
                            + w2 * later[s2, i]
                            + w3 * later[s3, i]
                        )
                        better = total > best[i]
                        choice[i] = action if better else choice[i]
                        best[i] = total if better else best[i]
            for i in range(m):
                now[s, i] = best[i] if best[i] > -np.inf else 0.0  # no action: never reached
                layer[s, i] = int(choice[i])
        for start in range(0, n_states, _BLOCK):  # transposed block by block
            for i in range(n_directions):
                for s in range(start, min(start + _BLOCK, n_states)):
                    policies[i, t, s] = layer[s, i]
        now, later = later, now
    return later
