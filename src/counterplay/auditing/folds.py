"""Folds for cross-fitting: a row's number comes from a model that did not see it.

Folds are stratified by outcome; rows of one group stay together; where rows have a time, a fold is
judged by a model of earlier rows only, and the first rows are judged by nobody.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from counterplay.core.seeds import derive_seed
from counterplay.core.validation import BoolArray, IntArray
from counterplay.errors import InvalidInputError

OUTER, INNER = 5, 3


@dataclass(frozen=True, eq=False)
class Folds:
    """Test rows and training rows of each fold.

    Parameters
    ----------
    test
        Positions of the rows that each fold judges; no row is judged twice.
    train
        Positions of the rows that its model is fitted on.
    n
        Number of rows.

    Examples
    --------
    >>> folds = make_folds(np.array([True, False] * 50), seed=0)
    >>> [len(rows) for rows in folds.test], bool((folds.of_row >= 0).all())
    ([20, 20, 20, 20, 20], True)
    """

    test: tuple[IntArray, ...]
    train: tuple[IntArray, ...]
    n: int

    def __len__(self) -> int:
        return len(self.test)

    @cached_property
    def of_row(self) -> IntArray:
        """Fold that judges each row; -1 where none does."""
        place = np.full(self.n, -1, dtype=np.int64)
        for k, rows in enumerate(self.test):
            place[rows] = k
        return place


def make_folds(
    wanted: BoolArray,
    *,
    k: int = OUTER,
    groups: NDArray[Any] | None = None,
    time: NDArray[Any] | None = None,
    seed: int = 0,
) -> Folds:
    """Return ``k`` folds: stratified, by whole groups, or in the order of time.

    Parameters
    ----------
    wanted
        Outcome of each row.
    k
        Number of folds; fewer where the rarer outcome has fewer rows.
    groups
        Rows of one group are on the same side; None if there are none.
    time
        Anything that can be sorted. Each fold is judged by a model of all earlier rows; rows of
        one time are not parted.
    seed
        Seed of the shuffle; time is never shuffled.
    """
    n, rarer = len(wanted), int(min(wanted.sum(), (~wanted).sum()))
    if rarer < 2:
        raise InvalidInputError(
            f"only {rarer} of {n} rows have the rarer outcome; cross-fitting needs two of each"
        )
    count = min(k, rarer)
    if time is not None:
        return _in_time(wanted, time, count)
    state = derive_seed("folds", int(seed)) % 2**31
    splitter: Any = (
        StratifiedKFold(count, shuffle=True, random_state=state)
        if groups is None
        else StratifiedGroupKFold(count, shuffle=True, random_state=state)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows of an outcome: said by the caller
        parts = list(splitter.split(np.zeros(n), wanted, groups))
    parts = [(a, b) for a, b in parts if len(b) and 0 < wanted[a].sum() < len(a)]
    if len(parts) < 2:
        raise InvalidInputError("too few groups with both outcomes for cross-fitting")
    return Folds(tuple(b for _, b in parts), tuple(a for a, _ in parts), n)


def inner_folds(
    folds: Folds,
    k: int,
    wanted: BoolArray,
    groups: NDArray[Any] | None,
    time: NDArray[Any] | None,
    seed: int,
) -> Folds:
    """Return folds inside the training rows of fold ``k``, as positions in the whole table."""
    rows = folds.train[k]
    part = make_folds(
        wanted[rows],
        k=INNER,
        groups=None if groups is None else groups[rows],
        time=None if time is None else time[rows],
        seed=derive_seed("inner", int(seed), k),
    )
    return Folds(tuple(rows[t] for t in part.test), tuple(rows[t] for t in part.train), folds.n)


def _in_time(wanted: BoolArray, time: NDArray[Any], k: int) -> Folds:
    """Cut the rows into k + 1 pieces in the order of time; each is judged by all before it."""
    moments, place = np.unique(time, return_inverse=True)
    place = place.reshape(-1)
    before = np.searchsorted(np.sort(place), np.arange(len(moments)))  # rows before each moment
    piece = np.minimum(before * (k + 1) // len(wanted), k)[place]
    test, train = [], []
    for j in range(1, k + 1):
        past, now = np.flatnonzero(piece < j), np.flatnonzero(piece == j)
        if len(now) and 0 < wanted[past].sum() < len(past):
            test.append(now)
            train.append(past)
    if not test:
        raise InvalidInputError("no earlier rows with both outcomes: the time column cannot order")
    return Folds(tuple(test), tuple(train), len(wanted))
