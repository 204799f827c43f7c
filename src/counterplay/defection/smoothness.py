"""Estimate the smoothness constant when nobody knows it: power iteration on gradient differences.

Source: docs/theory/05-defection.md, "Step sizes without a Lipschitz constant".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import check_float_array, check_positive_int, check_real
from counterplay.defection.problem import FederatedProblem
from counterplay.errors import InvalidInputError


def estimate_smoothness(
    problem: FederatedProblem,
    points: ArrayLike,
    iterations: int = 20,
    random_state: RandomState = None,
    *,
    width: float = 1e-4,
) -> float:
    """Return the largest curvature of any agent's loss found near the given points.

    Use it to choose ``eta = 1 / H`` for ``SafeStep`` when ``H`` is unknown; take the points from a
    short trial run.

    Parameters
    ----------
    problem : FederatedProblem
        Losses and gradients.
    points : array of shape (N, d)
        Where to look.
    iterations : int
        Power iterations per point.
    random_state : int, Generator or None
        Seed of the first directions.
    width : float
        Distance of the gradient differences that replace Hessian-vector products.

    Guarantees
    ----------
    A lower bound of the true constant, exact in the limit for quadratic losses.

    Examples
    --------
    >>> from counterplay.defection import LinearModelProblem
    >>> rows = [[[1.0, 0.0]], [[0.0, 2.0]]]
    >>> problem = LinearModelProblem(rows, w_star=[0.0, 0.0], loss="squared")
    >>> round(estimate_smoothness(problem, [[1.0, 1.0]], random_state=0), 6)
    4.0

    References
    ----------
    docs/theory/05-defection.md, "Step sizes without a Lipschitz constant".
    """
    array = np.atleast_2d(check_float_array(points, "points"))
    if array.shape[1:] != (problem.dimension,):
        raise InvalidInputError(f"points must have shape (N, {problem.dimension})")
    steps = check_positive_int(iterations, "iterations")
    h = check_real(width, "width", low=0.0, open_low=True)
    rng, ids, largest = generator(random_state), np.arange(problem.n_agents), 0.0
    for w in array:
        v = rng.normal(size=(problem.n_agents, problem.dimension))
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        for _ in range(steps):  # every agent follows its own direction, all at once
            ahead, behind = (problem.local_gradients(w + s * h * v, ids) for s in (1.0, -1.0))
            product = (ahead - behind) / (2.0 * h)
            curvature = np.linalg.norm(product, axis=1)
            v = np.where(curvature[:, None] > 0.0, product, v)
            v /= np.linalg.norm(v, axis=1, keepdims=True)
        largest = max(largest, float(curvature.max()))
    return largest
