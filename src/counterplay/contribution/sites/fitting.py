"""Many small curve fits at once: bounded Levenberg-Marquardt over sites and random redraws.

The curve is ``e = c + d (1 + s / tau)^(-p)`` in effective rows ``s = max(0, w . n)``. All refits of
all sites share one loop; a problem is a row of the arrays, so that a hundred randomised refits cost
little more than one.
Source: "Curves in effective rows", see docs/theory/23-consortium.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from counterplay.core.validation import BoolArray, FloatArray

SHAPE = 4
"""Parameters before the exchange rates: c, d, log tau, p."""
STEPS = 100
PASSES = 3
TOLERANCE = 1e-10
_SMALLEST, _LARGEST = 1e-9, 1e9


@dataclass(frozen=True)
class Problem:
    """Points, weights, priors and bounds of several sites.

    ``rows`` is (sites, points, k), ``errors`` and ``sd`` are (sites, points) or (sites, draws,
    points); ``centre`` is (sites, parameters) or (sites, draws, parameters). Points that are not
    there have an infinite ``sd``.
    """

    rows: FloatArray
    errors: FloatArray
    sd: FloatArray
    centre: FloatArray
    prior_sd: FloatArray
    low: FloatArray
    high: FloatArray

    def draws(self, errors: FloatArray, centre: FloatArray) -> Problem:
        """The same problem with other data and prior centres, one per draw."""
        return replace(self, errors=errors, centre=centre)


def curve(theta: FloatArray, s: FloatArray) -> FloatArray:
    """Errors at effective rows ``s``; ``theta`` has the parameters on its last axis."""
    c, d, log_tau, p = (theta[..., j, None] for j in range(SHAPE))
    return np.asarray(c + d * (1.0 + np.maximum(s, 0.0) / np.exp(log_tau)) ** -p)


def needed(theta: FloatArray, error: FloatArray) -> FloatArray:
    """``N(E) = tau ((d / (E - c))^(1/p) - 1)``: effective rows for an error of at most ``E``.

    Infinite where ``E <= c``; minus infinite (no constraint) where ``E >= c + d``.
    """
    c, d, log_tau, p = (theta[..., j] for j in range(SHAPE))
    gap = error - c
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rows = np.exp(log_tau) * ((d / np.maximum(gap, 1e-300)) ** (1.0 / p) - 1.0)
    return np.where(gap <= 0, np.inf, np.where(gap >= d, -np.inf, rows))


def fit(problem: Problem, start: FloatArray) -> FloatArray:
    """Minimise squared residuals plus squared distances to the priors, within bounds.

    ``start`` is (sites, draws, parameters); so is the answer.
    """
    theta = np.clip(start, problem.low[:, None], problem.high[:, None])
    data = problem.errors if problem.errors.ndim == 3 else problem.errors[:, None]
    centre = problem.centre if problem.centre.ndim == 3 else problem.centre[:, None]
    weight = (1.0 / problem.sd**2)[:, None]
    stiff = (1.0 / problem.prior_sd**2)[:, None]
    low, high = problem.low[:, None], problem.high[:, None]
    damping = np.full(theta.shape[:2], 1e-2)
    loss = _loss(theta, problem.rows, data, weight, centre, stiff)
    open_ = np.ones(theta.shape[:2], dtype=bool)
    for _ in range(STEPS):
        gradient, hessian = _slopes(theta, problem.rows, data, weight, centre, stiff)
        # a parameter at its bound whose gradient points outwards stays there
        fixed = ((theta <= low) & (gradient > 0)) | ((theta >= high) & (gradient < 0))
        moved = theta
        for _ in range(PASSES):  # parameters that would cross a bound stop there, the others go on
            step = _step(gradient, hessian, fixed, moved - theta, damping)
            beyond = (theta + step <= low) | (theta + step >= high)
            moved = np.clip(theta + step, low, high)
            if not (beyond & ~fixed).any():
                break
            fixed = fixed | beyond
        new = _loss(moved, problem.rows, data, weight, centre, stiff)
        better = new < loss
        open_ &= ~(better & (loss - new <= TOLERANCE * loss)) & (damping < _LARGEST)
        theta = np.where(better[..., None], moved, theta)
        loss = np.where(better, new, loss)
        damping = np.clip(np.where(better, damping / 5.0, damping * 4.0), _SMALLEST, _LARGEST)
        if not open_.any():
            break
    return theta


def losses(problem: Problem, theta: FloatArray) -> FloatArray:
    """What ``fit`` minimises, for every site and draw."""
    data = problem.errors if problem.errors.ndim == 3 else problem.errors[:, None]
    centre = problem.centre if problem.centre.ndim == 3 else problem.centre[:, None]
    weight, stiff = (1.0 / problem.sd**2)[:, None], (1.0 / problem.prior_sd**2)[:, None]
    return _loss(theta, problem.rows, data, weight, centre, stiff)


def _loss(
    theta: FloatArray,
    rows: FloatArray,
    data: FloatArray,
    weight: FloatArray,
    centre: FloatArray,
    stiff: FloatArray,
) -> FloatArray:
    fitted = curve(theta, _effective(theta, rows))
    away = ((data - fitted) ** 2 * weight).sum(axis=-1)
    return np.asarray(away + ((theta - centre) ** 2 * stiff).sum(axis=-1))


def _effective(theta: FloatArray, rows: FloatArray) -> FloatArray:
    """``w . n`` for every draw and point."""
    return np.asarray(theta[..., SHAPE:] @ rows.transpose(0, 2, 1))


def _slopes(
    theta: FloatArray,
    rows: FloatArray,
    data: FloatArray,
    weight: FloatArray,
    centre: FloatArray,
    stiff: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Half the gradient and the Gauss-Newton matrix."""
    _, d, log_tau, p = (theta[..., j, None] for j in range(SHAPE))
    s = _effective(theta, rows)
    x = np.maximum(s, 0.0) / np.exp(log_tau)
    falls = (1.0 + x) ** -p
    slope = d * p * falls / (1.0 + x)  # minus the derivative by x
    per_row = np.where(s > 0, slope / np.exp(log_tau), 0.0)
    shape = np.stack([np.ones_like(x), falls, slope * x, -d * falls * np.log1p(x)], axis=-1)
    rates = -per_row[..., None] * rows[:, None]
    jacobian = np.concatenate([shape, rates], axis=-1)
    residual = theta[..., 0, None] + d * falls - data
    weighted = jacobian * weight[..., None]
    gradient = (weighted * residual[..., None]).sum(axis=-2) + (theta - centre) * stiff
    hessian = weighted.swapaxes(-1, -2) @ jacobian
    index = np.arange(theta.shape[-1])
    hessian[..., index, index] += stiff
    return gradient, hessian


def _step(
    gradient: FloatArray,
    hessian: FloatArray,
    fixed: BoolArray,
    known: FloatArray,
    damping: FloatArray,
) -> FloatArray:
    """Damped Newton step in the free parameters, given how far the fixed ones move."""
    index = np.arange(gradient.shape[-1])
    free = ~fixed
    diagonal = hessian[..., index, index] * (1.0 + damping[..., None])
    damped = hessian.copy()
    damped[..., index, index] = diagonal
    moves = np.where(free, 0.0, known)
    right = np.where(free, -gradient - (damped @ moves[..., None])[..., 0], moves)
    masked = damped * (free[..., :, None] & free[..., None, :])
    masked[..., index, index] = np.where(free, diagonal, 1.0)
    return np.asarray(np.linalg.solve(masked, right[..., None])[..., 0])
