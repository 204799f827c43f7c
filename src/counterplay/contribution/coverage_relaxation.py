"""A certified lower bound on what any coverage plan costs, from convex optimisation.

Reading ``(1-q)^theta`` with a real exponent only helps the parties and makes every constraint
convex. A log-barrier Newton method solves it; Proposition 4.E turns its multipliers into a bound that
holds whatever the solver did.
Source: Proposition 4.E, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from counterplay.contribution.coverage import CoverageGame
from counterplay.contribution.equal import smallest_common_level
from counterplay.contribution.symmetry import Classes, role_classes
from counterplay.core.validation import FloatArray, check_choice
from counterplay.errors import ConvergenceError, MissingDependencyError


@dataclass(frozen=True)
class Relaxation:
    """Solution of the convex relaxation with a proven lower bound on every plan's total."""

    theta: FloatArray
    value: float
    lower_bound: float
    solver: str

    @property
    def gap(self) -> float:
        """Distance between the value found and the proven bound."""
        return self.value - self.lower_bound

    def summary(self) -> str:
        """Return one line."""
        return f"every plan costs at least {self.lower_bound:.6g} (relaxation {self.value:.6g})"


@dataclass(frozen=True)
class _Program:
    """``min c'theta`` s.t. ``w exp(L'theta) <= b``, ``low <= theta <= high``."""

    cost: FloatArray
    log_keep: FloatArray  # (k, n)
    weights: FloatArray  # (m, n): one row per binding party
    budget: FloatArray  # (m,)
    low: FloatArray
    high: FloatArray

    def loads(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return each party's remaining mass ``g`` and the table ``w * exp(L'theta)``."""
        table = self.weights * np.exp(theta @ self.log_keep)
        return table.sum(axis=1), table

    def bound(self, theta: FloatArray, multipliers: FloatArray) -> float:
        """Return the lower bound that non-negative multipliers prove at any point ``theta``."""
        g, table = self.loads(theta)
        reduced = self.cost + (table @ self.log_keep.T).T @ multipliers
        lagrangian = self.cost @ theta + multipliers @ (g - self.budget)
        corner = np.minimum(reduced * (self.low - theta), reduced * (self.high - theta))
        return float(max(lagrangian + corner.sum(), self.cost @ self.low))


def coverage_opt_relaxation(
    game: CoverageGame,
    *,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    cutoff: float = np.inf,
    solver: Literal["barrier", "clarabel"] = "barrier",
) -> Relaxation:
    """Return a lower bound on the total of every feasible coverage plan, whole or fractional.

    Parameters
    ----------
    game:
        The coverage game.
    lower, upper:
        Further bounds on the contributions, as used by branch and bound.
    cutoff:
        Stop as soon as the proven bound exceeds this number.
    solver:
        ``"barrier"`` needs SciPy only; ``"clarabel"`` solves the exponential-cone program through
        cvxpy (extra ``convex``), as a cross-check.

    Notes
    -----
    Rounding every coordinate up is feasible, so the whole-number optimum is at most the value plus
    ``k``. Points that some party covers surely (``q = 1``) leave the program unless that party's
    contribution is fixed; the bound stays valid.

    References
    ----------
    Boyd, Vandenberghe (2004), *Convex Optimization*, ch. 11.

    Examples
    --------
    >>> from counterplay.contribution import instances
    >>> round(coverage_opt_relaxation(instances.flower(10).coverage()).value, 4)
    10.4833
    """
    check_choice(solver, "solver", ("barrier", "clarabel"))
    program = _program(game, lower, upper, largest_useful(game))
    if program is None:
        raise ConvergenceError("the bounds leave no feasible plan")
    if solver == "clarabel":
        return _clarabel(program)
    return _by_roles(program, cutoff)


def relaxation_or_none(
    game: CoverageGame, lower: FloatArray, upper: FloatArray, top: FloatArray, cutoff: float
) -> Relaxation | None:
    """Same, but None when the bounds leave nothing feasible (for branch and bound)."""
    program = _program(game, lower, upper, top)
    return None if program is None else _by_roles(program, cutoff)


def largest_useful(game: CoverageGame) -> FloatArray:
    """Contributions that no cheapest plan exceeds: the caps, or what the equal plan costs."""
    if game.upper is not None:
        return np.asarray(game.upper)
    budget = (smallest_common_level(game) + 1.0) * game.cost.sum()
    return np.asarray(budget / np.maximum(game.cost, 1e-12 * game.cost.max()))


def _program(
    game: CoverageGame, lower: ArrayLike | None, upper: ArrayLike | None, top: FloatArray
) -> _Program | None:
    low = np.zeros(game.k) if lower is None else np.array(lower, dtype=np.float64)
    high = top if upper is None else np.minimum(top, upper)
    if (high < low).any():
        return None
    sure = game.Q >= 1.0
    log_keep = np.log1p(-np.where(sure, 0.0, game.Q))
    open_sure = sure & (low < 1.0)[:, None] & (high > 0.0)[:, None]
    covered = (sure & (low >= 1.0)[:, None]).any(axis=0) | open_sure.any(axis=0)
    weights = (game.Q * game.multiplicity)[:, ~covered]
    budget = 2.0 * (1.0 - game.mu)
    binding = weights.sum(axis=1) > budget - 1e-15
    program = _Program(
        game.cost, log_keep[:, ~covered], weights[binding], budget[binding], low, high
    )
    g, _ = program.loads(high)
    return None if (g > program.budget + 1e-12).any() else program


def _by_roles(program: _Program, cutoff: float) -> Relaxation:
    """Solve with one variable per role; the bound is then proved for the whole program."""
    facts = np.column_stack([program.cost, program.low, program.high])
    roles = role_classes(program.log_keep, program.weights, facts, program.budget)
    if roles.sizes[0] == len(program.cost):
        return _barrier(program, cutoff)[0]
    small, (point, multipliers) = _barrier(_quotient(program, roles), cutoff)
    theta = small.theta[roles.variables]
    sizes = np.bincount(roles.constraints, minlength=roles.sizes[2])
    bound = program.bound(point[roles.variables], (multipliers / sizes)[roles.constraints])
    return Relaxation(theta, float(program.cost @ theta), bound, "barrier")


def _quotient(program: _Program, roles: Classes) -> _Program:
    """The same program with classes in place of parties and points."""
    first = [np.unique(c, return_index=True)[1] for c in (roles.variables, roles.constraints)]
    variables, constraints = first
    merged = np.zeros((roles.sizes[0], len(roles.terms)))
    np.add.at(merged, roles.variables, program.log_keep)
    weights = np.zeros((roles.sizes[1], len(constraints)))
    np.add.at(weights, roles.terms, program.weights[constraints].T)
    return _Program(
        np.bincount(roles.variables, weights=program.cost).astype(np.float64),
        merged[:, np.unique(roles.terms, return_index=True)[1]],
        weights.T.copy(),
        program.budget[constraints],
        program.low[variables],
        program.high[variables],
    )


def _barrier(program: _Program, cutoff: float) -> tuple[Relaxation, tuple[FloatArray, FloatArray]]:
    """Return the solution, and the point and multipliers that prove its bound."""
    none = np.zeros(len(program.budget))
    free = program.high > program.low + 1e-12
    start = _interior(program, free)
    if start is None:  # only the upper corner is feasible, as far as we can see
        floor = float(program.cost @ program.low)
        value = float(program.cost @ program.high)
        return Relaxation(program.high, value, floor, "barrier"), (program.low, none)
    theta, floor = start, float(program.cost @ program.low)
    best = floor
    if not free.any() or not len(program.budget):
        theta = program.low
        value = float(program.cost @ theta)
        return Relaxation(theta, value, value, "barrier"), (program.low, none)
    sharpness = max(1.0, 2.0 * free.sum()) / max(1e-9, float(program.cost @ (theta - program.low)))
    stalled, proof = 0, (theta, none)
    while stalled < 2:  # the bound improves by a factor of 15 until rounding errors stop it
        theta = _center(program, theta, free, sharpness)
        g, _ = program.loads(theta)
        multipliers = 1.0 / (sharpness * (program.budget - g))
        bound = program.bound(theta, multipliers)
        stalled = 0 if bound > best or best == floor else stalled + 1
        if bound > best:
            best, proof = bound, (theta, multipliers)
        value = float(program.cost @ theta)
        if best > cutoff or value - best <= 1e-8 * max(1.0, value) or sharpness > 1e16:
            break
        sharpness *= 15.0
    return Relaxation(theta, value, best, "barrier"), proof


def _interior(program: _Program, free: np.ndarray) -> FloatArray | None:
    """A strictly feasible point between the bounds, by moving towards the upper corner."""
    for share in (0.5, 0.9, 0.99, 0.999, 1 - 1e-5, 1 - 1e-7):
        theta = program.low + share * (program.high - program.low)
        g, _ = program.loads(theta)
        if (g < program.budget).all():
            return theta
    return None


def _center(program: _Program, theta: FloatArray, free: np.ndarray, sharpness: float) -> FloatArray:
    """Newton's method on the barrier function at one sharpness."""
    index = np.flatnonzero(free)
    L = program.log_keep[index]
    value, last = _barrier_value(program, theta, index, sharpness), np.inf
    for _ in range(60):
        g, table = program.loads(theta)
        inverse = 1.0 / (program.budget - g)
        slopes = table @ L.T  # (m, free)
        below = 1.0 / (theta[index] - program.low[index])
        above = 1.0 / (program.high[index] - theta[index])
        gradient = sharpness * program.cost[index] + inverse @ slopes - below + above
        scaled = slopes * inverse[:, None]
        hessian = (L * (inverse @ table)) @ L.T + scaled.T @ scaled
        hessian[np.diag_indices_from(hessian)] += below**2 + above**2
        try:
            factor = linalg.cho_factor(hessian, check_finite=False)
        except linalg.LinAlgError:  # sharper than rounding errors allow
            break
        step = -linalg.cho_solve(factor, gradient)
        decrement = -float(gradient @ step)
        if decrement <= 1e-18 or decrement >= last:
            break
        if decrement <= 1e-3:  # full steps converge from here on; values are too coarse to tell
            candidate = theta.copy()
            candidate[index] += step
            if not np.isfinite(_barrier_value(program, candidate, index, sharpness)):
                break
            theta, last = candidate, decrement
            continue
        theta, value, moved = _backtrack(program, theta, step, index, sharpness, value, decrement)
        if not moved:
            break
    return theta


def _backtrack(
    program: _Program,
    theta: FloatArray,
    step: FloatArray,
    index: np.ndarray,
    sharpness: float,
    value: float,
    decrement: float,
) -> tuple[FloatArray, float, bool]:
    length = 1.0
    while length > 1e-12:
        candidate = theta.copy()
        candidate[index] += length * step
        new = _barrier_value(program, candidate, index, sharpness)
        if new <= value - 0.25 * length * decrement:
            return candidate, new, True
        length *= 0.5
    return theta, value, False


def _barrier_value(
    program: _Program, theta: FloatArray, index: np.ndarray, sharpness: float
) -> float:
    low, high = theta[index] - program.low[index], program.high[index] - theta[index]
    if (low <= 0).any() or (high <= 0).any():
        return np.inf
    slack = program.budget - program.loads(theta)[0]
    if (slack <= 0).any():
        return np.inf
    logs = np.log(slack).sum() + np.log(low).sum() + np.log(high).sum()
    return float(sharpness * (program.cost @ theta) - logs)


def _clarabel(program: _Program) -> Relaxation:
    try:
        import cvxpy
    except ImportError:
        raise MissingDependencyError.for_extra("cvxpy", "convex") from None
    cp: Any = cvxpy  # its public functions carry no types
    theta = cp.Variable(len(program.cost))
    constraints = [theta >= program.low, theta <= program.high]
    for row, budget in zip(program.weights, program.budget):
        seen = row > 0
        exponent = program.log_keep[:, seen].T @ theta + np.log(row[seen])
        constraints.append(cp.log_sum_exp(exponent) <= np.log(budget))
    problem = cp.Problem(cp.Minimize(program.cost @ theta), constraints)
    problem.solve(solver=cp.CLARABEL)
    if theta.value is None:
        raise ConvergenceError(f"CLARABEL stopped with status {problem.status}")
    point = np.clip(theta.value, program.low, program.high)
    duals = np.array([float(c.dual_value) for c in constraints[2:]])
    g, _ = program.loads(point)
    multipliers = np.maximum(duals, 0.0) / np.maximum(g, 1e-300)  # log constraint to plain
    bound = program.bound(point, multipliers)
    return Relaxation(point, float(problem.value), bound, "clarabel")
