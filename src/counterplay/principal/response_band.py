"""A confidence band for a response that rises with the incentive, tried and untried offers at once.

If the response f never falls with the power of the incentive, the mean of f over a run of
neighbouring offers is at most f at the strongest of them and at least f at the weakest. Limits for
the means of all runs that hold together therefore bound f everywhere between. An empty band is a
rejection of "f never falls".
Source: Proposition 25.C, see docs/theory/25-offers.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_float_array,
    check_open_fraction,
    check_real,
    check_same_shape,
    check_size,
)
from counterplay.errors import InvalidInputError
from counterplay.principal.offer_groups import Groups, group_rows

DRAWS = 4000
_CELLS = 2_000_000
LARGEST = 1e100
"""Largest power or outcome: squares must be numbers."""


@dataclass(frozen=True)
class Blocks:
    """All runs ``first..last`` of neighbouring groups with weight, mean and standard error."""

    first: IntArray
    last: IntArray
    weight: FloatArray
    mean: FloatArray
    se: FloatArray
    skew: FloatArray

    @classmethod
    def of(cls, groups: Groups, *, shaped: bool) -> Blocks:
        """Return the runs of the groups; only single groups where there is no order."""
        k = len(groups)
        first, last = np.triu_indices(k) if shaped else (np.arange(k), np.arange(k))
        total = _between(groups.weight[None, :], first, last)[0]
        mean = _between((groups.weight * groups.mean)[None, :], first, last)[0] / total
        # variance of sum_i w_i mean_i: the block of the weighted covariance matrix, summed
        weighted = groups.weight[:, None] * groups.cov * groups.weight[None, :]
        corner = np.zeros((k + 1, k + 1))
        corner[1:, 1:] = weighted.cumsum(axis=0).cumsum(axis=1)
        hi, lo = last + 1, first
        variance = corner[hi, hi] - corner[lo, hi] - corner[hi, lo] + corner[lo, lo]
        units = _between(groups.units[None, :], first, last)[0]
        se = np.sqrt(np.maximum(variance, 0.0)) / total
        return cls(first, last, total, mean, se, groups.skew / np.sqrt(units))

    def limits(self, q: float) -> tuple[FloatArray, FloatArray]:
        """Limits at critical value ``q``, corrected for skewness (Hall 1992)."""
        return self.mean - _hall(q, self.skew) * self.se, self.mean - _hall(-q, self.skew) * self.se


def _hall(x: float, A: FloatArray) -> FloatArray:
    """The inverse of T + A T^2/3 + A^2 T^3/27 + A/6; x itself where A is zero."""
    safe = np.where(np.abs(A) < 1e-9, 1.0, A)
    bent = 3.0 / safe * (np.cbrt(1.0 + safe * (x - safe / 6.0)) - 1.0)
    return np.where(np.abs(A) < 1e-9, x, bent)


def _between(values: FloatArray, first: IntArray, last: IntArray) -> FloatArray:
    """Sums of the columns first..last of every row."""
    sums = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return np.asarray(sums[:, last + 1] - sums[:, first])


def critical_maxima(
    groups: Groups, *, shaped: bool, draws: int, rng: np.random.Generator
) -> FloatArray:
    """Draws of the largest |noise| / standard error over all runs, sorted.

    Group means get normal noise with their own covariance; the standard errors are as uncertain as
    variances with the groups' degrees of freedom are (chi-square, or Wishart for shared agents).
    """
    k = len(groups)
    if not groups.is_diagonal:
        return _clustered_maxima(groups, shaped=shaped, draws=draws, rng=rng)
    spread = groups.weight * np.sqrt(np.diag(groups.cov))
    noise = rng.standard_normal((draws, k)) * spread
    square = spread**2 * rng.chisquare(groups.dof, (draws, k)) / groups.dof
    worst = np.zeros(draws)
    if not shaped:
        return np.sort(np.sqrt(_ratio(noise**2, square).max(axis=1)))
    ones = np.zeros((draws, k + 1)), np.zeros((draws, k + 1))
    np.cumsum(noise, axis=1, out=ones[0][:, 1:])
    np.cumsum(square, axis=1, out=ones[1][:, 1:])
    for a in range(k):  # all runs that start at group a
        top = ones[0][:, a + 1 :] - ones[0][:, [a]]
        low = ones[1][:, a + 1 :] - ones[1][:, [a]]
        np.maximum(worst, _ratio(top**2, low).max(axis=1), out=worst)
    return np.sort(np.sqrt(worst))


def _ratio(top: FloatArray, low: FloatArray) -> FloatArray:
    """Quotients; 0 where nothing varies."""
    return np.asarray(np.where(low > 0.0, top / np.where(low > 0.0, low, 1.0), 0.0))


def _clustered_maxima(
    groups: Groups, *, shaped: bool, draws: int, rng: np.random.Generator
) -> FloatArray:
    """As above when agents appear under several offers: the covariance is a Wishart draw."""
    k, dof = len(groups), int(groups.dof.min())
    weighted = groups.weight[:, None] * groups.cov * groups.weight[None, :]
    values, vectors = np.linalg.eigh(weighted)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    first, last = np.triu_indices(k) if shaped else (np.arange(k), np.arange(k))
    worst = np.empty(draws)
    size = max(1, _CELLS // (first.size * k))  # draws that fit in memory together
    for begin in range(0, draws, size):
        n = min(size, draws - begin)
        noise = rng.standard_normal((n, k)) @ root.T
        # Bartlett: root A has the covariance of dof draws; its row sums over a run square to it
        A = np.tril(rng.standard_normal((n, k, k)), -1)
        free = np.maximum(dof - np.arange(k), 1)
        A[:, np.arange(k), np.arange(k)] = np.sqrt(rng.chisquare(free, (n, k)))
        spread = np.zeros((n, k + 1, k))
        np.cumsum(root @ A, axis=1, out=spread[:, 1:])
        square = ((spread[:, last + 1] - spread[:, first]) ** 2).sum(axis=2) / dof
        gap = _between(noise, first, last)
        worst[begin : begin + n] = (gap**2 / np.maximum(square, 1e-300)).max(axis=1)
    return np.sort(np.sqrt(worst))


@dataclass(frozen=True)
class ResponseBand:
    """Limits for the response at every power, from :func:`response_band`.

    ``monotone`` is False when no rising response fits; the limits then are those of each group
    alone, and untried offers are unknown.
    """

    groups: Groups
    blocks: Blocks
    level: float
    floor: float
    ceiling: float
    slack: float = 0.0
    shaped: bool = True
    maxima: FloatArray | None = field(default=None, repr=False)
    """Sorted draws behind the critical value; None where limits are exact."""

    @cached_property
    def critical(self) -> float:
        """Critical value of all runs together; NaN where limits are exact."""
        if self.maxima is None:
            return float("nan")
        place = int(np.ceil(self.level * (self.maxima.size + 1))) - 1
        return float(self.maxima[min(place, self.maxima.size - 1)])

    @cached_property
    def limits(self) -> tuple[FloatArray, FloatArray]:
        """Limits of every run at the level."""
        return self._limits(1.0 - self.level)

    def _limits(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        if self.maxima is None:
            low, high = _exact_limits(self.groups, self.blocks, alpha)
        else:
            low, high = self.blocks.limits(self._quantile(alpha))
        return np.maximum(low, self.floor), np.minimum(high, self.ceiling)

    def _quantile(self, alpha: float) -> float:
        assert self.maxima is not None
        if alpha == 1.0 - self.level:
            return self.critical
        place = int(np.ceil((1.0 - alpha) * (self.maxima.size + 1))) - 1
        return float(self.maxima[min(max(place, 0), self.maxima.size - 1)])

    @cached_property
    def monotone(self) -> bool:
        """Whether a response that never falls fits; True where there is no order to test."""
        return not self.shaped or not self._empty(1.0 - self.level)

    @cached_property
    def p_value(self) -> float:
        """Smallest level at which "the response never falls" is rejected; at least 1/4001."""
        if not self.shaped or len(self.groups) < 2:
            return 1.0
        low, high = 1.0 / (DRAWS + 1), 1.0
        if self._empty(low):
            return low
        if not self._empty(high - 1e-12):
            return 1.0
        for _ in range(30):  # emptiness grows with alpha
            middle = np.sqrt(low * high)
            low, high = (low, middle) if self._empty(middle) else (middle, high)
        return float(high)

    def _empty(self, alpha: float) -> bool:
        low, high = self._limits(alpha)
        tried = np.unique(np.concatenate([self.groups.high, self.groups.low]))
        return bool((self._lower(tried, low) > self._upper(tried, high) + 1e-9 * self._scale).any())

    @property
    def _scale(self) -> float:
        return float(np.abs(self.groups.mean).max())

    def lower(self, powers: Any) -> FloatArray:
        """Lower limits at the powers; the floor where nothing is known."""
        s = np.atleast_1d(np.asarray(powers, dtype=np.float64))
        if not self.shaped or not self.monotone:
            return self._alone(s, self.limits[0], self.floor)
        return self._lower(s, self.limits[0])

    def upper(self, powers: Any) -> FloatArray:
        """Upper limits at the powers; the ceiling (infinite by default) where nothing is known."""
        s = np.atleast_1d(np.asarray(powers, dtype=np.float64))
        if not self.shaped or not self.monotone:
            return self._alone(s, self.limits[1], self.ceiling)
        return self._upper(s, self.limits[1])

    def _alone(self, s: FloatArray, limits: FloatArray, unknown: float) -> FloatArray:
        """Limits of the group of a single power; nothing is said about other powers."""
        own = limits[self.blocks.first == self.blocks.last]
        at = self._own_group(s)
        return np.where(at >= 0, own[np.maximum(at, 0)], unknown)

    def _own_group(self, s: FloatArray) -> IntArray:
        """The group that consists of this very power, or -1."""
        at = np.minimum(np.searchsorted(self.groups.high, s), len(self.groups) - 1)
        same = (self.groups.low[at] == s) & (self.groups.high[at] == s)
        return np.where(same, at, -1)

    def _lower(self, s: FloatArray, limits: FloatArray) -> FloatArray:
        # the best run that ends at group b, then the best of all ends up to b
        ends = np.full(len(self.groups), -np.inf)
        np.maximum.at(ends, self.blocks.last, limits)
        if self.slack > 0.0:
            return self._slackened(s, limits, ends, sign=1.0)
        best = np.concatenate([[-np.inf], np.maximum.accumulate(ends)])
        found = best[np.searchsorted(self.groups.high, s, side="right")]
        return np.asarray(np.maximum(found, self.floor))

    def _upper(self, s: FloatArray, limits: FloatArray) -> FloatArray:
        starts = np.full(len(self.groups), np.inf)
        np.minimum.at(starts, self.blocks.first, limits)
        if self.slack > 0.0:
            return self._slackened(s, limits, starts, sign=-1.0)
        best = np.concatenate([np.minimum.accumulate(starts[::-1])[::-1], [np.inf]])
        found = best[np.searchsorted(self.groups.low, s, side="left")]
        return np.asarray(np.minimum(found, self.ceiling))

    def _slackened(
        self, s: FloatArray, limits: FloatArray, ends: FloatArray, sign: float
    ) -> FloatArray:
        """Limits when answers are best up to ``slack``: far runs speak, near ones say little."""
        edge = self.groups.high if sign > 0 else self.groups.low
        gap = sign * (s[:, None] - edge[None, :])
        with np.errstate(divide="ignore"):
            room = np.where(gap > 0, 2.0 * self.slack / np.where(gap > 0, gap, 1.0), np.inf)
        if sign > 0:
            found = np.maximum((ends[None, :] - room).max(axis=1), self.floor)
            return np.asarray(np.maximum(found, self._alone(s, limits, -np.inf)))
        found = np.minimum((ends[None, :] + room).min(axis=1), self.ceiling)
        return np.asarray(np.minimum(found, self._alone(s, limits, np.inf)))

    def visible_fall(self) -> float:
        """Fall between neighbours, as a share of the mean, that four of five such logs reject."""
        if not self.shaped or len(self.groups) < 2:
            return float("nan")
        se = np.sqrt(np.diag(self.groups.cov))
        q = 2.0 if self.maxima is None else self.critical
        if self.maxima is None:
            own = self.blocks.first == self.blocks.last
            low, high = self.limits
            q = float(np.median((high - low)[own] / (2 * np.maximum(se, 1e-300))))
        both = q * (se[1:] + se[:-1]) + 0.84 * np.hypot(se[1:], se[:-1])
        return float(np.median(both) / max(self._scale, 1e-300))


def _exact_limits(groups: Groups, blocks: Blocks, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Clopper-Pearson limits of every run, shared equally among the runs (Bonferroni)."""
    from scipy.stats import beta

    tail = alpha / blocks.mean.size / 2.0
    n = np.rint(blocks.weight)
    hits = np.rint(blocks.mean / groups.unit * n)
    with np.errstate(invalid="ignore"):
        low = np.where(hits > 0, beta.ppf(tail, hits, n - hits + 1), 0.0)
        high = np.where(hits < n, beta.ppf(1.0 - tail, hits + 1, n - hits), 1.0)
    return groups.unit * low, groups.unit * high


@checked(nonfinite=("ceiling",))
def response_band(
    power: FloatArray,
    outcome: FloatArray,
    *,
    agent: IntArray | None = None,
    stratum: IntArray | None = None,
    level: float = 0.95,
    floor: float = 0.0,
    ceiling: float = float("inf"),
    slack: float = 0.0,
    shaped: bool = True,
    random_state: RandomState = 0,
) -> ResponseBand:
    """Band for the mean outcome at every power, all powers at once.

    Parameters
    ----------
    power:
        Power of the incentive in each row.
    outcome:
        Outcome of each row.
    agent:
        Code of the agent of each row: rows of one agent are not independent.
    stratum:
        Code of the stratum of each row: offers are compared within strata.
    level:
        Confidence of the whole band.
    floor:
        Smallest possible mean.
    ceiling:
        Largest possible mean; the upper limit above the strongest offer.
    slack:
        Money per round by which answers may miss the best one.
    shaped:
        Whether the response never falls with the power; False for arms.
    random_state:
        Seed of the critical value.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> share = np.repeat([0.1, 0.4], 100)
    >>> band = response_band(share, rng.normal(np.where(share < 0.3, 50.0, 90.0), 10.0))
    >>> bool(band.lower(0.1)[0] <= 50 <= band.upper(0.1)[0]), bool(band.upper(0.25)[0] > 90)
    (True, True)
    >>> float(band.upper(0.5)[0])
    inf
    """
    s = check_float_array(power, "power", ndim=1)
    m = check_float_array(outcome, "outcome", ndim=1)
    check_same_shape(s, m, ("power", "outcome"))
    check_open_fraction(level, "level")
    check_real(slack, "slack", low=0.0)
    for name, values in (("power", s), ("outcome", m)):
        check_size(float(np.abs(values).max(initial=0.0)), LARGEST, f"units of {name}")
    if s.size == 0:
        raise InvalidInputError("power and outcome must not be empty")
    groups = group_rows(s, m, agent=agent, stratum=stratum, shaped=shaped)
    exact = groups.is_binary and agent is None and stratum is None
    top = min(ceiling, groups.unit) if exact else ceiling
    maxima = None
    if not exact:
        rng = generator(random_state)
        maxima = critical_maxima(groups, shaped=shaped, draws=DRAWS, rng=rng)
    blocks = Blocks.of(groups, shaped=shaped)
    return ResponseBand(groups, blocks, level, floor, top, slack, shaped, maxima)
