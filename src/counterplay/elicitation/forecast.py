"""What the person will answer: a finite mixture of people and ways of slipping.

The particles are the prior, so the posterior predictive is exact and no sampling error can enter a
certificate. They are drawn before the first answer and never moved.
Source: docs/theory/26-people.md, "Forecasts and questions".
"""

from __future__ import annotations

import copy

import numpy as np
from numba import njit

from counterplay.core.validation import FloatArray, IntArray

PARTICLES = 3000
LAPSE_EDGES = np.array([0, 0.01, 0.02, 0.04, 0.06, 0.09, 0.12, 0.16, 0.20, 0.25])
TEMPERATURE_EDGES = np.array([0, 0.004, 0.012, 0.03, 0.08])
LAPSES = 0.5 * (LAPSE_EDGES[1:] + LAPSE_EDGES[:-1])
TEMPERATURES = 0.5 * (TEMPERATURE_EDGES[1:] + TEMPERATURE_EDGES[:-1])
_S, _T = len(LAPSES), len(TEMPERATURES)
_COLD = 1.0 / TEMPERATURES
_SUMS = np.hstack(  # of the grid: mass by temperature, the same weighted by the lapse, all
    [np.tile(np.eye(_T), (_S, 1)), np.kron(LAPSES[:, None], np.eye(_T)), np.ones((_S * _T, 1))]
)
_LEAST = 1e-9  # forecasts are positive
_FAR = 45.0  # differences in units of the temperature: the rest is below rounding
_NOBODY = 1e-290  # a particle whose share is smaller is kept at it


class Forecast:
    """Posterior over particles and the noise grid, one answer at a time.

    Parameters
    ----------
    weights:
        Particles (N, k), each as likely as the others before the first answer.
    """

    _sums: FloatArray | None
    """Mass (N, T) of every particle and temperature, weighted by the lapse, and in all."""
    _last: tuple[FloatArray, FloatArray] | None
    """The options of the last forecast, and the forecast."""

    def __init__(self, weights: FloatArray) -> None:
        self.weights = np.ascontiguousarray(weights)
        prior = np.exp(-8.0 * LAPSES)
        grid = np.repeat(prior / prior.sum() / len(TEMPERATURES), len(TEMPERATURES))
        self.posterior = np.tile(grid / len(weights), (len(weights), 1))
        """Posterior (N, G) of particles and noise."""
        self.rest()

    def copy(self) -> Forecast:
        """Return a forecast that takes answers of its own."""
        other = copy.copy(self)
        other.posterior = self.posterior.copy()
        return other

    @property
    def shares(self) -> FloatArray:
        """Posterior (N,) of the particles."""
        return np.ascontiguousarray(self._summed()[:, -1])

    def predict(self, options: FloatArray) -> FloatArray:
        """Return the probability of each option being chosen; positive, with sum 1."""
        order = np.lexsort(options.T)  # whatever the order in which they are shown
        same = np.ascontiguousarray(options[order])
        if self._last is None or not np.array_equal(self._last[0], same):
            p = np.maximum(_chances(_softmax(self.weights, same), self._summed()), _LEAST)
            self._last = same, p / p.sum()
        result = np.empty(len(options))
        result[order] = self._last[1]
        return result

    def update(self, options: FloatArray, chosen: int) -> float:
        """Take a choice; return the forecast that it had."""
        p = float(self.predict(options)[chosen])
        self.learn(options, chosen)
        return p

    def learn(self, options: FloatArray, chosen: int) -> None:
        """Take a choice whose forecast is known already."""
        _multiply(self.posterior, _softmax(self.weights, options)[chosen], 1 / (len(options) - 1))
        self.rest()
        sums = self._summed()
        scale = 1.0 / float(sums[:, -1].sum())
        _scale(self.posterior, scale)
        sums *= scale

    def rest(self) -> None:
        """Forget everything that can be computed again."""
        self._sums = self._last = None

    def people(self, n: int, rng: np.random.Generator) -> IntArray:
        """Return the particles of ``n`` posterior draws."""
        return self._draw(n, rng)[0]

    def sample(self, n: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return ``n`` posterior draws: particle, lapse, temperature."""
        who, rest = self._draw(n, rng)
        lapse, temperature = np.divmod(_within(self.posterior, who, rest), len(TEMPERATURES))
        return who, LAPSES[lapse], TEMPERATURES[temperature]

    def _draw(self, n: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Particles of draws, and how far into the share of its particle each of them falls."""
        shares = self.shares
        reached = np.cumsum(shares)
        wanted = rng.random(n) * reached[-1]
        who = _places(reached, wanted)
        return who, wanted - (reached[who] - shares[who])

    def _summed(self) -> FloatArray:
        """The posterior summed up over lapses: all that a forecast needs."""
        if self._sums is None:
            self._sums = self.posterior @ _SUMS
        return self._sums


def choice_chances(worth: FloatArray, lapse: FloatArray, temperature: FloatArray) -> FloatArray:
    """Return the chance of each of m options, worths (..., m), noise of the leading shape."""
    m = worth.shape[-1]
    scaled = worth / temperature[..., None]
    parts = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    softmax = parts / parts.sum(axis=-1, keepdims=True)
    return np.asarray(lapse[..., None] / (m - 1) + (1 - m * lapse[..., None] / (m - 1)) * softmax)


def _softmax(weights: FloatArray, options: FloatArray) -> FloatArray:
    """Chance (m, N, T) of every option for particles that never lapse."""
    worth = options @ weights.T
    gap = (worth - worth.max(axis=0))[:, :, None] * _COLD
    part = np.exp(np.maximum(gap, -_FAR))  # beside a lapse one far behind is nothing
    return np.asarray(part / part.sum(axis=0))


@njit(cache=True, nogil=True)
def _chances(part, sums):  # type: ignore[no-untyped-def]  # compiled by numba
    """Chance (m,) of every option, for the posterior summed up over lapses."""
    m = len(part)
    result = np.zeros(m)
    others = 1.0 / (m - 1)
    for a in range(m):
        for i in range(len(sums)):
            for t in range(_T):
                # a lapse ticks one of the others at random
                slip = sums[i, _T + t] * others
                result[a] += slip + (sums[i, t] - m * slip) * part[a, i, t]
    return result


@njit(cache=True, nogil=True)
def _multiply(posterior, likely, others):  # type: ignore[no-untyped-def]
    """Multiply the posterior by the chances (N, T) of what was chosen.

    A lapse ticks one of the others, each with the share ``others``.
    """
    cells = posterior.reshape((len(posterior), _S, _T))
    for i in range(len(posterior)):
        for s in range(_S):
            slip = LAPSES[s] * others
            rest = 1.0 - slip - LAPSES[s]
            for t in range(_T):
                cells[i, s, t] *= slip + rest * likely[i, t]


@njit(cache=True, nogil=True)
def _scale(posterior, scale):  # type: ignore[no-untyped-def]
    """Normalise; nobody falls out altogether."""
    flat = posterior.ravel()
    for i in range(flat.size):
        share = flat[i] * scale
        flat[i] = share if share > _NOBODY else _NOBODY


@njit(cache=True, nogil=True)
def _within(posterior, who, rest):  # type: ignore[no-untyped-def]
    """The first point of the noise grid where the sum of a particle's row reaches the rest."""
    result = np.empty(len(who), np.int64)
    for i in range(len(who)):
        row = posterior[who[i]]
        place, reached = 0, row[0]
        while reached < rest[i] and place < row.size - 1:
            place += 1
            reached += row[place]
        result[i] = place
    return result


@njit(cache=True, nogil=True)
def _places(reached, wanted):  # type: ignore[no-untyped-def]
    """The first place where the sums reach each number, as ``np.searchsorted`` finds it."""
    n = len(reached)
    # where to begin to look, for numbers of every n-th part of the range
    start = np.empty(n + 1, np.int64)
    place = 0
    for g in range(n + 1):
        while place < n - 1 and reached[place] < reached[-1] * g / n:
            place += 1
        start[g] = place
    result = np.empty(len(wanted), np.int64)
    for i in range(len(wanted)):
        place = start[min(int(n * wanted[i] / reached[-1]), n)]
        while place > 0 and reached[place - 1] >= wanted[i]:
            place -= 1
        while place < n - 1 and reached[place] < wanted[i]:
            place += 1
        result[i] = place
    return result
