"""Do labels change under a map? Exact binomial statements on disjoint tuples of rows.

Each repeat draws its own transformations, coins and order of rows. Medians over repeats, with half
the level, hold whatever the dependence between repeats is.
Source: docs/theory/22-symmetry.md, "The matched-neighbour test".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from counterplay.core.validation import FloatArray, IntArray
from counterplay.invariance.matched_neighbours import (
    Geometry,
    Tuples,
    geometry,
    landing,
    match,
    one_per_cluster,
    testable,
)

# What one repeat needs: rows in, their images, which element moved each (-1: not listed).
Mover = Callable[[IntArray, np.random.Generator], tuple[FloatArray, IntArray]]
LEAST_TUPLES = 30
LEAST_SHARE = 0.02


@dataclass(frozen=True)
class Repeat:
    """Counts of one repeat; ``far`` and ``near`` are the tuples of the two passes.

    For classes the losses are 0 or 1; for numbers they are half the squared differences divided by
    the variance of all labels, and ``scale`` is the largest of them that is possible.
    """

    far: Tuples
    near: Tuples
    across: FloatArray  # far pass: labels of i and j
    natural: FloatArray  # far pass: labels of c and q
    near_across: FloatArray
    near_natural: FloatArray
    share: float
    fixed: float
    scale: float = 1.0
    conflicts: Counter[tuple[int, int]] = field(default_factory=Counter)
    elements: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    pick: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # rows compared
    labels: tuple[tuple[Any, Any], ...] = ()  # of i and j, far pass

    @property
    def p_value(self) -> float:
        """Sign test: differences across the map against natural ones, on the far pass."""
        more = int((self.across > self.natural).sum())
        less = int((self.across < self.natural).sum())
        return float(stats.binom.sf(more - 1, more + less, 0.5)) if more + less else 1.0

    def low(self, tail: float) -> float:
        """Lower bound of the violation rate; each of its two parts fails with chance ``tail``."""
        if not len(self.far):
            return 0.0
        if self.scale != 1.0:
            return max(
                0.0, _mean_bound(self.across - self.natural, -self.scale, self.scale, tail)[0]
            )
        only, other = self._discordant(self.across, self.natural)
        m = len(self.far)
        return max(0.0, _cp_low(only, m, tail) - _cp_up(other, m, tail))

    def high(self, tail: float) -> float:
        """Upper bound of the violation rate under the three assumptions."""
        if not len(self.near):
            return 1.0
        if self.scale != 1.0:
            gap = self.near_across - self.near_natural
            return float(np.clip(_mean_bound(gap, -self.scale, self.scale, tail)[1], 0.0, None))
        only, other = self._discordant(self.near_across, self.near_natural)
        m = len(self.near)
        return float(np.clip(_cp_up(only, m, tail) - _cp_low(other, m, tail), 0.0, 1.0))

    def safe(self, tail: float) -> float:
        """Upper bound of the violation rate for any label noise."""
        m = len(self.far)
        if not m:
            return 1.0
        apart = self.far.d > 0
        if self.scale != 1.0:
            terms = 2 * self.across, 2 * np.where(apart, self.natural, 0.0)
            both = [_mean_bound(term, 0.0, 2 * self.scale, tail)[1] for term in terms]
            return both[0] + (both[1] if apart.any() else 0.0)
        second = _cp_up(int(self.natural[apart].sum()), m, tail) if apart.any() else 0.0
        return min(1.0, _cp_up(int(self.across.sum()), m, tail) + second)

    def points(self) -> tuple[float, float]:
        """Point estimates of the two passes."""
        far = float((self.across - self.natural).mean()) if len(self.far) else 0.0
        near = float((self.near_across - self.near_natural).mean()) if len(self.near) else 1.0
        return far, near

    @staticmethod
    def _discordant(first: FloatArray, second: FloatArray) -> tuple[int, int]:
        return int((first > second).sum()), int((first < second).sum())


@dataclass(frozen=True)
class LabelTest:
    """All repeats, and what follows from their medians."""

    repeats: tuple[Repeat, ...]

    @property
    def p_value(self) -> float:
        """Twice the median (one repeat: its own p-value); valid for any dependence."""
        factor = 1.0 if len(self.repeats) == 1 else 2.0
        return min(1.0, factor * _upper([r.p_value for r in self.repeats]))

    @property
    def n_tuples(self) -> int:
        """Median number of tuples of the far pass."""
        return int(np.median([len(r.far) for r in self.repeats]))

    @property
    def share(self) -> float:
        """Mean share of moved rows that are testable."""
        return float(np.mean([r.share for r in self.repeats]))

    @property
    def fixed(self) -> float:
        """Mean share of rows that the drawn map leaves as they are."""
        return float(np.mean([r.fixed for r in self.repeats]))

    @property
    def testable(self) -> bool:
        """Whether the rows can say anything; decided without labels."""
        return self.n_tuples >= LEAST_TUPLES and self.share >= LEAST_SHARE

    def tail(self, alpha: float) -> float:
        """Chance that one Clopper-Pearson bound fails."""
        return alpha / 4 if len(self.repeats) == 1 else alpha / 8

    def low(self, alpha: float) -> float:
        """Lower bound of the violation rate at level alpha."""
        return -_upper([-r.low(self.tail(alpha)) for r in self.repeats])

    def high(self, alpha: float) -> float:
        """Upper bound of the violation rate at level alpha, under the three assumptions."""
        return _upper([r.high(self.tail(alpha)) for r in self.repeats])

    def safe(self, alpha: float) -> float:
        """Upper bound of the violation rate at level alpha for any label noise."""
        return _upper([r.safe(self.tail(alpha)) for r in self.repeats])

    def points(self) -> tuple[float, float]:
        """Median point estimates of the two passes, smaller one first."""
        both = np.median([r.points() for r in self.repeats], axis=0)
        return float(both.min()), float(both.max())

    def safe_p_value(self, eta0: float) -> float:
        """Smallest level at which the safe bound is below ``eta0``: p-value of "eta >= eta0"."""
        low, high = 1e-12, 1.0
        if not self.testable or self.safe(high) >= eta0:
            return 1.0
        for _ in range(60):
            middle = np.sqrt(low * high)
            low, high = (low, middle) if self.safe(middle) < eta0 else (middle, high)
        return float(high)

    def conflicts(self) -> Counter[tuple[int, int]]:
        """Labels (own, those among which the image lands), counts added over repeats."""
        return sum((r.conflicts for r in self.repeats), Counter())

    def by_element(self) -> dict[int, tuple[int, int]]:
        """Tuples and disagreements of every listed element, added over repeats."""
        out: dict[int, tuple[int, int]] = {}
        for r in self.repeats:
            for g in np.unique(r.elements).tolist():
                mine = r.elements == g
                tuples, wrong = out.get(g, (0, 0))
                out[g] = tuples + int(mine.sum()), wrong + int((r.across[mine] > 0).sum())
        return out

    def detectable(self, alpha: float) -> float:
        """About the smallest violation rate that would be found four times in five.

        Violations that are spread evenly turn agreement across the map into disagreement: the share
        of tuples with (0, 0) that become (1, 0), and of those with (0, 1) that become (1, 1), is
        the rate. The shares are those that were seen.
        """
        m = max(self.n_tuples, 1)
        seen = [_shares(r) for r in self.repeats if len(r.far)]
        only, other, neither = np.median(seen, axis=0) if seen else (0.0, 0.0, 1.0)
        level = alpha if len(self.repeats) == 1 else alpha / 2
        for eta in np.linspace(0.005, 1.0, 200):
            more, less = only + eta * neither, other * (1 - eta)
            total = max(1, round(m * (more + less)))
            needed = stats.binom.isf(level, total, 0.5) + 1
            if stats.binom.sf(needed - 1, total, more / (more + less)) >= 0.8:
                return float(eta)
        return 1.0


def _shares(repeat: Repeat) -> tuple[float, float, float]:
    """Shares of tuples that disagree more across the map, more naturally, and nowhere."""
    across, natural = repeat.across, repeat.natural
    nowhere = float(((across == 0) & (natural == 0)).mean())
    return float((across > natural).mean()), float((across < natural).mean()), nowhere


def label_test(
    features: FloatArray,
    y: Any,
    move: Mover,
    *,
    clusters: Any = None,
    k: int = 10,
    n_repeats: int = 5,
    max_rows: int = 4000,
    rng: np.random.Generator,
    hook: Callable[[Tuples], None] | None = None,
) -> LabelTest:
    """Run the repeats; ``hook`` sees every set of tuples (before any label is looked at).

    ``y`` are class numbers (integers) or numbers (floats).
    """
    groups = np.arange(len(features)) if clusters is None else clusters
    streams = rng.spawn(n_repeats)
    fixed = one_per_cluster(groups, rng)
    all_rows = len(fixed) == len(features) <= max_rows
    whole = geometry(features[fixed], k) if all_rows and len(fixed) > 2 else None
    repeats = []
    for stream in streams:
        pick = fixed if whole is not None else one_per_cluster(groups, stream)[:max_rows]
        if len(pick) < 3:
            break
        geo = geometry(features[pick], k) if whole is None else whole
        repeats.append(_repeat(geo, y, pick, *move(pick, stream), stream, hook))
    return LabelTest(tuple(repeats) or (_nothing(),))


def _repeat(
    geo: Geometry,
    labels: Any,
    pick: IntArray,
    moved: FloatArray,
    element: IntArray,
    rng: np.random.Generator,
    hook: Callable[[Tuples], None] | None,
) -> Repeat:
    y = labels[pick]
    usable = (moved != geo.features).any(axis=1)
    lands = landing(geo, moved)
    passes = []
    for far in (True, False):
        coins = rng.random(len(y)) < 0.5
        passes.append(match(geo, moved, lands, usable, coins, far=far))
        if hook is not None:
            hook(passes[-1])
    loss, scale = _loss(y)
    (far_pass, across, natural), (near_pass, near_across, near_natural) = (
        (t, loss(t.i, t.j), np.where(t.q >= 0, loss(t.c, t.q), 0.0)) for t in passes
    )
    own, other = y[far_pass.i], y[far_pass.j]
    both = tuple(zip(own.tolist(), other.tolist()))
    clash = Counter(pair for pair, differs in zip(both, across > 0) if differs)
    return Repeat(
        far_pass, near_pass, across, natural, near_across, near_natural,
        testable(geo, lands, usable), float((~usable).mean()), scale, clash, element[far_pass.i],
        pick, both,
    )  # fmt: skip


def _loss(y: Any) -> tuple[Callable[[IntArray, IntArray], FloatArray], float]:
    if y.dtype.kind != "f":
        return lambda a, b: (y[a] != y[b]).astype(np.float64), 1.0
    variance = float(y.var()) or 1.0
    largest = float(np.ptp(y) ** 2 / (2 * variance))
    return lambda a, b: (y[a] - y[b]) ** 2 / (2 * variance), largest if largest != 1.0 else 1 + 1e-9


def _nothing() -> Repeat:
    none, empty = np.zeros(0, dtype=np.int64), np.zeros(0)
    tuples = Tuples(none, none, none, none, empty)
    return Repeat(tuples, tuples, empty, empty, empty, empty, 0.0, 0.0)


def _upper(values: Sequence[float]) -> float:
    """The median; of an even number of values the larger middle one."""
    return float(np.sort(values)[len(values) // 2])


def _cp_low(successes: int, trials: int, tail: float) -> float:
    return float(stats.beta.ppf(tail, successes, trials - successes + 1)) if successes else 0.0


def _cp_up(successes: int, trials: int, tail: float) -> float:
    if successes == trials:
        return 1.0
    return float(stats.beta.ppf(1 - tail, successes + 1, trials - successes))


def _mean_bound(values: FloatArray, least: float, most: float, tail: float) -> tuple[float, float]:
    """Bounds of the mean of bounded values by empirical Bernstein (Maurer and Pontil 2009)."""
    n = len(values)
    if n < 2:
        return least, most
    log = np.log(2 / tail)
    half = np.sqrt(2 * values.var(ddof=1) * log / n) + 7 * (most - least) * log / (3 * (n - 1))
    mean = float(values.mean())
    return max(least, mean - float(half)), min(most, mean + float(half))
