"""Upper bounds on the t-point attackable rate of the randomised wrappers, from clean data only.

Whatever the attacker adds, the clean blocks of a random partition are random subsets of the clean
rows, and a subsample without poison is a sample of them. Source: docs/theory/10-poisoning.md,
"Proposition 10.H: upper rates from clean data".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.seeds import RandomState, generator
from counterplay.core.stats import Interval
from counterplay.core.validation import BoolArray, check_open_fraction, check_positive_int
from counterplay.poisoning import bounds
from counterplay.poisoning.block_majority import BINARY, BlockMajority, SubsampleERM
from counterplay.poisoning.clean_rate import clean_block_hits, crossed_interval
from counterplay.poisoning.errors import TooFewSamplesError
from counterplay.poisoning.model import LabelledSet
from counterplay.poisoning.projected_majority import ProjectedMajority
from counterplay.poisoning.voting import collect_votes, fit_blocks


def certified_upper_rate(
    learner: BlockMajority | ProjectedMajority | SubsampleERM,
    S: LabelledSet,
    X_test: ArrayLike,
    truth: ArrayLike,
    *,
    n_permutations: int = 200,
    random_state: RandomState = None,
    confidence: float = 0.95,
) -> Interval:
    """Upper bound on the t-point attackable rate of a randomised wrapper, from clean data only.

    For block votes a point is wrong only if more clean blocks are wrong than the vote tolerates
    (4t, or 9t for the projected majority). The added rows can enlarge blocks by one row; both sizes
    are drawn, and a point counts if it is wrong with either. For a subsample it is the chance that
    poison is drawn plus the error of the base on a clean subsample. The interval is valid for
    finite numbers of draws and test points, with one trial per draw or per point, whichever are
    fewer: all points share the luck of a draw (see
    :func:`counterplay.poisoning.clean_rate.crossed_interval`).

    Parameters
    ----------
    learner:
        The wrapper with its base and budget; it need not be fitted. Points of a projected majority
        must be among the reference points of its projector for the bound to hold.
    S:
        Clean training rows.
    X_test:
        Test points.
    truth:
        Their true labels.
    n_permutations:
        Random partitions (or subsamples) to average over; the upper end of the interval is at
        least 3.7 / n_permutations.
    random_state:
        Seed of the draws.
    confidence:
        Level of the interval.

    Examples
    --------
    >>> from counterplay.poisoning.lab import MaxOpenInterval
    >>> S = LabelledSet(np.random.default_rng(0).random(330), np.zeros(330, int))
    >>> rate = certified_upper_rate(BlockMajority(MaxOpenInterval(), t=1), S,
    ...                             np.linspace(0, 1, 201), np.zeros(201),
    ...                             n_permutations=60, random_state=0)
    >>> rate.estimate < 0.03 < rate.high < 0.13
    True
    """
    points, labels = np.asarray(X_test), np.asarray(truth)
    rng = generator(random_state)
    runs = check_positive_int(n_permutations, "n_permutations")
    check_open_fraction(confidence, "confidence")
    if isinstance(learner, SubsampleERM):
        return _subsample_rate(learner, S, points, labels, runs, rng, confidence)
    count, m = learner.n_blocks, len(S)
    if m < count:
        raise TooFewSamplesError(f"{m} rows cannot fill {count} blocks; lower t or add rows")
    hits = clean_block_hits(
        lambda blocks: _wrong(learner.base, S, blocks, points, labels, rng),
        m, count, learner.t, learner.tolerated, runs, rng,
    )  # fmt: skip
    return crossed_interval(hits, confidence)


def _subsample_rate(
    learner: SubsampleERM,
    S: LabelledSet,
    points: Any,
    labels: Any,
    runs: int,
    rng: np.random.Generator,
    confidence: float,
) -> Interval:
    m, t = len(S), learner.t
    size = bounds.subsample_size(m + t, t, learner.eps)
    if size == 0:
        raise TooFewSamplesError(f"{m} rows give an empty subsample; use more rows or a larger eps")
    drawn = 1 - (m / (m + t)) ** size  # some draw is poison
    samples = [rng.integers(m, size=size) for _ in range(runs)]
    wrong = _wrong(learner.base, S, samples, points, labels, rng)
    span = crossed_interval(wrong, confidence)
    value, low, high = (drawn + (1 - drawn) * v for v in (span.estimate, span.low, span.high))
    return Interval(value, low, high, confidence)


def _wrong(
    base: Any, S: LabelledSet, blocks: Any, points: Any, labels: Any, rng: np.random.Generator
) -> BoolArray:
    """Which models of the blocks err at which points."""
    seeds = [int(s) for s in rng.integers(2**31, size=len(blocks))]
    models = fit_blocks(base, S.X, S.y, blocks, seeds)
    votes = collect_votes(models, points, BINARY)
    wrong: BoolArray = votes != labels[None, :]
    return wrong
