"""Independent references for additive scores: all combinations, a knapsack, a beam."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

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


def goals(value: Any, setting: Mapping[str, Any], known: Sequence[Any], most: float) -> list[Any]:
    """Price and goal of every change of one cell that costs at most ``most``, staying first."""
    found = {value: 0.0}
    if "step" in setting:
        step = setting["step"] * (-1 if setting["direction"] == "down" else 1)
        for k in range(1, int(most / setting["cost"] + 1e-9) + 1):
            goal = value + k * step
            if setting.get("low", -np.inf) <= goal <= setting.get("high", np.inf):
                found[goal] = k * setting["cost"]
    elif "switch" in setting:  # one switch after another: prices add up
        todo = [value]
        while todo:
            here = todo.pop()
            for goal, price in setting["switch"].get(here, {}).items():
                if found[here] + price < found.get(goal, most + 1e-9):
                    found[goal] = found[here] + price
                    todo.append(goal)
    else:
        found |= {goal: setting["cost"] for goal in known if goal != value}
    return [(price, goal) for goal, price in found.items()]


def menus(
    model: Any, frame: pd.DataFrame, rows: Any, movable: Mapping[str, Any], most: float,
    codes: Sequence[float] = (), reference: pd.DataFrame | None = None,
) -> list[tuple[float, list[list[Option]]]]:  # fmt: skip
    """Score and options of some people under a score that is a sum over columns.

    The part of a column is read off one row of the table, asked with every value it can have.
    """
    given = frame if reference is None else reference
    scores = model.decision_function(frame.iloc[rows])
    found: list[tuple[float, list[list[Option]]]] = [(float(s), []) for s in scores]
    for name, setting in movable.items():
        known = sorted(given[name].unique().tolist())
        cells = [
            [(0.0, v)]
            if v in codes
            else [(p, g) for p, g in goals(v, setting, known, most) if g == v or g not in codes]
            for v in frame[name].iloc[rows].tolist()
        ]
        asked = list(dict.fromkeys(goal for cell in cells for _, goal in cell))
        copies = pd.concat([frame.iloc[[0]]] * len(asked), ignore_index=True).assign(
            **{name: asked}
        )
        part = dict(zip(asked, model.decision_function(copies).tolist()))
        for (_, options), cell in zip(found, cells):
            options.append([(price, part[goal] - part[cell[0][1]]) for price, goal in cell])
    return found
