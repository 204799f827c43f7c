"""Rates over random draws and test points together, with an interval that knows the table.

A rate of a randomised wrapper is estimated from a table: one row per draw (a permutation, a
subsample), one column per test point. Entries of a row share the draw and entries of a column the
point, so they are not independent trials, however many there are.
Source: docs/theory/10-poisoning.md, "Proposition 10.H: upper rates from clean data"; Hoeffding
(1963), "Probability inequalities for sums of bounded random variables", section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
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
from counterplay.poisoning.block_fits import fit_blocks, report_failures
from counterplay.poisoning.block_votes import collect_votes
from counterplay.poisoning.errors import TooFewSamplesError
from counterplay.poisoning.training_rows import Rows, in_class_order, positions_of
from counterplay.tables.labels import as_labels


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


@dataclass(frozen=True)
class CleanTrial:
    """A base model, clean rows and test rows: which models err at which test rows?"""

    base: Any
    X: NDArray[Any] | Rows
    y: NDArray[Any]
    X_test: NDArray[Any] | Rows
    y_test: NDArray[Any]
    n_jobs: int | None = None

    def wrong(self, blocks: list[IntArray], rng: np.random.Generator) -> BoolArray:
        """Fit one model per block; blocks by test rows, whether the model is not right there."""
        seeds = [int(s) for s in rng.integers(2**31, size=len(blocks))]
        models = fit_blocks(self.base, self.X, self.y, blocks, seeds, self.n_jobs)
        report_failures(models)
        classes = as_labels(in_class_order({*self.y.tolist(), *self.y_test.tolist()}))
        votes = collect_votes(models, self.X_test, classes, self.n_jobs)
        wrong: BoolArray = votes != positions_of(self.y_test, classes)[None, :]
        return wrong


def block_vote_rate(
    trial: CleanTrial,
    *,
    n_blocks: int,
    budget: int,
    tolerated: int,
    draws: int,
    rng: np.random.Generator,
    confidence: float = 0.95,
) -> Interval:
    """Rate of test rows at which more clean blocks are wrong than a vote tolerates.

    Whatever is added, the clean blocks are disjoint random parts of the clean rows. The added rows
    may make every block one row longer. An attacker chooses the length that suits him; being wrong
    in one of two independent draws, one of each length, is at least as likely as either.
    """
    m = len(trial.y)
    if m < n_blocks:
        raise TooFewSamplesError(f"{m} rows cannot fill {n_blocks} blocks; lower t or add rows")
    length = m // n_blocks
    lengths = [length] + ([length + 1] if (m + budget) // n_blocks > length else [])
    found: list[Any] = []
    for _ in range(check_positive_int(draws, "n_permutations")):
        hit: Any = False
        for size in lengths:
            parts = [size] * min(n_blocks, m // size)
            blocks = list(random_blocks(m, sizes=parts, random_state=rng))
            hit = hit | (trial.wrong(blocks, rng).sum(axis=0) > tolerated)
        found.append(hit)
    return crossed_interval(np.asarray(found, dtype=np.bool_), confidence)
