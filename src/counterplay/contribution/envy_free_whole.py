"""The cheapest envy-free plan of a small coverage game in whole numbers: look at all of them.

Plans are visited by increasing total, from a proven lower bound up to a known envy-free plan, so
the first one without envy is the cheapest.
Source: Setting, Proposition 4.E, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

import numpy as np

from counterplay.contribution.audit import DEFAULT
from counterplay.contribution.coverage import CoverageGame
from counterplay.contribution.game import TIE
from counterplay.core.validation import BoolArray, FloatArray
from counterplay.errors import ConvergenceError

MAX_PLANS = 2_000_000
MAX_WORK = 200_000_000
"""Plans, and plans times parties times kinds of points, that are looked at."""

_AT_ONCE = 8192


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


def _plans_between(game: CoverageGame, lower: float, known: float) -> FloatArray:
    """All plans with ``lower <= total < known`` within the caps, by increasing total."""
    limit = min(MAX_PLANS, MAX_WORK // (game.k * game.n_types))
    top = np.full(game.k, np.inf) if game.upper is None else np.asarray(game.upper)
    plans, spent = np.zeros((1, 0)), np.zeros(1)
    for j in range(game.k):
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.floor((known - 1e-9 - spent) / game.cost[j])
        room = np.minimum(np.where(np.isnan(room), np.inf, room), top[j])
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
    top = np.full(game.k, np.inf) if game.upper is None else np.asarray(game.upper)
    for i in range(game.k):
        for j in range(game.k):
            lighter = ~envy & (plans[:, j] < plans[:, i]) & (plans[:, i] <= top[j])
            swapped = plans[lighter]
            swapped[:, [i, j]] = swapped[:, [j, i]]
            if len(swapped):
                envy[lighter] = game._utilities(swapped)[:, i] >= game.mu[i] - DEFAULT.u
    return envy
