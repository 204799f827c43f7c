"""Backward induction and forward evaluation for up to sixteen directions, or for one.

The numbers of sixteen directions lie side by side, so one pass over the transitions serves all of
them. The same additions are made in the same order without lanes, so the numbers are the same.
Source: Eq. eq:piw, spec 08 section A0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from counterplay.core.validation import FloatArray
from counterplay.elicitation.lanes import LANES, aligned, backward, forward, take_apart
from counterplay.elicitation.mdp import MultiObjectiveMDP
from counterplay.elicitation.policies import evaluate_policies


class Workspace:
    """Arrays that many batches of directions use one after the other (fresh memory is slow)."""

    def __init__(self, mdp: MultiObjectiveMDP, dtype: Any) -> None:
        self.mdp = mdp
        self.mask = np.ascontiguousarray(mdp.action_mask).view(np.uint8).ravel()
        self.rewards = mdp.R.reshape(-1, mdp.n_objectives)
        self.choices = np.empty((mdp.H, mdp.n_states * LANES), dtype=dtype)
        self.pairs = aligned(mdp.n_states * mdp.n_actions * LANES)  # gains, then visits
        self.one, self.other, self.held = (aligned(mdp.n_states * LANES) for _ in range(3))

    def plan(self, directions: FloatArray, policies: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """Fill ``policies`` (m, H, S) for at most LANES directions (m, k).

        Return their best scalar values (m,) by backward induction and their value vectors (m, k)
        by forward evaluation. Ties go to the lowest action.
        """
        mdp, m = self.mdp, len(directions)
        np.matmul(self.rewards, _padded(directions), out=self.pairs.reshape(-1, LANES))
        final = backward(*mdp.csr, self.pairs, self.mask, self.choices, self.one, self.other)
        scalars = final[mdp.s0 * LANES : mdp.s0 * LANES + m].copy()
        take_apart(self.choices, policies)
        states = (self.one, self.other, self.held)
        values = forward(*mdp.csr, self.rewards, self.choices, mdp.s0, *states, self.pairs)
        return scalars, np.asarray(values[:m])


def _padded(directions: FloatArray) -> FloatArray:
    """Directions as columns of as many lanes: the same product, whatever their number."""
    wide = np.zeros((directions.shape[1], LANES))
    wide[:, : len(directions)] = directions.T
    return wide


def plan_one(
    mdp: MultiObjectiveMDP, direction: FloatArray, policies: NDArray[Any]
) -> tuple[FloatArray, FloatArray]:
    """Fill ``policies`` (1, H, S) for one direction (1, k): the same numbers without lanes."""
    gains = (mdp.R.reshape(-1, mdp.n_objectives) @ _padded(direction)).T
    final = _backward_one(*mdp.csr, np.ascontiguousarray(gains[0]), mdp.action_mask, policies[0])
    return np.asarray(final[[mdp.s0]]), evaluate_policies(mdp, policies)


@njit(cache=True, nogil=True)
def _backward_one(indptr, indices, data, gains, mask, policy):  # type: ignore[no-untyped-def]  # compiled by numba
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
