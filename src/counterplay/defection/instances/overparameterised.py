"""Random Huber regressions with more parameters than rows, where the theory applies.

Source: docs/theory/05-defection.md, "Theorem 5.2: ADA-GD reaches the relaxed target (repaired)".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import check_positive_int, check_real
from counterplay.defection.agents import check_eps
from counterplay.defection.instances.construction import Construction
from counterplay.defection.linear_models import LinearModelProblem
from counterplay.errors import InvalidInputError


def random_overparameterised(
    M: int = 5,
    n: int = 2,
    d: int = 12,
    tau: float = 1.0,
    corr: float = 0.0,
    eps: ArrayLike = 0.1,
    delta: float = 0.05,
    spread: float = 4.0,
    random_state: RandomState = None,
) -> Construction:
    """Return random losses ``F_m(w) = mean_j huber(a_mj . (w - w*))`` with independent unit rows.

    Use it as the test bed of every guarantee: gradients of different agents are independent at
    every non-optimal point and the mean loss is coercive on the span of the rows.

    Parameters
    ----------
    M : int
        Agents.
    n : int
        Rows per agent.
    d : int
        Parameters, ``d >= M n``.
    tau : float
        Huber parameter.
    corr : float
        How much a common direction enters every row; makes gradients more parallel.
    eps : float or array of shape (M,)
        Targets.
    delta : float
        The start is drawn again until every loss exceeds ``eps_m + delta``.
    spread : float
        Standard deviation of the start around the optimum.
    random_state : int, Generator or None
        Seed.

    Guarantees
    ----------
    Convex, ``H``-smooth, ``tau``-Lipschitz, simultaneously optimal at ``w_star`` and minimally
    heterogeneous (almost surely).

    Examples
    --------
    >>> c = random_overparameterised(M=3, n=2, d=6, random_state=0)
    >>> c.problem.n_agents, bool((c.problem.losses(c.w0) > 0.15).all())
    (3, True)
    """
    M, n, d = (check_positive_int(v, k) for v, k in ((M, "M"), (n, "n"), (d, "d")))
    if d < M * n:
        raise InvalidInputError(f"d must be at least M*n = {M * n}, got {d}")
    corr = check_real(corr, "corr", low=0.0)
    floor = check_eps(eps, M) + check_real(delta, "delta", low=0.0)
    rng = generator(random_state)
    rows = rng.normal(size=(M, n, d)) + corr * rng.normal(size=d)
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    w_star = rng.normal(size=d)
    problem = LinearModelProblem(rows, w_star=w_star, tau=tau, name=f"random M={M} n={n} d={d}")
    for _ in range(1000):
        w0 = w_star + spread * rng.normal(size=d)
        if (problem.losses(w0) > floor).all():
            return Construction(problem, w0, check_eps(eps, M))
    raise InvalidInputError("no start with every loss above eps + delta; increase spread")
