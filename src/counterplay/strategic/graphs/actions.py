"""Named changes of a feature with a cost, and what a budget of them reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import FloatArray, check_int, check_real
from counterplay.errors import InvalidInputError


@dataclass(frozen=True)
class Action:
    """A named change of one feature with a cost.

    Parameters
    ----------
    name:
        What a person does, in words.
    column:
        The feature that changes.
    change:
        By how much, in the feature's own units.
    cost:
        What it costs, in the units of the budget.
    low:
        Smallest value the feature may take; default: the smallest seen in the data.
    high:
        Largest value the feature may take; default: the largest seen in the data.

    Examples
    --------
    >>> Action("close a card", column=1, change=-1, cost=1.0).name
    'close a card'
    """

    name: str
    column: int
    change: float
    cost: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        check_int(self.column, f"column of action {self.name!r}", low=0)
        check_real(self.change, f"change of action {self.name!r}")
        check_real(self.cost, f"cost of action {self.name!r}", low=0.0, open_low=True)
        if self.change == 0:
            raise InvalidInputError(f"action {self.name!r} changes nothing; leave it out")


def affordable(actions: Sequence[Action], budget: float, p: int) -> FloatArray:
    """Total changes of all multisets of actions within budget, without the empty one."""
    totals: list[tuple[NDArray[np.float64], float]] = [(np.zeros(p), 0.0)]
    for action in actions:
        step = np.zeros(p)
        step[action.column] = action.change
        extended = []
        for change, cost in totals:
            times = 0
            while cost + times * action.cost <= budget + 1e-12:
                extended.append((change + times * step, cost + times * action.cost))
                times += 1
            if len(extended) > 100_000:
                raise InvalidInputError(
                    "more than 100000 combinations of actions fit the budget; lower the budget"
                )
        totals = extended
    moves = np.unique(np.array([change for change, _ in totals]), axis=0)
    changed: FloatArray = moves[(moves != 0).any(axis=1)]
    return changed


def ranges(actions: Sequence[Action], X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Values that features cannot leave: those seen in X, unless an action says otherwise."""
    low, high = X.min(axis=0), X.max(axis=0)
    for action in actions:
        if action.low is not None:
            low[action.column] = action.low
        if action.high is not None:
            high[action.column] = action.high
    return low, high
