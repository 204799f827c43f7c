"""The knapsack of a person whose dearest change counts: blocks decide alone once r is known.

What can be gained within price r is a sum of one nondecreasing function per block, so the least
price for a need is found by bisection on the prices of all options.

Source: "Additive scores", see docs/theory/20-moves.md.
"""

from __future__ import annotations

import math

import numpy as np

from counterplay.core.validation import FloatArray, IntArray
from counterplay.strategic.knapsack_dual import Problem, Solution


def options_within(problem: Problem, r: float) -> IntArray:
    """Return the best option of every menu that costs at most r; -1: stay."""
    picked = np.full(problem.start.size - 1, -1, dtype=np.int64)
    for g, (a, b) in enumerate(zip(problem.start, problem.start[1:])):
        inside = np.flatnonzero(problem.price[a:b] <= r)
        if inside.size:
            picked[g] = a + inside[np.argmax(problem.gain[a:b][inside])]
    return picked


def most_gain_max(problem: Problem, budget: float) -> Solution:
    """Return the largest gain whose dearest part costs at most the budget."""
    picked = options_within(problem, budget)
    amount = np.minimum(problem.line_room, budget / problem.line_price)
    total = _gain(problem, picked, amount)
    return Solution(total, total, picked, amount)


def least_price_max(problem: Problem, need: float) -> Solution:
    """Return the least r such that the best options within price r together reach the need."""
    price, room = problem.price, problem.line_room
    ends = np.unique(np.concatenate(([0.0], price, problem.line_price * room)))
    ends = ends[np.isfinite(ends)]

    def total(r: float) -> float:
        return _gain(problem, options_within(problem, r), np.minimum(room, r / problem.line_price))

    low, high = 0, ends.size  # ends[high] is the first that suffices
    while low < high:
        middle = (low + high) // 2
        if total(float(ends[middle])) >= need:
            high = middle
        else:
            low = middle + 1
    r = math.inf if high == ends.size else float(ends[high])
    picked = options_within(problem, r)
    if high > 0:  # between two ends only the lines grow
        left = float(ends[high - 1])
        growing = problem.line_price * room > left
        slope = float((problem.line_gain / problem.line_price)[growing].sum())
        if slope > 0:
            r = min(r, left + (need - total(left)) / slope)
            between = high == ends.size or r < ends[high]
            picked = options_within(problem, left if between else r)
    if math.isinf(r):
        return Solution(r, r, np.full(picked.size, -1, dtype=np.int64), np.zeros(room.size))
    amount = np.minimum(room, r / problem.line_price)
    return Solution(r, r, _undo(problem, need, picked, amount), amount)


def _gain(problem: Problem, picked: IntArray, amount: FloatArray) -> float:
    return float(problem.gain[picked[picked >= 0]].sum() + (amount * problem.line_gain).sum())


def _undo(problem: Problem, need: float, picked: IntArray, amount: FloatArray) -> IntArray:
    """Take back options that are not needed, smallest gains first."""
    chosen, gain = picked.copy(), problem.gain
    have = _gain(problem, chosen, amount)
    for g in sorted(np.flatnonzero(chosen >= 0), key=lambda g: gain[chosen[g]]):
        if have - gain[chosen[g]] >= need:
            have -= gain[chosen[g]]
            chosen[g] = -1
    return chosen
