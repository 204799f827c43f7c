"""The minimax step round after round: it starts from the forecasts that did well before.

Source: Proposition 7.A, see docs/theory/07-principal.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.principal.minimax import ForecastLottery, Method, minimax_step


class WarmMinimax:
    """Solves the step of every round, beginning with the last forecast and the last lottery."""

    def __init__(self, n_outcomes: int, method: Method, max_evaluations: int) -> None:
        self.n_outcomes = n_outcomes
        self.method: Method = method
        self.max_evaluations = max_evaluations
        self._seeds = np.full((1, n_outcomes), 1.0 / n_outcomes)
        self._support = np.empty((0, n_outcomes))

    def solve(
        self,
        gain: Callable[[FloatArray], FloatArray],
        first: FloatArray | None,
        tolerance: float,
        *,
        near: bool,
    ) -> ForecastLottery:
        """Return the lottery; ``first`` (a base's forecast) is looked at before all others."""
        seeds = self._seeds
        if first is not None:
            seeds = np.vstack([first, seeds[(seeds != first).any(axis=1)]])
        return minimax_step(
            gain, self.n_outcomes, tolerance, seeds, near, self.method, self.max_evaluations
        )

    def remember(self, point: FloatArray, lottery: ForecastLottery) -> None:
        """Keep the drawn forecast, then the support of the last round that needed several."""
        if len(lottery.points) > 1:
            self._support = lottery.points
        if not len(self._support):
            self._seeds = point[None, :].copy()
            return
        others = self._support[(self._support != point).any(axis=1)]
        self._seeds = np.vstack([point, others])
