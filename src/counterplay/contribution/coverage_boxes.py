"""Small coverage games with real contributions, by boxes: what is proved instead of best found.

Utilities rise in every coordinate, so the corners of a box say what all its points share. Envy-free
plans: best-first boxes with a proven lower bound. Equilibria: best responses fall when the others
rise, so the image of a box is known from two corners; what survives intersecting encloses all
equilibria.
Source: Theorems 23.3 and 23.4, see docs/theory/23-consortium.md.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass
from itertools import count

import numpy as np

from counterplay.contribution.audit import envy_report
from counterplay.contribution.coverage import CoverageGame
from counterplay.contribution.equal import smallest_common_level
from counterplay.contribution.game import TIE
from counterplay.contribution.local_search import satisfied, trim_envy_free
from counterplay.core.arguments import checked
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    check_int,
    check_open_fraction,
    check_real,
)
from counterplay.errors import InvalidInputError

MOST_PARTIES = 4
"""Parties up to which boxes usually close within seconds."""
ROOM = 1e-7


@checked
@dataclass(frozen=True)
class Infimum:
    """Cheapest envy-free total between ``lower`` (proved) and ``best`` (a plan), and the plan.

    The set of envy-free plans is not closed, so the least total need not be attained.
    """

    lower: float
    best: float
    theta: FloatArray
    gap: float
    nodes: int

    @property
    def closed(self) -> bool:
        """Whether the two ends are within the gap that was asked for."""
        return self.best - self.lower <= self.gap * self.best + 1e-12


@checked
@dataclass(frozen=True)
class EquilibriumBoxes:
    """Boxes ``low[b] <= theta <= high[b]`` that contain every equilibrium."""

    low: FloatArray
    high: FloatArray
    nodes: int
    closed: bool

    def __repr__(self) -> str:
        return f"EquilibriumBoxes({len(self.low)} boxes, closed={self.closed})"

    def contains(self, theta: FloatArray, slack: float = 1e-9) -> bool:
        """Whether a plan lies in one of the boxes."""
        inside = (self.low <= theta + slack) & (theta <= self.high + slack)
        return bool(inside.all(axis=1).any())


@checked
def envy_free_infimum(
    game: CoverageGame,
    *,
    gap: float = 0.01,
    most_nodes: int = 20_000,
    seconds: float = 10.0,
    random_state: int = 0,
) -> Infimum:
    """Enclose the least total of envy-free plans of a real coverage game.

    Parameters
    ----------
    game
        A coverage game with real contributions.
    gap
        Relative distance of the two ends at which the search stops.
    most_nodes
        Most boxes looked at.
    seconds
        Most seconds.
    random_state
        Seed of the random points that are tried as plans.

    Examples
    --------
    >>> from counterplay.contribution import CoverageGame
    >>> found = envy_free_infimum(CoverageGame([[0.5, 0.5], [0.2, 0.8]], mu=0.8), gap=0.05)
    >>> found.closed, found.lower <= found.best
    (True, True)
    """
    _check(game)
    check_open_fraction(gap, "gap")
    check_int(most_nodes, "most_nodes", low=1)
    check_real(seconds, "seconds", low=0.0, open_low=True)
    rng = np.random.default_rng(random_state)
    equal = np.minimum(np.full(game.k, smallest_common_level(game)), game.caps)
    theta, best = np.full(game.k, np.nan), np.inf
    if satisfied(game, equal) and envy_report(game, equal).is_envy_free:
        theta = trim_envy_free(game, equal.copy())
        best = game.total(theta)
    top = game.caps if not np.isfinite(best) else np.minimum(game.caps, best / game.cost)
    tick, stop = count(), time.monotonic() + seconds
    first = _tightened(game, np.zeros(game.k), np.where(np.isfinite(top), top, 0.0), best)
    heap = [] if first is None else [(float(game.cost @ first[0]), next(tick), *first)]
    nodes = 0
    while heap and heap[0][0] < best * (1.0 - gap) and nodes < most_nodes:
        if time.monotonic() > stop:
            break
        _, _, low, high = heapq.heappop(heap)
        nodes += 1
        middle, anywhere = (low + high) / 2.0, low + rng.random(game.k) * (high - low)
        tried = np.array([high, middle, low, anywhere])
        for plan in tried[(game._utilities(tried) >= game.mu - TIE).all(axis=1)]:
            if game.total(plan) < best and envy_report(game, plan).is_envy_free:
                theta, best = plan.copy(), game.total(plan)
        for part in _halves(low, high, game.cost):
            box = _tightened(game, *part, best)
            if box is not None:
                heapq.heappush(heap, (float(game.cost @ box[0]), next(tick), *box))
    lower = min(heap[0][0] if heap else best, best)
    return Infimum(float(lower), float(best), theta, gap, nodes)


def _tightened(
    game: CoverageGame, low: FloatArray, high: FloatArray, best: float
) -> tuple[FloatArray, FloatArray] | None:
    """Shrink a box to where plans better than ``best`` can be; None if it holds no such plan."""
    low, high = low.copy(), high.copy()
    for i in range(game.k):  # what the others cost at least leaves this much for i
        if np.isfinite(best):
            rest = best - float(game.cost @ low) + game.cost[i] * low[i]
            high[i] = min(high[i], rest / game.cost[i])
    if (high < low).any() or (game._utilities(high[None, :])[0] < game.mu - ROOM).any():
        return None
    for _ in range(2):
        least = _least(game, low, high)
        if least is None:
            return None
        low = least
        # where i would be served with j's least load, it envies j whenever it carries more,
        # unless it carries more than j may: then they cannot exchange their loads
        jealous = _served_after_swap(game, low) & (high[:, None] <= game.caps[None, :])
        for i, j in np.argwhere(jealous):
            high[i], low[j] = min(high[i], high[j]), max(low[j], low[i])
        if (high < low).any():
            return None
    return low, high


def _served_after_swap(game: CoverageGame, low: FloatArray) -> BoolArray:
    """``[i, j]``: i reaches its target when it exchanges the lower corner's loads with j."""
    k = game.k
    stack = np.repeat(low[None, :], k * k, axis=0)
    first, second = np.divmod(np.arange(k * k), k)
    stack[np.arange(k * k), first] = low[second]
    stack[np.arange(k * k), second] = low[first]
    reached = game._utilities(stack)[np.arange(k * k), first] >= game.mu[first]
    served = reached.reshape(k, k)
    np.fill_diagonal(served, False)
    return np.asarray(served)


def _least(game: CoverageGame, low: FloatArray, high: FloatArray) -> FloatArray | None:
    """Smallest own levels at which everybody can be served, the others at their upper corner."""
    k, index = game.k, np.arange(game.k)
    stack = np.repeat(high[None, :], k, axis=0)

    def serves(level: FloatArray) -> BoolArray:
        stack[index, index] = level
        return np.asarray((game._utilities(stack) >= game.mu - ROOM).all(axis=1))

    enough = serves(low)
    if not serves(high).all():
        return None
    a, b = low.copy(), high.copy()
    for _ in range(12):  # a few digits are enough: a stays a lower end
        middle = (a + b) / 2.0
        good = serves(middle)
        a, b = np.where(good, a, middle), np.where(good, middle, b)
    return np.where(enough, low, a)


@checked
def equilibrium_boxes(
    game: CoverageGame,
    *,
    width: float = 1e-3,
    most_nodes: int = 5000,
    seconds: float = 10.0,
) -> EquilibriumBoxes:
    """Enclose every stable plan of a real coverage game in small boxes.

    Parameters
    ----------
    game
        A coverage game with real contributions.
    width
        Boxes of at most this width are not split further.
    most_nodes
        Most boxes looked at; the rest is returned as it is.
    seconds
        Most seconds.

    Examples
    --------
    >>> from counterplay.contribution import CoverageGame
    >>> found = equilibrium_boxes(CoverageGame([[0.5, 0.5], [0.2, 0.8]], mu=0.8))
    >>> found.closed, len(found.low) >= 1
    (True, True)
    """
    _check(game)
    check_real(width, "width", low=1e-9)
    check_int(most_nodes, "most_nodes", low=1)
    stop = time.monotonic() + check_real(seconds, "seconds", low=0.0, open_low=True)
    left, done, nodes = [(np.zeros(game.k), np.array(game.box))], [], 0
    while left and nodes < most_nodes and time.monotonic() < stop:
        nodes += 1
        box = _contracted(game, *left.pop())
        if box is None:
            continue
        if (box[1] - box[0]).max() <= width:
            done.append(box)
        else:
            left += _halves(*box, np.ones(game.k))
    every = done + left
    k = game.k
    low = np.array([box[0] for box in every]).reshape(-1, k)
    high = np.array([box[1] for box in every]).reshape(-1, k)
    return EquilibriumBoxes(low, high, nodes, not left)


def _contracted(
    game: CoverageGame, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Intersect with ``[f(high), f(low)]`` until nothing changes; None if it becomes empty."""
    while True:
        new_low = np.maximum(low, game.best_response_map(high) - ROOM)
        new_high = np.minimum(high, game.best_response_map(low) + ROOM)
        if (new_low > new_high).any():
            return None
        gained = (new_low - low).max() + (high - new_high).max()
        low, high = new_low, new_high
        if gained <= 1e-3 * max(float((high - low).max()), 1e-12):
            return low, high


def _halves(
    low: FloatArray, high: FloatArray, cost: FloatArray
) -> list[tuple[FloatArray, FloatArray]]:
    side = int(np.argmax((high - low) * cost))
    middle = (low[side] + high[side]) / 2.0
    below, above = high.copy(), low.copy()
    below[side], above[side] = middle, middle
    return [(low, below), (above, high)]


def _check(game: CoverageGame) -> None:
    if game.integral or game.extension != "rounding":
        raise InvalidInputError("boxes are for coverage games with real contributions")
    if (game.cost <= 0).any():
        raise InvalidInputError("boxes need positive prices")
