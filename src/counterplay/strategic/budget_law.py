"""The law of budgets from two samples of acceptance prices: isotonic estimate and band.

A rejected person at price t stays rejected iff her budget is below t. So the rejected after
deployment are those before it, thinned by H(t) = P(budget < t), which cannot fall. Isotonic
regression of the label "after" on the price is the estimate; exact binomial intervals of runs of
prices, spread by monotonicity, are the band.

Source: "Budgets from before and after", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats
from sklearn.isotonic import isotonic_regression

from counterplay.core.validation import BoolArray, FloatArray, IntArray

PIECES = 16


@dataclass(frozen=True, eq=False)
class BudgetLaw:
    """H(t) = P(budget < t) at the prices that were seen, with simultaneous bounds.

    Parameters
    ----------
    prices
        Different finite acceptance prices of rejected people, in order.
    values
        Estimate of H at them; it cannot fall.
    left
        First price of each run of neighbouring prices behind the band.
    right
        Last price of each run.
    low
        Lower confidence bound on the mean of H over each run.
    high
        Upper confidence bound on it.
    above_one
        Runs whose interval lies above 1: no H fits.
    """

    prices: FloatArray
    values: FloatArray
    left: FloatArray
    right: FloatArray
    low: FloatArray
    high: FloatArray
    above_one: BoolArray

    def band(self, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the bounds on H at each t; the lower one is above the upper where none fits."""
        t = tied(t)
        # H cannot fall: its mean over a run bounds it from below at and after the run's end,
        # and from above at and before the run's start.
        behind = self.right[None, :] <= t[:, None]
        ahead = self.left[None, :] >= t[:, None]
        low = np.where(behind, self.low, 0.0).max(axis=1, initial=0.0)
        high = np.where(ahead, np.minimum(self.high, 1.0), 1.0).min(axis=1, initial=1.0)
        nothing = t <= 0
        return np.where(nothing, 0.0, low), np.where(nothing, 0.0, high)

    @property
    def empty(self) -> FloatArray:
        """Prices at which no H that cannot fall fits the intervals."""
        low, high = self.band(self.prices)
        return self.prices[low > high]

    def cdf(self, t: FloatArray) -> FloatArray:
        """Return the estimate of P(budget < t), clipped into the band."""
        if not self.prices.size:
            return np.zeros(t.shape)
        t = tied(t)
        place = np.minimum(np.searchsorted(self.prices, t, "left"), self.prices.size - 1)
        low, high = self.band(t)
        estimate = np.clip(self.values[place], np.minimum(low, high), np.maximum(low, high))
        return np.where(t > 0, estimate, 0.0)


def unpaired_law(
    before: FloatArray, after: FloatArray, confidence: float, weights: FloatArray | None = None
) -> BudgetLaw:
    """Return the law of budgets from prices of two samples; ``weights`` are those of "before"."""
    mass0 = np.ones(before.size) if weights is None else weights * before.size / weights.sum()
    n0, n1 = float(before.size), float(after.size)
    prices, k0, k1 = _counts(before, after, mass0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(k0 + k1 > 0, k1 / (k0 + k1), 0.0)
        fitted = isotonic_regression(share, sample_weight=k0 + k1) if prices.size else share
        values = np.minimum(1.0, np.where(fitted < 1, fitted / (1 - fitted) * n0 / n1, 1.0))
    start, stop = _runs(prices, k0 + k1)
    c0 = np.concatenate(([0.0], np.cumsum(k0)))
    c1 = np.concatenate(([0.0], np.cumsum(k1)))
    low, high = _intervals(c1[stop] - c1[start], c0[stop] - c0[start], confidence)
    with np.errstate(divide="ignore", invalid="ignore"):
        low_ratio = np.where(low < 1, low / (1 - low), np.inf) * n0 / n1
        high_ratio = np.where(high < 1, high / (1 - high), np.inf) * n0 / n1
    return BudgetLaw(
        prices, values, prices[start], prices[stop - 1], low_ratio, high_ratio, low_ratio > 1
    )


def paired_law(prices: FloatArray, stayed: BoolArray, confidence: float) -> BudgetLaw:
    """Return the law of budgets from people seen twice: who stayed rejected at which price."""
    known, k_stay, k_moved = _counts(prices[~stayed], prices[stayed], np.ones(int((~stayed).sum())))
    k_stay, k_moved = k_moved, k_stay  # "after" are those who stayed
    total = k_stay + k_moved
    values = isotonic_regression(k_stay / total, sample_weight=total) if known.size else total
    start, stop = _runs(known, total)
    c = np.concatenate(([0.0], np.cumsum(k_stay)))
    m = np.concatenate(([0.0], np.cumsum(k_moved)))
    low, high = _intervals(c[stop] - c[start], m[stop] - m[start], confidence)
    return BudgetLaw(known, values, known[start], known[stop - 1], low, high, low > 1)


def _counts(
    before: FloatArray, after: FloatArray, mass0: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the different finite positive prices and how many of each sample have them."""
    use0, use1 = (np.isfinite(d) & (d > 0) for d in (before, after))
    pooled = np.concatenate((before[use0], after[use1]))
    prices, place = np.unique(tied(pooled), return_inverse=True)
    place = place.reshape(-1)
    k = int(use0.sum())
    k0 = np.bincount(place[:k], weights=mass0[use0], minlength=prices.size).astype(np.float64)
    k1 = np.bincount(place[k:], minlength=prices.size).astype(np.float64)
    return prices, k0, k1


def tied(prices: FloatArray) -> FloatArray:
    """Return prices with 12 digits: those that differ by rounding are one price."""
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = 10.0 ** (11 - np.floor(np.log10(np.abs(prices))))
        rounded = np.round(prices * digits) / digits
    return np.where(np.isfinite(rounded) & np.isfinite(digits), rounded, prices)


def _runs(prices: FloatArray, counts: FloatArray) -> tuple[IntArray, IntArray]:
    """Return starts and ends of dyadic runs of at most 16 pieces with about equal counts.

    Equal prices stay in one piece.
    """
    if not prices.size:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    upto = np.cumsum(counts)
    wanted = upto[-1] * np.arange(1, PIECES) / PIECES
    edges = np.unique(np.concatenate(([0], np.searchsorted(upto, wanted) + 1, [prices.size])))
    m = edges.size - 1
    starts, stops = [], []
    length = 1
    while length <= m:
        for a in range(0, m - length + 1, length):
            starts.append(edges[a])
            stops.append(edges[a + length])
        length *= 2
    if not (0 in starts and (0, prices.size) in zip(starts, stops)):  # all of it, too
        starts.append(0)
        stops.append(prices.size)
    return np.array(starts, dtype=np.int64), np.array(stops, dtype=np.int64)


def _intervals(
    successes: FloatArray, failures: FloatArray, confidence: float
) -> tuple[FloatArray, FloatArray]:
    """Return exact binomial intervals that hold together (Bonferroni over the runs)."""
    tail = (1 - confidence) / max(1, successes.size) / 2
    low = np.where(successes > 0, stats.beta.ppf(tail, successes, failures + 1), 0.0)
    high = np.where(failures > 0, stats.beta.ppf(1 - tail, successes + 1, failures), 1.0)
    return np.asarray(low), np.asarray(high)


def share_interval(
    k0: float, n0: float, k1: float, n1: float, confidence: float
) -> tuple[float, float, float]:
    """Return the difference of two shares k0/n0 - k1/n1 with Newcombe's interval."""
    z = float(stats.norm.ppf((1 + confidence) / 2))
    p0, p1 = k0 / n0, k1 / n1
    low0, high0 = _wilson(p0, n0, z)
    low1, high1 = _wilson(p1, n1, z)
    gap = p0 - p1
    low = gap - float(np.hypot(p0 - low0, high1 - p1))
    high = gap + float(np.hypot(high0 - p0, p1 - low1))
    return gap, max(low, -1.0), min(high, 1.0)


def _wilson(p: float, n: float, z: float) -> tuple[float, float]:
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * float(np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))) / (1 + z * z / n)
    return centre - half, centre + half
