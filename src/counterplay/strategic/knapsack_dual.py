"""One person's knapsack, and its dual: what every block does alone at one price of gain.

A block is a menu, a stair or a line. At a dual price every block has its own best choice; the
dual price at which these together just reach the goal gives bounds and first solutions.

Source: "Additive scores", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from counterplay.core.validation import FloatArray, IntArray
from counterplay.strategic.line_filling import fill_need, fill_rest


class Problem(NamedTuple):
    """One person's menus, stairs and lines; prices of options are raised to ``power`` already."""

    start: IntArray  # menu g holds the options start[g] .. start[g + 1]
    price: FloatArray
    gain: FloatArray
    stair_price: FloatArray  # m steps cost (m stair_price)^power
    stair_gain: FloatArray
    stair_steps: IntArray
    line_gain: FloatArray  # lines are in filling order
    line_price: FloatArray
    line_room: FloatArray
    power: int


class Solution(NamedTuple):
    """Certified bounds on the best value, and the choice behind the better-known one."""

    low: float
    high: float
    choice: IntArray  # option of every menu (-1: stay), then steps of every stair
    amount: FloatArray  # of every line


@numba.njit(cache=True, nogil=True)
def best_steps(a: float, b: float, steps: int, lam: float, power: int) -> int:
    """Return the best number of steps m at the dual price lam: price (m a)^power, gain m b."""
    if power == 1:
        return steps if lam * b > a else 0
    m = lam * b / (2.0 * a * a) + 0.5  # a parabola: the nearest whole number
    return steps if m >= steps else max(0, int(np.floor(m)))


@numba.njit(cache=True, nogil=True)
def separate_choices(
    problem: Problem, lam: float, phi: FloatArray, pick: IntArray
) -> tuple[float, float]:
    """Write the best choice of every block at dual price lam and its value.

    Returns the gain and the price of all of them; the lines' value comes last in ``phi``.
    """
    got, paid = 0.0, 0.0
    blocks, power = problem.start.size - 1, problem.power
    for g in range(blocks):
        best, arg = 0.0, -1
        for o in range(problem.start[g], problem.start[g + 1]):
            value = lam * problem.gain[o] - problem.price[o]
            if value > best:
                best, arg = value, o
        phi[g], pick[g] = best, arg
        if arg >= 0:
            got += problem.gain[arg]
            paid += problem.price[arg]
    for k in range(problem.stair_steps.size):
        a, b = problem.stair_price[k], problem.stair_gain[k]
        m = best_steps(a, b, problem.stair_steps[k], lam, power)
        phi[blocks + k] = lam * m * b - (m * a) ** power
        pick[blocks + k] = m
        got += m * b
        paid += (m * a) ** power
    lines = 0.0
    for j in range(problem.line_gain.size):
        sigma, unit, room = problem.line_gain[j], problem.line_price[j], problem.line_room[j]
        if power == 1:
            amount = room if lam * sigma > unit else 0.0
        else:
            amount = min(room, lam * sigma / (2.0 * unit**2))
        if amount > 0.0:
            lines += lam * sigma * amount - (unit * amount) ** power
            got += sigma * amount
            paid += (unit * amount) ** power
    phi[blocks + problem.stair_steps.size] = lines
    return got, paid


@numba.njit(cache=True, nogil=True)
def dual_prices(
    problem: Problem, goal: float, by_gain: bool, phi: FloatArray, pick: IntArray
) -> tuple[float, float]:
    """Return the dual prices around which the gain reaches, or the price exceeds, a goal.

    The second is infinite if no dual price does it.
    """
    high = 2.0**-80
    while True:
        got, paid = separate_choices(problem, high, phi, pick)
        if (got >= goal) if by_gain else (paid > goal):
            break
        high *= 4.0
        if high > 2.0**300:
            return high, np.inf
    low = 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        got, paid = separate_choices(problem, middle, phi, pick)
        if (got >= goal) if by_gain else (paid > goal):
            high = middle
        else:
            low = middle
    return low, high


@numba.njit(cache=True, nogil=True)
def paid_and_got(problem: Problem, pick: IntArray) -> tuple[float, float]:
    """Return price and gain of chosen options and steps."""
    paid, got = 0.0, 0.0
    blocks = problem.start.size - 1
    for g in range(blocks):
        if pick[g] >= 0:
            paid += problem.price[pick[g]]
            got += problem.gain[pick[g]]
    for k in range(problem.stair_steps.size):
        paid += (pick[blocks + k] * problem.stair_price[k]) ** problem.power
        got += pick[blocks + k] * problem.stair_gain[k]
    return paid, got


@numba.njit(cache=True, nogil=True)
def fill(problem: Problem, need: float, spare: FloatArray) -> float:
    """Return the least price^power of lines that gain the need; ``spare`` gets the amounts."""
    return fill_need(
        need, problem.line_gain, problem.line_price, problem.line_room, problem.power, spare
    )


@numba.njit(cache=True, nogil=True)
def fill_up(problem: Problem, rest: float, spare: FloatArray) -> float:
    """Return the most gain of lines for the rest of a budget; ``spare`` gets the amounts."""
    return fill_rest(
        rest, problem.line_gain, problem.line_price, problem.line_room, problem.power, spare
    )
