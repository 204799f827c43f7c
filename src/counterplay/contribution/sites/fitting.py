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
COMPACT = 0.7
"""Finished draws leave the loop when at most this share of them is still moving."""
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
    return np.asarray(c + d * np.exp(-p * np.log1p(np.maximum(s, 0.0) / np.exp(log_tau))))


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
    found = np.clip(start, problem.low[:, None], problem.high[:, None])
    theta, now, data = found, np.arange(found.shape[1]), _Data.of(problem)
    low, high = problem.low[:, None], problem.high[:, None]
    damping = np.full(theta.shape[:2], 1e-2)
    loss = data.loss(theta)
    open_ = np.ones(theta.shape[:2], dtype=bool)
    for _ in range(STEPS):
        gradient, hessian = data.slopes(theta)
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
        new = data.loss(moved)
        better = new < loss
        open_ &= ~(better & (loss - new <= TOLERANCE * loss)) & (damping < _LARGEST)
        theta = np.where(better[..., None], moved, theta)
        loss = np.where(better, new, loss)
        damping = np.clip(np.where(better, damping / 5.0, damping * 4.0), _SMALLEST, _LARGEST)
        live = np.asarray(open_.any(axis=0))
        if live.mean() <= COMPACT:  # draws that are done for all sites leave the loop
            found[:, now] = theta
            now, theta, loss, damping, open_ = (
                now[live], theta[:, live], loss[:, live], damping[:, live], open_[:, live],
            )  # fmt: skip
            data = data.some(live)
            if not len(now):
                return found
    found[:, now] = theta
    return found


def losses(problem: Problem, theta: FloatArray) -> FloatArray:
    """What ``fit`` minimises, for every site and draw."""
    return _Data.of(problem).loss(theta)


@dataclass(frozen=True)
class _Data:
    """Points and priors with an axis for draws, and products of rows that every step needs."""

    rows: FloatArray
    squares: FloatArray
    """``rows rows'`` of every point, (sites, points, k k)."""
    errors: FloatArray
    weight: FloatArray
    centre: FloatArray
    stiff: FloatArray

    @classmethod
    def of(cls, problem: Problem) -> _Data:
        rows = problem.rows
        return cls(
            rows,
            (rows[..., :, None] * rows[..., None, :]).reshape(*rows.shape[:2], -1),
            problem.errors if problem.errors.ndim == 3 else problem.errors[:, None],
            (1.0 / problem.sd**2)[:, None],
            problem.centre if problem.centre.ndim == 3 else problem.centre[:, None],
            (1.0 / problem.prior_sd**2)[:, None],
        )

    def some(self, draws: BoolArray) -> _Data:
        """The same for some of the draws; what all share stays."""
        errors, centre = (a if a.shape[1] == 1 else a[:, draws] for a in (self.errors, self.centre))
        return replace(self, errors=errors, centre=centre)

    def loss(self, theta: FloatArray) -> FloatArray:
        fitted = curve(theta, _effective(theta, self.rows))
        away = ((self.errors - fitted) ** 2 * self.weight).sum(axis=-1)
        return np.asarray(away + ((theta - self.centre) ** 2 * self.stiff).sum(axis=-1))

    def slopes(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Half the gradient and the Gauss-Newton matrix."""
        c, d, log_tau, p = (theta[..., j, None] for j in range(SHAPE))
        s, tau = _effective(theta, self.rows), np.exp(log_tau)
        x = np.maximum(s, 0.0) / tau
        logs = np.log1p(x)
        falls = np.exp(-p * logs)
        slope = d * p * falls / (1.0 + x)  # minus the derivative by x
        per_row = np.where(s > 0, slope / tau, 0.0)  # minus the derivative by effective rows
        # derivatives by c, d, log tau and p, one row each; those by the rates are -per_row * rows
        shape = np.stack([np.ones_like(x), falls, slope * x, -d * falls * logs], axis=-2)
        weighted = shape * self.weight[..., None, :]
        pull = self.weight * per_row
        k, residual = self.rows.shape[-1], self.weight * (c + d * falls - self.errors)
        gradient = np.concatenate(
            [(shape @ residual[..., None])[..., 0], -(per_row * residual) @ self.rows], axis=-1
        )
        gradient += (theta - self.centre) * self.stiff
        hessian = np.empty((*theta.shape, SHAPE + k))
        hessian[..., :SHAPE, :SHAPE] = weighted @ shape.swapaxes(-1, -2)
        cross = -(shape * pull[..., None, :]) @ self.rows[:, None]
        hessian[..., :SHAPE, SHAPE:] = cross
        hessian[..., SHAPE:, :SHAPE] = cross.swapaxes(-1, -2)
        both = (pull * per_row) @ self.squares
        hessian[..., SHAPE:, SHAPE:] = both.reshape(*theta.shape[:2], k, k)
        index = np.arange(SHAPE + k)
        hessian[..., index, index] += self.stiff
        return gradient, hessian


def _effective(theta: FloatArray, rows: FloatArray) -> FloatArray:
    """``w . n`` for every draw and point."""
    return np.asarray(theta[..., SHAPE:] @ rows.transpose(0, 2, 1))


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
