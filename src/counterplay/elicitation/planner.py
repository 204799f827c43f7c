"""Finite-horizon value iteration for many preference directions at once.

Sixteen directions share one pass over the sparse transitions, so they cost little more than a
single direction. Directions may have negative entries; unavailable actions are never compared.
Source: Eq. eq:piw, spec 08 section A0.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.threads import in_threads
from counterplay.core.validation import FloatArray, check_float_array
from counterplay.elicitation.lanes import LANES
from counterplay.elicitation.mdp import MultiObjectiveMDP
from counterplay.elicitation.policies import action_dtype
from counterplay.elicitation.value_iteration import Workspace, plan_one
from counterplay.errors import ConvergenceError, InvalidInputError

_WORTH_A_THREAD = 2**22  # transitions times directions that take longer than starting a thread


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

    if m == 1:
        scalars[:], values[:] = plan_one(mdp, directions, policies)
    else:
        own = threading.local()

        def plan_part(start: int) -> None:
            if not hasattr(own, "space"):
                own.space = Workspace(mdp, policies.dtype)
            part = slice(start, start + LANES)
            scalars[part], values[part] = own.space.plan(directions[part], policies[part])

        in_threads(plan_part, range(0, m, LANES), m * mdp.H * mdp.P.nnz // _WORTH_A_THREAD)
    gap = np.abs((directions * values).sum(axis=1) - scalars)
    tolerance = 1e-9 * mdp.scale * np.maximum(1.0, np.abs(directions).max(axis=1))
    if (gap > tolerance).any():
        raise ConvergenceError(f"planning and evaluation disagree by {gap.max():g}")
    return Plan(policies, values, scalars)
