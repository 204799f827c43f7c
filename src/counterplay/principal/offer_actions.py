"""Regret per offer when actions and their costs are known, but no states.

What an action earns is seen wherever it was taken; under each offer every action taken is compared
with every action seen anywhere. Welch limits, shared among all comparisons.
Source: Lemma 25.A, see docs/theory/25-offers.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import stdtrit

from counterplay.core.validation import FloatArray, check_open_fraction, check_real
from counterplay.errors import InvalidInputError
from counterplay.principal.offer_log import OfferLog
from counterplay.tables.cells import shown

_LEAST = 5


def action_regret(
    log: OfferLog, costs: Mapping[Any, float], level: float
) -> tuple[float, float, float, float]:
    """Return regret per round, its limits, and the stakes (gap of best and worst action seen)."""
    check_open_fraction(level, "level")
    assert log.action is not None
    names = sorted(set(log.action.tolist()), key=str)
    spent = {name: _cost(costs, name) for name in names}
    stats = {name: _moments(log.values[log.action == name]) for name in names}
    known = [name for name in names if stats[name][2] >= _LEAST]
    if len(known) < 2:
        raise InvalidInputError(f"at least two actions need {_LEAST} rows each")
    pay = log.terms.pay(log.power)
    cells = [
        (float(power), name)
        for power in np.unique(pay)
        for name in known
        if ((pay == power) & (log.action == name)).sum() >= _LEAST
    ]
    tail = (1.0 - level) / 2 / max(len(cells) * (len(known) - 1), 1)
    total = np.zeros(3)
    for power, name in cells:
        mine = log.values[(pay == power) & (log.action == name)]
        best = np.zeros(3)
        for other in known:
            if other != name:
                gap, half = _difference(stats[other], _moments(mine), tail)
                change = power * np.array([gap, gap - half, gap + half])
                best = np.maximum(best, change - spent[other] + spent[name])
        total += mine.size * best / len(log)
    worth = np.array([[p * stats[n][0] - spent[n] for n in known] for p in pay])
    stakes = float((worth.max(axis=1) - worth.min(axis=1)).mean())
    return float(total[0]), float(total[1]), float(total[2]), stakes


def _cost(costs: Mapping[Any, float], name: Any) -> float:
    if name not in costs:
        raise InvalidInputError(f"costs has no entry for the action {shown(name, 40)}")
    return check_real(costs[name], f"cost of {shown(name, 40)}")


def _moments(values: FloatArray) -> tuple[float, float, int]:
    ordered = np.sort(values)
    spread = float(ordered.var(ddof=1)) if ordered.size > 1 else 0.0
    return float(ordered.mean()), spread, int(ordered.size)


def _difference(
    one: tuple[float, float, int], two: tuple[float, float, int], tail: float
) -> tuple[float, float]:
    """Welch: difference of two means and half the width of its limits."""
    a, b = one[1] / one[2], two[1] / two[2]
    if a + b == 0.0:
        return one[0] - two[0], 0.0
    free = (a + b) ** 2 / (a**2 / max(one[2] - 1, 1) + b**2 / max(two[2] - 1, 1))
    return one[0] - two[0], float(stdtrit(free, 1.0 - tail) * np.sqrt(a + b))
