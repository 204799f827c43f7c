"""BlockMajorityClassifier: random blocks and a plurality vote, with a bound on the attackable rate.

Source: Algorithm 10.2; docs/theory/10-poisoning.md, "Theorem 10.8: block majority".
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.seeds import RandomState, generator
from counterplay.core.stats import Interval
from counterplay.core.validation import BoolArray, IntArray
from counterplay.core.validation import check_positive_int as positive
from counterplay.core.votes import random_blocks
from counterplay.errors import InvalidInputError
from counterplay.poisoning.clean_rate import clean_block_hits, crossed_interval
from counterplay.poisoning.nearest_row import NearestRow
from counterplay.poisoning.voting import collect_votes, fit_blocks
from counterplay.poisoning.voting_classifier import VotingClassifier


class BlockMajorityClassifier(VotingClassifier):
    """Plurality vote of 10t+1 models fitted on random blocks: a bound on the attackable rate.

    Use it when the budget t is known and the average over predictions matters; for a certificate
    per prediction use :class:`PartitionClassifier`.

    Parameters
    ----------
    estimator:
        Any scikit-learn classifier; default: one nearest neighbour.
    t:
        Rows an attacker may add, clean or not.
    random_state:
        Seed of the permutation and the base models.
    n_jobs:
        Workers of joblib.

    Notes
    -----
    Guaranteed: a point is wrong only if at least 4t+1 models of clean blocks are wrong there;
    :meth:`certified_upper_rate` evaluates that on clean data. The number of blocks is never
    reduced: with fewer rows than blocks some are empty and abstain.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> pipe = make_pipeline(StandardScaler(), LogisticRegression())
    >>> model = BlockMajorityClassifier(pipe, t=1, random_state=0).fit(X[:400], y[:400])
    >>> model.n_blocks_, bool(model.score(X[400:], y[400:]) > 0.9)
    (11, True)
    """

    def __init__(
        self,
        estimator: Any = None,
        t: int = 1,
        *,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.t = t
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Shuffle, cut into 10t+1 equal blocks, drop the remainder, fit each block."""
        points, labels = self._validated(X, y)
        rng = generator(self.random_state)
        self.n_blocks_ = 10 * positive(self.t, "t") + 1
        blocks = _equal_blocks(len(labels), self.n_blocks_, rng)
        self.block_size_ = len(labels) // self.n_blocks_
        self._fit_models(self.estimator, points, labels, blocks, int(rng.integers(2**31)))
        return self

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

        Fits blocks of the clean data (X, y) for several permutations and counts the test points at
        which at least 4t+1 clean blocks are wrong. The interval counts one trial per permutation or
        per test point, whichever are fewer; its upper end is at least 3.7 / n_permutations.
        """
        points, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
        test, truth = np.asarray(X_test, dtype=np.float64), np.asarray(y_test)
        rng, t, m = generator(self.random_state), positive(self.t, "t"), len(labels)
        count = 10 * t + 1
        if m < count:
            raise InvalidInputError(f"{m} rows cannot fill {count} blocks; lower t or add rows")
        classes = np.unique(np.concatenate([labels, truth]))
        codes = np.searchsorted(classes, truth)

        def wrong(blocks: list[IntArray]) -> BoolArray:
            votes = self._clean_votes(points, labels, blocks, test, classes, rng)
            return np.asarray(votes != codes[None, :], dtype=np.bool_)

        # A class with more than half of the votes wins, whatever the others do.
        runs = positive(n_permutations, "n_permutations")
        return crossed_interval(clean_block_hits(wrong, m, count, t, 4 * t, runs, rng), confidence)

    def _clean_votes(
        self,
        X: NDArray[Any],
        y: NDArray[Any],
        blocks: list[IntArray],
        test: NDArray[Any],
        classes: NDArray[Any],
        rng: np.random.Generator,
    ) -> IntArray:
        base = NearestRow() if self.estimator is None else self.estimator
        seeds = [int(s) for s in rng.integers(2**31, size=len(blocks))]
        models = fit_blocks(base, X, y, blocks, seeds, self.n_jobs)
        return collect_votes(models, test, classes, self.n_jobs)


def _equal_blocks(n: int, count: int, rng: np.random.Generator) -> list[IntArray]:
    if n >= count:
        return list(random_blocks(n, count, random_state=rng))
    return list(random_blocks(n, sizes=[1] * n + [0] * (count - n), random_state=rng))
