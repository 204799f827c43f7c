"""Rates over random draws and test points together, with an interval that knows the table.

A rate of a randomised wrapper is estimated from a table: one row per draw (a permutation, a
subsample), one column per test point. Entries of a row share the draw and entries of a column the
point, so they are not independent trials, however many there are.
Source: docs/theory/10-poisoning.md, "Proposition 10.H: upper rates from clean data"; Hoeffding
(1963), "Probability inequalities for sums of bounded random variables", section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import rel_entr

from counterplay.core.stats import Interval
from counterplay.core.validation import (
    BoolArray,
    IntArray,
    check_fraction,
    check_open_fraction,
    check_positive_int,
)
from counterplay.core.votes import random_blocks
from counterplay.errors import InvalidInputError


def chernoff_interval(mean: float, trials: int, confidence: float = 0.95) -> Interval:
    """Interval for the expectation of independent values in [0, 1] with the given mean.

    All theta with trials * kl(mean, theta) <= ln(2 / (1 - confidence)); valid for every number of
    trials (Chernoff, Hoeffding 1963), a little wider than the exact one for coins.

    Examples
    --------
    >>> print(chernoff_interval(0.0, 100))
    0 [0, 0.03622]
    """
    n = check_positive_int(trials, "trials")
    centre = check_fraction(mean, "mean")
    level = np.log(2 / (1 - check_open_fraction(confidence, "confidence"))) / n

    def excess(theta: float) -> float:
        away = rel_entr(centre, theta) + rel_entr(1 - centre, 1 - theta)
        return float(min(away, 1e9) - level)

    low = brentq(excess, 0.0, centre, xtol=1e-14) if centre > 0 else 0.0
    high = brentq(excess, centre, 1.0, xtol=1e-14) if centre < 1 else 1.0
    return Interval(float(centre), float(low), float(high), confidence)


def crossed_interval(table: ArrayLike, confidence: float = 0.95) -> Interval:
    """Interval for the mean of a table of values in [0, 1] over draws (rows) and points (columns).

    Guaranteed: with independent draws and independent points the interval covers the expectation
    with the given confidence. The mean of the table is the average, over all ways to give
    n = min(draws, points) of the draws a point of their own, of the mean of n independent values.
    An average has no larger exponential moments than its parts (Jensen), so the bound of Chernoff
    holds with n trials. It also holds for points that are fixed.

    Examples
    --------
    >>> print(crossed_interval(np.zeros((100, 5000))))
    0 [0, 0.03622]
    """
    values = np.asarray(table, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise InvalidInputError(f"table must be draws by points, got shape {values.shape}")
    return chernoff_interval(float(values.mean()), min(values.shape), confidence)


def clean_block_hits(
    wrong: Callable[[list[IntArray]], BoolArray],
    n_rows: int,
    n_blocks: int,
    budget: int,
    tolerated: int,
    draws: int,
    rng: np.random.Generator,
) -> BoolArray:
    """Draws by points: whether more clean blocks are wrong than the vote tolerates.

    Whatever is added, the clean blocks are disjoint random parts of the clean rows. The added rows
    may make every block one row longer. An attacker chooses the length that suits him; being wrong
    in one of two independent draws, one of each length, is at least as likely as either.

    ``wrong`` tells for a list of blocks which of their models err at which points.
    """
    length = n_rows // n_blocks
    lengths = [length] + ([length + 1] if (n_rows + budget) // n_blocks > length else [])
    found: list[Any] = []
    for _ in range(draws):
        hit: Any = False
        for size in lengths:
            parts = [size] * min(n_blocks, n_rows // size)
            blocks = list(random_blocks(n_rows, sizes=parts, random_state=rng))
            hit = hit | (wrong(blocks).sum(axis=0) > tolerated)
        found.append(hit)
    return np.asarray(found, dtype=np.bool_)
