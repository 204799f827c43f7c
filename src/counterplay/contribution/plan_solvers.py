"""Which solver answers which question for which game: the choices behind ``plan_contributions``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import TypeVar

import numpy as np

from counterplay.contribution import capped
from counterplay.contribution.audit import Allocation, allocation, envy_report, is_feasible
from counterplay.contribution.coverage import CoverageGame
from counterplay.contribution.coverage_boxes import (
    MOST_PARTIES,
    envy_free_infimum,
    equilibrium_boxes,
)
from counterplay.contribution.coverage_optimum import (
    cheaper_envy_free_plan,
    coverage_opt_integer,
    coverage_opt_real,
)
from counterplay.contribution.coverage_stable import (
    integer_equilibrium_coverage,
    optimal_stable_coverage,
)
from counterplay.contribution.dynamics import best_response_dynamics
from counterplay.contribution.envy_free import improve_envy_free, optimal_envy_free_linear
from counterplay.contribution.equal import equal_allocation, smallest_common_level
from counterplay.contribution.game import CollabGame
from counterplay.contribution.linear import LinearGame
from counterplay.contribution.local_search import descend, satisfied, shrink, trim_envy_free
from counterplay.contribution.social_optimum import socially_optimal_linear
from counterplay.contribution.stable_linear import optimal_stable_linear
from counterplay.contribution.stable_milp import stable_linear_milp
from counterplay.contribution.tabular import TabularGame
from counterplay.core.seeds import RandomState
from counterplay.core.validation import FloatArray
from counterplay.errors import ConvergenceError, InfeasibleError

BRANCH_ENVY_FREE = 60
EXACT_DIRECTED = 40
CAPPED_ENVY_FREE = 12
"""With caps the cheapest envy-free plan is searched exactly up to this many parties."""
GRID = 200_000

T = TypeVar("T")


@dataclass(frozen=True)
class Plans:
    """The plans of a game with proven bounds and remarks."""

    optimal: Allocation
    stable: Allocation | None
    envy_free: Allocation | None
    equal: Allocation | None
    bounds: Mapping[str, float]
    flags: tuple[str, ...]


def solve_plans(game: CollabGame, time_limit: float, random_state: RandomState) -> Plans:
    """Compute all plans of a game with the best solver there is for it."""
    flags = _flags(game)
    equal, why = _attempt(lambda: equal_allocation(game))
    flags += [] if why is None else [f"no equal plan: {why}"]
    if isinstance(game, LinearGame):
        optimal, stable, worst, why = _linear(game, time_limit)
    elif isinstance(game, CoverageGame) and game.extension == "rounding":
        optimal, stable, worst, why = _coverage(game, random_state)
    elif _grid_size(game) <= GRID:
        return _exhaustive(game, equal, flags)
    else:
        optimal, stable, worst, why = _generic(game, equal)
    flags += [] if why is None else [f"no stable plan: {why}"]
    optimal = _cheapest(game, optimal, [stable, equal])
    fair = _envy_free(game, optimal, stable, equal, time_limit)
    flags += [] if fair is not None else ["no envy-free plan was found within the caps"]
    bounds = {"optimal_lower": float(optimal.certificate.get("lower_bound", 0.0))}
    if worst is not None:
        bounds["stable_highest"] = worst
    if stable is not None and "all_below" in stable.certificate:
        bounds["stable_lower"] = float(stable.certificate["all_above"])
        bounds["stable_upper"] = float(stable.certificate["all_below"])
    if fair is not None and "bound" in fair.certificate:
        bounds["envy_free_lower"] = float(fair.certificate["bound"])
    return Plans(optimal, stable, fair, equal, bounds, tuple(flags))


def _linear(
    game: LinearGame, time_limit: float
) -> tuple[Allocation, Allocation | None, float | None, str | None]:
    if game.upper is not None and (game.hurts or game.k <= EXACT_DIRECTED):
        return _linear_capped(game)
    optimal = socially_optimal_linear(game)

    def solve(sense: int) -> Allocation:
        if game.is_psd:
            return optimal_stable_linear(game, sense=1 if sense == 1 else -1)
        if game.k <= EXACT_DIRECTED:
            return stable_linear_milp(game, sense=1 if sense == 1 else -1, time_limit=time_limit)
        return best_response_dynamics(game, fallback=True).allocation

    stable, why = _attempt(lambda: solve(1))
    worst, _ = _attempt(lambda: solve(-1))
    return optimal, stable, None if worst is None else worst.total, why


def _linear_capped(
    game: LinearGame,
) -> tuple[Allocation, Allocation | None, float | None, str | None]:
    """Caps give the big-M constants, so any signs are exact."""
    box = as_capped(game)
    best = capped.cheapest(box)
    facts = {"lower_bound": float(game.cost @ best), "proved": True}
    optimal = allocation(game, best, "optimal", facts)
    least, most = capped.stable(box), capped.stable(box, -1)
    if least is None or most is None:
        against = box.against_interest(capped.compensated(box)).sum()
        return (
            optimal,
            None,
            None,
            (f"at least {against:.4g} units must be brought against their owners' interest"),
        )
    return optimal, allocation(game, least, "stable", {"proved": True}), game.total(most), None


def as_capped(game: LinearGame) -> capped.Capped:
    """The programs' view of a linear game with caps; a thousandth of a cap is strictly more."""
    step = 1e-3 * max(float(game.caps.max()), 1e-9)
    return capped.Capped(game.dense(), np.array(game.mu), game.caps, np.array(game.cost), step)


def _coverage(
    game: CoverageGame, random_state: RandomState
) -> tuple[Allocation, Allocation | None, float | None, str | None]:
    if game.integral:
        optimal = coverage_opt_integer(game)
        stable, why = _attempt(
            lambda: integer_equilibrium_coverage(game, random_state=random_state)
        )
    else:
        optimal = coverage_opt_real(game, random_state=random_state)
        stable, why = _attempt(lambda: optimal_stable_coverage(game, random_state=random_state))
        stable = None if stable is None else _enclosed(game, stable)
    worst = None if stable is None else float(stable.certificate["dearest_found"])
    return optimal, stable, worst, why


def _enclosed(game: CoverageGame, stable: Allocation) -> Allocation:
    """Boxes around every equilibrium say between which totals they all lie (small games)."""
    if game.k > MOST_PARTIES:
        return stable
    boxes = equilibrium_boxes(game, seconds=3.0)
    if not boxes.closed or not len(boxes.low):
        return stable
    ends = {
        "all_above": float((boxes.low @ game.cost).min()),
        "all_below": float((boxes.high @ game.cost).max()),
    }
    # one box of width 1e-3 per equilibrium: the plan is the cheapest up to that width
    proved = stable.total - ends["all_above"] <= 2e-3 * game.cost.sum()
    facts = dict(stable.certificate) | ends | {"proved": bool(proved), "boxes": len(boxes.low)}
    return replace(stable, certificate=facts)


def _exhaustive(game: CollabGame, equal: Allocation | None, flags: list[str]) -> Plans:
    if isinstance(game, TabularGame):
        table = game
    else:
        table = TabularGame.from_game(game, [np.arange(int(t) + 1) for t in _grid_top(game)])
    stable = table.stable
    found = {
        "optimal": table.cheapest(table.feasible),
        "stable": table.cheapest(stable),
        "envy-free": table.cheapest(table.envy_free),
    }
    if found["optimal"] is None:
        raise InfeasibleError("no plan on the grid satisfies everybody; add higher levels")
    if found["stable"] is None:
        flags = [*flags, "no stable plan exists on the grid of contributions (all were checked)"]
    facts = {"proved": True}
    plans = {
        name: None if theta is None else allocation(game, theta, name, facts)
        for name, theta in found.items()
    }
    optimal = plans["optimal"]
    assert optimal is not None  # checked above
    bounds = {"optimal_lower": optimal.total}
    worst = table.cheapest(stable, sense=-1)
    if worst is not None:
        bounds["stable_highest"] = game.total(worst)
    return Plans(optimal, plans["stable"], plans["envy-free"], equal, bounds, tuple(flags))


def _generic(
    game: CollabGame, equal: Allocation | None
) -> tuple[Allocation, Allocation | None, float | None, str | None]:
    corner = game.box if game.upper is None else game.caps
    served, _ = _attempt(lambda: satisfied(game, corner))
    stable, why = _attempt(lambda: best_response_dynamics(game, fallback=True).allocation)
    if stable is not None and not is_feasible(game, stable.theta):
        stable, why = None, "best responses settle where somebody misses its target below its cap"
    starts: list[FloatArray] = [p.theta for p in (equal, stable) if p is not None]
    starts = [start for start in starts if _attempt(partial(satisfied, game, start))[0]]
    starts += [corner] if served else []
    if not starts:
        game._validate()  # says who cannot be satisfied
        raise InfeasibleError("no plan that satisfies everybody was found; lower the targets")
    improve = shrink if game.integral else descend
    better = [_attempt(partial(improve, game, np.array(start)))[0] for start in starts]
    plans = [*starts, *(plan for plan in better if plan is not None)]
    theta = min(
        (plan for plan in plans if _attempt(partial(satisfied, game, plan))[0]), key=game.total
    )
    return allocation(game, theta, "optimal", {"proved": False}), stable, None, why


def _envy_free(
    game: CollabGame,
    optimal: Allocation,
    stable: Allocation | None,
    equal: Allocation | None,
    time_limit: float,
) -> Allocation | None:
    starts = [
        plan
        for plan in (optimal, stable, equal)
        if plan is not None and _attempt(partial(_is_envy_free, game, plan))[0]
    ]
    if isinstance(game, LinearGame):
        return _envy_free_linear(game, starts, time_limit)
    thetas = [np.asarray(plan.theta) for plan in starts]
    trimmed = [_attempt(partial(trim_envy_free, game, np.array(theta)))[0] for theta in thetas]
    thetas += [theta for theta in trimmed if theta is not None]
    best = min(thetas, key=game.total, default=None)
    proved, more = False, {}
    if _has_boxes(game):
        assert isinstance(game, CoverageGame)  # asked above
        limits = envy_free_infimum(game, seconds=time_limit)
        known_total = np.inf if best is None else game.total(best)
        if np.isfinite(limits.best) and limits.best <= known_total:
            best = limits.theta
        if best is not None:
            more = {"bound": limits.lower} | ({"gap": limits.gap} if limits.closed else {})
    if isinstance(game, CoverageGame) and game.integral and game.extension == "rounding":
        known = None if best is None else game.total(best)
        lower = float(optimal.certificate["lower_bound"])
        found, why = _attempt(lambda: cheaper_envy_free_plan(game, lower, known))
        best, proved = best if found is None else found, why is None
    facts = {"proved": proved, **more}
    return None if best is None else allocation(game, best, "envy-free", facts)


def _is_envy_free(game: CollabGame, plan: Allocation) -> bool:
    return envy_report(game, plan.theta).is_envy_free


def _has_boxes(game: CollabGame) -> bool:
    return (
        isinstance(game, CoverageGame)
        and not game.integral
        and game.extension == "rounding"
        and game.k <= MOST_PARTIES
        and bool((game.cost > 0).all())
    )


def _envy_free_linear(
    game: LinearGame, starts: list[Allocation], time_limit: float
) -> Allocation | None:
    if game.upper is not None and (game.hurts or game.k <= CAPPED_ENVY_FREE):
        return _envy_free_capped(game, time_limit)
    candidates = [improve_envy_free(game, plan.theta) for plan in starts]
    if game.k <= BRANCH_ENVY_FREE:
        exact, _ = _attempt(lambda: optimal_envy_free_linear(game, time_limit=time_limit))
        candidates = [exact, *candidates] if exact is not None else candidates
    if not candidates:
        return None
    best = min(candidates, key=lambda plan: plan.total)
    facts = dict(best.certificate)
    for plan in candidates:  # what was proved for the cheapest holds for a cheaper one
        facts |= {key: v for key, v in plan.certificate.items() if key in ("bound", "proved")}
    return replace(best, concept="envy-free", certificate=facts)


def _envy_free_capped(game: LinearGame, time_limit: float) -> Allocation | None:
    """Swaps that a cap forbids are no envy; the strict inequality has the usual small margin."""
    box = as_capped(game)
    strict = 1e-4 * max(1.0, float(abs(game.mu).max()))
    found = capped.envy_free(box, strict=strict, whole=False, time_limit=time_limit)
    if found is None:
        return None
    facts = {"bound": found.bound, "proved": found.proved, "eps": strict}
    return allocation(game, found.n, "envy-free", facts)


def _cheapest(game: CollabGame, optimal: Allocation, others: list[Allocation | None]) -> Allocation:
    """A plan found on the way may beat a local search; the optimum is the cheapest of all."""
    best = min([optimal, *(p for p in others if p is not None)], key=lambda plan: plan.total)
    if best.total >= optimal.total - 1e-12:
        return optimal
    return allocation(game, best.theta, "optimal", optimal.certificate)


def _flags(game: CollabGame) -> list[str]:
    flags = []
    known, _ = _attempt(lambda: game.utilities(np.zeros(game.k)) >= game.mu)
    zero = np.zeros(game.k, dtype=bool) if known is None else known
    for i in np.flatnonzero(zero):
        flags.append(f"{game.party(i)} is satisfied without any data (target {game.mu[i]:g})")
    if game.upper is not None:
        alone, _ = _attempt(lambda: game.standalone())
        if alone is None:
            flags.append("somebody could not reach its target alone, whatever it brings")
        else:
            for i in np.flatnonzero(alone > game.upper + 1e-9):
                flags.append(
                    f"{game.party(i)} could not reach its target alone below its cap "
                    f"{game.upper[i]:g}"
                )
    return flags


def _grid_size(game: CollabGame) -> float:
    if isinstance(game, TabularGame):
        return 0
    if game.expensive or not game.integral:
        return np.inf
    top, _ = _attempt(lambda: _grid_top(game))
    return np.inf if top is None else float(prod(int(t) + 1 for t in top))


def _grid_top(game: CollabGame) -> FloatArray:
    """Levels that no cheapest, stable or cheapest envy-free plan exceeds."""
    if game.upper is not None:
        return game.caps
    budget = smallest_common_level(game) * game.cost.sum()  # what the equal plan costs
    return np.asarray(np.maximum(np.ceil(budget / np.maximum(game.cost, 1e-12)), game.box))


def _attempt(solve: Callable[[], T]) -> tuple[T | None, str | None]:
    """Return the result, or None and the reason why there is none."""
    try:
        return solve(), None
    except (InfeasibleError, ConvergenceError) as error:
        return None, str(error)
