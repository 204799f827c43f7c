"""Partitions of a sample into blocks, and the vote of the models fitted on them.

Random blocks have equal sizes and drop the remainder. Content-hash blocks depend on the row itself
and nothing else: not on its position, the other rows, the dtype or the sign of a zero. Inserting or
deleting a row therefore changes one block, and changes at most one vote. Ties are decided by an
explicit rule that the certificates know about.
Source: "Votes with certificates", see docs/theory/10-poisoning.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    BoolArray,
    IntArray,
    check_int,
    check_positive_int,
    check_size,
    shorten,
)
from counterplay.errors import InvalidInputError

_MOST_BLOCKS = 10_000_000
_MOST_ROWS = 100_000_000
Tie = Literal[0, 1, "raise"]


@checked(arrays=True)
@dataclass(frozen=True)
class Partition:
    """Which block each row belongs to; -1 for rows that were left out.

    Examples
    --------
    >>> blocks = random_blocks(10, 3, random_state=0)
    >>> blocks.sizes, blocks.n_dropped
    (array([3, 3, 3]), 1)
    """

    block: IntArray
    n_blocks: int

    def __post_init__(self) -> None:
        check_size(self.n_blocks, _MOST_BLOCKS, "blocks")
        if self.block.ndim != 1 or (self.block.size and self.block.max() >= self.n_blocks):
            raise InvalidInputError(
                f"block must give each row a number below {self.n_blocks}, "
                f"got {shorten(self.block)}"
            )
        self.block.setflags(write=False)

    def __len__(self) -> int:
        return self.n_blocks

    def __iter__(self) -> Iterator[IntArray]:
        """Row indices of each block, in increasing order."""
        order = np.argsort(self.block, kind="stable")
        ends = np.searchsorted(self.block[order], np.arange(self.n_blocks + 1))
        for start, stop in zip(ends[:-1], ends[1:]):
            yield order[start:stop].astype(np.int64)

    @property
    def sizes(self) -> IntArray:
        """Number of rows in each block."""
        kept = self.block[self.block >= 0]
        return np.bincount(kept, minlength=self.n_blocks).astype(np.int64)

    @property
    def n_dropped(self) -> int:
        """Number of rows in no block."""
        return int((self.block < 0).sum())


@checked
def random_blocks(
    n_rows: int,
    n_blocks: int | None = None,
    *,
    sizes: Sequence[int] | None = None,
    random_state: RandomState = None,
) -> Partition:
    """Cut a random permutation of the rows into blocks; the remainder is dropped.

    Give either ``n_blocks`` (all of size floor(n_rows / n_blocks)) or ``sizes``.

    Examples
    --------
    >>> int(random_blocks(23, 11, random_state=0).sizes.sum())
    22
    """
    n = check_int(n_rows, "n_rows", low=0)
    if (n_blocks is None) == (sizes is None):
        raise InvalidInputError("give either n_blocks or sizes")
    if sizes is None:
        count = check_positive_int(n_blocks, "n_blocks")
        if n < count:
            raise InvalidInputError(f"{n} rows cannot fill {count} blocks; use fewer blocks")
        lengths = np.full(count, n // count, dtype=np.int64)
    else:
        lengths = np.array([check_int(s, "sizes", low=0) for s in sizes], dtype=np.int64)
        if lengths.sum() > n:
            raise InvalidInputError(f"sizes sum to {lengths.sum()}, but there are {n} rows")
    check_size(n, _MOST_ROWS, "rows")
    order = generator(random_state).permutation(n)
    block = np.full(n, -1, dtype=np.int64)
    block[order[: lengths.sum()]] = np.repeat(np.arange(lengths.size), lengths)
    return Partition(block, lengths.size)


@checked(arrays=True)
@dataclass(frozen=True)
class Vote:
    """The outcome of a vote at each point.

    Attributes
    ----------
    winner:
        Position of the winning class; see ``classes``.
    counts:
        Votes per point and class.
    classes:
        The class labels; ties go to the one that comes first.
    """

    winner: IntArray
    counts: IntArray
    classes: NDArray[Any]

    def __post_init__(self) -> None:
        n, k = self.winner.size, self.classes.size
        if self.counts.shape != (n, k) or self.winner.ndim != 1 or self.classes.ndim != 1:
            raise InvalidInputError(
                f"counts must have one row per winner ({n}) and one column per class ({k}), "
                f"got shape {self.counts.shape}"
            )
        if n and not 0 <= self.winner.min() <= self.winner.max() < k:
            raise InvalidInputError(f"winner must be positions of the {k} classes")
        object.__setattr__(self, "counts", self.counts.astype(np.int64, copy=False))

    @property
    def labels(self) -> NDArray[Any]:
        """Winning label at each point."""
        labels: NDArray[Any] = self.classes[self.winner]
        return labels

    @property
    def top(self) -> IntArray:
        """Votes for the winner."""
        return np.take_along_axis(self.counts, self.winner[:, None], axis=1)[:, 0]

    @property
    def gap(self) -> IntArray:
        """Votes for the winner minus votes for the strongest other class."""
        others = self.counts.copy()
        np.put_along_axis(others, self.winner[:, None], -1, axis=1)
        runner_up = np.maximum(others.max(axis=1), 0)
        gap: IntArray = self.top - runner_up
        return gap

    @property
    def tolerance(self) -> IntArray:
        """Most votes that may be changed in any way without changing the winner.

        Changing a vote from the winner to class c lowers the difference by two, so t changes are
        harmless iff n_winner - n_c >= 2 t + [c wins ties] for every other class c.
        """
        n, k = self.counts.shape
        if k < 2:
            return np.full(n, np.iinfo(np.int64).max, dtype=np.int64)
        wins_ties = np.arange(k)[None, :] < self.winner[:, None]
        slack = (self.top[:, None] - self.counts - wins_ties) // 2
        np.put_along_axis(slack, self.winner[:, None], np.iinfo(np.int64).max, axis=1)
        tolerance: IntArray = slack.min(axis=1)
        return tolerance


@checked
def plurality(votes: ArrayLike, classes: ArrayLike | None = None) -> Vote:
    """Count votes of shape (voters, points); the class with most votes wins, first class on ties.

    Examples
    --------
    >>> vote = plurality([["a", "b"], ["a", "c"], ["c", "b"], ["a", "b"], ["a", "b"]])
    >>> vote.labels, vote.gap, vote.tolerance
    (array(['a', 'b'], dtype='<U1'), array([3, 3]), array([1, 1]))
    """
    table = np.asarray(votes)
    if table.ndim != 2 or table.shape[0] == 0:
        raise InvalidInputError(f"votes must be (voters, points) with voters, got {table.shape}")
    known = np.unique(table) if classes is None else np.asarray(classes)
    if np.unique(known).size != known.size or known.ndim != 1:
        raise InvalidInputError("classes must be a list of different labels")
    order = np.argsort(known, kind="stable")
    position = np.searchsorted(known, table, sorter=order)
    position = order[np.minimum(position, known.size - 1)]
    wrong = known[position] != table
    if wrong.any():
        raise InvalidInputError(f"vote {table[wrong][0]!r} is not among the classes")
    counts = np.zeros((table.shape[1], known.size), dtype=np.int64)
    for c in range(known.size):
        counts[:, c] = (position == c).sum(axis=0)
    return Vote(counts.argmax(axis=1).astype(np.int64), counts, known)


@checked
def majority(votes: ArrayLike, *, tie: Tie = 1) -> BoolArray:
    """Majority of 0/1 votes of shape (voters, points), with an explicit rule for ties.

    Examples
    --------
    >>> majority([[1, 0, 1], [0, 0, 1]], tie=0)
    array([False, False,  True])
    """
    twice, n = _twice_ones(votes)
    tied = twice == n
    if tie == "raise":
        if tied.any():
            raise InvalidInputError(f"the vote at point {int(np.argmax(tied))} is a tie")
        return twice > n
    result: BoolArray = np.where(tied, check_int(tie, "tie", low=0, high=1) == 1, twice > n)
    return result


@checked
def margins(votes: ArrayLike) -> IntArray:
    """Votes for 1 minus votes for 0 at each point.

    Examples
    --------
    >>> margins([[1, 0], [1, 0], [0, 0]])
    array([ 1, -3])
    """
    twice, n = _twice_ones(votes)
    return twice - n


@checked
def minority_counts(votes: ArrayLike) -> IntArray:
    """Number of voters on the smaller side at each point.

    Examples
    --------
    >>> minority_counts([[1, 0], [1, 0], [0, 0]])
    array([1, 0])
    """
    twice, n = _twice_ones(votes)
    return np.minimum(twice // 2, n - twice // 2)


def _twice_ones(votes: ArrayLike) -> tuple[IntArray, int]:
    table = np.asarray(votes)
    if table.ndim != 2 or table.shape[0] == 0:
        raise InvalidInputError(f"votes must be (voters, points) with voters, got {table.shape}")
    if not np.isin(table, (0, 1)).all():
        raise InvalidInputError("votes must contain only 0 and 1")
    return 2 * table.astype(np.int64).sum(axis=0), table.shape[0]
