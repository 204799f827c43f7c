"""Losses in money: divided by a cap, so that they lie in [0, 1], and reported in money.

Source: docs/theory/26-people.md, "Setting of the guard".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import check_real
from counterplay.errors import InvalidInputError
from counterplay.tradeoff.adapters import label_pairs


@checked
@dataclass(frozen=True)
class Money:
    """What a missed positive and a false alarm cost, as a loss of a batch.

    Parameters
    ----------
    missed:
        Cost of a positive that was not predicted.
    false_alarm:
        Cost of a negative that was predicted positive.
    cap:
        The cost that counts as loss 1; by default the larger of the two.
    currency:
        For reports.
    positive:
        The label that must not be missed.

    Examples
    --------
    >>> money = Money(missed=500, false_alarm=20)
    >>> round(money([1, 0, 1, 0], [1, 1, 0, 0]), 3)
    0.26
    >>> money.amount(0.26, cases=4)
    '520 EUR'

    References
    ----------
    "Setting of the guard", see docs/theory/26-people.md.
    """

    missed: float
    false_alarm: float
    cap: float | None = None
    currency: str = "EUR"
    positive: Any = 1

    def __post_init__(self) -> None:
        for name in ("missed", "false_alarm"):
            check_real(getattr(self, name), name, low=0.0)
        if max(self.missed, self.false_alarm) <= 0:
            raise InvalidInputError("a loss in money needs a cost above 0")
        if self.cap is not None:
            check_real(self.cap, "cap", low=0.0, open_low=True)

    @property
    def unit(self) -> float:
        """The cost of one case that counts as loss 1."""
        return max(self.missed, self.false_alarm) if self.cap is None else self.cap

    def __call__(self, y_true: Any, y_pred: Any) -> float:
        """Return the mean cost of a case as a share of the cap, at most 1."""
        truth, guess = label_pairs(y_true, y_pred)
        cost = np.where(
            truth == self.positive,
            np.where(guess == self.positive, 0.0, self.missed),
            np.where(guess == self.positive, self.false_alarm, 0.0),
        )
        return float(min(1.0, cost.mean() / self.unit))

    def loss(self, amount: float) -> float:
        """Return an amount as a loss in [0, 1]."""
        return float(np.clip(amount / self.unit, 0.0, 1.0))

    def amount(self, loss: float, cases: int = 1) -> str:
        """Return a mean loss over some cases in money."""
        return f"{loss * self.unit * cases:,.4g} {self.currency}"
