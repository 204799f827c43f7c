"""Wrappers for a known poison budget t: random blocks, random subsamples, content-hash blocks.

At most t of 10t+1 random blocks contain poison, so a majority is wrong only where many clean blocks
are wrong. A subsample of an eps/(3t) fraction rarely contains poison at all. Content hashes give a
certificate per prediction. Source: docs/theory/10-poisoning.md, "Finite budgets (Algorithms 10.2,
10.3, I.2)" (section 10.5 of the thesis).
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.seeds import RandomState, derive_seed, generator
from counterplay.core.validation import (
    BoolArray,
    IntArray,
    check_int,
    check_open_fraction,
    check_positive_int,
)
from counterplay.core.votes import Vote, hash_blocks, random_blocks
from counterplay.errors import AssumptionWarning
from counterplay.poisoning import bounds
from counterplay.poisoning.errors import TooFewSamplesError
from counterplay.poisoning.model import BatchLearner, LabelledSet, Labels, Target
from counterplay.poisoning.voting import collect_votes, count_votes, fit_blocks

BINARY = np.array([0, 1], dtype=np.uint8)


class BlockMajority(BatchLearner):
    """Majority of models fitted on 10t+1 random blocks (improper).

    Use it around any learner when an attacker can add at most t rows, clean or not.

    Parameters
    ----------
    base:
        Any learner or scikit-learn classifier with labels 0 and 1.
    t:
        The poison budget; it must be known.
    d:
        VC dimension of the class, if known: a warning is given when blocks have fewer than 2d rows.
    random_state:
        Seed of the permutation.

    Notes
    -----
    Guaranteed: a point is wrong only if at least 4t+1 clean blocks are wrong there; attackable rate
    at most eps after :meth:`sample_size` rows. The permutation is redrawn with every fit, so there
    is no certificate per point; see :class:`HashPartitionAggregation` for that.

    Examples
    --------
    >>> from counterplay.poisoning.lab import MaxOpenInterval
    >>> X = np.random.default_rng(0).random(1100)
    >>> learner = BlockMajority(MaxOpenInterval(), t=1, random_state=0).fit(X, np.zeros(1100))
    >>> learner.n_blocks_, learner.block_size_, int(learner.predict(X).sum())
    (11, 100, 0)
    """

    randomised = True

    def __init__(
        self, base: Any, t: int, *, d: int | None = None, random_state: RandomState = None
    ) -> None:
        self.base = base
        self.t = check_positive_int(t, "t")
        self.d = d
        self.random_state = random_state

    @property
    def n_blocks(self) -> int:
        """The number of blocks, 10t+1."""
        return 10 * self.t + 1

    @property
    def tolerated(self) -> int:
        """Clean blocks that may be wrong at a point without the vote being wrong: 4t."""
        return 4 * self.t

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Shuffle, cut into blocks, drop the remainder, fit each block."""
        S = LabelledSet(np.asarray(X), np.asarray(y))
        self.n_blocks_ = self.n_blocks
        self.models_ = fit_random_blocks(self.base, S, self.n_blocks, self.random_state)
        self.block_size_ = len(S) // self.n_blocks
        if self.d is not None and self.block_size_ < 2 * self.d:
            warnings.warn(
                f"blocks of {self.block_size_} rows are too small for VC dimension {self.d}; "
                "the vote of such models means little",
                AssumptionWarning,
                stacklevel=2,
            )
        return self

    def votes(self, X: ArrayLike) -> IntArray:
        """Votes of the blocks, shape (blocks, points)."""
        return collect_votes(self.models_, np.asarray(X), BINARY)

    def vote_margin(self, X: ArrayLike) -> IntArray:
        """Votes for 1 minus votes for 0."""
        counts = count_votes(self.votes(X), 2)
        margin: IntArray = counts[:, 1] - counts[:, 0]
        return margin

    def predict(self, X: ArrayLike) -> Labels:
        """Majority of the blocks; their number is odd."""
        return (self.vote_margin(X) > 0).astype(np.uint8)

    def sample_size(self, eps: float, delta: float, d: int) -> int:
        """Rows that suffice for attackable rate eps with probability 1 - delta."""
        return bounds.block_majority_sample_size(self.t, d, eps, delta)


def fit_random_blocks(
    base: Any, S: LabelledSet, n_blocks: int, random_state: RandomState
) -> list[Any]:
    """Models of equal random blocks, the remainder dropped."""
    if len(S) < n_blocks:
        raise TooFewSamplesError(
            f"{len(S)} rows cannot fill {n_blocks} blocks; lower t or add rows"
        )
    rng = generator(random_state)
    blocks = list(random_blocks(len(S), n_blocks, random_state=rng))
    seeds = [int(s) for s in rng.integers(2**31, size=n_blocks)]
    return fit_blocks(base, S.X, S.y, blocks, seeds)


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
        self.base = base
        self.t = check_positive_int(t, "t")
        self.eps = check_open_fraction(eps, "eps")
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Draw rows with replacement and fit the base on them."""
        S = LabelledSet(np.asarray(X), np.asarray(y))
        self.m0_ = bounds.subsample_size(len(S), self.t, self.eps)
        if self.m0_ == 0:
            raise TooFewSamplesError(
                f"{len(S)} rows give an empty subsample; use more rows or a larger eps"
            )
        rng = generator(self.random_state)
        self.rows_: IntArray = rng.integers(len(S), size=self.m0_)
        blocks, seeds = [self.rows_], [int(rng.integers(2**31))]
        self.model_ = fit_blocks(self.base, S.X, S.y, blocks, seeds)[0]
        return self

    def predict(self, X: ArrayLike) -> Labels:
        """Labels of the fitted base."""
        return np.asarray(self.model_.predict(np.asarray(X))).astype(np.uint8)

    def sample_size(self, delta: float, d: int) -> int:
        """Rows that suffice for attackable rate eps with probability 1 - delta."""
        return bounds.subsample_sample_size(self.t, d, self.eps, delta)


class HashPartitionAggregation(BatchLearner):
    """Deep partition aggregation: content-hash blocks, majority vote, a certificate per point.

    Parameters
    ----------
    base:
        Any learner or classifier with labels 0 and 1.
    n_partitions:
        Number of blocks.
    include_label:
        Whether the label is part of the hashed content.
    decimals:
        Round features before hashing, so that near copies share a block.
    seed:
        Seed of the base models (fixed, so that equal blocks give equal models).

    Notes
    -----
    Guaranteed: inserting a row changes at most one vote, so a prediction survives t insertions if
    its lead is at least 2t (plus one if the other class wins ties). Empty blocks abstain. There is
    no bound on the rate: see :class:`BlockMajority`.

    Examples
    --------
    >>> from counterplay.poisoning.lab import MaxOpenInterval
    >>> X = np.random.default_rng(0).random(500)
    >>> learner = HashPartitionAggregation(MaxOpenInterval(), 11).fit(X, np.zeros(500))
    >>> learner.certified_budget([0.5]).tolist()
    [5]

    References
    ----------
    Levine and Feizi (2021), "Deep partition aggregation".
    """

    def __init__(
        self,
        base: Any,
        n_partitions: int,
        *,
        include_label: bool = False,
        decimals: int | None = None,
        seed: int = 0,
    ) -> None:
        self.base = base
        self.n_partitions = check_positive_int(n_partitions, "n_partitions")
        self.include_label = include_label
        self.decimals = decimals
        self.seed = check_int(seed, "seed", low=0)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Hash every row into its block and fit each block."""
        S = LabelledSet(np.asarray(X), np.asarray(y))
        # Rows of a block are ordered by content, so that the model does not depend on row order.
        order = np.lexsort((S.y, *S.X.reshape(len(S), -1).T[::-1]))
        X_sorted, y_sorted = S.X[order], S.y[order]
        labels = y_sorted if self.include_label else None
        part = hash_blocks(X_sorted, self.n_partitions, y=labels, decimals=self.decimals)
        blocks = list(part)
        seeds = [derive_seed("block", self.seed, i) % 2**31 for i in range(self.n_partitions)]
        self.models_ = fit_blocks(self.base, X_sorted, y_sorted, blocks, seeds)
        self.sizes_: IntArray = part.sizes
        return self

    def vote(self, X: ArrayLike) -> Vote:
        """Counts per point; ties go to label 0."""
        votes = collect_votes(self.models_, np.asarray(X), BINARY)
        counts = count_votes(votes, 2)
        return Vote(counts.argmax(axis=1).astype(np.int64), counts, BINARY)

    def predict(self, X: ArrayLike) -> Labels:
        """Majority of the blocks."""
        return np.asarray(self.vote(X).labels, dtype=np.uint8)

    def certified_budget(self, X: ArrayLike) -> IntArray:
        """Rows an attacker may insert without changing each prediction; -1 never occurs."""
        return self.vote(X).tolerance

    def certified(
        self, h_star: Target, S: LabelledSet, X: ArrayLike, budget: int | None = None
    ) -> BoolArray:
        """Points that are right and survive the budget."""
        if budget is None:
            return np.zeros(len(np.asarray(X)), dtype=np.bool_)
        right = self.predict(X) == np.asarray(h_star(X))
        safe: BoolArray = right & (self.certified_budget(X) >= budget)
        return safe
