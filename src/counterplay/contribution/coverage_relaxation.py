"""A certified lower bound on what any coverage plan costs, from convex optimisation.

Reading ``(1-q)^theta`` with a real exponent only helps the parties and makes every constraint
convex: an exponential-cone program, solved by Clarabel. Weak duality turns its multipliers into a
bound that holds whatever the solver did. Parties that play the same role share one variable: colour
refinement splits variables, terms and constraints until members of a class see the same sums of
coefficients over every other class; averaging over classes keeps a plan feasible and its cost.
Source: Proposition 4.E, see docs/theory/04-contribution.md; Grohe, Kersting, Mladenov, Selman
(2014), *Dimension Reduction via Colour Refinement* (with Jensen's inequality for exponentials).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from counterplay.contribution.audit import party_frame
from counterplay.contribution.coverage import CoverageGame
from counterplay.contribution.equal import smallest_common_level
from counterplay.core.arguments import checked
from counterplay.core.programs import minimize_linear
from counterplay.core.report import Report
from counterplay.core.validation import FloatArray, IntArray
from counterplay.errors import InfeasibleError

if TYPE_CHECKING:
    import pandas as pd

TOLERANCE = 1e-12
"""Asked of Clarabel; what it reaches shows in the gap between value and proven bound."""

GAP = 1e-7
"""Above it the multipliers are computed again, as the best ones at the solver's point."""

_DIGITS = 11


@checked(arrays=True)
@dataclass(frozen=True)
class Relaxation(Report):
    """Solution of the convex relaxation with a proven lower bound on every plan's total."""

    theta: FloatArray
    value: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """Distance between the value found and the proven bound."""
        return self.value - self.lower_bound

    def summary(self) -> str:
        """Return what is proved, in one line."""
        return f"every plan costs at least {self.lower_bound:.6g} (relaxation {self.value:.6g})"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per party: its contribution in the relaxed optimum."""
        return party_frame({"theta": self.theta})


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


@checked
def coverage_opt_relaxation(
    game: CoverageGame, *, lower: ArrayLike | None = None, upper: ArrayLike | None = None
) -> Relaxation:
    """Return a lower bound on the total of every feasible coverage plan, whole or fractional.

    Parameters
    ----------
    game:
        The coverage game.
    lower:
        Further lower bounds on the contributions, as used by branch and bound.
    upper:
        Further upper bounds on the contributions.

    Notes
    -----
    Rounding every coordinate up is feasible, so the whole-number optimum is at most the value plus
    ``k``. Points that some party covers surely (``q = 1``) leave the program unless that party's
    contribution is fixed; the bound stays valid.

    References
    ----------
    Boyd, Vandenberghe (2004), *Convex Optimization*, ch. 5.

    Examples
    --------
    >>> from counterplay.contribution import instances
    >>> round(coverage_opt_relaxation(instances.flower(10).coverage()).value, 4)
    10.4833
    """
    low = np.zeros(game.k) if lower is None else np.array(lower, dtype=np.float64)
    top = largest_useful(game)
    found = relaxation_or_none(game, low, top if upper is None else np.minimum(top, upper))
    if found is None:
        raise InfeasibleError("the bounds leave no feasible plan")
    return found


def relaxation_or_none(game: CoverageGame, low: FloatArray, high: FloatArray) -> Relaxation | None:
    """Same between two bounds, but None when they leave nothing feasible."""
    program = None if (high < low).any() else _program(game, low, high)
    return None if program is None else _by_roles(program)


def largest_useful(game: CoverageGame) -> FloatArray:
    """Contributions that no cheapest plan exceeds: the caps, or what the equal plan costs."""
    if game.upper is not None:
        return game.caps
    budget = (smallest_common_level(game) + 1.0) * game.cost.sum()
    return np.asarray(budget / np.maximum(game.cost, 1e-12 * game.cost.max()))


def _program(game: CoverageGame, low: FloatArray, high: FloatArray) -> _Program | None:
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


def _by_roles(program: _Program) -> Relaxation:
    """Solve with one variable per role; the bound is proved for the whole program."""
    facts = np.column_stack([program.cost, program.low, program.high])
    roles = role_classes(program.log_keep, program.weights, facts, program.budget)
    alone = roles.sizes[0] == len(program.cost)
    small = program if alone else _quotient(program, roles)
    point, multipliers = _solve(small)
    if not alone:
        sizes = np.bincount(roles.constraints, minlength=roles.sizes[2])
        point = point[roles.variables]
        multipliers = (multipliers / sizes)[roles.constraints]
    value = float(program.cost @ point)
    return Relaxation(point, value, min(program.bound(point, multipliers), value))


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


def _solve(program: _Program) -> tuple[FloatArray, FloatArray]:
    """Return a nearly optimal point, and multipliers that prove that it is."""
    point, multipliers = _cone_program(program)
    if program.cost @ point - program.bound(point, multipliers) > GAP:
        multipliers = _best_multipliers(program, point)
    return point, multipliers


def _cone_program(program: _Program) -> tuple[FloatArray, FloatArray]:
    """Return a point and multipliers of the constraints; both only as good as the solver was.

    Variables are the free contributions and one ``t`` per term with ``exp(L'theta) <= t``.
    """
    import clarabel

    multipliers = np.zeros(len(program.budget))
    index = np.flatnonzero(program.high > program.low + 1e-12)
    theta = program.low.copy()
    if not index.size or not multipliers.size:
        return theta, multipliers
    fixed = np.where(np.isin(np.arange(theta.size), index), 0.0, theta)
    weights = program.weights * np.exp(fixed @ program.log_keep)
    k, n, m = index.size, weights.shape[1], len(multipliers)
    exponents = sparse.coo_array(program.log_keep[index].T)
    rows = sparse.vstack(
        [
            sparse.hstack([-sparse.identity(k), sparse.csr_array((k, n))]),
            sparse.hstack([sparse.identity(k), sparse.csr_array((k, n))]),
            sparse.hstack([sparse.csr_array((m, k)), sparse.csr_array(weights)]),
            # (L'theta, 1, t) is in the exponential cone, term by term
            sparse.coo_array(
                (
                    np.concatenate([-exponents.data, -np.ones(n)]),
                    (
                        np.concatenate([3 * exponents.row, 3 * np.arange(n) + 2]),
                        np.concatenate([exponents.col, k + np.arange(n)]),
                    ),
                ),
                shape=(3 * n, k + n),
            ),
        ],
        format="csc",
    )
    sides = [-program.low[index], program.high[index], program.budget, np.tile([0.0, 1.0, 0.0], n)]
    cones = [clarabel.NonnegativeConeT(2 * k + m), *[clarabel.ExponentialConeT()] * n]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
    cost = np.concatenate([program.cost[index], np.zeros(n)])
    nothing = sparse.csc_matrix((k + n, k + n))
    solver = clarabel.DefaultSolver(
        nothing, cost, sparse.csc_matrix(rows), np.concatenate(sides), cones, settings
    )
    found = solver.solve()
    x, z = np.asarray(found.x)[:k], np.asarray(found.z)[2 * k : 2 * k + m]
    if not (np.isfinite(x).all() and np.isfinite(z).all()):
        return program.high, multipliers  # feasible, and nothing is proved
    theta[index] = np.clip(x, program.low[index], program.high[index])
    return theta, np.maximum(z, 0.0)


def _best_multipliers(program: _Program, theta: FloatArray) -> FloatArray:
    """Return the multipliers with the highest proven bound at ``theta``: a linear program.

    Maximise ``sum v + y (g - b)`` over ``y >= 0`` where ``v_j`` is at most ``r_j(y)`` times the
    distance to either end of the box, and ``r = c + A' y`` are the reduced costs.
    """
    g, table = program.loads(theta)
    slopes = table @ program.log_keep.T  # (m, k): A
    k, m = len(theta), len(g)
    ends = [program.low - theta, program.high - theta]
    rows = [np.hstack([-slopes.T * end[:, None], np.eye(k)]) for end in ends]
    free = [(0, None)] * m + [(None, None)] * k
    solved = minimize_linear(
        np.concatenate([program.budget - g, -np.ones(k)]),
        A_ub=np.vstack(rows),
        b_ub=np.concatenate([program.cost * end for end in ends]),
        bounds=free,
        what="the program of the best multipliers",
    )
    return np.maximum(solved.point[:m], 0.0)


@dataclass(frozen=True)
class Classes:
    """Class of every variable, term and constraint."""

    variables: IntArray
    terms: IntArray
    constraints: IntArray

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Number of classes of each kind."""
        return _count(self.variables), _count(self.terms), _count(self.constraints)


def role_classes(
    exponents: FloatArray, weights: FloatArray, facts: FloatArray, budgets: FloatArray
) -> Classes:
    """Return the coarsest classes with equal sums.

    Parameters
    ----------
    exponents:
        ``(variables, terms)``: coefficients of the variables in the terms.
    weights:
        ``(constraints, terms)``: weights of the terms in the constraints.
    facts:
        ``(variables, f)``: cost and bounds of each variable.
    budgets:
        ``(constraints,)``: right-hand sides.

    Examples
    --------
    >>> same = np.array([[1.0, 2.0], [2.0, 1.0]])  # two parties, mirror images
    >>> role_classes(same, same, np.ones((2, 1)), np.ones(2)).variables.tolist()
    [0, 0]
    """
    variables = _group(facts)
    constraints = _group(budgets[:, None])
    terms = np.zeros(exponents.shape[1], dtype=np.int64)
    found = (0, 0, 0)
    while True:
        from_variables = _sums(exponents.T, variables)
        from_constraints = _sums(weights.T, constraints)
        terms = _group(np.column_stack([terms, from_variables, from_constraints]))
        variables = _group(np.column_stack([variables, _sums(exponents, terms)]))
        constraints = _group(np.column_stack([constraints, _sums(weights, terms)]))
        classes = Classes(variables, terms, constraints)
        if classes.sizes == found:
            return classes
        found = classes.sizes


def _sums(table: FloatArray, labels: IntArray) -> FloatArray:
    """Sum the columns of each class."""
    member = np.zeros((len(labels), _count(labels)))
    member[np.arange(len(labels)), labels] = 1.0
    return np.asarray(table @ member)


def _group(rows: FloatArray) -> IntArray:
    """Number equal rows alike (up to rounding errors)."""
    scale = np.maximum(1.0, abs(rows).max(initial=0.0))
    _, labels = np.unique(np.round(rows / scale, _DIGITS) + 0.0, axis=0, return_inverse=True)
    return np.asarray(labels, dtype=np.int64).reshape(-1)


def _count(labels: IntArray) -> int:
    return int(labels.max(initial=-1)) + 1
