"""The forecast of the area for questions about two options, without its tables.

A server holds hundreds of these, so nothing is kept but the logarithms of the posterior: chances
of a pair are summed up while they are computed, and an answer needs those of the chosen option
only. Any forecast that was fixed before the answer keeps the certificate valid.
Source: docs/theory/26-people.md, "Forecasts and questions".
"""

from __future__ import annotations

import numpy as np
from numba import njit

from counterplay.core.validation import FloatArray, IntArray
from counterplay.elicitation.forecast import LAPSES, TEMPERATURES, Forecast

_LEAST = 1e-9  # forecasts are positive


class Posterior(Forecast):
    """Posterior over particles and the noise grid; draws and pairs at a fraction of the cost."""

    def __init__(self, weights: FloatArray) -> None:
        super().__init__(weights)
        self._sums: FloatArray | None = None

    def predict(self, options: FloatArray) -> FloatArray:
        """Return the probability of each option being chosen; positive, with sum 1."""
        if len(options) != 2:
            return super().predict(options)
        gaps = self.weights @ (options[0] - options[1])
        first = min(max(float(_chance(gaps, self.posterior)), _LEAST), 1.0 - _LEAST)
        return np.array([first, 1.0 - first])

    def learn(self, options: FloatArray, chosen: int) -> None:
        """Take a choice between two; its forecast is known already."""
        gaps = self.weights @ (options[chosen] - options[1 - chosen])
        self.logs += np.log(_shares(gaps))
        self.rest()

    def sample(self, n: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return ``n`` posterior draws: particle, lapse, temperature."""
        if self._sums is None:
            self._sums = np.cumsum(self.posterior.ravel())
        flat = self._sums
        wanted = np.sort(rng.random(n)) * flat[-1]
        at = np.searchsorted(flat, wanted).clip(max=flat.size - 1)
        who, how = np.divmod(rng.permutation(at), len(LAPSES) * len(TEMPERATURES))
        lapse, temperature = np.divmod(how, len(TEMPERATURES))
        return who, LAPSES[lapse], TEMPERATURES[temperature]

    def rest(self) -> None:
        """Forget everything that can be computed again."""
        self._posterior = self._sums = None


@njit(cache=True, nogil=True)
def _chance(gaps, posterior):  # type: ignore[no-untyped-def]  # compiled by numba
    """Chance that the first of two is chosen, whose worth exceeds the other's by the gaps."""
    total = 0.0
    for i in range(len(gaps)):
        for t in range(TEMPERATURES.size):
            # a logit at this temperature
            logit = 1.0 / (1.0 + np.exp(-gaps[i] / TEMPERATURES[t]))
            for s in range(LAPSES.size):
                # a lapse ticks the other one
                share = LAPSES[s] + (1.0 - 2.0 * LAPSES[s]) * logit
                total += posterior[i, s * TEMPERATURES.size + t] * share
    return total


@njit(cache=True, nogil=True)
def _shares(gaps):  # type: ignore[no-untyped-def]  # compiled by numba
    """Chance (N, G) of the chosen option for every particle and point of the noise grid."""
    result = np.empty((len(gaps), LAPSES.size * TEMPERATURES.size))
    for i in range(len(gaps)):
        for t in range(TEMPERATURES.size):
            logit = 1.0 / (1.0 + np.exp(-gaps[i] / TEMPERATURES[t]))
            for s in range(LAPSES.size):
                share = LAPSES[s] + (1.0 - 2.0 * LAPSES[s]) * logit
                result[i, s * TEMPERATURES.size + t] = max(share, 1e-300)
    return result
