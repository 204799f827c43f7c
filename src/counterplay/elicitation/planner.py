"""Finite-horizon value iteration for many preference directions at once.

Sixteen directions share one pass over the sparse transitions, so they cost little more than a
single direction. Directions may have negative entries; unavailable actions are never compared.
Source: Eq. eq:piw, spec 08 section A0.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import cpu_count
from numpy.typing import ArrayLike, NDArray

from counterplay.core.errors import ConvergenceError, InvalidInputError
from counterplay.core.validation import FloatArray, check_float_array
from counterplay.elicitation.mdp import MultiObjectiveMDP
from counterplay.elicitation.policies import action_dtype, evaluate_policies
from counterplay.elicitation.value_iteration import LANES, value_iterate

_THREADED = 2**25  # transitions times directions from which several threads are worth their start


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

    def plan_part(start: int) -> None:
        part = slice(start, start + LANES)
        found = policies[part]
        final = value_iterate(mdp.csr, mdp.R, mdp.action_mask, directions[part], found)
        scalars[part], values[part] = final[mdp.s0], evaluate_policies(mdp, found)

    threads = min(-(-m // LANES), cpu_count() if m * mdp.H * mdp.P.nnz > _THREADED else 1)
    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(plan_part, range(0, m, LANES)))
    else:
        for start in range(0, m, LANES):
            plan_part(start)
    gap = np.abs((directions * values).sum(axis=1) - scalars)
    tolerance = 1e-9 * mdp.scale * np.maximum(1.0, np.abs(directions).max(axis=1))
    if (gap > tolerance).any():
        raise ConvergenceError(f"planning and evaluation disagree by {gap.max():g}")
    return Plan(policies, values, scalars)
