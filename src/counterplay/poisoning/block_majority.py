"""BlockMajorityClassifier: random blocks and a plurality vote, with a bound on the attackable rate.

At most t of 10t+1 random blocks contain poison, so a majority is wrong only where many clean blocks
are wrong.

Source: Algorithm 10.2; docs/theory/10-poisoning.md, "Theorem 10.8: block majority".
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone

from counterplay.core.arguments import check_parameters
from counterplay.core.seeds import RandomState, generator
from counterplay.core.stats import Interval
from counterplay.core.validation import IntArray, check_size
from counterplay.core.validation import check_positive_int as positive
from counterplay.core.votes import random_blocks
from counterplay.poisoning.block_fits import fit_blocks
from counterplay.poisoning.clean_rate import CleanTrial, block_vote_rate
from counterplay.poisoning.voting import VotingClassifier

_MOST_BLOCKS = 1_000_000


class BlockMajorityClassifier(VotingClassifier):
    """Plurality vote of 10t+1 models fitted on random blocks: a bound on the attackable rate.

    Use it when the budget t is known and the average over predictions matters; for a certificate
    per prediction use :class:`PartitionClassifier`.

    Parameters
    ----------
    estimator:
        Any scikit-learn classifier, or a learner of :mod:`~counterplay.poisoning.lab`; default:
        one nearest neighbour.
    t:
        Rows an attacker may add, clean or not.
    random_state:
        Seed of the permutation and the base models.
    n_jobs:
        Workers of joblib.

    Notes
    -----
    Guaranteed: a point is wrong only if at least 4t+1 models of clean blocks are wrong there;
    :meth:`certified_upper_rate` evaluates that on clean data, and the attackable rate is at most
    eps after :func:`counterplay.poisoning.bounds.block_majority_sample_size` rows. The permutation
    is redrawn with every fit, so there is no certificate per point. The number of blocks is never
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

    References
    ----------
    "Finite budgets (Algorithms 10.2, 10.3, I.2)", Theorem 10.8, Proposition 10.H, see
    docs/theory/10-poisoning.md.
    """

    randomised = True

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

    def fit(self, X: Any, y: Any) -> Self:
        """Shuffle, cut into 10t+1 equal blocks, drop the remainder, fit each block."""
        check_parameters(self)
        found = self._accepted(X, y, None)
        self._warn_global(found.rows)
        rng = generator(self.random_state)
        self.n_blocks_ = 10 * positive(self.t, "t") + 1
        check_size(self.n_blocks_, _MOST_BLOCKS, "blocks")
        n = len(found.labels)
        blocks = _equal_blocks(n, self.n_blocks_, rng)
        self.block_size_ = n // self.n_blocks_
        seeds = self._seeds(len(blocks), int(rng.integers(2**31)))
        self._note_models(
            fit_blocks(self._base(), found.rows, found.labels, blocks, seeds, self.n_jobs)
        )
        return self

    def certified_upper_rate(
        self,
        X: Any,
        y: Any,
        X_test: Any,
        y_test: Any,
        *,
        n_permutations: int = 200,
        confidence: float = 0.95,
    ) -> Interval:
        """Upper bound on the rate of test points that t added rows can make wrong.

        Fits blocks of the clean data (X, y) for several permutations and counts the test points at
        which at least 4t+1 clean blocks are wrong. The interval counts one trial per permutation or
        per test point, whichever are fewer; its upper end is at least 3.7 / n_permutations.
        """
        guard = clone(self)
        found = guard._accepted(X, y, None)
        test = guard._rows(X_test)
        truth = guard._truth(y_test, len(test))
        trial = CleanTrial(self._base(), found.rows, found.labels, test, truth, self.n_jobs)
        t = positive(self.t, "t")
        # A class with more than half of the votes wins, whatever the others do.
        return block_vote_rate(
            trial, n_blocks=10 * t + 1, budget=t, tolerated=4 * t, draws=n_permutations,
            rng=generator(self.random_state), confidence=confidence,
        )  # fmt: skip


def _equal_blocks(n: int, count: int, rng: np.random.Generator) -> list[IntArray]:
    if n >= count:
        return list(random_blocks(n, count, random_state=rng))
    return list(random_blocks(n, sizes=[1] * n + [0] * (count - n), random_state=rng))
