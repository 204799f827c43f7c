"""Intervals of the audit: exact for shares, paired draws of rows for money.

Every mean and every difference of means on the same rows is drawn with the same draws, so that
intervals of differences are paired.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from counterplay.auditing.quantity import Basis, Quantity, weakest
from counterplay.core.seeds import derive_seed
from counterplay.core.stats import clopper_pearson
from counterplay.core.validation import BoolArray, FloatArray

DRAWS = 2000
LEVEL = 0.95
LEAST_GROUP = 30  # rows below which a group has counts only
_CELLS = 1 << 22  # draws x rows at once
_MANY, _PER_VALUE = 5000, 10  # rows, and rows per different line, from which lines are counted


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Draws of rows with replacement, the same for every quantity.

    Parameters
    ----------
    n
        Number of rows.
    seed
        Seed of the draws.
    draws
        Number of draws.

    Examples
    --------
    >>> boot = Bootstrap(100, 0)
    >>> low, high = boot.interval(np.repeat([0.0, 1.0], 50))
    >>> 0.39 < low < 0.42 < 0.58 < high < 0.61
    True
    """

    n: int
    seed: int
    draws: int = DRAWS

    def means(self, values: FloatArray) -> FloatArray:
        """Return the mean of each column of ``values`` (rows first) in every draw."""
        table = np.asarray(values, dtype=np.float64).reshape(self.n, -1)
        rng = np.random.default_rng(derive_seed("bootstrap", int(self.seed), self.n))
        if self.n > _MANY:
            # How often each different line is drawn is multinomial: the same law, without rows.
            lines, times = np.unique(table, axis=0, return_counts=True)
            if len(lines) * _PER_VALUE <= self.n:
                drawn = rng.multinomial(self.n, times / self.n, size=self.draws)
                return np.asarray(drawn @ lines / self.n, dtype=np.float64)
        out = np.empty((self.draws, table.shape[1]))
        step = max(1, _CELLS // max(1, self.n))
        for start in range(0, self.draws, step):
            size = min(step, self.draws - start)
            picked = rng.integers(0, self.n, size=(size, self.n))
            picked += np.arange(size)[:, None] * self.n
            times = np.bincount(picked.ravel(), minlength=size * self.n).reshape(size, self.n)
            out[start : start + size] = times @ table / self.n
        return out

    def interval(self, values: FloatArray, level: float = LEVEL) -> tuple[float, float]:
        """Return the interval of the mean of some values, one per row."""
        low, high = self.intervals(values, level)[0]
        return float(low), float(high)

    def intervals(self, values: FloatArray, level: float = LEVEL) -> FloatArray:
        """Return the interval of the mean of each column, one line each."""
        return ends(self.means(values), level)


def ends(means: FloatArray, level: float = LEVEL) -> FloatArray:
    """Return the lower and upper end of drawn means, one line per column."""
    tail = (1 - level) / 2
    found: FloatArray = np.quantile(means, [tail, 1 - tail], axis=0).T
    return found


@dataclass(frozen=True, eq=False)
class Decided:
    """Decisions on rows, where some may be bracketed: who is accepted for certain, who possibly.

    Parameters
    ----------
    sure
        Accepted by moves that were found and work.
    maybe
        Not proved to be rejected; equal to ``sure`` where the moves are exact.
    wanted
        Outcome of each row.
    cost_accept
        What accepting each row would cost if its outcome is bad.
    cost_reject
        What rejecting each row would cost if its outcome is good.
    """

    sure: BoolArray
    maybe: BoolArray
    wanted: BoolArray
    cost_accept: FloatArray
    cost_reject: FloatArray

    @cached_property
    def exact(self) -> bool:
        """Whether every decision is known."""
        return bool((self.sure == self.maybe).all())

    @property
    def basis(self) -> Basis:
        """What the decisions rest on."""
        return "exact" if self.exact else "found"

    def cost(self, accepted: BoolArray) -> FloatArray:
        """Return what some decisions cost, per row."""
        wrong = np.where(accepted, self.cost_accept * ~self.wanted, self.cost_reject * self.wanted)
        return np.asarray(wrong, dtype=np.float64)

    @cached_property
    def money(self) -> FloatArray:
        """Cost of each row with the moves that were found."""
        return self.cost(self.sure)

    @cached_property
    def money_ends(self) -> tuple[FloatArray, FloatArray]:
        """Least and largest cost of each row, bracketed rows counted both ways."""
        one, two = self.cost(self.sure), self.cost(self.maybe)
        return np.minimum(one, two), np.maximum(one, two)

    @cached_property
    def right(self) -> BoolArray:
        """Which decisions are right, with the moves that were found."""
        return np.asarray(self.sure == self.wanted, dtype=bool)


def share(hits: int, n: int, *, basis: Basis = "measured", **more: object) -> Quantity:
    """Return a share of rows with its exact binomial interval.

    Examples
    --------
    >>> str(share(750, 1000))
    '0.750 [0.722, 0.777]'
    """
    found = clopper_pearson(int(hits), int(n), LEVEL)
    return Quantity(
        value=found.estimate, low=found.low, high=found.high, unit="share",
        basis=weakest(["measured", basis]), n=int(n), **more,  # type: ignore[arg-type]
    )  # fmt: skip


def accuracy_of(decided: Decided) -> Quantity:
    """Return the accuracy of decisions: bracketed rows count both ways in its ends."""
    n, y = len(decided.wanted), decided.wanted
    unsure = decided.maybe & ~decided.sure
    hits = int(decided.right.sum())
    least = clopper_pearson(hits - int((unsure & ~y).sum()), n, LEVEL).low
    most = clopper_pearson(hits + int((unsure & y).sum()), n, LEVEL).high
    return Quantity(
        value=hits / n, low=least, high=most, unit="share",
        basis=weakest(["measured", decided.basis]), n=n, two_sided=not decided.exact,
    )  # fmt: skip


def money_of(decided: Decided, boot: Bootstrap, unit: str, assumes: tuple[str, ...]) -> Quantity:
    """Return the money of decisions per 1,000: bracketed rows count both ways in its ends."""
    low, high = decided.money_ends
    if decided.exact:
        bounds = 1000 * boot.intervals(decided.money)[0]
    else:
        drawn = 1000 * boot.intervals(np.column_stack([low, high]))
        bounds = np.array([drawn[0, 0], drawn[1, 1]])
    return Quantity(
        value=1000 * float(decided.money.mean()), low=float(bounds[0]), high=float(bounds[1]),
        unit=unit, basis=weakest(["measured", decided.basis]), n=boot.n, assumes=assumes,
        two_sided=not decided.exact,
    )  # fmt: skip


def difference_of(
    before: tuple[FloatArray, FloatArray, FloatArray],
    after: tuple[FloatArray, FloatArray, FloatArray],
    boot: Bootstrap,
    *,
    unit: str,
    basis: Basis,
    assumes: tuple[str, ...],
) -> Quantity:
    """Return the gain per 1,000 rows of going from one cost to another, paired on rows.

    Each side is (cost, least cost, largest cost) per row; the ends count brackets against and for
    the gain.
    """
    columns = np.column_stack([before[1] - after[2], before[0] - after[0], before[2] - after[1]])
    drawn = 1000 * boot.intervals(columns)
    return Quantity(
        value=1000 * float(columns[:, 1].mean()), low=float(drawn[0, 0]), high=float(drawn[2, 1]),
        unit=unit, basis=weakest(["measured", basis]), n=boot.n, assumes=assumes,
        two_sided=basis not in ("exact", "measured"),
    )  # fmt: skip
