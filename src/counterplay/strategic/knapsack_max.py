"""The knapsack of a person whose dearest change counts: blocks decide alone once r is known.

What can be gained within price r is a sum of one nondecreasing function per block, so the least
price for a need is found by halving the floats between none and enough.

Source: "Additive scores", see docs/theory/20-moves.md.
"""

from __future__ import annotations

import numba
import numpy as np

from counterplay.core.validation import FloatArray, IntArray
from counterplay.strategic.knapsack_dual import Problem, Solution

LARGEST = 2.0**1000


@numba.njit(cache=True, nogil=True)
def most_gain_max(problem: Problem, budget: float) -> Solution:
    """Return the largest gain whose dearest part costs at most the budget."""
    choice, amount = _nothing(problem)
    total = _within(problem, budget, choice, amount)
    return Solution(total, total, choice, amount)


@numba.njit(cache=True, nogil=True)
def least_price_max(problem: Problem, need: float) -> Solution:
    """Return the least r such that the best options within price r together reach the need."""
    choice, amount = _nothing(problem)
    if need <= 0.0:
        return Solution(0.0, 0.0, choice, amount)
    if _within(problem, LARGEST, choice, amount) < need:
        choice, amount = _nothing(problem)
        return Solution(np.inf, np.inf, choice, amount)
    high = 2.0**-60
    while _within(problem, high, choice, amount) < need:
        high *= 4.0
    low = high / 4.0 if high > 2.0**-60 else 0.0
    while True:  # halve until there is no float between
        middle = low + (high - low) / 2.0
        if not low < middle < high:
            break
        if _within(problem, middle, choice, amount) >= need:
            high = middle
        else:
            low = middle
    have = _within(problem, high, choice, amount)
    _undo(problem, need, have, choice)
    return Solution(high, high, choice, amount)


@numba.njit(cache=True, nogil=True)
def _nothing(problem: Problem) -> tuple[IntArray, FloatArray]:
    blocks = problem.start.size - 1
    choice = np.full(blocks + problem.stair_steps.size, -1, np.int64)
    choice[blocks:] = 0
    return choice, np.zeros(problem.line_gain.size)


@numba.njit(cache=True, nogil=True)
def _within(problem: Problem, r: float, choice: IntArray, amount: FloatArray) -> float:
    """Write what every block does best within price r; returns the gain of all together."""
    blocks, total = problem.start.size - 1, 0.0
    for g in range(blocks):
        best, choice[g] = 0.0, -1
        for o in range(problem.start[g], problem.start[g + 1]):
            if problem.price[o] <= r and problem.gain[o] > best:
                best, choice[g] = problem.gain[o], o
        total += best
    for k in range(problem.stair_steps.size):
        # a rounded quotient of r is still nondecreasing in r
        steps = min(problem.stair_steps[k] + 0.0, np.floor(r / problem.stair_price[k]))
        choice[blocks + k] = int(steps)
        total += steps * problem.stair_gain[k]
    for j in range(problem.line_gain.size):
        amount[j] = min(problem.line_room[j], r / problem.line_price[j])
        total += amount[j] * problem.line_gain[j]
    return total


@numba.njit(cache=True, nogil=True)
def _undo(problem: Problem, need: float, have: float, choice: IntArray) -> None:
    """Take back options and stairs that are not needed, smallest gains first."""
    blocks = problem.start.size - 1
    gain = np.zeros(choice.size)
    for g in range(choice.size):
        if g < blocks:
            gain[g] = problem.gain[choice[g]] if choice[g] >= 0 else 0.0
        else:
            gain[g] = choice[g] * problem.stair_gain[g - blocks]
    for g in np.argsort(gain, kind="mergesort"):
        if gain[g] > 0.0 and have - gain[g] >= need:
            have -= gain[g]
            choice[g] = -1 if g < blocks else 0
