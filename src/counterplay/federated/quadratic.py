"""The closest point under linear constraints, from inner products alone.

``min 1/2 |s - s0|^2  s.t.  G s >= b`` has the solution ``s = s0 + G^T lam`` where ``lam`` solves
the dual in one variable per constraint. The dual active-set method of Goldfarb and Idnani (1983)
needs only the Gram matrix ``K = G G^T`` and ``h = b - G s0``, treats linearly dependent rows
exactly and finishes after finitely many changes of the active set.
Source: Proposition 5.F in docs/theory/05-defection.md.
"""

from __future__ import annotations

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.errors import ConvergenceError, InfeasibleError

DEPENDENT = 1e-11  # squared relative distance below which a row counts as dependent
SATISFIED = 1e-13  # violation, relative to the row, that is only rounding
INFEASIBLE = 1e-9  # violation of a dependent row that is no longer rounding


def nonnegative_dual(gram: FloatArray, h: FloatArray) -> FloatArray:
    """Return ``lam >= 0`` with ``gram @ lam >= h`` and ``lam * (gram @ lam - h) = 0``.

    Parameters
    ----------
    gram : array of shape (M, M)
        Inner products of the constraint rows; may be singular.
    h : array of shape (M,)
        What the constraints still lack at the unconstrained optimum, ``b - G s0``.

    Guarantees
    ----------
    The optimality conditions of the quadratic program, so ``s0 + G^T lam`` is its solution.
    Raises :class:`~counterplay.errors.InfeasibleError` when no point satisfies the constraints.

    Examples
    --------
    Two equal rows and two different demands: the stronger one decides.

    >>> nonnegative_dual(np.ones((2, 2)), np.array([1.0, 3.0])).tolist()
    [0.0, 3.0]

    References
    ----------
    Goldfarb and Idnani, A numerically stable dual method for solving strictly convex quadratic
    programs, Mathematical Programming 27 (1983).
    """
    if len(h) == 0:
        return np.zeros(0)
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    # Powers of two normalise without rounding, so that exact inputs give exact multipliers.
    scale = np.exp2(np.frexp(norms)[1])
    if (h[norms == 0.0] > 0.0).any():
        raise InfeasibleError("a constraint with a zero row asks for a positive value")
    unit = gram / np.outer(scale, scale)
    demand = h / scale
    lam = _active_set(unit, np.where(norms > 0.0, demand, -1.0))
    return np.asarray(lam / scale)


def _active_set(K: FloatArray, h: FloatArray) -> FloatArray:
    """Goldfarb-Idnani: add the most violated constraint until none is left."""
    M = len(h)
    lam = np.zeros(M)
    active: list[int] = []
    settled: list[int] = []  # implied by the active ones, violated by rounding only
    tol = SATISFIED * max(1.0, float(np.abs(h).max(initial=0.0)))
    for _ in range(50 * (M + 1)):
        slack = K @ lam - h
        slack[active + settled] = 0.0
        p = int(slack.argmin())
        if slack[p] >= -tol:
            return _polished(K, h, lam, active)
        if not _add(K, h, lam, active, p):
            if slack[p] < -INFEASIBLE * (tol / SATISFIED):
                raise InfeasibleError("no step satisfies all constraints; a demand was positive")
            settled.append(p)
    raise ConvergenceError("the active-set method did not finish; check the gradients for noise")


def _polished(K: FloatArray, h: FloatArray, lam: FloatArray, active: list[int]) -> FloatArray:
    """Solve once more for the final active set, which removes the rounding of the updates."""
    if active:
        exact = np.linalg.solve(K[np.ix_(active, active)], h[active])
        lam[active] = np.maximum(exact, 0.0)
    return lam


def _add(K: FloatArray, h: FloatArray, lam: FloatArray, active: list[int], p: int) -> bool:
    """Raise ``lam[p]`` until constraint ``p`` holds, dropping constraints that turn negative.

    False when ``p`` contradicts the active constraints: no multiplier can repair it.
    """
    while True:
        r = np.linalg.solve(K[np.ix_(active, active)], K[active, p]) if active else np.empty(0)
        curvature = K[p, p] - float(K[p, active] @ r)
        violation = float(h[p] - K[p] @ lam)
        full = violation / curvature if curvature > DEPENDENT * K[p, p] else np.inf
        blocking = [(lam[j] / x, i) for i, (j, x) in enumerate(zip(active, r)) if x > 1e-12]
        partial, which = min(blocking, default=(np.inf, -1))
        step = min(full, partial)
        if step == np.inf:
            return False
        lam[active] -= step * r
        lam[p] += step
        if full <= partial:
            active.append(p)
            return True
        lam[active[which]] = 0.0
        del active[which]
