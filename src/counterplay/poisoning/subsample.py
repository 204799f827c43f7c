"""SubsampleERM: one model on a sample so small that it rarely contains poison.

Source: Algorithm I.2; docs/theory/10-poisoning.md, "Theorem 10.15: subsampling" and "Proposition
10.H: upper rates from clean data".
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.stats import Interval
from counterplay.core.validation import IntArray, check_open_fraction, check_positive_int
from counterplay.poisoning import bounds
from counterplay.poisoning.block_fits import fit_blocks, report_failures
from counterplay.poisoning.clean_rate import CleanTrial, crossed_interval
from counterplay.poisoning.errors import TooFewSamplesError
from counterplay.poisoning.model import BatchLearner, LabelledSet, Labels, check_learner


@checked
class SubsampleERM(BatchLearner):
    """One model on a small random sample: proper, and rarely sees the poison.

    Parameters
    ----------
    base:
        Any learner or classifier; the answer is its own hypothesis.
    t:
        The poison budget.
    eps:
        The rate that is aimed at; it decides the sample size floor(m eps / (3t)).
    random_state:
        Seed of the draw, with replacement.

    Notes
    -----
    Guaranteed: no poison is drawn with probability at least 1 - eps/3.

    Examples
    --------
    >>> from counterplay.poisoning.lab import MinClosedInterval
    >>> X = np.linspace(0, 1, 3000)
    >>> SubsampleERM(MinClosedInterval(), t=1, eps=0.1, random_state=0).fit(X, X < 0.5).m0_
    100
    """

    randomised = True

    def __init__(self, base: Any, t: int, eps: float, *, random_state: RandomState = None) -> None:
        self.base = check_learner(base, "base")
        self.t = check_positive_int(t, "t")
        self.eps = check_open_fraction(eps, "eps")
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Draw rows with replacement and fit the base on them."""
        S = LabelledSet(np.asarray(X), np.asarray(y))
        self.m0_ = self._size(len(S))
        rng = generator(self.random_state)
        self.rows_: IntArray = rng.integers(len(S), size=self.m0_)
        blocks, seeds = [self.rows_], [int(rng.integers(2**31))]
        models = fit_blocks(self.base, S.X, S.y, blocks, seeds)
        report_failures(models)
        self.model_ = models[0]
        return self

    def predict(self, X: ArrayLike) -> Labels:
        """Labels of the fitted base."""
        return np.asarray(self.model_.predict(np.asarray(X))).astype(np.uint8)

    def sample_size(self, delta: float, d: int) -> int:
        """Rows that suffice for attackable rate eps with probability 1 - delta."""
        return bounds.subsample_sample_size(self.t, d, self.eps, delta)

    def certified_upper_rate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_test: ArrayLike,
        y_test: ArrayLike,
        *,
        n_permutations: int = 200,
        confidence: float = 0.95,
    ) -> Interval:
        """Upper bound on the rate of test points that t added rows can make wrong.

        The chance that poison is drawn, plus the error of the base on a clean subsample.
        """
        S, t = LabelledSet(np.asarray(X), np.asarray(y)), self.t
        m, rng = len(S), generator(self.random_state)
        size = self._size(m + t)
        drawn = 1 - (m / (m + t)) ** size  # some draw is poison
        runs = check_positive_int(n_permutations, "n_permutations")
        samples = [rng.integers(m, size=size) for _ in range(runs)]
        trial = CleanTrial(self.base, S.X, S.y, np.asarray(X_test), np.asarray(y_test))
        span = crossed_interval(trial.wrong(samples, rng), confidence)
        value, low, high = (drawn + (1 - drawn) * v for v in (span.estimate, span.low, span.high))
        return Interval(value, low, high, confidence)

    def _size(self, n_rows: int) -> int:
        size = bounds.subsample_size(n_rows, self.t, self.eps)
        if size == 0:
            raise TooFewSamplesError(
                f"{n_rows} rows give an empty subsample; use more rows or a larger eps"
            )
        return size
