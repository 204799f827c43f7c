"""Halving: predict with the majority of the hypotheses that are still possible."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.bits import Words, popcount
from counterplay.core.finite_class import FiniteClass
from counterplay.core.online.copyable import Labels, VersionSpaceLearner

_FEW = 32


@checked
class Halving(VersionSpaceLearner):
    """Majority vote of the version space; every mistake removes at least half of it.

    Use it when the class is finite and large, or when the Littlestone dimension is too expensive
    to compute for :class:`SOA`. Duplicated rows count twice; deduplicate the class first if that
    is not meant.

    Parameters
    ----------
    hypotheses:
        The class.
    tie:
        Label predicted when both labels have the same number of hypotheses.

    Notes
    -----
    Makes at most floor(log2 |H|) mistakes on every sequence realised by a member of the class.

    Examples
    --------
    >>> learner = Halving(FiniteClass.thresholds(range(127)))
    >>> truth = FiniteClass.thresholds(range(127)).labels[100]
    >>> sum(learner.update(x, int(truth[x])) for x in range(127)), learner.mistake_bound
    (3, 7)
    >>> first = Halving(FiniteClass.singletons(8))
    >>> second = first.updated(3, 1)      # a new learner; the first one is unchanged
    >>> first.predict(3), second.predict(3)
    (0, 1)

    References
    ----------
    Littlestone (1988), "Learning quickly when irrelevant attributes abound".
    """

    __slots__ = ("_size", "_table")

    def __init__(self, hypotheses: FiniteClass, *, tie: int = 0) -> None:
        super().__init__(hypotheses, tie=tie)
        self._table: Labels | None = None
        self._size: int = len(hypotheses)

    @property
    def mistake_bound(self) -> int:
        """floor(log2 |H|)."""
        return len(self.hypotheses).bit_length() - 1

    def table(self) -> Labels:
        """Predictions at all points of the class, computed once per state."""
        if self._table is None:
            if self._size <= _FEW:  # add up the rows that are left instead of counting bits
                rows = self.hypotheses.labels[np.flatnonzero(self.alive)]
                twice = 2 * rows.sum(axis=0, dtype=np.int64)
            else:
                twice = 2 * popcount(self.hypotheses.columns & self._alive)
            self._table = np.where(twice == self._size, self.tie, twice > self._size).astype(
                np.uint8
            )
            self._table.setflags(write=False)
        return self._table

    def _decide(self, words: Words) -> int:
        twice = 2 * int(popcount(words & self._alive))
        return self.tie if twice == self._size else int(twice > self._size)

    def _decide_point(self, point: int) -> int:
        if self._table is not None:
            return int(self._table[point])
        return self._decide(self.hypotheses.columns[point])

    def _decide_points(self, points: NDArray[np.int64]) -> Labels:
        labels: Labels = self.table()[points]
        return labels

    def _forget(self) -> None:
        self._table = None
        self._size = len(self)
