"""Everybody contributes the same: always envy-free, because nobody carries a lighter load.
Source: Theorem 4.1, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterplay.contribution.audit import Allocation, allocation, is_feasible
from counterplay.contribution.game import CollabGame
from counterplay.contribution.linear import LinearGame
from counterplay.contribution.tabular import TabularGame
from counterplay.core.arguments import checked
from counterplay.errors import InfeasibleError, InvalidInputError


@checked
def equal_allocation(game: CollabGame, theta: ArrayLike | None = None) -> Allocation:
    """Return an envy-free plan in which everybody contributes the same amount.

    The quickest fair plan, and the one of federated averaging (equal expected samples).

    Parameters
    ----------
    game:
        The data-sharing game.
    theta:
        A feasible plan: then everybody is raised to its largest contribution, as in the proof of
        existence. None: the smallest feasible common contribution.

    Notes
    -----
    Guaranteed envy-free (Theorem 4.1), so ``k t`` bounds the cheapest envy-free total.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Thm. 3.

    Examples
    --------
    >>> from counterplay.contribution import LinearGame
    >>> plan = equal_allocation(LinearGame([[1, 0.5], [0.5, 1]], mu=1.0))
    >>> round(plan.total, 6)
    1.333333
    """
    if theta is not None:
        vector = game._vector(theta)
        if not is_feasible(game, vector):
            raise InvalidInputError("theta must be feasible: every party must reach its target")
        level = float(vector.max())
    else:
        level = smallest_common_level(game)
    plan = np.full(game.k, level)
    i = int(np.argmin(game.caps))
    if level > game.caps[i] + 1e-9:
        raise InfeasibleError(
            f"the equal plan needs {level:g} from everybody, above the cap {game.caps[i]:g} "
            f"of {game.party(i)}"
        )
    return allocation(game, plan, "equal", {"level": level})


def smallest_common_level(game: CollabGame) -> float:
    """Return the smallest ``t`` such that everybody is satisfied when all contribute ``t``."""
    if isinstance(game, LinearGame):
        return float(max(0.0, (game.mu / game._row_sums()).max()))
    if isinstance(game, TabularGame):
        return _common_grid_level(game)
    free = game if game.upper is None else _uncapped(game)

    def satisfied(t: float) -> bool:
        return bool((free._utilities(np.full((1, game.k), t))[0] >= game.mu - 1e-12).all())

    if satisfied(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not satisfied(high):
        low, high = high, 2.0 * high
        if high > 2.0**53:
            raise InfeasibleError("no common contribution satisfies everybody")
    while high - low > 1.0:
        middle = float(np.floor((low + high) / 2))
        low, high = (low, middle) if satisfied(middle) else (middle, high)
    return high if game.integral else _inside_cell(free, low, high)


def _inside_cell(game: CollabGame, low: float, high: float) -> float:
    """Root inside the unit cell, where utilities are smooth; rounded up to stay feasible."""
    from scipy.optimize import brentq

    def worst(t: float) -> float:
        return float((game._utilities(np.full((1, game.k), t))[0] - game.mu).min())

    if worst(high) <= 0.0:
        return high
    root = float(brentq(worst, low, high, xtol=1e-14, rtol=8.9e-16))
    step = max(1e-15, float(np.spacing(root)))
    while worst(root) < 0.0:
        root, step = min(high, root + step), 2.0 * step
    return root


def _common_grid_level(game: TabularGame) -> float:
    for level in sorted(set.intersection(*(set(levels.tolist()) for levels in game.levels))):
        if is_feasible(game, np.full(game.k, level)):
            return float(level)
    raise InfeasibleError("no common level of the grid satisfies everybody")


def _uncapped(game: CollabGame) -> CollabGame:
    copy = game._copy()
    copy.upper = None
    return copy
