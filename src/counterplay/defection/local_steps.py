"""Local steps: what an agent sends when it trains for a while before it reports.

Agent ``m`` takes ``K_m`` steps from the broadcast model and sends the mean gradient along its path,
``U_m = (w - w_m) / eta``. All agents move at once, each at its own point.
Source: Alg. alg:fedavg, spec 05 section 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.validation import FloatArray, IntArray, check_positive_int
from counterplay.defection.problem import FederatedProblem
from counterplay.errors import InvalidInputError


@dataclass(frozen=True)
class LocalWork:
    """How much each agent trains before it reports.

    Parameters
    ----------
    steps : int or array of shape (M,)
        ``K_m``, local steps per round.
    batch_size : int, optional
        Samples per step; None for full gradients.
    rescale : bool
        Divide the step size by ``K_m`` (as in the source). False gives the common version with
        the full step size per local step.

    Guarantees
    ----------
    One full-batch step sends exactly the gradient, so FedAvg is then FedSGD bit for bit.

    Examples
    --------
    >>> LocalWork(steps=5).steps
    5

    References
    ----------
    Alg. alg:fedavg; spec 05 section 3.3.
    """

    steps: int | tuple[int, ...] = 1
    batch_size: int | None = None
    rescale: bool = True

    def __post_init__(self) -> None:
        counts = (self.steps,) if isinstance(self.steps, int) else self.steps
        for k in counts:
            check_positive_int(k, "steps")
        if self.batch_size is not None:
            check_positive_int(self.batch_size, "batch_size")

    def counts(self, ids: IntArray) -> IntArray:
        """Return ``K_m`` of the agents ``ids``."""
        if isinstance(self.steps, int):
            return np.full(len(ids), self.steps)
        if len(self.steps) <= int(ids.max()):
            raise InvalidInputError(f"steps has {len(self.steps)} entries, agent {ids.max()} none")
        return np.array(self.steps)[ids]


def local_updates(
    problem: FederatedProblem,
    w: FloatArray,
    ids: IntArray,
    eta: float,
    work: LocalWork,
    rng: np.random.Generator | None = None,
    counts: ArrayLike | None = None,
) -> FloatArray:
    """Return ``U_m``, the displacement of every agent divided by ``-eta``, one row per agent.

    Examples
    --------
    >>> from counterplay.defection.linear_models import LinearModelProblem
    >>> problem = LinearModelProblem([[[1.0]]], w_star=[0.0], loss="squared")
    >>> local_updates(problem, np.ones(1), np.array([0]), 0.5, LocalWork(steps=2)).tolist()
    [[0.875]]
    """
    K = work.counts(ids) if counts is None else np.asarray(counts, dtype=np.int64)
    share = np.where(K > 0, 1.0 / np.maximum(K, 1), 0.0) if work.rescale else np.ones(len(ids))
    points = np.repeat(w[None, :], len(ids), axis=0)
    total = np.zeros_like(points)
    for k in range(int(K.max(initial=0))):
        moving = k < K
        if k == 0 and work.batch_size is None:  # everybody is still at w
            g = problem.gradients(w, ids[moving])
        else:
            g = problem.local_gradients(points[moving], ids[moving], work.batch_size, rng)
        scaled = g * share[moving, None]
        total[moving] += scaled
        points[moving] -= eta * scaled
    return total
