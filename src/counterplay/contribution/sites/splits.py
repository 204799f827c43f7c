"""Which rows of a site train and which are held out in a fit: a function of numbers only.

A site that measures alone, a site in a federation and a table of all sites cut the same rows, so
that their points are comparable.
Source: "Measuring", see docs/theory/23-consortium.md.
"""

from __future__ import annotations

import numpy as np

from counterplay.core.validation import IntArray

FOLDS = 4


def split_rows(
    seed: int, site: int, size: int, split: int, share: float, folds: int = FOLDS
) -> tuple[IntArray, IntArray]:
    """Positions of the training and of the held-out rows of one site.

    Parameters
    ----------
    seed
        Common to all sites.
    site
        Number of the site.
    size
        Rows that it owns.
    split
        Number of the split: every ``folds`` of them hold out each row once.
    share
        Part of the rows that are not held out; nested while the split stays the same.
    folds
        Parts of the rows.

    Examples
    --------
    >>> train, test = split_rows(0, 0, 8, 0, 0.5)
    >>> len(train), len(test), set(train) & set(test)
    (3, 2, set())
    """
    turn, fold = divmod(split, folds)
    parts = np.array_split(np.random.default_rng([seed, 3, turn, site]).permutation(size), folds)
    pool = np.concatenate([part for f, part in enumerate(parts) if f != fold])
    # a nested order that does not follow the folds; mixtures have a split of their own
    pool = np.random.default_rng([seed, 4, split, site]).permutation(pool)
    count = 0 if share <= 0 else max(1, round(share * len(pool)))
    return pool[:count], parts[fold]


def training_rows(size: int, split: int, share: float, folds: int = FOLDS) -> int:
    """How many rows a site of that size trains on in such a fit."""
    held = len(range(split % folds, size, folds))  # as numpy.array_split cuts: longer parts first
    return 0 if share <= 0 else max(1, round(share * (size - held)))
