"""Stable plans of coverage games: a potential for whole numbers, multi-start for fractions.

In whole numbers one best response is one coordinate minimisation of a potential, so the parties
always settle; with fractions the set of stable plans is not convex and the answer is "best found".
Source: Theorem 4.8 and Proposition 4.F, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import root

from counterplay.contribution.audit import Allocation, allocation, stability_report
from counterplay.contribution.coverage import CoverageGame
from counterplay.contribution.coverage_relaxation import coverage_opt_relaxation
from counterplay.contribution.dynamics import NonConvergence, best_response_dynamics
from counterplay.contribution.game import Tolerances
from counterplay.contribution.tabular import TabularGame
from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, check_int
from counterplay.errors import ConvergenceError, InvalidInputError

MOST_RESTARTS = 500
EXHAUSTIVE = 200_000
"""Grids up to this size are searched completely for the cheapest stable plan."""


@checked
def coverage_potential(game: CoverageGame, theta: ArrayLike) -> float:
    """Return ``sum_x prod_j (1-q_jx)^theta_j + 2 sum_i (1-mu_i) theta_i`` for whole numbers.

    One more sample of party i changes it by exactly ``2 (u_i(theta) - mu_i)``: it falls while i is
    unsatisfied and rises once i is satisfied.

    Examples
    --------
    >>> from counterplay.contribution import CoverageGame
    >>> game = CoverageGame([[0.5, 0.5], [0.5, 0.5]], mu=0.75, integral=True)
    >>> coverage_potential(game, [1, 0]) - coverage_potential(game, [0, 0])  # 2 (1/2 - 3/4)
    -0.5
    """
    vector = game._vector(theta)
    if (vector != np.rint(vector)).any():
        raise InvalidInputError("the potential is defined for whole-number contributions")
    missed = np.prod(game.factors(vector), axis=0)
    return float(game.multiplicity @ missed + 2.0 * (1.0 - game.mu) @ vector)


@checked
def integer_equilibrium_coverage(
    game: CoverageGame, *, n_restarts: int = 12, random_state: RandomState = 0
) -> Allocation:
    """Return a stable plan in whole numbers of samples; the cheapest if the game is small.

    Parameters
    ----------
    game:
        A coverage game; its ``integral`` flag does not matter.
    n_restarts:
        Random starts and orders besides the start at zero; the cheapest end point is kept.
    random_state:
        Seed of the restarts.

    Returns
    -------
    Allocation
        ``certificate["proved"]`` says whether the plan is the cheapest stable one (all plans
        below the stand-alone contributions were checked); ``certificate["dearest_found"]`` is the
        highest total of a stable plan, of all of them if ``proved``.

    Notes
    -----
    Every run terminates: best responses decrease the pair (potential, total) lexicographically
    (:func:`coverage_potential`). So whole-number stable plans always exist for coverage.

    References
    ----------
    Monderer, Shapley (1996), *Potential Games*.

    Examples
    --------
    >>> from counterplay.contribution import CoverageGame
    >>> plan = integer_equilibrium_coverage(CoverageGame([[0.5, 0.5], [0.2, 0.8]], mu=0.8))
    >>> plan.total, plan.best_response_gap
    (2.0, 0.0)
    """
    check_int(n_restarts, "n_restarts", low=0, high=MOST_RESTARTS)
    whole = game.with_integral(True)
    cells = prod(int(t) + 1 for t in whole.box)
    if cells <= EXHAUSTIVE:
        table = TabularGame.from_game(whole, [np.arange(int(t) + 1) for t in whole.box])
        stable = table.stable
        best = table.cheapest(stable)
        if best is None:
            raise ConvergenceError("no stable plan respects the caps; raise them")
        dearest = table.cheapest(stable, sense=-1)
        assert dearest is not None  # there is a stable plan
        facts: dict[str, Any] = {"proved": True, "stable_plans": int(stable.sum())}
        facts["dearest_found"] = whole.total(dearest)
        return allocation(whole, best, "stable", facts)
    plans = [_settle(whole, start) for start in _starts(whole, n_restarts, random_state)]
    found = [plan for plan in plans if plan is not None]
    if not found:
        raise ConvergenceError("best responses did not settle below the caps; raise them")
    best = min(found, key=whole.total)
    facts = {"proved": False, "dearest_found": max(whole.total(plan) for plan in found)}
    return allocation(whole, best, "stable", facts)


@checked
def optimal_stable_coverage(
    game: CoverageGame,
    *,
    n_restarts: int = 10,
    enumerate_supports: bool | None = None,
    random_state: RandomState = 0,
) -> Allocation:
    """Return the cheapest stable plan found with fractional contributions, and a lower bound.

    Parameters
    ----------
    game:
        A coverage game with real contributions.
    n_restarts:
        Random starts and orders of best-response dynamics, besides the start at zero.
    enumerate_supports:
        Also solve the equations of every set of contributors; by default up to 6 parties,
        possible up to 12.
    random_state:
        Seed of the restarts.

    Returns
    -------
    Allocation
        Best found, never claimed optimal: the stable set is not convex. No plan at all, stable or
        not, costs less than ``certificate["lower_bound"]``.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Thm. 8.

    Examples
    --------
    >>> from counterplay.contribution import instances
    >>> plan = optimal_stable_coverage(instances.identical_pair())
    >>> round(plan.total, 9)
    1.0
    """
    check_int(n_restarts, "n_restarts", low=1, high=MOST_RESTARTS)
    if game.integral:
        raise InvalidInputError("use integer_equilibrium_coverage for whole-number contributions")
    enumerate_all = game.k <= 6 if enumerate_supports is None else enumerate_supports
    if enumerate_all and game.k > 12:
        raise InvalidInputError(f"supports can be enumerated up to 12 parties, not {game.k}")
    rng = generator(random_state)
    plans = [_settle(game, start) for start in _starts(game, n_restarts, rng)]
    if enumerate_all:
        plans += _by_support(game, rng)
    tol = Tolerances(u=1e-9, theta=1e-7)
    found = [p for p in plans if p is not None and stability_report(game, p, tol).is_stable]
    if not found:
        raise ConvergenceError("no stable plan was found; raise n_restarts")
    totals = [game.total(plan) for plan in found]
    facts = {
        "lower_bound": coverage_opt_relaxation(game).lower_bound,
        "proved": False,
        "dearest_found": max(totals),
        "plans_found": len(found),
    }
    return allocation(game, found[int(np.argmin(totals))], "stable", facts)


def _starts(
    game: CoverageGame, n_restarts: int, random_state: RandomState
) -> list[tuple[FloatArray, int]]:
    """Zero first, then random points of the box, each with a seed for the order of moves."""
    rng, box = generator(random_state), game.box
    starts = [(np.zeros(game.k), 0)]
    for _ in range(n_restarts):
        point = rng.random(game.k) * box
        point = np.floor(point) if game.integral else point
        starts.append((point, int(rng.integers(1, 2**31))))
    return starts


def _settle(game: CoverageGame, start: tuple[FloatArray, int]) -> FloatArray | None:
    """One run with one random order of the parties (the given order for seed 0)."""
    theta0, seed = start
    turn = np.arange(game.k) if seed == 0 else np.random.default_rng(seed).permutation(game.k)
    shuffled = game.subset([int(i) for i in turn])
    try:
        result = best_response_dynamics(shuffled, theta0=theta0[turn])
    except NonConvergence:
        return None
    theta = np.empty(game.k)
    theta[turn] = result.theta
    return theta if stability_report(game, theta, Tolerances(theta=1e-7)).is_stable else None


def _by_support(game: CoverageGame, rng: np.random.Generator) -> list[FloatArray]:
    """Solve ``u_S(theta_S, 0) = mu_S`` for every set S of contributors, from three starts."""
    plans: list[FloatArray] = []
    box, free = game.box, game.with_upper(None)  # the way to a root may lead above a cap
    needed = game.mu > 0.5
    for size in range(1, game.k + 1):
        for support in combinations(np.flatnonzero(needed), size):
            index = np.array(support)
            for share in (0.5, 0.9, float(rng.random())):
                theta = _solve_support(free, index, share * box[index])
                if theta is not None and (theta <= game.caps).all():
                    plans.append(theta)
    return plans


def _solve_support(game: CoverageGame, index: np.ndarray, start: FloatArray) -> FloatArray | None:
    def full(x: FloatArray) -> FloatArray:
        theta = np.zeros(game.k)
        theta[index] = np.clip(x, 0.0, None)
        return theta

    solved = root(
        lambda x: (game._utilities(full(x)[None, :])[0] - game.mu)[index],
        start,
        jac=lambda x: game.jacobian(full(x))[np.ix_(index, index)],
        method="hybr",
        options={"maxfev": 60},
    )
    return full(solved.x) if solved.success else None
