"""Finite-horizon value iteration for many preference directions at once.

Dozens of directions lie side by side and share one pass over the sparse transitions, so they cost
much less than one by one. Every direction gets the same additions in the same order as alone, so
the numbers are the same. Directions may have negative entries; unavailable actions are never
compared.
Source: Equation 8.2; docs/theory/08-elicitation.md, "Planning many directions".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.threads import in_threads
from counterplay.core.validation import FloatArray, check_float_array
from counterplay.elicitation.mdp import MultiObjectiveMDP
from counterplay.elicitation.policies import action_dtype, evaluate_policies
from counterplay.errors import ConvergenceError, InvalidInputError

_WORTH_A_THREAD = 2**22  # transitions times directions that take longer than starting a thread
_TOGETHER = 64  # most directions side by side: more do not fit into the cache
_COLUMNS = 16  # gains are computed for so many directions, or a multiple: see _gains


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


@checked
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
    if m == 0:
        raise InvalidInputError("W must have at least one row")
    policies = np.empty((m, mdp.H, mdp.n_states), dtype=action_dtype(mdp))
    values, scalars = np.empty((m, mdp.n_objectives)), np.empty(m)

    def plan_part(part: slice) -> None:
        scalars[part] = _best_policies(mdp, directions[part], policies[part])
        values[part] = evaluate_policies(mdp, policies[part])

    n_parts = -(-m // _TOGETHER)
    ends = [m * i // n_parts for i in range(n_parts + 1)]
    parts = [slice(begin, end) for begin, end in zip(ends, ends[1:])]
    in_threads(plan_part, parts, m * mdp.H * mdp.P.nnz // _WORTH_A_THREAD)
    gap = np.abs((directions * values).sum(axis=1) - scalars)
    tolerance = 1e-9 * mdp.scale * np.maximum(1.0, np.abs(directions).max(axis=1))
    if (gap > tolerance).any():
        raise ConvergenceError(f"planning and evaluation disagree by {gap.max():g}")
    return Plan(policies, values, scalars)


def _best_policies(
    mdp: MultiObjectiveMDP, directions: FloatArray, policies: NDArray[Any]
) -> FloatArray:
    """Fill ``policies`` (m, H, S) for directions (m, k); return their best scalar values (m,)."""
    gains = _gains(mdp, directions)
    if len(directions) == 1:
        alone = _backward_one(*mdp.csr, gains[:, 0].copy(), mdp.action_mask, policies[0])
        return np.asarray(alone[[mdp.s0]])
    choices = np.empty((mdp.H, mdp.n_states, len(directions)), dtype=policies.dtype)
    final = _backward_many(*mdp.csr, gains, mdp.action_mask, choices)
    policies[:] = np.moveaxis(choices, 2, 0)
    return np.asarray(final[mdp.s0])


def _gains(mdp: MultiObjectiveMDP, directions: FloatArray) -> FloatArray:
    """Immediate gains (S*A, m): the same numbers, however many directions there are.

    Matrix products round differently for a single column, so columns of zeros are added.
    """
    m = len(directions)
    wide = np.zeros((mdp.n_objectives, -(-m // _COLUMNS) * _COLUMNS))
    wide[:, :m] = directions.T
    return np.ascontiguousarray((mdp.R.reshape(-1, mdp.n_objectives) @ wide)[:, :m])


@njit(cache=True, nogil=True)
def _backward_many(indptr, indices, data, gains, mask, choices):  # type: ignore[no-untyped-def]  # compiled by numba
    """Fill the best actions (H, S, m); return the values (S, m) at the first step."""
    horizon, n, m = choices.shape
    n_actions = mask.shape[1]
    now, later = np.zeros((n, m)), np.zeros((n, m))
    value, best, noted = np.empty(m), np.empty(m), np.empty(m, choices.dtype)
    for t in range(horizon - 1, -1, -1):
        for s in range(n):
            best[:], noted[:] = -np.inf, 0
            for a in range(n_actions):
                if not mask[s, a]:
                    continue
                # what the action pays now, plus what its successors are worth later
                row = np.uint64(s * n_actions + a)
                for i in range(m):
                    value[i] = gains[row, i]
                for e in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
                    weight, successor = data[e], indices[e]
                    for i in range(m):
                        value[i] += weight * later[successor, i]
                # ties go to the lowest action; both branches store, so that this is one vector step
                for i in range(m):
                    better = value[i] > best[i]
                    best[i] = value[i] if better else best[i]
                    noted[i] = a if better else noted[i]
            for i in range(m):
                now[s, i] = best[i] if best[i] > -np.inf else 0.0  # no action: never reached
                choices[t, s, i] = noted[i]
        now, later = later, now
    return later


@njit(cache=True, nogil=True)
def _backward_one(indptr, indices, data, gains, mask, policy):  # type: ignore[no-untyped-def]  # compiled by numba
    """Fill one policy (H, S): the same additions without the loop over directions."""
    horizon, n = policy.shape
    n_actions = mask.shape[1]
    now, later = np.zeros(n), np.zeros(n)
    for t in range(horizon - 1, -1, -1):
        for s in range(n):
            best, choice = -np.inf, 0
            for a in range(n_actions):
                if mask[s, a]:
                    row = np.uint64(s * n_actions + a)
                    value = gains[row]
                    for e in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
                        value += data[e] * later[indices[e]]
                    if value > best:
                        best, choice = value, a
            now[s] = best if best > -np.inf else 0.0  # no action: never reached
            policy[t, s] = choice
        now, later = later, now
    return later
