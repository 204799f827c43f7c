"""Cheapest coverage plans: exact for whole numbers by branch and bound, best found for fractions.

Every answer comes with the proven lower bound of the convex relaxation. The cheapest envy-free plan
of a small game in whole numbers is found by looking at all plans in order of their totals.
Source: Proposition 4.E, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

import heapq
from contextlib import suppress
from itertools import count

import numpy as np

from counterplay.contribution.audit import DEFAULT, Allocation, allocation
from counterplay.contribution.coverage import CoverageGame
from counterplay.contribution.coverage_relaxation import (
    coverage_opt_relaxation,
    largest_useful,
    relaxation_or_none,
)
from counterplay.contribution.game import TIE
from counterplay.contribution.local_search import descend, satisfied
from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import BoolArray, FloatArray, check_int, check_positive_int
from counterplay.errors import ConvergenceError, InfeasibleError

MAX_PLANS = 2_000_000
MAX_WORK = 200_000_000
"""Plans, and plans times parties times kinds of points, that are looked at."""

_AT_ONCE = 8192


@checked
def coverage_opt_integer(game: CoverageGame, *, max_nodes: int = 400) -> Allocation:
    """Return the cheapest plan in whole numbers of samples, by branch and bound.

    Parameters
    ----------
    game:
        A coverage game; its ``integral`` flag does not matter.
    max_nodes:
        Relaxations to solve at most. If they do not suffice, the best plan so far is returned
        together with the bound that has been proven.

    Returns
    -------
    Allocation
        ``certificate["lower_bound"]`` is proven; ``certificate["proved"]`` says whether the plan
        is optimal.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Sec. 2 (random coverage).

    Examples
    --------
    >>> from counterplay.contribution import instances
    >>> plan = coverage_opt_integer(instances.flower(3).coverage())
    >>> plan.total, plan.certificate["proved"]
    (4.0, True)
    """
    check_positive_int(max_nodes, "max_nodes")
    whole = game.with_integral(True)
    top = np.floor(largest_useful(whole))
    root = relaxation_or_none(whole, np.zeros(whole.k), top)
    if root is None:
        raise InfeasibleError("no plan within the caps satisfies everybody; raise the caps")
    best = _round(whole, root.theta)
    best, bound, nodes = _branch(whole, root.theta, root.lower_bound, top, best, max_nodes)
    total = whole.total(best)
    proven = min(_next_total(whole, bound), total)
    return allocation(
        whole,
        best,
        "optimal",
        {
            "lower_bound": proven,
            "relaxation": root.lower_bound,
            "proved": proven >= total - 1e-9,
            "nodes": nodes,
        },
    )


@checked
def coverage_opt_real(
    game: CoverageGame, *, n_starts: int = 5, random_state: RandomState = 0
) -> Allocation:
    """Return the cheapest plan found with fractional contributions, with a proven lower bound.

    The utilities are not jointly concave, so this is a local search from several starts (SLSQP,
    warm-started at the relaxation); ``certificate["lower_bound"]`` says how far it can be off.

    Examples
    --------
    >>> from counterplay.contribution import CoverageGame
    >>> plan = coverage_opt_real(CoverageGame([[0.5, 0.5], [0.5, 0.5]], mu=0.75))
    >>> round(plan.total, 6), round(plan.certificate["lower_bound"], 6)
    (1.0, 1.0)
    """
    check_int(n_starts, "n_starts", low=0, high=500)
    real = game.with_integral(False)
    relaxed = coverage_opt_relaxation(real)
    rng = generator(random_state)
    starts = [relaxed.theta]
    with suppress(InfeasibleError):  # caps need not leave a plan in whole numbers
        starts.append(_round(game.with_integral(True), relaxed.theta))
    starts += [relaxed.theta * rng.uniform(0.5, 1.5, real.k) for _ in range(n_starts)]
    plans = [descend(real, start) for start in starts]
    best = min(plans, key=real.total)
    return allocation(real, best, "optimal", {"lower_bound": relaxed.lower_bound, "proved": False})


@checked
def cheaper_envy_free_plan(
    game: CoverageGame, lower: float, known: float | None
) -> FloatArray | None:
    """Return the cheapest envy-free plan that costs less than ``known``; None if there is none.

    Parameters
    ----------
    game:
        A coverage game in whole numbers.
    lower:
        No plan at all costs less.
    known:
        Total of an envy-free plan; None if none is known (then the game needs caps).

    Raises
    ------
    ConvergenceError
        If there are too many plans to look at.

    Examples
    --------
    >>> Q = [[0.19, 0.25, 0, 0.56, 0], [0.108, 0, 0.274, 0.246, 0.372]]
    >>> game = CoverageGame(Q, mu=[0.679, 0.7075], integral=True)
    >>> cheaper_envy_free_plan(game, lower=3, known=4).tolist()  # the equal plan costs 4
    [0.0, 3.0]
    """
    plans = _plans_between(game, lower, np.inf if known is None else known)
    for start in range(0, len(plans), _AT_ONCE):
        some = plans[start : start + _AT_ONCE]
        some = some[(game._utilities(some) >= game.mu - TIE).all(axis=1)]
        free = some[~_somebody_envies(game, some)]
        if len(free):
            return np.asarray(free[0])
    return None


def _branch(
    game: CoverageGame,
    theta: FloatArray,
    bound: float,
    top: FloatArray,
    best: FloatArray,
    max_nodes: int,
) -> tuple[FloatArray, float, int]:
    """Best-first branch and bound; returns plan, proven bound and number of relaxations."""
    tick = count()
    heap = [(bound, next(tick), np.zeros(game.k), top.copy(), theta)]
    nodes = 1
    while heap:
        bound, _, low, high, theta = heap[0]
        if _next_total(game, bound) >= game.total(best) - 1e-9 or nodes >= max_nodes:
            return best, bound, nodes
        heapq.heappop(heap)
        for child_low, child_high in _children(theta, low, high):
            relaxed = relaxation_or_none(game, child_low, child_high)
            nodes += 1
            if relaxed is None:
                continue
            candidate = _round(game, relaxed.theta)
            if game.total(candidate) < game.total(best) - 1e-9:
                best = candidate
            if _next_total(game, relaxed.lower_bound) < game.total(best) - 1e-9:
                entry = (relaxed.lower_bound, next(tick), child_low, child_high, relaxed.theta)
                heapq.heappush(heap, entry)
    return best, game.total(best), nodes


def _children(
    theta: FloatArray, low: FloatArray, high: FloatArray
) -> list[tuple[FloatArray, FloatArray]]:
    """Split the box at the coordinate farthest from a whole number."""
    open_box = high - low >= 1.0
    if not open_box.any():
        return []
    off = np.where(open_box, abs(theta - np.rint(theta)) + 1e-9, -1.0)
    j = int(np.argmax(off))
    cut = float(np.clip(np.floor(theta[j]), low[j], np.minimum(high[j] - 1.0, 1e15)))
    below, above = high.copy(), low.copy()
    below[j], above[j] = cut, cut + 1.0
    return [(low, below), (above, high)]


def _round(game: CoverageGame, theta: FloatArray) -> FloatArray:
    """A good whole-number plan near a fractional one: grow from below, then trim."""
    top = game.caps
    plan = np.minimum(np.floor(theta + 1e-9), top)
    while True:
        missing = np.maximum(game.mu - TIE - game._utilities(plan[None, :])[0], 0.0)
        if not missing.any():
            break
        now = game._utilities(plan[None, :])[0]
        after = now + game.jacobian(plan).T  # row j: one more sample of party j
        gains = np.minimum(after, game.mu) - np.minimum(now, game.mu)
        score = gains.sum(axis=1) / np.maximum(game.cost, 1e-12)
        score[plan >= top] = -np.inf
        if not score.max() > 0:
            return _trim(game, top)
        plan[int(np.argmax(score))] += 1.0
    return _trim(game, plan)


def _trim(game: CoverageGame, plan: FloatArray) -> FloatArray:
    """Remove samples, the dearest first, while everybody stays satisfied; free ones last."""
    plan = plan.copy()
    improved = True
    while improved:
        improved = False
        for i in np.argsort(-game.cost, kind="stable"):
            if plan[i] >= 1.0 and game.cost[i] > 0.0:
                plan[i] -= 1.0
                if satisfied(game, plan):
                    improved = True
                    continue
                plan[i] += 1.0
    for i in np.flatnonzero(
        game.cost == 0.0
    ):  # nothing keeps a relaxation from asking for billions
        plan[i] = _least(game, plan, int(i))
    return plan


def _least(game: CoverageGame, plan: FloatArray, i: int) -> float:
    """The smallest contribution of one party with which everybody stays satisfied."""
    low, high = 0.0, float(plan[i])
    while low < high:
        middle = np.floor((low + high) / 2.0)
        enough = satisfied(game, np.where(np.arange(game.k) == i, middle, plan))
        low, high = (low, middle) if enough else (middle + 1.0, high)
    return high


def _step(game: CoverageGame) -> float:
    """Smallest difference between totals: 1 if all prices are 1, else none."""
    return 1.0 if (game.cost == 1.0).all() else 0.0


def _next_total(game: CoverageGame, bound: float) -> float:
    return float(np.ceil(bound - 1e-7)) if _step(game) else bound


def _plans_between(game: CoverageGame, lower: float, known: float) -> FloatArray:
    """All plans with ``lower <= total < known`` within the caps, by increasing total."""
    limit = min(MAX_PLANS, MAX_WORK // (game.k * game.n_types))
    plans, spent = np.zeros((1, 0)), np.zeros(1)
    for j in range(game.k):
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.floor((known - 1e-9 - spent) / game.cost[j])
        room = np.minimum(np.where(np.isnan(room), np.inf, room), game.caps[j])
        if not (room + 1.0).sum() <= limit:
            raise ConvergenceError(f"there are more than {limit:,} plans to look at")
        counts = np.maximum(room, -1.0).astype(np.int64) + 1
        level = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        plans = np.column_stack([np.repeat(plans, counts, axis=0), level])
        spent = np.repeat(spent, counts) + game.cost[j] * level
    wanted = np.flatnonzero(spent >= lower - 1e-9)
    return np.asarray(plans[wanted[np.argsort(spent[wanted], kind="stable")]])


def _somebody_envies(game: CoverageGame, plans: FloatArray) -> BoolArray:
    """Whether somebody reaches its target with a strictly lighter load exchanged for its own."""
    envy = np.zeros(len(plans), dtype=bool)
    for i in range(game.k):
        for j in range(game.k):
            lighter = ~envy & (plans[:, j] < plans[:, i]) & (plans[:, i] <= game.caps[j])
            swapped = plans[lighter]
            swapped[:, [i, j]] = swapped[:, [j, i]]
            if len(swapped):
                envy[lighter] = game._utilities(swapped)[:, i] >= game.mu[i] - DEFAULT.u
    return envy
