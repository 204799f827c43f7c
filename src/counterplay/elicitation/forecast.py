"""What the person will answer: a finite mixture of people and ways of slipping.

The particles are the prior, so the posterior predictive is exact and no sampling error can enter a
certificate. They are drawn before the first answer and never moved.
Source: docs/theory/26-people.md, "Forecasts and questions".
"""

from __future__ import annotations

import numpy as np
from numba import njit

from counterplay.core.validation import FloatArray, IntArray

PARTICLES = 3000
LAPSE_EDGES = np.array([0, 0.01, 0.02, 0.04, 0.06, 0.09, 0.12, 0.16, 0.20, 0.25])
TEMPERATURE_EDGES = np.array([0, 0.004, 0.012, 0.03, 0.08])
LAPSES = 0.5 * (LAPSE_EDGES[1:] + LAPSE_EDGES[:-1])
TEMPERATURES = 0.5 * (TEMPERATURE_EDGES[1:] + TEMPERATURE_EDGES[:-1])
_LEAST = 1e-9  # forecasts are positive


class Forecast:
    """Posterior over particles and the noise grid, one answer at a time.

    Parameters
    ----------
    weights:
        Particles (N, k), each as likely as the others before the first answer.
    """

    def __init__(self, weights: FloatArray) -> None:
        self.weights = np.ascontiguousarray(weights)
        prior = np.exp(-8.0 * LAPSES)
        grid = np.repeat(np.log(prior / prior.sum() / len(TEMPERATURES)), len(TEMPERATURES))
        self.logs = np.tile(grid - np.log(len(weights)), (len(weights), 1))
        self._posterior: FloatArray | None = None
        self._last: tuple[bytes, FloatArray] | None = None  # options and their table

    @property
    def posterior(self) -> FloatArray:
        """Posterior (N, G) of particles and noise."""
        if self._posterior is None:
            shares = np.exp(self.logs - self.logs.max())
            self._posterior = np.asarray(shares / shares.sum())
        return self._posterior

    @property
    def shares(self) -> FloatArray:
        """Posterior (N,) of the particles."""
        return np.asarray(self.posterior.sum(axis=1))

    def predict(self, options: FloatArray) -> FloatArray:
        """Return the probability of each option being chosen; positive, with sum 1."""
        return self._mean(self._table(options))

    def update(self, options: FloatArray, chosen: int) -> float:
        """Take a choice; return the forecast that it had."""
        table = self._table(options)
        p = self._mean(table)
        self.logs = self.logs + np.log(np.maximum(table[:, :, chosen], 1e-300))
        self._posterior = None
        return float(p[chosen])

    def sample(self, n: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return ``n`` posterior draws: particle, lapse, temperature."""
        flat = np.cumsum(self.posterior.ravel())
        at = np.searchsorted(flat, rng.random(n) * flat[-1]).clip(max=flat.size - 1)
        who, how = np.divmod(at, len(LAPSES) * len(TEMPERATURES))
        lapse, temperature = np.divmod(how, len(TEMPERATURES))
        return who, LAPSES[lapse], TEMPERATURES[temperature]

    def _table(self, options: FloatArray) -> FloatArray:
        """Chances (N, G, m) of these options; an answer follows the forecast of the same ones."""
        key = np.ascontiguousarray(options).tobytes()
        if self._last is None or self._last[0] != key:
            self._last = key, _answers(self.weights, np.ascontiguousarray(options))
        return self._last[1]

    def _mean(self, table: FloatArray) -> FloatArray:
        p = np.maximum(self.posterior.ravel() @ table.reshape(-1, table.shape[2]), _LEAST)
        return np.asarray(p / p.sum())


def choice_chances(worth: FloatArray, lapse: FloatArray, temperature: FloatArray) -> FloatArray:
    """Return the chance of each of m options, worths (..., m), noise of the leading shape."""
    m = worth.shape[-1]
    scaled = worth / temperature[..., None]
    parts = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    softmax = parts / parts.sum(axis=-1, keepdims=True)
    return np.asarray(lapse[..., None] / (m - 1) + (1 - m * lapse[..., None] / (m - 1)) * softmax)


@njit(cache=True)
def _answers(weights, options):  # type: ignore[no-untyped-def]  # compiled by numba
    """Chance (N, G, m) of every option for every particle and point of the noise grid."""
    n, k = weights.shape
    m, G = len(options), LAPSES.size * TEMPERATURES.size
    result = np.empty((n, G, m))
    worth, part = np.empty(m), np.empty(m)
    for i in range(n):
        top = -np.inf
        for a in range(m):
            worth[a] = 0.0
            for j in range(k):
                worth[a] += weights[i, j] * options[a, j]
            top = max(top, worth[a])
        for t in range(TEMPERATURES.size):
            # a softmax at this temperature
            total = 0.0
            for a in range(m):
                part[a] = np.exp((worth[a] - top) / TEMPERATURES[t])
                total += part[a]
            # a lapse ticks one of the others at random
            for s in range(LAPSES.size):
                slip = LAPSES[s] / (m - 1)
                for a in range(m):
                    share = slip + (1.0 - m * slip) * part[a] / total
                    result[i, s * TEMPERATURES.size + t, a] = share
    return result
