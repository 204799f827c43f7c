"""Independent references for additive scores: all combinations, a knapsack, a beam."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Option = tuple[float, float]  # price, gain in score; staying is (0, 0)
GRID, WIDTH, CHANGED = 40, 3, 4


def brute_force(options: Sequence[Sequence[Option]], budget: float) -> float:
    """Largest gain over all combinations within the budget."""
    price, gain = np.zeros(1), np.zeros(1)
    for column in options:  # all sums of prices and of gains, in the same order
        price = np.add.outer(price, [p for p, _ in column]).ravel()
        gain = np.add.outer(gain, [g for _, g in column]).ravel()
    return float(gain[price <= budget * (1 + 1e-9)].max())


def knapsack(options: Sequence[Sequence[Option]], budget: float, *, down: bool) -> float:
    """Largest gain with prices rounded to a fortieth of the budget, down or up."""
    best = np.zeros(GRID + 1)  # V_0 = 0 at every rest of the budget
    for column in options:
        new = np.full(GRID + 1, -np.inf)
        for price, gain in column:
            share = price / budget * GRID
            steps = math.floor(share + 1e-9) if down else math.ceil(share - 1e-9)
            if steps <= GRID:
                new[steps:] = np.maximum(new[steps:], best[: GRID + 1 - steps] + gain)
        best = new
    return float(best[-1])


def beam(options: Sequence[Sequence[Option]], budget: float) -> float:
    """Gain of a beam search over options: width 3, at most 4 changed columns."""
    states: list[tuple[float, float, frozenset[int]]] = [(0.0, 0.0, frozenset())]
    best = 0.0
    for _ in range(CHANGED):
        grown = {
            (gain + g, spent + price, used | {j})
            for gain, spent, used in states
            for j, column in enumerate(options)
            if j not in used
            for price, g in column
            if g > 0 and spent + price <= budget * (1 + 1e-9)
        }
        if not grown:
            break
        states = sorted(grown, key=lambda s: (-s[0], s[1]))[:WIDTH]
        best = max(best, states[0][0])
    return best
