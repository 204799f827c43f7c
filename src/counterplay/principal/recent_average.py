"""The practical forecaster: averages over many windows, weighted by how well they have done.

Every average forgets at its own rate (a running mean does not forget). Exponential weights on the
log loss with a fixed share find the rate that fits now, and find another one when times change.
Source: Herbster and Warmuth (1998); docs/theory/25-offers.md, "Recent averages".
"""

from __future__ import annotations

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, check_fraction
from counterplay.errors import InvalidInputError
from counterplay.principal.baselines import _PointForecaster

DECAYS = (0.0, 0.5, 0.25, 0.12, 0.06, 0.03, 0.015, 0.0075)
UNIFORM = 0.02


@checked
class RecentAverage(_PointForecaster):
    """Recent relative frequencies; the window is learned. A good base for most series.

    Parameters
    ----------
    n_outcomes:
        Number of outcomes; set by the forecaster or mechanism that uses it as a base.
    decays:
        Rates of forgetting; 0 is the running mean.
    share:
        Weight that moves to all averages in every round, so that none is lost.

    Examples
    --------
    >>> forecaster = RecentAverage(2)
    >>> for outcome in [0] * 50 + [1] * 50:
    ...     _ = forecaster.learn_one(outcome)
    >>> bool(forecaster.predict_one()[1] > 0.9)
    True

    References
    ----------
    "Recent averages", see docs/theory/25-offers.md; Herbster and Warmuth (1998), Tracking the best
    expert.
    """

    def __init__(
        self,
        n_outcomes: int | None = None,
        *,
        decays: tuple[float, ...] = DECAYS,
        share: float = 0.01,
    ) -> None:
        self.n_outcomes = n_outcomes
        self.decays = decays
        self.share = share

    def _reset(self) -> None:
        super()._reset()
        if not self.decays:
            raise InvalidInputError("decays must name at least one rate")
        self._rates = np.array([check_fraction(decay, "decays") for decay in self.decays])
        check_fraction(self.share, "share")
        self._means = np.full((self._rates.size, self._n), 1.0 / self._n)
        self._weights = np.full(self._rates.size, 1.0 / self._rates.size)

    def _mixed(self) -> FloatArray:
        """Every average with two percent of the uniform forecast, so that log losses are finite."""
        return np.asarray((1.0 - UNIFORM) * self._means + UNIFORM / self._n)

    def _point(self, context: object) -> FloatArray:
        point = self._weights @ self._mixed()
        return np.asarray(point / point.sum())

    def _learn(self, y: int) -> None:
        self._weights *= self._mixed()[:, y]  # exponential weights on the log loss
        self._weights /= self._weights.sum()
        self._weights += self.share * (1.0 / self._weights.size - self._weights)
        step = np.where(self._rates > 0, self._rates, 1.0 / (self.rounds_ + 2.0))[:, None]
        self._means *= 1.0 - step
        self._means[:, y] += step[:, 0]
