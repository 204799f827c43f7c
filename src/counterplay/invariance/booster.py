"""From "small error on average" to "small error with high probability".

Run a learner on several fresh samples and keep the result that does best on a validation sample.
Markov's inequality halves the chance of failure with each run. Source: appendix J.4 of the thesis;
docs/theory/11-invariance.md, "Proposition 11.C: confidence".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import check_open_fraction, check_real
from counterplay.invariance.bounds import booster_sizes
from counterplay.invariance.errors import SampleTooSmallError
from counterplay.invariance.learner import Learner


class ConfidenceBooster(Learner):
    """Boost the confidence of a learner whose expected error is at most d / (n + 1).

    Parameters
    ----------
    learner:
        An unfitted learner (:class:`OneInclusionInvariant`, ...).
    d:
        Its dimension: VCo, VCao or mu.
    eps:
        Wanted error.
    delta:
        Probability with which it may be exceeded.
    practical:
        Split the data at hand (30 % validation, the rest in equal folds) instead of insisting on
        the theoretical sizes; ``guaranteed_`` is then False.
    random_state:
        Seed of the split in practical mode.

    Notes
    -----
    L = ceil(log2(2/delta)) runs on ceil(4d/eps) fresh points each and a validation sample of
    ceil((32/eps)(ln(2/delta) + ln(L + 1))) points give error at most eps with probability
    1 - delta. The first of equally good runs is kept.

    Examples
    --------
    >>> from counterplay.invariance import instances
    >>> from counterplay.invariance.lab import OneInclusionInvariant
    >>> hard = instances.da_lower_bound(3, 1 / 64, random_state=0)
    >>> booster = ConfidenceBooster(OneInclusionInvariant(hard.problem), d=0, eps=0.2, delta=0.1)
    >>> X, y = hard.distribution.sample(booster.n_needed, 0)
    >>> hard.distribution.error_of(booster.fit(X, y))
    0.0
    """

    def __init__(
        self,
        learner: Any,
        d: float,
        eps: float = 0.1,
        delta: float = 0.05,
        practical: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.learner = learner
        self.group = learner.group
        self.d = check_real(d, "d", low=0.0)
        self.eps = check_open_fraction(eps, "eps")
        self.delta = check_open_fraction(delta, "delta")
        self.practical = practical
        self.random_state = random_state

    @property
    def n_needed(self) -> int:
        """Number of samples the guarantee needs."""
        runs, size, validation = booster_sizes(self.d, self.eps, self.delta)
        return runs * size + validation

    def fit(self, X: ArrayLike, y: ArrayLike) -> ConfidenceBooster:
        """Run, validate, choose."""
        points, labels = self._check_sample(X, y)
        runs, size, validation = booster_sizes(self.d, self.eps, self.delta)
        order = np.arange(len(points))
        if self.practical:
            order = generator(self.random_state).permutation(len(points))
            validation = max(1, math.ceil(0.3 * len(points)))
            size = (len(points) - validation) // runs
            if size < 0 or len(points) == 0:
                raise SampleTooSmallError("the sample is empty", needed=1)
        elif len(points) < self.n_needed:
            raise SampleTooSmallError(
                f"the guarantee needs {self.n_needed} samples, got {len(points)}; collect more, "
                "relax eps or delta, or use practical=True",
                needed=self.n_needed,
            )
        self.guaranteed_ = not self.practical
        held = order[runs * size : runs * size + validation]
        self.candidates_ = [
            self.learner.fresh().fit(points[block], labels[block])
            for block in (order[i * size : (i + 1) * size] for i in range(runs))
        ]
        self.errors_ = np.array(
            [validation_error(c, points[held], labels[held]) for c in self.candidates_]
        )
        self.chosen_ = int(np.argmin(self.errors_))
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int8]:
        """Labels of the chosen run."""
        points = self._check_fitted(X, "chosen_")
        return np.asarray(self.candidates_[self.chosen_].predict(points), dtype=np.int8)


def validation_error(learner: Any, points: NDArray[Any], labels: NDArray[Any]) -> float:
    """Share of wrong predictions; repeated points are asked for once.

    Examples
    --------
    >>> class Zero:
    ...     group = None
    ...     def predict(self, X): return np.zeros(len(X))
    >>> validation_error(Zero(), np.array([[1.0], [1.0], [2.0]]), np.array([1, 1, 0]))
    0.6666666666666666
    """
    if len(points) == 0:
        return 0.0
    distinct, position = np.unique(points, axis=0, return_inverse=True)
    predictions = np.asarray(learner.predict(distinct))[position.reshape(-1)]
    return float((predictions != labels).mean())
